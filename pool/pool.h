/*
 * pool.h - a copy-on-write pool of objects over sets of drives: transactions, the intent log tied to
 * them, verified and cached reads, datasets, space. Knows numbers and bytes; names and modes are fs/.
 *
 * The recipe for one change (pool/README.md tells why):
 *   pool_tx_begin      reserve dirty, log and raw space; may wait or refuse; before any lock
 *   lock the inode(s)
 *   pool_write, pool_obj_bonus_dirty, ...   change memory under that tx; can't fail for space any more
 *   pool_log_*         queue the record that would redo it, still under the lock
 *   unlock, pool_tx_end
 *   pool_commit        park until durable (or pool_log_defer'd: nothing, until COMMIT)
 *   reply
 * An operation past pool_tx_begin always finishes.
 *
 * Errors that any call that touches the pool may return: -ERR_SUSPENDED (too many drives are gone;
 * nothing was changed), -ENOMEM, and for reads -EIO or -ERR_CKSUM (nothing verifies; never wrong data).
 */
#ifndef AGATE_POOL_H
#define AGATE_POOL_H

#include <string.h>
#include <sys/uio.h>
#include "base/base.h"
#include "kernel-bypass/kb.h"
#include "raidz/raidz.h"
#include "pool/pool_format.h"

struct pool;
struct pool_ds;
struct pool_obj;
struct pool_tx;
struct pool_buf;

#define POOL_NAME_MAX 63
#define DATASET_NAME_MAX 255 /* the whole path, pool name included */

/* ================= life of a pool ================= */

struct pool_set_spec {
	enum raidz_kind kind;
	uint32_t parity;
	uint32_t width;
	struct kb_drive **drives; /* width of them */
};

struct pool_create_spec {
	const char *name; /* letters, digits, _-. ; starts with a letter; <= POOL_NAME_MAX */
	const struct pool_set_spec *sets;
	uint32_t set_count;
	struct kb_drive **logs; /* 0..ILOG_SIDES_MAX, mirrored; none: the in-pool ring */
	uint32_t log_count;
	uint64_t log_bytes;     /* slice of each log drive to use; 0 = all of it */
	struct kb_drive **spares;
	uint32_t spare_count;
	const char *host_name;
	uint64_t host_id;
};

/* What a create would give; also what pool_create checks first. Writes nothing. -EINVAL with a sentence in
 * out_why: name, widths, too small (says the minimum), the same drive twice. */
struct pool_plan {
	uint64_t raw_bytes, usable_bytes; /* usable: after parity and reserve */
	uint64_t log_ring_bytes;
	uint32_t small_record_percent;    /* what an 8 KiB record costs, percent of its data */
	uint32_t tolerates;               /* drives that each set may lose; 0: a lost drive is a lost pool */
};
int pool_plan_create(const struct pool_create_spec *spec, struct pool_plan *out, char *out_why, size_t why_len) WARN_UNUSED;

/*
 * pool_create - write GPT, labels, an empty root dataset; open the pool. The first uberblock is the commit point:
 * before it the drives are as good as untouched. Owns the drives afterwards (on failure they stay the caller's). May park.
 */
int pool_create(const struct pool_create_spec *spec, struct pool **out, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;

/* What one drive says of itself. -ENOENT: no label of ours; -ERR_CORRUPT: labels there, none valid. May park. */
struct pool_label_info {
	struct guid pool_guid, drive_guid;
	enum drive_role role;
	char pool_name[POOL_NAME_MAX + 1];
	uint64_t timeline, txg, config_txg; /* of the best uberblock on this drive */
	uint64_t best_time_ns;
	uint32_t set_index, column;
	uint32_t drive_count;               /* of the whole pool, its spares included */
	uint32_t member_count;              /* without them */
	bool clean;
	uint64_t host_id;                   /* who used it last; 0: released, nobody */
	char host_name[64];
};
int pool_label_probe(struct kb_drive *d, struct pool_label_info *out) WARN_UNUSED MAY_PARK;

struct pool_import_spec {
	struct guid pool_guid;
	struct kb_drive **drives; /* all that might belong to it; those that don't stay the caller's */
	uint32_t drive_count;
	const char *new_name;     /* NULL: as it was */
	bool readonly;
	bool force;               /* skip the check that another host is using it */
	bool missing_log;         /* go on though log records may be lost */
	uint32_t rewind_txgs;     /* 0 = newest; else take up an older root, on a new timeline */
	const char *host_name;
	uint64_t host_id;
};
struct pool_import_result {
	uint64_t txg;
	uint32_t missing_drives;
	uint32_t roots_skipped;   /* newest roots that could not be read and were passed over */
	bool log_pending;         /* there may be records to replay: pool_replay next */
	bool *drive_used;         /* caller's array of drive_count, or NULL: which drives the pool now owns */
	char why[256];
};
/* -ENOENT, -ERR_ACTIVE, -ERR_FEATURE, -EIO (too many drives missing; why says which), -ENODEV (log missing), -ERR_CORRUPT. May park. */
int pool_import(const struct pool_import_spec *spec, struct pool **out, struct pool_import_result *result) WARN_UNUSED MAY_PARK;

/*
 * pool_replay - deliver the records in the ring, in order, those that the root lacks to be redone, then start a new epoch. Between import and
 * the end of replay nothing else may change the pool. deliver redoes one record in a transaction of its own (tx from
 * pool_tx_begin_replay) and calls nothing of pool_log_*; progress is committed with the effect, so a
 * crash in the middle is repeated safely. Must be called once after every pool_import that isn't read-only; on a pool just created, or
 * replayed already, it does nothing. May park.
 */
struct pool_record {
	uint16_t type; /* the owner's, 1..0x7fff */
	uint16_t flags;
	uint64_t seq, txg;
	uint64_t dataset, incarnation;
	uint64_t object, generation;
	bool in_root;  /* the root has it already: delivered for information only (reply caches). The tail of the ring has passed most such
	                * records; pool_notes_each has what was noted of them. */
	const void *payload;
	uint32_t len_bytes;
};
typedef int pool_deliver_fn(void *arg, const struct pool_record *rec);
struct pool_replay_result {
	uint64_t delivered, skipped;
};
int pool_replay(struct pool *p, pool_deliver_fn *deliver, void *arg, struct pool_replay_result *out) WARN_UNUSED MAY_PARK;

/* Sync, mark clean, close, give the drives back (closed). Nobody may hold anything of it. -ERR_SUSPENDED: not clean, closed all the same. */
int pool_export(struct pool *p) MAY_PARK;
/* Like export, for good: no machine counts it as its own any more (host_id 0), so none takes it up by itself. */
int pool_release(struct pool *p) MAY_PARK;
/* Like export, but erases the labels: the pool can't be imported again. */
int pool_destroy(struct pool *p) MAY_PARK;

const char *pool_name(const struct pool *p);
struct guid pool_guid(const struct pool *p);
bool pool_is_readonly(const struct pool *p);
bool pool_is_suspended(const struct pool *p);
/* Suspended, requests get -ERR_SUSPENDED: their clients wait and try again. With fail_now they get -EIO at once. */
void pool_set_failmode(struct pool *p, bool fail_now);
/* Everything acknowledged or applied so far is in a committed root when this returns. */
int pool_sync(struct pool *p) WARN_UNUSED MAY_PARK;

struct pool_drive_status {
	struct guid guid;
	char path[256], id[128];
	enum drive_role role;
	uint32_t set_index, column;
	enum drive_state state;
	bool present;
	bool stale;
	bool resilvering;   /* the resilver that runs fills it */
	bool claimed;       /* a spare that another pool has taken, when last looked at */
	bool twin;          /* on the way to take the place of its column's drive, which is in use until then */
	bool until_import;  /* offline until the next import only */
	uint64_t out_since; /* seconds since 1970; 0: it isn't out */
	uint64_t read_errors, write_errors, cksum_errors, repaired;
	uint64_t slow_ios;  /* that took longer than pool_health_config.slow_ms */
	enum { DRIVE_WELL, DRIVE_DEGRADED_CKSUM, DRIVE_DEGRADED_SLOW } degraded; /* in use, but more than a threshold wrong */
	uint64_t degraded_since; /* seconds since 1970 */
	uint32_t sits_out_s;  /* slow: reads do without it for so long still; 0: they don't */
	uint32_t sit_outs;    /* how often since the import */
	uint32_t physical_sector_bytes; /* 0: not known now */
	bool volatile_cache; /* a power cut empties it: what must be durable waits for the medium */
	uint32_t read_us, siblings_read_us; /* when it was last found slow: what a read took it, and the others of its set */
};
struct pool_status {
	char name[POOL_NAME_MAX + 1];
	struct guid guid;
	enum { POOL_ONLINE, POOL_DEGRADED, POOL_SUSPENDED } health;
	char why[256];          /* in one sentence, and what to do; empty when online */
	uint64_t txg;
	uint64_t raw_bytes, raw_used_bytes, raw_pending_free_bytes; /* pending: part of used */
	uint64_t usable_bytes, usable_free_bytes; /* by the rule of docs/space.md, reserve taken out */
	uint32_t set_count, drive_count;
	struct config_set *sets;             /* as on disk; caller frees with pool_status_free */
	struct pool_drive_status *drives;
	uint64_t log_ring_bytes, log_used_bytes;
	bool log_in_pool;
	uint64_t data_errors;   /* blocks that nothing could verify, since import */
	bool reimport;          /* suspended for good: export and import; what was acknowledged as stable is replayed */
};
int pool_get_status(struct pool *p, struct pool_status *out) WARN_UNUSED; /* never waits for I/O */
void pool_status_free(struct pool_status *s);

/* ---- drives that go and come ---- */
/*
 * pool_drive_return - a drive that carries a label of this pool and whose member is absent, gone or out. It is written from now on, and
 * stale for what it missed (whole when nothing was accepted without it). A suspended pool goes on by itself when enough are back. The pool owns d when this is 0.
 * -ENOENT no member of this pool; -EBUSY the member is there and well, or another process has the drive; -EROFS; errors of reading the drive. May park.
 */
int pool_drive_return(struct pool *p, struct kb_drive *d) WARN_UNUSED MAY_PARK;
/* Out by the administrator's wish, until pool_drive_online or (until_import) the next import; durable on return. Data drives. -ENOENT; -EBUSY the
 * pool needs it; -EINVAL not a data drive; -ERR_SUSPENDED. online: also -ENODEV it isn't there; -EAGAIN it hasn't answered writes from before. */
int pool_drive_offline(struct pool *p, const struct guid *drive, bool until_import) WARN_UNUSED MAY_PARK;
int pool_drive_online(struct pool *p, const struct guid *drive) WARN_UNUSED MAY_PARK;
/* Forgets a drive's errors (drive NULL: those of all), and takes back what was faulted by them and is there. -ENOENT; errors of online. */
int pool_drive_clear(struct pool *p, const struct guid *drive) WARN_UNUSED MAY_PARK;
/* Asks every drive whether it is still there: one that has vanished is out when this returns, though nobody wrote to it, if its set can do
 * without it. By itself every few seconds; call it when the machine has lost a drive. */
void pool_drives_look(struct pool *p) MAY_PARK;

/*
 * pool_add - sets more for data, in use when this returns. The pool owns their drives when it is 0; what failed before that has written to
 * nothing but the new drives. Sets can't be removed again. mixed: also sets of another kind, parity or width than those there are.
 * -EINVAL with why; -EBUSY the pool is being checked, or a drive is somebody else's; -ENOSPC too many sets or drives; -ERR_SUSPENDED; errors of
 * writing to the new drives. May park.
 */
struct pool_add_spec {
	const struct pool_set_spec *sets;
	uint32_t set_count;
	bool mixed;
	bool dry_run; /* only out_plan, which is about the new sets alone */
};
int pool_add(struct pool *p, const struct pool_add_spec *spec, struct pool_plan *out_plan, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;

/*
 * Log drives. The log goes to the pool's own drives for the moment that this takes; no commit fails, some take longer. add: log_bytes counts for
 * the first one (0 = all of it). The pool owns d when it is 0. -EINVAL with why; -ENOSPC; -ENOENT; -EBUSY it was done too often since the
 * import; -ERR_SUSPENDED; -EROFS. pool_drive_replace takes log drives too; one that returns joins by itself.
 */
int pool_log_add(struct pool *p, struct kb_drive *d, uint64_t log_bytes, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;
int pool_log_remove(struct pool *p, const struct guid *drive) WARN_UNUSED MAY_PARK;

/* A spare more, shared with whoever lists it; the pool owns d when this is 0. -EINVAL with why (too small, listed already); -ENOSPC;
 * -ERR_SUSPENDED. remove: d's entry goes, its label stays for other pools that list it. -ENOENT; -EINVAL no spare; -EBUSY it is being used. */
int pool_spare_add(struct pool *p, struct kb_drive *d, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;
int pool_spare_remove(struct pool *p, const struct guid *drive) WARN_UNUSED MAY_PARK;

/*
 * pool_drive_replace - new_drive takes the place of a member, and is filled by a resilver, which begins at once. One that can still be read stays
 * in use until the new one has everything (pair.c), so redundancy is never less; then its labels are erased, and the pool closes it. One that is
 * gone or out is no member any more on return. Durable on return; the pool owns new_drive when this is 0.
 * -ENOENT; -EINVAL with why: too small (exact sizes), a spare; -EBUSY with why: the set can't do without the old one, or is replacing it already;
 * -ENOSPC too many drives; -ERR_SUSPENDED. May park.
 */
int pool_drive_replace(struct pool *p, const struct guid *old, struct kb_drive *new_drive, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;

/*
 * pool_expand - sets (that of a drive; NULL: all) grow into their drives, when all of a set are larger than what it has of each. Durable, and in use when
 * it returns; never undone. At most to four times the size that the set had at the import. -ENOENT; -EINVAL no data drive; -ENOSPC with why (a
 * drive given): there is no more; -EBUSY with why: a drive is being filled, the pool is being checked; -ERR_SUSPENDED; -EROFS. May park.
 */
int pool_expand(struct pool *p, const struct guid *drive, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;
/* By how much it would, in raw bytes as in pool_status. Never waits. */
uint64_t pool_expandable_bytes(struct pool *p);

/*
 * attach: kb becomes one more side of the mirror (or single drive) that `drive` is of, blank at first: a resilver fills it, and until then
 * nothing relies on it. The pool owns kb when this is 0. detach: a side less, when another one that is there has everything; its labels are
 * erased. detach of the new drive of a replacement: the old one stays. Log drives too (-EINVAL: the last one). -ENOENT; -EINVAL with why: parity, too small (exact sizes), the last drive; -ENOSPC with why: too
 * many; -EBUSY with why; -ERR_SUSPENDED; -EROFS. Durable on return. May park.
 */
int pool_drive_attach(struct pool *p, const struct guid *drive, struct kb_drive *kb, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;
int pool_drive_detach(struct pool *p, const struct guid *drive, char *out_why, size_t why_len) WARN_UNUSED MAY_PARK;

/*
 * Scrub: every block in use, on every column, in drive order; what is wrong is rewritten. A resilver is the same for what stale drives
 * lack; it begins by itself and takes the place of a scrub. Both go on after an import where they were.
 */
enum pool_scan_action { POOL_SCAN_START, POOL_SCAN_PAUSE, POOL_SCAN_RESUME, POOL_SCAN_STOP };
/* -EBUSY a resilver is running (start, stop); -ENOENT nothing to pause, resume or stop; -EROFS. */
int pool_scan(struct pool *p, enum pool_scan_action action) WARN_UNUSED;
struct pool_scan_status {
	enum scan_kind kind;
	enum scan_state state;
	uint64_t examined_bytes, total_bytes; /* raw; total: in use now */
	uint64_t repaired, errors;            /* blocks */
	uint64_t unreached;                   /* blocks that could not be read or written everywhere */
	uint64_t started, ended;              /* seconds since 1970 */
	uint32_t percent;                     /* of the work; what no power cut takes back, so it never falls while one scan runs */
	uint64_t left_s;                      /* until it ends, at the pace of the last minute; UINT64_MAX = can't be told yet */
	uint64_t bytes_per_s;                 /* raw, in the last minute; 0 = can't be told yet */
};
void pool_get_scan(struct pool *p, struct pool_scan_status *out);

/*
 * When is a drive ill? So many errors within so many seconds. I/O errors: it is faulted, as one that failed a write. Wrong checksums, slow I/O:
 * it is degraded, which means in use until a spare can take its place. Never one that its set can't do without. count 0: never.
 */
#define POOL_THRESHOLD_MAX 64u
struct pool_threshold {
	uint32_t count, seconds;
};
struct pool_health_config {
	struct pool_threshold io, cksum, slow;
	uint32_t slow_ms;   /* longer is a slow I/O */
	uint32_t sit_out_s; /* how long reads do without a drive that is slower than its siblings; 0: they don't */
};
#define POOL_HEALTH_DEFAULTS \
	((struct pool_health_config){{10, 600}, {10, 600}, {20, 60}, .slow_ms = 1000, .sit_out_s = 600})
void pool_set_health(struct pool *p, const struct pool_health_config *cfg);

/* Faults on purpose (kb.h) for a member, or none any more; what: for the event, a few words. Nothing when it is no member. */
void pool_drive_inject(struct pool *p, const struct guid *drive, struct kb_faults *f, bool armed, const char *what) MAY_PARK;

/*
 * Trim: tells the drives which of their space is free, in drive order, so that they keep their pace. Only what no root reaches that one may go back
 * to: free since 64 txgs; nobody allocates it meanwhile. Slowly, and more slowly while clients are at work. How far it is survives an import.
 * START also resumes. drive: NULL, or only that one. bytes_per_s: of one drive; 0: no limit.
 * -EBUSY another one is running; -ENOENT nothing to pause or cancel, or no such drive; -EOPNOTSUPP no drive understands discard; -EROFS; -ERR_SUSPENDED.
 */
enum pool_trim_action { POOL_TRIM_START, POOL_TRIM_PAUSE, POOL_TRIM_CANCEL };
int pool_trim(struct pool *p, enum pool_trim_action action, const struct guid *drive, uint64_t bytes_per_s) WARN_UNUSED MAY_PARK;
/* By itself, what was freed; bytes_per_s as above. */
void pool_set_autotrim(struct pool *p, bool on, uint64_t bytes_per_s);
struct pool_trim_status {
	enum trim_state state;
	uint32_t percent;          /* of the segments */
	uint32_t drives_without;   /* data drives that don't understand discard */
	uint64_t trimmed_bytes;    /* raw, by the run that is shown */
	uint64_t fresh_bytes;      /* raw, passed over: not free for long enough */
	uint64_t started, ended;   /* seconds since 1970 */
	uint64_t bytes_per_s;      /* as given */
	uint64_t auto_bytes;       /* raw, by autotrim since the import */
	struct guid drive;         /* zero: all */
	bool waiting;              /* for the pool to be open long enough, or for clients */
};
void pool_get_trim(struct pool *p, struct pool_trim_status *out); /* never waits for I/O */

/* ---- what happened ---- */
enum pool_event_level { POOL_EVENT_INFO, POOL_EVENT_WARNING, POOL_EVENT_ERROR };
struct pool_event {
	uint64_t seq;  /* 1, 2, ... since the pool was taken up */
	uint64_t time; /* seconds since 1970 */
	enum pool_event_level level;
	char name[32]; /* "drive.out" */
	char text[216]; /* one sentence */
};
/* The events behind `after`, oldest first; only the newest 256 are kept. How many were stored. Never waits. */
uint32_t pool_events_get(struct pool *p, uint64_t after, struct pool_event *out, uint32_t max);

/* A block that nothing can repair: of a reader that met it, or found by a scan. At most 256 are kept. */
struct pool_damage {
	uint64_t dataset; /* guid; 0: the pool's own */
	uint64_t object;  /* 0: the dataset's table of objects */
	uint64_t block;
};
/* changes: differs when the list does. Never waits. */
uint32_t pool_damage_get(struct pool *p, struct pool_damage *out, uint32_t max, uint64_t *out_changes);
void pool_damage_add(struct pool *p, const struct pool_damage *entry);
void pool_damage_forget(struct pool *p, const struct pool_damage *entry); /* the file is gone, or was restored */

/* Walks everything reachable from the root and compares with the space maps. problem() gets one sentence each.
 * out_count: problems found. On a pool in use it checks the last committed root. May park, long. */
int pool_check(struct pool *p, void (*problem)(void *arg, const char *what), void *arg, uint64_t *out_count) WARN_UNUSED MAY_PARK;

/* ================= named blobs: settings of others that travel with the pool ================= */
/* name <= 63 bytes; data <= 1 MiB. Durable when put returns. get: -ENOENT, else 0 and memory to mem_free. put with len 0 removes. */
int pool_blob_put(struct pool *p, const char *name, const void *data, uint32_t len) WARN_UNUSED MAY_PARK;
int pool_blob_get(struct pool *p, const char *name, void **out, uint32_t *out_len) WARN_UNUSED MAY_PARK;

/* ================= datasets ================= */
/* A dataset is named by its path ("tank/home/ann"); the pool's name is its root dataset. Handles are counted references. */
int pool_ds_create(struct pool *p, const char *path, struct pool_ds **out) WARN_UNUSED MAY_PARK; /* durable; -EEXIST, -ENOENT parent, -EINVAL name, -ENOSPC */
int pool_ds_destroy(struct pool *p, const char *path) WARN_UNUSED MAY_PARK; /* -EBUSY children or root; handles go stale at once; space comes back in the background */
int pool_ds_rename(struct pool *p, const char *path, const char *new_path) WARN_UNUSED MAY_PARK;
int pool_ds_open(struct pool *p, const char *path, struct pool_ds **out) WARN_UNUSED; /* -ENOENT */
int pool_ds_open_guid(struct pool *p, uint64_t guid, struct pool_ds **out) WARN_UNUSED;
struct pool_ds *pool_ds_ref(struct pool_ds *ds);
void pool_ds_close(struct pool_ds *ds);
/* Calls each(ds) for path and, when recursive, everything below, in order of name. The handle is borrowed. */
int pool_ds_each(struct pool *p, const char *path, bool recursive, int (*each)(void *arg, struct pool_ds *ds), void *arg) WARN_UNUSED;

/* Bytes are data bytes: set sectors times the pool's data share (space_bytes_for); which sectors is told in README "Snapshots". */
struct pool_ds_info {
	char path[DATASET_NAME_MAX + 1]; /* of a snapshot: path@name */
	uint64_t guid, incarnation, create_time;
	uint64_t parent_guid;          /* 0 = root */
	uint64_t object_count;
	/* As of the last commit, by the rule of docs/space.md. */
	uint64_t used_bytes;           /* own + snapshots + children (+ reserved) */
	uint64_t referenced_bytes;     /* everything reachable from its root, whomever it is shared with */
	uint64_t logical_bytes;        /* of that, before compression and parity */
	uint64_t own_bytes;            /* referenced and not its origin's */
	uint64_t snapshots_bytes;      /* only its snapshots refer to it: comes back when all of them go */
	uint64_t children_bytes;       /* used of the datasets below */
	uint64_t reserved_bytes;       /* of used: what its refreservation still lacks */
	uint64_t written_bytes;        /* of referenced, what came after its newest snapshot (its origin, everything) */
	uint64_t pending_bytes;        /* its own that was removed and is being freed; not in used */
	uint64_t available_bytes;      /* what one may still write */
	uint64_t free_bytes;           /* available, and what the reserve holds back for the moment */
	uint64_t size_bytes;           /* referenced and free */
	uint64_t snapshot_count;
	uint64_t origin_guid;          /* of a clone: the snapshot it came from; 0 = none */
	char origin[DATASET_NAME_MAX + 1]; /* its path@name; empty = none */
	bool destroyed;
};
void pool_ds_get_info(struct pool_ds *ds, struct pool_ds_info *out);
struct pool *pool_ds_pool(struct pool_ds *ds);
uint64_t pool_ds_guid(const struct pool_ds *ds);
uint64_t pool_ds_incarnation(const struct pool_ds *ds);

/* ================= snapshots and clones ================= */
/*
 * A snapshot is named "path@name" (name: as a component of a path). It is a read-only dataset: pool_snap_open gives a struct pool_ds whose
 * pool_tx_begin says -EROFS and which is read like any other. Its guid (pool_ds_guid) is that of the dataset in whose chain it is now,
 * pool_ds_snap_guid its own, which never changes, not by rename or promote either. A destroyed one is -ESTALE for its holders, as a destroyed dataset is.
 * Everything here that changes something may return -EROFS (pool), -ERR_SUSPENDED, -ENOSPC (half of the reserve is used up) and
 * -ERR_FEATURE (the pool was made before snapshots existed: pool_upgrade).
 */
struct pool_snap_info {
	char name[DATASET_NAME_MAX + 1]; /* behind the @ */
	uint64_t guid, create_txg, create_time;
	uint64_t referenced_bytes, logical_bytes;
	uint64_t written_bytes;          /* of referenced, what came after the snapshot before it (a clone's origin, everything) */
	uint64_t unique_bytes;           /* what destroying it alone gives back; only when asked for, else 0 */
	uint32_t holds, clones;
};
/*
 * Snapshots of two kinds of names are hidden: they are in no list that isn't asked for with POOL_SNAP_HIDDEN, not counted, and nobody reads them by their guid.
 * Otherwise they are like all others. What is destroyed and can be had back, and what a comparison with the living file system needs for a moment.
 */
#define POOL_SNAP_DESTROYED ".destroyed-"
#define POOL_SNAP_DIFF ".diff-"
static inline bool
pool_snap_is_hidden(const char *name) /* behind the @ */
{
	return strncmp(name, POOL_SNAP_DESTROYED, sizeof(POOL_SNAP_DESTROYED) - 1) == 0 ||
	       strncmp(name, POOL_SNAP_DIFF, sizeof(POOL_SNAP_DIFF) - 1) == 0;
}
uint32_t pool_snap_hidden_count(struct pool *p); /* of the whole pool */
/* All or none, as of one instant (one txg) between the changes acknowledged before the call and those begun after it. Returns when they can't be
 * lost any more, by going back two roots either (three txgs).
 * -EEXIST, -ENOENT, -EINVAL; *out_bad: index of the culprit. */
int pool_snap_create(struct pool *p, const char *const *names, uint32_t count, uint32_t *out_bad) WARN_UNUSED MAY_PARK;
/* Refused for all or for none. -EBUSY: held, or has clones. They vanish for readers at once; durable on return, and the space comes back in
 * slices. Up to 512 are one change; of more a crash before it returns may leave some. */
int pool_snap_destroy(struct pool *p, const char *const *names, uint32_t count, uint32_t *out_bad) WARN_UNUSED MAY_PARK;
/* new_name: behind the @. -EEXIST, -ENOENT, -EINVAL. Durable. */
int pool_snap_rename(struct pool *p, const char *name, const char *new_name) WARN_UNUSED MAY_PARK;
/* Many in one change, or none; *out_bad: index of the culprit. held: also -EBUSY for one that has holds or clones. */
int pool_snap_rename_all(struct pool *p, const char *const *names, const char *const *new_names, uint32_t count, bool held, uint32_t *out_bad) WARN_UNUSED MAY_PARK;
/* A held snapshot can't be destroyed. Tags are the owner's (1..255 bytes). hold: -EEXIST; release: -ENOENT. Durable. time: seconds since 1970. */
int pool_snap_hold(struct pool *p, const char *name, const char *tag) WARN_UNUSED MAY_PARK;
int pool_snap_release(struct pool *p, const char *name, const char *tag) WARN_UNUSED MAY_PARK;
int pool_snap_holds_each(struct pool *p, const char *name, int (*each)(void *arg, const char *tag, uint64_t time), void *arg) WARN_UNUSED;
/* Snapshots of the dataset path, oldest first, as of the moment of the call; ends with each's first value that isn't 0, and returns it.
 * Without POOL_SNAP_UNIQUE it reads nothing and never parks for long; with it, unsorted deadlists are sorted first (may park). */
#define POOL_SNAP_UNIQUE 1u
#define POOL_SNAP_HIDDEN 2u /* those too */
int pool_snap_each(struct pool *p, const char *path, uint32_t flags, int (*each)(void *arg, const struct pool_snap_info *s), void *arg) WARN_UNUSED MAY_PARK;
/* The same for those taken after txg, at most max of them: for who lists piece by piece. */
int pool_snap_each_after(struct pool *p, const char *path, uint64_t txg, uint32_t max,
    int (*each)(void *arg, const struct pool_snap_info *s), void *arg) WARN_UNUSED;
int pool_snap_get(struct pool *p, const char *name, uint32_t flags, struct pool_snap_info *out) WARN_UNUSED MAY_PARK; /* one; -ENOENT */
/* What destroying them together would give back. -ENOENT. May sort deadlists. */
int pool_snap_reclaim(struct pool *p, const char *const *names, uint32_t count, uint64_t *out_bytes) WARN_UNUSED MAY_PARK;
/* Names ("path") of the clones of a snapshot. */
int pool_snap_clones_each(struct pool *p, const char *name, int (*each)(void *arg, const char *path), void *arg) WARN_UNUSED;
/* Grows with every change of path's list of snapshots (create, destroy, rename, promote, rollback); never the same again. *out_time: wall ns of that change. */
uint64_t pool_snap_list_seq(struct pool_ds *ds, uint64_t *out_time);

/* Read-only handles, shared. The first one reads the root block. -ENOENT. */
int pool_snap_open(struct pool *p, const char *name, struct pool_ds **out) WARN_UNUSED MAY_PARK;
/* ds_guid 0: in whatever chain it is now; else it must be in that dataset's. */
int pool_snap_open_guid(struct pool *p, uint64_t ds_guid, uint64_t snap_guid, struct pool_ds **out) WARN_UNUSED MAY_PARK;
bool pool_ds_is_snap(const struct pool_ds *ds);
uint64_t pool_ds_snap_guid(const struct pool_ds *ds);    /* 0: a dataset */
uint64_t pool_ds_create_txg(const struct pool_ds *ds);   /* of a snapshot: it has everything born up to this txg */

/*
 * What differs between two snapshots, of which from comes before to: in its chain, or in the one its dataset was cloned from. Slots of objects
 * where something of the table was written in between, POOL_DIFF_SLOTS at a time by ascending number; type OBJ_FREE: there is no such object. Costs what
 * changed, not what is there; holds nothing between calls. check: -EINVAL from doesn't come before to. next: the first stretch that begins at
 * object or later; -ENOENT: no more. Both: -ESTALE one of them was destroyed.
 */
#define POOL_DIFF_SLOTS 32u
struct pool_diff {
	uint64_t first; /* object number of slot 0 */
	struct object_slot from[POOL_DIFF_SLOTS], to[POOL_DIFF_SLOTS];
};
int pool_diff_check(struct pool_ds *from, struct pool_ds *to) WARN_UNUSED;
int pool_diff_next(struct pool_ds *from, struct pool_ds *to, uint64_t object, struct pool_diff *out) WARN_UNUSED MAY_PARK;
/* The txg in which a block of a snapshot's object got its contents; 0: it is a hole. */
int pool_obj_block_birth(struct pool_obj *o, uint64_t block, uint64_t *out) WARN_UNUSED MAY_PARK;

/* A new dataset at path with the contents of the snapshot; shares its blocks. Properties: none. Returns when it can't be lost any more (three txgs). */
int pool_ds_clone(struct pool *p, const char *snap, const char *path, struct pool_ds **out) WARN_UNUSED MAY_PARK;
/*
 * The clone at path and the dataset it came from change roles: the snapshots up to its origin become its own, the other one becomes the clone.
 * -EINVAL not a clone; -EEXIST both have a snapshot of one name (why tells it). File systems don't notice.
 */
int pool_ds_promote(struct pool *p, const char *path, char *why, size_t why_len) WARN_UNUSED MAY_PARK;
/*
 * The dataset is again what its newest snapshot says. -EBUSY: snap isn't the newest. keep_as: the discarded state becomes a clone of snap at that path;
 * NULL: it is freed in slices. The dataset gets a new struct pool_ds (same guid, next incarnation): handles of the old one and objects held
 * by it are stale at once, and whoever finds it again by path or guid has the snapshot's contents, readable at once; the first pool_tx_begin on it waits
 * until the rollback can't be lost any more, as this call does. Records logged for the old incarnation don't replay on the new one.
 */
int pool_ds_rollback(struct pool *p, const char *snap, const char *keep_as) WARN_UNUSED MAY_PARK;

/* Set sectors of snapshots and datasets that are destroyed and not yet freed, as data bytes. */
uint64_t pool_pending_free_bytes(struct pool *p);
/* Enables what this firmware knows and the pool doesn't use yet; older firmware can then only read it. *out_enabled: feat_rocompat bits that are new. Durable. */
int pool_upgrade(struct pool *p, uint64_t *out_enabled) WARN_UNUSED MAY_PARK;
uint64_t pool_features(struct pool *p); /* feat_rocompat */

/* Properties are strings; their meaning and inheritance are the owner's. Local ones only. set with NULL removes. Durable. */
int pool_ds_prop_set(struct pool_ds *ds, const char *key, const char *value) WARN_UNUSED MAY_PARK;
int pool_ds_prop_get(struct pool_ds *ds, const char *key, char *out, size_t len) WARN_UNUSED; /* -ENOENT; -ENAMETOOLONG */
int pool_ds_prop_each(struct pool_ds *ds, int (*each)(void *arg, const char *key, const char *value), void *arg) WARN_UNUSED;
/*
 * Limits, in bytes as they are told (docs/space.md); 0 = none. quota: it and all below, snapshots too; refquota: its own files. reservation,
 * refreservation: so much is kept for them. A quota may be below what is used: then nothing grows. Writers get -EDQUOT from pool_tx_begin.
 * set: durable; in force when it returns. -ENOSPC: there isn't so much to reserve; -EINVAL: more reserved than the quota allows;
 * -ERR_FEATURE: the pool was made before there were limits (pool_upgrade); -EROFS, -ESTALE, -ERR_SUSPENDED.
 */
struct pool_limits {
	uint64_t quota, refquota, reservation, refreservation;
};
void pool_ds_get_limits(struct pool_ds *ds, struct pool_limits *out);
int pool_ds_set_limits(struct pool_ds *ds, const struct pool_limits *l) WARN_UNUSED MAY_PARK;
/*
 * What each user and group has: bytes (as `du` tells them) and objects of the files, directories and so on that belong to him, as of the last
 * commit. The owner keeps the uid and gid of an object at bytes 4 and 8 of its bonus. Pools made before count theirs after pool_upgrade, in the
 * background; so does a clone of a snapshot from before.
 */
enum pool_account_kind { POOL_ACCOUNT_USER, POOL_ACCOUNT_GROUP };
struct pool_account {
	uint32_t id;
	uint64_t bytes, objects;
};
/* 0: they are complete; -EAGAIN: still being counted; -ERR_FEATURE: the pool has none. Never waits. */
int pool_accounts_state(struct pool_ds *ds, unsigned *out_percent) WARN_UNUSED;
/* Those that have something, by id; ends with fn's first value that isn't 0. Also of snapshots. */
int pool_accounts_each(struct pool_ds *ds, enum pool_account_kind kind, int (*fn)(void *arg, const struct pool_account *a), void *arg) WARN_UNUSED MAY_PARK;
int pool_account_get(struct pool_ds *ds, enum pool_account_kind kind, uint32_t id, struct pool_account *out) WARN_UNUSED MAY_PARK;
/*
 * Quotas of users and groups; 0 = none. Kept in memory: the owner sets them when it opens the dataset and when they change. They hold from the moment
 * the accounts are complete. A default is for whoever has none of his own, but not for id 0. Who would grow beyond one gets -EDQUOT from pool_tx_begin
 * (struct pool_need, `owned`). A quota may be below what is used: then nothing grows. -ENOMEM.
 */
struct pool_account_limit {
	enum pool_account_kind kind;
	uint32_t id;
	uint64_t bytes, objects;
};
struct pool_account_limits {
	const struct pool_account_limit *v; /* by kind and id, each once */
	uint32_t count;
	uint64_t default_bytes[2], default_objects[2]; /* by kind */
};
int pool_ds_set_account_limits(struct pool_ds *ds, const struct pool_account_limits *l) WARN_UNUSED;
/* What the quotas leave to him; UINT64_MAX: none holds. Errors of reading, with what is known. */
int pool_account_left(struct pool_ds *ds, enum pool_account_kind kind, uint32_t id, uint64_t *out_bytes, uint64_t *out_objects) WARN_UNUSED MAY_PARK;
/* How blocks of this dataset are written from now on; the owner sets it when it opens the dataset or a property changes. */
struct pool_ds_policy {
	enum bp_compress compress;
	int zstd_level;            /* 1..19 */
	enum bp_cksum cksum;
	uint32_t record_bytes;     /* for new files */
};
void pool_ds_set_policy(struct pool_ds *ds, const struct pool_ds_policy *policy);
/* 512 bytes of the owner in the dataset's root block; changed under tx. */
void pool_ds_owner_get(struct pool_ds *ds, void *out, uint32_t len);
void pool_ds_owner_set(struct pool_tx *tx, struct pool_ds *ds, const void *data, uint32_t len);
uint64_t pool_ds_root_object(const struct pool_ds *ds); /* 0 = none yet */
void pool_ds_set_root_object(struct pool_tx *tx, struct pool_ds *ds, uint64_t object);

/* ================= transactions ================= */
struct pool_need {
	uint32_t dirty_bytes;   /* memory that will become dirty: data, plus 48 KiB per object or directory changed */
	uint32_t log_bytes;     /* payload of the records, upper bound */
	uint32_t log_records;
	bool frees;             /* net-freeing or administrative: may use half of the reserve; no quota applies */
	uint32_t grow_bytes;    /* what the dataset grows by at most, metadata aside: for quotas. 0: only what is there is changed */
	/* whose quotas apply, also with frees: to grow_bytes, to what moves to their accounts, to new objects */
	uint8_t owned;          /* POOL_OWNED_*; 0: nobody's */
	uint32_t uid, gid;
	uint32_t new_objects;
	uint64_t moved_bytes;
};
#define POOL_OWNED_UID 1u
#define POOL_OWNED_GID 2u

/*
 * Reserves, waits while the dirty limit or the log throttles, joins the open txg. Call it with no lock of fs/ or
 * pool/ held. -ENOSPC, -EDQUOT (both after forcing up to three txgs), -EROFS, -ERR_SUSPENDED, -ESTALE (dataset destroyed). May park.
 */
int pool_tx_begin(struct pool_ds *ds, const struct pool_need *need, struct pool_tx **out) WARN_UNUSED MAY_PARK;
/* During pool_replay only: no log space, all of the reserve. */
int pool_tx_begin_replay(struct pool_ds *ds, const struct pool_need *need, struct pool_tx **out) WARN_UNUSED MAY_PARK;
void pool_tx_end(struct pool_tx *tx);
uint64_t pool_tx_txg(const struct pool_tx *tx);
/*
 * pool_tx_note - a few bytes of the owner that an import finds again exactly when it finds the effect of tx. Only the newest 512 KiB or
 * so are kept. Never fails, waits or takes a lock; a note may be lost for lack of memory. 1..POOL_NOTE_MAX bytes. On the reactor that began tx.
 */
#define POOL_NOTE_MAX 1024u
void pool_tx_note(struct pool_tx *tx, const void *data, uint32_t len);
/* After an import, before anything changes the pool: the notes of the root, oldest first. What can't be read is left out. */
typedef void pool_note_fn(void *arg, const void *data, uint32_t len);
void pool_notes_each(struct pool *p, pool_note_fn *fn, void *arg) MAY_PARK;

/* ================= the log, tied to transactions ================= */
struct pool_log_rec {
	uint16_t type, flags;
	uint64_t object, generation;   /* what the record is about; 0 when about no single one */
	const struct iovec *head;      /* small parts, copied during the call */
	uint32_t head_count;           /* <= 4 */
	struct iobuf *data;            /* bulk payload behind the head, or NULL; a reference is taken if it must wait */
	uint32_t data_off, data_len;
};
struct pool_commit {               /* what to wait for; a plain value */
	uint64_t seq;              /* 0 = nothing */
	uint64_t txg;
	uint64_t epoch;
};
/*
 * Put rec into the ring, behind everything deferred of the objects named. Call under the locks that order changes of these objects.
 * Fills out. Can't fail: space was reserved; when the log has failed, out names the txg instead.
 */
void pool_log(struct pool_tx *tx, struct pool_obj *const *objs, uint32_t obj_count, const struct pool_log_rec *rec,
    struct pool_commit *out) MAY_PARK;
/* UNSTABLE: rec waits with obj until pool_commit_object, or a stable record that names obj, or until its txg has landed. */
void pool_log_defer(struct pool_tx *tx, struct pool_obj *obj, const struct pool_log_rec *rec);
/* Parks until durable, in the log or in a committed txg, whichever comes first. 0; -EIO, -ERR_SUSPENDED: not durable. */
int pool_commit(struct pool *p, const struct pool_commit *c) WARN_UNUSED MAY_PARK;
/* COMMIT: everything done to obj so far is durable when it returns 0. */
int pool_commit_object(struct pool_obj *obj) WARN_UNUSED MAY_PARK;

/* ================= objects ================= */
/* A held object is one struct per (dataset, object), shared by all holders. generation 0 = any. -ENOENT no such object; -ESTALE other generation or dying. */
int pool_obj_hold(struct pool_ds *ds, uint64_t object, uint64_t generation, struct pool_obj **out) WARN_UNUSED MAY_PARK;
struct pool_obj *pool_obj_ref(struct pool_obj *o);
void pool_obj_release(struct pool_obj *o);
/* number 0: the pool picks it (and the generation); else replay wants exactly these. block_bytes: power of two 4 KiB..1 MiB.
 * Holds the new object. -EEXIST (replay: that number is in use). */
int pool_obj_create(struct pool_tx *tx, struct pool_ds *ds, enum object_type type, uint32_t block_bytes, uint64_t number,
    uint64_t generation, struct pool_obj **out) WARN_UNUSED MAY_PARK;
/* The object is gone for everyone at once (holders get -ESTALE from now on); its data is freed in the background, in bounded slices. */
void pool_obj_destroy(struct pool_tx *tx, struct pool_obj *o) MAY_PARK;

uint64_t pool_obj_number(const struct pool_obj *o);
uint64_t pool_obj_generation(const struct pool_obj *o);
enum object_type pool_obj_type(const struct pool_obj *o);
bool pool_obj_is_stale(const struct pool_obj *o);
struct pool_ds *pool_obj_ds(const struct pool_obj *o);
uint64_t pool_obj_used_bytes(const struct pool_obj *o);
uint32_t pool_obj_block_bytes(const struct pool_obj *o);
/* One pointer for the owner's in-memory companion (fs inode); freed through drop when the last holder has gone and the object leaves memory. */
void *pool_obj_owner(const struct pool_obj *o);
/* Sets it if it is still NULL; returns the one that is set (yours, or the winner's). */
void *pool_obj_set_owner(struct pool_obj *o, void *owner, void (*drop)(void *owner));

/* The owner's 192 bytes. Read: the pointer is valid while held; concurrent change is the owner's locks' business.
 * dirty: returns the same bytes, writable for the rest of this tx; what an older live txg must still write is kept aside. */
const void *pool_obj_bonus(const struct pool_obj *o);
void *pool_obj_bonus_dirty(struct pool_tx *tx, struct pool_obj *o);
/* Data of at most OBJECT_INLINE_MAX bytes in the slot itself; only while the object has no blocks. */
int pool_obj_inline_set(struct pool_tx *tx, struct pool_obj *o, const void *data, uint32_t len) WARN_UNUSED; /* -EFBIG: has blocks, or too long */
int pool_obj_inline_get(const struct pool_obj *o, void *out, uint32_t cap, uint32_t *out_len) WARN_UNUSED; /* -ENOENT: not inline */
void pool_obj_inline_clear(struct pool_tx *tx, struct pool_obj *o);

/* ---- byte ranges (files). The caller's inode lock orders them: shared for read, exclusive for the others. ---- */
struct pool_slice {
	struct iobuf *buf; /* a reference that the caller drops; NULL = zeros (hole) */
	uint32_t off_bytes, len_bytes;
};
/* Lends what [off, off+len) holds, never copying; beyond the last block: zeros. out_count <= max; -E2BIG when max is too small. May park. */
int pool_read(struct pool_obj *o, uint64_t off, uint32_t len, struct pool_slice *out, uint32_t max, uint32_t *out_count) WARN_UNUSED MAY_PARK;
#define POOL_READ_SLICES_MAX 257 /* enough for 1 MiB at 4 KiB blocks, unaligned */
/*
 * pool_write - copy len bytes from iov into blocks. A partly overwritten block is read first: that can fail, and
 * then nothing of this call has been applied (blocks are made ready before any is changed). May park. Blocks are trimmed
 * to what was written, in 4 KiB steps; a file of one block grows its block up to the object's block size.
 */
int pool_write(struct pool_tx *tx, struct pool_obj *o, uint64_t off, const struct iovec *iov, uint32_t iov_count) WARN_UNUSED MAY_PARK;
/* Zero [off, off+len): whole blocks become holes, edges are overwritten with zeros. len UINT64_MAX = to the end of the
 * object (truncation). Blocks far away are freed in the background; readers see zeros at once. May park. */
int pool_free_range(struct pool_tx *tx, struct pool_obj *o, uint64_t off, uint64_t len) WARN_UNUSED MAY_PARK;

/* ---- whole blocks (directories and other structures of the owner) ---- */
/* create: a block that was never written, zeroed, no read. Blocks are block_bytes long. -ENOENT: a hole and not create. */
int pool_buf_hold(struct pool_obj *o, uint64_t block, bool create, struct pool_buf **out) WARN_UNUSED MAY_PARK;
const void *pool_buf_data(const struct pool_buf *b);  /* valid until release or the next dirty of the same block */
void *pool_buf_dirty(struct pool_tx *tx, struct pool_buf *b) MAY_PARK; /* writable bytes for this tx */
void pool_buf_release(struct pool_buf *b);

#endif
