/*
 * damage.c - which files have blocks that nothing can repair.
 *
 * A reader that meets one knows whose it is. A scan goes by address and doesn't: when it has ended,
 * and only if it found such blocks, the trees are walked for them (damage_name), by block pointers
 * alone, below the committed root. An object table that can't be read is noted as object 0 of its
 * dataset; what belongs to the pool itself as dataset 0.
 *
 * The list is in memory, each block once, bounded; who wants it to last keeps it (admin/) and gives
 * it back after an import.
 */
#include "pool/damage.h"

#include "pool/block_int.h"
#include "pool/rooted.h"

#define DAMAGE_MAX 256u

struct damage {
	struct spin lock;
	uint32_t count;
	uint64_t changes;
	struct pool_damage list[DAMAGE_MAX];
};

int
damage_open(struct damage **out)
{
	struct damage *d = mem_zalloc(sizeof(*d));

	if (d == NULL) {
		return -ENOMEM;
	}
	spin_init(&d->lock);
	*out = d;
	return 0;
}

void
damage_close(struct damage *d)
{
	mem_free(d);
}

static bool
same(const struct pool_damage *a, const struct pool_damage *b)
{
	return a->dataset == b->dataset && a->object == b->object && a->block == b->block;
}

void
pool_damage_add(struct pool *p, const struct pool_damage *entry)
{
	struct damage *d = p->damage;
	bool known = false;

	spin_lock(&d->lock);
	for (uint32_t i = 0; i < d->count && !known; i++) {
		known = same(&d->list[i], entry);
	}
	if (!known && d->count < DAMAGE_MAX) {
		d->list[d->count++] = *entry;
		d->changes++;
	}
	spin_unlock(&d->lock);
}

void
pool_damage_forget(struct pool *p, const struct pool_damage *entry)
{
	struct damage *d = p->damage;

	spin_lock(&d->lock);
	for (uint32_t i = 0; i < d->count; i++) {
		if (same(&d->list[i], entry)) {
			d->list[i] = d->list[--d->count];
			d->changes++;
			break;
		}
	}
	spin_unlock(&d->lock);
}

uint32_t
pool_damage_get(struct pool *p, struct pool_damage *out, uint32_t max, uint64_t *out_changes)
{
	struct damage *d = p->damage;
	uint32_t n;

	spin_lock(&d->lock);
	n = MIN(d->count, max);
	memcpy(out, d->list, n * sizeof(*out));
	*out_changes = d->changes;
	spin_unlock(&d->lock);
	return n;
}

void
damage_note(struct pool *p, uint64_t dataset, uint64_t object, uint64_t block)
{
	struct pool_damage entry = {dataset, object, block};

	if (!atomic_load(&p->suspended) && !block_sets_are_away(p)) {
		pool_damage_add(p, &entry);
	}
}

/* ---- whose is it? ---- */

struct naming {
	struct pool *p;
	const struct damage_addr *bad;
	uint32_t count;
	uint64_t dataset, object; /* being walked; object 0: the table itself */
	bool accounts;            /* told as the table: no file is concerned */
};

static void name_slots(struct naming *n, const struct iobuf *buf, uint32_t len, uint64_t block);

static bool
is_bad(const struct naming *n, const struct bp *bp)
{
	for (uint32_t i = 0; i < bp_copies(bp); i++) {
		for (uint32_t k = 0; k < n->count; k++) {
			if (n->bad[k].set == bp_addr_set(&bp->addr[i]) &&
			    n->bad[k].sector == bp_addr_sector(&bp->addr[i])) {
				return true;
			}
		}
	}
	return false;
}

/* A block with several copies is damaged only when none of them can be read; reading it repairs the
 * others. */
static void
name_tree(struct naming *n, const struct bp *bp, unsigned level, uint64_t index)
{
	const struct bp *kids;
	struct bp_prop prop;
	struct iobuf *buf;

	if (bp_is_hole(bp) || bp_is_embedded(bp) || bp_decode(bp, n->p->v.set_count, &prop) != 0 ||
	    prop.level != level) {
		return;
	}
	if (level == 0 && (n->object != 0 || n->accounts) &&
	    (bp_copies(bp) == 1 || !is_bad(n, bp))) {
		if (is_bad(n, bp)) {
			damage_note(n->p, n->dataset, n->object, index);
		}
		return;
	}
	if (block_read(n->p, bp, BLOCK_READ_NOCACHE | BLOCK_READ_META, &buf) != 0) {
		damage_note(n->p, n->dataset, n->object, index << (level * INDIRECT_SHIFT));
		return;
	}
	kids = (const struct bp *)(const void *)buf->data;
	for (uint64_t i = 0; level > 0 && i < prop.logical_bytes / sizeof(*kids); i++) {
		name_tree(n, &kids[i], level - 1, (index << INDIRECT_SHIFT) + i);
	}
	if (level == 0 && n->object == 0 && !n->accounts) {
		name_slots(n, buf, prop.logical_bytes, index);
	}
	iobuf_unref(buf);
	fiber_maybe_yield();
}

static void
name_slots(struct naming *n, const struct iobuf *buf, uint32_t len, uint64_t block)
{
	const struct object_slot *slots = (const struct object_slot *)(const void *)buf->data;
	uint32_t per_block = OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES;

	for (uint32_t i = 0; i < MIN(per_block, len / OBJECT_SLOT_BYTES); i++) {
		n->object = block * per_block + i;
		if (n->object != 0 && slots[i].type != OBJ_FREE &&
		    rooted_slot_check(&slots[i]) == 0 && (slots[i].flags & OBJECT_INLINE) == 0) {
			name_tree(n, &slots[i].data, slots[i].levels - 1u, 0);
		}
	}
	n->object = 0;
}

static void
name_objset(struct naming *n, const struct bp *root, uint64_t dataset)
{
	const struct objset_phys *os;
	struct iobuf *buf;

	n->dataset = dataset;
	n->object = 0;
	if (bp_is_hole(root)) {
		return;
	}
	if (rooted_objset(n->p, root, &buf) != 0) {
		damage_note(n->p, dataset, 0, 0);
		return;
	}
	os = (const struct objset_phys *)(const void *)buf->data;
	if (rooted_slot_check(&os->table) == 0) {
		name_tree(n, &os->table.data, os->table.levels - 1u, 0);
	}
	if (os->accounts.type == OBJ_ACCOUNTS && rooted_slot_check(&os->accounts) == 0) {
		n->accounts = true;
		name_tree(n, &os->accounts.data, os->accounts.levels - 1u, 0);
		n->accounts = false;
	}
	iobuf_unref(buf);
}

static void
name_datasets(struct naming *n, const struct bp *mos)
{
	struct dataset_phys *phys = mem_zalloc(sizeof(*phys));
	struct object_slot slot;
	struct iobuf *buf;
	uint64_t end = 0;

	if (phys != NULL && rooted_objset(n->p, mos, &buf) == 0) {
		end = le64_get(((const struct objset_phys *)(const void *)buf->data)->next_object);
		iobuf_unref(buf);
	}
	for (uint64_t object = 0; object < end; object++) {
		if (rooted_slot(n->p, mos, object, &slot) == 0 && slot.type == OBJ_DATASET &&
		    rooted_read(n->p, &slot, 0, phys, sizeof(*phys)) == 0 &&
		    le64_get(phys->magic) == DATASET_MAGIC) {
			name_objset(n, &phys->root, le64_get(phys->guid));
		}
		fiber_maybe_yield();
	}
	mem_free(phys);
}

void
damage_name(struct pool *p, const struct damage_addr *bad, uint32_t count)
{
	struct naming n = {.p = p, .bad = bad, .count = count};
	uint64_t token = space_read_enter(p->space);
	struct bp mos;

	mutex_lock(&p->config_lock);
	mos = p->ub.root;
	mutex_unlock(&p->config_lock);
	name_objset(&n, &mos, 0);
	name_datasets(&n, &mos);
	space_read_exit(p->space, token);
}
