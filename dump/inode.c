/* inode.c - the 192 bytes of bonus of a file, directory, link or device. */
#include "dump/dump.h"

#define INODE_FORMAT 1u
#define NSEC_MAX 999999999u
#define HEIGHT_MAX 6u
#define DIR_NODE 16384u

static uint32_t
object_type_of(uint32_t type)
{
	switch (type) {
	case INO_REG:
		return TYPE_FILE;
	case INO_DIR:
		return TYPE_DIR;
	case INO_LNK:
		return TYPE_SYMLINK;
	case INO_BLK:
	case INO_CHR:
	case INO_SOCK:
	case INO_FIFO:
		return TYPE_SPECIAL;
	default:
		return TYPE_FREE;
	}
}

const char *
dump_inode_decode(const uint8_t b[192], uint32_t object_type, struct dump_inode *out)
{
	struct dump_inode i = {
	    .type = b[0x01],
	    .mode = b16(b, 0x02),
	    .uid = b32(b, 0x04),
	    .gid = b32(b, 0x08),
	    .nlink = b32(b, 0x0c),
	    .size = b64(b, 0x10),
	    .change = b64(b, 0x18),
	    .parent = b64(b, 0x20),
	    .rdev_major = b32(b, 0x30),
	    .rdev_minor = b32(b, 0x34),
	    .atime = {(int64_t)b64(b, 0x40), b32(b, 0x60)},
	    .mtime = {(int64_t)b64(b, 0x48), b32(b, 0x64)},
	    .ctime = {(int64_t)b64(b, 0x50), b32(b, 0x68)},
	    .btime = {(int64_t)b64(b, 0x58), b32(b, 0x6c)},
	    .dir_root = b64(b, 0x78),
	    .dir_blocks = b64(b, 0x88),
	    .dir_entries = b64(b, 0x90),
	    .dir_height = b[0x9c],
	};

	if (b[0x00] != INODE_FORMAT) {
		return "inode of another version";
	}
	if (object_type_of(i.type) != object_type || object_type == TYPE_FREE) {
		return "inode of another type than its object";
	}
	if (i.mode > 07777 || i.nlink == 0 || i.size >> 63 != 0 || i.atime.nsec > NSEC_MAX ||
	    i.mtime.nsec > NSEC_MAX || i.ctime.nsec > NSEC_MAX || i.btime.nsec > NSEC_MAX) {
		return "impossible attributes";
	}
	if (i.dir_height > HEIGHT_MAX || i.dir_blocks > INT64_MAX / DIR_NODE ||
	    (i.dir_height > 0 && i.dir_root >= i.dir_blocks)) {
		return "impossible directory tree";
	}
	*out = i;
	return NULL;
}
