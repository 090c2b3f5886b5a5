/*
 * check_walk.c - everything reachable from a root, each address once: MOS, its objects, the
 * datasets they name, trees that are being freed. Figures that the format keeps beside the trees
 * (used_sectors of slots and objsets, data_bytes, object_count) are added up on the way and
 * compared.
 *
 * Blocks that a snapshot shares with its dataset's head are claimed by the snapshot: a head claims
 * what was born after its newest snapshot.
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
	bool is_mos;
};

static void walk_tree(struct walk *w, const struct bp *bp, unsigned level, uint64_t index);
static void walk_objset(struct check *c, const struct bp *bp, bool is_mos);
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
	int err;

	if (bp_is_hole(bp) || c->err != 0) {
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
	w->sectors += check_claim(c, bp, &prop, bp_birth(bp) > c->shared_until);
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

/* A destroyed dataset's root, a part of a table, or a part of an object. */
static void
walk_unlinked_entry(struct walk *w, const struct unlinked_entry *e)
{
	struct walk part = {.c = w->c, .object = le64_get(e->object)};
	struct bp_prop prop;

	if (bp_is_hole(&e->bp) || bp_decode(&e->bp, w->c->p->v.set_count, &prop) != 0) {
		check_problem(w->c, "%s: an entry of the unlinked set has no block", w->c->where);
		return;
	}
	if (prop.type == OBJ_OBJSET) {
		walk_objset(w->c, &e->bp, false);
		return;
	}
	if (prop.type == OBJ_TABLE) {
		part.data = walk_slots;
	}
	walk_tree(&part, &e->bp, prop.level, 0);
	w->c->sectors += part.sectors;
	if (prop.type != OBJ_TABLE) {
		w->c->data_bytes += part.data_bytes;
	}
	diff_push(w->c, le64_get(e->object), le64_get(e->generation), (int64_t)part.sectors);
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
	struct walk tree = {.c = w->c, .object = object, .is_mos = w->is_mos};

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
	if (tree.sectors != le64_get(slot->used_sectors)) {
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
		if (slots[i].type != OBJ_FREE) {
			walk_slot(w, &slots[i], block * per_block + i);
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

static void
walk_objset(struct check *c, const struct bp *bp, bool is_mos)
{
	uint64_t objects = c->objects, data_bytes = c->data_bytes, sectors = c->sectors;
	struct count_diff *diffs = c->diffs;
	uint32_t diff_count = c->diff_count, diff_cap = c->diff_cap;
	struct walk table = {.c = c, .data = walk_slots, .is_mos = is_mos};
	const struct objset_phys *os;
	struct bp_prop prop;
	struct iobuf *buf;
	int err = bp_is_hole(bp) ? -ERR_CORRUPT : bp_decode(bp, c->p->v.set_count, &prop);

	if (err == 0) {
		(void)check_claim(c, bp, &prop, bp_birth(bp) > c->shared_until);
		err = rooted_objset(c->p, bp, &buf);
	}
	if (err != 0) {
		check_problem(c, "%s: its root can't be read: %s", c->where, err_str(err));
		return;
	}
	/* the root of a destroyed dataset is walked in the middle of the MOS */
	c->objects = c->data_bytes = c->sectors = 0;
	c->diffs = NULL;
	c->diff_count = c->diff_cap = 0;
	os = (const struct objset_phys *)(const void *)buf->data;
	table.dying_left = le64_get(os->dying_count);
	walk_tree(&table, &os->table.data, os->table.levels - 1u, 0);
	if (c->err == 0) {
		check_figures(c, bp, os, &table);
	}
	iobuf_unref(buf);
	mem_free(c->diffs);
	c->objects = objects;
	c->data_bytes = data_bytes;
	c->sectors = sectors;
	c->diffs = diffs;
	c->diff_count = diff_count;
	c->diff_cap = diff_cap;
}

static void
walk_dataset(
    struct check *c, const struct object_slot *slot, uint64_t object, struct dataset_phys *phys)
{
	int err = rooted_read(c->p, slot, 0, phys, sizeof(*phys));

	if (err != 0 || le64_get(phys->magic) != DATASET_MAGIC ||
	    phys->name[sizeof(phys->name) - 1] != 0) {
		check_problem(
		    c, "dataset object %" PRIu64 ": can't be read: %s", object, err_str(err));
		return;
	}
	(void)snprintf(c->where, sizeof(c->where), "dataset %.40s", (const char *)phys->name);
	c->shared_until = le64_get(phys->prev_snap_txg);
	/* one that was never written has no root yet */
	if (!bp_is_hole(&phys->root)) {
		walk_objset(c, &phys->root, false);
	}
	c->shared_until = 0;
}

static void
walk_datasets(struct check *c)
{
	struct dataset_phys *phys = mem_zalloc(sizeof(*phys));
	const struct objset_phys *os;
	struct object_slot slot;
	struct iobuf *buf;
	uint64_t end;
	int err = phys != NULL ? rooted_objset(c->p, &c->ub->root, &buf) : -ENOMEM;

	if (err != 0) {
		c->err = phys != NULL ? 0 : -ENOMEM; /* an unreadable root was told already */
		mem_free(phys);
		return;
	}
	os = (const struct objset_phys *)(const void *)buf->data;
	end = le64_get(os->next_object);
	for (uint64_t object = 0; object < end && c->err == 0; object++) {
		err = rooted_slot(c->p, &c->ub->root, object, &slot);
		if (err == 0 && slot.type == OBJ_DATASET) {
			walk_dataset(c, &slot, object, phys);
		}
		fiber_maybe_yield();
	}
	iobuf_unref(buf);
	mem_free(phys);
}

void
check_walk_all(struct check *c)
{
	(void)snprintf(c->where, sizeof(c->where), "MOS");
	walk_objset(c, &c->ub->root, true);
	if (c->err == 0) {
		walk_datasets(c);
	}
}
