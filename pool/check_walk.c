/*
 * check_walk.c - everything reachable from a root, each address once: MOS, its objects, the
 * datasets they name, trees that are being freed. Figures that the format keeps beside the trees
 * (used_sectors of slots and objsets, data_bytes, object_count) are added up on the way and
 * compared.
 *
 * Blocks that a dataset shares with snapshots are claimed by the oldest of these: each objset
 * claims what was born after the snapshot before it. Of a head everything is looked at all the
 * same; of a snapshot only that (a parent is never older than its children), so the whole takes as
 * long as there are blocks, however many snapshots share them. The same goes for what is left of a
 * destroyed clone or a rollback (min_txg of entries of the MOS's unlinked set).
 */
#include <inttypes.h>
#include <stdio.h>

#include "pool/block_int.h"
#include "pool/check_int.h"
#include "pool/rooted.h"

/* What walk_tree does with each block of level 0. */
struct walk {
	struct check *c;
	const char *what; /* for sentences */
	uint64_t object;
	uint64_t sectors;    /* out */
	uint64_t data_bytes; /* out */
	void (*data)(struct walk *w, const struct iobuf *buf, uint32_t len, uint64_t block);
	uint64_t dying_left; /* OBJ_UNLINKED: entries still to come */
	uint64_t min_txg;    /* what isn't younger isn't looked at */
	bool is_mos;
};

static void walk_tree(struct walk *w, const struct bp *bp, unsigned level, uint64_t index);
static void walk_slots(struct walk *w, const struct iobuf *buf, uint32_t len, uint64_t block);

/* ---- claims ---- */

static void
claim_push(struct check *c, const struct claim *claim)
{
	if (c->claim_count == c->claim_cap) {
		uint64_t cap = MAX(c->claim_cap * 2, (uint64_t)1024);
		struct claim *claims = mem_realloc(c->claims, cap * sizeof(*claims));

		if (claims == NULL) {
			c->err = -ENOMEM;
			return;
		}
		c->claims = claims;
		c->claim_cap = cap;
	}
	c->claims[c->claim_count++] = *claim;
}

static uint64_t
claim_gang(struct check *c, const struct bp_addr *a, uint64_t birth, bool claim)
{
	const struct gang_header *h;
	struct iobuf *buf;
	uint64_t sectors = 0;
	int err = gang_header_read(c->p, a, birth, &buf);

	if (err != 0) {
		check_problem(c, "%s: gang header at set %u sector %" PRIu64 " can't be read: %s",
		    c->where, bp_addr_set(a), bp_addr_sector(a), err_str(err));
		return 0;
	}
	h = (const struct gang_header *)(const void *)buf->data;
	for (uint32_t i = 0; i < le32_get(h->child_count); i++) {
		struct bp_prop prop;

		if (bp_decode(&h->child[i], c->p->v.set_count, &prop) == 0) {
			sectors += check_claim(c, &h->child[i], &prop, claim);
		}
	}
	iobuf_unref(buf);
	return sectors;
}

uint64_t
check_claim(struct check *c, const struct bp *bp, const struct bp_prop *prop, bool claim)
{
	uint64_t sectors = 0;

	for (uint32_t i = 0; i < bp_copies(bp); i++) {
		const struct bp_addr *a = &bp->addr[i];
		bool gang = bp_addr_is_gang(a);
		struct claim one = {
		    .sector = bp_addr_sector(a),
		    .birth = le64_get(bp->phys_birth),
		    .set = bp_addr_set(a),
		    .asize = (uint16_t)bp_addr_asize(a),
		    .psize = (uint16_t)(prop->stored_bytes / BP_SIZE_UNIT - 1),
		    .cksum_kind = (uint8_t)prop->cksum,
		    .type = prop->type,
		};

		sectors += bp_addr_asize(a);
		memcpy(&one.cksum, bp->cksum, sizeof(one.cksum));
		if (gang) {
			/* a header: its record has a checksum that no bp repeats */
			one.type = OBJ_GANG;
			one.psize = SECTOR_BYTES / BP_SIZE_UNIT - 1;
			one.cksum_kind = UINT8_MAX;
			sectors += claim_gang(c, a, one.birth, claim);
		}
		if (claim) {
			claim_push(c, &one);
		}
	}
	return sectors;
}

/* ---- trees ---- */

static void
diff_push(struct check *c, uint64_t object, uint64_t generation, int64_t sectors)
{
	for (uint32_t i = 0; i < c->diff_count; i++) {
		if (c->diffs[i].object == object && c->diffs[i].generation == generation) {
			c->diffs[i].sectors += sectors;
			return;
		}
	}
	if (c->diff_count == c->diff_cap) {
		uint32_t cap = MAX(c->diff_cap * 2, 64u);
		struct count_diff *diffs = mem_realloc(c->diffs, cap * sizeof(*diffs));

		if (diffs == NULL) {
			c->err = -ENOMEM;
			return;
		}
		c->diffs = diffs;
		c->diff_cap = cap;
	}
	c->diffs[c->diff_count++] = (struct count_diff){object, generation, sectors};
}

static void
walk_children(struct walk *w, const struct iobuf *buf, unsigned level, uint64_t index)
{
	const struct bp *kids = (const struct bp *)(const void *)buf->data;

	for (uint64_t i = 0; i < INDIRECT_BYTES / sizeof(*kids) && w->c->err == 0; i++) {
		walk_tree(w, &kids[i], level - 1, (index << INDIRECT_SHIFT) + i);
	}
}

static void
walk_tree(struct walk *w, const struct bp *bp, unsigned level, uint64_t index)
{
	struct check *c = w->c;
	struct bp_prop prop;
	struct iobuf *buf;
	uint64_t sectors;
	int err;

	if (bp_is_hole(bp) || c->err != 0 || bp_birth(bp) <= w->min_txg) {
		return;
	}
	err = bp_decode(bp, c->p->v.set_count, &prop);
	if (err == 0 && (prop.level != level || bp_birth(bp) > le64_get(c->ub->txg))) {
		err = -ERR_CORRUPT;
	}
	if (err != 0) {
		check_problem(c,
		    "%s object %" PRIu64 " level %u index %" PRIu64 ": impossible block pointer",
		    c->where, w->object, level, index);
		return;
	}
	sectors = check_claim(c, bp, &prop, bp_birth(bp) > c->shared_until);
	w->sectors += sectors;
	c->own += bp_birth(bp) > c->own_from ? sectors : 0;
	c->born += bp_birth(bp) > c->shared_until ? sectors : 0;
	if (level == 0) {
		w->data_bytes += prop.logical_bytes;
	}
	if (level == 0 && w->data == NULL) {
		/* the contents are verified by address, in drive order */
		return;
	}
	err = block_read(c->p, bp, BLOCK_READ_NOCACHE | BLOCK_READ_META, &buf);
	if (err != 0) {
		check_problem(c, "%s object %" PRIu64 " level %u index %" PRIu64 ": %s", c->where,
		    w->object, level, index, err_str(err));
		return;
	}
	if (level == 0) {
		w->data(w, buf, prop.logical_bytes, index);
	} else if (prop.logical_bytes == INDIRECT_BYTES) {
		walk_children(w, buf, level, index);
	} else {
		check_problem(c, "%s object %" PRIu64 ": an indirect block of %u bytes", c->where,
		    w->object, prop.logical_bytes);
	}
	iobuf_unref(buf);
	fiber_maybe_yield();
}

/* ---- what is in particular objects ---- */

/* A block of a deadlist whose contents are to be freed. */
static void
walk_contents(struct walk *w, const struct iobuf *buf, uint32_t len, uint64_t block UNUSED)
{
	const struct bp *bps = (const struct bp *)(const void *)buf->data;

	for (uint32_t i = 0; i < len / sizeof(*bps); i++) {
		struct bp_prop prop;

		if (bp_is_hole(&bps[i])) {
			continue;
		}
		if (bp_decode(&bps[i], w->c->p->v.set_count, &prop) != 0) {
			check_problem(
			    w->c, "%s: a deadlist has an impossible pointer", w->c->where);
			continue;
		}
		w->sectors += check_claim(w->c, &bps[i], &prop, true);
	}
}

/* What is left of a destroyed dataset. */
static void
walk_gone_objset(struct walk *w, const struct bp *bp, uint64_t min_txg)
{
	struct check *c = w->c;
	uint64_t sectors = c->sectors, data_bytes = c->data_bytes;
	uint64_t born = c->born, until = c->shared_until;

	c->shared_until = min_txg;
	check_walk_objset(c, bp, false, min_txg == 0);
	c->shared_until = until;
	c->born = born;
	c->pending += c->sectors;
	if (min_txg != 0) {
		c->data_bytes = 0;
	}
	c->sectors += sectors;
	c->data_bytes += data_bytes;
}

static void walk_slots(struct walk *w, const struct iobuf *buf, uint32_t len, uint64_t block);

/* A part of a destroyed dataset's table, with all below it: its objects are nobody's any more. */
static void
walk_gone_table(struct walk *part, const struct unlinked_entry *e, unsigned level)
{
	struct check *c = part->c;
	uint64_t sectors = c->sectors, data_bytes = c->data_bytes, objects = c->objects;
	uint32_t diff_count = c->diff_count;

	part->data = walk_slots;
	walk_tree(part, &e->bp, level, 0);
	part->sectors += c->sectors - sectors;
	c->sectors = sectors;
	c->objects = objects;
	c->diff_count = diff_count;
	if (le64_get(e->min_txg) != 0) {
		c->data_bytes = data_bytes;
	}
}

/* A destroyed dataset's root, a part of a table, of an object or of a deadlist, or one block. */
static void
walk_unlinked_entry(struct walk *w, const struct unlinked_entry *e)
{
	struct check *c = w->c;
	uint64_t min_txg = MAX(le64_get(e->min_txg), w->min_txg);
	struct walk part = {.c = c, .object = le64_get(e->object), .min_txg = min_txg};
	uint32_t flags = le32_get(e->flags);
	struct bp_prop prop;

	if (bp_is_hole(&e->bp) || bp_decode(&e->bp, c->p->v.set_count, &prop) != 0) {
		check_problem(c, "%s: an entry of the unlinked set has no block", c->where);
		return;
	}
	if (bp_birth(&e->bp) <= min_txg) {
		return;
	}
	if (prop.type == OBJ_OBJSET && (flags & UNLINKED_ALONE) == 0) {
		walk_gone_objset(w, &e->bp, min_txg);
		return;
	}
	if ((flags & UNLINKED_ALONE) != 0) {
		part.sectors = check_claim(c, &e->bp, &prop, true);
	} else if (prop.type == OBJ_TABLE) {
		walk_gone_table(&part, e, prop.level);
	} else {
		part.data = (flags & UNLINKED_CONTENTS) != 0 ? walk_contents : NULL;
		walk_tree(&part, &e->bp, prop.level, 0);
	}
	c->sectors += part.sectors;
	if (prop.type != OBJ_TABLE && prop.type != OBJ_ACCOUNTS && le64_get(e->min_txg) == 0 &&
	    (flags & UNLINKED_ALONE) == 0) {
		c->data_bytes += part.data_bytes;
	}
	if (w->is_mos && part.object == 0) {
		c->pending += part.sectors;
	} else {
		diff_push(c, part.object, le64_get(e->generation), (int64_t)part.sectors);
	}
}

static void
walk_unlinked(struct walk *w, const struct iobuf *buf, uint32_t len, uint64_t block UNUSED)
{
	const struct unlinked_entry *e = (const struct unlinked_entry *)(const void *)buf->data;

	for (uint32_t i = 0; i < UNLINKED_PER_BLOCK && w->dying_left > 0; i++, w->dying_left--) {
		if ((i + 1) * sizeof(*e) > len) {
			check_problem(w->c, "%s: the unlinked set is cut short", w->c->where);
			return;
		}
		walk_unlinked_entry(w, &e[i]);
	}
}

static void
walk_slot(struct walk *w, const struct object_slot *slot, uint64_t object)
{
	struct walk tree = {
	    .c = w->c, .object = object, .is_mos = w->is_mos, .min_txg = w->min_txg};

	w->c->objects++;
	if (rooted_slot_check(slot) != 0) {
		check_problem(w->c, "%s object %" PRIu64 ": impossible slot", w->c->where, object);
		return;
	}
	if (slot->type == OBJ_UNLINKED) {
		tree.data = walk_unlinked;
		tree.dying_left = w->dying_left;
	}
	if ((slot->flags & OBJECT_INLINE) == 0) {
		walk_tree(&tree, &slot->data, slot->levels - 1u, 0);
	}
	w->c->sectors += tree.sectors;
	w->c->data_bytes += tree.data_bytes;
	if (w->min_txg == 0 && tree.sectors != le64_get(slot->used_sectors)) {
		/* trees cut off it, wherever they are found, make up for it */
		diff_push(w->c, object, le64_get(slot->generation),
		    (int64_t)tree.sectors - (int64_t)le64_get(slot->used_sectors));
	}
}

static void
walk_slots(struct walk *w, const struct iobuf *buf, uint32_t len, uint64_t block)
{
	const struct object_slot *slots = (const struct object_slot *)(const void *)buf->data;
	uint32_t per_block = OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES;

	for (uint32_t i = 0; i < MIN(per_block, len / OBJECT_SLOT_BYTES) && w->c->err == 0; i++) {
		if (w->c->accounts != NULL && w->min_txg == 0 &&
		    block * per_block + i < w->c->accounts_next) {
			accounts_count_slot(w->c->accounts, &slots[i]);
		}
		if (slots[i].type != OBJ_FREE) {
			walk_slot(w, &slots[i], block * per_block + i);
		}
	}
}

static void
walk_accounts(struct walk *w, const struct iobuf *buf, uint32_t len, uint64_t block)
{
	if (len != ACCOUNT_BLOCK_BYTES) {
		check_problem(w->c, "%s: a block of accounts of %u bytes", w->c->where, len);
	} else if (w->c->accounts != NULL) {
		accounts_count_block(
		    w->c->accounts, block, (const struct account_entry *)(const void *)buf->data);
	}
}

/* The tree of the accounts; what is in it is compared when the whole objset is looked at. */
static void
walk_account_tree(struct check *c, const struct objset_phys *os, uint64_t min_txg)
{
	const struct object_slot *slot = &os->accounts;
	struct walk w = {.c = c, .data = walk_accounts, .min_txg = min_txg};

	if (slot->type == OBJ_FREE) {
		return;
	}
	if (slot->type != OBJ_ACCOUNTS || rooted_slot_check(slot) != 0 ||
	    (slot->flags & OBJECT_INLINE) != 0 ||
	    le32_get(slot->block_bytes) != ACCOUNT_BLOCK_BYTES) {
		check_problem(c, "%s: impossible slot of the accounts", c->where);
		return;
	}
	walk_tree(&w, &slot->data, slot->levels - 1u, 0);
	if (min_txg == 0 && w.sectors != le64_get(slot->used_sectors)) {
		check_problem(c,
		    "%s: the accounts take %" PRIu64 " sectors, their slot says %" PRIu64, c->where,
		    w.sectors, le64_get(slot->used_sectors));
	}
	c->sectors += w.sectors;
}

static void
check_accounts(struct check *c)
{
	const struct account_deltas *d = c->accounts;

	for (uint32_t i = 0; i < d->cap; i++) {
		const struct account_delta *a = &d->v[i];

		if (a->used && (a->by[0] | a->by[1] | a->by[2] | a->by[3]) != 0) {
			check_problem(c,
			    "%s: the account of %u lacks %" PRId64 " sectors, %" PRId64
			    " objects as a user, %" PRId64 " and %" PRId64 " as a group",
			    c->where, a->id, a->by[0], a->by[1], a->by[2], a->by[3]);
		}
	}
}

/* ---- objsets ---- */

static bool
is_there(struct check *c, const struct bp *root, const struct count_diff *d)
{
	struct object_slot slot;

	return rooted_slot(c->p, root, d->object, &slot) == 0 &&
	       le64_get(slot.generation) == d->generation;
}

static void
check_figures(
    struct check *c, const struct bp *root, const struct objset_phys *os, const struct walk *table)
{
	for (uint32_t i = 0; i < c->diff_count; i++) {
		const struct count_diff *d = &c->diffs[i];

		/* what a gone object's trees take is counted by the objset alone */
		if (d->sectors < 0 || (d->sectors > 0 && is_there(c, root, d))) {
			check_problem(c,
			    "%s object %" PRIu64 ": counts %" PRId64 " sectors less than it takes",
			    c->where, d->object, d->sectors);
		}
	}
	if (table->sectors != le64_get(os->table.used_sectors)) {
		check_problem(c,
		    "%s: the object table takes %" PRIu64 " sectors, its slot says %" PRIu64,
		    c->where, table->sectors, le64_get(os->table.used_sectors));
	}
	c->sectors += table->sectors;
	if (c->sectors != le64_get(os->used_sectors)) {
		check_problem(c, "%s: takes %" PRIu64 " sectors, its root says %" PRIu64, c->where,
		    c->sectors, le64_get(os->used_sectors));
	}
	if (c->data_bytes != le64_get(os->data_bytes)) {
		check_problem(c, "%s: has %" PRIu64 " bytes of data, its root says %" PRIu64,
		    c->where, c->data_bytes, le64_get(os->data_bytes));
	}
	if (c->objects != le64_get(os->object_count)) {
		check_problem(c, "%s: has %" PRIu64 " objects, its root says %" PRIu64, c->where,
		    c->objects, le64_get(os->object_count));
	}
}

void
check_walk_objset(struct check *c, const struct bp *bp, bool is_mos, bool whole)
{
	struct count_diff *diffs = c->diffs;
	uint32_t diff_count = c->diff_count, diff_cap = c->diff_cap;
	uint64_t objects = c->objects;
	struct account_deltas *outer = c->accounts, mine = {0};
	struct walk table = {
	    .c = c, .data = walk_slots, .is_mos = is_mos, .min_txg = whole ? 0 : c->shared_until};
	const struct objset_phys *os;
	struct bp_prop prop;
	struct iobuf *buf;
	uint64_t root;
	int err = bp_is_hole(bp) ? -ERR_CORRUPT : bp_decode(bp, c->p->v.set_count, &prop);

	c->data_bytes = c->sectors = 0;
	if (err == 0) {
		root = check_claim(c, bp, &prop, bp_birth(bp) > c->shared_until);
		c->born += bp_birth(bp) > c->shared_until ? root : 0;
		err = rooted_objset(c->p, bp, &buf);
	}
	if (err != 0) {
		check_problem(c, "%s: its root can't be read: %s", c->where, err_str(err));
		return;
	}
	/* the root of a destroyed dataset is walked in the middle of the MOS */
	c->objects = 0;
	c->diffs = NULL;
	c->diff_count = c->diff_cap = 0;
	os = (const struct objset_phys *)(const void *)buf->data;
	table.dying_left = le64_get(os->dying_count);
	c->accounts_next = le64_get(os->accounts_next);
	c->accounts = whole && !is_mos && c->accounts_next != 0 ? &mine : NULL; /* 0: given up */
	walk_tree(&table, &os->table.data, os->table.levels - 1u, 0);
	walk_account_tree(c, os, table.min_txg);
	if (c->err == 0 && c->accounts != NULL) {
		check_accounts(c);
	}
	mem_free(mine.v);
	c->accounts = outer;
	if (c->err == 0 && whole) {
		check_figures(c, bp, os, &table);
	} else {
		c->sectors += table.sectors;
	}
	iobuf_unref(buf);
	mem_free(c->diffs);
	c->objects = objects;
	c->diffs = diffs;
	c->diff_count = diff_count;
	c->diff_cap = diff_cap;
}

void
check_walk_all(struct check *c)
{
	(void)snprintf(c->where, sizeof(c->where), "MOS");
	check_walk_objset(c, &c->ub->root, true, true);
	if (c->err == 0) {
		check_datasets(c);
	}
}
