/* cmd_pool.c - labels, config, datasets. */
#include "dump/dump.h"

static const char *
role_name(uint32_t role)
{
	return role == ROLE_DATA ? "data" : role == ROLE_LOG ? "log" : "spare";
}

static void
uber_show(unsigned label, unsigned slot, const struct dump_uber *u)
{
	(void)printf("  label %u slot %3u: timeline %llu txg %llu ", label, slot,
	    (unsigned long long)u->timeline, (unsigned long long)u->txg);
	out_time(
	    stdout, (int64_t)(u->time_ns / NSEC_PER_SEC), (uint32_t)(u->time_ns % NSEC_PER_SEC));
	(void)printf(" config %llu heartbeat %llu%s host ", (unsigned long long)u->config_txg,
	    (unsigned long long)u->heartbeat, (u->flags & UBER_CLEAN_FLAG) != 0 ? " clean" : "");
	out_text(stdout, u->host_name, strlen(u->host_name));
	(void)putchar('\n');
}

/* The ring of one label. */
static void
ring_show(const struct dump_drive *d, unsigned label, bool verbose, uint8_t *ring)
{
	uint64_t off = dump_label_offset(d->region_bytes, label) + UBER_AT;
	const struct dump_label *l = &d->label[d->id];
	unsigned empty = 0;

	if (dump_drive_read(d, off, ring, UBER_COUNT * UBER_SIZE) != 0) {
		(void)printf("  label %u: its uberblocks can't be read\n", label);
		return;
	}
	for (unsigned i = 0; i < UBER_COUNT; i++) {
		struct dump_uber u;
		const char *why = dump_uber_decode(
		    ring + i * UBER_SIZE, off + i * UBER_SIZE, i, l->pool_guid, l->drive_guid, &u);

		if (why == NULL) {
			uber_show(label, i, &u);
		} else if (strcmp(why, "empty") == 0) {
			empty++;
		} else {
			(void)printf("  label %u slot %3u: not valid: %s\n", label, i, why);
		}
	}
	if (verbose && empty > 0) {
		(void)printf("  label %u: %u slots are empty\n", label, empty);
	}
}

static void
label_show(const struct dump_label *l, unsigned index)
{
	if (l->why != NULL) {
		(void)printf("  label %u: not valid: %s\n", index, l->why);
		return;
	}
	(void)printf("  label %u: pool ", index);
	out_guid(stdout, l->pool_guid);
	(void)printf(" drive ");
	out_guid(stdout, l->drive_guid);
	(void)printf(" %s", role_name(l->role));
	if (l->role == ROLE_DATA) {
		(void)printf(" set %u column %u", l->set, l->column);
	} else if (l->role == ROLE_LOG) {
		(void)printf(" side %u", l->column);
	}
	(void)printf(" config %llu (%u bytes) region %llu\n", (unsigned long long)l->config_txg,
	    l->config_bytes, (unsigned long long)l->region_bytes);
}

int
cmd_labels(struct dump_drive *drives, uint32_t count, bool verbose)
{
	uint8_t *ring = mem_zalloc(UBER_COUNT * UBER_SIZE);

	if (ring == NULL) {
		return 1;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct dump_drive *d = &drives[i];

		out_text(stdout, d->path, strlen(d->path));
		(void)printf(": %llu bytes%s\n", (unsigned long long)d->size_bytes,
		    d->shift > 0 ? ", a partition" : "");
		for (unsigned k = 0; k < LABELS; k++) {
			label_show(&d->label[k], k);
		}
		for (unsigned k = 0; k < LABELS && d->id >= 0; k++) {
			if (d->label[d->id].role == ROLE_DATA) {
				ring_show(d, k, verbose, ring);
			}
		}
	}
	mem_free(ring);
	return 0;
}

/* ---- config ---- */

static void
guid_line(const char *what, const uint8_t guid[GUID_LEN])
{
	(void)printf("%-16s ", what);
	out_guid(stdout, guid);
	(void)putchar('\n');
}

static void
number_line(const char *what, uint64_t n)
{
	(void)printf("%-16s %llu\n", what, (unsigned long long)n);
}

static void
sets_show(const struct dump_config *c)
{
	for (uint32_t i = 0; i < c->set_count; i++) {
		const struct dump_set *s = &c->sets[i];

		(void)printf("set %u: ", i);
		if (s->kind == KIND_MIRROR) {
			(void)printf("mirror of %u", s->width);
		} else {
			(void)printf("%u+%u parity", s->width - s->parity, s->parity);
		}
		(void)printf(", columns at %llu, %llu bytes each; %llu segments of %llu sectors; ",
		    (unsigned long long)s->base_bytes, (unsigned long long)s->column_bytes,
		    (unsigned long long)s->segment_count, (unsigned long long)s->segment_sectors);
		out_guid(stdout, s->guid);
		(void)putchar('\n');
	}
}

static void
member_show(const struct dump_member *m)
{
	static const char *const states[] = {"", "online", "offline", "faulted", "removed"};

	(void)printf("drive ");
	out_guid(stdout, m->guid);
	(void)printf(" %s", role_name(m->role));
	if (m->role == ROLE_DATA) {
		(void)printf(
		    " set %u column %u%s", m->set, m->column, m->twin ? " (replaces it)" : "");
	} else if (m->role == ROLE_LOG) {
		(void)printf(" side %u", m->column);
	}
	(void)printf(" %s", states[m->state]);
	if (m->dirty_from != 0 && m->dirty_to == UINT64_MAX) {
		(void)printf(" lacks txgs from %llu on", (unsigned long long)m->dirty_from);
	} else if (m->dirty_from != 0) {
		(void)printf(" lacks txgs %llu..%llu", (unsigned long long)m->dirty_from,
		    (unsigned long long)m->dirty_to);
	}
	(void)printf(" id=");
	out_text(stdout, m->id, strlen(m->id));
	(void)printf(" was=");
	out_text(stdout, m->path, strlen(m->path));
	if (m->drive != NULL) {
		(void)printf(" is=");
		out_text(stdout, m->drive->path, strlen(m->drive->path));
	} else {
		(void)printf(" missing");
	}
	(void)putchar('\n');
}

int
cmd_config(struct dump_pool *p)
{
	const struct dump_config *c = &p->config;
	const struct dump_uber *u = &p->uber;

	(void)printf("%-16s ", "name");
	out_text(stdout, c->name, strlen(c->name));
	(void)putchar('\n');
	guid_line("guid", c->pool_guid);
	(void)printf("%-16s ", "created");
	out_time(stdout, (int64_t)c->create_time, 0);
	(void)printf(
	    "\n%-16s 0x%llx compatible, 0x%llx read-only compatible, 0x%llx incompatible\n",
	    "features", (unsigned long long)c->feat_compat, (unsigned long long)c->feat_rocompat,
	    (unsigned long long)c->feat_incompat);
	number_line("config", c->config_txg);
	number_line("timeline", u->timeline);
	number_line("txg", u->txg);
	(void)printf("%-16s %s\n", "clean", (u->flags & UBER_CLEAN_FLAG) != 0 ? "yes" : "no");
	(void)printf("%-16s ", "last host");
	out_text(stdout, u->host_name, strlen(u->host_name));
	(void)printf(" (%016llx)\n", (unsigned long long)u->host_id);
	guid_line("log", u->log_guid);
	number_line("used sectors", u->used_sectors);
	sets_show(c);
	for (uint32_t i = 0; i < c->member_count; i++) {
		member_show(&c->members[i]);
	}
	return 0;
}

/* ---- datasets ---- */

static int
props_show(struct dump_pool *p, const struct dump_dataset *ds)
{
	char *props;
	uint32_t len;
	int err = dump_dataset_props(p, ds, &props, &len);

	if (err != 0) {
		return err;
	}
	for (uint32_t at = 0; at < len;) {
		const char *key = props + at;
		const char *value = key + strlen(key) + 1;

		(void)printf("\t");
		out_text(stdout, key, strlen(key));
		(void)printf("=");
		out_text(stdout, value, strlen(value));
		at += (uint32_t)(strlen(key) + strlen(value) + 2);
	}
	mem_free(props);
	return 0;
}

/* What a snapshot or a clone adds to the line; txg and deadlist of the former, origin of the
 * latter. */
static void
chain_show(const struct dump_dataset *v, uint32_t count, const struct dump_dataset *ds)
{
	if (ds->is_snap) {
		(void)printf("\ttxg=%llu", (unsigned long long)ds->create_txg);
	}
	if (ds->dead_sectors != 0) {
		(void)printf("\tdead=%llu", (unsigned long long)ds->dead_sectors);
	}
	for (uint32_t i = 0; i < count && ds->origin != 0; i++) {
		if (v[i].object == ds->origin) {
			(void)printf("\torigin=");
			out_text(stdout, v[i].path, strlen(v[i].path));
		}
	}
}

static void
limits_show(const struct dump_dataset *ds)
{
	static const char *const names[] = {"quota", "refquota", "reservation", "refreservation"};

	for (unsigned i = 0; i < 4; i++) {
		if (ds->limit[i] != 0) {
			(void)printf("\t%s=%llu", names[i], (unsigned long long)ds->limit[i]);
		}
	}
}

int
cmd_datasets(struct dump_pool *p)
{
	struct dump_dataset *v;
	uint32_t count;
	int err = dump_datasets(p, &v, &count);

	if (err != 0) {
		out_error("the list of datasets: %s", err_str(err));
		return 1;
	}
	for (uint32_t i = 0; i < count; i++) {
		out_text(stdout, v[i].path, strlen(v[i].path));
		(void)printf("\tguid=%016llx\tobject=%llu\t%s\tsectors=%llu\tcreated=",
		    (unsigned long long)v[i].guid, (unsigned long long)v[i].object,
		    v[i].is_snap ? "snapshot" : "filesystem",
		    (unsigned long long)(v[i].is_snap ? v[i].ref_sectors : v[i].used_sectors));
		out_time(stdout, (int64_t)v[i].create_time, 0);
		chain_show(v, count, &v[i]);
		limits_show(&v[i]);
		err = props_show(p, &v[i]);
		(void)putchar('\n');
		if (err != 0) {
			out_error("properties of %s: %s", v[i].path, err_str(err));
		}
	}
	mem_free(v);
	return 0;
}
