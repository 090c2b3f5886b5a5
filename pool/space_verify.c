/*
 * space_verify.c - look at blocks in the order of the drives: those of a txg that isn't committed
 * yet, and (scrub, resilver) those of the segment maps.
 *
 * Why a txg may have to be verified: its blocks lie in the drives' volatile caches until the flush.
 * When a drive vanishes and returns it has lost them; one drive's loss is what parity is for, but a
 * second one in the same txg takes blocks with it that were written well. The flush that follows
 * the return succeeds, and says nothing of them.
 */
#include "pool/block_int.h"
#include "pool/pool_int.h"
#include "pool/space_int.h"

static bool
record_ok(void *arg, const uint8_t *data, uint32_t len)
{
	const struct space_rec *r = arg;
	uint32_t stored = ((uint32_t)r->psize + 1) * BP_SIZE_UNIT;

	return stored <= len &&
	       block_cksum_ok((enum bp_cksum)r->cksum_kind, data, stored, r->cksum);
}

int
space_verify_record(struct pool *p, struct space_rec *r, struct raidz_report *out_report)
{
	uint32_t len = ALIGN_UP(((uint32_t)r->psize + 1) * BP_SIZE_UNIT, SECTOR_BYTES);
	int err;

	*out_report = (struct raidz_report){0};
	err = raidz_scrub_block(p->v.sets[r->set].rg, r->sector, len, record_ok, r, out_report);
	vdev_count_report(&p->v, r->set, out_report);
	return err;
}

/* The map log's blocks have no checksum in their records: it stands in the chain. */
int
space_verify_log_block(
    struct space *s, const struct space_log_block *b, struct raidz_report *out_report)
{
	struct bp_prop prop;
	int err = bp_decode(&b->bp, s->set_count, &prop);

	for (uint32_t i = 0; err == 0 && i < bp_copies(&b->bp); i++) {
		struct space_rec r = {
		    .set = bp_addr_set(&b->bp.addr[i]),
		    .sector = bp_addr_sector(&b->bp.addr[i]),
		    .psize = (uint16_t)(prop.stored_bytes / BP_SIZE_UNIT - 1),
		    .cksum_kind = (uint8_t)prop.cksum,
		};

		memcpy(r.cksum, b->bp.cksum, sizeof(r.cksum));
		err = space_verify_record(s->p, &r, out_report);
	}
	return err;
}

/* The record behind it, sorted by set and sector, may be that of its being freed again. */
static bool
is_freed_again(const struct rec_list *l, uint32_t i)
{
	const struct space_rec *r = &l->items[i], *next = r + 1;

	return i + 1 < l->count && next->set == r->set && next->sector == r->sector &&
	       next->op == MAP_FREE;
}

int
space_verify_txg(struct space *s, uint64_t txg)
{
	int err = 0;

	for (uint32_t i = 0; err == 0 && i < s->written.count; i++) {
		struct space_rec *r = &s->written.items[i];
		struct raidz_report report;

		if (r->op == MAP_ALLOC && r->cksum_kind != BP_CKSUM_NONE &&
		    !is_freed_again(&s->written, i)) {
			err = space_verify_record(s->p, r, &report);
		}
		fiber_maybe_yield();
	}
	list_for_each(l, &s->log_blocks)
	{
		const struct space_log_block *b = list_entry(l, struct space_log_block, link);

		if (err == 0 && b->txg == txg) {
			struct raidz_report report;

			err = space_verify_log_block(s, b, &report);
		}
	}
	if (err != 0) {
		log_error("pool.txg_lost pool=%s txg=%llu error=%s", s->p->name,
		    (unsigned long long)txg, err_str(err));
	}
	return err;
}
