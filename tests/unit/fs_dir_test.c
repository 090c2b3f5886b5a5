/*
 * The B+tree of directories against a sorted list, on the pool without drives: random insert,
 * remove and replace, look-ups, listing while it changes, cookies of what has gone, forced hash
 * collisions, damaged nodes.
 */
#include "fs/dir.h"
#include "tests/lib/fakepool.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/unit.h"

/* The model: entry i is the name made from i; alive or not, and which key it got. */
struct model {
	struct rig rig;
	struct pool_tx *tx;
	uint64_t *key; /* 0 = not there */
	uint32_t names, alive;
	uint32_t bits;
	uint32_t rounds;
};

static uint32_t
name_of(uint32_t i, char *out)
{
	/* lengths from 1 to 255, most of them short */
	int len = sprintf(out, "%x", i);
	uint32_t want = i % 97 == 0 ? 255 : i % 13 == 0 ? 60 : (uint32_t)len;
	while ((uint32_t)len < want) {
		out[len++] = '_';
	}
	return (uint32_t)len;
}

static void
model_insert(struct model *m, uint32_t i)
{
	struct fs_node *dir = m->rig.root;
	char name[256];
	uint32_t len = name_of(i, name);
	struct fs_name h;
	name_init(m->rig.ds, name, len, &h);
	struct dir_path p;
	uint64_t key = 0;
	int err = dir_insert_prepare(dir, &h, 0, &p, &key);
	if (m->key[i] != 0) {
		UNIT_CHECK(err == -EEXIST);
		return;
	}
	ASSERT(err == 0);
	UNIT_CHECK(key >= h.key);
	struct dir_ent e = {.key = key, .object = i + 1, .generation = 7, .type = FS_REG};
	dir_insert_apply(m->tx, dir, &p, &e, &h);
	dir_path_release(&p);
	m->key[i] = key;
	m->alive++;
}

static void
model_remove(struct model *m, uint32_t i)
{
	struct dir_path p;
	int err = dir_remove_prepare(m->rig.root, m->key[i], &p);
	ASSERT(err == 0);
	dir_remove_apply(m->tx, m->rig.root, &p, m->key[i], true);
	dir_path_release(&p);
	m->key[i] = 0;
	m->alive--;
}

static void
model_lookup(struct model *m, uint32_t i)
{
	char name[256];
	uint32_t len = name_of(i, name);
	struct fs_name h;
	struct dir_ent e;
	name_init(m->rig.ds, name, len, &h);
	int err = dir_find(m->rig.root, &h, &e);
	UNIT_CHECK(err == (m->key[i] != 0 ? 0 : -ENOENT));
	if (err == 0) {
		UNIT_CHECK(e.object == i + 1 && e.key == m->key[i] && e.generation == 7);
	}
}

/* Lists all of it; every name that is there once, in the order of keys. Returns the number of
 * leaves. */
static uint32_t
model_list(struct model *m)
{
	uint8_t *leaf = mem_zalloc(DIR_NODE_BYTES);
	ASSERT(leaf != NULL);
	uint64_t from = DIR_KEY_MIN, last = 0;
	uint32_t found = 0, leaves = 0;
	while (from != 0) {
		leaves++;
		int err = dir_leaf_copy(m->rig.root, from, leaf, &from);
		ASSERT(err == 0);
		for (uint32_t i = 0; i < dnode_count(leaf); i++) {
			struct dir_ent e;
			const char *name;
			uint32_t len;
			err = leaf_get(leaf, i, &e, &name, &len);
			ASSERT(err == 0);
			UNIT_CHECK(e.key > last && m->key[e.object - 1] == e.key);
			last = e.key;
			found++;
		}
	}
	UNIT_CHECK(found == m->alive);
	UNIT_CHECK(m->rig.root->ino.dir_entries == m->alive);
	mem_free(leaf);
	return leaves;
}

static void
no_problem(void *arg, const char *what)
{
	(void)arg;
	fprintf(stderr, "\n  %s", what);
}

static void
model_run(void *arg)
{
	struct model *m = arg;
	rig_open(&m->rig);
	fakepool_set_parking(m->rig.pool, false);
	m->rig.ds->hash_bits = m->bits;
	m->key = mem_zalloc_array(m->names, sizeof(*m->key));
	ASSERT(m->key != NULL);
	struct pool_need need = {0};
	int err = pool_tx_begin(fs_ds_pool_ds(m->rig.ds), &need, &m->tx);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < m->rounds; i++) {
		uint32_t n = (uint32_t)(rt_random_u64() % m->names);
		/* grow at first, shrink at last */
		bool grow = rt_random_u64() % m->rounds > i;
		if (m->key[n] == 0 || grow) {
			model_insert(m, n);
		} else {
			model_remove(m, n);
		}
		model_lookup(m, (uint32_t)(rt_random_u64() % m->names));
	}
	(void)model_list(m);
	UNIT_CHECK(dir_verify(m->rig.root, no_problem, NULL) == 0);
	for (uint32_t i = 0; i < m->names; i++) {
		model_lookup(m, i);
		if (m->key[i] != 0) {
			model_remove(m, i);
		}
	}
	(void)model_list(m);
	UNIT_CHECK(dir_verify(m->rig.root, no_problem, NULL) == 0);
	UNIT_CHECK(m->rig.root->ino.dir_blocks <= 1);
	pool_tx_end(m->tx);
	mem_free(m->key);
	rig_close(&m->rig);
}

/* A directory that shrinks to a tenth gives most of its leaves back. */
static void
shrink_run(void *arg)
{
	struct model *m = arg;
	rig_open(&m->rig);
	fakepool_set_parking(m->rig.pool, false);
	m->key = mem_zalloc_array(m->names, sizeof(*m->key));
	ASSERT(m->key != NULL);
	struct pool_need need = {0};
	int err = pool_tx_begin(fs_ds_pool_ds(m->rig.ds), &need, &m->tx);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < m->names; i++) {
		model_insert(m, i);
	}
	uint32_t full = model_list(m);
	for (uint32_t i = 0; i < m->names; i++) {
		if (i % 10 != 0) {
			model_remove(m, i);
		}
	}
	uint32_t thin = model_list(m);
	UNIT_CHECK(thin < full / 3);
	UNIT_CHECK(dir_verify(m->rig.root, no_problem, NULL) == 0);
	pool_tx_end(m->tx);
	mem_free(m->key);
	rig_close(&m->rig);
}

static void
test_shrink(void)
{
	struct model m = {.names = 20000};
	struct rt_options opt = unit_rt(true, 1, unit_seed(6));
	CU_ASSERT(rt_run(&opt, shrink_run, &m) == 0);
}

static void
run_model(uint32_t names, uint32_t rounds, uint32_t bits, uint64_t seed)
{
	struct model m = {.names = names, .rounds = rounds, .bits = bits};
	struct rt_options opt = unit_rt(true, 1, seed);
	CU_ASSERT(rt_run(&opt, model_run, &m) == 0);
	CU_ASSERT(mem_live_count() == 0);
}

static void
test_model_large(void)
{
	run_model(100000, 300000, DIR_HASH_BITS, unit_seed(1));
}

static void
test_model_small(void)
{
	uint64_t seed = unit_seed(2);
	for (uint64_t i = 0; i < 20; i++) {
		run_model(700, 3000, DIR_HASH_BITS, seed + i);
	}
}

static void
test_collisions(void)
{
	uint64_t seed = unit_seed(3);
	run_model(600, 3000, 1, seed);
	run_model(2000, 8000, 8, seed + 1);
	run_model(3000, 12000, 13, seed + 2);
	run_model(3000, 12000, 31, seed + 3);
}

/* ---- listing while deleting and creating (B04) ---- */

struct lister {
	struct rig rig;
	uint8_t seen[5000];
	uint32_t got, limit, calls;
	uint64_t last;
	char names[64][32];
	bool plus;
};

static bool
lister_emit(void *arg, const struct fs_dirent *e)
{
	struct lister *l = arg;
	if (l->got == l->limit) {
		return false;
	}
	UNIT_CHECK(e->cookie > l->last);
	UNIT_CHECK(!l->plus || (e->attr != NULL && e->attr->object == e->object));
	l->last = e->cookie;
	if (e->name[0] == 'f') {
		char text[32] = {0};
		memcpy(text, e->name + 1, e->name_len - 1);
		uint32_t i = (uint32_t)atoi(text);
		l->seen[i]++;
		snprintf(l->names[l->got], sizeof(l->names[0]), "f%u", i);
		l->got++;
	}
	return true;
}

static void
listing_run(void *arg)
{
	struct lister *l = arg;
	char name[32];
	rig_open(&l->rig);
	for (uint32_t i = 0; i < 5000; i++) {
		sprintf(name, "f%u", i);
		ASSERT(rig_create(l->rig.root, name, FS_REG, 0644, NULL) == 0);
	}
	struct fs_cred cred = rig_cred(0, 0);
	bool eof = false;
	l->plus = true;
	while (!eof && l->calls++ < 20000) {
		l->got = 0;
		l->limit = 1 + (uint32_t)(rt_random_u64() % 40);
		int err = fs_readdir(l->rig.root, &cred, l->last, l->plus, lister_emit, l, &eof);
		ASSERT(err == 0);
		for (uint32_t i = 0; i < l->got; i++) {
			ASSERT(rig_remove(l->rig.root, l->names[i]) == 0);
		}
		sprintf(name, "new%u", l->calls);
		ASSERT(rig_create(l->rig.root, name, FS_REG, 0644, NULL) == 0);
		l->plus = !l->plus;
	}
	UNIT_CHECK(eof);
	for (uint32_t i = 0; i < 5000; i++) {
		UNIT_CHECK(l->seen[i] == 1);
	}
	/* the cookie of a removed entry and one past the end */
	l->got = 0;
	UNIT_CHECK(fs_readdir(l->rig.root, &cred, l->last, false, lister_emit, l, &eof) == 0 &&
		   eof && l->got == 0);
	UNIT_CHECK(
	    fs_readdir(l->rig.root, &cred, UINT64_MAX, false, lister_emit, l, &eof) == 0 && eof);
	UNIT_CHECK(rig_check(l->rig.fp) == 0);
	rig_close(&l->rig);
}

static void
test_listing(void)
{
	static struct lister l;
	struct rt_options opt = unit_rt(true, 1, unit_seed(4));
	memset(&l, 0, sizeof(l));
	CU_ASSERT(rt_run(&opt, listing_run, &l) == 0);
}

/* ---- junk in nodes: errors, never a crash or an endless loop ---- */

static void
spoil(struct fs_node *dir, uint32_t round)
{
	uint64_t block = rt_random_u64() % dir->ino.dir_blocks;
	uint8_t *data = fakepool_block(dir->obj, block);
	if (data == NULL) {
		return;
	}
	for (uint32_t i = 0; i < 1 + round % 8; i++) {
		uint64_t off = rt_random_u64() % (round % 3 == 0      ? 0x40
						     : round % 3 == 1 ? 2048
								      : DIR_NODE_BYTES);
		data[off] = (uint8_t)rt_random_u64();
	}
}

static bool
count_emit(void *arg, const struct fs_dirent *e)
{
	(void)e;
	(*(uint32_t *)arg)++;
	return true;
}

static void
ignore_problem(void *arg, const char *what)
{
	(void)what;
	(*(uint32_t *)arg)++;
}

static void
junk_round(struct pool *good, uint32_t round)
{
	struct rig r;
	char name[256];
	struct fs_cred cred = rig_cred(0, 0);
	struct pool *copy = fakepool_clone(good);
	rig_attach(&r, copy, NULL, NULL);
	spoil(r.root, round);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t len = name_of((uint32_t)(rt_random_u64() % 900), name);
		name[len] = 0;
		int err = i % 2 == 0 ? rig_remove(r.root, name)
				     : rig_create(r.root, name, FS_REG, 0600, NULL);
		UNIT_CHECK(err == 0 || err == -ENOENT || err == -EEXIST || err == -ERR_CORRUPT);
	}
	uint32_t count = 0, problems = 0;
	bool eof;
	int err = fs_readdir(r.root, &cred, 0, true, count_emit, &count, &eof);
	UNIT_CHECK(err == 0 || err == -ERR_CORRUPT);
	uint64_t total;
	UNIT_CHECK(fs_check(r.fp, ignore_problem, &problems, &total) == 0);
	rig_close(&r);
}

static void
junk_run(void *arg)
{
	(void)arg;
	struct rig r;
	char name[256];
	rig_open(&r);
	fakepool_set_parking(r.pool, false);
	for (uint32_t i = 0; i < 900; i++) {
		name[name_of(i, name)] = 0;
		ASSERT(rig_create(r.root, name, FS_REG, 0644, NULL) == 0);
	}
	UNIT_CHECK(r.root->ino.dir_height == 2);
	for (uint32_t round = 0; round < 300; round++) {
		junk_round(r.pool, round);
	}
	rig_close(&r);
}

static void
test_junk(void)
{
	struct rt_options opt = unit_rt(true, 1, unit_seed(5));
	CU_ASSERT(rt_run(&opt, junk_run, NULL) == 0);
	CU_ASSERT(mem_live_count() == 0);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"small trees against the model", test_model_small},
	    {"forced hash collisions", test_collisions},
	    {"100,000 names against the model", test_model_large},
	    {"shrinking", test_shrink},
	    {"listing while names come and go", test_listing},
	    {"damaged nodes", test_junk},
	};
	return unit_main("fs_dir", tests, ARRAY_LEN(tests), argc, argv);
}
