/*
 * vdev_labels.c - writing to all drives at once: labels in pairs, flushes.
 *
 * A configuration is written to one pair of labels of every drive, the even ones or the odd ones,
 * flushed, then to the other pair, flushed. It counts from then on; the uberblock that names it may
 * come later. Whatever instant the power goes, each drive has one whole pair, and an import finds
 * either the configuration that the newest uberblock names or the next one, which differs only in
 * what had failed before.
 *
 * A number that was used is never used again, be the update torn or failed: a drive that has it
 * with other contents would be believed by an import. Numbers on drives that an import doesn't see
 * can't be known: it jumps ahead by chance (vdev_assemble).
 *
 * After such a power cut, and after a failed write, the pair that was being written is torn: the
 * next pass begins with it (label_pair), or a second power cut would leave the drive nameless.
 */
#include "pool/label.h"
#include "pool/pool_int.h"

/* One drive's part of a pass. */
struct pass_item {
	struct vdev_drive *d;
	struct iobuf *buf;
	struct kb_seg seg[LABEL_COUNT / 2];
	struct kb_io io[LABEL_COUNT / 2];
	struct kb_io flush;
	unsigned pair;
	bool failed;
};

uint64_t
vdev_next_config(const struct vdevs *v)
{
	uint64_t used = DELIBERATE_BUG("pool-config-number-reused") ? 0 : v->config_used;

	return MAX(MAX(v->config_txg, v->committed_txg), used) + 1;
}

/* A spare gets its label when the pool is made; from then on it may be another pool's member at any
 * time (spare.c). */
static bool
takes_labels(const struct vdevs *v, const struct vdev_drive *d)
{
	return d->kb != NULL && d->state == DRIVE_STATE_ONLINE &&
	       (d->role != DRIVE_ROLE_SPARE || v->config_txg == 0 ||
		   DELIBERATE_BUG("pool-labels-to-spares"));
}

static int
item_fill(struct vdevs *v, struct pass_item *it, uint64_t config_txg, const struct iobuf *config,
    uint32_t config_len)
{
	uint32_t len = LABEL_CONFIG_OFF + ALIGN_UP(config_len, SECTOR_BYTES);
	int err = iobuf_alloc(len * (LABEL_COUNT / 2), ARENA_SYNC, &it->buf);

	if (err != 0) {
		return err;
	}
	memset(it->buf->data, 0, (size_t)len * (LABEL_COUNT / 2));
	for (unsigned k = 0; k < LABEL_COUNT / 2; k++) {
		unsigned index = it->pair + k * 2;
		uint8_t *at = it->buf->data + (size_t)k * len;

		memcpy(at + LABEL_CONFIG_OFF, config->data, config_len);
		label_encode(v, it->d, index, config_txg, config_len, at);
		it->seg[k] = (struct kb_seg){it->buf, k * len, len};
		it->io[k] = (struct kb_io){
		    .op = KB_WRITE,
		    .off_bytes = label_offset(it->d->region_bytes, index),
		    .segs = &it->seg[k],
		    .seg_count = 1,
		};
	}
	return 0;
}

static void
items_write(struct pass_item *items, uint32_t count)
{
	struct kb_group g;

	kb_group_init(&g);
	for (uint32_t i = 0; i < count; i++) {
		for (unsigned k = 0; k < LABEL_COUNT / 2; k++) {
			kb_submit(items[i].d->kb, &items[i].io[k], &g, 0);
		}
	}
	kb_group_wait(&g);
	for (uint32_t i = 0; i < count; i++) {
		for (unsigned k = 0; k < LABEL_COUNT / 2; k++) {
			items[i].failed |= items[i].io[k].status != 0;
		}
	}
}

static void
items_flush(struct pass_item *items, uint32_t count)
{
	struct kb_group g;

	kb_group_init(&g);
	for (uint32_t i = 0; i < count; i++) {
		items[i].flush = (struct kb_io){.op = KB_FLUSH};
		kb_submit(items[i].d->kb, &items[i].flush, &g, 0);
	}
	kb_group_wait(&g);
	for (uint32_t i = 0; i < count; i++) {
		items[i].failed |= items[i].flush.status != 0;
	}
}

/* One pair of every drive, in batches that the buffer reserve can hold; durable afterwards, and the
 * other one is next. */
static int
write_pair(struct vdevs *v, struct pass_item *items, uint32_t count, uint64_t config_txg,
    const struct iobuf *config, uint32_t config_len)
{
	uint32_t batch = 8;
	int err = 0;

	for (uint32_t from = 0; err == 0 && from < count; from += batch) {
		uint32_t n = MIN(batch, count - from), made = 0;

		while (err == 0 && made < n) {
			items[from + made].pair = items[from + made].d->label_pair;
			err = item_fill(v, &items[from + made], config_txg, config, config_len);
			made += err == 0;
		}
		if (err == 0) {
			items_write(&items[from], n);
		}
		for (uint32_t i = 0; i < made; i++) {
			iobuf_unref(items[from + i].buf);
		}
	}
	if (err == 0) {
		items_flush(items, count);
	}
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		if (!items[i].failed) {
			items[i].d->label_pair = 1 - items[i].pair;
		}
	}
	return err;
}

/* A drive that failed the first pair keeps the second: it goes to the end. How many are left. */
static uint32_t
put_failed_last(struct pass_item *items, uint32_t count)
{
	uint32_t well = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!items[i].failed) {
			struct pass_item it = items[i];

			items[i] = items[well];
			items[well++] = it;
		}
	}
	return well;
}

static bool
items_can_be_spared(const struct vdevs *v, const struct pass_item *items, uint32_t count)
{
	for (uint32_t s = 0; s < v->set_count; s++) {
		uint32_t failed = 0;

		for (uint32_t i = 0; i < count; i++) {
			const struct vdev_drive *d = items[i].d;

			if (items[i].failed && d->role == DRIVE_ROLE_DATA && d->set_index == s) {
				failed |= vdev_bit(d);
			}
		}
		if (!vdev_can_spare(v, s, failed)) {
			return false;
		}
	}
	return true;
}

static int
write_turn(struct vdevs *v, uint64_t config_txg, struct pass_item *items, bool *out_failed)
{
	uint32_t count = 0, len;
	struct iobuf *config;
	int err = iobuf_alloc(LABEL_CONFIG_BYTES_MAX, ARENA_SYNC, &config);

	if (err != 0) {
		return err;
	}
	memset(items, 0, v->drive_count * sizeof(*items));
	for (uint32_t i = 0; i < v->drive_count; i++) {
		if (takes_labels(v, &v->drives[i])) {
			items[count++].d = &v->drives[i];
		}
	}
	err = config_encode(v, config_txg, config->data, LABEL_CONFIG_BYTES_MAX, &len);
	if (err == 0) {
		err = write_pair(v, items, count, config_txg, config, len);
	}
	if (err == 0) {
		err = write_pair(v, items, put_failed_last(items, count), config_txg, config, len);
	}
	iobuf_unref(config);
	*out_failed = false;
	if (err == 0 && !items_can_be_spared(v, items, count)) {
		err = -EIO;
	}
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		if (items[i].failed) {
			vdev_drive_out(v, items[i].d, DRIVE_STATE_FAULTED, v->committed_txg + 1);
			*out_failed = true;
		}
	}
	return err;
}

int
vdev_write_labels_once(struct vdevs *v, uint64_t config_txg, bool *out_failed)
{
	struct pass_item *items = mem_zalloc_array(v->drive_count, sizeof(*items));
	int err = -ENOMEM;

	v->config_used = MAX(v->config_used, config_txg);
	if (items != NULL) {
		err = write_turn(v, config_txg, items, out_failed);
	}
	mem_free(items);
	if (err == 0) {
		err = vdev_enough(v);
	}
	if (err == 0) {
		v->config_txg = config_txg;
	}
	return err;
}

int
vdev_write_labels(struct vdevs *v, uint64_t config_txg)
{
	bool failed = true;
	int err = 0;

	/* each turn but the last takes a drive out */
	for (uint32_t turn = 0; err == 0 && failed && turn <= v->drive_count; turn++) {
		err = vdev_write_labels_once(v, config_txg + turn, &failed);
	}
	return err;
}

int
vdev_erase_labels(struct vdevs *v)
{
	struct iobuf *zero;
	int first = 0, err = iobuf_alloc(LABEL_BYTES, ARENA_SYNC, &zero);

	if (err != 0) {
		return err;
	}
	memset(zero->data, 0, LABEL_BYTES);
	for (uint32_t i = 0; i < v->drive_count; i++) {
		struct vdev_drive *d = &v->drives[i];

		/* other pools may count on the spare */
		if (d->kb == NULL || d->role == DRIVE_ROLE_SPARE) {
			continue;
		}
		for (unsigned k = 0; k < LABEL_COUNT; k++) {
			err =
			    kb_write(d->kb, label_offset(d->region_bytes, k), zero, LABEL_BYTES, 0);
			first = first != 0 ? first : err;
		}
		err = kb_gpt_clear(d->kb);
		first = first != 0 ? first : err;
		err = kb_flush(d->kb);
		first = first != 0 ? first : err;
	}
	iobuf_unref(zero);
	return first;
}

/* ---- flush ---- */

struct flush_job {
	struct vdevs *v;
	struct waitgroup *wg;
	uint32_t set_index, failed;
};

static void
flush_set(void *arg)
{
	struct flush_job *job = arg;

	/* what failed is judged over all sets when the last one is done */
	int err = raidz_flush(job->v->sets[job->set_index].rg, &job->failed);

	(void)err;
	wg_done(job->wg);
}

int
vdev_flush_all(struct vdevs *v, bool *out_membership_changed)
{
	struct flush_job *jobs = mem_zalloc_array(v->set_count, sizeof(*jobs));
	struct waitgroup wg;

	if (jobs == NULL) {
		return -ENOMEM;
	}
	wg_init(&wg);
	wg_add(&wg, v->set_count);
	for (uint32_t i = 0; i < v->set_count; i++) {
		jobs[i] = (struct flush_job){.v = v, .wg = &wg, .set_index = i};
		if (DELIBERATE_BUG("pool-uber-before-flush")) {
			wg_done(&wg);
		} else if (i + 1 == v->set_count || fiber_spawn(rt_reactor_self(), FIBER_SYNC,
							"pool-flush", flush_set, &jobs[i]) != 0) {
			flush_set(&jobs[i]);
		}
	}
	wg_wait(&wg);
	for (uint32_t i = 0; i < v->set_count; i++) {
		if (!vdev_can_spare(v, i, jobs[i].failed)) {
			mem_free(jobs);
			return -EIO;
		}
	}
	for (uint32_t i = 0; i < v->set_count; i++) {
		for (uint32_t c = 0; c < v->sets[i].cfg.width; c++) {
			struct vdev_drive *d = vdev_column(v, i, c);

			if (d != NULL && ((jobs[i].failed >> c) & 1) != 0) {
				vdev_drive_out(v, d, DRIVE_STATE_FAULTED, v->committed_txg + 1);
				*out_membership_changed = true;
			}
		}
		*out_membership_changed |= vdev_twins_out(v, i, jobs[i].failed);
	}
	mem_free(jobs);
	return vdev_enough(v);
}
