/* err.c - names for error numbers. A table for ours; errno's own texts come from the C library. */
#include <string.h>
#include "base/err.h"
#include "base/compiler.h"

static const char *const storage_text[] = {
    [ERR_CKSUM - ERR_CKSUM] = "checksum mismatch",
    [ERR_CORRUPT - ERR_CKSUM] = "structure is damaged",
    [ERR_DEGRADED - ERR_CKSUM] = "written with columns missing",
    [ERR_SUSPENDED - ERR_CKSUM] = "pool is suspended",
    [ERR_GONE - ERR_CKSUM] = "drive has vanished",
    [ERR_CRASHED - ERR_CKSUM] = "power was cut",
    [ERR_FEATURE - ERR_CKSUM] = "unknown on-disk feature",
    [ERR_ACTIVE - ERR_CKSUM] = "pool is in use by another host",
    [ERR_BADHANDLE - ERR_CKSUM] = "bad file handle",
    [ERR_NOTSYNC - ERR_CKSUM] = "attributes changed meanwhile",
    [ERR_BADCOOKIE - ERR_CKSUM] = "bad directory cookie",
    [ERR_TOOSMALL - ERR_CKSUM] = "limit too small for one entry",
};

const char *
err_str(int err)
{
	if (err == 0) {
		return "success";
	}
	/* The unsigned negation is defined for INT_MIN too. */
	unsigned n = err < 0 ? 0u - (unsigned)err : (unsigned)err;
	unsigned base = ERR_CKSUM;
	if (n >= base && n - base < ARRAY_LEN(storage_text)) {
		return storage_text[n - base];
	}
	const char *text = strerrordesc_np((int)n);
	return text != NULL ? text : "unknown error";
}
