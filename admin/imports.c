/*
 * imports.c - finding pools on drives and taking them up: by command, at start, and when drives
 * have arrived (arrivals.c). Without a command only what this machine used last is taken up, if it
 * is complete enough to serve: neither what another machine used, nor what was exported by command.
 * The rest is left for the administrator, and named in the log.
 */
#include <stdio.h>
#include "admin/admin_int.h"

#define CANDIDATES_MAX 64u

struct candidate {
	struct pool_label_info best; /* of the drive with the newest uberblock */
	uint32_t drives_seen;
};

struct findings {
	struct kb_drive **drives;
	uint32_t drive_count;
	struct candidate *pools; /* CANDIDATES_MAX of them */
	uint32_t pool_count;
};

static bool
candidate_newer(const struct pool_label_info *x, const struct pool_label_info *y)
{
	return x->timeline != y->timeline ? x->timeline > y->timeline : x->txg > y->txg;
}

static void
findings_note(struct findings *f, const struct pool_label_info *label)
{
	for (uint32_t i = 0; i < f->pool_count; i++) {
		struct candidate *c = &f->pools[i];
		if (memcmp(&c->best.pool_guid, &label->pool_guid, sizeof(label->pool_guid)) == 0) {
			c->drives_seen++;
			if (label->role == DRIVE_ROLE_DATA && candidate_newer(label, &c->best)) {
				c->best = *label;
			}
			return;
		}
	}
	if (label->role == DRIVE_ROLE_DATA && f->pool_count < CANDIDATES_MAX) {
		f->pools[f->pool_count++] = (struct candidate){.best = *label, .drives_seen = 1};
	}
}

static int
findings_gather(struct adm *a, struct findings *f)
{
	*f = (struct findings){.pools = mem_zalloc_array(CANDIDATES_MAX, sizeof(struct candidate))};
	if (f->pools == NULL) {
		return -ENOMEM;
	}
	int err = drives_open_all(a, &f->drives, &f->drive_count);
	if (err != 0) {
		mem_free(f->pools);
		return err;
	}
	/* log drives don't make a pool; they count for those that data drives told of */
	for (unsigned pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < f->drive_count; i++) {
			struct pool_label_info label;
			enum drive_role want = pass == 0 ? DRIVE_ROLE_DATA : DRIVE_ROLE_LOG;
			if (pool_label_probe(f->drives[i], &label) == 0 && label.role == want) {
				findings_note(f, &label);
			}
		}
	}
	return 0;
}

static void
findings_close(struct findings *f)
{
	for (uint32_t i = 0; i < f->drive_count; i++) {
		kb_close(f->drives[i]);
	}
	mem_free(f->drives);
	mem_free(f->pools);
}

struct import_request {
	const struct candidate *pool;
	const char *new_name;
	bool readonly, force, missing_log;
	uint32_t rewind;
};

static int
import_failed(const struct import_request *req, int err, const char *why, struct adm_error *e)
{
	const char *name = req->pool->best.pool_name;
	adm_fail_untouched(e, "Nothing was changed on its drives.");
	if (err == -ENODEV) {
		adm_fail_next(e,
		    "If the log drives are lost for good: pool import -o missing_log=on %s", name);
	} else if (err == -ERR_ACTIVE) {
		adm_fail_next(e, "If that host is gone for good: pool import -f %s", name);
	}
	return adm_fail(
	    e, err, "pool '%s' can't be imported: %s", name, why[0] != '\0' ? why : err_str(err));
}

/* Takes the drives that pool has now out of the findings. Spares serve other pools too, so they
 * are opened again for these. */
static void
findings_take(struct adm *a, struct findings *f, const bool *used)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < f->drive_count; i++) {
		struct kb_drive *d = f->drives[i], *again;
		struct pool_label_info label;
		if (!used[i]) {
			f->drives[left++] = d;
		} else if (pool_label_probe(d, &label) == 0 && label.role == DRIVE_ROLE_SPARE &&
			   drives_open_path(a, kb_path(d), &again) == 0) {
			f->drives[left++] = again;
		}
	}
	f->drive_count = left;
}

/* Imports one pool from the findings; the drives it takes leave them. */
static int
import_one(struct adm *a, struct findings *f, const struct import_request *req,
    struct pool_import_result *result, struct adm_error *e)
{
	bool *used = mem_zalloc_array(MAX(f->drive_count, 1u), sizeof(bool));
	if (used == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	struct pool_import_spec spec = {
	    .pool_guid = req->pool->best.pool_guid,
	    .drives = f->drives,
	    .drive_count = f->drive_count,
	    .new_name = req->new_name,
	    .readonly = req->readonly,
	    .force = req->force,
	    .missing_log = req->missing_log,
	    .rewind_txgs = req->rewind,
	    .host_name = a->host_name,
	    .host_id = a->host_id,
	};
	*result = (struct pool_import_result){.drive_used = used};
	struct pool *p;
	int err = pool_import(&spec, &p, result);
	if (err == 0) {
		findings_take(a, f, used);
	}
	mem_free(used);
	result->drive_used = NULL;
	if (err != 0) {
		return import_failed(req, err, result->why, e);
	}
	adm_fail_untouched(e, "Its data was left as it was.");
	return adm_add_pool(a, p, e);
}

/* May it be taken up without a command, now? say: the reason goes to the log when it may not. */
static bool
auto_wanted(struct adm *a, const struct candidate *c, enum imports_when when)
{
	const struct pool_label_info *best = &c->best;
	bool say = when != IMPORTS_COMPLETE;
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct guid guid = pool_guid(a->pools[i].pool);
		if (memcmp(&guid, &best->pool_guid, sizeof(guid)) == 0) {
			return false; /* a drive that came back to its pool */
		}
	}
	if (best->host_id != a->host_id) {
		if (say && best->host_id == 0) {
			log_notice(
			    "pool-not-imported pool=%s reason=was-exported", best->pool_name);
		} else if (say) {
			log_warn("pool-not-imported pool=%s reason=last-used-by host=%s",
			    best->pool_name, best->host_name);
		}
		return false;
	}
	if (adm_find_pool(a, best->pool_name, strlen(best->pool_name)) != NULL) {
		if (say) {
			log_warn(
			    "pool-not-imported pool=%s reason=name-in-service", best->pool_name);
		}
		return false;
	}
	return when != IMPORTS_COMPLETE || c->drives_seen >= best->member_count;
}

void
imports_auto(struct adm *a, enum imports_when when)
{
	struct findings f;
	int err = findings_gather(a, &f);
	if (err != 0) {
		log_error("drives-not-scanned reason=%s", err_str(err));
		return;
	}
	for (uint32_t i = 0; i < f.pool_count; i++) {
		const struct candidate *c = &f.pools[i];
		struct import_request req = {.pool = c};
		struct pool_import_result result;
		struct adm_error e = {0};
		if (!auto_wanted(a, c, when)) {
			continue;
		}
		if (import_one(a, &f, &req, &result, &e) != 0) {
			log_error("pool-not-imported pool=%s reason=\"%s\"", c->best.pool_name,
			    e.message);
		} else {
			log_notice("pool-imported pool=%s txg=%llu", c->best.pool_name,
			    (unsigned long long)result.txg);
		}
	}
	findings_close(&f);
}

int
imports_list(struct adm *a, json_t **out, struct adm_error *e)
{
	struct findings f;
	int err = findings_gather(a, &f);
	if (err != 0) {
		return adm_fail(e, err, "the drives can't be searched: %s", err_str(err));
	}
	json_t *list = json_array();
	for (uint32_t i = 0; i < f.pool_count; i++) {
		const struct candidate *c = &f.pools[i];
		char guid[33];
		adm_guid_text(&c->best.pool_guid, guid);
		json_array_append_new(
		    list, json_pack("{s:o, s:s, s:i, s:i, s:b, s:o, s:I}", "name",
			      adm_text(c->best.pool_name), "guid", guid, "drives_seen",
			      (int)c->drives_seen, "drives", (int)c->best.member_count, "clean",
			      c->best.clean, "host", adm_text(c->best.host_name), "last_used",
			      (json_int_t)(c->best.best_time_ns / NSEC_PER_SEC)));
	}
	findings_close(&f);
	*out = list;
	return 0;
}

static const struct candidate *
findings_choose(const struct findings *f, const char *what, struct adm_error *e)
{
	const struct candidate *found = NULL;
	for (uint32_t i = 0; i < f->pool_count; i++) {
		char guid[33];
		adm_guid_text(&f->pools[i].best.pool_guid, guid);
		if (strcmp(what, guid) == 0) {
			return &f->pools[i];
		}
		if (strcmp(what, f->pools[i].best.pool_name) != 0) {
			continue;
		}
		if (found != NULL) {
			adm_fail_next(e,
			    "'pool import' shows them; import by guid, with a new name behind it.");
			adm_fail(e, EEXIST, "there are several pools named '%.63s'", what);
			return NULL;
		}
		found = &f->pools[i];
	}
	if (found == NULL) {
		adm_fail_next(e, "'pool import' lists what can be imported.");
		adm_fail(e, ENOENT, "no drive here belongs to a pool '%.63s'", what);
	}
	return found;
}

int
imports_run(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct findings f;
	const char *what = adm_arg_string(args, "pool", e);
	if (what == NULL) {
		return -e->code;
	}
	struct import_request req = {
	    .new_name = json_string_value(json_object_get(args, "new_name")),
	    .readonly = adm_arg_flag(args, "readonly"),
	    .force = adm_arg_flag(args, "force"),
	    .missing_log = adm_arg_flag(args, "missing_log"),
	    .rewind =
		(uint32_t)MIN(MAX(json_integer_value(json_object_get(args, "rewind")), 0), 64),
	};
	int err = findings_gather(a, &f);
	if (err != 0) {
		return adm_fail(e, err, "the drives can't be searched: %s", err_str(err));
	}
	struct pool_import_result result = {0};
	req.pool = findings_choose(&f, what, e);
	err = req.pool != NULL ? 0 : -e->code;
	if (err == -ENOENT && adm_find_pool(a, what, strlen(what)) != NULL) {
		e->next[0] = '\0';
		err = adm_fail(e, EEXIST, "pool '%.63s' is in service already", what);
	}
	if (err == 0) {
		const char *name = req.new_name != NULL ? req.new_name : req.pool->best.pool_name;
		if (adm_find_pool(a, name, strlen(name)) != NULL) {
			adm_fail_next(e, "Give it another name: pool import %.63s NEWNAME", what);
			err =
			    adm_fail(e, EEXIST, "a pool named '%.63s' is in service already", name);
		}
	}
	if (err == 0) {
		err = import_one(a, &f, &req, &result, e);
	}
	findings_close(&f);
	if (err == 0) {
		*out = json_pack("{s:I, s:i, s:i, s:o}", "txg", (json_int_t)result.txg,
		    "missing_drives", (int)result.missing_drives, "roots_skipped",
		    (int)result.roots_skipped, "note", adm_text(result.why));
	}
	return err;
}
