/*
 * conn_limits.c - who may stay connected. Places, receive buffers and patience are limited; when
 * they run short, it is whoever has most of them, or has kept them longest, that gives way. A
 * client loses nothing by that but time: it connects and asks again.
 *
 * Giving way is a flag and a shutdown: the connection's own fibers see it, wait for nothing more,
 * and free it.
 */
#include "nfsd/conn_int.h"

#define CONN_GIVING_WAY_MAX 64u
#define CONN_PRESSED_NS NSEC_PER_SEC /* patience with incomplete records when buffers are short */
#define CONN_RELIEVE_STEP 4u

void
conn_count_peer(struct nfsd *n, unsigned slot, int by)
{
	unsigned before = atomic_load(&n->peer_conns[slot]);
	atomic_store(&n->peer_conns[slot], before + (unsigned)by);
	if (by > 0 ? before == 0 : before == 1) {
		atomic_fetch_add(&n->peers_used, (unsigned)by);
	}
}

/* Of the address that has most connections, the one that has been silent for longest. */
static struct conn *
conn_choose_victim(struct nfsd *n, unsigned slot)
{
	struct conn *victim = NULL;
	list_for_each(item, &n->conns)
	{
		struct conn *c = list_entry(item, struct conn, link);
		if (c->peer_slot == slot && !atomic_load(&c->giving_way) &&
		    (victim == NULL || atomic_load(&c->last_ns) < atomic_load(&victim->last_ns))) {
			victim = c;
		}
	}
	return victim;
}

static void
conn_give_way(struct conn *c)
{
	atomic_store(&c->giving_way, true);
	net_conn_shutdown(c->net);
}

/* When all places are taken, a newcomer gets one from the address that has most, unless it is his
 * own: nobody can lock the others out by connecting often. conns_guard held. */
bool
conn_make_room(struct nfsd *n, unsigned slot)
{
	unsigned most = 0;
	if (n->conn_count < n->cfg.conn_max) {
		return true;
	}
	for (unsigned i = 1; i < CONN_PEERS; i++) {
		most = n->peer_conns[i] > n->peer_conns[most] ? i : most;
	}
	/* those that give way need a moment to be gone */
	if (n->peer_conns[slot] + 1 >= n->peer_conns[most] ||
	    n->conn_count >= n->cfg.conn_max + CONN_GIVING_WAY_MAX) {
		return false;
	}
	struct conn *victim = conn_choose_victim(n, most);
	if (victim == NULL) {
		return false;
	}
	conn_give_way(victim);
	return true;
}

void
conn_shutdown_all(struct nfsd *n)
{
	spin_lock(&n->conns_guard);
	list_for_each(item, &n->conns)
	{
		conn_give_way(list_entry(item, struct conn, link));
	}
	spin_unlock(&n->conns_guard);
}

/* Whose record has been incomplete for longest, and for CONN_PRESSED_NS at least. */
static struct conn *
conn_choose_partial(struct nfsd *n, uint64_t now)
{
	struct conn *oldest = NULL;
	uint64_t since = now - MIN(now, CONN_PRESSED_NS);
	list_for_each(item, &n->conns)
	{
		struct conn *c = list_entry(item, struct conn, link);
		uint64_t partial = atomic_load(&c->partial_since_ns);
		if (partial != 0 && partial < since && !atomic_load(&c->giving_way)) {
			oldest = c;
			since = partial;
		}
	}
	return oldest;
}

/* Short of receive buffers, who holds one and doesn't finish his record has to give it up early. */
void
conn_relieve(struct nfsd *n)
{
	struct arena_info info;
	arena_get_info(&info);
	if (info.used_bytes[ARENA_RECV] <= info.budget_bytes[ARENA_RECV] / 4 * 3) {
		return;
	}
	spin_lock(&n->conns_guard);
	for (unsigned i = 0; i < CONN_RELIEVE_STEP; i++) {
		struct conn *c = conn_choose_partial(n, rt_now_ns());
		if (c == NULL) {
			break;
		}
		conn_give_way(c);
	}
	spin_unlock(&n->conns_guard);
}

void
conn_sweep(struct nfsd *n)
{
	uint64_t now = rt_now_ns();
	spin_lock(&n->conns_guard);
	list_for_each(item, &n->conns)
	{
		struct conn *c = list_entry(item, struct conn, link);
		uint64_t partial = atomic_load(&c->partial_since_ns);
		uint64_t idle = now - MIN(now, atomic_load(&c->last_ns));
		if (idle > n->cfg.idle_timeout_s * NSEC_PER_SEC ||
		    (partial != 0 && now - MIN(now, partial) > CONN_PARTIAL_MAX_NS)) {
			conn_give_way(c);
		}
	}
	spin_unlock(&n->conns_guard);
}

uint32_t
nfsd_clients(struct nfsd *n, struct nfsd_client *out, uint32_t max)
{
	uint32_t count = 0;
	spin_lock(&n->conns_guard);
	list_for_each(item, &n->conns)
	{
		struct conn *c = list_entry(item, struct conn, link);
		if (count < max) {
			out[count] = (struct nfsd_client){.addr = c->peer,
			    .calls = atomic_load(&c->calls),
			    .bytes_in = atomic_load(&c->bytes_in),
			    .bytes_out = atomic_load(&c->bytes_out),
			    .last_ns = atomic_load(&c->last_ns)};
		}
		count++;
	}
	spin_unlock(&n->conns_guard);
	return count;
}
