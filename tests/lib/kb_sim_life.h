/*
 * kb_sim_life.h - what tests of and with simulated drives share: a medium, and one life of a
 * simulated machine that uses it.
 */
#ifndef AGATE_TESTS_KB_SIM_LIFE_H
#define AGATE_TESTS_KB_SIM_LIFE_H

#include "base/base.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/unit.h"

#define MEDIUM_BYTES (64 * MIB)
#define PAGE SECTOR_BYTES
#define ALWAYS_HIT 1000000u

struct life {
	uint64_t seed;
	struct kb_sim_medium *medium;
	void (*fn)(struct life *l);
	uint64_t number; /* of the test's own */
};

static inline void
life_main(void *arg)
{
	struct life *l = arg;
	l->fn(l);
}

/* One life of a simulated machine. */
static inline int
live(struct life *l, void (*fn)(struct life *))
{
	struct rt_options opt = {
	    .reactors = 2, .sim = true, .seed = l->seed, .arena_bytes = 32 * MIB};
	l->fn = fn;
	return rt_run(&opt, life_main, l);
}

static inline struct iobuf *
buf_get(uint32_t len)
{
	struct iobuf *b = NULL;
	CU_ASSERT_FATAL(iobuf_alloc(len, ARENA_SYNC, &b) == 0);
	return b;
}

static inline struct kb_drive *
open_medium(struct kb_sim_medium *m)
{
	struct kb_drive *d = NULL;
	CU_ASSERT_FATAL(kb_sim_open(m, &d) == 0);
	return d;
}

static inline int
write_fill(struct kb_drive *d, uint64_t sector, uint8_t fill, uint32_t flags)
{
	struct iobuf *b = buf_get(PAGE);
	memset(b->data, fill, PAGE);
	int err = kb_write(d, sector * PAGE, b, PAGE, flags);
	iobuf_unref(b);
	return err;
}

/* The byte that fills the sector, or -1 when it isn't uniform. */
static inline int
peek_fill(struct kb_sim_medium *m, uint64_t sector)
{
	static uint8_t page[PAGE];
	kb_sim_peek(m, sector * PAGE, page, PAGE);
	for (uint32_t i = 1; i < PAGE; i++) {
		if (page[i] != page[0]) {
			return -1;
		}
	}
	return page[0];
}

#endif
