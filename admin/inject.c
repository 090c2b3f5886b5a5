/*
 * inject.c - disk inject: drives that fail on purpose, to see what a pool does and whether a site's
 * alerts arrive. What a drive is to do wrong is kept by the drive's identity, in memory, for as
 * long as this daemon runs: a drive that is opened again (it was "gone", its pool was imported
 * anew) gets the same faults, and a restart ends them all.
 *
 * An entry keeps its kb_faults for good, since open descriptors refer to it. inject_lock guards the
 * entries; nothing parks under it, so pools are told outside, under adm->lock.
 */
#include <stdio.h>
#include "admin/admin_int.h"

#define HANG_S_MAX 3600
#define SLOW_MS_MAX 600000

/* ---- entries ---- */

/* Under inject_lock. */
static struct adm_inject *
entry_of(struct adm *a, const char *id)
{
	for (uint32_t i = 0; i < ADM_INJECTS_MAX; i++) {
		if (a->injects[i].faults != NULL && strcmp(a->injects[i].info.id, id) == 0) {
			return &a->injects[i];
		}
	}
	return NULL;
}

/* The entry of the drive, made if need be; armed with spec. NULL: there are too many. Under
 * inject_lock. */
static struct adm_inject *
entry_arm(struct adm *a, const struct kb_info *info, const struct kb_fault_spec *spec)
{
	struct adm_inject *entry = entry_of(a, info->id);
	for (uint32_t i = 0; entry == NULL && i < ADM_INJECTS_MAX; i++) {
		struct kb_faults *f = a->injects[i].faults == NULL ? kb_faults_create() : NULL;
		if (f != NULL) {
			entry = &a->injects[i];
			entry->faults = f;
			entry->info = *info;
		}
	}
	if (entry != NULL) {
		kb_faults_set(entry->faults, spec);
		entry->armed = true;
		entry->since = rt_wall_ns() / NSEC_PER_SEC;
	}
	return entry;
}

int
inject_open(struct adm *a, struct kb_drive *d)
{
	struct kb_fault_spec spec = {0};
	uint64_t hits;
	bool spent;
	mutex_lock(&a->inject_lock);
	struct adm_inject *entry = entry_of(a, kb_id(d));
	if (entry != NULL && entry->armed) {
		kb_faults_get(entry->faults, &spec, &hits, &spent);
		kb_faults_attach(d, entry->faults, true);
	}
	mutex_unlock(&a->inject_lock);
	if (spec.gone) {
		kb_close(d);
		return -ENODEV;
	}
	return 0;
}

void
inject_free(struct adm *a)
{
	for (uint32_t i = 0; i < ADM_INJECTS_MAX; i++) {
		if (a->injects[i].faults != NULL) {
			kb_faults_put(a->injects[i].faults);
			a->injects[i].faults = NULL;
		}
	}
}

/* ---- in words ---- */

static const char *const op_names[] = {
    [KB_READ] = "read", [KB_WRITE] = "write", [KB_FLUSH] = "flush"};

static const struct {
	const char *name;
	int status;
} statuses[] = {{"io", -EIO}, {"medium", -ENODATA}, {"timeout", -ETIMEDOUT}, {"gone", -ERR_GONE}};

static void append(char *out, size_t len, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void
append(char *out, size_t len, const char *fmt, ...)
{
	size_t have = strlen(out);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(out + have, len - have, fmt, ap);
	va_end(ap);
}

static void
spec_text(const struct kb_fault_spec *s, char *out, size_t len)
{
	out[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(op_names); i++) {
		if ((s->errors & (1u << i)) != 0) {
			append(out, len, "%s%s", out[0] != '\0' ? "," : "", op_names[i]);
		}
	}
	for (size_t i = 0; s->errors != 0 && i < ARRAY_LEN(statuses); i++) {
		if (statuses[i].status == s->status) {
			append(out, len, " errors (%s)", statuses[i].name);
		}
	}
	if (s->corrupt) {
		append(out, len, "%sreads corrupt", out[0] != '\0' ? ", " : "");
	}
	if (s->slow_ms != 0) {
		append(out, len, "%s%u ms slower", out[0] != '\0' ? ", " : "", s->slow_ms);
	}
	if (s->hang_until_ns != 0) {
		append(out, len, "%shanging", out[0] != '\0' ? ", " : "");
	}
	if (s->gone) {
		append(out, len, "%sgone", out[0] != '\0' ? ", " : "");
	}
	if (s->one_in > 1) {
		append(out, len, ", one in %u", s->one_in);
	}
	if (s->count != 0) {
		append(out, len, ", %llu times", (unsigned long long)s->count);
	}
	if (s->len_bytes != 0) {
		append(out, len, ", at %llu+%llu", (unsigned long long)s->off_bytes,
		    (unsigned long long)s->len_bytes);
	}
}

bool
inject_text(struct adm *a, const char *id, char *out, size_t len)
{
	struct kb_fault_spec spec;
	uint64_t hits;
	bool spent, armed;
	mutex_lock(&a->inject_lock);
	struct adm_inject *entry = entry_of(a, id);
	armed = entry != NULL && entry->armed;
	if (armed) {
		kb_faults_get(entry->faults, &spec, &hits, &spent);
		spec_text(&spec, out, len);
	}
	mutex_unlock(&a->inject_lock);
	return armed;
}

/* ---- a drive's pools ---- */

/* Would the drive be missed? Slow answers are answers. */
static bool
spec_hurts(const struct kb_fault_spec *s, uint32_t timeout_ms)
{
	return s->errors != 0 || s->corrupt || s->gone || s->hang_until_ns != 0 ||
	       s->slow_ms >= timeout_ms / 2;
}

static bool
drive_hurts(struct adm *a, const struct pool_drive_status *d)
{
	struct kb_fault_spec spec;
	uint64_t hits;
	bool spent, hurts = false;
	mutex_lock(&a->inject_lock);
	struct adm_inject *entry = entry_of(a, d->id);
	if (entry != NULL && entry->armed) {
		kb_faults_get(entry->faults, &spec, &hits, &spent);
		hurts = !spent && spec_hurts(&spec, entry->info.timeout_ms);
	}
	mutex_unlock(&a->inject_lock);
	return hurts;
}

/* How many others like d its pool is without, or would be; and how many there are. */
static uint32_t
others_lacking(struct adm *a, const struct pool_status *st, const struct pool_drive_status *d,
    uint32_t *out_others)
{
	uint32_t lacking = 0;
	*out_others = 0;
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *o = &st->drives[i];
		if (o == d || o->role != d->role ||
		    (d->role == DRIVE_ROLE_DATA && o->set_index != d->set_index)) {
			continue;
		}
		(*out_others)++;
		lacking +=
		    !o->present || o->state != DRIVE_STATE_ONLINE || o->stale || drive_hurts(a, o);
	}
	return lacking;
}

static bool
can_spare(struct adm *a, const struct pool_status *st, const struct pool_drive_status *d)
{
	uint32_t others, lacking = others_lacking(a, st, d, &others);
	if (d->role == DRIVE_ROLE_SPARE) {
		return true;
	}
	if (d->role == DRIVE_ROLE_LOG) {
		return lacking < others;
	}
	const struct config_set *s = &st->sets[d->set_index];
	uint32_t width = le32_get(s->width);
	uint32_t tolerates =
	    le32_get(s->kind) == RAIDZ_KIND_MIRROR ? width - 1 : le32_get(s->parity);
	return lacking + 1 <= tolerates;
}

/* Calls fn for each pool in service that has the drive, with its status, until one call isn't 0. */
typedef int member_fn(struct adm *a, struct adm_pool *ap, const struct pool_status *st,
    const struct pool_drive_status *d, void *arg);

static int
members_each(struct adm *a, const char *id, member_fn *fn, void *arg)
{
	int err = 0;
	for (uint32_t p = 0; p < a->pool_count && err == 0; p++) {
		struct pool_status st;
		if (pool_get_status(a->pools[p].pool, &st) != 0) {
			continue;
		}
		for (uint32_t i = 0; i < st.drive_count && err == 0; i++) {
			if (strcmp(st.drives[i].id, id) == 0) {
				err = fn(a, &a->pools[p], &st, &st.drives[i], arg);
			}
		}
		pool_status_free(&st);
	}
	return err;
}

static int
member_check(struct adm *a, struct adm_pool *ap, const struct pool_status *st,
    const struct pool_drive_status *d, void *arg)
{
	struct adm_error *e = arg;
	if (can_spare(a, st, d)) {
		return 0;
	}
	adm_fail_next(e, "If it is meant to hurt, add -f.");
	return adm_fail(e, EBUSY, "pool '%s' has no redundancy to spare for drive %.200s",
	    pool_name(ap->pool), d->path);
}

struct telling {
	struct kb_faults *faults;
	bool armed;
	const char *what;
	const char *pool; /* out: one that has it, for the history */
};

static int
member_tell(struct adm *a, struct adm_pool *ap, const struct pool_status *st,
    const struct pool_drive_status *d, void *arg)
{
	struct telling *t = arg;
	(void)a;
	(void)st;
	pool_drive_inject(ap->pool, &d->guid, t->faults, t->armed, t->what);
	t->pool = pool_name(ap->pool);
	return 0;
}

/* ---- what is asked for ---- */

static int64_t
arg_number(json_t *args, const char *key, int64_t least, int64_t most, struct adm_error *e)
{
	json_t *v = json_object_get(args, key);
	int64_t n = json_integer_value(v);
	if (v == NULL) {
		return 0;
	}
	if (!json_is_integer(v) || n < least || n > most) {
		return adm_fail(e, EINVAL, "%s must be from %lld to %lld", key, (long long)least,
		    (long long)most);
	}
	return n;
}

static int
spec_errors(json_t *args, struct kb_fault_spec *s, struct adm_error *e)
{
	const char *error = json_string_value(json_object_get(args, "error"));
	const char *status = json_string_value(json_object_get(args, "status"));
	for (size_t i = 0; error != NULL && i < ARRAY_LEN(op_names); i++) {
		if (strcmp(error, op_names[i]) == 0 || strcmp(error, "all") == 0) {
			s->errors |= 1u << i;
		}
	}
	if (error != NULL && s->errors == 0) {
		return adm_fail(
		    e, EINVAL, "errors are of read, write, flush or all, not '%.40s'", error);
	}
	if (status != NULL && error == NULL) {
		return adm_fail(e, EINVAL, "a status goes with an error");
	}
	s->status = status == NULL ? -EIO : 0;
	for (size_t i = 0; status != NULL && i < ARRAY_LEN(statuses); i++) {
		if (strcmp(status, statuses[i].name) == 0) {
			s->status = statuses[i].status;
		}
	}
	return s->status != 0 ? 0
			      : adm_fail(e, EINVAL,
				    "a status is io, medium, timeout or gone, not '%.40s'", status);
}

static int
spec_of(json_t *args, struct kb_fault_spec *s, struct adm_error *e)
{
	*s = (struct kb_fault_spec){0};
	int err = spec_errors(args, s, e);
	if (err != 0) {
		return err;
	}
	int64_t hang = arg_number(args, "hang_s", 1, HANG_S_MAX, e);
	s->corrupt = adm_arg_flag(args, "corrupt");
	s->gone = adm_arg_flag(args, "gone");
	s->slow_ms = (uint32_t)MAX(arg_number(args, "slow_ms", 1, SLOW_MS_MAX, e), 0);
	s->one_in = (uint32_t)MAX(arg_number(args, "one_in", 1, UINT32_MAX, e), 0);
	s->count = (uint64_t)arg_number(args, "count", 1, INT64_MAX, e);
	s->off_bytes = (uint64_t)arg_number(args, "offset", 0, INT64_MAX / 2, e);
	s->len_bytes = (uint64_t)arg_number(args, "length", 1, INT64_MAX / 2, e);
	s->hang_until_ns = hang > 0 ? rt_now_ns() + (uint64_t)hang * NSEC_PER_SEC : 0;
	if (e->code != 0) {
		return -e->code;
	}
	if (!spec_hurts(s, UINT32_MAX) && s->slow_ms == 0) {
		return adm_fail(e, EINVAL, "nothing was said that the drive should do wrong");
	}
	if (s->gone && (s->count != 0 || s->one_in != 0 || s->len_bytes != 0)) {
		return adm_fail(e, EINVAL, "a drive that is gone is gone altogether");
	}
	return 0;
}

/* By its name: of the machine's drives, or one that has an entry. */
static int
drive_of(struct adm *a, const char *name, struct kb_info *out, struct adm_error *e)
{
	struct kb_found *f = mem_zalloc(sizeof(*f));
	int err = f != NULL ? drives_resolve(a, name, f) : -ENOMEM;
	if (err == 0 && f->info.id[0] == '\0') {
		err = -ENOENT;
	}
	if (err == 0) {
		*out = f->info;
	}
	mem_free(f);
	if (err == 0) {
		return 0;
	}
	adm_fail_next(e, "'disk list' shows the drives of this machine.");
	return err == -ENOTUNIQ ? adm_fail(e, err, "several drives are named '%.200s'", name)
				: adm_fail(e, err, "there is no drive '%.200s'", name);
}

/* ---- the commands ---- */

static int
inject_cmd_set(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "drive", e);
	struct kb_fault_spec spec;
	struct kb_info info;
	char what[160];
	if (name == NULL || spec_of(args, &spec, e) != 0 || drive_of(a, name, &info, e) != 0) {
		return -e->code;
	}
	spec_text(&spec, what, sizeof(what));
	if (spec_hurts(&spec, info.timeout_ms) && !adm_arg_flag(args, "force") &&
	    members_each(a, info.id, member_check, e) != 0) {
		return -e->code;
	}
	*out = json_pack("{s:o, s:s}", "path", adm_text(info.path), "injected", what);
	if (adm_arg_flag(args, "dry_run")) {
		return 0;
	}
	mutex_lock(&a->inject_lock);
	struct adm_inject *entry = entry_arm(a, &info, &spec);
	mutex_unlock(&a->inject_lock);
	if (entry == NULL) {
		return adm_fail(e, ENOSPC,
		    "since it was started the daemon has had %u drives with faults: restart it",
		    ADM_INJECTS_MAX);
	}
	struct telling t = {entry->faults, true, what, NULL};
	log_warn("inject-set drive=%s what=\"%s\"", info.path, what);
	(void)members_each(a, info.id, member_tell, &t); /* never fails */
	if (t.pool != NULL) {
		json_object_set_new(args, "pool", json_string(t.pool));
	}
	return 0;
}

/* Ends it, and tells. why: a few words. */
static void
inject_end(struct adm *a, struct adm_inject *entry, const char *why, const char **out_pool)
{
	struct telling t = {entry->faults, false, why, NULL};
	mutex_lock(&a->inject_lock);
	entry->armed = false;
	mutex_unlock(&a->inject_lock);
	log_notice("inject-ended drive=%s why=\"%s\"", entry->info.path, why);
	(void)members_each(a, entry->info.id, member_tell, &t); /* never fails */
	*out_pool = t.pool;
	hotplug_poke(a); /* one that was gone may come back */
}

static int
inject_cmd_clear(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "drive", e), *pool = NULL;
	uint32_t ended = 0;
	if (name == NULL) {
		return -e->code;
	}
	bool all = strcmp(name, "all") == 0;
	for (uint32_t i = 0; i < ADM_INJECTS_MAX; i++) {
		struct adm_inject *entry = &a->injects[i];
		if (entry->faults != NULL && entry->armed &&
		    (all || drives_match(&entry->info, name) != 0)) {
			inject_end(a, entry, "faults on purpose have been ended", &pool);
			ended++;
		}
	}
	if (pool != NULL) {
		json_object_set_new(args, "pool", json_string(pool));
	}
	if (ended == 0 && !all) {
		adm_fail_next(e, "'disk inject -l' shows which drives fail on purpose.");
		return adm_fail(e, ENOENT, "drive '%.200s' has no faults on purpose", name);
	}
	*out = json_pack("{s:i}", "cleared", (int)ended);
	return 0;
}

void
inject_look(struct adm *a)
{
	for (uint32_t i = 0; i < ADM_INJECTS_MAX; i++) {
		struct adm_inject *entry = &a->injects[i];
		struct kb_fault_spec spec;
		uint64_t hits;
		bool spent = false;
		const char *pool;
		if (!entry->armed) {
			continue;
		}
		mutex_lock(&a->drives_lock);
		if (entry->armed) {
			kb_faults_get(entry->faults, &spec, &hits, &spent);
		}
		if (spent) {
			inject_end(a, entry, "faults on purpose are over", &pool);
		}
		mutex_unlock(&a->drives_lock);
	}
}

static int
inject_cmd_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	json_t *list = json_array();
	(void)args;
	(void)e;
	mutex_lock(&a->inject_lock);
	for (uint32_t i = 0; i < ADM_INJECTS_MAX; i++) {
		struct adm_inject *entry = &a->injects[i];
		struct kb_fault_spec spec;
		uint64_t hits;
		bool spent;
		char what[160];
		if (entry->faults == NULL || !entry->armed) {
			continue;
		}
		kb_faults_get(entry->faults, &spec, &hits, &spent);
		spec_text(&spec, what, sizeof(what));
		json_array_append_new(
		    list, json_pack("{s:o, s:o, s:s, s:I, s:I}", "path", adm_text(entry->info.path),
			      "id", adm_text(entry->info.id), "injected", what, "hits",
			      (json_int_t)hits, "since", (json_int_t)entry->since));
	}
	mutex_unlock(&a->inject_lock);
	*out = list;
	return 0;
}

const struct adm_command adm_inject_commands[] = {
    {"disk inject", inject_cmd_set, ADM_DRIVES},
    {"disk inject clear", inject_cmd_clear, ADM_DRIVES},
    {"disk inject list", inject_cmd_list, ADM_LOOK_PRIVILEGED},
    {NULL, NULL, ADM_LOOK},
};
