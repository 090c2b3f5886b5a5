/*
 * fill.c - some runs are of a pool that is nearly full: a file outside the model takes what there
 * is, and gives a little back. From then on growth may be refused; removing, COMMIT and replay
 * never.
 */
#include "tests/sim/sim.h"

#define CHUNK_BYTES (1u << 20)
#define CHUNKS_MAX 2000u

static uint32_t
write_until_full(struct sim *s, struct nfsc *c, const struct rig_fh *f, uint32_t *out_chunks)
{
	uint8_t *data = mem_zalloc(CHUNK_BYTES);
	uint32_t st = NFS3_OK, chunk = 0;
	ASSERT(data != NULL);
	while (st == NFS3_OK && chunk < CHUNKS_MAX) {
		m_pattern(s->seed + chunk, 0, data, CHUNK_BYTES);
		st = rig_write(
		    c, f, (uint64_t)chunk * CHUNK_BYTES, data, CHUNK_BYTES, UNSTABLE, NULL);
		chunk += st == NFS3_OK;
	}
	mem_free(data);
	*out_chunks = chunk;
	return st;
}

void
sim_fill(struct sim *s)
{
	struct nfsc c;
	struct rig_fh f;
	uint32_t chunks = 0, st;
	sim_client_init(s, &c, SIM_CLIENTS_MAX);
	st = rig_create(&c, &s->m.root->fh, SIM_FILLER, UNCHECKED, 0644, &f);
	if (st == NFS3_OK) {
		st = write_until_full(s, &c, &f, &chunks);
	}
	if (st != NFS3ERR_NOSPC) {
		sim_wrong(s, "filling the pool ended with %u (%s) after %u MiB", st, err_str(c.err),
		    chunks);
	}
	if (!sim_bad(s)) {
		st = rig_commit(&c, &f, NULL);
	}
	uint64_t keep = (uint64_t)chunks * CHUNK_BYTES;
	keep -= MIN(keep, m_rand(&s->rng) % (4 * CHUNK_BYTES));
	if (st == NFS3_OK) {
		st = rig_set_size(&c, &f, keep);
	}
	if (st != NFS3_OK) {
		sim_wrong(s, "a full pool refuses to commit or to cut a file: %u", st);
	}
	sim_say(s, "filled with %u MiB", chunks);
	nfsc_disconnect(&c);
}
