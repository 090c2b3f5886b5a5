/* name.c - names: bytes, 1 to 255 of them, no slash and no NUL. Their hash orders a directory. */
#include <sodium.h>
#include "fs/fs_int.h"

STATIC_ASSERT(crypto_shorthash_siphashx24_KEYBYTES == 16);
STATIC_ASSERT(crypto_shorthash_siphashx24_BYTES == 16);

int
name_check(const char *name, uint32_t len)
{
	if (len > FS_NAME_MAX) {
		return -ENAMETOOLONG;
	}
	if (len == 0 || memchr(name, '/', len) != NULL || memchr(name, 0, len) != NULL) {
		return -EACCES;
	}
	return 0;
}

bool
name_is_dots(const char *name, uint32_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

int
name_check_new(const char *name, uint32_t len)
{
	int err = name_check(name, len);
	return err == 0 && (name_is_dots(name, len) || fs_name_is_snapdir(name, len)) ? -EEXIST
										      : err;
}

/* The key leaves room behind it, so that the next free one never runs out of bits. */
void
name_init(const struct fs_ds *ds, const char *bytes, uint32_t len, struct fs_name *out)
{
	struct le64 half[2];
	(void)crypto_shorthash_siphashx24(
	    (unsigned char *)half, (const unsigned char *)bytes, len, ds->hash_key);
	uint64_t key = le64_get(half[0]) >> (64 - ds->hash_bits);
	uint64_t last = ((uint64_t)1 << ds->hash_bits) - 1;
	if (last > DIR_PROBE_MAX && key > last - DIR_PROBE_MAX) {
		key -= DIR_PROBE_MAX;
	}
	out->bytes = bytes;
	out->len = len;
	out->key = MAX(key, DIR_KEY_MIN);
	out->tag = le64_get(half[1]);
}
