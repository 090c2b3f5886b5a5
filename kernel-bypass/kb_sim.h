/*
 * kb_sim.h - simulated drives for the deterministic simulation and for tests.
 *
 * A medium outlives the machine: it is made with plain calloc by the test, and survives rt_sim_crash.
 * A drive is a medium opened in one life. Writes go to a volatile cache; flush and FUA make them
 * durable. At a power cut each unflushed 4 KiB sector is, by the seed, kept, lost, or (at most one
 * write per drive and cut) torn at a 512-byte boundary; order among unflushed writes is not kept.
 * A sector written several times since the last flush may come back as any of these versions.
 *
 * A flush covers exactly the writes that had completed when it was submitted. A write in flight may
 * or may not have reached the cache. What was discarded reads as zeros, as junk, or still as what it was.
 *
 * Every medium that was open when the power was cut must be given to kb_sim_power_cut before it is opened again.
 */
#ifndef AGATE_KERNEL_BYPASS_KB_SIM_H
#define AGATE_KERNEL_BYPASS_KB_SIM_H

#include "kernel-bypass/kb.h"

struct kb_sim_medium;

struct kb_sim_faults { /* all off at first; chances are in millionths per I/O */
	uint32_t read_error, write_error, flush_error;
	uint32_t rot;            /* a read returns one flipped bit, which then stays on the medium */
	uint32_t misdirected;    /* a write goes to another sector of the drive */
	uint32_t dropped;        /* a write is acknowledged and never happens */
	uint32_t hang;           /* no answer until kb_sim_unhang or close */
	uint32_t late;           /* answers after the deadline, and then does the write */
	uint64_t latency_ns_min, latency_ns_max; /* default 20 us .. 200 us */
};

struct kb_sim_medium *kb_sim_medium_create(const char *name, uint64_t size_bytes); /* NULL: no memory */
void kb_sim_medium_destroy(struct kb_sim_medium *m);
/* In a running runtime (real or simulated). Several opens of one medium see the same data.
 * 0; -ENOMEM; -ERR_GONE vanished. kb_close is a controller reset: it ends hanging and late I/O, each
 * such write having happened or not. */
int kb_sim_open(struct kb_sim_medium *m, struct kb_drive **out) WARN_UNUSED;
void kb_sim_set_faults(struct kb_sim_medium *m, const struct kb_sim_faults *f);
void kb_sim_set_plp(struct kb_sim_medium *m, bool plp);      /* power-loss protected: no volatile cache */
/* Pull the drive out: I/O in flight and from now on fails with -ERR_GONE, and, as at a power cut, what was
 * not flushed may be lost. A drive opened before stays gone for good: after kb_sim_return open the medium again. */
void kb_sim_vanish(struct kb_sim_medium *m);
void kb_sim_return(struct kb_sim_medium *m);
void kb_sim_unhang(struct kb_sim_medium *m);                 /* hanging I/O completes */
void kb_sim_rot_range(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes, uint64_t seed); /* random bytes */
/* After rt_run has returned -ERR_CRASHED: settle what was unflushed, by the seed. */
void kb_sim_power_cut(struct kb_sim_medium *m, uint64_t seed);
/* Direct look at what is durable or cached (newest), for checks. */
void kb_sim_peek(struct kb_sim_medium *m, uint64_t off_bytes, void *out, uint32_t len_bytes);
/* Writes that reached any simulated drive in this process; lets a test cut "between any two writes". */
uint64_t kb_sim_write_count(void);
/* Cut the power (rt_sim_crash) when that many more writes have been submitted; 0 = never. */
void kb_sim_crash_after_writes(uint64_t n);
/* Asked before each write to any drive: true cuts the power there. It may fork. NULL: nobody. */
void kb_sim_before_write(bool (*ask)(void *arg), void *arg);

#endif
