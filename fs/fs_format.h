/*
 * fs_format.h - everything of fs/ that is on a drive: the inode in an object's bonus, the dataset's
 * owner area, directory nodes, and the payload of log records. Little-endian, each field with its
 * offset. A change here is a feature flag and a chapter of docs/on-disk-format.md, in one commit.
 */
#ifndef AGATE_FS_FORMAT_H
#define AGATE_FS_FORMAT_H

#include <stddef.h>
#include "base/compiler.h"
#include "base/le.h"
#include "pool/pool_format.h"

/* ---- inode: the 192 bytes of bonus ---- */
#define INODE_VERSION 1u
#define INODE_HAS_VERF 1u /* flag: verf is the verifier of the exclusive create that made it */
struct inode_phys {
	uint8_t version;             /* 0x00 INODE_VERSION */
	uint8_t type;                /* 0x01 enum fs_type */
	struct le16 mode;            /* 0x02 07777 */
	struct le32 uid;             /* 0x04 */
	struct le32 gid;             /* 0x08 */
	struct le32 nlink;           /* 0x0c directories: 2 + sub-directories */
	struct le64 size;            /* 0x10 bytes; < 2^63. Directories: their blocks */
	struct le64 change;          /* 0x18 grows with every change but of atime */
	struct le64 parent;          /* 0x20 object of the directory it is in; files: one of them; 0 = not known */
	struct le64 parent_gen;      /* 0x28 directories: its generation; files: that or 0 */
	struct le32 rdev_major;      /* 0x30 */
	struct le32 rdev_minor;      /* 0x34 */
	struct le32 project;         /* 0x38 reserved for quotas; 0 */
	struct le32 flags;           /* 0x3c INODE_* */
	struct le64 atime_sec;       /* 0x40 since 1970, signed */
	struct le64 mtime_sec;       /* 0x48 */
	struct le64 ctime_sec;       /* 0x50 */
	struct le64 btime_sec;       /* 0x58 */
	struct le32 atime_nsec;      /* 0x60 < 10^9 */
	struct le32 mtime_nsec;      /* 0x64 */
	struct le32 ctime_nsec;      /* 0x68 */
	struct le32 btime_nsec;      /* 0x6c */
	uint8_t verf[8];             /* 0x70 */
	/* Up to here an inode is copied into log records. The rest is the shape of a directory's tree. */
	struct le64 dir_root;        /* 0x78 block of the root node; height 0: none */
	struct le64 dir_free;        /* 0x80 first block of the free list + 1; 0 = empty */
	struct le64 dir_blocks;      /* 0x88 blocks from here on were never used */
	struct le64 dir_entries;     /* 0x90 "." and ".." not counted */
	struct le32 dir_probe;       /* 0x98 no key is further than this behind its name's hash */
	uint8_t dir_height;          /* 0x9c levels; 0 = no nodes, 1 = the root is a leaf */
	uint8_t spare0[0xa0 - 0x9d]; /* 0x9d zero */
	struct le64 xattr_object;    /* 0xa0 extended attributes; 0 = none (none are written yet) */
	uint8_t spare[0xc0 - 0xa8];  /* 0xa8 zero */
};
#define INODE_LOGGED_BYTES 0x78u
STATIC_ASSERT(sizeof(struct inode_phys) == OBJECT_BONUS_BYTES);
STATIC_ASSERT(offsetof(struct inode_phys, size) == 0x10);
STATIC_ASSERT(offsetof(struct inode_phys, rdev_major) == 0x30);
STATIC_ASSERT(offsetof(struct inode_phys, atime_sec) == 0x40);
STATIC_ASSERT(offsetof(struct inode_phys, atime_nsec) == 0x60);
STATIC_ASSERT(offsetof(struct inode_phys, verf) == 0x70);
STATIC_ASSERT(offsetof(struct inode_phys, dir_root) == INODE_LOGGED_BYTES);
STATIC_ASSERT(offsetof(struct inode_phys, dir_height) == 0x9c);

/* ---- the dataset's owner area (512 bytes in the objset root) ---- */
#define FS_OWNER_MAGIC 0x5346544147414731ull
struct fs_owner_phys {
	struct le64 magic;            /* 0x000 */
	struct le32 version;          /* 0x008 1 */
	struct le32 hash_bits;        /* 0x00c bits of a name's hash that make its key; 63 */
	uint8_t hash_key[16];         /* 0x010 keys of directory entries are hashed with it */
	uint8_t spare[512 - 0x20];    /* 0x020 zero */
};
STATIC_ASSERT(sizeof(struct fs_owner_phys) == 512);

/*
 * ---- directory: a B+tree of 16 KiB nodes in the directory's object ----
 * key: 63-bit keyed hash of the name, from DIR_KEY_MIN on; when another name has it, the next free
 * one, at most dir_probe behind. The key is also the cookie; 0 is the start, 1 is ".", 2 is "..".
 */
#define DIR_NODE_BYTES 16384u
#define DIR_HEIGHT_MAX 6u
#define DIR_KEY_MIN 16ull
#define DIR_PROBE_MAX 65535u
#define DIR_HASH_BITS 63u
#define DIR_LEAF_MAGIC 0x46444741u
#define DIR_INNER_MAGIC 0x49444741u
#define DIR_FREE_MAGIC 0x45444741u
struct dir_node_phys {
	struct le32 magic;       /* 0x00 DIR_*_MAGIC */
	struct le16 level;       /* 0x04 0 = leaf */
	struct le16 count;       /* 0x06 slots */
	struct le64 block;       /* 0x08 its own number */
	struct le64 object;      /* 0x10 of the directory */
	struct le64 generation;  /* 0x18 */
	struct le64 next_free;   /* 0x20 free nodes: next block + 1, 0 = last */
	struct le16 heap;        /* 0x28 leaf: names fill [heap, end) without gaps */
	uint8_t spare[0x40 - 0x2a]; /* 0x2a zero */
};
STATIC_ASSERT(sizeof(struct dir_node_phys) == 0x40);

struct dir_slot_phys {           /* leaf: sorted by key, behind the header */
	struct le64 key;         /* 0x00 */
	struct le64 object;      /* 0x08 */
	struct le64 generation;  /* 0x10 */
	struct le16 name_off;    /* 0x18 from the start of the node */
	uint8_t name_len;        /* 0x1a 1..255 */
	uint8_t type;            /* 0x1b enum fs_type */
	struct le32 spare;       /* 0x1c zero */
};
STATIC_ASSERT(sizeof(struct dir_slot_phys) == 32);

struct dir_child_phys {          /* inner: sorted by key; the first one also takes all smaller keys */
	struct le64 key;         /* 0x00 smallest key below */
	struct le64 block;       /* 0x08 */
};
STATIC_ASSERT(sizeof(struct dir_child_phys) == 16);

/*
 * ---- log records: one per operation ----
 * The type of the pool's record is the op. Payload: log_phys, inode_count log_inode_phys, name, name2,
 * reply, data, in that order and without gaps. What to redo stands in steps; inodes are after-images.
 */
#define LOG_VERSION 1u
enum log_op {
	LOG_OP_CREATE = 1,
	LOG_OP_REMOVE = 2,
	LOG_OP_RENAME = 3,
	LOG_OP_LINK = 4,
	LOG_OP_SETATTR = 5,
	LOG_OP_WRITE = 6,
};
#define LOG_STEP_CREATE 0x01u   /* make object, generation, type, block_bytes */
#define LOG_STEP_REMOVE 0x02u   /* take (dir, key, name) out */
#define LOG_STEP_INSERT 0x04u   /* put (dir2, key2, name2) -> object in */
#define LOG_STEP_REPLACE 0x08u  /* let (dir2, key2, name2) point to object instead */
#define LOG_STEP_DESTROY 0x10u  /* free gone */
#define LOG_STEP_TRUNCATE 0x20u /* nothing of object is left from off on */
#define LOG_STEP_DATA 0x40u     /* data goes to object at off */
#define LOG_STEP_ORIGIN 0x80u   /* origin and reply are there */
#define LOG_STEPS_ALL 0xffu
#define LOG_INODES_MAX 4u
struct log_phys {
	uint8_t version;         /* 0x00 LOG_VERSION */
	uint8_t op;              /* 0x01 enum log_op */
	struct le16 steps;       /* 0x02 LOG_STEP_* */
	struct le16 name_len;    /* 0x04 */
	struct le16 name2_len;   /* 0x06 */
	struct le16 reply_len;   /* 0x08 */
	uint8_t inode_count;     /* 0x0a */
	uint8_t type;            /* 0x0b enum fs_type of object */
	struct le32 data_len;    /* 0x0c */
	struct le64 dir;         /* 0x10 */
	struct le64 key;         /* 0x18 */
	struct le64 dir2;        /* 0x20 */
	struct le64 key2;        /* 0x28 */
	struct le64 object;      /* 0x30 */
	struct le64 generation;  /* 0x38 */
	struct le64 gone;        /* 0x40 */
	struct le64 gone_gen;    /* 0x48 */
	struct le64 off;         /* 0x50 */
	struct le32 block_bytes; /* 0x58 */
	struct le32 spare;       /* 0x5c zero */
	uint8_t addr[16];        /* 0x60 origin */
	struct le32 xid;         /* 0x70 */
	struct le32 prog;        /* 0x74 */
	struct le32 vers;        /* 0x78 */
	struct le32 proc;        /* 0x7c */
	uint8_t arg_hash[16];    /* 0x80 */
};
STATIC_ASSERT(sizeof(struct log_phys) == 0x90);
STATIC_ASSERT(offsetof(struct log_phys, dir) == 0x10);
STATIC_ASSERT(offsetof(struct log_phys, addr) == 0x60);

/* A note of a transaction (pool_tx_note): who asked, and behind this the reply, reply_len bytes. */
#define REPLY_VERSION 1u
struct reply_phys {
	uint8_t version;         /* 0x00 REPLY_VERSION */
	uint8_t spare;           /* 0x01 zero */
	struct le16 reply_len;   /* 0x02 */
	struct le32 xid;         /* 0x04 */
	struct le32 prog;        /* 0x08 */
	struct le32 vers;        /* 0x0c */
	struct le32 proc;        /* 0x10 */
	uint8_t addr[16];        /* 0x14 as in log_phys */
	uint8_t arg_hash[16];    /* 0x24 */
};
STATIC_ASSERT(sizeof(struct reply_phys) == 0x34);

struct log_inode_phys {
	struct le64 object;      /* 0x00 */
	struct le64 generation;  /* 0x08 */
	uint8_t attr[INODE_LOGGED_BYTES]; /* 0x10 start of inode_phys */
};
STATIC_ASSERT(sizeof(struct log_inode_phys) == 0x88);

#endif
