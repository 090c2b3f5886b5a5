/*
 * fs_int.h - private to fs/. Who may touch what: [c] constant after init, [l] under the node's
 * lock, [a] atomic, [m] under fp->lock.
 */
#ifndef AGATE_FS_INT_H
#define AGATE_FS_INT_H

#include "fs/fs.h"
#include "fs/fs_format.h"

#define FS_NODE_MAGIC 0x45444f4eu
#define FS_LINKS_MAX 0x7fffffffu
#define FS_SIZE_MAX ((uint64_t)INT64_MAX)
#define NSEC_MAX 999999999u
#define MODE_SUID 04000u
#define MODE_SGID 02000u
#define MODE_STICKY 01000u
#define OBJ_DIRTY_BYTES (48u * 1024u)
#define LOG_RECORD_BYTES 2048u /* upper bound of a record without its data */

enum fs_sync { FS_SYNC_STANDARD, FS_SYNC_ALWAYS, FS_SYNC_DISABLED };
enum fs_atime { FS_ATIME_OFF, FS_ATIME_ON, FS_ATIME_RELATIME };

/* ================= pool and datasets (fs_pool.c, fs_ds.c) ================= */
#define FS_DS_BUCKETS 256u
struct ncache;

struct fs_pool {
	struct pool *pool;    /* [c] */
	struct mutex lock;    /* configuration: create, destroy, rename, properties */
	struct spin table;    /* ends the list and the chains below for those that change them */
	struct list datasets; /* [s] of fs_ds.link: in service, heads and snapshots; oldest first */
	uint32_t snap_count;  /* [s] snapshots among them */
	_Atomic(struct fs_ds *) buckets[FS_DS_BUCKETS]; /* by key; readers take no lock: fs_ds.c */
	atomic_ullong next_cache_id;
	struct ncache *ncache;    /* [c] */
	fs_reply_found_fn *found; /* during replay */
	void *found_arg;
};

struct fs_ds {
	struct fs_pool *fp;  /* [c] */
	struct pool_ds *pds; /* [c] */
	struct list link;    /* [s] fp->table */
	_Atomic(struct fs_ds *) hash_next;
	atomic_uint refs; /* one of the table, one for each user; 0 = on its way out */
	struct qsbr_node retired;
	uint64_t guid, fsid;  /* [c] */
	uint64_t snap_guid;   /* [c] 0: the dataset itself */
	uint64_t key;         /* [c] in the table: guid, or that of the snapshot */
	uint64_t cache_id;    /* [c] never used twice: what the name cache knows it by */
	uint8_t hash_key[16]; /* [c] */
	uint32_t hash_bits;   /* [c] 63; tests make it less to force collisions */
	uint64_t root_object; /* [c] once in service */
	atomic_bool gone;     /* destroyed, or another one has taken its place */
	atomic_bool moving;   /* being rolled back; stays set when that was done */
	atomic_uint sync, atime, record_bytes;
	atomic_bool readonly, snapdir;
	struct mutex tree_lock; /* moves of directories */
	uint64_t tree_txg;      /* [tree_lock] txg of the last such move */
};

/* Of a dataset or a snapshot that is open; the caller's reference is the only one. */
int fs_ds_load(struct fs_pool *fp, struct pool_ds *pds, struct fs_ds **out) WARN_UNUSED;
/* Into the table, which takes over the reference. */
void fs_ds_publish(struct fs_pool *fp, struct fs_ds *ds);
/* Out of the table: nobody finds it any more, and its nodes are stale. */
void fs_ds_withdraw(struct fs_ds *ds);
/* Makes the root directory and the owner area when the dataset has none. */
int fs_ds_make_root(struct fs_ds *ds) WARN_UNUSED MAY_PARK;
/* Borrowed: under fp->lock, or while nothing else runs. */
struct fs_ds *fs_ds_find(struct fs_pool *fp, uint64_t guid);
/* A reference, or NULL. Takes no lock. */
struct fs_ds *fs_ds_find_get(struct fs_pool *fp, uint64_t key);
/* For a snapshot just loaded: a reference to it, published, or to the one of somebody who was
 * faster. */
struct fs_ds *fs_ds_publish_snap(struct fs_pool *fp, struct fs_ds *mine);
void fs_ds_free(struct fs_ds *ds);
/* Reads the properties into the fs_ds and hands the pool its policy. */
void fs_ds_refresh(struct fs_ds *ds);
bool fs_ds_is_readonly(const struct fs_ds *ds);

/* ================= properties (fs_prop.c, fs_prop_value.c) ================= */
struct prop_def {
	const char *name;
	const char *fallback; /* NULL: read-only */
	/* 0 and the canonical text and number; -EINVAL and a sentence */
	int (*parse)(const char *text, char *out, size_t out_len, uint64_t *out_number, char *why,
	    size_t why_len);
	bool is_number;
};
const struct prop_def *prop_find(const char *name);
const struct prop_def *prop_at(uint32_t index);
const char *prop_limit_refusal(int err);
/* One of the limits, which aren't inherited and which the pool keeps; NULL: name is none of them. */
uint64_t *prop_limit(const char *name, struct pool_limits *l);
/* Quotas of users and groups (account_prop.c): names with an '@', and defaults for the others. */
bool prop_is_account(const char *name);
bool prop_is_account_default(const char *name);
int prop_account_check(const char *name, char *why, size_t why_len) WARN_UNUSED; /* -ENOENT */
int prop_account_set(
    struct pool_ds *pds, const char *name, const char *value) WARN_UNUSED MAY_PARK;
/* def: how such values are written. name must live as long as out. */
void prop_account_reported(
    const struct prop_def *def, const char *name, struct pool_ds *pds, struct fs_prop *out);
/* Tells the pool what holds now. */
void account_limits_refresh(struct fs_ds *ds);
/* The quotas of uid and gid apply. */
void need_owned(struct pool_need *need, uint32_t uid, uint32_t gid);
/* Effective value of a settable property: local, inherited or default. */
void prop_effective(
    struct fs_pool *fp, const char *path, const struct prop_def *def, struct fs_prop *out);
int prop_set_local(struct pool_ds *pds, const char *name, const char *value) WARN_UNUSED MAY_PARK;
#define PROPS_MAX 16u
struct prop_setting {
	const char *name;
	char value[64];
};
/* "key=value" of each. */
int props_parse(const char *const *props, uint32_t count, struct prop_setting *out, char *why,
    size_t why_len) WARN_UNUSED;
int props_set(
    struct pool_ds *pds, const struct prop_setting *set, uint32_t count) WARN_UNUSED MAY_PARK;
int prop_parse_pair(const char *pair, const struct prop_def **out_def, char *out_value,
    size_t value_len, char *why, size_t why_len) WARN_UNUSED;

/* ================= inodes and nodes (inode.c, node.c) ================= */
struct fs_inode {
	enum fs_type type;
	uint32_t mode, uid, gid, nlink, project, flags;
	uint64_t size, change, parent, parent_gen;
	uint32_t rdev_major, rdev_minor;
	struct fs_time atime, mtime, ctime, btime;
	uint8_t verf[8];
	uint64_t dir_root, dir_free, dir_blocks, dir_entries;
	uint32_t dir_probe, dir_height;
	uint64_t xattr_object; /* kept as it is */
};
int inode_decode(const void *bonus, enum object_type obj_type, struct fs_inode *out) WARN_UNUSED;
void inode_encode(const struct fs_inode *ino, void *bonus);
enum object_type inode_object_type(enum fs_type type);

#define FS_ATTR_WORDS (sizeof(struct fs_attr) / sizeof(uint64_t))
STATIC_ASSERT(sizeof(struct fs_attr) % sizeof(uint64_t) == 0);
/* The in-memory companion of a pool_obj; a reference to the node is a hold of the object. */
struct fs_node {
	uint32_t magic;
	struct pool_obj *obj; /* [c] the object owns us */
	_Atomic(struct fs_ds *) ds;
	struct rwlock lock;
	struct fs_inode ino;                 /* [l] */
	uint64_t txg_last;                   /* [l] newest txg that changed it; see op.c */
	atomic_uint seq;                     /* odd while pub changes */
	_Atomic uint64_t pub[FS_ATTR_WORDS]; /* struct fs_attr as of the last change */
	_Atomic uint64_t parent,
	    parent_seen; /* copies for walks upward; seen: of the last LOOKUP that found it */
};
int node_adopt(struct fs_ds *ds, struct pool_obj *obj, struct fs_node **out) WARN_UNUSED;
/* A node for an object just created in tx; owns nothing more than the hold of obj. */
int node_make(struct fs_ds *ds, struct pool_obj *obj, const struct fs_inode *ino,
    struct fs_node **out) WARN_UNUSED;
/* Writes ino to the bonus under tx and publishes it. */
void node_store(struct pool_tx *tx, struct fs_node *n);
bool node_is_stale(const struct fs_node *n);
/* A client got to know it by a name in dir; such a name is gone. */
void node_seen_in(struct fs_node *n, const struct fs_node *dir);
void node_left_dir(struct fs_node *n, const struct fs_node *dir);
struct fs_node *node_ref(struct fs_node *n);

/* ================= access.c ================= */
#define PERM_READ 4u
#define PERM_WRITE 2u
#define PERM_EXEC 1u
#define PERM_OWNER 8u /* the owner may, whatever the mode (RFC 1813 4.4) */
int perm_check(
    const struct fs_attr *a, const struct fs_cred *cred, uint32_t want) WARN_UNUSED; /* -EACCES */
bool cred_in_group(const struct fs_cred *cred, uint32_t gid);
int perm_dir_change(const struct fs_attr *dir, const struct fs_cred *cred) WARN_UNUSED;
int perm_delete(
    const struct fs_attr *dir, const struct fs_attr *child, const struct fs_cred *cred) WARN_UNUSED;
/* Mode after somebody without privilege wrote to a file. */
uint32_t mode_after_write(uint32_t mode, const struct fs_cred *cred);

/* ================= names (name.c, ncache.c) ================= */
struct fs_name {
	const char *bytes;
	uint32_t len;
	uint64_t key, tag; /* the two halves of its hash; see name_init */
};
void name_init(const struct fs_ds *ds, const char *bytes, uint32_t len,
    struct fs_name *out);                                   /* with the hash */
int name_check(const char *name, uint32_t len) WARN_UNUSED; /* -EACCES, -ENAMETOOLONG */
/* For a name that is to be made: also -EEXIST for those that every directory has. */
int name_check_new(const char *name, uint32_t len) WARN_UNUSED;
bool name_is_dots(const char *name, uint32_t len);

struct ncache *ncache_create(void) WARN_UNUSED;
void ncache_destroy(struct ncache *c);
bool ncache_get(struct ncache *c, const struct fs_node *dir, const struct fs_name *name,
    uint64_t *out_object, uint64_t *out_generation);
void ncache_put(struct ncache *c, const struct fs_node *dir, const struct fs_name *name,
    uint64_t object, uint64_t generation); /* dir locked */
void ncache_drop(struct ncache *c, const struct fs_node *dir,
    const struct fs_name *name); /* dir locked exclusively */

/* ================= operations (op.c) ================= */
#define FS_OP_NODES_MAX 4u
struct fs_op {
	struct fs_ds *ds;
	const struct fs_req *req;
	struct fs_result *res;
	struct pool_tx *tx;
	struct fs_node *nodes[FS_OP_NODES_MAX]; /* locked, by ascending object number */
	uint32_t node_count;
	bool tree; /* tree_lock is held */
	bool wait; /* fs_op_finish waits for commit */
	struct pool_commit commit;
	struct fs_time now; /* later than any ctime of the locked nodes */
};
/* Begins the transaction, locks nodes (duplicates and NULL are fine), the tree lock before them
 * when asked. -ESTALE when nodes[0] is. */
int fs_op_start(struct fs_op *op, const struct pool_need *need, struct fs_node *const *nodes,
    uint32_t count) WARN_UNUSED MAY_PARK;
/* Unlocks, ends the transaction, waits for what was logged when err is 0. Returns err or the wait's
 * error. */
int fs_op_finish(struct fs_op *op, int err) WARN_UNUSED MAY_PARK;
void fs_op_unlock(struct fs_op *op);
/* ctime (and mtime) = now, change + 1. */
void fs_op_touch(const struct fs_op *op, struct fs_node *n, bool mtime);
void wcc_before(struct fs_wcc *w, const struct fs_node *n);
void wcc_after(struct fs_wcc *w, struct fs_node *n);
struct fs_time fs_time_now(void);
int fs_time_cmp(const struct fs_time *a, const struct fs_time *b);

/* ================= log records (log.c, replay.c) ================= */
struct log_rec {
	enum log_op op;
	uint32_t steps;
	const char *name, *name2;
	uint32_t name_len, name2_len;
	uint64_t dir, key, dir2, key2;
	uint64_t object, generation;
	enum fs_type type;
	uint64_t gone, gone_gen;
	uint64_t off;
	uint32_t block_bytes;
	struct fs_node
	    *nodes[LOG_INODES_MAX]; /* after-images of these; their order in the log is kept */
	uint32_t node_count;
	const struct iovec *iov; /* data, at most 2 pieces, or: */
	uint32_t iov_count;
	struct iobuf *buf;
	uint32_t buf_off;
	uint32_t data_len;
	bool defer;
};
/* Encodes the reply from op->res, then queues the record. Under the locks of all nodes in it. */
void log_queue(struct fs_op *op, const struct log_rec *r) MAY_PARK;

struct log_decoded {
	struct log_phys phys;
	const uint8_t *inodes;
	const char *name, *name2;
	const void *reply, *data;
	uint32_t steps, name_len, name2_len, reply_len, data_len, inode_count;
};
int log_decode(const void *payload, uint32_t len, uint16_t type,
    struct log_decoded *out) WARN_UNUSED; /* -ERR_CORRUPT */
/* The reply to origin (NULL: nobody can ask again) is kept with tx. */
void log_note_reply(
    struct pool_tx *tx, const struct fs_origin *origin, const void *reply, uint32_t len);
int log_decode_reply(const void *note, uint32_t len, struct fs_origin *out,
    const uint8_t **out_reply, uint32_t *out_len) WARN_UNUSED; /* -ERR_CORRUPT */
int fs_replay(struct fs_pool *fp) WARN_UNUSED MAY_PARK;
void fs_replay_notes(
    struct fs_pool *fp) MAY_PARK; /* before fs_replay: the replies that the root has */

/* ================= file contents (file.c) ================= */
/* Under the node's lock, exclusive. On failure the contents are as before. */
int file_write(struct pool_tx *tx, struct fs_node *n, uint64_t off, const struct iovec *iov,
    uint32_t iov_count, uint32_t len) WARN_UNUSED MAY_PARK;
int file_truncate(struct pool_tx *tx, struct fs_node *n, uint64_t size) WARN_UNUSED MAY_PARK;
void file_touch_atime(struct fs_node *n) MAY_PARK;

/* ================= entries ================= */
/* What a name in dir leads to. Shared lock inside. -ENOENT, -ESTALE. out holds the node. */
int lookup_entry(
    struct fs_node *dir, const char *name, uint32_t len, struct fs_node **out) WARN_UNUSED MAY_PARK;
int setattr_apply(
    struct fs_op *op, struct fs_node *n, const struct fs_sattr *set) WARN_UNUSED MAY_PARK;
int setattr_valid(const struct fs_sattr *set) WARN_UNUSED;

#endif
