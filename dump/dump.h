/*
 * dump.h - what the files of agate-dump share. Private to dump/.
 *
 * Layers, each using those above it only:
 *	drive.c		an image or a drive, read-only; where the pool's region lies
 *	label.c config.c	labels, uberblocks, configuration: bytes -> struct, or why not
 *	assemble.c	drives -> one pool: which root, which configuration, which drive is which column
 *	field.c stripe.c	columns -> the bytes of a block, with up to `parity` of them missing or wrong
 *	bp.c block.c	block pointer -> contents, verified
 *	object.c tree.c dataset.c	objects and datasets
 *	inode.c dir.c path.c	files
 *	cmd_*.c		the commands
 *
 * Nothing read from a drive is used before it was decoded: dump_*_decode takes bytes and gives a struct all
 * of whose fields are in range, or says why not. Memory is from base/mem.h, errors are negative as in base/err.h.
 */
#ifndef AGATE_DUMP_H
#define AGATE_DUMP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/mem.h"
#include "dump/bytes.h"

#define SECTOR SECTOR_BYTES
#define REGION_START (1u << 20) /* from the start of the drive */
#define LABEL_SIZE (1u << 20)
#define LABELS 4u
#define CONFIG_AT 0x1000u
#define CONFIG_MAX 0x7f000u
#define UBER_AT 0x80000u
#define UBER_COUNT 128u
#define UBER_SIZE 4096u
#define SETS_MAX 64u
#define WIDTH_MAX 16u
#define PARITY_MAX 3u
#define BLOCK_MAX (1u << 20)
#define GUID_LEN 16u

/* ---- out.c: text that is safe to show on a terminal ---- */
void out_text(FILE *to, const void *bytes, size_t len); /* what isn't printable ASCII, and \, as \ooo */
void out_guid(FILE *to, const uint8_t guid[GUID_LEN]);
void out_hex(FILE *to, const uint8_t *bytes, size_t len);
void out_hexdump(FILE *to, const uint8_t *bytes, size_t len);
void out_time(FILE *to, int64_t sec, uint32_t nsec);
/* A complaint on stderr; counted, for the exit status. */
void out_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Something to know, on stderr. */
void out_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
uint64_t out_error_count(void);
/* \ooo and \\ back to bytes, in place. */
void out_unescape(char *text);

/* ---- set.c ---- */
struct dump_numbers {
	uint64_t *v;
	size_t cap, count;
};
/* number: not 0. 1: it is new; 0: it has been there; -ENOMEM. */
int dump_set_add(struct dump_numbers *s, uint64_t number) WARN_UNUSED;
void dump_set_free(struct dump_numbers *s);

/* ---- drive.c ---- */
enum { ROLE_DATA = 1, ROLE_LOG = 2, ROLE_SPARE = 3 };

struct dump_label {
	const char *why; /* NULL: valid */
	uint8_t pool_guid[GUID_LEN], drive_guid[GUID_LEN];
	uint32_t role, set, column, config_bytes;
	uint64_t config_txg, region_bytes, claim_txg;
};

struct dump_drive {
	const char *path;
	int fd;
	uint64_t size_bytes;
	uint64_t shift;        /* a partition was given: it starts this far into the drive */
	uint64_t region_bytes; /* 0: not known */
	struct dump_label label[LABELS];
	int id;                /* index of the label that speaks for the drive; -1: none is valid */
};

/* 0, or -errno. The drive need not carry labels. */
int dump_drive_open(const char *path, struct dump_drive *out) WARN_UNUSED;
void dump_drive_close(struct dump_drive *d);
/* off: from the start of the whole drive. -EIO also when it isn't all there. */
int dump_drive_read(const struct dump_drive *d, uint64_t off, void *out, uint64_t len) WARN_UNUSED;
uint64_t dump_label_offset(uint64_t region_bytes, unsigned index);
uint64_t dump_region_by_size(uint64_t size_bytes);

/* ---- label.c ---- */
struct dump_uber {
	uint32_t flags;
	uint64_t timeline, txg, time_ns, config_txg, host_id, heartbeat;
	uint64_t log_epoch, log_batch, log_off, log_floor, log_replayed;
	uint64_t used_sectors, deferred_sectors;
	uint8_t log_guid[GUID_LEN], pool_guid[GUID_LEN], drive_guid[GUID_LEN];
	uint8_t root[128], maplog[128]; /* block pointers, not decoded */
	char host_name[64];
};
#define UBER_CLEAN_FLAG 1u

/* bytes: LABEL_SIZE - at least CONFIG_AT + CONFIG_MAX of them - read at own_offset. NULL, or why it isn't valid. */
const char *dump_label_decode(const uint8_t *bytes, uint64_t own_offset, unsigned index, struct dump_label *out);
/* bytes: UBER_SIZE. pool_guid, drive_guid NULL: any. */
const char *dump_uber_decode(const uint8_t *bytes, uint64_t own_offset, unsigned slot,
    const uint8_t *pool_guid, const uint8_t *drive_guid, struct dump_uber *out);
int dump_uber_cmp(const struct dump_uber *a, const struct dump_uber *b);

/* ---- config.c ---- */
enum { KIND_PARITY = 0, KIND_MIRROR = 1 };

struct dump_set {
	uint8_t guid[GUID_LEN];
	uint32_t kind, width, parity;
	uint64_t base_bytes, column_bytes, segment_sectors, segment_count;
	uint64_t capacity_sectors;
	const struct dump_drive *column[WIDTH_MAX]; /* NULL: missing */
	bool stale[WIDTH_MAX];                      /* may lack some txgs: asked last */
};

struct dump_member {
	uint8_t guid[GUID_LEN];
	uint32_t role, set, column, state;
	uint64_t region_bytes, dirty_from, dirty_to;
	bool ring_stale; /* lacks some of the in-pool ring */
	bool twin;       /* second drive of its column, which it is to replace */
	char id[128], path[256];
	const struct dump_drive *drive; /* NULL: missing */
};

struct dump_config {
	uint8_t pool_guid[GUID_LEN], log_guid[GUID_LEN], ring_guid[GUID_LEN];
	uint64_t config_txg, create_time, ring_bytes, log_bytes;
	uint64_t feat_compat, feat_rocompat, feat_incompat;
	char name[256];
	uint32_t set_count, member_count;
	struct dump_set sets[SETS_MAX];
	struct dump_member *members;
};

/* NULL, or why not. dump_config_free afterwards only on success. */
const char *dump_config_decode(const uint8_t *bytes, uint32_t len, struct dump_config *out);
void dump_config_free(struct dump_config *c);

/* ---- assemble.c ---- */
struct dump_cache;

struct dump_pool {
	struct dump_drive *drives;
	uint32_t drive_count;
	struct dump_config config;
	uint64_t capacity_sectors; /* of all sets: no walk meets more blocks than fit */
	struct dump_uber uber;
	struct dump_cache *cache;
	bool verbose;
	uint64_t repaired; /* blocks that had to be reconstructed or taken from another copy */
	uint64_t gangs;    /* gang headers read */
};

/* which: name or guid of the pool, NULL: there is only one. txg 0: the newest root. Says on stderr what is wrong. */
int dump_pool_open(struct dump_drive *drives, uint32_t count, const char *which, uint64_t txg,
    struct dump_pool *out) WARN_UNUSED;
void dump_pool_close(struct dump_pool *p);

/* ---- field.c: GF(2^8) modulo 0x11d ---- */
uint8_t field_mul(uint8_t a, uint8_t b);
uint8_t field_power_of_2(uint32_t n);
/* out += factor * in */
void field_add_scaled(uint8_t *out, const uint8_t *in, uint8_t factor, size_t len);
/* m (n x n, n <= PARITY_MAX) is replaced by its inverse. False: it has none. */
bool field_invert(uint8_t m[PARITY_MAX][PARITY_MAX], uint32_t n);

/* ---- stripe.c ---- */
typedef bool dump_verify_fn(const void *arg, const uint8_t *data, uint32_t len);
/* len: sector multiple. verify NULL: the first readable combination. *out_damaged: something was missing or wrong.
 * -EINVAL no such place; -EIO too many columns missing; -ERR_CKSUM. */
int dump_stripe_read(const struct dump_set *s, uint64_t sector, uint32_t len, uint8_t *out,
    dump_verify_fn *verify, const void *arg, bool *out_damaged) WARN_UNUSED;
uint32_t dump_stripe_asize(const struct dump_set *s, uint32_t len);
/* Prints where the columns lie. */
void dump_stripe_show(FILE *to, const struct dump_set *s, uint64_t sector, uint32_t len);

/* ---- cksum.c ---- */
enum { CKSUM_NONE = 0, CKSUM_XXH3 = 1, CKSUM_BLAKE2B = 2 };
void dump_cksum(uint32_t kind, const void *data, uint64_t len, uint8_t out[32]);
/* XXH3-128 of the whole with the 16 bytes at `at` zero: is that what stands there? */
bool dump_self_cksum_ok(const uint8_t *bytes, uint64_t len, uint32_t at);
/* Stored bytes of a compressed block (4 bytes of length, stream) -> exactly len bytes. -ERR_CORRUPT. */
int dump_expand(uint32_t kind, const uint8_t *stored, uint32_t stored_len, uint8_t *out, uint32_t len) WARN_UNUSED;

/* ---- bp.c ---- */
struct dump_addr {
	uint32_t set, asize;
	uint64_t sector;
	bool gang;
};
struct dump_bp {
	bool hole, embedded;
	uint32_t copies;
	struct dump_addr addr[3];
	uint32_t stored, logical, compress, cksum_kind, type, level;
	uint64_t birth, phys_birth, fill;
	uint8_t cksum[32];
	uint8_t payload[96];
};
/* NULL, or why not. */
const char *dump_bp_decode(const uint8_t raw[128], uint32_t set_count, struct dump_bp *out);
void dump_bp_show(FILE *to, const struct dump_bp *bp);
const char *dump_type_name(uint32_t type);

/* ---- block.c ---- */
int dump_cache_make(struct dump_pool *p) WARN_UNUSED;
void dump_cache_free(struct dump_pool *p);
/* out: bp->logical bytes. Holes give zeros (out: nothing). */
int dump_block_read(struct dump_pool *p, const struct dump_bp *bp, uint8_t *out) WARN_UNUSED;

/* ---- object.c ---- */
#define SLOT_SIZE 512u
enum {
	TYPE_FREE = 0, TYPE_OBJSET = 1, TYPE_TABLE = 2, TYPE_MAPLOG = 3, TYPE_GANG = 4, TYPE_POOL = 16, TYPE_SEGMENTS = 17,
	TYPE_DATASET = 18, TYPE_ACCOUNTS = 24, TYPE_FILE = 64, TYPE_DIR = 65, TYPE_SYMLINK = 66, TYPE_SPECIAL = 67, TYPE_XATTR = 68,
};
struct dump_slot {
	uint32_t type, levels, block_bytes, inline_len;
	bool is_inline;
	uint64_t generation, block_count, used_sectors, birth;
	struct dump_bp data;
	uint8_t bonus[192], inl[256];
};
#define DUMP_ACCOUNT_BLOCK 8192u
#define DUMP_FEATURE_ACCOUNTS 4u /* of feat_rocompat */
struct dump_objset {
	uint64_t txg, next_object, object_count, used_sectors, data_bytes, unlinked, dying_count, root_object;
	uint64_t guid; /* of the dataset; 0: the MOS */
	uint8_t owner[512];
	struct dump_slot table;
	uint64_t accounts_next;
	struct dump_slot accounts; /* type TYPE_FREE: there are none */
};
const char *dump_slot_decode(const uint8_t raw[SLOT_SIZE], uint32_t set_count, struct dump_slot *out);
int dump_objset_read(struct dump_pool *p, const struct dump_bp *root, struct dump_objset *out) WARN_UNUSED;
/* -ENOENT: no such object. */
int dump_slot_read(struct dump_pool *p, const struct dump_objset *os, uint64_t object, struct dump_slot *out) WARN_UNUSED;
/* The pointer to data block `block`; a hole beyond the end. */
int dump_tree_lookup(struct dump_pool *p, const struct dump_slot *slot, uint64_t block, struct dump_bp *out) WARN_UNUSED;
/* ---- tree.c: each pointer that isn't a hole, parents first, in order, until each returns non-zero. level 0: data. ---- */
typedef int dump_tree_fn(void *arg, uint32_t level, uint64_t index, const struct dump_bp *bp);
int dump_tree_each(struct dump_pool *p, const struct dump_slot *slot, dump_tree_fn *each, void *arg) WARN_UNUSED;
/* Bytes [off, off + len); what no block covers is zero. */
int dump_object_read(struct dump_pool *p, const struct dump_slot *slot, uint64_t off, void *out, uint64_t len) WARN_UNUSED;

/* ---- dataset.c ---- */
#define PATH_MAX_DATASET 1024u
struct dump_dataset {
	uint64_t object, guid, parent, incarnation, create_txg, create_time, flags, used_sectors, props_bytes;
	uint64_t prev_snap, prev_txg, origin, ref_sectors, dead_sectors;
	bool is_snap;
	uint64_t limit[4]; /* quota, refquota, reservation, refreservation; 0: none */
	struct dump_bp root;
	char name[256];
	char path[PATH_MAX_DATASET];
};
/* All of them, in order of path; *out to mem_free. */
int dump_datasets(struct dump_pool *p, struct dump_dataset **out, uint32_t *out_count) WARN_UNUSED;
int dump_dataset_find(struct dump_pool *p, const char *path, struct dump_dataset *out) WARN_UNUSED;
/* The property list, checked: pairs of NUL-terminated strings. *out to mem_free. */
int dump_dataset_props(struct dump_pool *p, const struct dump_dataset *ds, char **out, uint32_t *out_len) WARN_UNUSED;
int dump_mos(struct dump_pool *p, struct dump_objset *out) WARN_UNUSED;

/* ---- inode.c ---- */
enum { INO_REG = 1, INO_DIR = 2, INO_BLK = 3, INO_CHR = 4, INO_LNK = 5, INO_SOCK = 6, INO_FIFO = 7 };
struct dump_inode {
	uint32_t type, mode, uid, gid, nlink, rdev_major, rdev_minor;
	uint64_t size, change, parent;
	struct {
		int64_t sec;
		uint32_t nsec;
	} atime, mtime, ctime, btime;
	uint64_t dir_root, dir_blocks, dir_entries;
	uint32_t dir_height;
};
const char *dump_inode_decode(const uint8_t bonus[192], uint32_t object_type, struct dump_inode *out);

/* ---- dir.c ---- */
#define NAME_MAX_BYTES 255u
struct dump_entry {
	uint64_t key, object, generation;
	uint32_t type, name_len;
	const char *name; /* not terminated; no slash, no NUL */
};
struct dump_file {
	uint64_t object;
	struct dump_slot slot;
	struct dump_inode inode;
};
/* Calls each for every entry, by key, until it returns non-zero, and returns that. */
int dump_dir_each(struct dump_pool *p, const struct dump_file *dir,
    int (*each)(void *arg, const struct dump_entry *e), void *arg) WARN_UNUSED;
/* The bytes of one node: NULL, or why not. level 0: a leaf. */
const char *dump_node_check(const uint8_t *node, uint32_t level, uint64_t block, uint64_t object, uint64_t generation);

/* ---- path.c ---- */
struct dump_fs {
	struct dump_pool *p;
	struct dump_dataset ds;
	struct dump_objset os;
};
int dump_fs_open(struct dump_pool *p, const char *dataset, struct dump_fs *out) WARN_UNUSED;
/* generation 0: any. */
int dump_file_get(struct dump_fs *fs, uint64_t object, uint64_t generation, struct dump_file *out) WARN_UNUSED;
/* path: components separated by slashes, from the dataset's root; "" is the root. -ENOENT, -ENOTDIR. */
int dump_path_find(struct dump_fs *fs, const char *path, struct dump_file *out) WARN_UNUSED;
/* Calls each for path and, with recursive, everything below a directory, else a directory's entries. Goes on after
 * damage, which it reports. path: as bytes, NUL-terminated, below the start. */
int dump_walk(struct dump_fs *fs, const struct dump_file *start, bool recursive,
    int (*each)(void *arg, const char *path, const struct dump_file *f), void *arg) WARN_UNUSED;

/* ---- cmd_log.c ---- */
struct dump_batch {
	uint64_t seq, off, first_seq, min_txg, max_txg;
	uint32_t len, record_count;
	uint8_t prev_cksum[16], cksum[16];
};
/* have: bytes there from off on, at least one sector. NULL, or why not. */
const char *dump_batch_decode(const uint8_t *b, uint64_t have, uint64_t epoch, const uint8_t guid[GUID_LEN],
    uint64_t off, struct dump_batch *out);
/* Prints the records of a decoded batch that the root of u lacks, or all. NULL, or why they don't parse. */
const char *dump_records_walk(const uint8_t *buf, const struct dump_batch *h, const struct dump_uber *u, bool all);

/* ---- cmd_space.c ---- */
struct dump_record {
	uint32_t op, cksum_kind, set, asize, stored;
	uint64_t sector, birth, txg;
};
const char *dump_record_decode(const uint8_t *b, const struct dump_config *c, struct dump_record *out);
/* The header of a block of the map log that bp points to. */
const char *dump_maplog_check(const uint8_t *b, uint32_t len, const struct dump_bp *bp, const struct dump_config *c);

/* ---- commands: exit status 0 or 1 ---- */
int cmd_labels(struct dump_drive *drives, uint32_t count, bool verbose);
int cmd_config(struct dump_pool *p);
int cmd_datasets(struct dump_pool *p);
int cmd_ls(struct dump_pool *p, const char *dataset, const char *path, bool recursive);
int cmd_cat(struct dump_pool *p, const char *dataset, const char *path);
int cmd_extract(struct dump_pool *p, const char *dataset, const char *path, const char *dir);
int cmd_object(struct dump_pool *p, const char *dataset, const char *number);
int cmd_accounts(struct dump_pool *p, const char *dataset);
int cmd_block(struct dump_pool *p, const char *where);
int cmd_log(struct dump_pool *p);
int cmd_space(struct dump_pool *p);

#endif
