/*
 * pool_model_test.c - objects against a model of bytes, over many lives of a pool.
 *
 * Workers on several reactors create, write, punch, truncate, destroy and re-create objects of
 * their own, log each change (at once or deferred) and sometimes commit. The power is cut after a
 * random number of writes; the next life imports, replays, runs pool_check, and compares: each
 * object must be in a state that it once had, no older than the newest one that was acknowledged.
 * The media and the model outlive the lives; everything else is gone with each.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/lib/pool_bytes.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (96 * MIB)
#define WORKERS 3u
#define OBJS_PER_WORKER 3u
#define OBJS (WORKERS * OBJS_PER_WORKER)
#define SEG_BYTES (96u * 1024)
#define FAR ((uint64_t)300 << 20)
#define HISTORY_MAX 20000u
#define RECORD_DATA_MAX 65536u

enum op_kind { OP_CREATE = 1, OP_DESTROY, OP_WRITE, OP_FREE, OP_INLINE, OP_BONUS };

/* What a record's payload says; also how the model is changed. */
struct op {
	uint32_t index; /* object of the model */
	uint32_t kind;
	uint32_t block_bytes;
	uint32_t len;
	uint64_t off;
	uint64_t seed;
	uint64_t number, generation;
};

struct state {
	bool exists;
	uint64_t number, generation;
	uint64_t bonus;
	uint32_t inline_len; /* > 0: inline */
	uint8_t inl[OBJECT_INLINE_MAX];
	uint8_t seg[2][SEG_BYTES];
};

struct history {
	uint64_t hash[HISTORY_MAX];
	uint32_t count;   /* states since the last import */
	uint32_t durable; /* index of the newest acknowledged one */
	uint32_t logged;  /* of those acknowledged by the log: they survive a fall-back to an older
			     root too */
};

static struct pool_rig rig;
static struct state model[OBJS], seen;
static struct state looked[OBJS]; /* compare_live's, who may be cut off in the middle */
static struct history history[OBJS];
static _Thread_local uint64_t rng_state; /* fibers stay on their thread */
static atomic_int ops_left;
static uint32_t log_drives;
static bool real, was_clean, went_back;
static bool heavy; /* so much is logged that the ring wraps within a few txgs */
static uint32_t rewind_txgs;
static bool created;
static uint64_t life, replayed, informed, notes_compared;
static atomic_ullong ops_done, commits_done;

static uint64_t
rnd(uint64_t below)
{
	return bytes_rnd(&rng_state, below);
}

static uint64_t
state_hash(const struct state *s)
{
	uint64_t h = s->exists;

	if (!s->exists) {
		return 1;
	}
	h = XXH3_64bits_withSeed(&s->number, sizeof(s->number), h);
	h = XXH3_64bits_withSeed(&s->generation, sizeof(s->generation), h);
	h = XXH3_64bits_withSeed(&s->bonus, sizeof(s->bonus), h);
	h = XXH3_64bits_withSeed(s->inl, s->inline_len, h + s->inline_len);
	return XXH3_64bits_withSeed(s->seg, sizeof(s->seg), h);
}

/* ---- the model ---- */

static void
model_write(struct state *s, uint64_t off, const uint8_t *data, uint32_t len)
{
	if (off >= FAR) {
		memcpy(s->seg[1] + (off - FAR), data, len);
	} else {
		memcpy(s->seg[0] + off, data, len);
	}
}

static void
model_free(struct state *s, uint64_t off, uint64_t len)
{
	for (unsigned i = 0; i < 2; i++) {
		bytes_part_free(s->seg[i], i * FAR, SEG_BYTES, off, len);
	}
}

static void
model_apply(struct state *s, const struct op *op)
{
	uint8_t *data = malloc(SEG_BYTES); /* plain: lives longer than the life's memory */

	switch ((enum op_kind)op->kind) {
	case OP_CREATE:
		memset(s, 0, sizeof(*s));
		s->exists = true;
		s->number = op->number;
		s->generation = op->generation;
		break;
	case OP_DESTROY:
		memset(s, 0, sizeof(*s));
		break;
	case OP_WRITE:
		bytes_pattern(data, op->len, op->seed);
		model_write(s, op->off, data, op->len);
		s->inline_len = 0;
		break;
	case OP_FREE:
		model_free(s, op->off, op->len == 0 ? UINT64_MAX : op->len);
		break;
	case OP_INLINE:
		bytes_pattern(s->inl, op->len, op->seed);
		s->inline_len = op->len;
		break;
	case OP_BONUS:
		s->bonus = op->seed;
		break;
	}
	free(data);
}

/* ---- doing it to an object ---- */

static int
object_apply(struct pool_tx *tx, struct pool_obj *o, const struct op *op)
{
	uint8_t *data = NULL;
	struct iovec iov[2];
	int err = 0;

	if (getenv("AGATE_TRACE") != NULL) {
		fprintf(stderr,
		    "%llu object %u number %llu kind %u off %llu len %u seed %llu txg %llu slot "
		    "%u\n",
		    (unsigned long long)life, op->index, (unsigned long long)op->number, op->kind,
		    (unsigned long long)op->off, op->len, (unsigned long long)op->seed,
		    (unsigned long long)pool_tx_txg(tx), (unsigned)(rt_now_ns() / 1000));
	}
	switch ((enum op_kind)op->kind) {
	case OP_CREATE:
		break;
	case OP_DESTROY:
		pool_obj_destroy(tx, o);
		break;
	case OP_WRITE:
		data = mem_zalloc(op->len);
		ASSERT(data != NULL);
		bytes_pattern(data, op->len, op->seed);
		iov[0] = (struct iovec){data, op->len / 3};
		iov[1] = (struct iovec){data + op->len / 3, op->len - op->len / 3};
		pool_obj_inline_clear(tx, o);
		err = pool_write(tx, o, op->off, iov, 2);
		break;
	case OP_FREE:
		err = pool_free_range(tx, o, op->off, op->len == 0 ? UINT64_MAX : op->len);
		break;
	case OP_INLINE: {
		uint8_t inl[OBJECT_INLINE_MAX];

		bytes_pattern(inl, op->len, op->seed);
		err = pool_obj_inline_set(tx, o, inl, op->len);
		break;
	}
	case OP_BONUS:
		memcpy(pool_obj_bonus_dirty(tx, o), &op->seed, sizeof(op->seed));
		break;
	}
	mem_free(data);
	return err;
}

/* Others run while a block is lent. */
static void
copy_lent(void *arg, uint32_t at, const uint8_t *bytes, uint32_t n)
{
	bytes_copy(arg, at, bytes, n);
	if (bytes != NULL) {
		fiber_yield();
	}
}

static void
read_state(struct pool_ds *ds, uint64_t number, uint64_t generation, struct state *out)
{
	struct pool_obj *o;
	int err = number == 0 ? -ENOENT : pool_obj_hold(ds, number, generation, &o);

	memset(out, 0, sizeof(*out));
	if (err == -ENOENT || err == -ESTALE) {
		return;
	}
	ASSERT(err == 0);
	out->exists = true;
	out->number = number;
	out->generation = pool_obj_generation(o);
	memcpy(&out->bonus, pool_obj_bonus(o), sizeof(out->bonus));
	if (pool_obj_inline_get(o, out->inl, sizeof(out->inl), &out->inline_len) != 0) {
		out->inline_len = 0;
	}
	bytes_read(o, 0, SEG_BYTES, copy_lent, out->seg[0]);
	bytes_read(o, FAR, SEG_BYTES, copy_lent, out->seg[1]);
	pool_obj_release(o);
}

/* ---- notes: what state each operation left ---- */

struct note {
	uint64_t life, number, generation, hash;
	uint32_t index, count;
};

static void
note_take(struct pool_tx *tx, const struct op *op)
{
	struct note n = {.life = life,
	    .number = op->number,
	    .generation = op->generation,
	    .hash = state_hash(&model[op->index]),
	    .index = op->index,
	    .count = history[op->index].count};

	pool_tx_note(tx, &n, sizeof(n));
}

static void
note_found(void *arg, const void *data, uint32_t len)
{
	struct note *newest = arg, n;

	ASSERT(len == sizeof(n));
	memcpy(&n, data, sizeof(n));
	ASSERT(n.index < OBJS && n.life < life);
	if (n.life + 1 == life && n.count >= newest[n.index].count) {
		newest[n.index] = n;
	}
}

/* Before replay: the root has what the newest notes tell, of the life before, if that got so far.
 */
static void
compare_notes(struct pool *p, struct pool_ds *ds)
{
	static struct note newest[OBJS];

	memset(newest, 0, sizeof(newest));
	pool_notes_each(p, note_found, newest);
	for (uint32_t i = 0; i < OBJS; i++) {
		const struct note *n = &newest[i];

		if (n->count > 0) {
			read_state(ds, n->number, n->generation, &seen);
			ASSERT(state_hash(&seen) == n->hash);
			notes_compared++;
		}
	}
}

/* ---- a worker ---- */

struct worker {
	struct pool_ds *ds;
	struct pool *p;
	uint32_t first;
	struct waitgroup *wg;
	struct pool_obj *o[OBJS_PER_WORKER];
};

static void
op_choose(uint32_t index, struct op *op)
{
	static const uint32_t sizes[] = {4096, 16384, 131072};
	const struct state *s = &model[index];
	bool has_blocks;

	memset(op, 0, sizeof(*op));
	op->index = index;
	op->seed = rnd(UINT32_MAX);
	if (!s->exists) {
		op->kind = OP_CREATE;
		op->block_bytes = sizes[rnd(3)];
		return;
	}
	op->number = s->number;
	op->generation = s->generation;
	switch (rnd(12)) {
	case 0:
		op->kind = rnd(4) == 0 ? OP_DESTROY : OP_BONUS;
		return;
	case 1:
		op->kind = OP_BONUS;
		return;
	case 2:
	case 3:
		op->kind = OP_FREE;
		op->off = rnd(3) == 0 ? FAR + rnd(SEG_BYTES) : rnd(2) == 0 ? rnd(SEG_BYTES) : 0;
		op->len = rnd(3) == 0 ? 0 : (uint32_t)rnd(SEG_BYTES);
		return;
	case 4:
		has_blocks = !bytes_are_zero(s->seg[0], sizeof(s->seg));
		op->kind = OP_INLINE;
		op->len = 1 + (uint32_t)rnd(OBJECT_INLINE_MAX);
		if (!has_blocks) {
			return;
		}
		break;
	}
	op->kind = OP_WRITE;
	op->len = rnd(2) == 0 ? 1 + (uint32_t)rnd(5000) : 1 + (uint32_t)rnd(SEG_BYTES / 2);
	op->off = rnd(SEG_BYTES - op->len) & (rnd(2) == 0 ? ~(uint64_t)4095 : ~(uint64_t)0);
	op->off += rnd(3) == 0 ? FAR : 0;
}

static void
history_push(uint32_t index)
{
	struct history *h = &history[index];

	ASSERT(h->count < HISTORY_MAX);
	h->hash[h->count++] = state_hash(&model[index]);
}

static void
op_log(struct pool_tx *tx, struct pool_obj *o, const struct op *op, bool defer,
    struct pool_commit *out)
{
	struct iovec head = {(void *)(uintptr_t)op, sizeof(*op)};
	struct pool_log_rec rec = {.type = 5,
	    .object = pool_obj_number(o),
	    .generation = pool_obj_generation(o),
	    .head = &head,
	    .head_count = 1};
	struct iobuf *data = NULL;

	if ((heavy || rnd(2) == 0) && iobuf_try_alloc(RECORD_DATA_MAX, ARENA_RECV, &data) == 0) {
		memset(data->data, 0x5a, RECORD_DATA_MAX);
		rec.data = data;
		rec.data_len = heavy ? RECORD_DATA_MAX : 1 + (uint32_t)rnd(RECORD_DATA_MAX);
	}
	if (defer) {
		pool_log_defer(tx, o, &rec);
	} else {
		pool_log(tx, &o, 1, &rec, out);
	}
	iobuf_unref(data);
}

/* false: not possible (inline with blocks). The model has the new state before anything may become
 * durable. */
static bool
op_apply(struct worker *w, struct pool_tx *tx, struct op *op, struct pool_obj **o)
{
	static struct state undo[OBJS];
	int err;

	if (op->kind == OP_CREATE) {
		err = pool_obj_create(tx, w->ds, OBJ_FILE, op->block_bytes, 0, 0, o);
		ASSERT(err == 0);
		op->number = pool_obj_number(*o);
		op->generation = pool_obj_generation(*o);
	}
	undo[op->index] = model[op->index];
	model_apply(&model[op->index], op);
	history_push(op->index);
	err = object_apply(tx, *o, op);
	if (err == -EFBIG && op->kind == OP_INLINE) {
		model[op->index] = undo[op->index];
		history[op->index].count--;
		return false;
	}
	ASSERT(err == 0);
	note_take(tx, op);
	return true;
}

static void
worker_op(struct worker *w, uint32_t k)
{
	struct pool_need need = {.dirty_bytes = 256 * 1024,
	    .log_bytes = sizeof(struct op) + RECORD_DATA_MAX,
	    .log_records = 1};
	uint32_t index = w->first + k;
	struct pool_commit c = {0};
	bool defer = rnd(3) == 0;
	struct pool_tx *tx;
	struct op op;
	int err;

	err = pool_tx_begin(w->ds, &need, &tx);
	if (err == -ENOSPC) {
		return;
	}
	ASSERT(err == 0);
	op_choose(index, &op);
	if (!op_apply(w, tx, &op, &w->o[k])) {
		pool_tx_end(tx);
		return;
	}
	op_log(tx, w->o[k], &op, defer, &c);
	pool_tx_end(tx);
	ops_done++;
	if (!defer && rnd(3) == 0) {
		uint32_t mine = history[index].count - 1;

		err = pool_commit(w->p, &c);
		ASSERT(err == 0);
		history[index].durable = MAX(history[index].durable, mine);
		if (c.seq != 0) {
			history[index].logged = MAX(history[index].logged, mine);
		}
		commits_done++;
	} else if (rnd(6) == 0) {
		uint32_t mine = history[index].count - 1;

		err = pool_commit_object(w->o[k]);
		ASSERT(err == 0);
		history[index].durable = MAX(history[index].durable, mine);
		commits_done++;
	}
	if (op.kind == OP_DESTROY) {
		pool_obj_release(w->o[k]);
		w->o[k] = NULL;
	}
}

static void
compare_live(struct pool_ds *ds, uint32_t index)
{
	struct state *s = &looked[index];

	read_state(ds, model[index].number, model[index].generation, s);
	ASSERT(state_hash(s) == state_hash(&model[index]));
}

static void
worker_main(void *arg)
{
	struct worker *w = arg;

	if (rng_state == 0) {
		rng_state = bytes_rnd_begin(w->first);
	}
	while (atomic_fetch_sub(&ops_left, 1) > 0) {
		uint32_t k = (uint32_t)rnd(OBJS_PER_WORKER);

		worker_op(w, k);
		if (rnd(8) == 0) {
			compare_live(w->ds, w->first + k);
		}
		if (rnd(40) == 0) {
			int err;

			fiber_sleep(rnd((real ? 5 : 200) * NSEC_PER_MSEC));
			err = rnd(2) == 0 ? pool_sync(w->p) : 0;
			ASSERT(err == 0);
		}
	}
	for (uint32_t k = 0; k < OBJS_PER_WORKER; k++) {
		if (w->o[k] != NULL) {
			pool_obj_release(w->o[k]);
		}
	}
	wg_done(w->wg);
}

/* ---- a life ---- */

static struct pool *
pool_make(void)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 7, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank",
	    .sets = &set,
	    .set_count = 1,
	    .logs = rig.drives + 7,
	    .log_count = log_drives,
	    .log_bytes = 4 * MIB, /* so that it wraps */
	    .host_name = "here",
	    .host_id = 1,
	};
	struct pool_ds *ds;
	struct pool *p;
	char why[200];
	int err = pool_create(&spec, &p, why, sizeof(why));

	ASSERT(err == 0);
	err = pool_ds_create(p, "tank/a", &ds);
	ASSERT(err == 0);
	pool_ds_close(ds);
	for (unsigned i = 0; i < 2 && err == 0; i++) {
		err = pool_sync(p); /* what has no record isn't safe from going back before */
	}
	ASSERT(err == 0);
	created = true;
	return p;
}

static int
redo(void *arg, const struct pool_record *rec)
{
	struct pool_need need = {.dirty_bytes = 256 * 1024};
	struct pool_ds *ds = arg;
	struct pool_obj *o;
	struct pool_tx *tx;
	struct op op;
	int err;

	if (rec->in_root) {
		informed++;
		return 0;
	}
	ASSERT(rec->len_bytes >= sizeof(op));
	memcpy(&op, rec->payload, sizeof(op));
	err = pool_tx_begin_replay(ds, &need, &tx);
	ASSERT(err == 0);
	if (op.kind == OP_CREATE) {
		err =
		    pool_obj_create(tx, ds, OBJ_FILE, op.block_bytes, op.number, op.generation, &o);
	} else {
		err = pool_obj_hold(ds, op.number, op.generation, &o);
	}
	if (err == 0) {
		err = object_apply(tx, o, &op);
		pool_obj_release(o);
	}
	pool_tx_end(tx);
	if (err != 0) {
		fprintf(stderr, "redo: kind %u object %llu: %s\n", op.kind,
		    (unsigned long long)op.number, err_str(err));
	}
	replayed++;
	return err;
}

static void
problem(void *arg UNUSED, const char *what)
{
	fprintf(stderr, "check: %s\n", what);
}

static void
explain(const struct state *want, const struct state *got)
{
	fprintf(stderr,
	    "newest: exists %d gen %llx bonus %llx inline %u; found: exists %d gen %llx bonus %llx "
	    "inline %u\n",
	    want->exists, (unsigned long long)want->generation, (unsigned long long)want->bonus,
	    want->inline_len, got->exists, (unsigned long long)got->generation,
	    (unsigned long long)got->bonus, got->inline_len);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t first = SEG_BYTES, last = 0;

		for (uint32_t k = 0; k < SEG_BYTES; k++) {
			if (want->seg[i][k] != got->seg[i][k]) {
				first = MIN(first, k);
				last = k;
			}
		}
		if (first < SEG_BYTES) {
			fprintf(stderr, "segment %u differs in %u..%u: %02x for %02x\n", i, first,
			    last, got->seg[i][first], want->seg[i][first]);
		}
	}
}

/* Which states may follow a crash: any since the newest acknowledged one. */
static void
compare_after_crash(struct pool_ds *ds, bool rewound)
{
	for (uint32_t i = 0; i < OBJS; i++) {
		struct history *h = &history[i];
		uint32_t oldest = rewound ? h->logged : h->durable;
		bool found = false;

		/* the object may exist under its last or an earlier number: try what the model
		 * knows */
		read_state(ds, model[i].number, model[i].generation, &seen);
		for (uint32_t k = h->count; k > oldest && !found; k--) {
			found = state_hash(&seen) == h->hash[k - 1];
		}
		if (!found) {
			fprintf(stderr,
			    "life %llu object %u number %llu exists %d: no state of %u..%u\n",
			    (unsigned long long)life, i, (unsigned long long)model[i].number,
			    seen.exists, h->durable, h->count);
			explain(&model[i], &seen);
		}
		ASSERT(found);
		model[i] = seen;
		h->hash[0] = state_hash(&seen);
		h->count = 1;
		h->durable = 0;
		h->logged = 0;
	}
}

static struct pool *
pool_take_up(void)
{
	struct pool_import_spec spec = {
	    .drives = rig.drives, .drive_count = rig.count, .host_name = "here", .host_id = 1};
	struct pool_import_result result = {0};
	struct pool_replay_result rr;
	struct pool_label_info info;
	struct pool_ds *ds;
	struct pool *p;
	uint64_t problems = 0;
	int err = pool_label_probe(rig.drives[0], &info);

	ASSERT(err == 0);
	spec.pool_guid = info.pool_guid;
	spec.rewind_txgs = rewind_txgs;
	err = pool_import(&spec, &p, &result);
	if (err != 0) {
		fprintf(stderr, "import: %s: %s\n", err_str(err), result.why);
	}
	ASSERT(err == 0);
	err = pool_ds_open(p, "tank/a", &ds);
	ASSERT(err == 0);
	compare_notes(p, ds);
	err = pool_replay(p, redo, ds, &rr);
	ASSERT(err == 0);
	err = pool_check(p, problem, NULL, &problems);
	ASSERT(err == 0);
	ASSERT(problems == 0);
	compare_after_crash(ds, went_back);
	pool_ds_close(ds);
	return p;
}

static void
life_main(void *arg UNUSED)
{
	struct worker w[WORKERS];
	struct waitgroup wg;
	struct pool_ds *ds;
	struct pool *p;
	int err;

	rig_open(&rig);
	/* back by two at most, counted from what was served last */
	rewind_txgs =
	    created && !real && !was_clean && !went_back && rnd(3) == 0 ? 1 + (uint32_t)rnd(2) : 0;
	was_clean = false;
	went_back = went_back || rewind_txgs > 0;
	if (created && !real && rnd(3) == 0) {
		kb_sim_crash_after_writes(1 + rnd(400)); /* in the middle of taking up */
	}
	p = created ? pool_take_up() : pool_make();
	went_back = false;
	kb_sim_crash_after_writes(real || rnd(6) == 0 ? 0
						      : 1 + rnd(heavy         ? 3000
								: rnd(2) == 0 ? 150
									      : 900));
	err = pool_ds_open(p, "tank/a", &ds);
	ASSERT(err == 0);
	wg_init(&wg);
	for (uint32_t i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){.ds = ds, .p = p, .first = i * OBJS_PER_WORKER, .wg = &wg};
		for (uint32_t k = 0; k < OBJS_PER_WORKER; k++) {
			struct state *s = &model[w[i].first + k];

			if (s->exists) {
				err = pool_obj_hold(ds, s->number, s->generation, &w[i].o[k]);
				ASSERT(err == 0);
			}
		}
		wg_add(&wg, 1);
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_REQUEST, "worker", worker_main, &w[i]);
	}
	wg_wait(&wg);
	for (uint32_t i = 0; i < OBJS; i++) {
		compare_live(ds, i);
	}
	pool_ds_close(ds);
	err = pool_export(p);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
	for (uint32_t i = 0; i < OBJS; i++) {
		history[i].durable = history[i].count - 1;
	}
	was_clean = true;
	kb_sim_crash_after_writes(0);
}

static void
lives(uint64_t seed, uint32_t count, unsigned buggify)
{
	rng_state = bytes_rnd_begin(seed);
	created = was_clean = went_back = false;
	ops_done = commits_done = replayed = informed = notes_compared = 0;
	memset(model, 0, sizeof(model));
	for (uint32_t i = 0; i < OBJS; i++) {
		history[i].count = 0;
		history[i].durable = 0;
		history[i].logged = 0;
		history_push(i);
	}
	rig_make(&rig, 7 + log_drives, DRIVE_BYTES);
	log_set_level(getenv("AGATE_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
	for (life = 0; life < count; life++) {
		struct rt_options opt = unit_rt(!real, 3, seed + life);
		int err;

		opt.arena_bytes = 64 * MIB;
		atomic_store(&ops_left, real || heavy ? 2000 : 100 + (int)rnd(200));
		bug_set_buggify(buggify);
		if (getenv("AGATE_BUGS") != NULL) {
			bug_set_deliberate(getenv("AGATE_BUGS"));
		}
		err = rt_run(&opt, life_main, NULL);
		kb_sim_crash_after_writes(0);
		ASSERT(err == 0 || err == -ERR_CRASHED);
		if (err == -ERR_CRASHED) {
			rig_power_cut(&rig, seed + life);
		}
	}
	bug_set_buggify(0);
	rig_unmake(&rig);
	ASSERT(notes_compared > 0);
	printf("(%llu ops, %llu commits, %llu replayed, %llu told again, %llu notes) ",
	    (unsigned long long)ops_done, (unsigned long long)commits_done,
	    (unsigned long long)replayed, (unsigned long long)informed,
	    (unsigned long long)notes_compared);
	fflush(stdout);
}

static void
test_lives(void)
{
	uint64_t seed = unit_seed(1);

	log_drives = 2;
	lives(seed, 12, 0);
}

static void
test_lives_buggify(void)
{
	uint64_t seed = unit_seed(2);

	log_drives = 1;
	lives(seed, 12, 25);
}

static void
test_lives_ring_in_pool(void)
{
	uint64_t seed = unit_seed(3);

	log_drives = 0;
	lives(seed, 12, 10);
}

static void
test_lives_heavy(void)
{
	log_drives = 1;
	heavy = true;
	lives(unit_seed(5), 6, 0);
	heavy = false;
}

/* The same on threads, without cuts. */
static void
test_lives_real(void)
{
	log_drives = 2;
	real = true;
	lives(unit_seed(4), 3, 0);
	real = false;
}

#ifdef AGATE_DEBUG
#define BUG_SEEDS 24u

static const char *bug_name;
static uint64_t bug_seed;
static bool bug_heavy;

static void
bug_child(void)
{
	bug_set_deliberate(bug_name);
	log_drives = 2;
	heavy = bug_heavy;
	lives(bug_seed, 12, 0);
}

/* Each of these bugs shows within a few seeds; else the test wouldn't be worth much. */
static void
test_bugs_are_seen(void)
{
	static const struct {
		const char *name;
		bool heavy;
	} bugs[] = {
	    {"pool-skip-flush", false},
	    {"pool-change-syncing-buffer", false},
	    {"pool-log-defer-drops", false},
	    {"pool-replay-floor-moves", false},
	    {"pool-log-trim-early", true},
	};

	for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
		bool noticed = false;

		bug_name = bugs[i].name;
		bug_heavy = bugs[i].heavy;
		for (bug_seed = 1; bug_seed <= BUG_SEEDS && !noticed; bug_seed++) {
			noticed = unit_dies(bug_child, NULL);
		}
		if (!noticed) {
			fprintf(stderr, "not seen: %s\n", bug_name);
		}
		CU_ASSERT(noticed);
	}
}
#endif

static const struct unit_test tests[] = {
    {"threads", test_lives_real},
    {"lives", test_lives},
    {"lives, rare paths", test_lives_buggify},
    {"lives, log in the pool", test_lives_ring_in_pool},
    {"lives, a log that wraps", test_lives_heavy},
#ifdef AGATE_DEBUG
    {"bugs are seen", test_bugs_are_seen},
#endif
};

int
main(int argc, char **argv)
{
	return unit_main("pool_model", tests, ARRAY_LEN(tests), argc, argv);
}
