/*
 * pool_notes_test.c - notes of transactions after a crash: in order, the newest of too many, with
 * their ring damaged; and records of the log that are in the root already.
 */
#include "pool/object.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (96 * MIB)
#define NOTE_BYTES 1000u
#define PER_BLOCK 16u /* of that size */
#define TXGS 60u
#define PER_TXG 20u
#define MANY 2000u

static struct pool_rig rig;
static uint32_t in_root, to_redo;

static struct pool *
make_pool(void)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 4, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	err = pool_create(&spec, &p, why, sizeof(why));
	ASSERT(err == 0);
	return p;
}

static struct pool *
import_pool(void)
{
	struct pool_import_spec spec = {
	    .drives = rig.drives, .drive_count = 4, .host_name = "here", .host_id = 1};
	struct pool_import_result result = {0};
	struct pool_label_info info;
	struct pool *p;
	int err;

	rig_open(&rig);
	err = pool_label_probe(rig.drives[0], &info);
	ASSERT(err == 0);
	spec.pool_guid = info.pool_guid;
	err = pool_import(&spec, &p, &result);
	ASSERT(err == 0);
	return p;
}

static void
export_pool(struct pool *p)
{
	int err = pool_export(p);

	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static struct pool_tx *
begin(struct pool *p, uint32_t log_records)
{
	struct pool_need need = {
	    .dirty_bytes = 64 * 1024, .log_bytes = log_records * 64, .log_records = log_records};
	struct pool_ds *ds;
	struct pool_tx *tx;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	err = pool_tx_begin(ds, &need, &tx);
	ASSERT(err == 0);
	pool_ds_close(ds);
	return tx;
}

static void
note(struct pool_tx *tx, uint32_t number, uint32_t len)
{
	uint8_t data[POOL_NOTE_MAX];

	memset(data, (int)(number % 251), sizeof(data));
	memcpy(data, &number, sizeof(number));
	pool_tx_note(tx, data, len);
}

static void
note_txgs(struct pool *p)
{
	for (uint32_t t = 0; t < TXGS; t++) {
		struct pool_tx *tx = begin(p, 0);
		int err;

		for (uint32_t i = 0; i < PER_TXG; i++) {
			note(tx, t * PER_TXG + i, NOTE_BYTES);
		}
		pool_tx_end(tx);
		err = pool_sync(p);
		ASSERT(err == 0);
	}
}

/* ---- what is found ---- */

struct seen {
	uint32_t count, first, last, gaps;
	bool wrong;
};

static void
note_found(void *arg, const void *data, uint32_t len)
{
	struct seen *s = arg;
	const uint8_t *b = data;
	uint32_t number;

	memcpy(&number, b, sizeof(number));
	for (uint32_t i = sizeof(number); i < len; i++) {
		s->wrong = s->wrong || b[i] != number % 251;
	}
	s->wrong = s->wrong || len != NOTE_BYTES || (s->count > 0 && number <= s->last);
	s->gaps += s->count > 0 && number != s->last + 1;
	s->first = s->count == 0 ? number : s->first;
	s->last = number;
	s->count++;
}

static int
count_record(void *arg UNUSED, const struct pool_record *rec)
{
	*(rec->in_root ? &in_root : &to_redo) += 1;
	return 0;
}

static struct seen
take_up(struct pool **out)
{
	struct seen s = {0};
	struct pool_replay_result rr;
	int err;

	*out = import_pool();
	pool_notes_each(*out, note_found, &s);
	err = pool_replay(*out, count_record, NULL, &rr);
	ASSERT(err == 0);
	CU_ASSERT(!s.wrong);
	return s;
}

/* ---- the newest of many, txg by txg ---- */

static void
run_txgs(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_tx *tx;

	note_txgs(p);
	tx = begin(p, 0);
	note(tx, TXGS * PER_TXG, NOTE_BYTES); /* in no root */
	pool_tx_end(tx);
	rt_sim_crash();
}

static void
run_txgs_after(void *arg UNUSED)
{
	struct pool *p;
	struct seen s = take_up(&p);
	uint64_t problems = 1;
	struct pool_tx *tx;
	int err;

	CU_ASSERT_EQUAL(s.last, TXGS * PER_TXG - 1);
	CU_ASSERT_EQUAL(s.gaps, 0);
	CU_ASSERT(s.count >= (REPLIES_BLOCKS - 1) * PER_BLOCK);
	CU_ASSERT(s.count <= REPLIES_BLOCKS * PER_BLOCK);
	err = pool_check(p, NULL, NULL, &problems);
	CU_ASSERT(err == 0 && problems == 0);
	/* too short, too long: not taken. The one in between goes behind the others. */
	tx = begin(p, 0);
	note(tx, 0, 0);
	pool_tx_note(tx, &problems, POOL_NOTE_MAX + 1);
	note(tx, TXGS * PER_TXG, NOTE_BYTES);
	pool_tx_end(tx);
	export_pool(p);
}

static void
run_export_after(void *arg UNUSED)
{
	struct pool *p;
	struct seen s = take_up(&p);

	CU_ASSERT_EQUAL(s.last, TXGS * PER_TXG);
	CU_ASSERT_EQUAL(s.gaps, 0);
	CU_ASSERT(s.count > (REPLIES_BLOCKS - 2) * PER_BLOCK);
	export_pool(p);
}

/* ---- more in one txg than there is room for ---- */

static void
run_many(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_tx *tx = begin(p, 0);
	int err;

	for (uint32_t i = 0; i < MANY; i++) {
		note(tx, i, NOTE_BYTES);
	}
	pool_tx_end(tx);
	err = pool_sync(p);
	ASSERT(err == 0);
	rt_sim_crash();
}

static void
run_many_after(void *arg UNUSED)
{
	struct pool *p;
	struct seen s = take_up(&p);

	CU_ASSERT_EQUAL(s.last, MANY - 1);
	CU_ASSERT_EQUAL(s.gaps, 0);
	/* half of what the only reactor at work may keep */
	CU_ASSERT(s.count >= REPLIES_BLOCKS * PER_BLOCK / 2 / 2 - PER_BLOCK);
	export_pool(p);
}

/* ---- a damaged block ---- */

static void
run_damage(void *arg UNUSED)
{
	struct pool *p = make_pool();
	uint64_t number, token;
	struct pool_obj *o;
	struct bp bp;
	int err;

	note_txgs(p);
	number = le64_get(p->datasets->phys.replies_object);
	err = pool_obj_hold(p->datasets->mos, number, 0, &o);
	ASSERT(err == 0);
	token = space_read_enter(p->space);
	err = tree_lookup(p, &o->tree, 0, 5, NULL, &bp);
	space_read_exit(p->space, token);
	ASSERT(err == 0);
	pool_obj_release(o);
	for (unsigned c = 0; c < bp_copies(&bp); c++) {
		uint64_t at =
		    p->v.sets[0].cfg.base_bytes + bp_addr_sector(&bp.addr[c]) / 4 * SECTOR_BYTES;

		for (unsigned d = 0; d < 4; d++) {
			kb_sim_rot_range(rig.media[d], at, 2 * SECTOR_BYTES, 7);
		}
	}
	rt_sim_crash();
}

static void
run_damage_after(void *arg UNUSED)
{
	struct pool *p;
	struct seen s = take_up(&p);
	struct pool_tx *tx;

	CU_ASSERT_EQUAL(s.last, TXGS * PER_TXG - 1);
	CU_ASSERT_EQUAL(s.gaps, 1);
	CU_ASSERT(s.count >= (REPLIES_BLOCKS - 2) * PER_BLOCK);
	tx = begin(p, 0);
	note(tx, TXGS * PER_TXG, NOTE_BYTES);
	pool_tx_end(tx);
	export_pool(p);
}

/* ---- records that are in the root ---- */

static void
run_records(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_commit c = {0};
	struct pool_obj *o;
	struct pool_ds *ds;
	struct pool_tx *tx;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	tx = begin(p, 0);
	err = pool_obj_create(tx, ds, OBJ_FILE, 4096, 0, 0, &o);
	ASSERT(err == 0);
	pool_tx_end(tx);
	for (uint32_t i = 0; i < 6; i++) {
		struct iovec head = {&i, sizeof(i)};
		struct pool_log_rec rec = {.type = 3,
		    .object = pool_obj_number(o),
		    .generation = pool_obj_generation(o),
		    .head = &head,
		    .head_count = 1};

		err = i == 0 || i == 4 ? pool_sync(p) : 0; /* 0..3 are in the root, 4 and 5 not */
		ASSERT(err == 0);
		tx = begin(p, 1);
		memcpy(pool_obj_bonus_dirty(tx, o), &i, sizeof(i));
		pool_log(tx, &o, 1, &rec, &c);
		note(tx, i, NOTE_BYTES);
		pool_tx_end(tx);
		err = pool_commit(p, &c);
		ASSERT(err == 0);
	}
	ASSERT(c.seq != 0);
	rt_sim_crash();
}

/* Redoes the two that the root lacks; the power goes when the second is in a root. */
static int
redo_and_crash(void *p, const struct pool_record *rec)
{
	struct pool_need need = {.dirty_bytes = 4096};
	uint32_t number;
	struct pool_ds *ds;
	struct pool_tx *tx;
	int err;

	if (rec->in_root) {
		return 0;
	}
	memcpy(&number, rec->payload, sizeof(number));
	err = pool_ds_open(p, "tank", &ds);
	ASSERT(err == 0);
	err = pool_tx_begin_replay(ds, &need, &tx);
	ASSERT(err == 0);
	note(tx, number, NOTE_BYTES);
	pool_tx_end(tx);
	pool_ds_close(ds);
	if (++to_redo == 2) {
		err = pool_sync(p);
		ASSERT(err == 0);
		rt_sim_crash();
	}
	return 0;
}

static void
run_records_after(void *arg UNUSED)
{
	struct pool *p = import_pool();
	struct pool_replay_result rr;

	to_redo = 0;
	(void)!pool_replay(p, redo_and_crash, p, &rr);
}

static void
run_records_later(void *arg UNUSED)
{
	struct pool *p;

	in_root = to_redo = 0;
	struct seen s = take_up(&p);
	CU_ASSERT_EQUAL(to_redo, 0);
	CU_ASSERT(in_root >= 2); /* and perhaps of those before, if they shared a batch */
	CU_ASSERT_EQUAL(s.count, 6);
	CU_ASSERT_EQUAL(s.gaps, 0);
	export_pool(p);
}

/* ---- running ---- */

static void
in_sim(fiber_fn *fn, int expected)
{
	struct rt_options opt = unit_rt(true, 2, unit_seed(1));
	int err;

	opt.arena_bytes = 64 * MIB;
	log_set_level(LOG_ERROR + 1);
	bug_set_deliberate(getenv("AGATE_BUGS"));
	err = rt_run(&opt, fn, NULL);
	log_set_level(LOG_ERROR);
	CU_ASSERT_EQUAL(err, expected);
	if (err == -ERR_CRASHED) {
		rig_power_cut(&rig, unit_seed(1));
	}
}

static void
crash_and(fiber_fn *before, fiber_fn *after, fiber_fn *later)
{
	rig_make(&rig, 4, DRIVE_BYTES);
	in_sim(before, -ERR_CRASHED);
	in_sim(after, after == run_records_after ? -ERR_CRASHED : 0);
	if (later != NULL) {
		in_sim(later, 0);
	}
	rig_unmake(&rig);
}

static void
test_txgs(void)
{
	crash_and(run_txgs, run_txgs_after, run_export_after);
}

static void
test_many(void)
{
	crash_and(run_many, run_many_after, NULL);
}

static void
test_damage(void)
{
	crash_and(run_damage, run_damage_after, NULL);
}

static void
test_records(void)
{
	crash_and(run_records, run_records_after, run_records_later);
}

static const struct unit_test tests[] = {
    {"the newest of many txgs", test_txgs},
    {"the newest of one txg", test_many},
    {"a damaged block", test_damage},
    {"records in the root", test_records},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_notes", tests, ARRAY_LEN(tests), argc, argv);
}
