/*
 * admin_int.h - the private state of admin/: the engine's side of agated.
 *
 * Lock: adm->lock (RANK_ADMIN) is held exclusively by a command that changes anything (pools coming
 * and going, datasets, shares), and shared by those that only look. It guards pools[] and each
 * pool's list of shares.
 */
#ifndef AGATE_ADMIN_INT_H
#define AGATE_ADMIN_INT_H

#include <jansson.h>
#include "admin/config.h"
#include "admin/protocol.h"
#include "kernel-bypass/kb_nvme.h"
#include "nfsd/nfsd.h"

#define ADM_POOLS_MAX 16u
#define ADM_CTRLS_MAX 128u

struct adm_diary;
struct adm_damages;
struct adm_sched;

struct adm_pool {
	struct pool *pool;
	struct fs_pool *fp;
	json_t *shares; /* the pool's share list, see shares.c; owned */
	json_t *props;  /* its properties that were set, see props.c; owned */
	struct adm_damages *damages; /* its damaged files, see damages.c; owned */
	struct adm_diary *diary; /* its history and events, see diary.c; owned */
	struct adm_sched *sched; /* its schedules, see schedule.c; owned; NULL: damaged */
};

/* An NVMe controller that the engine drives itself; see vfio.c. */
struct adm_ctrl {
	char address[16];
	struct nvme_ctrl *ctrl;
};

/* A drive with faults on purpose; see inject.c. */
#define ADM_INJECTS_MAX 64u
struct adm_inject {
	struct kb_info info;     /* which drive */
	struct kb_faults *faults; /* NULL: the entry is free */
	bool armed;
	uint64_t since; /* seconds since 1970 */
};

struct adm_monitor;
struct adm_watch;

/* What arrivals.c remembers between looks. */
struct adm_arrivals {
	uint64_t drives;     /* what was there at the last look, hashed */
	uint64_t changed_ns; /* when that changed; 0 = all is taken up that can be */
	uint64_t looked_ns;
	atomic_bool anew; /* a pool was given up: its drives may be back before they were missed */
};

struct adm {
	const struct adm_config *cfg; /* [c] */
	struct adm_monitor *monitor;  /* [c] once it runs */
	struct adm_watch *watch;      /* [c] the same; NULL: none */
	struct adm_arrivals arrivals; /* monitor's fiber only, once it runs; but anew */
	struct mutex drives_lock;     /* RANK_ADMIN_DRIVES: one at a time gives drives to pools in service; under lock, shared */
	int parent_fd;                /* [c] to the privileged parent; -1 = none */
	struct mutex parent_lock;     /* RANK_LEAF: one request to the parent at a time */
	struct rwlock lock;
	struct adm_pool pools[ADM_POOLS_MAX];
	uint32_t pool_count;
	struct nfsd *nfsd;
	struct net_listener *socket;
	struct cond stop_changed;
	struct mutex stop_lock;
	bool stopping;
	struct waitgroup sessions; /* the acceptor and every session */
	struct spin session_guard;
	struct list session_list; /* under session_guard */
	uint64_t session_last; /* number of the newest session; under session_guard */
	struct mutex diff_lock; /* RANK_LEAF: the list below */
	struct list diffs;      /* of struct adm_diff */
	uint32_t session_count, guest_count; /* under session_guard; guests: not administrators */
	uint64_t started_ns;
	bool safe_mode;
	char host_name[64];
	uint64_t host_id;
	struct mutex inject_lock; /* RANK_LEAF; the next */
	struct adm_inject injects[ADM_INJECTS_MAX];
	uint64_t nvme_devices; /* at the last vfio_refresh; under lock, as the next three */
	struct kb_vfio *vfio; /* NULL: not needed so far */
	struct adm_ctrl ctrls[ADM_CTRLS_MAX];
	uint32_t ctrl_count;
};

/* What a command says when it fails. The message is one sentence; untouched and next may be empty.
 */
struct adm_error {
	int code; /* positive errno or ERR_* */
	char message[512];
	char untouched[160];
	char next[320];
};
/* Fills e and returns -code. */
int adm_fail(struct adm_error *e, int err, const char *fmt, ...) PRINTF_LIKE(3, 4);
void adm_fail_untouched(struct adm_error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
void adm_fail_next(struct adm_error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* One command: args (borrowed, an object) to *out (a new reference; NULL = nothing to say).
 * adm->lock is held as need says. */
typedef int adm_command_fn(struct adm *a, json_t *args, json_t **out, struct adm_error *e);
/* Any local user may look; the rest is for administrators. */
enum adm_need {
	ADM_LOOK,
	ADM_LOOK_PRIVILEGED,
	ADM_DRIVES, /* changes a pool in service, not which there are: others may look meanwhile */
	ADM_CHANGE,
};
struct adm_command {
	const char *name;
	adm_command_fn *run;
	enum adm_need need;
};
extern const struct adm_command adm_pool_commands[], adm_drive_commands[], adm_fs_commands[], adm_snap_commands[],
    adm_sched_commands[],
    adm_share_commands[], adm_system_commands[], adm_disk_commands[], adm_inject_commands[];

/* ---- helpers for commands ---- */
/* A string argument; NULL and an error when it is missing, empty or no string. */
const char *adm_arg_string(json_t *args, const char *key, struct adm_error *e);
bool adm_arg_flag(json_t *args, const char *key);
struct adm_pool *adm_find_pool(struct adm *a, const char *name, size_t len);
/* The pool of a dataset path, or an error that names it. */
struct adm_pool *adm_pool_of(struct adm *a, const char *dataset, struct adm_error *e);
int adm_add_pool(struct adm *a, struct pool *p, struct adm_error *e) MAY_PARK;
void adm_guid_text(const struct guid *g, char out[33]);
/* A JSON string of any bytes: what isn't UTF-8 is made so. */
json_t *adm_text(const char *s);

/* The pool that args name as "pool", or NULL and an error. */
struct adm_pool *adm_arg_pool(struct adm *a, json_t *args, struct adm_error *e);
/* Forgets what is kept of a pool; the pool itself is the caller's. */
void adm_pool_free(struct adm_pool *ap) MAY_PARK;

/* ---- pool_show.c ---- */
int pool_cmd_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e);
int pool_cmd_status(struct adm *a, json_t *args, json_t **out, struct adm_error *e);

/* ---- cmd_add.c ---- */
int pool_cmd_add(struct adm *a, json_t *args, json_t **out, struct adm_error *e);

/* ---- diary.c: what was done to a pool, and what happened to it; kept in the pool ---- */
enum diary_kind { DIARY_HISTORY, DIARY_EVENTS, DIARY_KINDS };
int diary_load(struct adm_pool *ap, struct adm_error *e) MAY_PARK;
void diary_free(struct adm_diary *n);
/* Never waits for the pool. who: the user, or the level; what: the command, or the event's name. */
void diary_add(struct adm_pool *ap, enum diary_kind kind, const char *who, const char *what,
    const char *text);
/* Takes over what the pool has seen since the last time; may be called by several at once. */
void diary_gather(struct adm_pool *ap);
/* Makes what is new durable; harmless when the pool is suspended. */
void diary_store(struct adm_pool *ap) MAY_PARK;
/* Oldest first: time, who, what, text; all that has happened before the call. */
json_t *diary_json(struct adm_pool *ap, enum diary_kind kind);

/* ---- damages.c: files that have lost blocks ---- */
int damages_load(struct adm_pool *ap) WARN_UNUSED MAY_PARK;
void damages_free(struct adm_damages *d);
void damages_look(struct adm_pool *ap) MAY_PARK; /* names what is new, forgets what is well */
json_t *damages_json(const struct adm_pool *ap);

/* ---- props.c: settings of a pool ---- */
int props_load(struct adm_pool *ap, struct adm_error *e) MAY_PARK;
const char *props_get(const struct adm_pool *ap, const char *name); /* set or by default */
bool props_is(const struct adm_pool *ap, const char *name, const char *value);
void props_apply(struct adm_pool *ap); /* what the pool itself has to know of them */
/* A fact that no command sets, kept beside the properties. */
int64_t props_fact(const struct adm_pool *ap, const char *name);
int props_fact_store(struct adm_pool *ap, const char *name, int64_t value) MAY_PARK;
int pool_cmd_get(struct adm *a, json_t *args, json_t **out, struct adm_error *e);
int pool_cmd_set(struct adm *a, json_t *args, json_t **out, struct adm_error *e);

/* ---- monitor.c ---- */
int monitor_start(struct adm *a) WARN_UNUSED MAY_PARK;
void monitor_stop(struct adm *a) MAY_PARK;
/* Something was noted that is to be made durable soon. */
void monitor_wake(struct adm *a);

/* ---- hotplug.c ---- */
/* The directory where drives appear and vanish is watched: true since the last call when it changed. */
int hotplug_watch(struct adm *a) WARN_UNUSED;
void hotplug_unwatch(struct adm *a);
bool hotplug_changed(struct adm *a);
void hotplug_poke(struct adm *a); /* as if it had */
/* Looks at all drives of the machine and takes back those that pools in service miss. Under lock, shared, and drives_lock. */
void hotplug_take(struct adm *a) MAY_PARK;
/* Does a pool miss a drive that could come back? */
bool hotplug_is_missing(struct adm *a);

/* ---- drives.c ---- */
struct drive_list {
	struct kb_found *found;
	uint32_t count;
	bool no_memory;
};
/* The drives there are; found to mem_free. */
int drives_scan(struct adm *a, struct drive_list *out) WARN_UNUSED MAY_PARK;
/* "d0.img", "/dev/nvme0n1", "nvme0n1", a serial or a WWN: opened through the parent. force: also one
 * with somebody else's data on it. */
int drives_open(struct adm *a, const char *name, bool force, struct kb_drive **out,
    struct adm_error *e) MAY_PARK;
/* Where a drive of that name is, without opening it; out->info.path says. -ENOENT; -ENOTUNIQ. */
int drives_resolve(struct adm *a, const char *name, struct kb_found *out) WARN_UNUSED MAY_PARK;
/* By its path, without questions. */
int drives_open_path(struct adm *a, const char *path, struct kb_drive **out) WARN_UNUSED MAY_PARK;
/* Every drive of the machine (or of the configured image directory) that isn't in use by the
 * system, opened; close those not wanted. out is an array to mem_free. Drives of pools in service
 * are left out. */
int drives_open_all(struct adm *a, struct kb_drive ***out, uint32_t *out_count) MAY_PARK;
bool drives_in_service(struct adm *a, const char *id, const char **out_pool);
/* May this drive become part of a new pool? A spare may wait for several pools. */
int drives_check_free(struct adm *a, struct kb_drive *d, bool as_spare, bool force,
    struct adm_error *e) MAY_PARK;

/* How well a name fits a drive: 0 not at all, 1 the file's name without its ending, 2 exactly. */
int drives_match(const struct kb_info *info, const char *name);

/* ---- inject.c: drives that fail on purpose ---- */
/* A drive that has just been opened gets the faults it is to have. -ENODEV: it is to be gone, and is closed. */
int inject_open(struct adm *a, struct kb_drive *d) WARN_UNUSED MAY_PARK;
/* What is being done to the drive, in a few words, in out; false: nothing. */
bool inject_text(struct adm *a, const char *id, char *out, size_t len);
void inject_look(struct adm *a) MAY_PARK; /* ends what has had its count or its time; under lock, shared */
void inject_free(struct adm *a);

/* ---- cmd_fs.c, fs_list.c ---- */
/* A share of the dataset, or, when below, of one below it: these keep it from being destroyed. */
const char *fs_shared(const struct adm_pool *ap, const char *name, bool below);
int fs_cmd_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e);
int fs_cmd_userspace(struct adm *a, json_t *args, json_t **out, struct adm_error *e);
int fs_cmd_groupspace(struct adm *a, json_t *args, json_t **out, struct adm_error *e);

/* Is it, or with below something below it, protected (a property) from being destroyed? Fills e. */
int fs_check_protected(struct adm_pool *ap, const char *name, bool below, struct adm_error *e);

/* ---- cmd_diff.c ---- */
#define ADM_ARG_SESSION "session" /* an argument that the server sets: whose request it is */
int diff_cmd(struct adm *a, json_t *args, json_t **out, struct adm_error *e) MAY_PARK;
void diff_session_ends(struct adm *a, uint64_t session) MAY_PARK;
void diff_look(struct adm *a, struct adm_pool *ap) MAY_PARK; /* hidden snapshots that nobody needs go */

/* ---- trash.c ---- */
#define TRASH_DIR ".destroyed"
bool trash_is_inside(const char *path); /* of what is destroyed already; snap_names.c */
int64_t trash_keeps_s(const struct adm_pool *ap); /* how long; 0: not at all */
/* A filesystem with its snapshots and all below it: put away for a while (*out_kept), or destroyed at once. */
int trash_destroy(struct adm_pool *ap, const char *path, bool *out_kept, struct adm_error *e) MAY_PARK;
/* Is there a hold, or a clone outside, in what is to be destroyed? Fills e. */
int trash_check(struct adm_pool *ap, const char *path, struct adm_error *e);
/* What would come back if all that was destroyed went for good. An error while the pool can't be written. */
int trash_used(struct adm_pool *ap, uint64_t *out) WARN_UNUSED MAY_PARK;
int trash_purge(struct adm_pool *ap, const char *path) MAY_PARK;
int trash_json(struct adm_pool *ap, json_t *rows);
int trash_cmd_undestroy(struct adm *a, json_t *args, json_t **out, struct adm_error *e) MAY_PARK;
/* ---- trash_snap.c: snapshots that were destroyed ---- */
struct trash_snap {
	const struct pool_ds_info *ds;
	const struct pool_snap_info *info; /* under its hidden name */
	const char *was;                   /* behind the @ */
	int64_t time;
};
struct snap_names;
/* Of a destroyed snapshot's hidden name: when (seconds), and what it was called, within name; false: another name. */
bool trash_snap_parse(const char *name, int64_t *out_time, const char **out_was);
const char *trash_snap_was(const char *name); /* of a destroyed one's hidden name: what it was called; NULL: another */
int trash_snaps_destroy(struct adm_pool *ap, const struct snap_names *names, bool *out_kept, struct adm_error *e) MAY_PARK;
int trash_snaps_json(struct adm_pool *ap, json_t *rows) MAY_PARK;
int trash_snaps_undestroy(struct adm_pool *ap, json_t *args, json_t **out, struct adm_error *e) MAY_PARK;
/* Destroys for good what is over, and what is in the way unless a filesystem was destroyed before. When that was; INT64_MAX: none is in the way. */
int64_t trash_snaps_look(struct adm_pool *ap, bool low, int64_t oldest) MAY_PARK;
void trash_look(struct adm_pool *ap) MAY_PARK; /* destroys for good what is old, or in the way */

/* ---- schedule_store.c ---- */
int sched_load(struct adm_pool *ap, struct adm_error *e) MAY_PARK;
void sched_free(struct adm_pool *ap);
/* path and what is below it is called otherwise now, or is gone (to NULL): so its schedules. */
uint32_t sched_count(struct adm_pool *ap, const char *path); /* of path and what is below it */
void sched_follow(struct adm_pool *ap, const char *path, const char *to) MAY_PARK;

/* ---- snapshot.c ---- */
struct snap_names;
int snap_cmd_destroy(struct adm_pool *ap, json_t *args, json_t **out, struct adm_error *e) MAY_PARK;
int snap_cmd_get(struct adm *a, json_t *args, json_t **out, struct adm_error *e) MAY_PARK; /* snap_props.c */
bool snap_prop_is_known(const char *name);
/* Of all snapshots of path, to list. mixed: filesystems are in it, too; what only these have is "-". */
int snap_props_of(struct adm_pool *ap, const char *path, json_t *wanted, bool mixed, json_t *list, struct adm_error *e) MAY_PARK;
int snap_cmd_rename(struct adm_pool *ap, const char *name, const char *to, struct adm_error *e) MAY_PARK;
int snap_busy(struct adm_pool *ap, const char *name, struct adm_error *e); /* says what keeps it */
int snap_destroy_named(struct adm_pool *ap, const struct snap_names *names, struct adm_error *e) MAY_PARK;

/* ---- imports.c ---- */
/* Imports the pools found that are this machine's; lock held exclusively, or nobody else yet. */
enum imports_when {
	IMPORTS_START,    /* what can serve */
	IMPORTS_COMPLETE, /* only what has all its drives; more may be coming */
	IMPORTS_SETTLED   /* what can serve; no more drives came */
};
void imports_auto(struct adm *a, enum imports_when when) MAY_PARK;
int imports_list(struct adm *a, json_t **out, struct adm_error *e) MAY_PARK;
int imports_run(struct adm *a, json_t *args, json_t **out, struct adm_error *e) MAY_PARK;

/* ---- cmd_pool.c ---- */
/* Out of service, then end(pool): pool_export, pool_release or pool_destroy. Under lock, exclusive. */
int adm_pool_close(struct adm *a, struct adm_pool *ap, int (*end)(struct pool *p), struct adm_error *e) MAY_PARK;

/* ---- arrivals.c: pools whose drives turn up while the daemon runs ---- */
void arrivals_begin(struct adm *a) MAY_PARK; /* before the imports at start */
void arrivals_look(struct adm *a) MAY_PARK;  /* monitor's fiber, no lock held */
void arrivals_expect(struct adm *a); /* the next look takes up what it can, whether or not anything came */

/* ---- shares.c ---- */
int shares_load(struct adm *a, struct adm_pool *ap, struct adm_error *e) MAY_PARK;
int shares_store(struct adm *a, struct adm_pool *ap, struct adm_error *e) MAY_PARK;
int shares_publish(struct adm *a, struct adm_error *e) MAY_PARK; /* all pools' shares to nfsd */

/* ---- parent.c, the engine's end ---- */
/* A descriptor of path, opened by the parent for reading and writing (O_DIRECT when the file system
 * allows). -errno. */
int parent_open(struct adm *a, const char *path, int *out_fd) WARN_UNUSED MAY_PARK;
/* Gives an NVMe controller to vfio-pci, or back to the kernel. 0 or -errno with a sentence in why. */
int parent_bind(struct adm *a, const char *address, bool to_vfio, char *why, size_t why_len)
    WARN_UNUSED MAY_PARK;
void parent_ready(struct adm *a) MAY_PARK; /* tells the parent (and systemd) that we serve */

/* ---- server.c ---- */
int server_start(struct adm *a) WARN_UNUSED MAY_PARK;
void server_stop(struct adm *a) MAY_PARK;

/* ---- engine.c ---- */
/* Runs until told to stop. Returns the process's exit status. */
int engine_run(const struct adm_config *cfg, int parent_fd, bool safe_mode);
void engine_stop(struct adm *a); /* any fiber */

#endif
