/*
 * export.c - exports compiled into one immutable table.
 *
 * Invariants
 *  1. A table never changes; a change of shares or of pools makes a new one and swaps the pointer.
 *  2. Every request holds the table it started with. A pool is let go only after the last table
 * that names it is unused.
 *  3. No rule matched means no access. There is no default that lets anyone in.
 */
#include "nfsd/export.h"

struct export_table *
export_table_get(struct nfsd *n)
{
	spin_lock(&n->table_guard);
	struct export_table *t = n->table;
	atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
	spin_unlock(&n->table_guard);
	return t;
}

static void
export_table_free(struct export_table *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (t->exports[i].ds != NULL) {
			fs_ds_close(t->exports[i].ds);
		}
		mem_free(t->exports[i].spec.rules);
	}
	mem_free(t->exports);
	mem_free(t->index);
	mem_free(t);
}

void
export_table_put(struct export_table *t)
{
	if (atomic_fetch_sub(&t->refs, 1) == 1) {
		export_table_free(t);
	}
}

static uint32_t
export_hash(uint64_t guid, uint32_t share)
{
	uint64_t h = (guid ^ (uint64_t)share * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
	return (uint32_t)(h >> 32);
}

struct export *
export_find(struct export_table *t, uint64_t dataset_guid, uint32_t handle_share)
{
	for (uint32_t at = export_hash(dataset_guid, handle_share);; at++) {
		uint32_t slot = t->index[at & t->index_mask];
		if (slot == 0) {
			return NULL;
		}
		struct export *e = &t->exports[slot - 1];
		uint32_t share = handle_share == 0 ? e->handle_share : e->spec.share_id;
		if (e->dataset_guid == dataset_guid && share == handle_share) {
			return e;
		}
	}
}

static void
export_index_add(struct export_table *t, uint32_t position, uint32_t share)
{
	uint32_t at = export_hash(t->exports[position].dataset_guid, share);
	while (t->index[at & t->index_mask] != 0) {
		at++;
	}
	t->index[at & t->index_mask] = position + 1;
}

static int
export_copy_spec(struct export *e, const struct nfsd_export *from)
{
	e->spec = *from;
	e->spec.rules = mem_zalloc_array(MAX(from->rule_count, 1u), sizeof(*from->rules));
	if (e->spec.rules == NULL) {
		return -ENOMEM;
	}
	memcpy(e->spec.rules, from->rules, from->rule_count * sizeof(*from->rules));
	return 0;
}

/* Walks the share's sub-directory, with root's rights, to the object that stands for its top. */
static int
export_find_top(struct export *e)
{
	static const struct fs_cred root_cred = {0};
	struct fs_node *node;
	int err = fs_root(e->ds, &node);
	const char *at = e->spec.subdir;
	while (err == 0 && *at != '\0') {
		size_t len = strcspn(at, "/");
		struct fs_node *next = node;
		if (len > 0) {
			err = fs_lookup(node, &root_cred, at, (uint32_t)len, &next);
			fs_node_put(node);
		}
		node = next;
		at += len + (at[len] == '/' ? 1 : 0);
	}
	if (err != 0) {
		return err;
	}
	if (e->spec.subdir[0] != '\0') {
		e->top_object = fs_node_object(node);
		e->top_generation = fs_node_generation(node);
	}
	fs_node_put(node);
	return 0;
}

/* Finds the dataset among the pools in service. One that isn't there leaves the export listed but
 * closed. */
static void
export_bind(struct nfsd *n, struct export *e)
{
	list_for_each(item, &n->pools)
	{
		struct nfsd_pool *np = list_entry(item, struct nfsd_pool, link);
		const char *name = pool_name(np->pool);
		size_t len = strlen(name);
		if (strncmp(e->spec.dataset, name, len) != 0 ||
		    (e->spec.dataset[len] != '/' && e->spec.dataset[len] != '\0')) {
			continue;
		}
		if (fs_ds_open(np->fp, e->spec.dataset, &e->ds) != 0) {
			return;
		}
		e->pool = np;
		e->dataset_guid = fs_ds_guid(e->ds);
		e->handle_share = e->spec.share_id;
		int err = export_find_top(e);
		if (err != 0) {
			log_warn("share-closed path=%s reason=%s", e->spec.path, err_str(err));
			fs_ds_close(e->ds);
			e->ds = NULL;
			e->pool = NULL;
		}
		return;
	}
}

static int
export_compile(struct nfsd *n, struct export_table **out)
{
	struct export_table *t = mem_zalloc(sizeof(*t));
	if (t == NULL) {
		return -ENOMEM;
	}
	atomic_init(&t->refs, 1);
	t->n = n;
	uint32_t slots = 16;
	while (slots < n->published_count * 4 + 2) { /* each may be in it twice */
		slots *= 2;
	}
	t->index_mask = slots - 1;
	t->index = mem_zalloc_array(slots, sizeof(*t->index));
	t->exports = mem_zalloc_array(MAX(n->published_count, 1u), sizeof(*t->exports));
	if (t->index == NULL || t->exports == NULL) {
		export_table_free(t);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n->published_count; i++) {
		struct export *e = &t->exports[i];
		if (export_copy_spec(e, &n->published[i]) != 0) {
			export_table_free(t);
			return -ENOMEM;
		}
		t->count++;
		export_bind(n, e);
		if (e->ds == NULL) {
			continue;
		}
		export_index_add(t, i, e->spec.share_id);
		if (e->top_object == 0 && export_find(t, e->dataset_guid, 0) == NULL) {
			e->handle_share = 0;
			export_index_add(t, i, 0);
		}
	}
	*out = t;
	return 0;
}

#define EXPORT_DRAIN_STEP_NS NSEC_PER_MSEC

int
export_republish(struct nfsd *n, bool wait)
{
	struct export_table *fresh;
	int err = export_compile(n, &fresh);
	if (err != 0) {
		return err;
	}
	spin_lock(&n->table_guard);
	struct export_table *old = n->table;
	n->table = fresh;
	spin_unlock(&n->table_guard);
	if (old == NULL) {
		return 0;
	}
	/* Requests end on their own: each wait inside them has a deadline or an owner. */
	while (wait && atomic_load(&old->refs) > 1) {
		fiber_sleep(EXPORT_DRAIN_STEP_NS);
	}
	export_table_put(old);
	return 0;
}

#define SETTLE_NS (5 * NSEC_PER_SEC)

int
export_settle(struct request *r, uint64_t dataset_guid, uint32_t handle_share)
{
	uint64_t deadline = rt_now_ns() + SETTLE_NS;
	for (;;) {
		export_table_put(r->table);
		r->table = export_table_get(r->n);
		const struct export *e = export_find(r->table, dataset_guid, handle_share);
		if (e == NULL || !fs_ds_is_moving(e->ds)) {
			return 0;
		}
		if (rt_now_ns() >= deadline || pool_is_suspended(e->pool->pool)) {
			return -EAGAIN;
		}
		fiber_sleep(NSEC_PER_MSEC);
	}
}

static bool
rule_matches(const struct nfsd_rule *rule, const uint8_t ip[16])
{
	unsigned whole = rule->prefix_bits / 8, rest = rule->prefix_bits % 8;
	bool wide = rule->prefix_bits > 0 && rule->prefix_bits < NFSD_MAPPED_BITS;
	if (wide && nfsd_is_mapped(ip)) {
		return false; /* a network of IPv6 has no IPv4 clients, though their addresses are
				 mapped into ::/80 and what is wider */
	}
	if (memcmp(rule->ip, ip, whole) != 0) {
		return false;
	}
	return rest == 0 || ((rule->ip[whole] ^ ip[whole]) >> (8 - rest)) == 0;
}

#define PRIVILEGED_PORT_MAX 1023

enum export_verdict
export_check(const struct export *e, const struct net_addr *peer, struct export_access *out)
{
	for (uint32_t i = 0; i < e->spec.rule_count; i++) {
		const struct nfsd_rule *rule = &e->spec.rules[i];
		if (!rule_matches(rule, peer->ip)) {
			continue;
		}
		if (!e->spec.insecure && peer->port > PRIVILEGED_PORT_MAX) {
			return EXPORT_BAD_PORT;
		}
		*out = (struct export_access){.readonly = rule->readonly, .squash = rule->squash};
		return EXPORT_OK;
	}
	return EXPORT_NO_RULE;
}

void
export_squash(const struct export *e, const struct export_access *a, struct fs_cred *cred)
{
	if (a->squash == NFSD_ALL_SQUASH) {
		*cred = (struct fs_cred){.uid = e->spec.anon_uid, .gid = e->spec.anon_gid};
		return;
	}
	if (a->squash == NFSD_NO_ROOT_SQUASH) {
		return;
	}
	if (cred->uid == 0) {
		cred->uid = e->spec.anon_uid;
	}
	if (cred->gid == 0) {
		cred->gid = e->spec.anon_gid;
	}
	for (uint32_t i = 0; i < cred->group_count; i++) {
		if (cred->groups[i] == 0) {
			cred->groups[i] = e->spec.anon_gid;
		}
	}
}
