/*
 * check_snap.c - the datasets of a root: their objsets, how snapshots are chained, what deadlists
 * say.
 *
 *	each objset claims what was born after the snapshot before it (check_walk.c)
 *	referenced(x) = referenced(the one before) + born after it - dead(x), exactly
 *	every entry of deadlist(x) is not younger than the one before x, lies between the same two
 *	snapshots as its bucket's key, and names a block that somebody claims
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/block_int.h"
#include "pool/check_int.h"
#include "pool/rooted.h"

/* What is kept of a description. */
struct member {
	uint64_t object;
	bool is_snap, named; /* named: as the one before another, or by a head */
	char name[32];
	uint64_t txg, prev_snap, prev_txg, origin;
	uint64_t ref, own, data_bytes, objects, dead, dead_young;
	uint64_t deadmap, deadmap_count, recent, recent_count, recent_sectors, recent_young;
	struct bp root;
};

struct members {
	struct check *c;
	struct member *v; /* by object */
	uint32_t count, cap;
	uint64_t *txgs; /* of the chain of the one at hand, ascending */
	uint32_t txg_count, txg_cap;
};

static struct member *
member_find(const struct members *m, uint64_t object)
{
	for (uint32_t lo = 0, hi = m->count; lo < hi;) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->v[mid].object == object) {
			return &m->v[mid];
		}
		if (m->v[mid].object < object) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return NULL;
}

/* ---- reading the descriptions ---- */

static void
member_fill(const struct dataset_phys *phys, uint64_t object, struct member *m)
{
	*m = (struct member){
	    .object = object,
	    .is_snap = (le64_get(phys->flags) & DATASET_SNAPSHOT) != 0,
	    .txg = le64_get(phys->create_txg),
	    .prev_snap = le64_get(phys->prev_snap),
	    .prev_txg = le64_get(phys->prev_snap_txg),
	    .origin = le64_get(phys->origin),
	    .ref = le64_get(phys->ref_sectors),
	    .own = le64_get(phys->used_sectors),
	    .data_bytes = le64_get(phys->data_bytes),
	    .objects = le64_get(phys->object_count),
	    .dead = le64_get(phys->dead_sectors),
	    .dead_young = le64_get(phys->dead_young),
	    .deadmap = le64_get(phys->deadmap),
	    .deadmap_count = le64_get(phys->deadmap_count),
	    .recent = le64_get(phys->recent),
	    .recent_count = le64_get(phys->recent_count),
	    .recent_sectors = le64_get(phys->recent_sectors),
	    .recent_young = le64_get(phys->recent_young),
	    .root = phys->root,
	};
	(void)snprintf(
	    m->name, sizeof(m->name), "%s%.30s", m->is_snap ? "@" : "", (const char *)phys->name);
}

static void
member_read(
    struct members *m, const struct object_slot *slot, uint64_t object, struct dataset_phys *phys)
{
	struct check *c = m->c;
	int err = rooted_read(c->p, slot, 0, phys, sizeof(*phys));

	if (err != 0 || le64_get(phys->magic) != DATASET_MAGIC ||
	    phys->name[sizeof(phys->name) - 1] != 0) {
		check_problem(
		    c, "dataset object %" PRIu64 ": can't be read: %s", object, err_str(err));
		return;
	}
	if (m->count == m->cap) {
		uint32_t cap = MAX(m->cap * 2, 64u);
		struct member *more = mem_realloc(m->v, cap * sizeof(*more));

		if (more == NULL) {
			c->err = -ENOMEM;
			return;
		}
		m->v = more;
		m->cap = cap;
	}
	member_fill(phys, object, &m->v[m->count++]);
}

static void
members_read(struct members *m)
{
	struct check *c = m->c;
	struct dataset_phys *phys = mem_zalloc(sizeof(*phys));
	struct object_slot slot;
	struct iobuf *buf;
	uint64_t end;
	int err = phys != NULL ? rooted_objset(c->p, &c->ub->root, &buf) : -ENOMEM;

	if (err != 0) {
		c->err = phys != NULL ? 0 : -ENOMEM; /* an unreadable root was told already */
		mem_free(phys);
		return;
	}
	end = le64_get(((const struct objset_phys *)(const void *)buf->data)->next_object);
	iobuf_unref(buf);
	for (uint64_t object = 0; object < end && c->err == 0; object++) {
		err = rooted_slot(c->p, &c->ub->root, object, &slot);
		if (err == 0 && slot.type == OBJ_DATASET) {
			member_read(m, &slot, object, phys);
		}
		fiber_maybe_yield();
	}
	mem_free(phys);
}

static void
check_pending(struct check *c)
{
	uint64_t told;
	struct iobuf *buf;

	if (!pool_has_snapshots(c->p) || rooted_objset(c->p, &c->ub->root, &buf) != 0) {
		return; /* told already */
	}
	told = le64_get(((const struct objset_phys *)(const void *)buf->data)->pending_sectors);
	iobuf_unref(buf);
	if (told != c->pending) {
		check_problem(c,
		    "%" PRIu64 " sectors of what was destroyed are to be freed, the root says "
		    "%" PRIu64,
		    c->pending, told);
	}
}

/* ---- deadlists ---- */

static void
dead_push(struct check *c, const struct bp *bp)
{
	if (bp_copies(bp) == 0) {
		return;
	}
	if (c->dead_count == c->dead_cap) {
		uint64_t cap = MAX(c->dead_cap * 2, (uint64_t)256);
		struct dead_claim *more = mem_realloc(c->deads, cap * sizeof(*more));

		if (more == NULL) {
			c->err = -ENOMEM;
			return;
		}
		c->deads = more;
		c->dead_cap = cap;
	}
	c->deads[c->dead_count++] = (struct dead_claim){
	    bp_addr_sector(&bp->addr[0]), le64_get(bp->phys_birth), bp_addr_set(&bp->addr[0])};
}

/* The oldest snapshot of the chain that isn't older. */
static uint64_t
place_of(const struct members *m, uint64_t txg)
{
	uint32_t lo = 0, hi = m->txg_count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->txgs[mid] < txg) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < m->txg_count ? m->txgs[lo] : UINT64_MAX;
}

struct list_sum {
	uint64_t sectors, young;
};

/* key 0: the recent list. */
static void
list_check(struct members *m, const struct member *x, const struct dead_list *l,
    uint64_t origin_txg, struct list_sum *sum)
{
	struct check *c = m->c;
	struct object_slot slot;
	struct bp *bp = mem_zalloc(sizeof(*bp));
	uint64_t sectors = 0;
	int err = bp == NULL ? -ENOMEM : rooted_slot(c->p, &c->ub->root, l->object, &slot);

	for (uint64_t i = 0; i < l->count && err == 0 && c->err == 0; i++) {
		struct bp_prop prop;
		uint64_t one;

		err = rooted_read(c->p, &slot, i * sizeof(*bp), bp, sizeof(*bp));
		if (err == 0 && (bp_is_hole(bp) || bp_decode(bp, c->p->v.set_count, &prop) != 0)) {
			err = -ERR_CORRUPT;
		}
		if (err != 0) {
			break;
		}
		if (bp_birth(bp) > x->prev_txg ||
		    (l->key != 0 && place_of(m, bp_birth(bp)) != place_of(m, l->key))) {
			check_problem(c,
			    "%s: its deadlist has a block of txg %" PRIu64 " in bucket %" PRIu64,
			    x->name, bp_birth(bp), l->key);
		}
		one = check_claim(c, bp, &prop, false);
		sectors += one;
		sum->young += bp_birth(bp) > origin_txg ? one : 0;
		dead_push(c, bp);
		fiber_maybe_yield();
	}
	if (err != 0) {
		check_problem(c, "%s: a deadlist can't be read: %s", x->name, err_str(err));
	} else if (sectors != l->sectors) {
		check_problem(c, "%s: a deadlist has %" PRIu64 " sectors, %" PRIu64 " are noted",
		    x->name, sectors, l->sectors);
	}
	sum->sectors += sectors;
	mem_free(bp);
}

static void
deads_check(struct members *m, const struct member *x, uint64_t origin_txg)
{
	struct check *c = m->c;
	struct dead_list l = {0, x->recent, x->recent_count, x->recent_sectors};
	struct list_sum sum = {0};
	struct object_slot slot;
	uint64_t last = 0;
	int err = 0;

	if (x->recent != 0) {
		list_check(m, x, &l, origin_txg, &sum);
	}
	if (sum.young != x->recent_young) {
		check_problem(c,
		    "%s: %" PRIu64 " sectors of its recent deadlist are young, not %" PRIu64,
		    x->name, sum.young, x->recent_young);
	}
	if (x->deadmap_count > 0) {
		err = rooted_slot(c->p, &c->ub->root, x->deadmap, &slot);
	}
	for (uint64_t i = 0; i < x->deadmap_count && err == 0 && c->err == 0; i++) {
		struct deadmap_entry e;

		err = rooted_read(c->p, &slot, i * sizeof(e), &e, sizeof(e));
		l = (struct dead_list){
		    le64_get(e.snap_txg), le64_get(e.list), le64_get(e.count), le64_get(e.sectors)};
		if (err == 0 && (l.key == 0 || l.key < last)) {
			err = -ERR_CORRUPT;
		}
		last = l.key;
		if (err == 0) {
			list_check(m, x, &l, origin_txg, &sum);
		}
	}
	if (err != 0) {
		check_problem(c, "%s: its deadmap can't be read: %s", x->name, err_str(err));
	} else if (sum.sectors != x->dead || sum.young != x->dead_young) {
		check_problem(c,
		    "%s: its deadlists have %" PRIu64 " sectors, %" PRIu64 " young, not %" PRIu64
		    " and %" PRIu64,
		    x->name, sum.sectors, sum.young, x->dead, x->dead_young);
	}
}

/* ---- chains ---- */

/* Txgs of all snapshots before x, through origins. false: the chain is broken. */
static bool
chain_read(struct members *m, const struct member *x)
{
	uint32_t n = 0;

	for (const struct member *at = x; at->prev_snap != 0;) {
		struct member *prev = member_find(m, at->prev_snap);

		if (prev == NULL || !prev->is_snap || prev->txg != at->prev_txg ||
		    (at->is_snap && prev->txg >= at->txg) || n > m->count) {
			check_problem(m->c, "%s: the snapshot before it isn't right", at->name);
			return false;
		}
		if (n == m->txg_cap) {
			uint32_t cap = MAX(m->txg_cap * 2, 64u);
			uint64_t *more = mem_realloc(m->txgs, cap * sizeof(*more));

			if (more == NULL) {
				m->c->err = -ENOMEM;
				return false;
			}
			m->txgs = more;
			m->txg_cap = cap;
		}
		m->txgs[n++] = prev->txg;
		prev->named = true;
		at = prev;
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		uint64_t txg = m->txgs[i];

		m->txgs[i] = m->txgs[n - 1 - i];
		m->txgs[n - 1 - i] = txg;
	}
	m->txg_count = n;
	return true;
}

static void
member_figures(struct members *m, const struct member *x)
{
	struct check *c = m->c;
	const struct member *prev = x->prev_snap != 0 ? member_find(m, x->prev_snap) : NULL;
	uint64_t want = (prev != NULL ? prev->ref : 0) + c->born - x->dead;

	if (!x->is_snap && x->own != c->own) {
		check_problem(c, "%s: %" PRIu64 " sectors are its own, not %" PRIu64, c->where,
		    c->own, x->own);
	}
	if (pool_has_snapshots(c->p) && x->ref != want) {
		check_problem(c,
		    "%s: refers to %" PRIu64 " sectors, but %" PRIu64 " before it, %" PRIu64
		    " born since, %" PRIu64 " dead",
		    c->where, x->ref, prev != NULL ? prev->ref : 0, c->born, x->dead);
	}
}

/* The figures that the description repeats. */
static void
member_root_figures(struct check *c, const struct member *x)
{
	const struct objset_phys *os;
	struct iobuf *buf;
	uint64_t ref;

	if (!pool_has_snapshots(c->p) || rooted_objset(c->p, &x->root, &buf) != 0) {
		return; /* told already */
	}
	os = (const struct objset_phys *)(const void *)buf->data;
	ref = le64_get(os->used_sectors) + block_sectors(c->p, &x->root);
	if (x->ref != ref || x->data_bytes != le64_get(os->data_bytes) ||
	    x->objects != le64_get(os->object_count)) {
		check_problem(c, "%s: its description has other figures than its root", c->where);
	}
	iobuf_unref(buf);
}

/* The origin of x's chain: of a snapshot's, that of the head whose chain it is in. */
static void
member_check(struct members *m, const struct member *x, uint64_t origin_txg)
{
	struct check *c = m->c;

	(void)snprintf(c->where, sizeof(c->where), "dataset %s", x->name);
	if (!chain_read(m, x)) {
		return;
	}
	c->shared_until = x->prev_txg;
	c->own_from = x->is_snap ? UINT64_MAX : origin_txg;
	c->own = c->born = 0;
	/* one that was never written has no root yet */
	if (!bp_is_hole(&x->root)) {
		check_walk_objset(c, &x->root, false, !x->is_snap);
		member_root_figures(c, x);
		member_figures(m, x);
	}
	deads_check(m, x, origin_txg);
	c->shared_until = 0;
}

/* A head and its chain. */
static void
head_check(struct members *m, struct member *head)
{
	const struct member *origin = head->origin != 0 ? member_find(m, head->origin) : NULL;
	uint64_t origin_txg = origin != NULL ? origin->txg : 0;
	struct member *x = head;

	if (head->origin != 0 && (origin == NULL || !origin->is_snap)) {
		check_problem(m->c, "%s: its origin isn't there", head->name);
		return;
	}
	for (uint32_t steps = 0; steps <= m->count && x != NULL && m->c->err == 0; steps++) {
		member_check(m, x, origin_txg);
		x = x->prev_snap != head->origin ? member_find(m, x->prev_snap) : NULL;
	}
}

void
check_datasets(struct check *c)
{
	struct members m = {.c = c};

	check_pending(c);
	members_read(&m);
	for (uint32_t i = 0; i < m.count && c->err == 0; i++) {
		if (!m.v[i].is_snap) {
			head_check(&m, &m.v[i]);
		}
	}
	for (uint32_t i = 0; i < m.count && c->err == 0; i++) {
		if (m.v[i].is_snap && !m.v[i].named) {
			check_problem(c, "snapshot %s: in no dataset's chain", m.v[i].name);
		}
	}
	mem_free(m.v);
	mem_free(m.txgs);
}

/* ---- what deadlists name ---- */

static bool
is_claimed(const struct check *c, const struct dead_claim *d)
{
	uint64_t lo = 0, hi = c->claim_count;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		const struct claim *at = &c->claims[mid];

		if (at->set < d->set || (at->set == d->set && at->sector < d->sector)) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < c->claim_count && c->claims[lo].set == d->set &&
	       c->claims[lo].sector == d->sector && c->claims[lo].birth == d->birth;
}

void
check_dead_claims(struct check *c)
{
	for (uint64_t i = 0; i < c->dead_count; i++) {
		if (!is_claimed(c, &c->deads[i])) {
			check_problem(c,
			    "set %u sector %" PRIu64 ": in a deadlist, but nothing refers to it",
			    c->deads[i].set, c->deads[i].sector);
		}
	}
}
