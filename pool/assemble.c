/*
 * assemble.c - which of some drives make up a pool, and what each of them may lack.
 *
 * The newest uberblock of all drives says which configuration counts: the one it names, or, when a
 * configuration was being written as the power went and no label has the named one any more, the
 *next newer one. Older ones are stale.
 *
 * A drive is stale though the configuration doesn't say so when
 *	its labels stop at an older configuration: it was away when the newer one was written; or
 *	its newest uberblock is more than one txg behind on the same timeline.
 * One txg behind is what a power cut between two drives' uberblocks leaves, and all drives were
 *flushed before the first of them.
 */
#include <stdio.h>

#include "pool/label.h"
#include "pool/pool_int.h"

struct assembly {
	struct probe *probes;
	uint32_t count;
	struct uberblock *newest; /* of all drives; NULL: none */
	uint64_t config_txg;
};

static void
assembly_free(struct assembly *a)
{
	for (uint32_t i = 0; a->probes != NULL && i < a->count; i++) {
		probe_free(&a->probes[i]);
	}
	mem_free(a->probes);
}

static int
collect(const struct pool_import_spec *spec, struct assembly *a)
{
	a->probes = mem_zalloc_array(spec->drive_count, sizeof(*a->probes));
	if (a->probes == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < spec->drive_count; i++) {
		struct probe *pr = &a->probes[a->count];
		int err = probe_drive(spec->drives[i], pr);

		if (err == -ENOMEM) {
			return err;
		}
		if (err != 0) {
			continue;
		}
		if (!guid_equal(&pr->id.pool_guid, &spec->pool_guid) &&
		    !(pr->id.role == DRIVE_ROLE_SPARE && guid_is_zero(&pr->id.pool_guid))) {
			probe_free(pr);
			continue;
		}
		pr->candidate = i;
		a->count++;
		if (pr->has_uber && pr->id.role == DRIVE_ROLE_DATA &&
		    (a->newest == NULL || uber_cmp(pr->uber, a->newest) > 0)) {
			a->newest = pr->uber;
		}
	}
	return a->newest != NULL ? 0 : -ENOENT;
}

/* Configuration `want` from any label that has it. */
static int
config_read(const struct assembly *a, uint64_t want, struct vdevs *out)
{
	int err = -ENOENT;

	for (uint32_t i = 0; i < a->count && err != 0; i++) {
		const struct probe *pr = &a->probes[i];

		for (unsigned k = 0; k < LABEL_COUNT && err != 0; k++) {
			struct iobuf *buf;

			if (!pr->valid[k] || pr->label[k].config_txg != want ||
			    pr->label[k].config_bytes == 0) {
				continue;
			}
			err = iobuf_alloc(LABEL_UBER_OFF, ARENA_REPAIR, &buf);
			if (err != 0) {
				return err;
			}
			err =
			    kb_read(pr->kb, label_offset(pr->region_bytes, k), buf, LABEL_UBER_OFF);
			if (err == 0) {
				err = config_decode(
				    buf->data + LABEL_CONFIG_OFF, pr->label[k].config_bytes, out);
			}
			iobuf_unref(buf);
		}
	}
	return err;
}

/* Smallest configuration number >= at_least of any label; 0: none. */
static uint64_t
config_next(const struct assembly *a, uint64_t at_least)
{
	uint64_t best = 0;

	for (uint32_t i = 0; i < a->count; i++) {
		for (unsigned k = 0; k < LABEL_COUNT; k++) {
			uint64_t txg = a->probes[i].label[k].config_txg;

			if (a->probes[i].valid[k] && a->probes[i].label[k].config_bytes > 0 &&
			    txg >= at_least && (best == 0 || txg < best)) {
				best = txg;
			}
		}
	}
	return best;
}

static int
config_choose(struct assembly *a, struct vdevs *out)
{
	uint64_t txg = config_next(a, le64_get(a->newest->config_txg));
	int err = -ERR_CORRUPT;

	while (txg != 0 && err != 0) {
		err = config_read(a, txg, out);
		if (err == -ENOMEM || err == -ERR_FEATURE) {
			return err;
		}
		a->config_txg = txg;
		txg = config_next(a, txg + 1);
	}
	return err;
}

/* The best of the candidates that carry this guid: a copied drive has the same guid as the
 * original. */
static struct probe *
probe_of(const struct assembly *a, const struct vdev_drive *d)
{
	struct probe *best = NULL;

	for (uint32_t i = 0; i < a->count; i++) {
		struct probe *pr = &a->probes[i];
		int c = 0;

		if (!guid_equal(&pr->id.drive_guid, &d->guid) || pr->id.role != d->role) {
			continue;
		}
		if (best != NULL) {
			log_warn(
			    "drive.twice path=%s other=%s", kb_path(best->kb), kb_path(pr->kb));
			if (pr->has_uber != best->has_uber) {
				c = pr->has_uber ? 1 : -1;
			} else if (pr->has_uber) {
				c = uber_cmp(pr->uber, best->uber);
			}
			if (c == 0 && strcmp(kb_id(pr->kb), d->id) == 0) {
				c = 1;
			}
		}
		if (best == NULL || c > 0) {
			best = pr;
		}
	}
	return best;
}

/* What the drive's own labels and uberblocks say about its being up to date. */
static void
judge_stale(const struct assembly *a, const struct probe *pr, struct vdev_drive *d)
{
	uint64_t newest = le64_get(a->newest->txg), from = 0;
	bool old_config = pr->config_max < a->config_txg;

	if (d->role == DRIVE_ROLE_LOG && old_config) {
		from = 1;
	}
	if (d->role == DRIVE_ROLE_DATA) {
		bool same_line =
		    pr->has_uber && le64_get(pr->uber->timeline) == le64_get(a->newest->timeline);
		uint64_t own = pr->has_uber ? le64_get(pr->uber->txg) : 0;

		if (same_line && (own + 1 < newest || (old_config && own < newest))) {
			from = own + 1;
		} else if (!same_line && old_config) {
			from = 1;
		} else if (!pr->has_uber && newest > 1) {
			from = 1;
		}
	}
	if (from != 0 && (d->dirty_from == 0 || from < d->dirty_from)) {
		log_warn("drive.stale path=%s set=%u column=%u from_txg=%llu", kb_path(pr->kb),
		    d->set_index, d->column, (unsigned long long)from);
		d->dirty_from = from;
		d->in_pass = false;
		d->ring_stale = d->role == DRIVE_ROLE_DATA;
		d->dirty_to = MAX(d->dirty_to, MAX(newest, from));
	}
}

/* The greatest number that was used. Drives that aren't there, and labels that can't be read, may
 * have a greater one than those that can: far enough ahead none has the next. That all members are
 * there says nothing: a drive that an abandoned configuration wanted to add is none. */
static uint64_t
config_used(const struct assembly *a)
{
	uint64_t used = a->config_txg;

	for (uint32_t i = 0; i < a->count; i++) {
		used = MAX(used, a->probes[i].config_max);
	}
	return used + (rt_random_u64() >> 40);
}

static void
match_drives(const struct assembly *a, struct vdevs *v, struct pool_import_result *result)
{
	for (uint32_t i = 0; i < v->drive_count; i++) {
		struct vdev_drive *d = &v->drives[i];
		struct probe *pr = probe_of(a, d);

		if (pr == NULL) {
			result->missing_drives += d->role != DRIVE_ROLE_SPARE;
			continue;
		}
		d->kb = pr->kb;
		d->label_pair = probe_label_pair(pr, a->config_txg);
		(void)snprintf(d->id, sizeof(d->id), "%s", kb_id(pr->kb));
		(void)snprintf(d->path, sizeof(d->path), "%s", kb_path(pr->kb));
		if (result->drive_used != NULL) {
			result->drive_used[pr->candidate] = true;
		}
		judge_stale(a, pr, d);
	}
}

static int
check_features(const struct vdevs *v, bool readonly, struct pool_import_result *result)
{
	/* incompatible ones: config_decode */
	if ((v->feat_rocompat & ~FEATURES_ROCOMPAT) != 0 && !readonly) {
		(void)snprintf(result->why, sizeof(result->why),
		    "the pool uses on-disk features 0x%llx that this firmware can't write; import "
		    "it read-only",
		    (unsigned long long)(v->feat_rocompat & ~FEATURES_ROCOMPAT));
		return -ERR_FEATURE;
	}
	return 0;
}

/* Appends the names of the drives of a set that aren't there. */
static void
name_missing(const struct vdevs *v, uint32_t set_index, char *out, size_t len)
{
	size_t at = 0;

	out[0] = 0;
	for (uint32_t i = 0; i < v->drive_count && at + 1 < len; i++) {
		const struct vdev_drive *d = &v->drives[i];
		int n;

		if (d->role != DRIVE_ROLE_DATA || d->twin || d->set_index != set_index ||
		    (d->kb != NULL && d->state != DRIVE_STATE_OFFLINE)) {
			continue;
		}
		n = snprintf(out + at, len - at, "%s%s", at > 0 ? ", " : "", d->path);
		at += n > 0 ? (size_t)n : 0;
	}
}

/* Not a reason to refuse: what is written from now on is as safe as the missing drives leave it. */
static void
check_stale(
    const struct vdevs *v, uint32_t set_index, uint32_t missing, struct pool_import_result *result)
{
	uint32_t stale = 0;
	uint64_t from = UINT64_MAX, to = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->set_index == set_index && d->kb != NULL &&
		    !d->twin && d->state == DRIVE_STATE_ONLINE && d->dirty_from != 0) {
			stale++;
			from = MIN(from, d->dirty_from);
			to = MAX(to, d->dirty_to);
		}
	}
	if (missing > 0 && missing + stale > raidz_tolerates(&v->sets[set_index].cfg)) {
		(void)snprintf(result->why, sizeof(result->why),
		    "set %u lacks %u drive(s) and %u more are stale: what was written in txgs %llu "
		    "to %llu can't be "
		    "read until they are back",
		    set_index, missing, stale, (unsigned long long)from, (unsigned long long)to);
	}
}

static int
check_sets(const struct vdevs *v, struct pool_import_result *result)
{
	for (uint32_t i = 0; i < v->set_count; i++) {
		uint32_t missing = vdev_missing(v, i), may = raidz_tolerates(&v->sets[i].cfg);
		char names[160];

		if (missing > may) {
			name_missing(v, i, names, sizeof(names));
			(void)snprintf(result->why, sizeof(result->why),
			    "set %u lacks %u of its %u drives and can do without %u: %s", i,
			    missing, v->sets[i].cfg.width, may, names);
			return -EIO;
		}
		check_stale(v, i, missing, result);
	}
	return 0;
}

int
vdev_assemble(
    const struct pool_import_spec *spec, struct vdevs *out, struct pool_import_result *result)
{
	struct assembly a = {0};
	struct vdevs v = {0};
	int err = collect(spec, &a);

	if (err == -ENOENT) {
		(void)snprintf(result->why, sizeof(result->why), "%s",
		    a.count == 0 ? "none of the drives belongs to such a pool"
				 : "no drive has a root of it: its creation was never finished, or "
				   "its data drives are missing");
	}
	if (err == 0) {
		err = config_choose(&a, &v);
		if (err != 0) {
			(void)snprintf(result->why, sizeof(result->why),
			    err == -ERR_FEATURE
				? "the pool uses on-disk features that this firmware doesn't know; "
				  "update it first"
				: "no drive has a readable configuration that is as new as the "
				  "newest root");
		}
	}
	if (err != 0) {
		assembly_free(&a);
		return err;
	}
	v.committed_txg = le64_get(a.newest->txg);
	match_drives(&a, &v, result);
	v.config_used = config_used(&a);
	/* who was out and is there again gets every write from now on, and stays stale for what it
	 * missed */
	for (uint32_t i = 0; i < v.drive_count; i++) {
		struct vdev_drive *d = &v.drives[i];

		if (d->kb != NULL && d->state != DRIVE_STATE_ONLINE &&
		    (d->state != DRIVE_STATE_OFFLINE || d->until_import)) {
			vdev_drive_back(&v, d, v.committed_txg);
		}
	}
	assembly_free(&a);
	err = check_features(&v, spec->readonly, result);
	if (err == 0) {
		err = check_sets(&v, result);
	}
	if (err == 0) {
		err = vdev_open_groups(&v, spec->readonly);
	}
	if (err != 0) {
		vdev_free(&v, false);
		return err;
	}
	*out = v;
	return 0;
}
