/*
 * fs.h - POSIX file semantics over pool objects, as NFSv3 clients see them: datasets' properties,
 * inodes, directories, permissions, and the meaning of log records and their replay. Knows nothing of RPC.
 *
 * All calls may park. A modifying call returns when its effect is as durable as the dataset's sync
 * policy asks: standard - everything but UNSTABLE data; always - UNSTABLE data too; disabled - nothing waits.
 * No inode lock is held while it waits for the log.
 *
 * Common errors, besides those of pool.h: -ESTALE the object or its dataset is gone; -EACCES, -EPERM; -EROFS;
 * -ENOSPC, -EDQUOT (growth only); -ENAMETOOLONG (> 255 bytes); -EINVAL.
 */
#ifndef AGATE_FS_H
#define AGATE_FS_H

#include <sys/uio.h>
#include "base/base.h"
#include "pool/pool.h"

struct fs_pool; /* a pool whose datasets are in service */
struct fs_ds;   /* a dataset in service */
struct fs_node; /* a held inode; counted reference */

/* ================= bringing a pool into service ================= */

/* Who asked, so that a retransmission after a crash gets the same answer. */
struct fs_origin {
	uint8_t addr[16];   /* client, IPv6 or IPv4-mapped, no port */
	uint32_t xid, prog, vers, proc;
	uint8_t arg_hash[16];
};
/* A reply found in the root or the log; newest last, perhaps the same twice. Called during fs_pool_open only. */
typedef void fs_reply_found_fn(void *arg, const struct fs_origin *origin, const void *reply, uint32_t len);

/* Takes a pool just created or imported: replays the log, opens every dataset. -errno of pool_replay: the pool is untouched but for what was replayed. */
int fs_pool_open(struct pool *p, fs_reply_found_fn *found, void *arg, struct fs_pool **out) WARN_UNUSED MAY_PARK;
/* All fs_ds and fs_node references must have been dropped, requests drained. The pool stays open. */
void fs_pool_close(struct fs_pool *fp) MAY_PARK;
struct pool *fs_pool_pool(struct fs_pool *fp);

/* ================= datasets and properties ================= */
/* Creates the dataset and its root directory (mode 0755, root:root); props: "key=value" strings, checked before anything is made. */
int fs_ds_create(struct fs_pool *fp, const char *path, const char *const *props, uint32_t prop_count, char *why, size_t why_len) WARN_UNUSED MAY_PARK;
int fs_ds_destroy(struct fs_pool *fp, const char *path) WARN_UNUSED MAY_PARK; /* -EBUSY: has children, or is the pool's root */
int fs_ds_rename(struct fs_pool *fp, const char *path, const char *new_path) WARN_UNUSED MAY_PARK;
int fs_ds_open(struct fs_pool *fp, const char *path, struct fs_ds **out) WARN_UNUSED;
int fs_ds_open_guid(struct fs_pool *fp, uint64_t guid, struct fs_ds **out) WARN_UNUSED; /* hot path: no lock, no allocation */
void fs_ds_close(struct fs_ds *ds);
uint64_t fs_ds_guid(const struct fs_ds *ds);
struct pool_ds *fs_ds_pool_ds(struct fs_ds *ds);

/*
 * ---- snapshots. Names are "path@snapshot". ----
 * A snapshot in service is an fs_ds of its own, read-only, with its own fsid; it comes with its first use and keeps nobody from destroying
 * it (its nodes are stale then). Hold it as long as you hold a node of it.
 */
/* All or none, one moment for all. -EEXIST, -ENOENT, -EINVAL, -ENOSPC, -ERR_FEATURE; *out_bad: which name. Durable on return. */
int fs_snap_create(struct fs_pool *fp, const char *const *names, uint32_t count, uint32_t *out_bad) WARN_UNUSED MAY_PARK;
int fs_snap_destroy(struct fs_pool *fp, const char *const *names, uint32_t count, uint32_t *out_bad) WARN_UNUSED MAY_PARK; /* -EBUSY: held, or has clones */
/* Many at once, or none; not those that are held or have clones (-EBUSY). They are gone for their readers as when they are destroyed: for hidden names
 * (pool_snap_is_hidden), and back. */
int fs_snap_rename_all(struct fs_pool *fp, const char *const *names, const char *const *hidden, uint32_t count, uint32_t *out_bad) WARN_UNUSED MAY_PARK;
int fs_snap_rename(struct fs_pool *fp, const char *name, const char *new_snap) WARN_UNUSED MAY_PARK;
int fs_snap_open(struct fs_pool *fp, const char *name, struct fs_ds **out) WARN_UNUSED MAY_PARK;
int fs_snap_open_guid(struct fs_pool *fp, uint64_t ds_guid, uint64_t snap_guid, struct fs_ds **out) WARN_UNUSED MAY_PARK; /* no lock when it is in service */
uint64_t fs_ds_snap_guid(const struct fs_ds *ds); /* 0: no snapshot */
/* The dataset is what it was in the snapshot, at once for everyone; -EBUSY: there are newer snapshots. keep_as: the path of a clone that gets what would be
 * discarded. Handles of what the snapshot holds stay good; who uses the old fs_ds hears -ESTALE, sees fs_ds_is_moving, and opens it anew. */
int fs_ds_rollback(struct fs_pool *fp, const char *snap, const char *keep_as) WARN_UNUSED MAY_PARK;
bool fs_ds_is_moving(const struct fs_ds *ds); /* being rolled back, or was: another fs_ds is or will be in its place */
uint64_t fs_ds_incarnation(const struct fs_ds *ds); /* another one after each rollback */
int fs_ds_clone(struct fs_pool *fp, const char *snap, const char *path, const char *const *props, uint32_t prop_count, char *why, size_t why_len) WARN_UNUSED MAY_PARK;
int fs_ds_promote(struct fs_pool *fp, const char *path, char *why, size_t why_len) WARN_UNUSED MAY_PARK;

/*
 * ---- what happened between two snapshots; from comes before to, in its chain or in the one it was cloned from ----
 * Nothing of the pool is held between steps. Changes come by ascending object number, each object's together, all names of an object that has several.
 * '+' a name came, '-' a name went, 'R' a name is another one now, 'M' the object was changed or has another number of links. What is below a directory that was
 * renamed moved with it and isn't told apart.
 */
struct fs_change {
	char what;            /* '+', '-', 'M', 'R' */
	uint8_t type;         /* enum fs_type */
	bool modified;        /* 'M': contents or attributes; false: only links */
	int32_t links;        /* 'M': so many more */
	uint64_t object, generation;
	const char *path;     /* bytes; from '/', the root of the filesystem, on, as it is in `to`; '-': as it was in `from`. NULL: not known (a
	                       * file of several names, of which the one that is remembered went). "...": too long, its beginning is left out */
	const char *old_path; /* 'R' */
};
typedef void fs_change_fn(void *arg, const struct fs_change *c); /* must not park */
struct fs_diff;
/* Names of snapshots. -ENOENT; -EINVAL: from doesn't come before to. */
int fs_diff_open(struct fs_pool *fp, const char *from, const char *to, struct fs_diff **out) WARN_UNUSED MAY_PARK;
/* A short while's work, or until max changes were told. -ESTALE: a snapshot was destroyed. fp: the pool that it was opened for, or the same taken up again. */
int fs_diff_step(struct fs_pool *fp, struct fs_diff *d, uint32_t max, fs_change_fn *emit, void *arg, bool *done) WARN_UNUSED MAY_PARK;
void fs_diff_close(struct fs_diff *d);
/* For tests: so many records in memory, then it works in rounds. */
void fs_diff_limit(struct fs_diff *d, uint32_t records);
uint64_t fs_diff_steps(const struct fs_diff *d); /* pieces of work so far: leaves, slots, changes */

enum fs_prop_source { FS_PROP_DEFAULT, FS_PROP_LOCAL, FS_PROP_INHERITED, FS_PROP_READONLY };
struct fs_prop {
	const char *name;   /* static */
	char value[64];     /* as a user types it: "on", "128K", "zstd-3" */
	uint64_t number;    /* exact value for -p; sizes in bytes, times in seconds */
	bool is_number;
	enum fs_prop_source source;
	char inherited_from[DATASET_NAME_MAX + 1];
};
/* Settable and inherited: compression (off|on|lz4|zstd|zstd-1..19), checksum (on|xxh3|blake2b), recordsize (4K..1M, power of two),
 * atime (off|on|relatime; default off), sync (standard|always|disabled), readonly (off|on), snapdir (hidden|visible), protected (off|on: kept by the rooms above). Settable, not inherited: quota, refquota,
 * reservation, refreservation (none or a size). Read-only: used, usedbydataset, usedbysnapshots, usedbychildren, usedbyrefreservation,
 * pendingfree, available, referenced, logicalused, written, compressratio, creation, guid, type. -ENOENT: unknown; why says so and what is near. value NULL = inherit again. */
int fs_prop_set(struct fs_pool *fp, const char *path, const char *name, const char *value, char *why, size_t why_len) WARN_UNUSED MAY_PARK;
int fs_prop_get(struct fs_pool *fp, const char *path, const char *name, struct fs_prop *out) WARN_UNUSED;
uint32_t fs_prop_count(void);
const char *fs_prop_name(uint32_t index);
void fs_prop_size_text(uint64_t bytes, char *out, size_t len); /* as sizes are told: "1.50G" */

/* ================= requests ================= */
#define FS_GROUPS_MAX 32
#define FS_SNAPDIR_NAME ".snapshot" /* in every directory, see below */
#define FS_NAME_MAX 255
#define FS_SYMLINK_MAX 4095
#define FS_IO_BYTES_MAX (1u << 20)

struct fs_cred {
	uint32_t uid, gid;
	uint32_t group_count;
	uint32_t groups[FS_GROUPS_MAX];
};

enum fs_type { FS_REG = 1, FS_DIR = 2, FS_BLK = 3, FS_CHR = 4, FS_LNK = 5, FS_SOCK = 6, FS_FIFO = 7 }; /* ftype3 numbers */

struct fs_time {
	int64_t sec;
	uint32_t nsec;
};

struct fs_attr {
	enum fs_type type;
	uint32_t mode;  /* 07777 */
	uint32_t nlink, uid, gid;
	uint64_t size, used_bytes;
	uint32_t rdev_major, rdev_minor;
	uint64_t fsid;      /* of the dataset (and snapshot); never 0 */
	uint64_t object;    /* fileid; low 32 bits never 0 */
	uint64_t generation;
	uint64_t change;
	struct fs_time atime, mtime, ctime, btime;
};

/* Attributes before and after, taken under the lock that made the change atomic. */
struct fs_wcc {
	bool has_before, has_after;
	uint64_t before_size;
	struct fs_time before_mtime, before_ctime;
	struct fs_attr after;
};

enum fs_set_time { FS_TIME_KEEP, FS_TIME_SERVER, FS_TIME_CLIENT };
struct fs_sattr {
	bool set_mode, set_uid, set_gid, set_size;
	uint32_t mode, uid, gid;
	uint64_t size;
	enum fs_set_time atime_how, mtime_how;
	struct fs_time atime, mtime;
};

/* What a modifying call did; valid on success, wcc parts also on failure once the object was locked. */
struct fs_result {
	struct fs_wcc wcc;        /* of the object, or of the directory */
	struct fs_wcc wcc2;       /* RENAME: the target directory; LINK: the directory */
	bool has_node;
	uint64_t object, generation; /* created or found */
	struct fs_attr attr;      /* of it; LINK, SETATTR, WRITE: of the file */
	uint32_t written;         /* WRITE */
	bool stable;              /* WRITE: durable when the call returns */
};

/*
 * One request. reply (may be NULL): encodes the reply from the result while the change is being logged, into out (cap
 * bytes), returns its length (0: don't keep it). Called under the object's locks: must not park or call fs. The bytes go
 * into the log with origin, so that the duplicate-request cache can be rebuilt.
 */
struct fs_req {
	struct fs_cred cred;
	const struct fs_origin *origin; /* NULL: none */
	uint32_t (*reply)(void *arg, const struct fs_result *res, uint8_t *out, uint32_t cap);
	void *reply_arg;
};
#define FS_REPLY_MAX 512

/* ---- nodes ---- */
int fs_root(struct fs_ds *ds, struct fs_node **out) WARN_UNUSED MAY_PARK;
int fs_node_get(struct fs_ds *ds, uint64_t object, uint64_t generation, struct fs_node **out) WARN_UNUSED MAY_PARK; /* -ESTALE */
void fs_node_put(struct fs_node *n);
uint64_t fs_node_object(const struct fs_node *n);
uint64_t fs_node_generation(const struct fs_node *n);
struct fs_ds *fs_node_ds(const struct fs_node *n);
bool fs_is_root(const struct fs_node *n); /* of its dataset or snapshot */
/* Is n at or below the directory `top`? For exports of sub-directories. Walks parents (a hard-linked file: any of its parents it remembers). */
int fs_node_is_below(struct fs_node *n, uint64_t top_object, bool *out) WARN_UNUSED MAY_PARK;

/* ---- reading ---- */
void fs_getattr(struct fs_node *n, struct fs_attr *out); /* no lock, never parks */
/* FS_ACCESS_*: which of want the credential has. Owner override (RFC 1813 4.4) is for I/O, not reported here. */
#define FS_ACCESS_READ 0x01u
#define FS_ACCESS_LOOKUP 0x02u
#define FS_ACCESS_MODIFY 0x04u
#define FS_ACCESS_EXTEND 0x08u
#define FS_ACCESS_DELETE 0x10u
#define FS_ACCESS_EXECUTE 0x20u
uint32_t fs_access(struct fs_node *n, const struct fs_cred *cred, uint32_t want);
/* name: bytes, not terminated. "." and ".." work; ".." of the dataset's root is the root. -ENOENT, -ENOTDIR, -EACCES (also for an empty
 * name, a slash or a NUL inside). out_dir: attributes of the directory. */
int fs_lookup(struct fs_node *dir, const struct fs_cred *cred, const char *name, uint32_t len, struct fs_node **out) WARN_UNUSED MAY_PARK;
int fs_readlink(struct fs_node *n, char *out, uint32_t cap, uint32_t *out_len) WARN_UNUSED MAY_PARK; /* -EINVAL not a link */
/* Lends the data: slices as pool_read. out_eof: off + len reaches the size. Updates atime by the property. */
int fs_read(struct fs_node *n, const struct fs_cred *cred, uint64_t off, uint32_t len, struct pool_slice *slices, uint32_t max,
    uint32_t *out_count, uint32_t *out_len, bool *out_eof, struct fs_attr *out_attr) WARN_UNUSED MAY_PARK;

struct fs_dirent {
	const char *name;
	uint32_t name_len;
	uint64_t object, generation;
	uint64_t cookie;          /* give it back to go on behind this entry; stays valid for ever, also when the entry goes */
	enum fs_type type;
	const struct fs_attr *attr; /* with plus; NULL when it could not be read */
	bool snapdir;             /* it is the .snapshot of the directory that is listed; object is its fileid, no node */
};
/* Calls emit for the entries behind cookie (0 = from the start, "." and ".." first) until it returns false or the end. Entries that exist
 * throughout come exactly once. emit must not park. -ENOTDIR, -EACCES. */
int fs_readdir(struct fs_node *dir, const struct fs_cred *cred, uint64_t cookie, bool plus,
    bool (*emit)(void *arg, const struct fs_dirent *e), void *arg, bool *out_eof) WARN_UNUSED MAY_PARK;

/*
 * ---- .snapshot: a directory that isn't there, in every directory of a dataset (not in snapshots). Its entries are the snapshots in which
 * that directory exists, each leading to it as it was. It is named by the directory it is in. ----
 */
bool fs_name_is_snapdir(const char *name, uint32_t len);
uint64_t fs_snapdir_fileid(uint64_t dir_object);
/* May cred go through dir/.snapshot? -ENOENT when dir is in a snapshot itself. */
int fs_snapdir_enter(struct fs_node *dir, const struct fs_cred *cred) WARN_UNUSED;
void fs_snapdir_getattr(struct fs_node *dir, struct fs_attr *out); /* mtime and ctime move when snapshots come and go */
uint32_t fs_snapdir_access(struct fs_node *dir, const struct fs_cred *cred, uint32_t want);
/* A snapshot's name, not "." or "..". Drop the node, then close out_snap. */
int fs_snapdir_lookup(struct fs_node *dir, const struct fs_cred *cred, const char *name, uint32_t len, struct fs_ds **out_snap,
    struct fs_node **out) WARN_UNUSED MAY_PARK;
/* As fs_readdir; entries have no attributes. ".." is dir. */
int fs_snapdir_readdir(struct fs_node *dir, const struct fs_cred *cred, uint64_t cookie, bool (*emit)(void *arg, const struct fs_dirent *e),
    void *arg, bool *out_eof) WARN_UNUSED MAY_PARK;

struct fs_statfs {
	uint64_t total_bytes, free_bytes, avail_bytes;
	uint64_t total_files, free_files;
};
/* cred: as far as his quotas and his group's let him write; NULL: without any. */
void fs_statfs(struct fs_ds *ds, const struct fs_cred *cred, struct fs_statfs *out) MAY_PARK;
/* Quotas of users and groups as they are set; out->v to mem_free. */
int fs_account_limits(struct pool_ds *pds, struct pool_account_limits *out) WARN_UNUSED;

/* ---- changing ---- res is always filled as far as it goes ---- */
/* guard: NULL, or the ctime that must match (-ERR_NOTSYNC). All or nothing. */
int fs_setattr(struct fs_node *n, const struct fs_req *req, const struct fs_sattr *set, const struct fs_time *guard, struct fs_result *res) WARN_UNUSED MAY_PARK;
enum fs_stable { FS_UNSTABLE = 0, FS_DATA_SYNC = 1, FS_FILE_SYNC = 2 };
/* data: iov in one arena buffer `buf` when the caller has it (the log then takes a reference instead of a copy), else NULL. */
int fs_write(struct fs_node *n, const struct fs_req *req, uint64_t off, const struct iovec *iov, uint32_t iov_count, struct iobuf *buf,
    enum fs_stable how, struct fs_result *res) WARN_UNUSED MAY_PARK;
int fs_commit(struct fs_node *n, struct fs_result *res) WARN_UNUSED MAY_PARK;

enum fs_create_how { FS_CREATE_UNCHECKED, FS_CREATE_GUARDED, FS_CREATE_EXCLUSIVE };
struct fs_create_args {
	enum fs_type type;          /* FS_REG: create; FS_DIR: mkdir; FS_LNK: symlink; others: mknod */
	enum fs_create_how how;     /* FS_REG only, else GUARDED */
	struct fs_sattr set;
	uint8_t verf[8];            /* EXCLUSIVE */
	const char *target;         /* FS_LNK */
	uint32_t target_len;
	uint32_t rdev_major, rdev_minor;
};
/* out_node: the new (or, UNCHECKED, the existing) node; NULL if not wanted. */
int fs_create(struct fs_node *dir, const struct fs_req *req, const char *name, uint32_t len, const struct fs_create_args *args,
    struct fs_node **out_node, struct fs_result *res) WARN_UNUSED MAY_PARK;
int fs_remove(struct fs_node *dir, const struct fs_req *req, const char *name, uint32_t len, struct fs_result *res) WARN_UNUSED MAY_PARK; /* -EISDIR */
int fs_rmdir(struct fs_node *dir, const struct fs_req *req, const char *name, uint32_t len, struct fs_result *res) WARN_UNUSED MAY_PARK;  /* -ENOTEMPTY, -ENOTDIR */
int fs_rename(struct fs_node *from_dir, const char *from, uint32_t from_len, struct fs_node *to_dir, const char *to, uint32_t to_len,
    const struct fs_req *req, struct fs_result *res) WARN_UNUSED MAY_PARK; /* -EXDEV, -EISDIR, -ENOTDIR, -ENOTEMPTY, -EINVAL into itself */
int fs_link(struct fs_node *n, struct fs_node *dir, const char *name, uint32_t len, const struct fs_req *req, struct fs_result *res) WARN_UNUSED MAY_PARK;

/* The path of an object, its dataset's in front,, for people; slow. A file with several names: one of them. -ENOENT it is gone, or its name isn't known. */
int fs_object_path(struct fs_pool *fp, uint64_t ds_guid, uint64_t object, char *out, size_t len) WARN_UNUSED MAY_PARK;

/* Structure check of one pool's file systems on top of pool_check: link counts, parents, directory order, sizes. Sentences to problem(). */
int fs_check(struct fs_pool *fp, void (*problem)(void *arg, const char *what), void *arg, uint64_t *out_count) WARN_UNUSED MAY_PARK;

#endif
