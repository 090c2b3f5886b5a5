/* tree.c - all block pointers of an object's tree that aren't holes, in order. */
#include "dump/dump.h"

#define INDIRECT_SIZE 32768u

struct walk {
	struct dump_pool *p;
	const struct dump_slot *slot;
	dump_tree_fn *each;
	void *arg;
	uint64_t visited;
};

static int
node_each(struct walk *w, const struct dump_bp *bp, uint32_t level, uint64_t index)
{
	uint8_t *node;
	int err;

	if (bp->hole) {
		return 0;
	}
	if (bp->level != level || bp->type != w->slot->type ||
	    (level > 0 && bp->logical != INDIRECT_SIZE) ||
	    (level == 0 && bp->logical > w->slot->block_bytes)) {
		return -ERR_CORRUPT;
	}
	if (w->visited++ / 256 > w->p->capacity_sectors) {
		return -ERR_CORRUPT; /* more than there can be, embedded ones included */
	}
	err = w->each(w->arg, level, index, bp);
	if (err != 0 || level == 0) {
		return err;
	}
	node = mem_zalloc(INDIRECT_SIZE);
	err = node != NULL ? dump_block_read(w->p, bp, node) : -ENOMEM;
	for (uint32_t i = 0; err == 0 && i < 256; i++) {
		struct dump_bp child;

		err = dump_bp_decode(node + i * 128, w->p->config.set_count, &child) != NULL
			  ? -ERR_CORRUPT
			  : node_each(w, &child, level - 1, index << 8 | i);
	}
	mem_free(node);
	return err;
}

int
dump_tree_each(struct dump_pool *p, const struct dump_slot *slot, dump_tree_fn *each, void *arg)
{
	struct walk w = {.p = p, .slot = slot, .each = each, .arg = arg};

	return slot->is_inline ? 0 : node_each(&w, &slot->data, slot->levels - 1, 0);
}
