/*
 * pool_format.h - everything of the pool that is on a drive, but for the log ring (intentlog/).
 * Little-endian; each field with its offset. docs/on-disk-format.md tells the same in prose. A change
 * here is a feature flag, a golden image and a chapter there, in one commit.
 */
#ifndef AGATE_POOL_FORMAT_H
#define AGATE_POOL_FORMAT_H

#include "base/compiler.h"
#include "base/le.h"

#define POOL_FORMAT_VERSION 1u

/* ---- a drive: offsets within the pool's region of it (kb.h KB_POOL_START, kb_pool_bytes) ----
 *   0            label 0
 *   1 MiB        label 1
 *   2 MiB        set drives: in-pool log ring (config ring_bytes), then the columns' data
 *                log drives: log ring
 *   end - 2 MiB  label 2
 *   end - 1 MiB  label 3
 */
#define LABEL_COUNT 4u
#define LABEL_BYTES (1u << 20)
#define LABEL_FRONT_BYTES (2u * LABEL_BYTES)
#define LABEL_BACK_BYTES (2u * LABEL_BYTES)
#define LABEL_CONFIG_OFF 0x1000u
#define LABEL_CONFIG_BYTES_MAX 0x7f000u
#define LABEL_UBER_OFF 0x80000u
#define UBER_SLOTS 128u
#define UBER_BYTES 4096u

/* A guid is 16 random bytes; the numeric guids of datasets are 8 random bytes, never 0. */
struct guid {
	uint8_t b[16];
};

/* Checksum of a self-located structure: XXH3-128 over the whole of it with this field zero. */
struct self_cksum {
	uint8_t b[16];
};

enum drive_role { DRIVE_ROLE_DATA = 1, DRIVE_ROLE_LOG = 2, DRIVE_ROLE_SPARE = 3 };

/* First 4 KiB of each label: whose drive this is. */
#define LABEL_MAGIC 0x4c45424154474131ull
#define CONFIG_TXG_MAX ((uint64_t)1 << 62) /* there is always a next one */
struct label_header {
	struct le64 magic;              /* 0x000 */
	struct le32 version;            /* 0x008 */
	struct le32 label_index;        /* 0x00c 0..3: which of the four this is */
	struct le64 own_offset;         /* 0x010 bytes from the start of the drive */
	struct le64 region_bytes;       /* 0x018 the pool's region on this drive */
	struct guid pool_guid;          /* 0x020 zero on a spare that no pool has claimed */
	struct guid drive_guid;         /* 0x030 */
	struct le32 role;               /* 0x040 enum drive_role */
	struct le32 set_index;          /* 0x044 data drives */
	struct le32 column;             /* 0x048 data: column of the set; log: side */
	struct le32 config_bytes;       /* 0x04c length of the config behind this header; 0 on a spare */
	struct le64 config_txg;         /* 0x050 at most CONFIG_TXG_MAX */
	struct self_cksum config_cksum; /* 0x058 XXH3-128 of the config's bytes */
	struct le64 claim_txg;          /* 0x068 spare: txg of the claim */
	uint8_t spare[4096 - 0x70 - 16]; /* 0x070 zero */
	struct self_cksum cksum;        /* 0xff0 */
};
STATIC_ASSERT(sizeof(struct label_header) == 4096);
STATIC_ASSERT(offsetof(struct label_header, cksum) == 0xff0);

/* The configuration: one header, then set_count sets, then drive_count drives. The same on all drives. */
#define CONFIG_MAGIC 0x474e4f4354474131ull
struct config_header {
	struct le64 magic;        /* 0x000 */
	struct le32 version;      /* 0x008 */
	struct le32 set_count;    /* 0x00c */
	struct le32 drive_count;  /* 0x010 */
	struct le32 log_sides;    /* 0x014 */
	struct guid pool_guid;    /* 0x018 */
	struct guid log_guid;     /* 0x028 of the ring on the log drives; zero = none */
	struct guid ring_guid;    /* 0x038 of the in-pool ring */
	struct le64 config_txg;   /* 0x048 */
	struct le64 create_time;  /* 0x050 seconds since 1970 */
	struct le64 ring_bytes;   /* 0x058 in-pool ring, per drive of set 0 */
	struct le64 log_bytes;    /* 0x060 ring on each log drive */
	struct le64 feat_compat;  /* 0x068 unknown bits: fine */
	struct le64 feat_rocompat; /* 0x070 FEATURE_RO_*; unknown bits: import read-only */
	struct le64 feat_incompat; /* 0x078 unknown bits: refuse */
	uint8_t spare[128];       /* 0x080 zero */
	uint8_t name[256];        /* 0x100 NUL-terminated */
};
STATIC_ASSERT(sizeof(struct config_header) == 0x200);

#define FEATURE_IN_TWINS 1u /* columns with two drives: set while there are any, that is while a drive is being replaced that can still be read */
#define FEATURE_RO_SNAPSHOTS 1u /* snapshots, clones, deadlists, entries of the unlinked set with min_txg or flags */
#define FEATURE_RO_LIMITS 2u /* quota, refquota, reservation, refreservation of a dataset */
#define FEATURE_RO_ACCOUNTS 4u /* accounts of an objset: what each user and group has */

struct config_set {
	struct guid guid;          /* 0x00 */
	struct le32 kind;          /* 0x10 enum raidz_kind */
	struct le32 width;         /* 0x14 */
	struct le32 parity;        /* 0x18 */
	struct le32 flags;         /* 0x1c */
	struct le64 base_bytes;    /* 0x20 from the start of the drive */
	struct le64 column_bytes;  /* 0x28 */
	struct le64 segment_sectors; /* 0x30 set sectors per segment */
	struct le64 segment_count; /* 0x38 */
};
STATIC_ASSERT(sizeof(struct config_set) == 64);

enum drive_state { DRIVE_STATE_ONLINE = 1, DRIVE_STATE_OFFLINE = 2, DRIVE_STATE_FAULTED = 3, DRIVE_STATE_REMOVED = 4 };
struct config_drive {
	struct guid guid;         /* 0x000 */
	struct le32 role;         /* 0x010 */
	struct le32 set_index;    /* 0x014 */
	struct le32 column;       /* 0x018 */
	struct le32 state;        /* 0x01c enum drive_state */
	struct le64 region_bytes; /* 0x020 */
	struct le64 dirty_from;   /* 0x028 first txg this drive may lack; 0 = it lacks nothing */
	struct le64 dirty_to;     /* 0x030 last txg it may lack; UINT64_MAX = still growing */
	struct le32 flags;        /* 0x038 CONFIG_DRIVE_* */
	uint8_t spare[0x44];      /* 0x03c zero */
	uint8_t id[128];          /* 0x080 stable identity, NUL-terminated */
	uint8_t path[256];        /* 0x100 where it was last seen; for people */
};
#define CONFIG_DRIVE_RING_STALE 1u /* was out in this epoch of the in-pool ring: no side of its replay */
#define CONFIG_DRIVE_IN_PASS 2u      /* the resilver that scan_phys tells of fills it */
#define CONFIG_DRIVE_WAS_SPARE 8u    /* a spare took the place of a failed drive: replaced, it is a spare again */
#define CONFIG_DRIVE_UNTIL_IMPORT 4u /* OFFLINE until the next import only */
#define CONFIG_DRIVE_TWIN 16u        /* second drive of its column: takes the place of the first when it has everything; FEATURE_IN_TWINS */
STATIC_ASSERT(sizeof(struct config_drive) == 0x200);
STATIC_ASSERT(offsetof(struct config_drive, id) == 0x80);

/* ---- block pointer, 128 bytes ---- */
struct bp_addr {
	struct le16 set;     /* 0x0 */
	struct le16 asize;   /* 0x2 allocated set sectors, parity and padding included; 0 = no address */
	struct le32 spare;   /* 0x4 zero */
	struct le64 sector;  /* 0x8 bit 63: gang header; bits 0..62: set sector */
};
#define BP_GANG ((uint64_t)1 << 63)

struct bp {
	struct bp_addr addr[3];   /* 0x00; embedded: payload bytes 0..47 */
	struct le64 prop;         /* 0x30 see below */
	struct le64 birth;        /* 0x38 txg in which this content came to be (a hole: was punched) */
	struct le64 phys_birth;   /* 0x40 txg in which these addresses were written */
	struct le64 fill;         /* 0x48 non-hole data blocks below; data: 1 */
	uint8_t cksum[32];        /* 0x50; embedded: payload bytes 48..79 */
	uint8_t crypto[16];       /* 0x70 96-bit IV, 32-bit salt index; zero when not encrypted; embedded: bytes 80..95 */
};
STATIC_ASSERT(sizeof(struct bp) == 128);
STATIC_ASSERT(offsetof(struct bp, cksum) == 0x50);
/* prop, from bit 0: stored size 16 (512 B units, less one), logical size 16 (same), compression 7,
 * embedded 1, checksum 8, type 8, level 5, shared 1, encrypted 1, spare 1. A hole has no address and isn't embedded. */
#define BP_EMBEDDED_MAX 96u
#define BP_SIZE_UNIT 512u
/* A compressed block starts with the length of the compressed stream behind it (le32); zeros fill it up to the stored size.
 * The checksum is over the stored size; the sector tail behind that is zero and not covered. An embedded block is
 * always compressed (stored size: one unit). Stored size == logical size means not compressed, whatever the compression field says. */
#define BP_STREAM_HEADER_BYTES 4u

enum bp_compress { BP_COMPRESS_OFF = 0, BP_COMPRESS_LZ4 = 1, BP_COMPRESS_ZSTD = 2 };
enum bp_cksum { BP_CKSUM_NONE = 0, BP_CKSUM_XXH3 = 1, BP_CKSUM_BLAKE2B = 2 };

enum object_type {
	OBJ_FREE = 0,
	OBJ_OBJSET = 1,    /* only in bp: an objset root */
	OBJ_TABLE = 2,     /* only in bp: the object table of an objset */
	OBJ_MAPLOG = 3,    /* only in bp */
	OBJ_GANG = 4,      /* only in bp */
	OBJ_POOL = 16,     /* MOS object 2: struct pool_phys */
	OBJ_SEGMENTS = 17, /* MOS: segment maps of one set */
	OBJ_DATASET = 18,  /* MOS: struct dataset_phys and properties */
	OBJ_DEADMAP = 19,  /* MOS: deadlist map of a dataset */
	OBJ_DEADLIST = 20, /* MOS: append-only list of bp */
	OBJ_BLOB = 21,     /* MOS: named settings */
	OBJ_UNLINKED = 22, /* objset: trees that are being freed, see struct unlinked_entry */
	OBJ_REPLIES = 23,  /* MOS: the newest replies, see struct replies_header */
	OBJ_ACCOUNTS = 24, /* only in bp: the accounts of an objset, see struct account_entry */
	OBJ_FILE = 64,     /* from here on the types belong to fs/ */
	OBJ_DIR = 65,
	OBJ_SYMLINK = 66,
	OBJ_SPECIAL = 67,
	OBJ_XATTR = 68,
};

/* ---- object slot, 512 bytes: one per object in the object table ---- */
#define OBJECT_SLOT_BYTES 512u
#define OBJECT_BONUS_BYTES 192u
#define OBJECT_INLINE_MAX 256u
#define OBJECT_INLINE 1u /* flag: the data is in the slot, bytes 0x100.. */
struct object_slot {
	uint8_t type;            /* 0x000 enum object_type */
	uint8_t levels;          /* 0x001 1 = data bp points to the only data block; at most 8 */
	uint8_t flags;           /* 0x002 OBJECT_INLINE */
	uint8_t spare0;          /* 0x003 */
	struct le32 block_bytes; /* 0x004 data block size; power of two, 4 KiB..1 MiB */
	struct le64 generation;  /* 0x008 grows with every reuse of the number */
	struct le64 block_count; /* 0x010 highest block number ever written + 1, lowered by truncation */
	struct le64 used_sectors; /* 0x018 set sectors of all its blocks and indirect blocks */
	struct le64 birth;       /* 0x020 txg of creation */
	struct le16 inline_len;  /* 0x028 */
	uint8_t spare1[0x40 - 0x2a]; /* 0x02a zero */
	uint8_t bonus[OBJECT_BONUS_BYTES]; /* 0x040 the owner's: fs inode attributes */
	union {                  /* 0x100 */
		struct {
			struct bp data;  /* 0x100 root of the block tree */
			struct bp extra; /* 0x180 reserved for extended attributes */
		};
		uint8_t inl[OBJECT_INLINE_MAX];
	};
};
STATIC_ASSERT(sizeof(struct object_slot) == OBJECT_SLOT_BYTES);
STATIC_ASSERT(offsetof(struct object_slot, bonus) == 0x40);
STATIC_ASSERT(offsetof(struct object_slot, data) == 0x100);

/* Indirect blocks: 256 block pointers, always 32 KiB before compression. */
#define INDIRECT_BYTES 32768u
#define INDIRECT_SHIFT 8
#define OBJECT_LEVELS_MAX 8u
#define OBJECT_TABLE_BLOCK_BYTES 16384u

/* ---- objset root: one 4 KiB block; the MOS has one, and every dataset and snapshot ---- */
#define OBJSET_OBJECT_UNLINKED 1u /* its number, in every objset */
#define OBJSET_MAGIC 0x54455354474131ull
struct objset_phys {
	struct le64 magic;         /* 0x000 */
	struct le64 txg;           /* 0x008 of this root */
	struct le64 next_object;   /* 0x010 numbers from here on were never used */
	struct le64 object_count;  /* 0x018 */
	struct le64 used_sectors;  /* 0x020 set sectors referenced by this objset (trees being freed and gang children included), its own root excluded */
	struct le64 data_bytes;    /* 0x028 logical bytes of level-0 blocks of objects (not of the table) */
	struct le64 unlinked;      /* 0x030 OBJ_UNLINKED object (OBJSET_OBJECT_UNLINKED); 0 = none yet */
	struct le64 root_object;   /* 0x038 the owner's: fs root directory */
	struct le64 dying_count;   /* 0x040 entries in it */
	struct le64 last_generation; /* 0x048 highest generation given out here */
	struct le64 guid;          /* 0x050 of the dataset; 0: the MOS */
	struct le64 pending_sectors; /* 0x058 of used_sectors: what is being freed, about; for people only. The MOS with FEATURE_RO_SNAPSHOTS:
	                              * exactly what entries of its unlinked set with object 0 have */
	struct le64 accounts_next; /* 0x060 objects below this number are in the accounts; all ones: all are */
	uint8_t spare[0x200 - 0x68]; /* 0x068 zero */
	struct object_slot table;  /* 0x200 the object table as an object */
	uint8_t owner[512];        /* 0x400 the owner's (fs): opaque here */
	struct object_slot accounts; /* 0x600 the accounts as an object; type 0: none */
	uint8_t spare2[4096 - 0x800]; /* 0x800 zero */
};
STATIC_ASSERT(sizeof(struct objset_phys) == 4096);
STATIC_ASSERT(offsetof(struct objset_phys, table) == 0x200);
STATIC_ASSERT(offsetof(struct objset_phys, accounts) == 0x600);

/*
 * ---- accounts: entry n is about user n and group n ----
 * Sums over the slots of the object table, below accounts_next, whose type is one of fs/: of used_sectors, and how many they are. Who: le32 at
 * ACCOUNT_UID_OFF and ACCOUNT_GID_OFF of the bonus.
 */
struct account_entry {
	struct le64 user_sectors;  /* 0x00 */
	struct le64 user_objects;  /* 0x08 */
	struct le64 group_sectors; /* 0x10 */
	struct le64 group_objects; /* 0x18 */
};
STATIC_ASSERT(sizeof(struct account_entry) == 32);
#define ACCOUNT_BLOCK_BYTES 8192u
#define ACCOUNTS_PER_BLOCK (ACCOUNT_BLOCK_BYTES / 32u)
#define ACCOUNT_UID_OFF 4u
#define ACCOUNT_GID_OFF 8u

/*
 * ---- the unlinked set: what was cut off an objset and is being freed in slices ----
 * A stack of entries, UNLINKED_PER_BLOCK to each block of the OBJ_UNLINKED object; the first dying_count are valid. An
 * entry owns its bp and everything below that was born after min_txg: an indirect block, a block of data, a table block (then all its
 * objects), or, in the MOS, the objset root of a destroyed dataset (then its table and its own unlinked set). In the MOS, entries with object 0
 * are what destroyed datasets and snapshots left; with min_txg or flags, data_bytes of the MOS doesn't count what they
 * free (the blocks of a deadlist itself it does).
 */
struct unlinked_entry {
	struct bp bp;           /* 0x00 */
	struct le64 object;     /* 0x80 whose used_sectors still counts it ... */
	struct le64 generation; /* 0x88 ... while the object has this generation */
	struct le64 min_txg;    /* 0x90 what was born up to this txg isn't part of it */
	struct le32 flags;      /* 0x98 UNLINKED_* */
	struct le32 spare;      /* 0x9c zero */
};
#define UNLINKED_CONTENTS 1u /* a deadlist: the blocks that its pointers name are part of it too */
#define UNLINKED_ALONE 2u    /* the block of bp alone, nothing below */
STATIC_ASSERT(sizeof(struct unlinked_entry) == 160);
#define UNLINKED_BLOCK_BYTES 16384u
#define UNLINKED_PER_BLOCK (UNLINKED_BLOCK_BYTES / 160u)

/* ---- MOS object 2, block 0 ---- */
#define MOS_OBJECT_POOL 2u
#define POOL_SETS_MAX 64u
struct pool_phys {
	struct le64 magic;          /* 0x000 */
	struct le64 dataset_count;  /* 0x008 */
	struct le64 root_dataset;   /* 0x010 MOS object number */
	struct le64 blob_object;    /* 0x018 OBJ_BLOB: array of blob_entry; 0 = none yet */
	struct le64 feat_enabled_txg; /* 0x020 */
	struct le64 replies_object; /* 0x028 OBJ_REPLIES; 0 = none yet */
	uint8_t spare[0x200 - 0x30]; /* 0x030 */
	struct le64 segments[POOL_SETS_MAX]; /* 0x200 OBJ_SEGMENTS object of each set */
	uint8_t spare2[4096 - 0x400]; /* 0x400 */
};
#define POOL_PHYS_MAGIC 0x4c4f4f5054474131ull
STATIC_ASSERT(sizeof(struct pool_phys) == 4096);

/* Named settings: the contents of each are an OBJ_BLOB object of their own. */
#define BLOB_BLOCK_BYTES 16384u
struct blob_entry {
	uint8_t name[64];     /* 0x00 NUL-terminated; empty = unused */
	struct le64 object;   /* 0x40 */
	struct le32 len_bytes; /* 0x48 */
	uint8_t spare[0x34];  /* 0x4c zero */
};
STATIC_ASSERT(sizeof(struct blob_entry) == 128);

/*
 * ---- notes of transactions: the owner's, opaque here (fs/: replies, so that a client's retransmission after a crash
 * gets its original answer) ----
 * A ring: the block with sequence number s is at s % REPLIES_BLOCKS. Entries follow the header; each is
 * padded with zeros to a multiple of 4. A txg's notes are written with that txg; the oldest are overwritten.
 */
#define REPLIES_MAGIC 0x4c50455254474131ull
#define REPLIES_BLOCK_BYTES 16384u
#define REPLIES_BLOCKS 32u
struct replies_header {
	struct le64 magic;      /* 0x00 */
	struct le64 seq;        /* 0x08 grows with every block, not always by one; never 0 */
	struct le64 txg;        /* 0x10 that wrote it */
	struct le32 used_bytes; /* 0x18 header and entries */
	struct le32 spare;      /* 0x1c zero */
};
STATIC_ASSERT(sizeof(struct replies_header) == 32);

struct reply_entry {
	struct le16 len_bytes;  /* 0x00 of the note behind it; never 0 */
	struct le16 spare;      /* 0x02 zero */
};
STATIC_ASSERT(sizeof(struct reply_entry) == 4);

/* ---- a dataset: block 0 of its OBJ_DATASET object; properties behind it ---- */
/* Dataset flags: unknown bits 0..31 may be ignored; with an unknown bit 32..63 the dataset can't be opened. */
#define DATASET_FLAGS_INCOMPAT_SHIFT 32
#define DATASET_SNAPSHOT ((uint64_t)1 << 32) /* a snapshot; the fields from ref_sectors on count, and parent is 0 */
#define DATASET_MAGIC 0x5345534154474131ull
#define DATASET_BLOCK_BYTES 16384u
#define DATASET_PROPS_OFF 0x1000u
struct dataset_phys {
	struct le64 magic;          /* 0x000 */
	struct le64 guid;           /* 0x008 */
	struct le64 parent;         /* 0x010 MOS object of the parent dataset; 0 = root */
	struct le64 incarnation;    /* 0x018 advanced by rollback, destroy and receive */
	struct le64 create_txg;     /* 0x020 */
	struct le64 create_time;    /* 0x028 seconds since 1970 */
	struct le64 flags;          /* 0x030 */
	struct le64 prev_snap;      /* 0x038 MOS object of the snapshot before (of a clone without any: its origin); 0 = none */
	struct le64 prev_snap_txg;  /* 0x040 its create_txg */
	struct le64 next_snap;      /* 0x048 zero */
	struct le64 origin;         /* 0x050 of a clone: the snapshot it came from */
	struct le64 deadmap;        /* 0x058 OBJ_DEADMAP object */
	struct le64 used_sectors;   /* 0x060 below its root and born after its origin, the root block excluded; not of a snapshot */
	struct le64 unique_sectors; /* 0x068 zero */
	struct le64 quota;          /* 0x070 bytes; 0 = none */
	struct le64 refquota;       /* 0x078 */
	struct le64 reservation;    /* 0x080 */
	struct le64 refreservation; /* 0x088 */
	struct le64 pending;        /* 0x090 MOS object with log records that can't replay now; 0 = none */
	struct le64 props_bytes;    /* 0x098 length of the property list at DATASET_PROPS_OFF */
	struct le64 ref_sectors;    /* 0x0a0 everything below its root, the root block included */
	struct le64 data_bytes;     /* 0x0a8 as in its objset root */
	struct le64 object_count;   /* 0x0b0 as in its objset root */
	struct le64 dead_sectors;   /* 0x0b8 of the blocks in its deadlists */
	struct le64 dead_young;     /* 0x0c0 of these, born after the origin of its chain */
	struct le64 deadmap_count;  /* 0x0c8 entries of the deadmap */
	struct le64 recent;         /* 0x0d0 OBJ_DEADLIST, not sorted by birth; 0 = none */
	struct le64 recent_count;   /* 0x0d8 bps in it */
	struct le64 recent_sectors; /* 0x0e0 part of dead_sectors */
	struct le64 recent_young;   /* 0x0e8 part of dead_young */
	uint8_t spare[0x200 - 0xf0]; /* 0x0f0 zero */
	struct bp root;             /* 0x200 objset root */
	uint8_t spare2[0x300 - 0x280]; /* 0x280 zero */
	uint8_t name[256];          /* 0x300 last component, NUL-terminated */
	uint8_t spare3[0x1000 - 0x400]; /* 0x400 zero */
};
STATIC_ASSERT(sizeof(struct dataset_phys) == 4096);
STATIC_ASSERT(offsetof(struct dataset_phys, root) == 0x200);
/* Property list: key NUL value NUL, repeated; keys sorted, each once. */

/* ---- deadlists: blocks that the snapshot before refers to and this one (or the head) doesn't; see README ---- */
#define DEADLIST_BLOCK_BYTES 16384u
struct deadmap_entry {           /* OBJ_DEADMAP: array, sorted by snap_txg; several may be equal */
	struct le64 snap_txg;    /* 0x00 key: when sorted, the oldest snapshot of the chain that is not older than the blocks */
	struct le64 list;        /* 0x08 OBJ_DEADLIST object */
	struct le64 count;       /* 0x10 bps in it */
	struct le64 sectors;     /* 0x18 set sectors they take */
};
STATIC_ASSERT(sizeof(struct deadmap_entry) == 32);

/* ---- space: map log and segment maps ---- */
enum map_op { MAP_ALLOC = 1, MAP_FREE = 2 };
struct map_record {
	uint8_t op;          /* 0x00 enum map_op */
	uint8_t cksum_kind;  /* 0x01 enum bp_cksum; ALLOC */
	struct le16 set;     /* 0x02 */
	struct le16 asize;   /* 0x04 set sectors */
	struct le16 psize;   /* 0x06 stored size, 512 B units less one; ALLOC */
	struct le64 sector;  /* 0x08 set sector */
	struct le64 birth;   /* 0x10 physical birth; ALLOC */
	struct le64 txg;     /* 0x18 of the change */
	uint8_t cksum[32];   /* 0x20 ALLOC */
};
STATIC_ASSERT(sizeof(struct map_record) == 64);

/* A block of the map log; its own bp is in the next one, or in the uberblock. */
#define MAPLOG_MAGIC 0x474f4c5054474131ull
#define MAPLOG_BLOCK_BYTES 65536u
struct maplog_header {
	struct le64 magic;     /* 0x000 */
	struct le64 txg;       /* 0x008 */
	struct le64 count;     /* 0x010 records in this block */
	struct le64 oldest_txg; /* 0x018 records of older txgs are all folded: a reader may stop before */
	struct guid pool_guid; /* 0x020 */
	uint8_t spare[0x80 - 0x30]; /* 0x030 zero */
	struct bp prev;        /* 0x080 the block before; a hole = first */
};
STATIC_ASSERT(sizeof(struct maplog_header) == 0x100);

/* OBJ_SEGMENTS: a table of segment_count of these, then the maps: segment i at SEGMENT_MAP_OFF(i). */
struct segment_entry {
	struct le64 folded_txg;   /* 0x00 every change up to this txg is in the map */
	struct le32 records;      /* 0x08 in the map */
	struct le32 spare;        /* 0x0c */
	struct le64 used_sectors; /* 0x10 */
	struct le64 spare2;       /* 0x18 zero */
};
STATIC_ASSERT(sizeof(struct segment_entry) == 32);
#define SEGMENT_TABLE_BYTES ((uint64_t)16 << 20) /* 524,288 segments: 2 PiB on a mirror */
#define SEGMENT_MAP_BYTES_MAX ((uint64_t)64 << 20)
#define SEGMENT_MAP_OFF(i) (SEGMENT_TABLE_BYTES + (uint64_t)(i)*SEGMENT_MAP_BYTES_MAX)
/* A map is an array of map_record, op MAP_ALLOC, sorted by sector, no overlaps. */

/* ---- gang header: one 4 KiB block that stands for a block no free run could hold ---- */
#define GANG_MAGIC 0x474e414754474131ull
#define GANG_CHILDREN_MAX 30u
struct gang_header {
	struct le64 magic;      /* 0x000 */
	struct le64 txg;        /* 0x008 */
	struct le32 child_count; /* 0x010 */
	struct le32 len_bytes;  /* 0x014 of the whole */
	struct guid pool_guid;  /* 0x018 */
	struct le64 own_sector; /* 0x028 set sector of this header */
	struct le16 own_set;    /* 0x030 */
	uint8_t spare[0x80 - 0x32]; /* 0x032 zero */
	struct bp child[GANG_CHILDREN_MAX]; /* 0x080 in order; may be gangs themselves */
	uint8_t spare2[4096 - 0x80 - 30 * 128 - 16];
	struct self_cksum cksum; /* 0xff0 */
};
STATIC_ASSERT(sizeof(struct gang_header) == 4096);

/* ---- progress of the scrub or resilver, in the uberblock ---- */
enum scan_kind { SCAN_NONE = 0, SCAN_SCRUB = 1, SCAN_RESILVER = 2 };
enum scan_state { SCAN_NEVER = 0, SCAN_RUNNING = 1, SCAN_PAUSED = 2, SCAN_DONE = 3, SCAN_CANCELLED = 4 };
struct scan_phys {
	struct le32 kind;        /* 0x00 enum scan_kind */
	struct le32 state;       /* 0x04 enum scan_state */
	struct le64 next;        /* 0x08 segment to look at next, counted over all sets */
	struct le64 examined_sectors; /* 0x10 */
	struct le64 repaired;    /* 0x18 blocks of which something was rewritten */
	struct le64 errors;      /* 0x20 blocks that nothing could verify */
	struct le64 unreached;   /* 0x28 blocks that a stale column could not be brought up to date for */
	struct le64 started;     /* 0x30 seconds since 1970 */
	struct le64 ended;       /* 0x38 */
	struct le64 dirty_sum;   /* 0x40 resilver: which drives and ranges it is for, hashed */
	struct le64 shown;       /* 0x48 hundredths of a percent that are done, never lowered; 0: the writer didn't know them */
};
STATIC_ASSERT(sizeof(struct scan_phys) == 0x50);

/* ---- how far a trim is: the blob "trim" ---- */
enum trim_state { TRIM_NEVER = 0, TRIM_RUNNING = 1, TRIM_PAUSED = 2, TRIM_DONE = 3, TRIM_CANCELLED = 4 };
struct trim_phys {
	struct le32 version;     /* 0x00 1 */
	struct le32 state;       /* 0x04 enum trim_state */
	struct le64 next;        /* 0x08 segment to be done next, counted over all sets */
	struct le64 trimmed_sectors; /* 0x10 */
	struct le64 fresh_sectors;   /* 0x18 passed over */
	struct le64 started;     /* 0x20 seconds since 1970 */
	struct le64 ended;       /* 0x28 */
	struct le64 bytes_per_s; /* 0x30 of one drive; 0: no limit */
	struct guid drive;       /* 0x38 zero: all */
};
STATIC_ASSERT(sizeof(struct trim_phys) == 0x48);

/* ---- uberblock ---- */
#define UBER_MAGIC 0x5245425554474131ull
#define UBER_CLEAN 1u /* flag: exported cleanly; the log is empty */
struct uberblock {
	struct le64 magic;       /* 0x000 */
	struct le32 version;     /* 0x008 */
	struct le32 flags;       /* 0x00c */
	struct guid pool_guid;   /* 0x010 */
	struct le64 timeline;    /* 0x020 advanced when an older root is taken up again */
	struct le64 txg;         /* 0x028 (timeline, txg) orders uberblocks */
	struct le64 time;        /* 0x030 ns since 1970 */
	struct le64 config_txg;  /* 0x038 labels with an older configuration are stale */
	struct le64 own_offset;  /* 0x040 bytes from the start of the drive */
	struct guid drive_guid;  /* 0x048 the drive this copy was written to */
	struct le64 host_id;     /* 0x058 who uses it, or used it last; 0 with UBER_CLEAN: nobody's, by order */
	struct le64 heartbeat;   /* 0x060 grows while the pool is in use, also between txgs */
	struct le64 log_epoch;   /* 0x068 */
	struct guid log_guid;    /* 0x070 which ring: the log drives' or the in-pool one */
	struct le64 log_batch;   /* 0x080 tail: batch sequence expected at log_off; 0 = nothing was written */
	struct le64 log_off;     /* 0x088 */
	struct le64 log_floor;   /* 0x090 records with txg <= this are in the root */
	struct le64 log_replayed; /* 0x098 records with seq <= this are in the root (replay in progress), else 0 */
	uint8_t host_name[64];   /* 0x0a0 NUL-terminated */
	uint8_t spare[0x100 - 0xe0]; /* 0x0e0 zero */
	struct bp root;          /* 0x100 objset root of the MOS */
	struct bp maplog;        /* 0x180 newest block of the map log */
	struct le64 used_sectors; /* 0x200 all sets */
	struct le64 deferred_sectors; /* 0x208 freed, not yet reusable */
	struct scan_phys scan;   /* 0x210 */
	uint8_t spare2[4096 - 0x260 - 16]; /* 0x260 zero */
	struct self_cksum cksum; /* 0xff0 */
};
STATIC_ASSERT(sizeof(struct uberblock) == UBER_BYTES);
STATIC_ASSERT(offsetof(struct uberblock, root) == 0x100);
STATIC_ASSERT(offsetof(struct uberblock, scan) == 0x210);
STATIC_ASSERT(offsetof(struct uberblock, cksum) == 0xff0);

#endif
