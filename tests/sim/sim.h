/*
 * sim.h - one simulated run: an appliance that lives several lives under a load of NFS clients,
 * with power cuts between, and a model that knows what was promised.
 *
 * Everything derives from the seed. A run is a pure function of it: the same seed gives the same
 * trace hash.
 */
#ifndef AGATE_TESTS_SIM_H
#define AGATE_TESTS_SIM_H

#include <stdio.h>
#include "kernel-bypass/kb_sim.h"
#include "nfsd/nfsd.h"
#include "tests/sim/model.h"

#define SIM_MEDIA_MAX 40u
#define SIM_CLIENTS_MAX 8u
#define SIM_LIVES_MAX 8u
#define SIM_SNAPS_MAX 5u

/* How a life ends. */
enum sim_end {
	SIM_END_WRITES, /* at the n-th write to any drive */
	SIM_END_TIME,
	SIM_END_EXPORT, /* clean */
};

/* The machine as built: drawn from the seed once. */
struct sim_machine {
	uint32_t sets, width, parity, logs;
	enum raidz_kind kind;
	uint64_t drive_bytes, log_bytes;
	struct kb_sim_medium *media[SIM_MEDIA_MAX]; /* sets first, then logs */
	uint32_t media_count;
	const char *sync, *compression, *recordsize;
	const char *limit; /* a quota's name; NULL: none */
	char limit_size[16];
	unsigned buggify;
	uint64_t latency_ns; /* of an I/O, at most */
	bool victim[SIM_MEDIA_MAX], gone[SIM_MEDIA_MAX];
	bool missing[SIM_MEDIA_MAX]; /* in the proof */
	uint32_t extra; /* media behind the logs, for an operator; 0: there is none */
	char name[SIM_MEDIA_MAX][16];
	bool small[SIM_MEDIA_MAX]; /* too small for data */
	bool created, fill, filled;
};

/* What is wrong with a medium: atlas.c. */
struct sim_ill {
	bool ill, lied, behind;
	bool covered;      /* the scrub that runs began after its illness */
	uint64_t well_txg; /* since when a medium that was behind isn't; 0: it is still, or just now */
};

/* A snapshot that was taken, or perhaps was. */
struct sim_snap {
	char name[16];
	bool sure;     /* acknowledged, and nobody was destroying it */
	uint64_t hash; /* of all of it; 0: not known yet */
};

/* One life: drawn when it begins. */
struct sim_plan {
	enum sim_end end;
	uint64_t end_writes, end_ns;
	uint32_t rewind;
	uint32_t clients;
	unsigned reactors;
	uint64_t sync_every_ns; /* pool_sync by itself about so often; 0 = never */
	bool last;
	bool proof; /* after it: as many drives as the layout survives are missing, all is there */
};

struct sim_stats {
	uint64_t runs, lives, crashes, crashes_early, exports, rewinds, calls, resent, resent_same,
	    resent_other, inflight, inflight_done, unstable_lost, verified_nodes, faulty_drives,
	    repaired, operations, proofs, snapshots, snapshots_read, rollbacks;
};

struct sim {
	uint64_t seed;
	bool verbose, faults, operator;
	struct model m;
	struct m_rand rng;
	struct sim_machine machine;
	struct sim_ill ill[SIM_MEDIA_MAX];
	struct sim_plan plan;
	unsigned life;
	uint64_t trace;
	uint64_t lost, wrong;
	char first_problem[256];
	struct sim_stats stats;
	bool clean;     /* the last life ended with an export */
	uint64_t syncs; /* txgs known to be committed in this life */
	/* of this life */
	struct pool *pool;
	struct fs_pool *fp;
	struct nfsd *nfsd;
	uint16_t nfs_port, mount_port;
	bool settled; /* nothing may be missing: the check after the import is over */
	bool quiet;   /* no client is at work */
	bool whole;   /* healed: no block may be wrong on any column */
	bool stopping;
	bool has_verf;
	char verf[8];
	char old_verfs[SIM_LIVES_MAX][8];
	struct mutex connecting; /* the simulated network has one client address at a time */
	struct waitgroup fibers;
	struct rt_timer timer;
	struct sim_snap snaps[SIM_SNAPS_MAX];
	uint32_t snap_count, snap_next;
	bool went_back; /* since calls were last sent again: replies of the past are forgotten */
	char spoiled[16]; /* the snapshot to go back to before anything is compared */
	uint32_t names_per_dir, nodes_max, file_bytes_max;
};

/* ---- reporting: counts, says what and where ---- */
void sim_lost(struct sim *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
void sim_wrong(struct sim *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
void sim_say(const struct sim *s, const char *fmt, ...) PRINTF_LIKE(2, 3); /* with --verbose */
void sim_say_op(const struct sim *s, const struct m_op *op, const char *what);
const char *sim_proc(const struct m_op *op); /* its name */
static inline bool
sim_bad(const struct sim *s)
{
	return s->lost + s->wrong > 0;
}

/* ---- appliance.c ---- */
/* Lives all lives of a seed. */
void sim_run_seed(struct sim *s, uint64_t seed);
void sim_fini(struct sim *s);

/* ---- faults.c ---- */
void sim_faults_draw(struct sim *s); /* who may fall ill in this run */
void sim_faults_begin(
    struct sim *s); /* at power on: all are well; some that were pulled out are back */
void sim_faults_arm(struct sim *s) MAY_PARK; /* under load: who falls ill now */
void sim_make_ill(struct sim *s, uint32_t medium) MAY_PARK;
void sim_make_well(struct sim *s, uint32_t medium);

/* ---- atlas.c: what may go wrong next ---- */
int sim_medium_of(const struct sim *s, const char *path); /* -1: none of ours */
bool sim_is_unwell(const struct pool_drive_status *d);
/* Is something wrong with it, or was until just now? */
bool sim_atlas_has(const struct sim *s, const struct pool_drive_status *d);
/* May something go wrong with this member, or still more? */
bool sim_atlas_allows(
    const struct sim *s, const struct pool_status *st, const struct pool_drive_status *d);
void sim_atlas_look(struct sim *s, const struct pool_status *st); /* before asking it */
void sim_atlas_ill(struct sim *s, int medium, bool lies);
void sim_atlas_well(struct sim *s, int medium);  /* what it did to its contents stays */
void sim_atlas_blank(struct sim *s, int medium); /* it is no member: whatever was wrong with it doesn't matter */
void sim_atlas_scrub(struct sim *s, bool begins); /* or is stopped */
void sim_atlas_power_on(struct sim *s);
bool sim_atlas_has_lied(const struct sim *s);

/* ---- operator.c ---- */
void sim_operator_draw(struct sim *s);           /* makes room for one */
void sim_operator_start(struct sim *s) MAY_PARK; /* somebody works on the machine from now on */

/* ---- heal.c ---- */
void sim_heal(struct sim *s) MAY_PARK; /* in the end everything must be whole */
bool sim_put_back(struct sim *s, uint32_t medium) MAY_PARK;
void sim_judge(struct sim *s, const char *what, int medium, int err); /* a command's answer */
struct kb_drive *sim_open_medium(struct sim *s, int medium) MAY_PARK;

/* ---- fill.c ---- */
#define SIM_FILLER ".filler" /* a name the model doesn't know */
void sim_fill(struct sim *s) MAY_PARK;

/* ---- snaps.c ---- */
void sim_snaps_imported(struct sim *s) MAY_PARK;               /* before anything is looked at */
void sim_snaps_quiet(struct sim *s, struct nfsc *c) MAY_PARK; /* all is as the model says, nobody works */
void sim_snaps_start(struct sim *s) MAY_PARK;                  /* under load */

/* ---- life.c: everything between power on and power off ---- */
void sim_life(void *sim) MAY_PARK;

/* ---- load.c ---- */
void sim_load_start(struct sim *s) MAY_PARK;
void sim_client_init(struct sim *s, struct nfsc *c, uint32_t client);
int sim_client_connect(struct sim *s, struct nfsc *c) WARN_UNUSED MAY_PARK;

enum sim_verdict { SIM_DONE, SIM_REFUSED, SIM_BAD };
/* What the reply to op means; on SIM_DONE the model has been told. */
enum sim_verdict sim_reply(
    struct sim *s, struct nfsc *c, struct m_op *op, const struct nfsc_msg *reply);
/* The reply's bytes were remembered as op->reply. */
void sim_keep_reply(struct m_op *op, const struct nfsc_msg *reply);

/* ---- verify.c, resolve.c ---- */
/* What was in flight when the power went: has it happened? */
void sim_resolve(struct sim *s, struct nfsc *c) MAY_PARK;
/* Then, when everything is as it must be: sends some of it, and some that was answered, once more.
 * True: it did. */
bool sim_resend(struct sim *s) MAY_PARK;
/* Everything against the model; nothing may be in flight. */
void sim_verify(struct sim *s, struct nfsc *c) MAY_PARK;
/* One directory against the model, while others may be at work in it. */
void sim_verify_dir(struct sim *s, struct nfsc *c, struct m_node *dir, struct m_rand *rng) MAY_PARK;
/* One object, which nobody is changing. Falls back to what is there when that is legal. */
void sim_verify_node(struct sim *s, struct nfsc *c, struct m_node *n, struct m_rand *rng) MAY_PARK;

#endif
