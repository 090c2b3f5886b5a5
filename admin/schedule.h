/*
 * schedule.h - snapshots by the clock. Private to admin/. Theory: schedule_run.c.
 */
#ifndef AGATE_ADMIN_SCHEDULE_H
#define AGATE_ADMIN_SCHEDULE_H

#include "admin/admin_int.h"

enum sched_every {
	SCHED_15MIN,
	SCHED_HOURLY,
	SCHED_DAILY,
	SCHED_WEEKLY,
	SCHED_MONTHLY,
	SCHED_KINDS
};
#define SCHED_NAME_BYTES 48u
#define SCHED_KEEP_MAX 10000u

struct sched {
	char path[DATASET_NAME_MAX + 1];
	enum sched_every every;
	uint32_t keep;
	bool recursive, paused;
	int64_t last;    /* start of the slot whose snapshot was taken */
	int64_t retry;   /* not before this, after a failure */
	char error[160]; /* of the last try; empty: it went well */
};

struct adm_sched {
	struct mutex lock; /* RANK_ADMIN_DRIVES; everything below */
	struct sched *v;   /* by path, then kind */
	uint32_t count;
	bool dirty; /* memory is newer than the pool's blob */
};

/* ---- schedule_time.c: no state. Times are seconds since 1970, UTC. ---- */
const char *sched_every_name(enum sched_every every);
bool sched_every_parse(const char *text, enum sched_every *out);
uint32_t sched_keep_default(enum sched_every every);
/* Start of the slot that now is in; of the one behind it. */
int64_t sched_slot(enum sched_every every, int64_t now);
int64_t sched_next(enum sched_every every, int64_t slot);
void sched_name(enum sched_every every, int64_t slot,
    char out[SCHED_NAME_BYTES]); /* auto-hourly-2026-11-30_18:00 */
/* Is it a name that sched_name makes? Others, whatever they begin with, are somebody's own. */
bool sched_name_is(enum sched_every every, const char *name);
bool sched_is_due(const struct sched *s, int64_t now);

/* ---- schedule_run.c ---- */
/* Takes what is due, destroys what is too much. Says what it did. */
void sched_run(struct adm_pool *ap, int64_t now, void (*note)(void *arg, const char *text),
    void *arg) MAY_PARK;

/* ---- schedule_store.c; lock held ---- */
#define SCHED_MAX 1024u
int sched_insert(struct adm_sched *t, const struct sched *s) WARN_UNUSED; /* -ENOMEM */
void sched_take_out(struct adm_sched *t, uint32_t at);
json_t *sched_json(const struct sched *s);
int sched_store(struct adm_pool *ap) WARN_UNUSED MAY_PARK;
struct sched *sched_find(struct adm_sched *t, const char *path, enum sched_every every);

#endif
