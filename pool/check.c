/*
 * check.c - is everything that a root reaches there, right, and in the space maps, and nothing
 *else?
 *
 * It reads one committed root from the drives, not the memory of the running pool: its trees
 * (check_walk.c), its segment maps and map log. While it runs it counts as a reader, so that
 *nothing of that root is reused: space that is freed meanwhile comes back only afterwards.
 *
 *	what the trees name, sorted = what the maps say is in use, block for block	(lost,
 *leaked, twice) maps + frees that may not be reused yet = the uberblock's figures every block of
 *the maps verifies, on every column		(raidz_scrub_block; repaired unless read-only)
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/block_int.h"
#include "pool/check_int.h"
#include "pool/label.h"

void
check_problem(struct check *c, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->problems++;
	if (c->problem != NULL) {
		c->problem(c->arg, text);
	}
}

/* ---- the map log of the root ---- */

struct chain {
	struct check *c;
	struct rec_list *changes; /* per segment, in the order of space.segs_all */
	uint64_t deferred;
};

static int
chain_record(void *arg, const struct space_rec *r)
{
	struct chain *ch = arg;
	struct space_set *set = &ch->c->s->sets[r->set];
	uint64_t index = r->sector / set->seg_sectors;
	struct space_rec *slot;

	for (uint32_t i = 0; i < r->set; i++) {
		index += ch->c->s->sets[i].seg_count;
	}
	slot = rec_list_push(&ch->changes[index]);
	if (slot == NULL) {
		return -ENOMEM;
	}
	*slot = *r;
	if (r->op == MAP_FREE && r->txg + 1 >= le64_get(ch->c->ub->txg)) {
		ch->deferred += r->asize;
	}
	return 0;
}

/* The chain's own blocks: the records of these have no checksum. */
static void
claim_chain(struct check *c, struct list *blocks)
{
	list_for_each_safe(l, tmp, blocks)
	{
		struct space_log_block *b = list_entry(l, struct space_log_block, link);
		struct bp_prop prop;

		if (bp_decode(&b->bp, c->p->v.set_count, &prop) == 0) {
			prop.cksum = BP_CKSUM_NONE;
			(void)check_claim(c, &b->bp, &prop, true);
		}
		list_remove(&b->link);
		mem_free(b);
	}
}

/* ---- comparing ---- */

static int
claim_cmp(const void *va, const void *vb)
{
	const struct claim *a = va, *b = vb;

	if (a->set != b->set) {
		return a->set < b->set ? -1 : 1;
	}
	if (a->sector != b->sector) {
		return a->sector < b->sector ? -1 : 1;
	}
	return a->birth < b->birth ? -1 : a->birth > b->birth;
}

static void
sort_claims(void *arg)
{
	struct check *c = arg;

	if (c->claim_count > 1) {
		qsort(c->claims, c->claim_count, sizeof(*c->claims), claim_cmp);
	}
}

static void
compare_one(struct check *c, const struct claim *cl, const struct space_rec *r)
{
	uint64_t cksum;

	memcpy(&cksum, r->cksum, sizeof(cksum));
	if (cl->asize != r->asize || cl->birth != r->birth) {
		check_problem(c,
		    "set %u sector %" PRIu64 ": in use with %u sectors of txg %" PRIu64
		    ", in the map with %u of txg %" PRIu64,
		    r->set, r->sector, cl->asize, cl->birth, r->asize, r->birth);
		return;
	}
	if (cl->cksum_kind == UINT8_MAX || cl->type == OBJ_MAPLOG) {
		return;
	}
	if (cl->psize != r->psize || cl->cksum_kind != r->cksum_kind ||
	    (r->cksum_kind != BP_CKSUM_NONE && cl->cksum != cksum)) {
		check_problem(c,
		    "set %u sector %" PRIu64
		    ": size or checksum in the map isn't that of the block",
		    r->set, r->sector);
	}
}

static void
lost_claim(struct check *c, const struct claim *cl)
{
	check_problem(c,
	    "set %u sector %" PRIu64 ": %u sectors in use (type %u, txg %" PRIu64
	    ") that the space map calls free",
	    cl->set, cl->sector, cl->asize, cl->type, cl->birth);
}

/* Claims of one segment from *at on against its image. */
static void
compare_segment(
    struct check *c, const struct space_seg *seg, const struct rec_list *image, uint64_t *at)
{
	uint64_t end = seg->start + seg->sectors;
	uint32_t i = 0;

	while (c->err == 0) {
		const struct claim *cl = *at < c->claim_count ? &c->claims[*at] : NULL;
		const struct space_rec *r = i < image->count ? &image->items[i] : NULL;

		if (cl != NULL && (cl->set != seg->set || cl->sector >= end)) {
			cl = NULL;
		}
		if (cl == NULL && r == NULL) {
			break;
		}
		if (cl != NULL && *at > 0 && cl[-1].set == cl->set &&
		    cl[-1].sector + cl[-1].asize > cl->sector) {
			check_problem(
			    c, "set %u sector %" PRIu64 ": in use twice", cl->set, cl->sector);
		}
		if (r == NULL || (cl != NULL && cl->sector < r->sector)) {
			lost_claim(c, cl);
			(*at)++;
		} else if (cl == NULL || r->sector < cl->sector) {
			check_problem(c,
			    "set %u sector %" PRIu64 ": %u sectors of txg %" PRIu64
			    " leaked: nothing refers to them",
			    r->set, r->sector, r->asize, r->birth);
			i++;
		} else {
			compare_one(c, cl, r);
			(*at)++;
			i++;
		}
	}
}

/* ---- contents ---- */

/* The map log's blocks were verified along the chain. */
static void
verify_blocks(struct check *c, const struct rec_list *image)
{
	for (uint32_t i = 0; i < image->count; i++) {
		struct space_rec *r = &image->items[i];
		struct raidz_report report;
		int err;

		if (r->cksum_kind == BP_CKSUM_NONE) {
			continue;
		}
		err = space_verify_record(c->p, r, &report);
		if (err != 0) {
			check_problem(c,
			    "set %u sector %" PRIu64 ": %u sectors of txg %" PRIu64
			    " can't be read: %s",
			    r->set, r->sector, r->asize, r->birth, err_str(err));
		} else if (report.cksum_bad != 0) {
			check_problem(c, "set %u sector %" PRIu64 ": wrong on columns 0x%x%s",
			    r->set, r->sector, report.cksum_bad,
			    report.rewritten != 0 ? ", rewritten" : "");
		}
		fiber_maybe_yield();
	}
}

/* ---- all together ---- */

static void
check_segments(struct check *c, const struct chain *ch)
{
	uint64_t at = 0, live = 0;

	for (uint32_t i = 0; i < c->s->seg_count && c->err == 0; i++) {
		const struct space_seg *seg = c->s->segs_all[i];
		struct rec_list image = {0};
		uint64_t folded;
		int err = seg_image(c->s, &c->ub->root, seg, &ch->changes[i], &image, &folded);

		if (err == -ENOMEM) {
			c->err = err;
			return;
		}
		if (err != 0) {
			check_problem(c,
			    "set %u segment %u: its map can't be read or contradicts itself: %s",
			    seg->set, seg->index, err_str(err));
		}
		for (uint32_t k = 0; k < image.count; k++) {
			live += image.items[k].asize;
		}
		compare_segment(c, seg, &image, &at);
		if (c->contents) {
			verify_blocks(c, &image);
		}
		rec_list_free(&image);
		fiber_maybe_yield();
	}
	if (live + ch->deferred != le64_get(c->ub->used_sectors) ||
	    ch->deferred != le64_get(c->ub->deferred_sectors)) {
		check_problem(c,
		    "the maps have %" PRIu64 " sectors in use and %" PRIu64
		    " pending, the root says %" PRIu64 " with %" PRIu64 " pending",
		    live, ch->deferred,
		    le64_get(c->ub->used_sectors) - le64_get(c->ub->deferred_sectors),
		    le64_get(c->ub->deferred_sectors));
	}
}

static int
check_root(struct check *c)
{
	struct chain ch = {.c = c};
	struct list blocks;
	int err;

	list_init(&blocks);
	ch.changes = mem_zalloc_array(c->s->seg_count, sizeof(*ch.changes));
	if (ch.changes == NULL) {
		return -ENOMEM;
	}
	err = maplog_read(c->s, &c->ub->maplog, chain_record, &ch, &blocks);
	claim_chain(c, &blocks);
	if (err == -ENOMEM) {
		c->err = err;
	} else if (err != 0) {
		check_problem(c, "the map log can't be read: %s", err_str(err));
	}
	if (c->err == 0) {
		check_walk_all(c);
	}
	if (c->err == 0) {
		offload(sort_claims, c);
		check_dead_claims(c);
		check_segments(c, &ch);
	}
	for (uint32_t i = 0; i < c->s->seg_count; i++) {
		rec_list_free(&ch.changes[i]);
	}
	mem_free(ch.changes);
	return c->err;
}

int
check_pool(struct pool *p, bool contents, void (*problem)(void *arg, const char *what), void *arg,
    uint64_t *out_count)
{
	struct check c = {
	    .p = p, .s = p->space, .contents = contents, .problem = problem, .arg = arg};
	uint64_t token;
	int err;

	c.ub = mem_zalloc(sizeof(*c.ub));
	if (c.ub == NULL) {
		return -ENOMEM;
	}
	mutex_lock(&p->shape_mu); /* the number of segments stands still */
	token = space_read_enter(p->space);
	mutex_lock(&p->config_lock);
	*c.ub = p->ub;
	mutex_unlock(&p->config_lock);
	err = check_root(&c);
	space_read_exit(p->space, token);
	mutex_unlock(&p->shape_mu);
	mem_free(c.claims);
	mem_free(c.deads);
	mem_free(c.ub);
	if (err == 0) {
		*out_count = c.problems;
	}
	return err;
}

int
pool_check(
    struct pool *p, void (*problem)(void *arg, const char *what), void *arg, uint64_t *out_count)
{
	return check_pool(p, true, problem, arg, out_count);
}
