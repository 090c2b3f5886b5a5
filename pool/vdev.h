/*
 * vdev.h - the drives of a pool: sets, log sides, spares; their labels, configuration and uberblocks.
 * Private to pool/.
 *
 * Commit protocol of an uberblock: vdev_flush_all, then uber_write to slot txg % UBER_SLOTS of all four
 * labels of every data drive that is present, with FUA. Configuration changes: even labels, flush, odd labels, flush, then an
 * uberblock with the new config_txg.
 */
#ifndef AGATE_POOL_VDEV_H
#define AGATE_POOL_VDEV_H

#include "pool/bp.h"
#include "intentlog/ilog.h"

/* Feature bits this firmware knows. */
#define FEATURES_INCOMPAT ((uint64_t)FEATURE_IN_TWINS)
#define FEATURES_ROCOMPAT ((uint64_t)FEATURE_RO_SNAPSHOTS | FEATURE_RO_LIMITS | FEATURE_RO_ACCOUNTS)

struct vdev_drive {
	struct guid guid;
	struct kb_drive *kb;      /* NULL: absent */
	enum drive_role role;
	uint32_t set_index, column;
	unsigned label_pair;      /* 0: labels 0 and 2; 1: 1 and 3. Written first: the other pair is whole */
	enum drive_state state;
	uint64_t region_bytes;
	uint64_t dirty_from, dirty_to; /* see config_drive */
	uint64_t out_ns;          /* since when it is out; 0: it isn't */
	uint64_t returned_ns;     /* when it last came back while the pool was open; 0: never */
	uint64_t out_wall_s;      /* the same by the wall clock, for people */
	bool ring_stale;          /* see CONFIG_DRIVE_RING_STALE */
	bool in_pass;             /* see CONFIG_DRIVE_IN_PASS; scan.c sets it */
	bool until_import;        /* see CONFIG_DRIVE_UNTIL_IMPORT */
	bool was_spare;           /* see CONFIG_DRIVE_WAS_SPARE */
	bool twin;                /* see CONFIG_DRIVE_TWIN; pair.c */
	bool claimed;             /* spare: another pool has it, when last looked at */
	char id[128], path[256];
	atomic_ullong read_errors, write_errors, cksum_errors, repaired;
	/* health.c: */
	atomic_ullong slow_ios, sit_until_ns, degraded_s; /* sit_until_ns 0: it is read */
	atomic_uint degraded, sit_outs, read_us, siblings_us;
};
struct vdev_set {
	struct guid guid;
	struct raidz_config cfg;
	struct raidz_group *rg;
	uint64_t segment_sectors, segment_count;
	atomic_uint shape; /* changes when columns get other numbers */
};
struct vdev_retired {
	struct kb_drive *kb;
	uint64_t since_ns;
};
struct vdevs {
	struct vdev_set *sets;
	uint32_t set_count;
	struct vdev_drive *drives; /* all roles; room for VDEV_DRIVES_MAX, so that nothing ever moves. role 0: an entry that was given up */
	uint32_t drive_count;      /* entries, those given up counted */
	struct vdev_retired *retired; /* descriptors of drives that returned or were replaced; retire.c */
	uint32_t retired_count;
	struct guid pool_guid, log_guid, ring_guid;
	uint64_t config_txg, create_time, ring_bytes, log_bytes;
	uint64_t config_used; /* greatest number that a label may have, though the configuration never counted */
	uint64_t feat_compat, feat_rocompat, feat_incompat;
	uint64_t pass_sum;      /* vdev_pass_sum of the configuration that was taken up, as it was on the drives */
	struct pool_events *events; /* NULL: not of a pool in use */
	uint64_t committed_txg; /* of the last uberblock that was written or taken up; a drive that fails now is dirty from the next on */
	char name[POOL_NAME_MAX + 1];
};

#define VDEV_DRIVES_MAX 960u

/* Is spec possible? -EINVAL with why. */
int plan_check(const struct pool_create_spec *spec, char *why, size_t why_len) WARN_UNUSED;
/* One set by itself: widths, parity, sizes. */
int plan_check_set(const struct pool_set_spec *set, uint32_t index, char *why, size_t why_len) WARN_UNUSED;
void plan_figures(const struct vdevs *v, uint32_t first_set, struct pool_plan *out); /* of sets from first_set on */
int plan_check_spare(struct kb_drive *d, char *why, size_t why_len) WARN_UNUSED;
int plan_check_name(const char *name, char *why, size_t why_len) WARN_UNUSED;
/* Lays out new sets in memory (offsets, segments, guids). -EINVAL with why. */
int vdev_layout(const struct pool_create_spec *spec, struct vdevs *out, char *why, size_t why_len) WARN_UNUSED;
/* Which candidate drives belong to guid; picks the newest configuration; opens the groups. result->why on failure. */
int vdev_assemble(const struct pool_import_spec *spec, struct vdevs *out, struct pool_import_result *result) WARN_UNUSED MAY_PARK;
/* One set more, at index; -EINVAL: it is too large. */
int vdev_layout_set(struct vdevs *v, const struct pool_set_spec *spec, uint32_t index) WARN_UNUSED;
/* An entry for a drive that is new; false: there are too many. Its role is set first. */
bool vdev_layout_drive(struct vdevs *v, struct kb_drive *kb, enum drive_role role, uint32_t set_index, uint32_t column);
void vdev_free(struct vdevs *v, bool close_drives) MAY_PARK;
/* Bytes that a region must have to hold a column of the set. */
uint64_t vdev_region_need(const struct vdev_set *set);

/* Opens the groups of v's sets and gives them their drives. */
/* Locks every data and log drive that is there for this process (spares are shared by pools). -EBUSY with why. */
int vdev_claim(struct vdevs *v, bool readonly, char *why, size_t why_len) WARN_UNUSED;
int vdev_open_groups(struct vdevs *v, bool readonly) WARN_UNUSED;
/* The group of one set, with its drives. */
int vdev_open_set(struct vdevs *v, uint32_t index) WARN_UNUSED;
/* The next config_txg: a number that no label has, not even one whose update was torn. */
uint64_t vdev_next_config(const struct vdevs *v);
/* Writes v as configuration config_txg and sets v->config_txg. A drive that fails at it is out, which is written too. -EIO: a set has lost
 * more than it tolerates. */
int vdev_write_labels(struct vdevs *v, uint64_t config_txg) WARN_UNUSED MAY_PARK;
/* One attempt. *out_failed: a drive didn't take it and is out now, so that what was written is outdated. */
int vdev_write_labels_once(struct vdevs *v, uint64_t config_txg, bool *out_failed) WARN_UNUSED MAY_PARK;
int vdev_erase_labels(struct vdevs *v) WARN_UNUSED MAY_PARK;
/* Flush every data drive. A drive whose flush failed is out from here on (dirty from committed_txg + 1): the configuration must be rewritten
 * before anything relies on it. 0; -EIO a set has lost more than it tolerates. */
int vdev_flush_all(struct vdevs *v, bool *out_membership_changed) WARN_UNUSED MAY_PARK;
/*
 * Fill in own_offset, drive_guid and checksum per copy and write to all data drives with FUA. 0 when enough have it; -EIO.
 * Caller holds pool.config_lock (the heartbeat writes too). Writing the same txg again (new config_txg, new
 * heartbeat) is allowed: even labels first, so that a torn one leaves the others.
 */
int uber_write(struct vdevs *v, const struct uberblock *ub, bool *out_membership_changed) WARN_UNUSED MAY_PARK;
/* Shows others that the pool is in use: writes ub, which has a newer heartbeat, to label 0 of one drive a set. Under config_lock. */
int uber_heartbeat(struct vdevs *v, const struct uberblock *ub) WARN_UNUSED MAY_PARK;
/* 0, or -EIO: a set lacks more columns than it tolerates. */
int vdev_enough(const struct vdevs *v) WARN_UNUSED;
/* Best valid uberblock over all drives with (timeline, txg) strictly below `below` (NULL = newest), and a smaller txg: roots
 * of an older timeline from the branch on are no ancestors. -ENOENT. */
struct uber_key {
	uint64_t timeline, txg;
};
int uber_find(struct vdevs *v, const struct uber_key *below, struct uberblock *out) WARN_UNUSED MAY_PARK;
int uber_decode(const void *slot, uint64_t own_offset, const struct guid *pool_guid, struct uberblock *out) WARN_UNUSED;

/* Marks a drive out (FAULTED/REMOVED, dirty from txg); durable only after vdev_write_labels + uber_write. */
void vdev_drive_out(struct vdevs *v, struct vdev_drive *d, enum drive_state state, uint64_t dirty_from_txg);
/* The drive is there again: online, but stale as long as it has a dirty range, which ends with dirty_to_txg. */
void vdev_drive_back(struct vdevs *v, struct vdev_drive *d, uint64_t dirty_to_txg);
/* A descriptor that only somebody who is at it already, or a ring of the log, may still use: retire.c closes it. Under config_lock. */
void vdev_retire(struct vdevs *v, struct kb_drive *kb) MAY_PARK;
/* The drive has caught up with everything. */
void vdev_drive_clean(struct vdevs *v, struct vdev_drive *d);
/* Which drives the resilver that runs fills, and which txgs they lack, as one number; 0: none. */
uint64_t vdev_pass_sum(const struct vdevs *v);
/* A free entry, zeroed; NULL: there are too many. Under config_lock, as the next. */
struct vdev_drive *vdev_entry_new(struct vdevs *v);
/* The entry is nobody's from now on. Its drive is the caller's. */
void vdev_entry_drop(struct vdev_drive *d);
/* The second drive of a column, which is to take the first one's place; NULL. */
struct vdev_drive *vdev_twin(const struct vdevs *v, uint32_t set_index, uint32_t column);
/* Its bit in the masks of a raidz report. */
uint32_t vdev_bit(const struct vdev_drive *d);
/* The drive of a column of a set, never a twin; NULL: no such column. */
struct vdev_drive *vdev_column(const struct vdevs *v, uint32_t set_index, uint32_t column);
/* Columns of a set, as a mask, whose drives are new and have not been filled yet: nobody may rely on them. */
uint32_t vdev_blank(const struct vdevs *v, uint32_t set_index);
/* Could the set do without these columns (a mask) as well? Who can't be spared isn't declared out: the pool is suspended instead. Blank columns
 * are no help. */
bool vdev_can_spare(const struct vdevs *v, uint32_t set_index, uint32_t columns);
/* Twins whose bits are in a mask are out, since they missed something. True: there was one. Under config_lock. */
bool vdev_twins_out(struct vdevs *v, uint32_t set_index, uint32_t mask);
/* Columns of a set that are neither read nor written. */
uint32_t vdev_missing(const struct vdevs *v, uint32_t set_index);
/* The same and the stale ones: columns that can't give all data. */
uint32_t vdev_lacking(const struct vdevs *v, uint32_t set_index);
/* Counts what a raidz report says against the drives of a set. */
void vdev_count_report(struct vdevs *v, uint32_t set_index, const struct raidz_report *r);
/* The same of a raidz_write, whose io_error is of writes. */
void vdev_count_write(struct vdevs *v, uint32_t set_index, const struct raidz_report *r);

/* ilog_config of the log drives' ring (in_pool false) or of the in-pool ring (parity + 1 drives of set 0). -ENODEV: no side is usable. */
int vdev_log_config(struct vdevs *v, bool in_pool, uint64_t epoch, struct ilog_config *out) WARN_UNUSED;
/* Room for the ring on the log drives, before anybody waits for it. */
void vdev_log_reserve(struct vdevs *v) MAY_PARK;
/* For a new epoch of the log, when no root needs the old one any more: log drives that are there again count as up to date, and columns that
 * were out and have been resilvered as sides of the in-pool ring. True when something changed: the labels are to be written. */
bool vdev_log_rejoin(struct vdevs *v);
uint64_t vdev_log_ring_bytes(const struct vdevs *v, bool in_pool);

#endif
