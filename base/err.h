/*
 * err.h - one error convention: int, 0 or a negative errno. Storage conditions that errno has no
 * name for get numbers no errno uses. Errors travel up untouched; the room that decides logs, once.
 */
#ifndef AGATE_BASE_ERR_H
#define AGATE_BASE_ERR_H

enum agate_err {
	ERR_CKSUM = 3001,     /* read well, but no combination of columns gives the right checksum */
	ERR_CORRUPT = 3002,   /* a structure on a drive or on the wire contradicts itself */
	ERR_DEGRADED = 3003,  /* written, but not on every column; the report says which */
	ERR_SUSPENDED = 3004, /* the pool has lost more than its layout survives; nothing was changed */
	ERR_GONE = 3005,      /* the drive has vanished */
	ERR_CRASHED = 3006,   /* simulation only: the power was cut */
	ERR_FEATURE = 3007,   /* an on-disk feature this firmware doesn't know */
	ERR_ACTIVE = 3008,    /* the pool seems to be in use by another host */
	ERR_BADHANDLE = 3009, /* a file handle that doesn't authenticate or doesn't parse */
	ERR_NOTSYNC = 3010,   /* SETATTR guard did not match (RFC 1813 3.3.2) */
	ERR_BADCOOKIE = 3011, /* a directory cookie that can't be interpreted */
	ERR_TOOSMALL = 3012,  /* the caller's limit is too small for one entry */
};

/* A short text for a positive or negative error number, of errno or of the list above. Static. */
const char *err_str(int err);

#endif
