/* model.c - objects, names and contents of the model. Calls in flight: model_op.c. */
#include <stdlib.h>
#include "tests/sim/model_int.h"

uint64_t
m_rand(struct m_rand *r)
{
	r->state += 0x9e3779b97f4a7c15ull;
	uint64_t z = r->state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint32_t
m_below(struct m_rand *r, uint32_t n)
{
	return (uint32_t)(m_rand(r) % n);
}

bool
m_chance(struct m_rand *r, uint32_t percent)
{
	return m_below(r, 100) < percent;
}

static void *
must_realloc(void *old, size_t len)
{
	void *p = realloc(old, len);
	ASSERT(p != NULL);
	return p;
}

static void *
must_zalloc(size_t len)
{
	void *p = calloc(1, len);
	ASSERT(p != NULL);
	return p;
}

/* ---- contents ---- */

void
m_pattern(uint64_t key, uint64_t off, uint8_t *out, uint32_t len)
{
	uint64_t word = 0;
	for (uint32_t i = 0; i < len; i++) {
		uint64_t at = off + i;
		if (i == 0 || at % 8 == 0) {
			struct m_rand r = {key ^ (at / 8) * 0xd1342543de82ef95ull};
			word = m_rand(&r);
		}
		out[i] = (uint8_t)(word >> (8 * (at % 8)));
	}
}

static void
bytes_resize(struct m_bytes *b, uint64_t size)
{
	if (size > b->cap) {
		b->cap = MAX(size, b->cap * 2);
		b->data = must_realloc(b->data, b->cap);
	}
	if (size > b->size) {
		memset(b->data + b->size, 0, size - b->size);
	}
	b->size = size;
}

void
m_state_copy(struct m_state *to, const struct m_state *from)
{
	struct m_bytes bytes = to->bytes;
	*to = *from;
	to->bytes = bytes;
	to->bytes.size = 0;
	bytes_resize(&to->bytes, from->bytes.size);
	if (from->bytes.size > 0) {
		memcpy(to->bytes.data, from->bytes.data, from->bytes.size);
	}
}

static void
change_data(struct m_state *s, const struct m_change *c)
{
	if (c->len == 0) {
		return;
	}
	if (c->off + c->len > s->bytes.size) {
		bytes_resize(&s->bytes, c->off + c->len);
	}
	m_pattern(c->key, c->off, s->bytes.data + c->off, c->len);
}

void
m_change_apply(struct m_state *s, const struct m_change *c)
{
	if (c->write) {
		change_data(s, c);
	}
	if (c->set_size) {
		bytes_resize(&s->bytes, c->size);
	}
	s->mode = c->set_mode ? c->mode : s->mode;
	s->uid = c->set_uid ? c->uid : s->uid;
	s->gid = c->set_uid ? c->gid : s->gid;
	s->times_known = c->times_known;
	s->mtime = c->mtime_after;
	s->ctime = c->ctime_after;
}

void
model_settle(struct m_node *n)
{
	if (n->pending_count > 0) {
		m_state_copy(&n->base, &n->now);
		n->pending_count = 0;
	}
}

void
model_change(struct model *m, struct m_node *n, const struct m_change *c, bool durable)
{
	m_change_apply(&n->now, c);
	n->touched = m->clock;
	if (durable) {
		n->pending_count++; /* so that settle has something to do */
		model_settle(n);
		return;
	}
	if (n->pending_count == n->pending_cap) {
		n->pending_cap = MAX(n->pending_cap * 2, 8u);
		n->pending = must_realloc(n->pending, n->pending_cap * sizeof(*n->pending));
	}
	n->pending[n->pending_count++] = *c;
}

void
model_fall_back(struct m_node *n, uint32_t kept)
{
	ASSERT(kept <= n->pending_count);
	for (uint32_t i = 0; i < kept; i++) {
		m_change_apply(&n->base, &n->pending[i]);
	}
	n->pending_count = 0;
	m_state_copy(&n->now, &n->base);
}

/* ---- objects and names ---- */

struct m_node *
model_node_new(struct model *m, ftype3 type)
{
	struct m_node *n = must_zalloc(sizeof(*n));
	n->id = m->next_id++;
	n->type = type;
	list_init(&n->names);
	list_push_back(&m->nodes, &n->link);
	m->node_count++;
	return n;
}

struct m_name *
model_find(struct m_node *dir, const char *text)
{
	list_for_each(it, &dir->names)
	{
		struct m_name *name = list_entry(it, struct m_name, link);
		if (strcmp(name->text, text) == 0) {
			return name;
		}
	}
	return NULL;
}

struct m_name *
model_name(struct m_node *dir, const char *text)
{
	struct m_name *name = model_find(dir, text);
	if (name == NULL) {
		name = must_zalloc(sizeof(*name));
		name->dir = dir;
		ASSERT(strlen(text) <= M_NAME_MAX);
		memcpy(name->text, text, strlen(text));
		list_push_back(&dir->names, &name->link);
	}
	return name;
}

bool
model_is_below(const struct m_node *dir, const struct m_node *top)
{
	while (dir != NULL && dir != top) {
		dir = dir->up;
	}
	return dir == top;
}

static void
node_free(struct m_node *n)
{
	list_remove(&n->link);
	list_for_each_safe(it, next, &n->names)
	{
		list_remove(it);
		free(list_entry(it, struct m_name, link));
	}
	free(n->base.bytes.data);
	free(n->now.bytes.data);
	free(n->pending);
	free(n->target);
	free(n);
}

void
model_init(struct model *m)
{
	*m = (struct model){.next_id = 1};
	list_init(&m->nodes);
	list_init(&m->gone);
	list_init(&m->inflight);
	list_init(&m->done);
	m->root = model_node_new(m, NF3DIR);
	m->root->base.mode = m->root->now.mode = 0755;
	m->root->nlink = 1;
}

static void
ops_free(struct model *m, struct list *ops)
{
	list_for_each_safe(it, next, ops)
	{
		model_op_end(m, list_entry(it, struct m_op, link), false);
	}
}

void
model_forget_replies(struct model *m)
{
	ops_free(m, &m->done);
	m->done_count = 0;
}

void
model_fini(struct model *m)
{
	ops_free(m, &m->inflight);
	ops_free(m, &m->done);
	struct list *lists[] = {&m->nodes, &m->gone};
	for (unsigned i = 0; i < ARRAY_LEN(lists); i++) {
		list_for_each_safe(it, next, lists[i])
		{
			node_free(list_entry(it, struct m_node, link));
		}
	}
}

#define GONE_MAX 48u

static bool
op_names_node(const struct m_op *op, const struct m_node *n)
{
	return op->node == n || op->victim == n || (op->name != NULL && op->name->dir == n) ||
	       (op->name2 != NULL && op->name2->dir == n);
}

static bool
gone_in_use(const struct model *m, const struct m_node *n)
{
	list_for_each(it, (struct list *)(uintptr_t)&m->inflight)
	{
		if (op_names_node(list_entry(it, struct m_op, link), n)) {
			return true;
		}
	}
	return false;
}

/* Forgets the oldest of what is gone, and the answered calls that were about it. */
static void
gone_trim(struct model *m)
{
	if (m->gone_count <= GONE_MAX) {
		return;
	}
	struct m_node *n = list_first(&m->gone, struct m_node, link);
	if (gone_in_use(m, n) || n->users > 0 || n->holder != NULL) {
		return;
	}
	list_for_each_safe(it, next, &m->done)
	{
		struct m_op *op = list_entry(it, struct m_op, link);
		if (op_names_node(op, n)) {
			model_op_end(m, op, false);
			m->done_count--;
		}
	}
	node_free(n);
	m->gone_count--;
}

void
model_unlinked(struct model *m, struct m_node *n)
{
	if (n->type != NF3DIR && --n->nlink > 0) {
		return;
	}
	n->nlink = 0;
	if (n->type == NF3DIR) {
		n->up->subdirs--;
		n->up = NULL;
	}
	list_remove(&n->link);
	list_push_back(&m->gone, &n->link);
	m->node_count--;
	m->gone_count++;
	gone_trim(m);
}
