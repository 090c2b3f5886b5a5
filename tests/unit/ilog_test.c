/*
 * ilog_test.c - the intent log piece by piece: decoding, space, sides, epochs, holes, repair. What
 * chance finds is in ilog_crash_test.c.
 */
#include "intentlog/ilog_int.h"
#include "tests/lib/ilog_rig.h"

static struct rig rig;
static uint8_t payload_buf[ILOG_PAYLOAD_MAX];

static void
in_sim(fiber_fn *fn, uint64_t seed)
{
	struct rt_options opt = unit_rt(true, 2, seed);

	CU_ASSERT_EQUAL(rt_run(&opt, fn, NULL), 0);
}

static struct ilog *
start(void)
{
	struct ilog *l = NULL;

	CU_ASSERT(rig_open(&rig, 0));
	CU_ASSERT_EQUAL(ilog_create(&rig.cfg, &l), 0);
	return l;
}

static void
stop(struct ilog *l)
{
	ilog_destroy(l);
	rig_close(&rig);
}

/* Appends one record and commits it. */
static int
put(struct ilog *l, uint64_t counter, uint64_t txg, uint32_t len)
{
	struct rig_payload p = {.appender = 1, .counter = counter, .txg = txg, .len_bytes = len};
	uint64_t seq = 0;
	int err = rig_append(l, &p, payload_buf, &seq);

	return err != 0 ? err : ilog_commit(l, seq);
}

static struct rig_seen
replay_from(uint32_t without, const struct ilog_position *from, struct ilog_replay_result *res)
{
	struct rig_seen seen = {.count = 0};

	CU_ASSERT(rig_open(&rig, without));
	CU_ASSERT_EQUAL(ilog_replay(&rig.cfg, from, rig_deliver, &seen, res), 0);
	CU_ASSERT_FALSE(seen.bad);
	CU_ASSERT_EQUAL(seen.count, res->records);
	rig_close(&rig);
	return seen;
}

static struct rig_seen
replay(uint32_t without, struct ilog_replay_result *res)
{
	struct ilog_position from = {.epoch = rig.epoch, .batch_seq = 1};

	return replay_from(without, &from, res);
}

/* ---- decoding ---- */

static uint8_t batch[2 * SECTOR_BYTES];

static void
decode_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	uint64_t seq = 0;

	for (uint64_t i = 1; i <= 3; i++) {
		struct rig_payload p = {
		    .appender = 1, .counter = i, .txg = 10 - i, .len_bytes = 33 * i};

		CU_ASSERT_EQUAL(rig_append(l, &p, payload_buf, &seq), 0);
	}
	CU_ASSERT_EQUAL(ilog_commit(l, seq), 0);
	stop(l);
}

static void
decode_batch(void)
{
	struct ilog_cksum zero = {.b = {0}};
	struct ilog_expect want = {.epoch = 1, .batch_seq = 1, .prev_cksum = &zero};
	struct ilog_batch_info info, untouched;

	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(decode_fiber, 1);
	kb_sim_peek(rig.media[0], RIG_OFF, batch, sizeof(batch));
	want.guid = rig.cfg.guid;
	CU_ASSERT_EQUAL(ilog_batch_decode(batch, sizeof(batch), &want, &info), 0);
	CU_ASSERT_EQUAL(info.record_count, 3);
	CU_ASSERT_EQUAL(info.len_bytes, SECTOR_BYTES);
	CU_ASSERT_EQUAL(info.min_txg, 7);
	CU_ASSERT_EQUAL(info.max_txg, 9);
	CU_ASSERT_EQUAL(info.first_seq, 1);
	CU_ASSERT_EQUAL(info.durable_batch, 0);

	/* Every bit counts, and what is wrong leaves the output alone. */
	memset(&untouched, 0x5a, sizeof(untouched));
	for (uint32_t i = 0; i < SECTOR_BYTES; i++) {
		struct ilog_batch_info out = untouched;

		batch[i] ^= (uint8_t)(1u << i % 8);
		CU_ASSERT_NOT_EQUAL(ilog_batch_decode(batch, SECTOR_BYTES, &want, &out), 0);
		batch[i] ^= (uint8_t)(1u << i % 8);
	}
	CU_ASSERT_EQUAL(ilog_batch_decode(batch, 100, &want, &info), -ERR_TOOSMALL);
	CU_ASSERT_EQUAL(ilog_batch_decode(batch, SECTOR_BYTES - 1, &want, &info), -ERR_TOOSMALL);
	want.off_bytes = SECTOR_BYTES;
	CU_ASSERT_EQUAL(ilog_batch_decode(batch, SECTOR_BYTES, &want, &info), -ERR_CORRUPT);
	want.off_bytes = 0;
	want.batch_seq = 2;
	CU_ASSERT_EQUAL(ilog_batch_decode(batch, SECTOR_BYTES, &want, &info), -ERR_CORRUPT);
	rig_fini(&rig);
}

/* ---- the plain path, wrapping ---- */

static void
basic_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct ilog_replay_result res;
	struct ilog_info info;
	struct rig_seen seen;

	for (uint64_t i = 1; i <= 50; i++) {
		CU_ASSERT_EQUAL(put(l, i, 5, (uint32_t)(32 + i * 37)), 0);
	}
	CU_ASSERT_EQUAL(put(l, 51, 6, ILOG_PAYLOAD_MAX), 0);
	CU_ASSERT_EQUAL(ilog_commit(l, UINT64_MAX), 0);
	ilog_get_info(l, &info);
	CU_ASSERT_EQUAL(info.state, ILOG_OK);
	CU_ASSERT_EQUAL(info.records, 51);
	CU_ASSERT_EQUAL(info.batches, 51);
	CU_ASSERT(ilog_fill_percent(l) > 10);
	stop(l);
	seen = replay(0, &res);
	CU_ASSERT_EQUAL(seen.count, 51);
	CU_ASSERT_EQUAL(res.batches, 51);
	CU_ASSERT_EQUAL(res.last_seq, 51);
	CU_ASSERT_EQUAL(res.repaired_batches, 0);
	CU_ASSERT_EQUAL(replay(1, &res).digest, seen.digest);
	CU_ASSERT_EQUAL(replay(2, &res).digest, seen.digest);
}

static void
basic(void)
{
	CU_ASSERT(rig_init(&rig, 2, ILOG_REGION_BYTES_MIN));
	in_sim(basic_fiber, 2);
	rig_fini(&rig);
}

/* Many laps with odd lengths; the last txgs must come back from any of their roots, and without a
 * position. */
static void
laps_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct ilog_position pos[3] = {{.epoch = 0}};
	struct ilog_position unknown = {.epoch = 1};
	struct ilog_replay_result res;
	uint64_t counter = 0, counter_at[3] = {0};

	for (uint64_t txg = 1; txg <= 200; txg++) {
		for (unsigned i = 0; i < 3; i++) {
			counter++;
			CU_ASSERT_EQUAL(
			    put(l, counter, txg, 32 + (uint32_t)(txg * 977 % 90000)), 0);
		}
		memmove(pos + 1, pos, 2 * sizeof(pos[0]));
		memmove(counter_at + 1, counter_at, 2 * sizeof(counter_at[0]));
		ilog_tail(l, txg, &pos[0]);
		counter_at[0] = counter;
		if (txg > 2) {
			ilog_trim(l, txg - 2);
		}
	}
	counter++;
	CU_ASSERT_EQUAL(put(l, counter, 201, 5000), 0);
	stop(l);
	for (unsigned i = 0; i < 3; i++) {
		struct rig_seen seen = replay_from(0, &pos[i], &res);

		CU_ASSERT_EQUAL(seen.first_seq, counter_at[i] + 1);
		CU_ASSERT_EQUAL(seen.last_seq, counter);
		CU_ASSERT_FALSE(res.acked_lost);
	}
	CU_ASSERT_EQUAL(replay_from(0, &unknown, &res).first_seq, counter_at[2] + 1);
	CU_ASSERT_EQUAL(res.last_seq, counter);
	CU_ASSERT_FALSE(res.acked_lost);
}

static void
laps(void)
{
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(laps_fiber, 3);
	rig_fini(&rig);
}

/* ---- space ---- */

/* Txgs may come in any order; a batch goes when all its records may. */
static void
trim_fiber(void *arg UNUSED)
{
	static const uint64_t txgs[] = {5, 3, 9, 4, 4};
	struct ilog *l = start();
	struct ilog_position at;

	for (uint64_t i = 0; i < ARRAY_LEN(txgs); i++) {
		CU_ASSERT_EQUAL(put(l, i + 1, txgs[i], 100), 0);
	}
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), 5 * SECTOR_BYTES);
	ilog_trim(l, 4);
	CU_ASSERT_EQUAL(l->tail.batch_seq, 1);
	ilog_trim(l, 5);
	CU_ASSERT_EQUAL(l->tail.batch_seq, 3);
	ilog_tail(l, 8, &at);
	CU_ASSERT_EQUAL(at.batch_seq, 3);
	ilog_tail(l, 9, &at);
	CU_ASSERT_EQUAL(at.batch_seq, 6);
	CU_ASSERT_EQUAL(at.off_bytes, 5 * SECTOR_BYTES);
	ilog_trim(l, 8);
	CU_ASSERT_EQUAL(l->tail.batch_seq, 3);
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), 3 * SECTOR_BYTES);
	/* The position of root 9 holds against late records of 9 and a trim of 9. */
	CU_ASSERT_EQUAL(put(l, 6, 9, 100), 0);
	CU_ASSERT_EQUAL(put(l, 7, 10, 100), 0);
	ilog_trim(l, 9);
	CU_ASSERT_EQUAL(l->tail.batch_seq, 6);
	ilog_trim(l, 10);
	CU_ASSERT_EQUAL(l->tail.batch_seq, 8);
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), 0);
	/* More txgs than marks: space comes back later, but all of it. */
	for (uint64_t i = 0; i < 2 * ILOG_MARKS_MAX; i++) {
		CU_ASSERT_EQUAL(put(l, 8 + i, 20 + i, 100), 0);
	}
	ilog_trim(l, 20 + ILOG_MARKS_MAX);
	CU_ASSERT(l->tail.batch_seq > 8 && l->tail.batch_seq <= 8 + ILOG_MARKS_MAX);
	ilog_trim(l, 20 + 2 * ILOG_MARKS_MAX);
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), 0);
	stop(l);
}

static void
trim(void)
{
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(trim_fiber, 4);
	rig_fini(&rig);
}

static void
late_trim_fiber(void *arg)
{
	fiber_sleep(NSEC_PER_SEC);
	ilog_trim(arg, 7);
}

/* A full ring stops reservations and nothing else. */
static void
full_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct ilog_reservation r = {.bytes = 0}, big = {.bytes = 0};
	struct ilog_record rec = {.type = 1, .txg = 7, .len_bytes = 9};
	const struct ilog_seg seg = {"ring full", 9};
	uint64_t count = 0;

	CU_ASSERT_EQUAL(ilog_reserve(l, 64u << 20, 1, RT_FOREVER, &big), -EMSGSIZE);
	while (ilog_reserve(l, 9, 1, rt_now_ns() + NSEC_PER_MSEC, &r) == 0) {
		CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), 0);
		CU_ASSERT_EQUAL(ilog_commit(l, rec.seq), 0);
		ilog_unreserve(l, &r);
		count++;
	}
	CU_ASSERT(ilog_fill_percent(l) >= ILOG_THROTTLE_PERCENT);
	CU_ASSERT(count > 300);
	CU_ASSERT_EQUAL(ilog_reserve(l, 9, 1, rt_now_ns() + NSEC_PER_MSEC, &r), -ETIMEDOUT);
	ilog_trim(l, 6);
	CU_ASSERT_EQUAL(ilog_reserve(l, 9, 1, rt_now_ns() + NSEC_PER_MSEC, &r), -ETIMEDOUT);
	CU_ASSERT_EQUAL(fiber_spawn(1, FIBER_SYNC, "trim", late_trim_fiber, l), 0);
	CU_ASSERT_EQUAL(ilog_reserve(l, 9, 1, RT_FOREVER, &r), 0);
	ilog_unreserve(l, &r);
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), 0);
	stop(l);
}

static void
full(void)
{
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(full_fiber, 5);
	rig_fini(&rig);
}

static void
reserve_big_fiber(void *arg)
{
	struct ilog_reservation r = {.bytes = 0};

	CU_ASSERT_EQUAL(ilog_reserve(arg, 1u << 20, 1, RT_FOREVER, &r), 0);
	ilog_unreserve(arg, &r);
}

/* Records that nobody commits don't hold their space for ever when somebody waits for it. */
static void
uncommitted_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct ilog_reservation r = {.bytes = 0};
	struct ilog_record rec = {.type = 1, .txg = 1, .len_bytes = 1u << 20};
	const struct ilog_seg seg = {payload_buf, 1u << 20};

	CU_ASSERT_EQUAL(ilog_reserve(l, 1u << 20, 1, RT_FOREVER, &r), 0);
	CU_ASSERT_EQUAL(fiber_spawn(1, FIBER_SYNC, "reserve", reserve_big_fiber, l), 0);
	fiber_sleep(NSEC_PER_MSEC);
	CU_ASSERT_EQUAL(atomic_load(&l->reserve_waiters), 1);
	CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), 0);
	ilog_trim(l, 1);
	fiber_sleep(NSEC_PER_SEC);
	CU_ASSERT_EQUAL(atomic_load(&l->reserve_waiters), 0);
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), 0);
	ilog_trim(l, 1);
	stop(l);
}

static void
uncommitted(void)
{
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(uncommitted_fiber, 25);
	rig_fini(&rig);
}

static void
put_fiber(void *arg)
{
	CU_ASSERT_EQUAL(put(arg, 1, 1, 100), 0);
}

/* What is with the drives is not trimmed from under them. */
static void
trim_unacked_fiber(void *arg UNUSED)
{
	struct kb_sim_faults slow = {
	    .latency_ns_min = NSEC_PER_SEC, .latency_ns_max = NSEC_PER_SEC};
	struct ilog *l = start();

	kb_sim_set_faults(rig.media[0], &slow);
	CU_ASSERT_EQUAL(fiber_spawn(1, FIBER_REQUEST, "put", put_fiber, l), 0);
	fiber_sleep(NSEC_PER_SEC / 2);
	CU_ASSERT_EQUAL(l->head.batch_seq, 2);
	ilog_trim(l, 1);
	CU_ASSERT_EQUAL(l->tail.batch_seq, 1);
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), SECTOR_BYTES);
	fiber_sleep(NSEC_PER_SEC);
	CU_ASSERT_EQUAL(l->tail.batch_seq, 2);
	CU_ASSERT_EQUAL(atomic_load(&l->claimed_bytes), 0);
	stop(l);
}

static void
trim_unacked(void)
{
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(trim_unacked_fiber, 26);
	rig_fini(&rig);
}

/* What was reserved can always be appended, however the records are cut and batched. */
static void
worst_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	uint64_t txg = 1;

	for (unsigned round = 0; round < 300; round++) {
		uint32_t n = 1 + (uint32_t)(rt_random_u64() % 20);
		uint32_t total = (uint32_t)(rt_random_u64() % (200u << 10));
		struct ilog_reservation r;

		if (ilog_reserve(l, total, n, rt_now_ns() + NSEC_PER_MSEC, &r) != 0) {
			CU_ASSERT_EQUAL(ilog_commit(l, UINT64_MAX), 0);
			ilog_trim(l, txg++);
			continue;
		}
		for (uint32_t i = 0; i < n; i++) {
			uint32_t len =
			    i + 1 == n ? total : (uint32_t)(rt_random_u64() % (total + 1));
			struct ilog_record rec = {.type = 1, .txg = txg, .len_bytes = len};
			const struct ilog_seg seg = {payload_buf, len};

			total -= len;
			CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), 0);
			if (rt_random_u64() % 2 == 0) {
				CU_ASSERT_EQUAL(ilog_commit(l, rec.seq), 0);
			}
		}
		CU_ASSERT_EQUAL(r.bytes, 0);
		ilog_unreserve(l, &r);
	}
	stop(l);
}

static void
worst_case(void)
{
	bug_set_buggify(50);
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	for (uint64_t seed = 1; seed <= 20; seed++) {
		in_sim(worst_fiber, seed);
		rig.epoch++;
	}
	rig_fini(&rig);
	bug_set_buggify(0);
}

static void
refuse_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct ilog *other = NULL;
	struct ilog_config cfg = rig.cfg;
	struct ilog_reservation r = {.bytes = 0};
	struct ilog_record rec = {.type = 1, .txg = 1, .len_bytes = 8};
	const struct ilog_seg seg = {"12345678", 8};

	CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), -EMSGSIZE); /* nothing reserved */
	CU_ASSERT_EQUAL(ilog_reserve(l, 8, 1, RT_FOREVER, &r), 0);
	rec.len_bytes = 7;
	CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), -EINVAL);
	rec.len_bytes = 8;
	rec.type = 0;
	CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), -EINVAL);
	rec.type = 1;
	CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, ILOG_SEGS_MAX + 1), -EMSGSIZE);
	CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), 0);
	CU_ASSERT_EQUAL(ilog_append(l, &r, &rec, &seg, 1), -EMSGSIZE); /* used up */
	CU_ASSERT_EQUAL(ilog_commit(l, 0), 0);
	cfg.epoch = 0;
	CU_ASSERT_EQUAL(ilog_create(&cfg, &other), -EINVAL);
	cfg = rig.cfg;
	cfg.region_bytes = ILOG_REGION_BYTES_MIN - SECTOR_BYTES;
	CU_ASSERT_EQUAL(ilog_create(&cfg, &other), -EINVAL);
	cfg = rig.cfg;
	cfg.sides[0].off_bytes = 3 * RIG_OFF;
	CU_ASSERT_EQUAL(ilog_create(&cfg, &other), -EINVAL);
	cfg = rig.cfg;
	cfg.sides[0].drive = NULL;
	CU_ASSERT_EQUAL(ilog_create(&cfg, &other), -EINVAL);
	mem_fail_at(1, false);
	CU_ASSERT_EQUAL(ilog_create(&rig.cfg, &other), -ENOMEM);
	mem_fail_at(0, false);
	CU_ASSERT_PTR_NULL(other);
	stop(l);
}

static void
refuse(void)
{
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(refuse_fiber, 6);
	rig_fini(&rig);
}

/* ---- group commit ---- */

struct committer {
	struct ilog *l;
	struct waitgroup *wg;
	uint64_t id;
};

static void
committer_fiber(void *arg)
{
	struct committer *c = arg;
	uint8_t buf[200];

	for (uint64_t i = 1; i <= 20; i++) {
		struct rig_payload p = {
		    .appender = c->id, .counter = i, .txg = 1, .len_bytes = sizeof(buf)};
		uint64_t seq = 0;

		CU_ASSERT_EQUAL(rig_append(c->l, &p, buf, &seq), 0);
		CU_ASSERT_EQUAL(ilog_commit(c->l, seq), 0);
		CU_ASSERT(seq <= atomic_load(&c->l->acked_rec));
	}
	wg_done(c->wg);
}

static void
group_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct waitgroup wg;
	struct committer c[40];
	struct ilog_replay_result res;
	struct ilog_info info;

	wg_init(&wg);
	wg_add(&wg, ARRAY_LEN(c));
	for (unsigned i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = (struct committer){.l = l, .wg = &wg, .id = i + 1};
		fiber_spawn_wait(i % 2, FIBER_REQUEST, "committer", committer_fiber, &c[i]);
	}
	wg_wait(&wg);
	ilog_get_info(l, &info);
	CU_ASSERT_EQUAL(info.records, 800);
	CU_ASSERT_EQUAL(info.commits, 800);
	CU_ASSERT(info.batches < 200); /* gathered */
	CU_ASSERT(info.batches > 20);
	stop(l);
	CU_ASSERT_EQUAL(replay(0, &res).count, 800);
}

static void
group_commit(void)
{
	CU_ASSERT(rig_init(&rig, 2, ILOG_REGION_BYTES_MIN));
	in_sim(group_fiber, 7);
	rig_fini(&rig);
}

/* ---- sides ---- */

static void
set_fault(unsigned side, const struct kb_sim_faults *f)
{
	struct kb_sim_faults all = *f;

	all.latency_ns_min = 20000;
	all.latency_ns_max = 200000;
	kb_sim_set_faults(rig.media[side], &all);
}

static const struct kb_sim_faults write_error = {.write_error = 1000000};
static const struct kb_sim_faults no_fault = {.write_error = 0};

static void
side_lost_with(const struct kb_sim_faults *f)
{
	struct ilog *l = start();
	struct ilog_info info;
	struct ilog_replay_result res;
	struct rig_payload p = {.appender = 1, .counter = 2, .txg = 1, .len_bytes = 100};
	uint64_t seq = 0;

	CU_ASSERT_EQUAL(put(l, 1, 1, 100), 0);
	set_fault(0, f);
	rig.lost_takes_ns = NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_append(l, &p, payload_buf, &seq), 0);
	CU_ASSERT_EQUAL(ilog_commit(l, seq), 0);
	CU_ASSERT_FALSE(rig.lost_running); /* nothing acknowledged before it was durable */
	CU_ASSERT_EQUAL(rig.out, 1);
	for (uint64_t i = 3; i < 20; i++) {
		CU_ASSERT_EQUAL(put(l, i, 1, 100), 0);
	}
	CU_ASSERT_EQUAL(rig.lost_calls, 1);
	ilog_get_info(l, &info);
	CU_ASSERT_EQUAL(info.state, ILOG_DEGRADED);
	CU_ASSERT_EQUAL(info.sides_out, 1);
	set_fault(0, &no_fault);
	kb_sim_unhang(rig.media[0]);
	fiber_sleep(10 * NSEC_PER_SEC);
	stop(l);
	CU_ASSERT_EQUAL(replay(0, &res).count, 19);
}

static void
error_fiber(void *arg UNUSED)
{
	side_lost_with(&write_error);
}

static void
hang_fiber(void *arg UNUSED)
{
	const struct kb_sim_faults f = {.hang = 1000000};

	side_lost_with(&f);
}

static void
late_fiber(void *arg UNUSED)
{
	const struct kb_sim_faults f = {.late = 1000000};

	side_lost_with(&f);
}

static void
side_lost(void)
{
	fiber_fn *fns[] = {error_fiber, hang_fiber, late_fiber};

	for (unsigned i = 0; i < ARRAY_LEN(fns); i++) {
		CU_ASSERT(rig_init(&rig, 2, ILOG_REGION_BYTES_MIN));
		in_sim(fns[i], 8 + i);
		rig_fini(&rig);
	}
}

static void
expect_failed(struct ilog *l)
{
	struct ilog_reservation r = {.bytes = 0};
	struct ilog_info info;

	ilog_get_info(l, &info);
	CU_ASSERT_EQUAL(info.state, ILOG_FAILED);
	CU_ASSERT_EQUAL(put(l, 3, 1, 100), -EIO);
	CU_ASSERT_EQUAL(ilog_reserve(l, 10, 1, RT_FOREVER, &r), -EIO);
	CU_ASSERT_EQUAL(ilog_commit(l, UINT64_MAX), -EIO);
	CU_ASSERT_EQUAL(ilog_commit(l, 1), 0); /* what was durable is */
}

static void
both_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct ilog_replay_result res;

	CU_ASSERT_EQUAL(put(l, 1, 1, 100), 0);
	set_fault(0, &write_error);
	set_fault(1, &write_error);
	CU_ASSERT_EQUAL(put(l, 2, 1, 100), -EIO);
	CU_ASSERT_EQUAL(rig.out & (rig.out - 1), 0); /* never both */
	expect_failed(l);
	stop(l);
	set_fault(0, &no_fault);
	set_fault(1, &no_fault);
	CU_ASSERT(replay(0, &res).count >= 1);
}

static void
undeclared_fiber(void *arg UNUSED)
{
	struct ilog *l = start();

	rig.lost_status = -EIO;
	CU_ASSERT_EQUAL(put(l, 1, 1, 100), 0);
	set_fault(1, &write_error);
	CU_ASSERT_EQUAL(put(l, 2, 1, 100), -EIO);
	CU_ASSERT_EQUAL(rig.out, 0);
	expect_failed(l);
	stop(l);
}

static void
log_fails(void)
{
	CU_ASSERT(rig_init(&rig, 2, ILOG_REGION_BYTES_MIN));
	in_sim(both_fiber, 11);
	rig_fini(&rig);
	CU_ASSERT(rig_init(&rig, 2, ILOG_REGION_BYTES_MIN));
	in_sim(undeclared_fiber, 12);
	rig_fini(&rig);
}

/* A fiber that waits for space when the log fails is told. */
static void
waiter_fiber(void *arg)
{
	struct ilog_reservation r;

	CU_ASSERT_EQUAL(ilog_reserve(arg, 1u << 20, 1, RT_FOREVER, &r), -EIO);
}

static void
fail_waiter_fiber(void *arg UNUSED)
{
	struct ilog *l = start();
	struct ilog_reservation r;

	CU_ASSERT_EQUAL(ilog_reserve(l, 1u << 20, 1, RT_FOREVER, &r), 0);
	CU_ASSERT_EQUAL(fiber_spawn(1, FIBER_REQUEST, "waiter", waiter_fiber, l), 0);
	fiber_sleep(NSEC_PER_MSEC);
	set_fault(0, &write_error);
	CU_ASSERT_EQUAL(ilog_append(l, &r, &(struct ilog_record){.type = 1}, NULL, 0), 0);
	CU_ASSERT_EQUAL(ilog_commit(l, 1), -EIO);
	fiber_sleep(NSEC_PER_MSEC);
	ilog_unreserve(l, &r);
	stop(l);
}

static void
fail_waiter(void)
{
	CU_ASSERT(rig_init(&rig, 1, ILOG_REGION_BYTES_MIN));
	in_sim(fail_waiter_fiber, 13);
	rig_fini(&rig);
}

/* ---- holes, repair, epochs; the media are written first, then looked at ---- */

static uint64_t fill_count;
static uint32_t fill_len;

static void
fill_fiber(void *arg UNUSED)
{
	struct ilog *l = start();

	for (uint64_t i = 1; i <= fill_count; i++) {
		CU_ASSERT_EQUAL(put(l, i, 1, fill_len), 0);
	}
	stop(l);
}

static void
fill(unsigned sides, uint64_t count, uint32_t len)
{
	CU_ASSERT(rig_init(&rig, sides, ILOG_REGION_BYTES_MIN));
	fill_count = count;
	fill_len = len;
	in_sim(fill_fiber, 20);
}

static struct ilog_replay_result got;
static struct rig_seen got_seen;
static uint32_t got_without;

static void
replay_fiber(void *arg UNUSED)
{
	got_seen = replay(got_without, &got);
}

static void
replay_now(uint32_t without)
{
	got_without = without;
	in_sim(replay_fiber, 21);
}

static void
rot(unsigned side, uint64_t nth)
{
	kb_sim_rot_range(rig.media[side], RIG_OFF + (nth - 1) * SECTOR_BYTES, SECTOR_BYTES, nth);
}

static void
repair(void)
{
	fill(2, 30, 100);
	rot(0, 3);
	rot(0, 17);
	rot(1, 18);
	rot(1, 30);
	replay_now(0);
	CU_ASSERT_EQUAL(got_seen.count, 30);
	CU_ASSERT_EQUAL(got.repaired_batches, 4);
	CU_ASSERT_EQUAL(got.sides_unrepaired, 0);
	for (uint32_t without = 0; without < 3; without++) {
		replay_now(without);
		CU_ASSERT_EQUAL(got_seen.count, 30);
		CU_ASSERT_EQUAL(got.repaired_batches, 0);
	}
	rot(0, 5);
	set_fault(0, &write_error);
	replay_now(0);
	CU_ASSERT_EQUAL(got_seen.count, 30);
	CU_ASSERT_EQUAL(got.sides_unrepaired, 1);
	rig_fini(&rig);
}

static void
unreadable_fiber(void *arg UNUSED)
{
	struct ilog_position from = {.epoch = 1, .batch_seq = 1};
	struct rig_seen seen = {.count = 0};

	CU_ASSERT(rig_open(&rig, got_without));
	CU_ASSERT_EQUAL(ilog_replay(&rig.cfg, &from, rig_deliver, &seen, &got), -EIO);
	CU_ASSERT_EQUAL(got.records, 0);
	rig_close(&rig);
}

static void
unreadable(void)
{
	const struct kb_sim_faults f = {.read_error = 1000000};

	fill(2, 30, 100);
	set_fault(0, &f);
	replay_now(0); /* the other side knows */
	CU_ASSERT_EQUAL(got_seen.count, 30);
	got_without = 2;
	in_sim(unreadable_fiber, 22);
	rig_fini(&rig);
}

/* A hole ends it, for good, and is reported when it had been acknowledged. */
static void
hole(void)
{
	fill(2, 30, 100);
	rot(0, 10);
	rot(1, 10);
	replay_now(0);
	CU_ASSERT_EQUAL(got_seen.last_seq, 9);
	CU_ASSERT(got.acked_lost);
	rig_fini(&rig);

	fill(1, 30, 100);
	rot(0, 30); /* nobody behind it can tell */
	replay_now(0);
	CU_ASSERT_EQUAL(got_seen.last_seq, 29);
	CU_ASSERT_FALSE(got.acked_lost);
	rig_fini(&rig);
}

static bool
stale_epoch_is_ignored(void)
{
	fill(1, 10, 100);
	rig.epoch = 2;
	replay_now(0); /* nothing was committed in it */
	rig_fini(&rig);
	return got_seen.count == 0;
}

/* Two imports that both took themselves for the only one: after the younger's last batch the
 * elder's go on. */
static bool
fork_is_noticed(void)
{
	fill(1, 10, 100);
	fill_count = 4;
	fill_len = 200;
	in_sim(fill_fiber, 23);
	replay_now(0);
	rig_fini(&rig);
	return got_seen.count == 4;
}

static void
epochs(void)
{
	CU_ASSERT(stale_epoch_is_ignored());
	CU_ASSERT(fork_is_noticed());
#ifdef AGATE_DEBUG
	bug_set_deliberate("ilog-epoch-unchecked");
	CU_ASSERT_FALSE(stale_epoch_is_ignored());
	bug_set_deliberate("ilog-prev-unchecked");
	CU_ASSERT_FALSE(fork_is_noticed());
	bug_set_deliberate(NULL);
#endif
}

static int
stop_deliver(void *arg, const struct ilog_record *rec, const void *payload UNUSED)
{
	(void)arg;
	return rec->seq == 7 ? -ECANCELED : 0;
}

static void
stop_fiber(void *arg UNUSED)
{
	struct ilog_position from = {.epoch = 1, .batch_seq = 1};
	struct ilog_position wrong = {.epoch = 1, .batch_seq = 1, .off_bytes = 100};

	CU_ASSERT(rig_open(&rig, 0));
	CU_ASSERT_EQUAL(ilog_replay(&rig.cfg, &from, stop_deliver, NULL, &got), -ECANCELED);
	CU_ASSERT_EQUAL(got.records, 6);
	CU_ASSERT_EQUAL(ilog_replay(&rig.cfg, &wrong, stop_deliver, NULL, &got), -EINVAL);
	for (uint64_t n = 1; n <= 2; n++) {
		mem_fail_at(n, false);
		CU_ASSERT_EQUAL(ilog_replay(&rig.cfg, &from, stop_deliver, NULL, &got), -ENOMEM);
		mem_fail_at(0, false);
	}
	rig_close(&rig);
}

static void
deliver_stops(void)
{
	fill(1, 10, 100);
	in_sim(stop_fiber, 24);
	rig_fini(&rig);
}

static const struct unit_test tests[] = {
    {"decode_batch", decode_batch},
    {"basic", basic},
    {"laps", laps},
    {"trim", trim},
    {"trim_unacked", trim_unacked},
    {"full", full},
    {"uncommitted", uncommitted},
    {"worst_case", worst_case},
    {"refuse", refuse},
    {"group_commit", group_commit},
    {"side_lost", side_lost},
    {"log_fails", log_fails},
    {"fail_waiter", fail_waiter},
    {"repair", repair},
    {"unreadable", unreadable},
    {"hole", hole},
    {"epochs", epochs},
    {"deliver_stops", deliver_stops},
};

int
main(int argc, char **argv)
{
	return unit_main("ilog", tests, ARRAY_LEN(tests), argc, argv);
}
