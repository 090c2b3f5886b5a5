/*
 * nfsd.c - starting and stopping the service; pools coming and going.
 */
#include <sodium.h>
#include <stdlib.h>
#include "nfsd/drc.h"
#include "nfsd/export.h"

#define DRC_ENTRIES_MAX 16384u
#define SWEEP_NS (5 * NSEC_PER_SEC)
#define STOP_POLL_NS (5 * NSEC_PER_MSEC)

static void
nfsd_acceptor(void *arg)
{
	struct listener *l = arg;
	struct net_conn *net;
	int err;
	while ((err = net_accept(l->tcp, &net)) != -ECANCELED) {
		if (err == 0) {
			conn_accept(l, net);
			fiber_maybe_yield();
		} else {
			log_limited(LOG_WARN, "accept-failed reason=%s", err_str(err));
			fiber_sleep(100 * NSEC_PER_MSEC);
		}
	}
	wg_done(&l->n->fibers);
}

static void
nfsd_sweeper(void *arg)
{
	struct nfsd *n = arg;
	uint64_t next = rt_now_ns() + SWEEP_NS;
	while (!atomic_load(&n->stopping)) {
		fiber_sleep(100 * NSEC_PER_MSEC);
		conn_relieve(n);
		if (rt_now_ns() >= next) {
			conn_sweep(n);
			next = rt_now_ns() + SWEEP_NS;
		}
	}
	wg_done(&n->fibers);
}

static uint16_t
nfsd_tcp_port(const struct listener *l)
{
	struct net_addr addr;
	net_listener_addr(l->tcp, &addr);
	return addr.port;
}

/* Opens one port for programs; datagrams as well when out_udp. */
static int
nfsd_open_port(
    struct nfsd *n, uint16_t port, unsigned programs, uint16_t *out_port, uint16_t *out_udp)
{
	struct listener *l = &n->listeners[n->listener_count];
	*l = (struct listener){.n = n, .programs = programs};
	int err = net_listen(n->cfg.host, port, &l->tcp);
	if (err != 0) {
		return err;
	}
	*out_port = nfsd_tcp_port(l);
	if (out_udp != NULL) {
		err = net_udp_open(n->cfg.host, *out_port, &l->udp);
		if (err != 0) {
			log_warn("udp-port-not-served port=%u reason=%s", *out_port, err_str(err));
			l->udp = NULL;
		}
		*out_udp = err == 0 ? *out_port : 0;
	}
	n->listener_count++;
	return 0;
}

static int
nfsd_open_ports(struct nfsd *n)
{
	bool one = n->cfg.mount_port == n->cfg.nfs_port && n->cfg.nfs_port != 0;
	int err = nfsd_open_port(n, n->cfg.nfs_port, one ? SERVE_NFS | SERVE_MOUNT : SERVE_NFS,
	    &n->nfs_port, one ? &n->mount_udp : NULL);
	if (err != 0) {
		return err;
	}
	if (one) {
		n->mount_port = n->nfs_port;
	} else {
		err = nfsd_open_port(
		    n, n->cfg.mount_port, SERVE_MOUNT, &n->mount_port, &n->mount_udp);
		if (err != 0) {
			return err;
		}
	}
	if (n->cfg.portmap) {
		err = nfsd_open_port(
		    n, n->cfg.portmap_port, SERVE_PORTMAP, &n->portmap_port, &n->portmap_udp);
		if (err != 0) {
			log_warn("portmap-not-served port=%u reason=%s", n->cfg.portmap_port,
			    err_str(err));
		}
	}
	return 0;
}

void
nfsd_serve(struct nfsd *n)
{
	for (unsigned i = 0; i < n->listener_count; i++) {
		wg_add(&n->fibers, n->listeners[i].udp != NULL ? 2 : 1);
		fiber_spawn_wait(0, FIBER_ADMIN, "nfs-accept", nfsd_acceptor, &n->listeners[i]);
		if (n->listeners[i].udp != NULL) {
			fiber_spawn_wait(0, FIBER_ADMIN, "udp", udp_serve, &n->listeners[i]);
		}
	}
	wg_add(&n->fibers, 1);
	fiber_spawn_wait(0, FIBER_ADMIN, "nfs-sweep", nfsd_sweeper, n);
}

static void
nfsd_close_ports(struct nfsd *n)
{
	for (unsigned i = 0; i < n->listener_count; i++) {
		net_listener_close(n->listeners[i].tcp);
		if (n->listeners[i].udp != NULL) {
			net_udp_close(n->listeners[i].udp);
		}
	}
}

static void
nfsd_free_published(struct nfsd_export *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		mem_free(list[i].rules);
	}
	mem_free(list);
}

static void
nfsd_free(struct nfsd *n)
{
	if (n->table != NULL) {
		export_table_put(n->table);
	}
	nfsd_free_published(n->published, n->published_count);
	if (n->drc != NULL) {
		drc_destroy(n->drc);
	}
	if (n->mounts != NULL) {
		mount_list_destroy(n->mounts);
	}
	mem_free(n);
}

int
nfsd_start(const struct nfsd_config *cfg, struct nfsd **out)
{
	if (sodium_init() < 0) {
		return -EIO;
	}
	struct nfsd *n = mem_zalloc(sizeof(*n));
	if (n == NULL) {
		return -ENOMEM;
	}
	n->cfg = *cfg;
	if (n->cfg.conn_max == 0) {
		n->cfg.conn_max = NFSD_CONN_MAX_DEFAULT;
	}
	if (n->cfg.idle_timeout_s == 0) {
		n->cfg.idle_timeout_s = 600;
	}
	struct arena_info arena;
	arena_get_info(&arena);
	n->requests_max = (uint32_t)MIN(
	    arena.budget_bytes[ARENA_SEND] / 2 / IOBUF_BYTES_MIN, (uint64_t)UINT32_MAX);
	list_init(&n->conns);
	list_init(&n->pools);
	spin_init(&n->conns_guard);
	spin_init(&n->table_guard);
	mutex_init(&n->config_lock, RANK_NFSD_EXPORTS);
	wg_init(&n->fibers);
	int err = drc_create(DRC_ENTRIES_MAX, &n->drc);
	if (err == 0) {
		err = mount_list_create(&n->mounts);
	}
	if (err == 0) {
		err = export_republish(n, false);
	}
	if (err == 0) {
		err = nfsd_open_ports(n);
	}
	if (err != 0) {
		nfsd_close_ports(n);
		nfsd_free(n);
		return err;
	}
	if (!cfg->wait) {
		nfsd_serve(n);
	}
	*out = n;
	return 0;
}

/* Requests in progress get until the deadline to be answered. */
static void
nfsd_drain(struct nfsd *n, uint64_t deadline_ns)
{
	while (rt_now_ns() < deadline_ns) {
		spin_lock(&n->table_guard);
		bool busy = atomic_load(&n->table->refs) > 1;
		spin_unlock(&n->table_guard);
		if (!busy) {
			return;
		}
		fiber_sleep(STOP_POLL_NS);
	}
}

void
nfsd_stop(struct nfsd *n, uint64_t drain_ns)
{
	atomic_store(&n->stopping, true);
	nfsd_close_ports(n);
	nfsd_drain(n, rt_now_ns() + drain_ns);
	conn_shutdown_all(n);
	wg_wait(&n->fibers);
	while (!list_empty(&n->pools)) {
		nfsd_remove_pool(n, list_first(&n->pools, struct nfsd_pool, link)->pool);
	}
	nfsd_free(n);
}

void
nfsd_ports(const struct nfsd *n, uint16_t *out_nfs, uint16_t *out_mount, uint16_t *out_portmap)
{
	*out_nfs = n->nfs_port;
	*out_mount = n->mount_port;
	*out_portmap = n->portmap_port;
}

int
nfsd_add_pool(struct nfsd *n, struct pool *p, struct fs_pool **out)
{
	struct nfsd_pool *np = mem_zalloc(sizeof(*np));
	if (np == NULL) {
		return -ENOMEM;
	}
	list_init(&np->link);
	np->pool = p;
	if (!DELIBERATE_BUG("nfsd-verf-constant")) {
		rt_random_bytes(np->write_verf, sizeof(np->write_verf));
	}
	int err = fs_pool_open(p, drc_restore, n->drc, &np->fp);
	if (err != 0) {
		mem_free(np);
		return err;
	}
	err = fh_keys_load(np);
	if (err == 0) {
		mutex_lock(&n->config_lock);
		list_push_back(&n->pools, &np->link);
		err = export_republish(n, false);
		if (err != 0) {
			list_remove(&np->link);
		}
		mutex_unlock(&n->config_lock);
	}
	if (err != 0) {
		fs_pool_close(np->fp);
		mem_free(np);
		return err;
	}
	*out = np->fp;
	return 0;
}

void
nfsd_remove_pool(struct nfsd *n, struct pool *p)
{
	struct nfsd_pool *found = NULL;
	mutex_lock(&n->config_lock);
	list_for_each(item, &n->pools)
	{
		struct nfsd_pool *np = list_entry(item, struct nfsd_pool, link);
		if (np->pool == p) {
			found = np;
		}
	}
	if (found != NULL) {
		list_remove(&found->link);
		while (export_republish(n, true) != 0) {
			fiber_sleep(100 * NSEC_PER_MSEC); /* out of memory for a table: try again
							     rather than leave it in use */
		}
	}
	mutex_unlock(&n->config_lock);
	if (found != NULL) {
		fs_pool_close(found->fp);
		mem_free(found);
	}
}

void
nfsd_pools_changing(struct nfsd *n, bool changing)
{
	if (changing) {
		atomic_fetch_add(&n->pools_changing, 1);
	} else {
		atomic_fetch_sub(&n->pools_changing, 1);
	}
}

/* Oldest first, whatever order they came in: which one a handle without a number means must not
 * change with a restart. */
static int
nfsd_compare_exports(const void *x, const void *y)
{
	const struct nfsd_export *a = x, *b = y;
	if (a->share_id != b->share_id) {
		return a->share_id < b->share_id ? -1 : 1;
	}
	return strcmp(a->path, b->path);
}

static int
nfsd_copy_exports(const struct nfsd_export *from, uint32_t count, struct nfsd_export **out)
{
	struct nfsd_export *copy = mem_zalloc_array(MAX(count, 1u), sizeof(*copy));
	if (copy == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		copy[i] = from[i];
		copy[i].rules =
		    mem_zalloc_array(MAX(from[i].rule_count, 1u), sizeof(*from[i].rules));
		if (copy[i].rules == NULL) {
			nfsd_free_published(copy, i);
			return -ENOMEM;
		}
		memcpy(copy[i].rules, from[i].rules, from[i].rule_count * sizeof(*from[i].rules));
	}
	qsort(copy, count, sizeof(*copy), nfsd_compare_exports);
	*out = copy;
	return 0;
}

int
nfsd_publish(struct nfsd *n, const struct nfsd_export *exports, uint32_t count)
{
	struct nfsd_export *copy;
	int err = nfsd_copy_exports(exports, count, &copy);
	if (err != 0) {
		return err;
	}
	mutex_lock(&n->config_lock);
	struct nfsd_export *old = n->published;
	uint32_t old_count = n->published_count;
	n->published = copy;
	n->published_count = count;
	err = export_republish(n, false);
	if (err != 0) {
		n->published = old;
		n->published_count = old_count;
		old = copy;
		old_count = count;
	}
	mutex_unlock(&n->config_lock);
	nfsd_free_published(old, old_count);
	return err;
}

int
nfsd_refresh(struct nfsd *n)
{
	mutex_lock(&n->config_lock);
	int err = export_republish(n, false);
	mutex_unlock(&n->config_lock);
	return err;
}

void
nfsd_get_counters(struct nfsd *n, struct nfsd_counters *out)
{
	*out = (struct nfsd_counters){0};
	for (unsigned i = 0; i < ARRAY_LEN(out->proc_calls); i++) {
		out->proc_calls[i] = atomic_load_explicit(&n->proc_calls[i], memory_order_relaxed);
		out->proc_errors[i] =
		    atomic_load_explicit(&n->proc_errors[i], memory_order_relaxed);
	}
	spin_lock(&n->conns_guard);
	out->connections = n->conn_count;
	spin_unlock(&n->conns_guard);
	out->connections_total = atomic_load(&n->connections_total);
	out->bytes_in = atomic_load(&n->bytes_in);
	out->bytes_out = atomic_load(&n->bytes_out);
	out->drc_hits = atomic_load(&n->drc_hits);
	out->bad_rpc = atomic_load(&n->bad_rpc);
}
