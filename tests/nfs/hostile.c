/* hostile.c - many connections, many calls, slow ones: none of it costs anybody else. */
#include "tests/nfs/cases.h"

#define RECORDS 45u

/* A stream that never pauses between records is always in the middle of one: each has arrived in
 * time all the same, and the connection stays. */
void
stream_without_pause(struct nfs_rig *r)
{
	struct nfsc_msg call, reply;
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, NFSC_NULL, NULL, &call) == 0);
	uint32_t each = 4 + call.len, half = each / 2;
	uint8_t bytes[256];
	memset(bytes, 0, 4);
	bytes[0] = 0x80;
	bytes[3] = (uint8_t)call.len;
	memcpy(bytes + 4, call.bytes, call.len);
	memcpy(bytes + each, bytes, each);
	CU_ASSERT(nfsc_connect(&r->c) == 0);
	CU_ASSERT(nfsc_send_bytes(&r->c, bytes, half) == 0);
	for (unsigned i = 0; i < RECORDS; i++) {
		fiber_sleep(NSEC_PER_SEC);
		CU_ASSERT(nfsc_send_bytes(&r->c, bytes + half, each) == 0);
		int err = nfsc_recv(&r->c, &reply);
		CU_ASSERT(err == 0);
		if (err != 0) {
			break;
		}
		nfsc_msg_free(&reply);
	}
	nfsc_msg_free(&call);
}

#define PLACES 8u

/* One address takes all places: another one still gets in, and that one can't be pushed out. */
void
all_places_taken(struct nfs_rig *r)
{
	static struct nfsc greedy[3 * PLACES];
	struct nfsc other = nfs_rig_client(r, 0, 0);
	nfsc_disconnect(&r->c);
	nfs_rig_restart_with(r, PLACES);
	snprintf(other.from, sizeof(other.from), "10.0.0.2");
	other.port = r->nfs_port;
	for (unsigned i = 0; i < ARRAY_LEN(greedy); i++) {
		greedy[i] = nfs_rig_client(r, 0, 0);
		snprintf(greedy[i].from, sizeof(greedy[i].from), "10.0.0.1");
		CU_ASSERT(nfsc_connect(&greedy[i]) == 0);
		fiber_sleep(NSEC_PER_MSEC);
		if (i == ARRAY_LEN(greedy) / 2) {
			CU_ASSERT(nfsc_call(&other, NFSC_NULL, NULL, NULL) == 0);
		}
	}
	fiber_sleep(NSEC_PER_SEC);
	struct nfsd_counters n;
	nfsd_get_counters(r->nfsd, &n);
	CU_ASSERT(n.connections <= PLACES);
	CU_ASSERT(other.conn != NULL && nfsc_call(&other, NFSC_NULL, NULL, NULL) == 0);
	for (unsigned i = 0; i < ARRAY_LEN(greedy); i++) {
		nfsc_disconnect(&greedy[i]);
	}
	nfsc_disconnect(&other);
}

#define HALVES 80u

/* Clients that begin a long record and never end it hold all receive buffers for a moment only. */
void
halves_hold_buffers(struct nfs_rig *r)
{
	static struct nfsc half[HALVES];
	static uint8_t bytes[66000] = {0x80, 0x10, 0, 0};
	struct rig_fh root = rig_root(r);
	struct nfsc late = nfs_rig_client(r, 0, 0);
	late.timeout_ns = 8 * NSEC_PER_SEC;
	for (unsigned i = 0; i < HALVES; i++) {
		half[i] = nfs_rig_client(r, 0, 0);
		half[i].timeout_ns = 20 * NSEC_PER_MSEC;
		CU_ASSERT(nfsc_connect(&half[i]) == 0);
		int err = nfsc_send_bytes(&half[i], bytes, sizeof(bytes));
		CU_ASSERT(err == 0 || err == -ETIMEDOUT || err == -EPIPE || err == -ECONNRESET);
	}
	CU_ASSERT(rig_getattr(&late, &root, NULL) == NFS3_OK);
	/* nor do they keep the service from stopping */
	uint64_t began = rt_now_ns();
	nfs_rig_restart(r);
	CU_ASSERT(rt_now_ns() - began < 3 * NSEC_PER_SEC);
	for (unsigned i = 0; i < HALVES; i++) {
		nfsc_disconnect(&half[i]);
	}
	nfsc_disconnect(&late);
}

#define FLOOD 40000u

/* Calls that no share lets in, however many, push nobody's reply out of the cache. */
void
strangers_forget_nothing(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), junk = root;
	struct nfsc_msg call, first, again;
	MKDIR3args args = {.where = {.dir = rig_fh3(&root), .name = nfsc_name("once")}};
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, NFSC_MKDIR, &args, &call) == 0);
	ASSERT(nfsc_transact(&r->c, &call, &first) == 0);
	struct nfsc stranger = nfs_rig_client(r, 0, 0);
	snprintf(stranger.from, sizeof(stranger.from), "10.0.0.66");
	junk.bytes[47] ^= 1;
	for (unsigned i = 0; i < FLOOD; i++) {
		CU_ASSERT(rig_remove(&stranger, &junk, "x") == NFS3ERR_BADHANDLE);
	}
	ASSERT(nfsc_transact(&r->c, &call, &again) == 0);
	CU_ASSERT(again.len == first.len && memcmp(again.bytes, first.bytes, first.len) == 0);
	nfsc_msg_free(&first);
	nfsc_msg_free(&again);
	nfsc_msg_free(&call);
	nfsc_disconnect(&stranger);
}

#define READS 60u

struct closing {
	struct nfs_rig *r;
	struct waitgroup done;
	uint64_t took_ns;
};

static void
close_pool(void *arg)
{
	struct closing *c = arg;
	uint64_t began = rt_now_ns();
	nfsd_remove_pool(c->r->nfsd, c->r->pool);
	c->took_ns = rt_now_ns() - began;
	wg_done(&c->done);
}

/* A client that asks for much and reads slowly doesn't keep a pool from being exported. */
void
export_beside_slow_reader(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f;
	uint8_t *data = mem_zalloc(1u << 20);
	struct nfsc slow = nfs_rig_client(r, 0, 0);
	struct nfsc_msg call;
	ASSERT(data != NULL);
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_write(&r->c, &f, 0, data, 1u << 20, UNSTABLE, NULL) == NFS3_OK);
	mem_free(data);
	READ3args args = {.file = rig_fh3(&f), .count = 1u << 20};
	CU_ASSERT(nfsc_encode(&slow, NFSC_PROG_NFS, 3, NFSC_READ, &args, &call) == 0);
	CU_ASSERT(nfsc_connect(&slow) == 0);
	for (unsigned i = 0; i < READS; i++) {
		CU_ASSERT(nfsc_send(&slow, &call) == 0);
	}
	nfsc_msg_free(&call);
	fiber_sleep(NSEC_PER_SEC);
	struct closing c = {.r = r};
	wg_init(&c.done);
	wg_add(&c.done, 1);
	fiber_spawn_wait(0, FIBER_ADMIN, "close-pool", close_pool, &c);
	wg_wait(&c.done);
	CU_ASSERT(c.took_ns < 2 * NSEC_PER_SEC);
	nfsc_disconnect(&slow);
	ASSERT(nfsd_add_pool(r->nfsd, r->pool, &r->fp) == 0);
}
