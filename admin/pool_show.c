/* pool_show.c - pool list and status: how pools are, from memory alone; a status never waits for a
 * drive. */
#include <stdio.h>
#include "admin/admin_int.h"

static const char *
pool_health_name(const struct pool_status *st)
{
	switch (st->health) {
	case POOL_ONLINE:
		return "ONLINE";
	case POOL_DEGRADED:
		return "DEGRADED";
	case POOL_SUSPENDED:
		return "SUSPENDED";
	}
	return "UNKNOWN";
}

static const char *
spare_state_name(const struct pool_drive_status *d)
{
	if (!d->present) {
		return "REMOVED";
	}
	return d->claimed ? "INUSE" : "AVAIL";
}

static const char *
drive_state_name(const struct pool_drive_status *d)
{
	if (d->role == DRIVE_ROLE_SPARE) {
		return spare_state_name(d);
	}
	switch (d->state) {
	case DRIVE_STATE_ONLINE:
		if (d->twin && d->present) {
			return "FILLING";
		}
		return !d->present                 ? "UNAVAIL"
		       : d->stale                  ? "STALE"
		       : d->degraded != DRIVE_WELL ? "DEGRADED"
						   : "ONLINE";
	case DRIVE_STATE_OFFLINE:
		return "OFFLINE";
	case DRIVE_STATE_FAULTED:
		return d->present ? "FAULTED" : "REMOVED";
	case DRIVE_STATE_REMOVED:
		return "REMOVED";
	}
	return "UNKNOWN";
}

static const char *
drive_note_state(const struct pool_drive_status *d)
{
	if (d->role == DRIVE_ROLE_SPARE) {
		return d->present && d->claimed ? "another pool uses it" : "";
	}
	if (d->state == DRIVE_STATE_OFFLINE && d->until_import) {
		return "until the next import";
	}
	if (d->twin && d->state == DRIVE_STATE_ONLINE && d->present) {
		return "takes the place of the drive above when it has everything";
	}
	if (d->state == DRIVE_STATE_ONLINE && d->stale) {
		return d->role == DRIVE_ROLE_LOG ? "joins by itself in a moment"
		       : d->resilvering          ? "being brought up to date"
						 : "waits to be brought up to date";
	}
	if (d->degraded != DRIVE_WELL) {
		return d->degraded == DRIVE_DEGRADED_CKSUM ? "too many wrong checksums"
							   : "too many slow answers";
	}
	return "";
}

/* What is special about it, in a few words. */
static void
drive_note(const struct pool_drive_status *d, char *out, size_t len)
{
	if (d->sits_out_s != 0) {
		snprintf(out, len,
		    "slow: a read took %u us, of its siblings %u us; not read for %u s more",
		    d->read_us, d->siblings_read_us, d->sits_out_s);
		return;
	}
	if (d->role == DRIVE_ROLE_LOG && d->volatile_cache && drive_note_state(d)[0] == '\0') {
		snprintf(out, len, "no power-loss protection: every record waits for its medium");
		return;
	}
	snprintf(out, len, "%s", drive_note_state(d));
}

static json_t *
pool_drive_json(struct adm *a, const struct pool_drive_status *d)
{
	char guid[33], note[160], fault[160] = "";
	adm_guid_text(&d->guid, guid);
	(void)inject_text(a, d->id, fault, sizeof(fault));
	drive_note(d, note, sizeof(note));
	json_t *o = json_pack("{s:o, s:o, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:s, s:s}",
	    "path", adm_text(d->path), "id", adm_text(d->id), "guid", guid, "state",
	    drive_state_name(d), "column", (int)d->column, "read_errors",
	    (json_int_t)d->read_errors, "write_errors", (json_int_t)d->write_errors, "cksum_errors",
	    (json_int_t)d->cksum_errors, "repaired", (json_int_t)d->repaired, "out_since",
	    (json_int_t)d->out_since, "note", note, "injected", fault);
	json_object_set_new(o, "sector", json_integer(d->physical_sector_bytes));
	json_object_set_new(o, "volatile_cache", json_boolean(d->volatile_cache));
	json_object_set_new(o, "slow_ios", json_integer((json_int_t)d->slow_ios));
	json_object_set_new(o, "degraded_since", json_integer((json_int_t)d->degraded_since));
	json_object_set_new(o, "sits_out_s", json_integer(d->sits_out_s));
	json_object_set_new(o, "sit_outs", json_integer(d->sit_outs));
	return o;
}

/* The drive that is to take its place; NULL. */
static const struct pool_drive_status *
twin_of(const struct pool_status *st, const struct pool_drive_status *of)
{
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *d = &st->drives[i];
		if (of->role == DRIVE_ROLE_DATA && d->twin && d->set_index == of->set_index &&
		    d->column == of->column) {
			return d;
		}
	}
	return NULL;
}

static json_t *
pool_group_json(struct adm *a, const struct pool_status *st, enum drive_role role, uint32_t set)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *d = &st->drives[i];
		if (d->role != role || d->twin ||
		    (role == DRIVE_ROLE_DATA && d->set_index != set)) {
			continue;
		}
		json_array_append_new(list, pool_drive_json(a, d));
		const struct pool_drive_status *twin = twin_of(st, d);
		if (twin != NULL) {
			json_t *o = pool_drive_json(a, twin);
			json_object_set_new(o, "replaces", adm_text(d->path));
			json_array_append_new(list, o);
		}
	}
	return list;
}

static json_t *
pool_sets_json(struct adm *a, const struct pool_status *st)
{
	json_t *sets = json_array();
	for (uint32_t i = 0; i < st->set_count; i++) {
		const struct config_set *s = &st->sets[i];
		char kind[16];
		if (le32_get(s->kind) == RAIDZ_KIND_MIRROR) {
			snprintf(kind, sizeof(kind), "%s",
			    le32_get(s->width) == 1 ? "single" : "mirror");
		} else {
			snprintf(kind, sizeof(kind), "raidz%u", le32_get(s->parity));
		}
		json_array_append_new(sets, json_pack("{s:s, s:o}", "kind", kind, "drives",
						pool_group_json(a, st, DRIVE_ROLE_DATA, i)));
	}
	return sets;
}

static const char *
scan_state_name(enum scan_state state)
{
	switch (state) {
	case SCAN_NEVER:
		return "never";
	case SCAN_RUNNING:
		return "running";
	case SCAN_PAUSED:
		return "paused";
	case SCAN_DONE:
		return "done";
	case SCAN_CANCELLED:
		return "stopped";
	}
	return "never";
}

/* left_s is left out while it can't be told. */
static json_t *
pool_scan_json(struct pool *p)
{
	struct pool_scan_status st;
	pool_get_scan(p, &st);
	json_t *o = json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "kind",
	    st.kind == SCAN_RESILVER ? "resilver" : "scrub", "state", scan_state_name(st.state),
	    "percent", (int)st.percent, "examined", (json_int_t)st.examined_bytes, "total",
	    (json_int_t)st.total_bytes, "repaired", (json_int_t)st.repaired, "errors",
	    (json_int_t)st.errors, "started", (json_int_t)st.started, "ended", (json_int_t)st.ended,
	    "bytes_per_s", (json_int_t)st.bytes_per_s);
	if (st.left_s != UINT64_MAX) {
		json_object_set_new(o, "left_s", json_integer((json_int_t)st.left_s));
	}
	return o;
}

static json_t *
pool_trim_json(struct pool *p)
{
	static const char *const states[] = {[TRIM_NEVER] = "never",
	    [TRIM_RUNNING] = "running",
	    [TRIM_PAUSED] = "paused",
	    [TRIM_DONE] = "done",
	    [TRIM_CANCELLED] = "cancelled"};
	struct pool_trim_status st;
	pool_get_trim(p, &st);
	return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:b}", "state",
	    states[st.state], "percent", (int)st.percent, "trimmed", (json_int_t)st.trimmed_bytes,
	    "fresh", (json_int_t)st.fresh_bytes, "started", (json_int_t)st.started, "ended",
	    (json_int_t)st.ended, "rate", (json_int_t)st.bytes_per_s, "automatic",
	    (json_int_t)st.auto_bytes, "drives_without", (int)st.drives_without, "waiting",
	    st.waiting);
}

/* The drive that most needs somebody: who is out before who had errors. */
static const struct pool_drive_status *
worst_drive(const struct pool_status *st)
{
	const struct pool_drive_status *worst = NULL;
	int rank = 0;
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *d = &st->drives[i];
		bool out = !d->present || d->state != DRIVE_STATE_ONLINE;
		int r = d->role == DRIVE_ROLE_SPARE ? 0
			: out                       ? 4
			: d->stale && !d->twin      ? 3
			: d->degraded != DRIVE_WELL
			    ? 2
			    : d->read_errors + d->write_errors + d->cksum_errors != 0;
		if (r > rank) {
			worst = d;
			rank = r;
		}
	}
	return worst;
}

/* What to type, or what to do. */
static void
pool_action(const struct pool_status *st, char *out, size_t len)
{
	const struct pool_drive_status *d = worst_drive(st);
	const char *name = st->name;
	out[0] = '\0';
	if (st->health == POOL_SUSPENDED) {
		snprintf(out, len,
		    st->reimport ? "It is imported anew by itself when its drives are there; or: "
				   "pool export -f %s, pool "
				   "import %s"
				 : "Reconnect the drives that are out: the pool goes on by itself. "
				   "To give it up for "
				   "now: pool export -f %s",
		    name, name);
	} else if (d == NULL) {
		return;
	} else if (d->role == DRIVE_ROLE_LOG && (!d->present || d->state != DRIVE_STATE_ONLINE)) {
		snprintf(out, len,
		    "Reconnect %.160s; the other side, or the pool's own drives, keep the log.",
		    d->path);
	} else if (d->state == DRIVE_STATE_OFFLINE) {
		snprintf(out, len, "pool online %s %.160s", name, d->path);
	} else if (!d->present || d->state == DRIVE_STATE_REMOVED) {
		snprintf(out, len,
		    "Reconnect %.120s; if it is lost: pool replace %s %.120s NEWDRIVE", d->path,
		    name, d->path);
	} else if (d->state == DRIVE_STATE_FAULTED) {
		snprintf(out, len,
		    "pool replace %s %.120s NEWDRIVE; if the drive is sound: pool clear %s %.120s",
		    name, d->path, name, d->path);
	} else if (d->stale) {
		snprintf(out, len, "None: %.160s is brought up to date by itself.", d->path);
	} else if (d->degraded != DRIVE_WELL) {
		snprintf(out, len,
		    "pool replace %s %.120s NEWDRIVE, unless a spare does so by itself; if the "
		    "drive is sound: pool clear %s %.120s",
		    name, d->path, name, d->path);
	} else {
		snprintf(out, len,
		    "%.120s had errors, all repaired. If they go on: pool replace %s %.120s "
		    "NEWDRIVE; else: pool clear %s",
		    d->path, name, d->path, name);
	}
}

static json_t *
pool_json(struct adm *a, const struct adm_pool *ap, const struct pool_status *st, bool whole)
{
	char action[480];
	char guid[33];
	adm_guid_text(&st->guid, guid);
	json_t *o = json_pack(
	    "{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "name",
	    st->name, "guid", guid, "health", pool_health_name(st), "why", adm_text(st->why), "txg",
	    (json_int_t)st->txg, "raw", (json_int_t)st->raw_bytes, "raw_used",
	    (json_int_t)st->raw_used_bytes, "pending_free", (json_int_t)st->raw_pending_free_bytes,
	    "usable", (json_int_t)st->usable_bytes, "free", (json_int_t)st->usable_free_bytes,
	    "log", (json_int_t)st->log_ring_bytes, "log_used", (json_int_t)st->log_used_bytes,
	    "data_errors", (json_int_t)st->data_errors, "log_in_pool", st->log_in_pool);
	json_object_set_new(
	    o, "expandable", json_integer((json_int_t)pool_expandable_bytes(ap->pool)));
	if (whole) {
		pool_action(st, action, sizeof(action));
		json_object_set_new(o, "action", adm_text(action));
		json_object_set_new(o, "scan", pool_scan_json(ap->pool));
		json_object_set_new(o, "trim", pool_trim_json(ap->pool));
		json_object_set_new(o, "damaged", damages_json(ap));
		json_object_set_new(o, "sets", pool_sets_json(a, st));
		json_object_set_new(o, "logs", pool_group_json(a, st, DRIVE_ROLE_LOG, 0));
		json_object_set_new(o, "spares", pool_group_json(a, st, DRIVE_ROLE_SPARE, 0));
	}
	return o;
}

/* One pool when named, else all. */
static int
pool_show(struct adm *a, json_t *args, bool whole, json_t **out, struct adm_error *e)
{
	struct adm_pool *one = NULL;
	if (json_object_get(args, "pool") != NULL && (one = adm_arg_pool(a, args, e)) == NULL) {
		return -e->code;
	}
	json_t *list = json_array();
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct pool_status st;
		if (one != NULL && one != &a->pools[i]) {
			continue;
		}
		int err = pool_get_status(a->pools[i].pool, &st);
		if (err != 0) {
			json_decref(list);
			return adm_fail(e, err, "the status can't be told: %s", err_str(err));
		}
		json_array_append_new(list, pool_json(a, &a->pools[i], &st, whole));
		pool_status_free(&st);
	}
	*out = list;
	return 0;
}

int
pool_cmd_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	return pool_show(a, args, false, out, e);
}

int
pool_cmd_status(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	return pool_show(a, args, true, out, e);
}
