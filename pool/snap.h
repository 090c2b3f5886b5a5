/* snap.h - snapshots in memory and their deadlists. Private to pool/. Theory: snap.c, deadlist.c, snap_sync.c. */
#ifndef AGATE_POOL_SNAP_H
#define AGATE_POOL_SNAP_H

#include "pool/object.h"

/* ---- deadlist.c; all on the syncing fiber. chain: the head whose chain the deadlist is in. ---- */
uint64_t deads_sectors(const struct deads *d);
uint64_t deads_young(const struct deads *d);
void deads_free_memory(struct deads *d);
void stage_drop(struct pool_ds *ds);
/* What ds freed in this txg goes to its recent list. */
int deads_flush(struct pool_ds *ds, struct pool_tx *tx) WARN_UNUSED MAY_PARK;
int deads_load(struct pool *p, struct deads *d) WARN_UNUSED MAY_PARK;
/* The deadmap, if it changed. Before the description that names it. */
int deads_write(struct pool *p, struct pool_tx *tx, struct deads *d) WARN_UNUSED MAY_PARK;
void deads_recount(struct deads *d, uint64_t origin_txg);
/* Empties the recent list: what is younger than free_after goes to the MOS's queue, the rest into buckets. */
int deads_sort(struct pool_ds *chain, struct pool_tx *tx, struct deads *d, uint64_t free_after) WARN_UNUSED MAY_PARK;
/* Sectors of what was born after txg, which is a snapshot's or 0. Sorted. */
uint64_t deads_after(const struct deads *d, uint64_t txg);
/* The same is freed. No list of d may have been written in this txg. */
int deads_free_after(struct pool_ds *chain, struct pool_tx *tx, struct deads *d, uint64_t txg) WARN_UNUSED MAY_PARK;
/* from becomes part of to, whose recent list is empty. */
int deads_merge(struct pool_ds *chain, struct pool_tx *tx, struct deads *to, struct deads *from) WARN_UNUSED MAY_PARK;
/* The lists go, the blocks they name stay: something else refers to them. */
int deads_remove(struct pool *p, struct pool_tx *tx, struct deads *d) WARN_UNUSED MAY_PARK;
void deads_to_phys(const struct deads *d, struct dataset_phys *phys);
int deads_from_phys(const struct dataset_phys *phys, struct deads *d) WARN_UNUSED;

/* ---- snap.c ---- */
int snaps_open(struct pool *p) WARN_UNUSED;
void snaps_close(struct pool *p);
struct snap *snap_make(const char *name) WARN_UNUSED;
void snap_free(struct snap *s);
int snap_decode(const struct dataset_phys *phys, struct snap *s) WARN_UNUSED;
/* Under datasets.lock, or before anybody else is there: to the end of ds's chain; may be found from now on. Waits for memory if it must. */
void chain_append(struct pool_ds *ds, struct snap *s) MAY_PARK;
/* Room for so many. */
void chain_grow(struct pool_ds *ds, uint32_t count) MAY_PARK;
void chain_remove(struct snap *s);
/* First of the chain that is not older than txg; snap_count: none. */
uint32_t chain_at(const struct pool_ds *ds, uint64_t txg);
uint32_t chain_index(const struct snap *s);
uint32_t chain_shown(struct pool_ds *ds); /* snapshots that people see */
void snap_hash(struct pool *p, struct snap *s);
void snap_unhash(struct snap *s);
void chain_touch(struct pool_ds *ds); /* its list has changed */
/* txg of the oldest snapshot, in ds's chain or those of its origins, that is not older than birth. */
uint64_t chain_key(const struct pool_ds *ds, uint64_t birth);
/* The sums of its snapshots' deadlists. */
void chain_recount(struct pool_ds *ds);
/* What of s was born after the snapshot before it, or its origin, is counted anew. The syncing fiber, under datasets.lock. */
void snap_count_written(struct snap *s);
/* The same of ds as it is now. */
uint64_t chain_written(const struct pool_ds *ds);
/* Who has the chain that belongs to head: before a rollback's txg that is still the one it replaces. Under datasets.lock. */
const struct pool_ds *chain_owner(const struct pool_ds *head);
/* Under datasets.lock. name: behind the @. Not those that are dying. */
struct snap *snap_find(struct pool *p, const struct pool_ds *head, const char *name);
struct snap *snap_find_guid(struct pool *p, uint64_t guid);
/* Nobody finds it any more, who has it open gets -ESTALE. Under datasets.lock. */
void snap_vanish(struct snap *s);
/* Its handle goes, and the idle objects of that. Without the lock. */
void snap_let_go(struct pool *p, struct snap *s);

/* ---- snap_sync.c: requests to the syncing fiber ---- */
enum snap_op { SNAP_CREATE, SNAP_DESTROY, SNAP_UNIQUE, SNAP_RECLAIM, SNAP_PROMOTE };
struct snap_item {
	struct pool_ds *ds;  /* create, promote: a reference */
	struct snap *snap;   /* create: to be, the request's until it is done; destroy: a dying one, which only this request frees */
	uint64_t guid;       /* unique, reclaim: whose */
	uint64_t sectors;    /* out: unique */
};
struct snap_req {
	struct list link;
	enum snap_op op;
	atomic_uint refs;
	uint64_t txg;        /* the first that may do it; under datasets.lock */
	bool done;           /* the same: it will be committed with txg */
	int err;
	uint32_t taken;      /* destroy: so many items are done */
	bool presorted;      /* destroy: long deadlists were sorted; also under datasets.lock */
	uint64_t sectors;    /* out: reclaim */
	char why[256];
	uint32_t count;
	struct snap_item items[];
};
struct snap_req *snap_req_make(enum snap_op op, uint32_t count) WARN_UNUSED;
void snap_req_close(struct snap_req *r);
/* Under datasets.lock. */
void snap_req_queue(struct pool *p, struct snap_req *r);
/* Parks until it is done and committed; its err. */
int snap_req_wait(struct pool *p, struct snap_req *r) WARN_UNUSED MAY_PARK;

/* Before the txg's own changes are written, and after. */
int snaps_sync_early(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;
int snaps_sync_late(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;
/* Its description is to be written. Under datasets.lock. */
void snap_dirty(struct pool *p, struct snap *s);
/* Descriptions of snapshots that changed. */
int snaps_describe(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;

/* ---- snap_roles.c: clone, promote, rollback ---- */
struct rollback {
	atomic_uint refs;       /* of the one that takes over, the zombie, the caller */
	struct pool_ds *old;    /* alive as long as fresh isn't there yet */
	struct pool_ds *fresh;  /* takes over: a reference */
	struct pool_ds *kept;   /* NULL: the old state is freed; else a reference */
	struct snap *snap;
};
void rollback_close(struct rollback *r);
int promote_sync(struct pool *p, struct pool_tx *tx, struct snap_req *r) WARN_UNUSED MAY_PARK;
/* The zombie's turn, in its last txg. */
int rollback_sync(struct pool_ds *old, struct pool_tx *tx) WARN_UNUSED MAY_PARK;

/* ---- dataset.c ---- */
/* After a change of root or origin_txg. */
void ds_own_root_set(struct pool_ds *ds);

/* ---- dataset_sync.c ---- */
/* What of ds was born after min_txg, so many sectors, goes to the MOS's queue; the blocks in its deadlist are others' and stay. */
int ds_bury_root(struct pool_ds *ds, struct pool_tx *tx, uint64_t min_txg, uint64_t sectors) WARN_UNUSED MAY_PARK;

/* ---- dataset_api.c ---- */
int ds_admin_check(struct pool *p, enum space_level level) WARN_UNUSED;
struct pool_ds *ds_path_find(struct pool *p, const char *path); /* under datasets.lock */
size_t ds_path_of(const struct pool_ds *ds, char *out);         /* under datasets.lock */
bool ds_component_is_valid(const char *name, size_t len);
struct pool_ds *ds_child_find(struct pool_ds *parent, const char *name, size_t len);
/* Splits at the last slash; NULL: no parent, or a bad name. out: DATASET_NAME_MAX + 1 bytes. */
const char *ds_path_split(const char *path, char *out);
/* A new dataset (not there yet) gets its place. Under datasets.lock. */
int ds_place(struct pool *p, const char *parent_path, const char *name, struct pool_ds *ds) WARN_UNUSED;
/* Parks until falling back by two roots can't take back what txg did. */
int ds_wait_safe(struct pool *p, uint64_t txg) WARN_UNUSED MAY_PARK;

#endif
