/* The arena: shares, budgets, waiting, reclaim, fragmentation, in both runtimes. */
#include "base/base.h"
#include "base/arena_int.h"
#include "tests/lib/unit.h"

#define SIM_BYTES ((size_t)32 << 20)
#define CACHE_BUFS_MAX 8192u

static uint64_t
used_sum(void)
{
	struct arena_info info;
	uint64_t sum = 0;

	arena_get_info(&info);
	for (unsigned use = 0; use < ARENA_USES; use++) {
		sum += info.used_bytes[use];
	}
	return sum;
}

/* All free again and in one piece: every use can have its whole budget in the largest buffers. */
static void
check_whole(void)
{
	struct iobuf *held[64];
	struct arena_info info;
	unsigned count = 0;

	CU_ASSERT(used_sum() == 0);
	arena_get_info(&info);
	CU_ASSERT_FATAL(info.size_bytes / IOBUF_BYTES_MAX <= ARRAY_LEN(held));
	for (unsigned use = 0; use < ARENA_USES; use++) {
		for (uint64_t n = 0; n < info.budget_bytes[use]; n += IOBUF_BYTES_MAX) {
			CU_ASSERT_FATAL(iobuf_try_alloc(IOBUF_BYTES_MAX, use, &held[count]) == 0);
			count++;
		}
		CU_ASSERT(iobuf_try_alloc(1, use, &held[count]) == -ENOMEM);
	}
	CU_ASSERT(used_sum() == info.size_bytes);
	while (count > 0) {
		iobuf_unref(held[--count]);
	}
	CU_ASSERT(used_sum() == 0);
}

static int
run(bool sim, unsigned reactors, uint64_t seed, fiber_fn *fn, void *arg)
{
	struct rt_options opt = unit_rt(sim, reactors, seed);

	return rt_run(&opt, fn, arg);
}

/* ---- shares, start and stop ---- */

static void
test_shares(void)
{
	for (uint64_t chunks = ARENA_BYTES_MIN / ARENA_CHUNK_BYTES; chunks < 5000; chunks++) {
		uint64_t limit[ARENA_USES], sum = 0;

		arena_share(chunks * ARENA_CHUNK_BYTES, limit);
		for (unsigned use = 0; use < ARENA_USES; use++) {
			CU_ASSERT(limit[use] >= 2 * (uint64_t)IOBUF_BYTES_MAX);
			CU_ASSERT(limit[use] % ARENA_CHUNK_BYTES == 0);
			sum += limit[use];
		}
		CU_ASSERT(sum == chunks * ARENA_CHUNK_BYTES);
		CU_ASSERT(chunks < 500 || limit[ARENA_CACHE] * 100 >= sum * 60);
	}
}

static void
start_stop_main(void *arg)
{
	struct arena_info info;

	(void)arg;
	CU_ASSERT(arena_create(SIM_BYTES, false) == -EEXIST);
	arena_get_info(&info);
	CU_ASSERT(info.size_bytes == SIM_BYTES);
	CU_ASSERT((uintptr_t)info.base % ARENA_CHUNK_BYTES == 0);
	check_whole();
}

static void
test_start_stop(void)
{
	struct rt_options opt = unit_rt(false, 2, 1);

	CU_ASSERT(arena_create(SIM_BYTES + 4096, false) == -EINVAL);
	CU_ASSERT(arena_create(SIM_BYTES / 2, false) == -EINVAL);
	CU_ASSERT(arena_destroy() == 0);
	CU_ASSERT(run(true, 1, 1, start_stop_main, NULL) == 0);
	opt.hugepages = true; /* the fallback, where there are none */
	CU_ASSERT(rt_run(&opt, start_stop_main, NULL) == 0);
}

/* ---- one buffer ---- */

static void
sizes_main(void *arg)
{
	struct iobuf *b, *again;

	(void)arg;
	for (uint32_t len = 0; len <= IOBUF_BYTES_MAX; len = len * 2 + 1) {
		CU_ASSERT_FATAL(iobuf_alloc(len, ARENA_SYNC, &b) == 0);
		CU_ASSERT(b->cap_bytes >= len && b->cap_bytes >= IOBUF_BYTES_MIN);
		CU_ASSERT((b->cap_bytes & (b->cap_bytes - 1)) == 0);
		CU_ASSERT(b->cap_bytes == IOBUF_BYTES_MIN || b->cap_bytes < 2 * len);
		CU_ASSERT((uintptr_t)b->data % IOBUF_BYTES_MIN == 0);
		CU_ASSERT(used_sum() == b->cap_bytes);
		memset(b->data, 0xa5, b->cap_bytes);
		again = iobuf_ref(b);
		CU_ASSERT(again == b);
		iobuf_unref(b);
		CU_ASSERT(used_sum() == again->cap_bytes && again->data[0] == 0xa5);
		iobuf_unref(again);
		CU_ASSERT(used_sum() == 0);
	}
	CU_ASSERT(iobuf_alloc(IOBUF_BYTES_MAX + 1, ARENA_SYNC, &b) == -EINVAL);
	CU_ASSERT(iobuf_try_alloc(IOBUF_BYTES_MAX + 1, ARENA_SYNC, &b) == -EINVAL);
	iobuf_unref(NULL);
	check_whole();
}

static void
test_sizes(void)
{
	CU_ASSERT(run(true, 1, 1, sizes_main, NULL) == 0);
	CU_ASSERT(run(false, 1, 1, sizes_main, NULL) == 0);
}

/* ---- random allocation against the contents ---- */

#define MODEL_BUFS 400u

struct stamped {
	struct iobuf *b;
	uint64_t stamp;
};

static void
stamp(struct stamped *s)
{
	s->stamp = rt_random_u64();
	for (uint32_t at = 0; at < s->b->cap_bytes; at += IOBUF_BYTES_MIN) {
		memcpy(s->b->data + at, &s->stamp, sizeof(s->stamp));
	}
	memcpy(s->b->data + s->b->cap_bytes - sizeof(s->stamp), &s->stamp, sizeof(s->stamp));
}

static bool
stamp_holds(const struct stamped *s)
{
	bool holds = memcmp(s->b->data + s->b->cap_bytes - 8, &s->stamp, 8) == 0;

	for (uint32_t at = 0; at < s->b->cap_bytes; at += IOBUF_BYTES_MIN) {
		holds &= memcmp(s->b->data + at, &s->stamp, 8) == 0;
	}
	return holds;
}

static void
model_main(void *arg)
{
	struct stamped *bufs = arg;
	unsigned got = 0;

	for (unsigned round = 0; round < 20000; round++) {
		struct stamped *s = &bufs[rt_random_u64() % MODEL_BUFS];
		uint32_t len = IOBUF_BYTES_MIN << (rt_random_u64() % ARENA_ORDERS);

		if (s->b != NULL) {
			CU_ASSERT_FATAL(stamp_holds(s));
			iobuf_unref(s->b);
			s->b = NULL;
		}
		if (iobuf_try_alloc(len, (enum arena_use)(rt_random_u64() % ARENA_USES), &s->b) ==
		    0) {
			stamp(s);
			got++;
		}
	}
	CU_ASSERT(got > 1000);
	for (unsigned i = 0; i < MODEL_BUFS; i++) {
		if (bufs[i].b != NULL) {
			CU_ASSERT(stamp_holds(&bufs[i]));
			iobuf_unref(bufs[i].b);
		}
	}
	check_whole();
}

static void
test_model(void)
{
	uint64_t seed = unit_seed(7);

	for (unsigned i = 0; i < 6; i++) {
		static struct stamped bufs[MODEL_BUFS];

		memset(bufs, 0, sizeof(bufs));
		CU_ASSERT(run(true, 1 + i % 3, seed + i, model_main, bufs) == 0);
	}
}

/* ---- waiting for the budget, in order ---- */

struct queue_test {
	struct waitgroup wg;
	unsigned next_to_ask, next_to_get;
	struct iobuf *got[16];
};

static void
queue_fiber(void *arg)
{
	struct queue_test *t = arg;
	unsigned me = t->next_to_ask++;

	CU_ASSERT(iobuf_alloc(me % 2 == 0 ? IOBUF_BYTES_MAX : IOBUF_BYTES_MIN, ARENA_LOG,
		      &t->got[me]) == 0);
	/* Three at most are served before any of them runs, and those may run in any order. */
	CU_ASSERT(me <= t->next_to_get + 2);
	t->next_to_get++;
	wg_done(&t->wg);
}

static void
queue_main(void *arg)
{
	struct queue_test *t = arg;
	struct iobuf *held[2], *small;

	wg_init(&t->wg);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT(iobuf_alloc(IOBUF_BYTES_MAX, ARENA_LOG, &held[i]) == 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(t->got); i++) {
		wg_add(&t->wg, 1);
		fiber_spawn_wait(0, FIBER_REQUEST, "queue", queue_fiber, t);
		fiber_sleep(NSEC_PER_MSEC);
		CU_ASSERT(t->next_to_ask == i + 1);
	}
	CU_ASSERT(t->next_to_get == 0);
	iobuf_unref(held[0]); /* room for the first one only; the third waits although 4 KiB fit */
	fiber_sleep(NSEC_PER_MSEC);
	CU_ASSERT(t->next_to_get == 1);
	CU_ASSERT(iobuf_try_alloc(IOBUF_BYTES_MIN, ARENA_LOG, &small) == -ENOMEM);
	iobuf_unref(held[1]);
	fiber_sleep(NSEC_PER_MSEC);
	/* Almost 2 MiB are free, but the head of the queue wants 2 MiB: nobody passes it. */
	CU_ASSERT(t->next_to_get == 2);
	CU_ASSERT(iobuf_try_alloc(IOBUF_BYTES_MIN, ARENA_LOG, &small) == -ENOMEM);
	for (unsigned i = 0; i < ARRAY_LEN(t->got); i++) {
		while (t->got[i] == NULL) {
			fiber_sleep(NSEC_PER_MSEC);
		}
		iobuf_unref(t->got[i]);
	}
	wg_wait(&t->wg);
	check_whole();
}

static void
test_queue(void)
{
	struct queue_test t = {0};

	CU_ASSERT(run(true, 1, 3, queue_main, &t) == 0);
	CU_ASSERT(t.next_to_get == ARRAY_LEN(t.got));
}

/* ---- several at once ---- */

#define MANY_FIBERS 40u

/* Three pairs fit. Taken one by one, four large halves would fill the budget and all wait. */
static void
many_fiber(void *arg)
{
	static const uint32_t lens[] = {IOBUF_BYTES_MAX / 2, 5000};
	struct waitgroup *wg = arg;
	struct iobuf *b[ARRAY_LEN(lens)];

	for (unsigned round = 0; round < 20; round++) {
		CU_ASSERT_FATAL(iobuf_alloc_many(lens, ARRAY_LEN(lens), ARENA_RECV, b) == 0);
		CU_ASSERT(b[0]->cap_bytes == IOBUF_BYTES_MAX / 2 && b[1]->cap_bytes == 8192);
		memset(b[1]->data, 1, b[1]->cap_bytes);
		fiber_yield();
		iobuf_unref(b[0]);
		iobuf_unref(b[1]);
	}
	wg_done(wg);
}

static void
many_main(void *arg)
{
	static const uint32_t over[] = {IOBUF_BYTES_MAX, IOBUF_BYTES_MAX, 1};
	struct iobuf *b[ARRAY_LEN(over)];
	struct waitgroup wg;

	(void)arg;
	CU_ASSERT(iobuf_alloc_many(over, 3, ARENA_LOG, b) == -EINVAL);
	CU_ASSERT(
	    iobuf_alloc_many((const uint32_t[]){IOBUF_BYTES_MAX + 1}, 1, ARENA_LOG, b) == -EINVAL);
	CU_ASSERT(iobuf_alloc_many(over, 0, ARENA_LOG, b) == 0);
	wg_init(&wg);
	wg_add(&wg, MANY_FIBERS);
	for (unsigned i = 0; i < MANY_FIBERS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "many", many_fiber, &wg);
	}
	wg_wait(&wg);
	check_whole();
}

static void
test_many(void)
{
	for (unsigned turn = 0; turn < 6; turn++) {
		CU_ASSERT(run(turn > 1, 1 + turn % 3, turn, many_main, NULL) == 0);
	}
}

/* ---- a cache that gives way ---- */

struct cache {
	struct spin guard;
	struct iobuf *buf[CACHE_BUFS_MAX];
	unsigned count;
	uint64_t asked;
	bool random_order;
};

static struct iobuf *
cache_pop(struct cache *c)
{
	struct iobuf *b = NULL;

	spin_lock(&c->guard);
	if (c->count > 0) {
		unsigned at = c->random_order ? (unsigned)(rt_random_u64() % c->count) : 0;

		b = c->buf[at];
		c->buf[at] = c->buf[--c->count];
	}
	spin_unlock(&c->guard);
	return b;
}

static uint64_t
cache_reclaim(void *arg, uint64_t want_bytes)
{
	struct cache *c = arg;
	uint64_t freed = 0;

	__atomic_fetch_add(&c->asked, 1, __ATOMIC_RELAXED);
	while (freed < want_bytes) {
		struct iobuf *b = cache_pop(c);

		if (b == NULL) {
			break;
		}
		freed += b->cap_bytes;
		iobuf_unref(b);
	}
	return freed;
}

static void
cache_push(struct cache *c, struct iobuf *b)
{
	spin_lock(&c->guard);
	CU_ASSERT_FATAL(c->count < CACHE_BUFS_MAX);
	c->buf[c->count++] = b;
	spin_unlock(&c->guard);
}

/* Fills the cache's whole budget with the smallest buffers. */
static void
cache_fill(struct cache *c)
{
	struct arena_info info;
	struct iobuf *b;

	arena_get_info(&info);
	while (info.used_bytes[ARENA_CACHE] < info.budget_bytes[ARENA_CACHE]) {
		CU_ASSERT_FATAL(iobuf_try_alloc(IOBUF_BYTES_MIN, ARENA_CACHE, &b) == 0);
		cache_push(c, b);
		arena_get_info(&info);
	}
	CU_ASSERT(c->asked == 0);
}

static void
reclaim_main(void *arg)
{
	struct cache *c = arg;
	struct arena_info info;
	struct iobuf *b, *big[8];
	unsigned bigs = 0;

	spin_init(&c->guard);
	arena_set_reclaim(cache_reclaim, c);
	arena_get_info(&info);
	cache_fill(c);
	/* One more for the cache: an old one goes. */
	CU_ASSERT(iobuf_alloc(IOBUF_BYTES_MIN, ARENA_CACHE, &b) == 0);
	CU_ASSERT(c->asked == 1);
	cache_push(c, b);
	/* Dirty blocks that become clean push the cache over its limit... */
	for (uint64_t n = 0; n < info.budget_bytes[ARENA_DIRTY]; n += IOBUF_BYTES_MAX) {
		CU_ASSERT_FATAL(iobuf_alloc(IOBUF_BYTES_MAX, ARENA_DIRTY, &b) == 0);
		iobuf_recount(b, ARENA_CACHE);
		cache_push(c, b);
	}
	arena_get_info(&info);
	CU_ASSERT(info.used_bytes[ARENA_DIRTY] == 0);
	/* ...until somebody allocates; and dirty blocks have their whole budget again. */
	for (uint64_t n = 0; n < info.budget_bytes[ARENA_DIRTY]; n += IOBUF_BYTES_MAX) {
		CU_ASSERT_FATAL(iobuf_try_alloc(IOBUF_BYTES_MAX, ARENA_DIRTY, &big[bigs++]) == 0);
	}
	arena_get_info(&info);
	CU_ASSERT(info.used_bytes[ARENA_CACHE] <= info.budget_bytes[ARENA_CACHE]);
	while (bigs > 0) {
		iobuf_unref(big[--bigs]);
	}
	while ((b = cache_pop(c)) != NULL) {
		iobuf_unref(b);
	}
	arena_set_reclaim(NULL, NULL);
	check_whole();
}

static void
test_reclaim(void)
{
	for (unsigned turn = 0; turn < 4; turn++) {
		static struct cache c;

		c = (struct cache){.random_order = turn % 2 != 0};
		CU_ASSERT(run(turn < 2, 1, 5, reclaim_main, &c) == 0);
	}
}

/* A fiber waits for cache memory that is pinned; eviction becomes possible without a free. */
struct pinned {
	struct cache cache;
	bool pinned;
	bool got;
};

static uint64_t
pinned_reclaim(void *arg, uint64_t want_bytes)
{
	struct pinned *p = arg;

	return p->pinned ? 0 : cache_reclaim(&p->cache, want_bytes);
}

static void
pinned_fiber(void *arg)
{
	struct pinned *p = arg;
	struct iobuf *b;

	CU_ASSERT(iobuf_alloc(IOBUF_BYTES_MAX, ARENA_CACHE, &b) == 0);
	p->got = true;
	iobuf_unref(b);
}

static void
pinned_main(void *arg)
{
	struct pinned *p = arg;
	struct iobuf *b;

	spin_init(&p->cache.guard);
	p->pinned = true;
	arena_set_reclaim(pinned_reclaim, p);
	cache_fill(&p->cache);
	fiber_spawn_wait(0, FIBER_REQUEST, "pinned", pinned_fiber, p);
	fiber_sleep(NSEC_PER_SEC);
	CU_ASSERT(!p->got);
	p->pinned = false;
	fiber_sleep(NSEC_PER_SEC);
	CU_ASSERT(p->got);
	while ((b = cache_pop(&p->cache)) != NULL) {
		iobuf_unref(b);
	}
	arena_set_reclaim(NULL, NULL);
	check_whole();
}

static void
test_pinned(void)
{
	static struct pinned p;

	memset(&p, 0, sizeof(p));
	CU_ASSERT(run(true, 2, 9, pinned_main, &p) == 0);
}

/* ---- fragmentation ---- */

/* Small buffers sprinkled over everything they can reach: the cache's are freed until as few as
 * possible pin as many chunks as possible. */
static void
sprinkle(struct cache *c, enum arena_use use)
{
	struct iobuf *b;

	while (iobuf_try_alloc(IOBUF_BYTES_MIN, use, &b) == 0) {
		cache_push(c, b);
	}
}

static void
sprinkle_thin(struct cache *c)
{
	static bool seen[64];
	struct arena_info info;
	unsigned kept = 0;

	memset(seen, 0, sizeof(seen));
	arena_get_info(&info);
	for (unsigned i = 0; i < c->count; i++) {
		size_t chunk = (size_t)(c->buf[i]->data - info.base) / ARENA_CHUNK_BYTES;

		if (seen[chunk]) {
			iobuf_unref(c->buf[i]);
		} else {
			seen[chunk] = true;
			c->buf[kept++] = c->buf[i];
		}
	}
	c->count = kept;
}

static void
reserves_main(void *arg)
{
	static const enum arena_use reserves[] = {ARENA_LOG, ARENA_SYNC, ARENA_REPAIR};
	struct cache *c = arg;
	struct iobuf *b, *held[16];
	struct arena_info info;
	unsigned count = 0;

	spin_init(&c->guard);
	arena_get_info(&info);
	for (unsigned use = ARENA_CACHE; use <= ARENA_SEND; use++) {
		sprinkle(c, use);
	}
	sprinkle_thin(c);
	/* No hook and every general chunk pinned: the reserves are there all the same, in full. */
	for (unsigned i = 0; i < ARRAY_LEN(reserves); i++) {
		for (uint64_t n = 0; n < info.budget_bytes[reserves[i]]; n += IOBUF_BYTES_MAX) {
			CU_ASSERT_FATAL(
			    iobuf_try_alloc(IOBUF_BYTES_MAX, reserves[i], &held[count]) == 0);
			count++;
		}
	}
	CU_ASSERT(iobuf_try_alloc(IOBUF_BYTES_MAX, ARENA_DIRTY, &b) == -ENOMEM);
	/* With the hook the pins that are cached go, one by one. */
	arena_set_reclaim(cache_reclaim, c);
	CU_ASSERT_FATAL(iobuf_try_alloc(IOBUF_BYTES_MAX, ARENA_DIRTY, &b) == 0);
	iobuf_unref(b);
	while (count > 0) {
		iobuf_unref(held[--count]);
	}
	while ((b = cache_pop(c)) != NULL) {
		iobuf_unref(b);
	}
	arena_set_reclaim(NULL, NULL);
	check_whole();
}

static void
test_reserves(void)
{
	for (unsigned reactors = 1; reactors <= 4; reactors += 3) {
		static struct cache c;

		c = (struct cache){0};
		CU_ASSERT(run(true, reactors, 11, reserves_main, &c) == 0);
	}
}

/* A reserve whose own zone is full of blocks that were recounted finds memory elsewhere. */
static void
spill_main(void *arg)
{
	struct iobuf *held[32];
	struct arena_info info;
	unsigned count = 0;

	(void)arg;
	arena_get_info(&info);
	for (unsigned turn = 0; turn < 2; turn++) {
		for (uint64_t n = 0; n < info.budget_bytes[ARENA_SYNC]; n += IOBUF_BYTES_MAX) {
			CU_ASSERT_FATAL(
			    iobuf_try_alloc(IOBUF_BYTES_MAX, ARENA_SYNC, &held[count]) == 0);
			iobuf_recount(held[count], ARENA_CACHE);
			count++;
		}
	}
	while (count > 0) {
		iobuf_unref(held[--count]);
	}
	check_whole();
}

static void
test_spill(void)
{
	CU_ASSERT(run(true, 2, 19, spill_main, NULL) == 0);
}

/* Uses keep to their own chunks: a few live dirty pages must not spoil what eviction could free. */
static void
grouping_main(void *arg)
{
	struct cache *c = arg;
	struct iobuf *dirty[128], *big[8];
	unsigned bigs = 0;

	spin_init(&c->guard);
	arena_set_reclaim(cache_reclaim, c);
	for (unsigned i = 0; i < ARRAY_LEN(dirty); i++) {
		struct iobuf *b;

		for (unsigned n = 0; n < 12; n++) {
			CU_ASSERT_FATAL(iobuf_alloc(IOBUF_BYTES_MIN, ARENA_CACHE, &b) == 0);
			cache_push(c, b);
		}
		CU_ASSERT_FATAL(iobuf_alloc(IOBUF_BYTES_MIN, ARENA_DIRTY, &dirty[i]) == 0);
	}
	/* 512 KiB of dirty pages live in one or two chunks; all others can be had. */
	while (bigs < 4) {
		CU_ASSERT_FATAL(iobuf_try_alloc(IOBUF_BYTES_MAX,
				    bigs % 2 == 0 ? ARENA_DIRTY : ARENA_RECV, &big[bigs]) == 0);
		bigs++;
	}
	while (bigs > 0) {
		iobuf_unref(big[--bigs]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(dirty); i++) {
		iobuf_unref(dirty[i]);
	}
	(void)cache_reclaim(c, UINT64_MAX);
	arena_set_reclaim(NULL, NULL);
	check_whole();
}

static void
test_grouping(void)
{
	static struct cache c;

	c = (struct cache){0};
	CU_ASSERT(run(true, 1, 13, grouping_main, &c) == 0);
}

/* Short of a block within the budget: the fiber waits and is woken by the buffer that frees it. */
struct shortage {
	struct cache pins;
	bool got;
};

static void
shortage_fiber(void *arg)
{
	struct shortage *s = arg;
	struct iobuf *b;

	CU_ASSERT(iobuf_alloc(IOBUF_BYTES_MAX, ARENA_DIRTY, &b) == 0);
	s->got = true;
	iobuf_unref(b);
}

static void
shortage_main(void *arg)
{
	struct shortage *s = arg;
	struct iobuf *b;

	spin_init(&s->pins.guard);
	for (unsigned use = ARENA_CACHE; use <= ARENA_SEND; use++) {
		sprinkle(&s->pins, use);
	}
	sprinkle_thin(&s->pins);
	fiber_spawn_wait(1, FIBER_REQUEST, "shortage", shortage_fiber, s);
	fiber_sleep(NSEC_PER_SEC);
	CU_ASSERT(!s->got);
	iobuf_unref(cache_pop(&s->pins));
	fiber_sleep(NSEC_PER_SEC);
	CU_ASSERT(s->got);
	while ((b = cache_pop(&s->pins)) != NULL) {
		iobuf_unref(b);
	}
	check_whole();
}

static void
test_shortage(void)
{
	static struct shortage s;

	memset(&s, 0, sizeof(s));
	CU_ASSERT(run(true, 2, 15, shortage_main, &s) == 0);
}

/* ---- many fibers on all reactors ---- */

#define STRESS_FIBERS 24u
#define STRESS_ROUNDS 400u

struct stress {
	struct cache cache;
	struct waitgroup wg;
	struct chan chan;
	uint64_t over;
};

/* Only the cache may be over, by what others recounted into it. */
static void
stress_watch(struct stress *s)
{
	struct arena_info info;

	arena_get_info(&info);
	for (unsigned use = ARENA_CACHE + 1; use < ARENA_USES; use++) {
		if (info.used_bytes[use] > info.budget_bytes[use]) {
			__atomic_fetch_add(&s->over, 1, __ATOMIC_RELAXED);
		}
	}
}

static void
stress_one(struct stress *s, unsigned round)
{
	enum arena_use use = (enum arena_use)(rt_random_u64() % ARENA_USES);
	uint32_t len = IOBUF_BYTES_MIN << (rt_random_u64() % ARENA_ORDERS);
	struct stamped one = {0};

	CU_ASSERT_FATAL(iobuf_alloc(len, use, &one.b) == 0);
	stamp(&one);
	if (round % 8 == 0) {
		fiber_yield();
	}
	CU_ASSERT(stamp_holds(&one));
	stress_watch(s);
	if (use == ARENA_DIRTY && round % 2 == 0) {
		iobuf_recount(one.b, ARENA_CACHE);
		use = ARENA_CACHE;
	}
	if (use == ARENA_CACHE) {
		cache_push(&s->cache, one.b);
	} else if (chan_try_send(&s->chan, one.b) != 0) {
		iobuf_unref(one.b);
	}
}

/* Frees what others allocated, on another reactor or on a helper thread. */
static void
stress_unref(void *arg)
{
	iobuf_unref(arg);
}

static void
stress_freer(void *arg)
{
	struct stress *s = arg;
	void *item;
	unsigned count = 0;

	while (chan_recv(&s->chan, &item) == 0) {
		if (count++ % 16 == 0) {
			offload(stress_unref, item);
		} else {
			iobuf_unref(item);
		}
	}
	wg_done(&s->wg);
}

static void
stress_fiber(void *arg)
{
	struct stress *s = arg;

	for (unsigned round = 0; round < STRESS_ROUNDS; round++) {
		stress_one(s, round);
	}
	wg_done(&s->wg);
}

static void
stress_main(void *arg)
{
	struct stress *s = arg;

	spin_init(&s->cache.guard);
	wg_init(&s->wg);
	CU_ASSERT_FATAL(chan_init(&s->chan, 64) == 0);
	arena_set_reclaim(cache_reclaim, &s->cache);
	wg_add(&s->wg, STRESS_FIBERS);
	fiber_spawn_wait(rt_reactor_count() - 1, FIBER_ADMIN, "freer", stress_freer, s);
	for (unsigned i = 0; i < STRESS_FIBERS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "stress", stress_fiber, s);
	}
	wg_wait(&s->wg);
	wg_add(&s->wg, 1);
	chan_close(&s->chan);
	wg_wait(&s->wg);
	chan_destroy(&s->chan);
	(void)cache_reclaim(&s->cache, UINT64_MAX);
	arena_set_reclaim(NULL, NULL);
	CU_ASSERT(s->over == 0);
	bug_set_buggify(0);
	check_whole();
}

static void
test_stress(void)
{
	static struct stress s;
	uint64_t seed = unit_seed(17);

	for (unsigned i = 0; i < 8; i++) {
		memset(&s, 0, sizeof(s));
		bug_set_buggify(i % 2 == 0 ? 100 : 0);
		CU_ASSERT(run(i < 5, 1 + i % 4, seed + i, stress_main, &s) == 0);
	}
}

/* ---- power cut ---- */

static void
crash_fiber(void *arg)
{
	struct iobuf *b;

	(void)arg;
	for (;;) {
		CU_ASSERT(iobuf_alloc(IOBUF_BYTES_MAX, ARENA_RECV, &b) == 0);
		memset(b->data, 1, b->cap_bytes);
		fiber_yield();
	}
}

static void
crash_main(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 4; i++) {
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_REQUEST, "holder", crash_fiber, NULL);
	}
	fiber_sleep(NSEC_PER_MSEC);
	rt_sim_crash();
}

static void
test_crash(void)
{
	for (unsigned i = 0; i < 10; i++) {
		CU_ASSERT(run(true, 2, i, crash_main, NULL) == -ERR_CRASHED);
		CU_ASSERT(run(true, 2, i, start_stop_main, NULL) == 0);
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"shares", test_shares},
	    {"start_stop", test_start_stop},
	    {"sizes", test_sizes},
	    {"model", test_model},
	    {"queue", test_queue},
	    {"many", test_many},
	    {"reclaim", test_reclaim},
	    {"pinned", test_pinned},
	    {"reserves", test_reserves},
	    {"spill", test_spill},
	    {"grouping", test_grouping},
	    {"shortage", test_shortage},
	    {"stress", test_stress},
	    {"crash", test_crash},
	};

	return unit_main("arena", tests, ARRAY_LEN(tests), argc, argv);
}
