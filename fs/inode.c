/* inode.c - an inode between its 192 bytes and its struct. Decoding is the one place that trusts
 * nothing of them. */
#include "fs/fs_int.h"

enum object_type
inode_object_type(enum fs_type type)
{
	switch (type) {
	case FS_REG:
		return OBJ_FILE;
	case FS_DIR:
		return OBJ_DIR;
	case FS_LNK:
		return OBJ_SYMLINK;
	case FS_BLK:
	case FS_CHR:
	case FS_SOCK:
	case FS_FIFO:
		return OBJ_SPECIAL;
	}
	return OBJ_FREE;
}

static struct fs_time
time_get(struct le64 sec, struct le32 nsec)
{
	return (struct fs_time){.sec = (int64_t)le64_get(sec), .nsec = le32_get(nsec)};
}

static bool
times_valid(const struct fs_inode *i)
{
	return i->atime.nsec <= NSEC_MAX && i->mtime.nsec <= NSEC_MAX &&
	       i->ctime.nsec <= NSEC_MAX && i->btime.nsec <= NSEC_MAX;
}

static bool
tree_valid(const struct fs_inode *i)
{
	if (i->dir_height > DIR_HEIGHT_MAX || i->dir_probe > DIR_PROBE_MAX ||
	    i->dir_free > i->dir_blocks || i->dir_blocks > FS_SIZE_MAX / DIR_NODE_BYTES) {
		return false;
	}
	return i->dir_height == 0 ? i->dir_entries == 0 : i->dir_root < i->dir_blocks;
}

int
inode_decode(const void *bonus, enum object_type obj_type, struct fs_inode *out)
{
	const struct inode_phys *p = bonus;
	if (p->version != INODE_VERSION || p->type < FS_REG || p->type > FS_FIFO ||
	    inode_object_type((enum fs_type)p->type) != obj_type) {
		return -ERR_CORRUPT;
	}
	struct fs_inode i = {.type = (enum fs_type)p->type,
	    .mode = le16_get(p->mode),
	    .uid = le32_get(p->uid),
	    .gid = le32_get(p->gid),
	    .nlink = le32_get(p->nlink),
	    .project = le32_get(p->project),
	    .flags = le32_get(p->flags),
	    .size = le64_get(p->size),
	    .change = le64_get(p->change),
	    .parent = le64_get(p->parent),
	    .parent_gen = le64_get(p->parent_gen),
	    .rdev_major = le32_get(p->rdev_major),
	    .rdev_minor = le32_get(p->rdev_minor),
	    .atime = time_get(p->atime_sec, p->atime_nsec),
	    .mtime = time_get(p->mtime_sec, p->mtime_nsec),
	    .ctime = time_get(p->ctime_sec, p->ctime_nsec),
	    .btime = time_get(p->btime_sec, p->btime_nsec),
	    .dir_root = le64_get(p->dir_root),
	    .dir_free = le64_get(p->dir_free),
	    .dir_blocks = le64_get(p->dir_blocks),
	    .dir_entries = le64_get(p->dir_entries),
	    .dir_probe = le32_get(p->dir_probe),
	    .dir_height = p->dir_height,
	    .xattr_object = le64_get(p->xattr_object)};
	memcpy(i.verf, p->verf, sizeof(i.verf));
	if (i.mode > 07777 || i.nlink == 0 || i.nlink > FS_LINKS_MAX || i.size > FS_SIZE_MAX ||
	    !times_valid(&i) || !tree_valid(&i)) {
		return -ERR_CORRUPT;
	}
	*out = i;
	return 0;
}

void
inode_encode(const struct fs_inode *i, void *bonus)
{
	struct inode_phys p = {.version = INODE_VERSION,
	    .type = (uint8_t)i->type,
	    .mode = le16_of((uint16_t)i->mode),
	    .uid = le32_of(i->uid),
	    .gid = le32_of(i->gid),
	    .nlink = le32_of(i->nlink),
	    .project = le32_of(i->project),
	    .flags = le32_of(i->flags),
	    .size = le64_of(i->size),
	    .change = le64_of(i->change),
	    .parent = le64_of(i->parent),
	    .parent_gen = le64_of(i->parent_gen),
	    .rdev_major = le32_of(i->rdev_major),
	    .rdev_minor = le32_of(i->rdev_minor),
	    .atime_sec = le64_of((uint64_t)i->atime.sec),
	    .mtime_sec = le64_of((uint64_t)i->mtime.sec),
	    .ctime_sec = le64_of((uint64_t)i->ctime.sec),
	    .btime_sec = le64_of((uint64_t)i->btime.sec),
	    .atime_nsec = le32_of(i->atime.nsec),
	    .mtime_nsec = le32_of(i->mtime.nsec),
	    .ctime_nsec = le32_of(i->ctime.nsec),
	    .btime_nsec = le32_of(i->btime.nsec),
	    .dir_root = le64_of(i->dir_root),
	    .dir_free = le64_of(i->dir_free),
	    .dir_blocks = le64_of(i->dir_blocks),
	    .dir_entries = le64_of(i->dir_entries),
	    .dir_probe = le32_of(i->dir_probe),
	    .dir_height = (uint8_t)i->dir_height,
	    .xattr_object = le64_of(i->xattr_object)};
	memcpy(p.verf, i->verf, sizeof(p.verf));
	memcpy(bonus, &p, sizeof(p));
}
