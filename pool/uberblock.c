/*
 * uberblock.c - the ring of roots: one slot a txg, on all four labels of every data drive.
 *
 * A new txg's slot held what is UBER_SLOTS txgs older: all copies may be written at once. Writing
 * the newest txg again (a membership change that an acknowledgement waits for, a heartbeat) touches
 * what an import would choose: then the even labels first, and the odd ones when those are durable,
 * so that one of the two is always whole.
 *
 * (timeline, txg) orders uberblocks; between copies of the same, the newer configuration and then
 * the newer heartbeat wins.
 */
#include "pool/label.h"
#include "pool/pool_int.h"

static int
cmp_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int
key_cmp(const struct uber_key *a, const struct uber_key *b)
{
	int c = cmp_u64(a->timeline, b->timeline);

	return c != 0 ? c : cmp_u64(a->txg, b->txg);
}

static struct uber_key
key_of(const struct uberblock *ub)
{
	return (struct uber_key){.timeline = le64_get(ub->timeline), .txg = le64_get(ub->txg)};
}

int
uber_cmp(const struct uberblock *a, const struct uberblock *b)
{
	struct uber_key ka = key_of(a), kb = key_of(b);
	int c = key_cmp(&ka, &kb);

	if (c == 0) {
		c = cmp_u64(le64_get(a->config_txg), le64_get(b->config_txg));
	}
	if (c == 0) {
		c = cmp_u64(le64_get(a->heartbeat), le64_get(b->heartbeat));
	}
	return c;
}

int
uber_decode(
    const void *slot, uint64_t own_offset, const struct guid *pool_guid, struct uberblock *out)
{
	const struct uberblock *ub = slot;
	struct bp_prop prop;

	if (le64_get(ub->magic) != UBER_MAGIC) {
		return -ENOENT;
	}
	if (!self_cksum_ok(ub, sizeof(*ub), offsetof(struct uberblock, cksum))) {
		return -ERR_CORRUPT;
	}
	if (le32_get(ub->version) != POOL_FORMAT_VERSION) {
		return -ERR_FEATURE;
	}
	if (!guid_equal(&ub->pool_guid, pool_guid) || le64_get(ub->own_offset) != own_offset ||
	    le64_get(ub->txg) == 0 || le64_get(ub->timeline) == 0 ||
	    (own_offset - KB_POOL_START) % UBER_BYTES != 0 ||
	    ub->host_name[sizeof(ub->host_name) - 1] != 0 ||
	    le64_get(ub->deferred_sectors) > le64_get(ub->used_sectors)) {
		return -ERR_CORRUPT;
	}
	if (bp_is_hole(&ub->root) || bp_decode(&ub->root, POOL_SETS_MAX, &prop) != 0 ||
	    prop.type != OBJ_OBJSET || bp_is_hole(&ub->maplog) ||
	    bp_decode(&ub->maplog, POOL_SETS_MAX, &prop) != 0 || prop.type != OBJ_MAPLOG) {
		return -ERR_CORRUPT;
	}
	*out = *ub;
	return 0;
}

void
uber_scan_ring(const uint8_t *ring, uint64_t ring_offset, const struct guid *pool_guid,
    const struct guid *drive_guid, const struct uber_key *below, struct uberblock *best,
    bool *found)
{
	for (uint64_t i = 0; i < UBER_SLOTS; i++) {
		const uint8_t *slot = ring + i * UBER_BYTES;
		const struct uberblock *ub = (const struct uberblock *)(const void *)slot;
		struct uber_key key = key_of(ub);

		/* cheap tests first: most slots are older than what is known */
		if (le64_get(ub->magic) != UBER_MAGIC || key.txg % UBER_SLOTS != i ||
		    !guid_equal(&ub->drive_guid, drive_guid) ||
		    (below != NULL && (key_cmp(&key, below) >= 0 || key.txg >= below->txg)) ||
		    (*found && uber_cmp(ub, best) <= 0)) {
			continue;
		}
		if (uber_decode(slot, ring_offset + i * UBER_BYTES, pool_guid, best) == 0) {
			*found = true;
		}
	}
}

int
uber_find(struct vdevs *v, const struct uber_key *below, struct uberblock *out)
{
	uint32_t ring_bytes = UBER_SLOTS * UBER_BYTES;
	struct uberblock *best = mem_zalloc(sizeof(*best));
	struct iobuf *buf;
	bool found = false;
	int err = best != NULL ? iobuf_alloc(ring_bytes, ARENA_REPAIR, &buf) : -ENOMEM;

	if (err != 0) {
		mem_free(best);
		return err;
	}
	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->kb == NULL || d->role != DRIVE_ROLE_DATA) {
			continue;
		}
		for (unsigned k = 0; k < LABEL_COUNT; k++) {
			uint64_t off = label_offset(d->region_bytes, k) + LABEL_UBER_OFF;

			if (kb_read(d->kb, off, buf, ring_bytes) == 0) {
				uber_scan_ring(
				    buf->data, off, &v->pool_guid, &d->guid, below, best, &found);
			}
		}
	}
	iobuf_unref(buf);
	if (found) {
		*out = *best;
	}
	mem_free(best);
	return found ? 0 : -ENOENT;
}

/* ---- writing ---- */

/* One drive's four copies. */
struct copy {
	struct vdev_drive *d;
	struct iobuf *buf;
	struct kb_seg seg[LABEL_COUNT];
	struct kb_io io[LABEL_COUNT];
	bool failed;
};

static bool
takes_uber(const struct vdev_drive *d)
{
	return d->role == DRIVE_ROLE_DATA && d->kb != NULL && d->state == DRIVE_STATE_ONLINE;
}

static int
copy_make(struct copy *c, struct vdev_drive *d, const struct uberblock *ub)
{
	uint64_t slot = le64_get(ub->txg) % UBER_SLOTS;
	int err = iobuf_alloc(LABEL_COUNT * UBER_BYTES, ARENA_SYNC, &c->buf);

	if (err != 0) {
		return err;
	}
	c->d = d;
	for (uint32_t i = 0; i < LABEL_COUNT; i++) {
		struct uberblock *own = (struct uberblock *)(void *)(c->buf->data + i * UBER_BYTES);
		uint64_t off =
		    label_offset(d->region_bytes, i) + LABEL_UBER_OFF + slot * UBER_BYTES;

		*own = *ub;
		own->own_offset = le64_of(off);
		own->drive_guid = d->guid;
		self_cksum_set(own, sizeof(*own), offsetof(struct uberblock, cksum));
		c->seg[i] = (struct kb_seg){c->buf, i * UBER_BYTES, UBER_BYTES};
		c->io[i] = (struct kb_io){
		    .op = KB_WRITE,
		    .flags = KB_FUA,
		    .off_bytes = off,
		    .segs = &c->seg[i],
		    .seg_count = 1,
		};
	}
	return 0;
}

/* Writes labels first, first + step, ... of every copy. */
static void
copies_write(struct copy *copies, uint32_t count, unsigned first, unsigned step)
{
	struct kb_group g;

	kb_group_init(&g);
	for (uint32_t i = 0; i < count; i++) {
		for (unsigned k = first; k < LABEL_COUNT && !copies[i].failed; k += step) {
			kb_submit(copies[i].d->kb, &copies[i].io[k], &g, 0);
		}
	}
	kb_group_wait(&g);
	for (uint32_t i = 0; i < count; i++) {
		bool failed = copies[i].failed;

		/* one that failed the even labels keeps its odd ones: it was given nothing */
		for (unsigned k = first; k < LABEL_COUNT && !failed; k += step) {
			copies[i].failed |= copies[i].io[k].status != 0;
		}
	}
}

static int
copies_make(struct vdevs *v, const struct uberblock *ub, struct copy *copies, uint32_t *out_count)
{
	uint32_t n = 0;
	int err = 0;

	for (uint32_t i = 0; err == 0 && i < v->drive_count; i++) {
		if (takes_uber(&v->drives[i])) {
			err = copy_make(&copies[n], &v->drives[i], ub);
			n += err == 0;
		}
	}
	*out_count = n;
	return err;
}

static bool
copies_can_be_spared(const struct vdevs *v, const struct copy *copies, uint32_t count)
{
	for (uint32_t s = 0; s < v->set_count; s++) {
		uint32_t failed = 0;

		for (uint32_t i = 0; i < count; i++) {
			if (copies[i].failed && copies[i].d->set_index == s) {
				failed |= vdev_bit(copies[i].d);
			}
		}
		if (!vdev_can_spare(v, s, failed)) {
			return false;
		}
	}
	return true;
}

int
uber_write(struct vdevs *v, const struct uberblock *ub, bool *out_membership_changed)
{
	struct uber_key key = key_of(ub);
	bool again = key.txg == v->committed_txg; /* the slot holds what is relied on */
	struct copy *copies = mem_zalloc_array(v->drive_count, sizeof(*copies));
	uint32_t count = 0;
	int err = copies != NULL ? copies_make(v, ub, copies, &count) : -ENOMEM;

	if (err == 0 && again && !DELIBERATE_BUG("pool-uber-again-at-once")) {
		copies_write(copies, count, 0, 2);
		copies_write(copies, count, 1, 2);
	} else if (err == 0) {
		copies_write(copies, count, 0, 1);
	}
	if (err == 0 && !copies_can_be_spared(v, copies, count)) {
		err = -EIO;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (err == 0 && copies[i].failed) {
			vdev_drive_out(v, copies[i].d, DRIVE_STATE_FAULTED, key.txg);
			*out_membership_changed = true;
		}
		iobuf_unref(copies[i].buf);
	}
	mem_free(copies);
	if (err == 0) {
		err = vdev_enough(v);
	}
	if (err == 0) {
		v->committed_txg = key.txg;
	}
	return err;
}

int
uber_heartbeat(struct vdevs *v, const struct uberblock *ub)
{
	struct copy *copies = mem_zalloc_array(v->set_count, sizeof(*copies));
	uint32_t count = 0, sets_done = 0;
	int err = copies != NULL ? 0 : -ENOMEM;

	/* one drive a set: whoever looks reads all of them */
	for (uint32_t i = 0; err == 0 && i < v->drive_count && sets_done < v->set_count; i++) {
		struct vdev_drive *d = &v->drives[i];

		if (takes_uber(d) && d->set_index == sets_done) {
			err = copy_make(&copies[count], d, ub);
			count += err == 0;
			sets_done++;
		}
	}
	if (err == 0) {
		/* only label 0: the newest txg stays whole on the three others */
		copies_write(copies, count, 0, LABEL_COUNT);
	}
	for (uint32_t i = 0; i < count; i++) {
		iobuf_unref(copies[i].buf);
	}
	mem_free(copies);
	return err;
}
