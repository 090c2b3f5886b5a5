/*
 * dir_node.c - the bytes of one directory node.
 *
 *   leaf:   header | slots, sorted by key ->      free      <- names | end
 *   inner:  header | children, sorted by key ->   free               | end
 *
 * Invariants: names fill [heap, end) without gaps, each used by exactly one slot; count slots and
 * the names don't overlap; keys grow strictly. A node that came from a drive has passed dnode_check
 * before anything here looks at it (bounds of the counters), leaf_get checks each slot it hands
 * out, and a node is checked deeply before it is changed: moving names relies on every slot being
 * right.
 */
#include "fs/dir.h"

#define HDR sizeof(struct dir_node_phys)

static inline struct dir_node_phys *
hdr(void *node)
{
	return node;
}

static inline const struct dir_node_phys *
chdr(const void *node)
{
	return node;
}

static inline struct dir_slot_phys *
slots(void *node)
{
	return (struct dir_slot_phys *)((uint8_t *)node + HDR);
}

static inline const struct dir_slot_phys *
cslots(const void *node)
{
	return (const struct dir_slot_phys *)((const uint8_t *)node + HDR);
}

static inline struct dir_child_phys *
children(void *node)
{
	return (struct dir_child_phys *)((uint8_t *)node + HDR);
}

static inline const struct dir_child_phys *
cchildren(const void *node)
{
	return (const struct dir_child_phys *)((const uint8_t *)node + HDR);
}

uint32_t
dnode_count(const void *node)
{
	return le16_get(chdr(node)->count);
}

static void
set_count(void *node, uint32_t count)
{
	hdr(node)->count = le16_of((uint16_t)count);
}

static uint32_t
heap_of(const void *node)
{
	return le16_get(chdr(node)->heap);
}

void
dnode_init(void *node, const struct dir_where *w, uint32_t magic)
{
	memset(node, 0, DIR_NODE_BYTES);
	struct dir_node_phys *h = hdr(node);
	h->magic = le32_of(magic);
	h->level = le16_of((uint16_t)w->level);
	h->block = le64_of(w->block);
	h->object = le64_of(w->object);
	h->generation = le64_of(w->generation);
	if (magic == DIR_LEAF_MAGIC) {
		h->heap = le16_of(DIR_NODE_BYTES);
	}
}

int
dnode_check(const void *node, const struct dir_where *w)
{
	const struct dir_node_phys *h = node;
	uint32_t magic = w->level == 0 ? DIR_LEAF_MAGIC : DIR_INNER_MAGIC;
	if (le32_get(h->magic) != magic || le16_get(h->level) != w->level ||
	    le64_get(h->block) != w->block || le64_get(h->object) != w->object ||
	    le64_get(h->generation) != w->generation) {
		return -ERR_CORRUPT;
	}
	size_t count = le16_get(h->count);
	if (w->level > 0) {
		size_t room = (DIR_NODE_BYTES - HDR) / sizeof(struct dir_child_phys);
		return count >= 1 && count <= room ? 0 : -ERR_CORRUPT;
	}
	size_t heap = le16_get(h->heap);
	bool fits = heap <= DIR_NODE_BYTES && HDR + count * sizeof(struct dir_slot_phys) <= heap;
	return fits ? 0 : -ERR_CORRUPT;
}

static bool
name_within(const void *node, const struct dir_slot_phys *s)
{
	uint32_t off = le16_get(s->name_off), len = s->name_len;
	return len > 0 && off >= heap_of(node) && off + len <= DIR_NODE_BYTES;
}

/* Order and bounds, which moving things about relies on; what the entries say is looked at by
 * leaf_get. */
static int
check_leaf_slots(const void *node)
{
	uint64_t last = 0;
	size_t bytes = 0;
	for (uint32_t i = 0; i < dnode_count(node); i++) {
		const struct dir_slot_phys *s = &cslots(node)[i];
		uint64_t key = le64_get(s->key);
		if (!name_within(node, s) || key <= last) {
			return -ERR_CORRUPT;
		}
		last = key;
		bytes += s->name_len;
	}
	return bytes == DIR_NODE_BYTES - heap_of(node) ? 0 : -ERR_CORRUPT;
}

static int
check_inner_slots(const void *node, const struct dir_where *w)
{
	for (uint32_t i = 0; i < dnode_count(node); i++) {
		uint64_t block = inner_block(node, i);
		if (block >= w->blocks || block == w->block) {
			return -ERR_CORRUPT;
		}
		if (i > 0 && inner_key(node, i) <= inner_key(node, i - 1)) {
			return -ERR_CORRUPT;
		}
	}
	return 0;
}

int
dnode_check_deep(const void *node, const struct dir_where *w)
{
	int err = dnode_check(node, w);
	if (err != 0) {
		return err;
	}
	return w->level == 0 ? check_leaf_slots(node) : check_inner_slots(node, w);
}

/* ---- leaves ---- */

uint64_t
leaf_key(const void *node, uint32_t i)
{
	return le64_get(cslots(node)[i].key);
}

uint32_t
leaf_find(const void *node, uint64_t key)
{
	uint32_t lo = 0, hi = dnode_count(node);
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (leaf_key(node, mid) < key) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

int
leaf_get(
    const void *node, uint32_t i, struct dir_ent *out, const char **out_name, uint32_t *out_len)
{
	const struct dir_slot_phys *s = &cslots(node)[i];
	if (!name_within(node, s)) {
		return -ERR_CORRUPT;
	}
	uint32_t len = s->name_len;
	const char *name = (const char *)node + le16_get(s->name_off);
	uint64_t key = le64_get(s->key), object = le64_get(s->object);
	if (key < DIR_KEY_MIN || key > INT64_MAX || object == 0 || s->type < FS_REG ||
	    s->type > FS_FIFO || memchr(name, '/', len) != NULL || memchr(name, 0, len) != NULL) {
		return -ERR_CORRUPT;
	}
	*out = (struct dir_ent){.key = key,
	    .object = object,
	    .generation = le64_get(s->generation),
	    .type = (enum fs_type)s->type};
	*out_name = name;
	*out_len = len;
	return 0;
}

uint32_t
leaf_used(const void *node)
{
	return dnode_count(node) * (uint32_t)sizeof(struct dir_slot_phys) + DIR_NODE_BYTES -
	       heap_of(node);
}

bool
leaf_has_room(const void *node, uint32_t name_len)
{
	return HDR + leaf_used(node) + sizeof(struct dir_slot_phys) + name_len <= DIR_NODE_BYTES;
}

void
leaf_set(void *node, uint32_t i, const struct dir_ent *e)
{
	struct dir_slot_phys *s = &slots(node)[i];
	s->key = le64_of(e->key);
	s->object = le64_of(e->object);
	s->generation = le64_of(e->generation);
	s->type = (uint8_t)e->type;
}

void
leaf_insert(void *node, uint32_t i, const struct dir_ent *e, const char *name, uint32_t len)
{
	ASSERT(leaf_has_room(node, len));
	uint32_t count = dnode_count(node), heap = heap_of(node) - len;
	struct dir_slot_phys *s = slots(node);
	memmove(&s[i + 1], &s[i], (count - i) * sizeof(*s));
	memset(&s[i], 0, sizeof(*s));
	memcpy((uint8_t *)node + heap, name, len);
	s[i].name_off = le16_of((uint16_t)heap);
	s[i].name_len = (uint8_t)len;
	leaf_set(node, i, e);
	hdr(node)->heap = le16_of((uint16_t)heap);
	set_count(node, count + 1);
}

/* Closes the gap its name leaves: those below move up. */
void
leaf_delete(void *node, uint32_t i)
{
	struct dir_slot_phys *s = slots(node);
	uint32_t count = dnode_count(node), heap = heap_of(node);
	uint32_t off = le16_get(s[i].name_off), len = s[i].name_len;
	uint8_t *base = node;
	memmove(base + heap + len, base + heap, off - heap);
	memset(base + heap, 0, len);
	memmove(&s[i], &s[i + 1], (count - i - 1) * sizeof(*s));
	memset(&s[count - 1], 0, sizeof(*s));
	for (uint32_t k = 0; k < count - 1; k++) {
		uint32_t o = le16_get(s[k].name_off);
		if (o < off) {
			s[k].name_off = le16_of((uint16_t)(o + len));
		}
	}
	hdr(node)->heap = le16_of((uint16_t)(heap + len));
	set_count(node, count - 1);
}

static uint32_t
split_point(const void *node)
{
	uint32_t count = dnode_count(node), half = leaf_used(node) / 2, sum = 0, i = 0;
	while (i < count - 1 && sum < half) {
		sum += (uint32_t)sizeof(struct dir_slot_phys) + cslots(node)[i].name_len;
		i++;
	}
	return MAX(i, 1u);
}

/*
 * Packs the names of the first keep slots against the end again. scratch must take all of them;
 * right's gap does: what stays and what went fitted into one node together.
 */
static void
repack_names(void *node, uint32_t keep, uint8_t *scratch)
{
	struct dir_slot_phys *s = slots(node);
	uint8_t *base = node;
	uint32_t used = 0, heap = DIR_NODE_BYTES;
	for (uint32_t i = 0; i < keep; i++) {
		memcpy(scratch + used, base + le16_get(s[i].name_off), s[i].name_len);
		used += s[i].name_len;
	}
	uint32_t pos = 0;
	for (uint32_t i = 0; i < keep; i++) {
		heap -= s[i].name_len;
		memcpy(base + heap, scratch + pos, s[i].name_len);
		s[i].name_off = le16_of((uint16_t)heap);
		pos += s[i].name_len;
	}
	memset(scratch, 0, used);
	size_t end = HDR + keep * sizeof(*s);
	memset(base + end, 0, heap - end);
	hdr(node)->heap = le16_of((uint16_t)heap);
	set_count(node, keep);
}

/* As it is: what the entry says is none of our business here. */
static void
copy_slot(void *to, uint32_t at, const void *from, uint32_t i)
{
	const struct dir_slot_phys *s = &cslots(from)[i];
	struct dir_ent e = {.key = le64_get(s->key),
	    .object = le64_get(s->object),
	    .generation = le64_get(s->generation),
	    .type = (enum fs_type)s->type};
	leaf_insert(to, at, &e, (const char *)from + le16_get(s->name_off), s->name_len);
}

uint64_t
leaf_split(void *left, void *right)
{
	uint32_t count = dnode_count(left), mid = split_point(left);
	ASSERT(count >= 2);
	for (uint32_t i = mid; i < count; i++) {
		copy_slot(right, i - mid, left, i);
	}
	uint8_t *gap = (uint8_t *)right + HDR + (count - mid) * sizeof(struct dir_slot_phys);
	repack_names(left, mid, gap);
	return leaf_key(right, 0);
}

void
leaf_join(void *left, const void *right)
{
	for (uint32_t i = 0; i < dnode_count(right); i++) {
		copy_slot(left, dnode_count(left), right, i);
	}
}

/* ---- inner nodes ---- */

uint64_t
inner_key(const void *node, uint32_t i)
{
	return le64_get(cchildren(node)[i].key);
}

uint64_t
inner_block(const void *node, uint32_t i)
{
	return le64_get(cchildren(node)[i].block);
}

uint32_t
inner_find(const void *node, uint64_t key)
{
	uint32_t lo = 1, hi = dnode_count(node);
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (inner_key(node, mid) <= key) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo - 1;
}

bool
inner_has_room(const void *node)
{
	return HDR + (dnode_count(node) + 1) * sizeof(struct dir_child_phys) <= DIR_NODE_BYTES;
}

void
inner_insert(void *node, uint32_t i, uint64_t key, uint64_t block)
{
	ASSERT(inner_has_room(node));
	uint32_t count = dnode_count(node);
	struct dir_child_phys *c = children(node);
	memmove(&c[i + 1], &c[i], (count - i) * sizeof(*c));
	c[i].key = le64_of(key);
	c[i].block = le64_of(block);
	set_count(node, count + 1);
}

void
inner_delete(void *node, uint32_t i)
{
	uint32_t count = dnode_count(node);
	struct dir_child_phys *c = children(node);
	memmove(&c[i], &c[i + 1], (count - i - 1) * sizeof(*c));
	memset(&c[count - 1], 0, sizeof(*c));
	set_count(node, count - 1);
}

uint64_t
inner_split(void *left, void *right)
{
	uint32_t count = dnode_count(left), mid = count / 2;
	struct dir_child_phys *l = children(left);
	memcpy(children(right), &l[mid], (count - mid) * sizeof(*l));
	memset(&l[mid], 0, (count - mid) * sizeof(*l));
	set_count(left, mid);
	set_count(right, count - mid);
	return inner_key(right, 0);
}
