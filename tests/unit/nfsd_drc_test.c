/* nfsd_drc_test.c - the duplicate-request cache: running, done, another call by the same xid, full,
 * crowded by one client, long ago. */
#include <stdio.h>
#include "nfsd/drc.h"
#include "tests/lib/unit.h"

static struct fs_origin
key_of(uint32_t xid, uint8_t args)
{
	struct fs_origin k = {.xid = xid, .prog = 100003, .vers = 3, .proc = 8};
	k.addr[15] = 1;
	memset(k.arg_hash, args, sizeof(k.arg_hash));
	return k;
}

static void
replay_main(void *arg)
{
	struct drc *d;
	uint8_t out[FS_REPLY_MAX];
	uint32_t len;
	(void)arg;
	ASSERT(drc_create(64, &d) == 0);
	struct fs_origin k = key_of(5, 1);
	struct drc_entry *e = drc_begin(d, &k, out, &len);
	CU_ASSERT(e != NULL && len == 0);
	drc_end(d, e, "reply", 5);
	CU_ASSERT(drc_begin(d, &k, out, &len) == NULL && len == 5 && memcmp(out, "reply", 5) == 0);
	/* what differs in anything is another call */
	struct fs_origin others[6];
	for (unsigned i = 0; i < 6; i++) {
		others[i] = k;
	}
	others[0].xid++;
	others[1].arg_hash[15]++;
	others[2].proc++;
	others[3].vers++;
	others[4].prog++;
	others[5].addr[0]++;
	for (unsigned i = 0; i < 6; i++) {
		e = drc_begin(d, &others[i], out, &len);
		CU_ASSERT(e != NULL && len == 0);
		drc_end(d, e, NULL, 0); /* forgotten: may be tried again */
		e = drc_begin(d, &others[i], out, &len);
		CU_ASSERT(e != NULL && len == 0);
		drc_end(d, e, "x", 1);
	}
	/* after a crash */
	struct fs_origin old = key_of(99, 9);
	drc_restore(d, &old, "before", 6);
	CU_ASSERT(drc_begin(d, &old, out, &len) == NULL && len == 6);
	drc_restore(d, &old, "later", 5); /* the same call again, long after */
	CU_ASSERT(
	    drc_begin(d, &old, out, &len) == NULL && len == 5 && memcmp(out, "later", 5) == 0);
	drc_destroy(d);
}

struct second {
	struct drc *d;
	struct fs_origin key;
	struct waitgroup *done;
	uint32_t len;
	bool ran, ends_with;
	uint32_t *running;
};

static void
second_copy(void *arg)
{
	struct second *s = arg;
	uint8_t out[FS_REPLY_MAX];
	struct drc_entry *e = drc_begin(s->d, &s->key, out, &s->len);
	if (e != NULL) {
		s->ran = true;
		(*s->running)++;
		CU_ASSERT(*s->running == 1); /* never two at once */
		fiber_sleep(1000);
		(*s->running)--;
		drc_end(s->d, e, "second", s->ends_with ? 6 : 0);
	}
	wg_done(s->done);
}

#define COPIES 5u

/* Copies that come while the first one runs wait for it; when it leaves no reply, one of them runs.
 */
static void
running_main(void *first_replies)
{
	static struct second copies[COPIES];
	struct drc *d;
	struct waitgroup done;
	uint8_t out[FS_REPLY_MAX];
	uint32_t len, running = 0;
	ASSERT(drc_create(64, &d) == 0);
	wg_init(&done);
	struct fs_origin k = key_of(6, 1);
	struct drc_entry *e = drc_begin(d, &k, out, &len);
	for (unsigned i = 0; i < COPIES; i++) {
		copies[i] = (struct second){
		    .d = d, .key = k, .done = &done, .ends_with = i % 2, .running = &running};
		wg_add(&done, 1);
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_ADMIN, "copy", second_copy, &copies[i]);
	}
	fiber_sleep(NSEC_PER_MSEC);
	for (unsigned i = 0; i < COPIES; i++) {
		CU_ASSERT(copies[i].len == 0 && !copies[i].ran);
	}
	drc_end(d, e, "first", first_replies != NULL ? 5 : 0);
	wg_wait(&done);
	unsigned ran = 0;
	for (unsigned i = 0; i < COPIES; i++) {
		ran += copies[i].ran;
		CU_ASSERT(copies[i].ran || copies[i].len == 5 || copies[i].len == 6);
	}
	CU_ASSERT(first_replies != NULL ? ran == 0 : ran >= 1);
	drc_destroy(d);
}

/* A full cache forgets the oldest that are done, never what runs; then it serves without
 * remembering. */
static void
full_main(void *arg)
{
	static struct drc_entry *held[64];
	struct drc *d;
	uint8_t out[FS_REPLY_MAX];
	uint32_t len, uncached = 0;
	(void)arg;
	ASSERT(drc_create(16, &d) == 0); /* one a shard */
	for (uint32_t i = 0; i < 1000; i++) {
		struct fs_origin k = key_of(i, (uint8_t)i);
		struct drc_entry *e = drc_begin(d, &k, out, &len);
		CU_ASSERT(e != NULL && len == 0);
		drc_end(d, e, &i, sizeof(i));
	}
	for (uint32_t i = 0; i < ARRAY_LEN(held); i++) {
		struct fs_origin k = key_of(5000 + i, (uint8_t)i);
		held[i] = drc_begin(d, &k, out, &len);
		CU_ASSERT(len == 0);
		uncached += held[i] == NULL;
	}
	CU_ASSERT(uncached == ARRAY_LEN(held) - 16 || uncached >= ARRAY_LEN(held) - 16);
	for (uint32_t i = 0; i < ARRAY_LEN(held); i++) {
		if (held[i] != NULL) {
			drc_end(d, held[i], &i, sizeof(i));
		}
	}
	drc_destroy(d);
}

/* One client makes any number of calls; the few of another stay, whoever was first. */
static void
crowded_main(void *arg)
{
	struct drc *d;
	uint8_t out[FS_REPLY_MAX];
	uint32_t len;
	(void)arg;
	ASSERT(drc_create(256, &d) == 0);
	for (uint32_t i = 0; i < 5000; i++) {
		struct fs_origin k = key_of(i, (uint8_t)i);
		k.addr[15] = i % 400 == 7 && i < 2000 ? 2 : 1;
		struct drc_entry *e = drc_begin(d, &k, out, &len);
		CU_ASSERT(e != NULL && len == 0);
		drc_end(d, e, &i, sizeof(i));
	}
	for (uint32_t i = 7; i < 2000; i += 400) {
		struct fs_origin k = key_of(i, (uint8_t)i);
		k.addr[15] = 2;
		CU_ASSERT(drc_begin(d, &k, out, &len) == NULL && len == sizeof(i));
	}
	drc_destroy(d);
}

/* After longer than anybody waits for an answer, the same xid is a client that has begun to count
 * anew. */
static void
aged_main(void *arg)
{
	struct drc *d;
	uint8_t out[FS_REPLY_MAX];
	uint32_t len;
	(void)arg;
	ASSERT(drc_create(64, &d) == 0);
	struct fs_origin k = key_of(1, 1);
	struct drc_entry *e = drc_begin(d, &k, out, &len);
	drc_end(d, e, "reply", 5);
	fiber_sleep(660 * NSEC_PER_SEC); /* clients ask again after at most ten minutes */
	CU_ASSERT(drc_begin(d, &k, out, &len) == NULL && len == 5);
	fiber_sleep(24 * 3600 * NSEC_PER_SEC);
	e = drc_begin(d, &k, out, &len);
	CU_ASSERT(e != NULL && len == 0);
	drc_end(d, e, "other", 5);
	CU_ASSERT(drc_begin(d, &k, out, &len) == NULL && memcmp(out, "other", 5) == 0);
	drc_destroy(d);
}

static void
run(fiber_fn *fn, void *arg)
{
	uint64_t seed = unit_seed(3);
	for (unsigned i = 0; i < 20; i++) {
		struct rt_options opt = unit_rt(true, 1 + i % 4, seed + i);
		uint64_t live = mem_live_count();
		CU_ASSERT(rt_run(&opt, fn, arg) == 0);
		CU_ASSERT(mem_live_count() == live);
	}
}

static void
replay(void)
{
	run(replay_main, NULL);
}

static void
running(void)
{
	int yes = 1;
	run(running_main, NULL);
	run(running_main, &yes);
}

static void
full(void)
{
	run(full_main, NULL);
}

static void
crowded(void)
{
	run(crowded_main, NULL);
}

static void
aged(void)
{
	run(aged_main, NULL);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"replay", replay}, {"running", running},
	    {"full", full}, {"crowded", crowded}, {"aged", aged}};
	return unit_main("nfsd_drc", tests, ARRAY_LEN(tests), argc, argv);
}
