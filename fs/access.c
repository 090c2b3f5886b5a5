/*
 * access.c - who may do what. POSIX mode bits with the credential the request came with (squashing
 * has been done by nfsd). uid 0 may do all but execute what nobody may. For I/O the owner is let
 * through whatever the mode says, because a stateless server sees the WRITE but not the open that
 * allowed it (RFC 1813 4.4).
 */
#include "fs/fs_int.h"

bool
cred_in_group(const struct fs_cred *cred, uint32_t gid)
{
	if (cred->gid == gid) {
		return true;
	}
	for (uint32_t i = 0; i < cred->group_count && i < FS_GROUPS_MAX; i++) {
		if (cred->groups[i] == gid) {
			return true;
		}
	}
	return false;
}

/* PERM_READ, PERM_WRITE, PERM_EXEC as the mode bits give them. */
static uint32_t
perm_of(const struct fs_attr *a, const struct fs_cred *cred)
{
	if (cred->uid == 0) {
		bool exec = a->type == FS_DIR || (a->mode & 0111) != 0;
		return PERM_READ | PERM_WRITE | (exec ? PERM_EXEC : 0);
	}
	if (cred->uid == a->uid) {
		return (a->mode >> 6) & 7;
	}
	if (cred_in_group(cred, a->gid)) {
		return (a->mode >> 3) & 7;
	}
	return a->mode & 7;
}

int
perm_check(const struct fs_attr *a, const struct fs_cred *cred, uint32_t want)
{
	if ((want & PERM_OWNER) != 0 && cred->uid == a->uid) {
		return 0;
	}
	want &= PERM_READ | PERM_WRITE | PERM_EXEC;
	return (perm_of(a, cred) & want) == want ? 0 : -EACCES;
}

int
perm_dir_change(const struct fs_attr *dir, const struct fs_cred *cred)
{
	return perm_check(dir, cred, PERM_WRITE | PERM_EXEC);
}

/* In a sticky directory only its owner and the owner of the entry may take it out. */
int
perm_delete(const struct fs_attr *dir, const struct fs_attr *child, const struct fs_cred *cred)
{
	int err = perm_dir_change(dir, cred);
	if (err != 0 || (dir->mode & MODE_STICKY) == 0 || cred->uid == 0 || cred->uid == dir->uid ||
	    cred->uid == child->uid || DELIBERATE_BUG("fs-sticky-ignored")) {
		return err;
	}
	return -EPERM;
}

uint32_t
mode_after_write(uint32_t mode, const struct fs_cred *cred)
{
	if (cred->uid == 0 || DELIBERATE_BUG("fs-suid-kept")) {
		return mode;
	}
	mode &= ~MODE_SUID;
	/* set-gid without group execute means mandatory locking, not privilege */
	return (mode & 010) != 0 ? mode & ~MODE_SGID : mode;
}

uint32_t
fs_access(struct fs_node *n, const struct fs_cred *cred, uint32_t want)
{
	struct fs_attr a;
	fs_getattr(n, &a);
	uint32_t perm = perm_of(&a, cred), have = 0;
	if ((perm & PERM_READ) != 0) {
		have |= FS_ACCESS_READ;
	}
	if ((perm & PERM_WRITE) != 0 && !fs_ds_is_readonly(fs_node_ds(n))) {
		have |= FS_ACCESS_MODIFY | FS_ACCESS_EXTEND;
		have |= a.type == FS_DIR && (perm & PERM_EXEC) != 0 ? FS_ACCESS_DELETE : 0;
	}
	if ((perm & PERM_EXEC) != 0) {
		have |= a.type == FS_DIR ? FS_ACCESS_LOOKUP : FS_ACCESS_EXECUTE;
	}
	return have & want;
}
