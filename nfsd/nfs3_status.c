/* nfs3_status.c - errno to nfsstat3, in one table. */
#include "nfsd/nfs3.h"

static const struct {
	int err;
	enum nfs3_stat stat;
} table[] = {
    {EPERM, NFS3ERR_PERM},
    {ENOENT, NFS3ERR_NOENT},
    {EIO, NFS3ERR_IO},
    {ENXIO, NFS3ERR_NXIO},
    {EACCES, NFS3ERR_ACCES},
    {EEXIST, NFS3ERR_EXIST},
    {EXDEV, NFS3ERR_XDEV},
    {ENODEV, NFS3ERR_NODEV},
    {ENOTDIR, NFS3ERR_NOTDIR},
    {EISDIR, NFS3ERR_ISDIR},
    {EINVAL, NFS3ERR_INVAL},
    {EFBIG, NFS3ERR_FBIG},
    {ENOSPC, NFS3ERR_NOSPC},
    {EROFS, NFS3ERR_ROFS},
    {EMLINK, NFS3ERR_MLINK},
    {ENAMETOOLONG, NFS3ERR_NAMETOOLONG},
    {ENOTEMPTY, NFS3ERR_NOTEMPTY},
    {EDQUOT, NFS3ERR_DQUOT},
    {ESTALE, NFS3ERR_STALE},
    {EOPNOTSUPP, NFS3ERR_NOTSUPP},
    {ENOMEM, NFS3ERR_JUKEBOX},
    {EAGAIN, NFS3ERR_JUKEBOX},
    {ERR_CKSUM, NFS3ERR_IO},
    {ERR_CORRUPT, NFS3ERR_IO},
    {ERR_SUSPENDED, NFS3ERR_JUKEBOX},
    {ERR_BADHANDLE, NFS3ERR_BADHANDLE},
    {ERR_NOTSYNC, NFS3ERR_NOT_SYNC},
    {ERR_BADCOOKIE, NFS3ERR_BAD_COOKIE},
    {ERR_TOOSMALL, NFS3ERR_TOOSMALL},
};

enum nfs3_stat
nfs3_status(int err)
{
	if (err == 0) {
		return NFS3_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (table[i].err == -err) {
			return table[i].stat;
		}
	}
	log_limited(LOG_WARN, "nfs-unmapped-error err=%d text=%s", err, err_str(err));
	return NFS3ERR_SERVERFAULT;
}
