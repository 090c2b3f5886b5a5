/*
 * fs_prop.c - properties of datasets: set, inherited, reported. The pool keeps the local settings
 * as strings; what applies to a dataset is its own, else that of the nearest dataset above that has
 * one, else the default. Each fs_ds carries the values that requests need; they are worked out
 * again when something above changes.
 */
#include <stdio.h>
#include <time.h>
#include "base/size.h"
#include "fs/fs_int.h"

/* ---- names ---- */

static uint32_t
edit_distance(const char *a, const char *b)
{
	uint32_t row[32];
	size_t la = strlen(a), lb = strlen(b);
	if (la >= ARRAY_LEN(row) || lb >= ARRAY_LEN(row)) {
		return UINT32_MAX;
	}
	for (uint32_t j = 0; j <= lb; j++) {
		row[j] = j;
	}
	for (uint32_t i = 1; i <= la; i++) {
		uint32_t diagonal = row[0];
		row[0] = i;
		for (uint32_t j = 1; j <= lb; j++) {
			uint32_t above = row[j];
			uint32_t replace = diagonal + (a[i - 1] != b[j - 1]);
			row[j] = MIN(replace, MIN(above, row[j - 1]) + 1);
			diagonal = above;
		}
	}
	return row[lb];
}

static int
unknown_property(const char *name, char *why, size_t why_len)
{
	const char *best = NULL;
	uint32_t best_distance = 4;
	for (uint32_t i = 0; i < fs_prop_count(); i++) {
		uint32_t d = edit_distance(name, fs_prop_name(i));
		if (d < best_distance) {
			best_distance = d;
			best = fs_prop_name(i);
		}
	}
	if (best != NULL) {
		(void)snprintf(
		    why, why_len, "there is no property '%.40s'; did you mean '%s'?", name, best);
	} else {
		(void)snprintf(why, why_len, "there is no property '%.40s'", name);
	}
	return -ENOENT;
}

static int
settable(const char *name, const struct prop_def **out, char *why, size_t why_len)
{
	const struct prop_def *def = prop_find(name);
	if (def == NULL) {
		return unknown_property(name, why, why_len);
	}
	if (def->parse == NULL) {
		(void)snprintf(why, why_len, "'%s' can't be set", name);
		return -EINVAL;
	}
	*out = def;
	return 0;
}

static int
value_parse(const struct prop_def *def, const char *value, char *out, size_t out_len, char *why,
    size_t why_len)
{
	uint64_t number;
	char reason[160];
	int err = def->parse(value, out, out_len, &number, reason, sizeof(reason));
	if (err != 0) {
		(void)snprintf(why, why_len, "%s: %s", def->name, reason);
	}
	return err;
}

int
prop_parse_pair(const char *pair, const struct prop_def **out_def, char *out_value,
    size_t value_len, char *why, size_t why_len)
{
	const char *eq = strchr(pair, '=');
	char name[64];
	if (eq == NULL || eq == pair || (size_t)(eq - pair) >= sizeof(name)) {
		(void)snprintf(why, why_len, "'%.60s' is not of the form property=value", pair);
		return -EINVAL;
	}
	memcpy(name, pair, (size_t)(eq - pair));
	name[eq - pair] = 0;
	int err = settable(name, out_def, why, why_len);
	return err == 0 ? value_parse(*out_def, eq + 1, out_value, value_len, why, why_len) : err;
}

/* ---- values ---- */

static bool
local_value(struct fs_pool *fp, const char *path, const char *name, char *out, size_t len)
{
	struct pool_ds *pds;
	if (pool_ds_open(fp->pool, path, &pds) != 0) {
		return false;
	}
	int err = pool_ds_prop_get(pds, name, out, len);
	pool_ds_close(pds);
	return err == 0;
}

static bool
number_of(const struct prop_def *def, const char *text, struct fs_prop *out)
{
	char why[160];
	return def->parse(text, out->value, sizeof(out->value), &out->number, why, sizeof(why)) ==
	       0;
}

void
prop_effective(
    struct fs_pool *fp, const char *path, const struct prop_def *def, struct fs_prop *out)
{
	char at[DATASET_NAME_MAX + 1], text[64];
	memset(out, 0, sizeof(*out));
	out->name = def->name;
	out->is_number = def->is_number;
	(void)snprintf(at, sizeof(at), "%s", path);
	for (;;) {
		if (local_value(fp, at, def->name, text, sizeof(text)) &&
		    number_of(def, text, out)) {
			bool own = strcmp(at, path) == 0;
			out->source = own ? FS_PROP_LOCAL : FS_PROP_INHERITED;
			if (!own) {
				(void)snprintf(
				    out->inherited_from, sizeof(out->inherited_from), "%s", at);
			}
			return;
		}
		char *slash = strrchr(at, '/');
		if (slash == NULL) {
			break;
		}
		*slash = 0;
	}
	out->source = FS_PROP_DEFAULT;
	bool ok = number_of(def, def->fallback, out);
	ASSERT(ok);
}

static uint64_t
effective_number(struct fs_ds *ds, const char *path, const char *name)
{
	struct fs_prop p;
	prop_effective(ds->fp, path, prop_find(name), &p);
	return p.number;
}

void
fs_ds_refresh(struct fs_ds *ds)
{
	struct pool_ds_info info;
	pool_ds_get_info(ds->pds, &info);
	uint64_t compression = effective_number(ds, info.path, "compression");
	struct pool_ds_policy policy = {.compress = (enum bp_compress)(compression >> 8),
	    .zstd_level = MAX((int)(compression & 0xff), 1),
	    .cksum = (enum bp_cksum)effective_number(ds, info.path, "checksum"),
	    .record_bytes = (uint32_t)effective_number(ds, info.path, "recordsize")};
	pool_ds_set_policy(ds->pds, &policy);
	atomic_store(&ds->record_bytes, policy.record_bytes);
	atomic_store(&ds->sync, (unsigned)effective_number(ds, info.path, "sync"));
	atomic_store(&ds->atime, (unsigned)effective_number(ds, info.path, "atime"));
	atomic_store(&ds->snapdir, effective_number(ds, info.path, "snapdir") != 0);
	atomic_store(&ds->readonly,
	    effective_number(ds, info.path, "readonly") != 0 || pool_is_readonly(ds->fp->pool));
	account_limits_refresh(ds);
}

/* ---- read-only ones ---- */

void
fs_prop_size_text(uint64_t n, char *out, size_t len)
{
	static const char units[] = "BKMGTPE";
	unsigned u = 0;
	double x = (double)n;
	while (x >= 1024.0 && u < sizeof(units) - 2) {
		x /= 1024.0;
		u++;
	}
	if (u == 0) {
		(void)snprintf(out, len, "%lluB", (unsigned long long)n);
	} else {
		(void)snprintf(out, len,
		    x < 10    ? "%.2f%c"
		    : x < 100 ? "%.1f%c"
			      : "%.0f%c",
		    x, units[u]);
	}
}

static void
time_text(uint64_t sec, char *out, size_t len)
{
	time_t t = (time_t)sec;
	struct tm tm;
	if (gmtime_r(&t, &tm) == NULL || strftime(out, len, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0) {
		(void)snprintf(out, len, "%llu", (unsigned long long)sec);
	}
}

static uint64_t
size_reported(const char *name, const struct pool_ds_info *info)
{
	const struct {
		const char *name;
		uint64_t bytes;
	} sizes[] = {{"used", info->used_bytes}, {"available", info->available_bytes},
	    {"referenced", info->referenced_bytes}, {"logicalused", info->logical_bytes},
	    {"usedbydataset", info->own_bytes}, {"usedbysnapshots", info->snapshots_bytes},
	    {"usedbychildren", info->children_bytes},
	    {"usedbyrefreservation", info->reserved_bytes}, {"pendingfree", info->pending_bytes},
	    {"written", info->written_bytes}};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		if (strcmp(sizes[i].name, name) == 0) {
			return sizes[i].bytes;
		}
	}
	return 0;
}

static void
limit_reported(const struct prop_def *def, struct pool_ds *pds, struct fs_prop *out)
{
	struct pool_limits l;
	pool_ds_get_limits(pds, &l);
	memset(out, 0, sizeof(*out));
	out->name = def->name;
	out->is_number = true;
	out->number = *prop_limit(def->name, &l);
	out->source = out->number != 0 ? FS_PROP_LOCAL : FS_PROP_DEFAULT;
	if (out->number != 0) {
		fs_prop_size_text(out->number, out->value, sizeof(out->value));
	} else {
		(void)snprintf(out->value, sizeof(out->value), "none");
	}
}

static void
prop_reported(const struct prop_def *def, const struct pool_ds_info *info, struct fs_prop *out)
{
	memset(out, 0, sizeof(*out));
	out->name = def->name;
	out->is_number = def->is_number;
	out->source = FS_PROP_READONLY;
	if (strcmp(def->name, "type") == 0) {
		(void)snprintf(out->value, sizeof(out->value), "filesystem");
	} else if (strcmp(def->name, "creation") == 0) {
		out->number = info->create_time;
		time_text(out->number, out->value, sizeof(out->value));
	} else if (strcmp(def->name, "guid") == 0) {
		out->number = info->guid;
		(void)snprintf(
		    out->value, sizeof(out->value), "%llu", (unsigned long long)out->number);
	} else if (strcmp(def->name, "compressratio") == 0) {
		uint64_t used = MAX(info->referenced_bytes, (uint64_t)1);
		uint64_t percent =
		    info->logical_bytes == 0 ? 100 : info->logical_bytes * 100 / used;
		out->number = MAX(percent, (uint64_t)100);
		(void)snprintf(out->value, sizeof(out->value), "%llu.%02llux",
		    (unsigned long long)(out->number / 100),
		    (unsigned long long)(out->number % 100));
	} else {
		out->number = size_reported(def->name, info);
		fs_prop_size_text(out->number, out->value, sizeof(out->value));
	}
}

int
fs_prop_get(struct fs_pool *fp, const char *path, const char *name, struct fs_prop *out)
{
	bool account = prop_is_account(name) && prop_account_check(name, NULL, 0) == 0;
	const struct prop_def *def = prop_find(account ? "quota" : name);
	struct pool_ds *pds;
	int err = def == NULL ? -ENOENT : pool_ds_open(fp->pool, path, &pds);
	if (err != 0) {
		return err;
	}
	struct pool_limits none;
	if (account || prop_is_account_default(name)) {
		prop_account_reported(def, name, pds, out);
	} else if (prop_limit(name, &none) != NULL) {
		limit_reported(def, pds, out);
	} else if (def->parse != NULL) {
		prop_effective(fp, path, def, out);
	} else {
		struct pool_ds_info info;
		pool_ds_get_info(pds, &info);
		prop_reported(def, &info, out);
	}
	pool_ds_close(pds);
	return 0;
}

static int
refresh_one(void *arg, struct pool_ds *pds)
{
	struct fs_ds *ds = fs_ds_find(arg, pool_ds_guid(pds));
	if (ds != NULL) {
		fs_ds_refresh(ds);
	}
	return 0;
}

/* Under fp->lock. */
int
prop_set_local(struct pool_ds *pds, const char *name, const char *value)
{
	struct pool_limits l;
	uint64_t *field;
	if (prop_is_account(name) || prop_is_account_default(name)) {
		return prop_account_set(pds, name, value);
	}
	pool_ds_get_limits(pds, &l);
	field = prop_limit(name, &l);
	if (field == NULL) {
		return pool_ds_prop_set(pds, name, value);
	}
	*field = 0;
	if (value != NULL && strcmp(value, "none") != 0 && size_parse(value, field) != 0) {
		return -EINVAL;
	}
	return pool_ds_set_limits(pds, &l);
}

const char *
prop_limit_refusal(int err)
{
	return err == -ENOSPC   ? "there isn't so much left to reserve"
	       : err == -EINVAL ? "a reservation can't be larger than the quota"
	       : err == -ERR_FEATURE
		   ? "the pool was made without such limits; 'pool upgrade' adds them"
		   : err_str(err);
}

static void
set_refused(const char *path, const char *name, int err, char *why, size_t why_len)
{
	struct pool_limits none;
	bool limit = prop_limit(name, &none) != NULL || err == -ERR_FEATURE;
	(void)snprintf(why, why_len, "%s: %s", path,
	    err == -ENOENT ? "no such file system"
	    : limit        ? prop_limit_refusal(err)
			   : err_str(err));
}

int
fs_prop_set(struct fs_pool *fp, const char *path, const char *name, const char *value, char *why,
    size_t why_len)
{
	const struct prop_def *def = NULL;
	char canonical[64];
	int err = prop_is_account(name) ? prop_account_check(name, why, why_len) : 0;
	err = err != 0 ? err : settable(prop_is_account(name) ? "quota" : name, &def, why, why_len);
	if (err != 0) {
		return err;
	}
	ASSERT(def != NULL);
	err =
	    value != NULL ? value_parse(def, value, canonical, sizeof(canonical), why, why_len) : 0;
	if (err != 0) {
		return err;
	}
	mutex_lock(&fp->lock);
	struct pool_ds *pds;
	err = pool_ds_open(fp->pool, path, &pds);
	if (err == 0) {
		err = prop_set_local(pds, name, value == NULL ? NULL : canonical);
		pool_ds_close(pds);
	}
	if (err == 0) {
		err = pool_ds_each(fp->pool, path, true, refresh_one, fp);
	}
	mutex_unlock(&fp->lock);
	if (err != 0) {
		set_refused(path, name, err, why, why_len);
	}
	return err;
}
