/* schedule.c - schedule create, remove, pause, resume, list. */
#include <stdio.h>
#include "admin/schedule.h"

struct sched_arg {
	struct adm_pool *ap;
	const char *path;
	enum sched_every every;
};

static int
sched_args(struct adm *a, json_t *args, struct sched_arg *out, struct adm_error *e)
{
	const char *every = adm_arg_string(args, "every", e);
	const char *path = every != NULL ? adm_arg_string(args, "name", e) : NULL;
	struct pool_ds *ds;
	if (path == NULL) {
		return -e->code;
	}
	if (!sched_every_parse(every, &out->every)) {
		adm_fail_next(e, "Use 15min, hourly, daily, weekly or monthly.");
		return adm_fail(e, EINVAL, "'%.60s' is no time of a schedule", every);
	}
	out->ap = adm_pool_of(a, path, e);
	out->path = path;
	if (out->ap == NULL) {
		return -e->code;
	}
	if (out->ap->sched == NULL) {
		return adm_fail(e, ERR_CORRUPT, "the list of schedules of this pool is damaged");
	}
	int err = pool_ds_open(out->ap->pool, path, &ds);
	if (err != 0) {
		adm_fail_next(e, "'fs list' shows the filesystems.");
		return adm_fail(e, err, "there is no filesystem '%.100s'", path);
	}
	pool_ds_close(ds);
	return 0;
}

static int
sched_stored(struct adm_pool *ap, struct adm_error *e)
{
	int err = sched_store(ap);
	return err == 0 ? 0
			: adm_fail(e, err, "the schedules could not be stored: %s", err_str(err));
}

static int
sched_cmd_create(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct sched_arg arg;
	json_t *keep = json_object_get(args, "keep");
	(void)out;
	int err = sched_args(a, args, &arg, e);
	if (err != 0) {
		return err;
	}
	int64_t now = (int64_t)(rt_wall_ns() / NSEC_PER_SEC);
	struct sched s = {.every = arg.every,
	    .recursive = adm_arg_flag(args, "recursive"),
	    .keep = sched_keep_default(arg.every),
	    .last = sched_slot(arg.every, now)};
	(void)snprintf(s.path, sizeof(s.path), "%s", arg.path);
	if (keep != NULL) {
		json_int_t n = json_integer_value(keep);
		if (n < 1 || n > (json_int_t)SCHED_KEEP_MAX) {
			return adm_fail(e, EINVAL, "keep is a number from 1 to %u", SCHED_KEEP_MAX);
		}
		s.keep = (uint32_t)n;
	}
	struct adm_sched *t = arg.ap->sched;
	mutex_lock(&t->lock);
	if (sched_find(t, s.path, s.every) != NULL) {
		adm_fail_next(e, "schedule remove %s %.200s", sched_every_name(s.every), s.path);
		err = adm_fail(e, EEXIST, "'%.200s' has %s snapshots already", s.path,
		    sched_every_name(s.every));
	} else if (t->count == SCHED_MAX) {
		err = adm_fail(e, ENOSPC, "there are %u schedules already", SCHED_MAX);
	} else {
		err = sched_insert(t, &s);
		err = err != 0 ? adm_fail(e, err, "out of memory") : sched_stored(arg.ap, e);
		if (err != 0 && sched_find(t, s.path, s.every) != NULL) {
			sched_take_out(t, (uint32_t)(sched_find(t, s.path, s.every) - t->v));
		}
	}
	mutex_unlock(&t->lock);
	return err;
}

static int
sched_missing(const struct sched_arg *arg, struct adm_error *e)
{
	adm_fail_next(e, "'schedule list' shows the schedules.");
	return adm_fail(
	    e, ENOENT, "'%.200s' has no %s snapshots", arg->path, sched_every_name(arg->every));
}

static int
sched_cmd_remove(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct sched_arg arg;
	(void)out;
	int err = sched_args(a, args, &arg, e);
	if (err != 0) {
		return err;
	}
	struct adm_sched *t = arg.ap->sched;
	mutex_lock(&t->lock);
	struct sched *s = sched_find(t, arg.path, arg.every);
	if (s == NULL) {
		err = sched_missing(&arg, e);
	} else {
		struct sched old = *s;
		sched_take_out(t, (uint32_t)(s - t->v));
		err = sched_stored(arg.ap, e);
		if (err != 0) {
			t->dirty = sched_insert(t, &old) != 0;
		}
	}
	mutex_unlock(&t->lock);
	return err;
}

/* Sets paused of one schedule, or of all in every pool. */
static int
sched_set_paused(struct adm *a, json_t *args, bool paused, struct adm_error *e)
{
	struct sched_arg arg;
	if (json_object_get(args, "every") != NULL) {
		int err = sched_args(a, args, &arg, e);
		if (err != 0) {
			return err;
		}
		mutex_lock(&arg.ap->sched->lock);
		struct sched *s = sched_find(arg.ap->sched, arg.path, arg.every);
		if (s != NULL) {
			s->paused = paused;
		}
		err = s == NULL ? sched_missing(&arg, e) : sched_stored(arg.ap, e);
		mutex_unlock(&arg.ap->sched->lock);
		return err;
	}
	int err = 0;
	for (uint32_t i = 0; i < a->pool_count && err == 0; i++) {
		struct adm_sched *t = a->pools[i].sched;
		if (t == NULL || t->count == 0) {
			continue;
		}
		mutex_lock(&t->lock);
		for (uint32_t k = 0; k < t->count; k++) {
			t->v[k].paused = paused;
		}
		err = sched_stored(&a->pools[i], e);
		mutex_unlock(&t->lock);
	}
	return err;
}

static int
sched_cmd_pause(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	(void)out;
	return sched_set_paused(a, args, true, e);
}

static int
sched_cmd_resume(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	(void)out;
	return sched_set_paused(a, args, false, e);
}

static int
sched_cmd_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	json_t *rows = json_array();
	(void)args;
	(void)e;
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct adm_sched *t = a->pools[i].sched;
		if (t == NULL) {
			continue;
		}
		mutex_lock(&t->lock);
		for (uint32_t k = 0; k < t->count; k++) {
			const struct sched *s = &t->v[k];
			if (trash_is_inside(s->path)) {
				continue;
			}
			json_t *row = sched_json(s);
			json_object_set_new(row, "state",
			    adm_text(s->paused             ? "paused"
				     : s->error[0] != '\0' ? s->error
							   : "on"));
			if (!s->paused) {
				json_object_set_new(row, "next",
				    json_integer((json_int_t)sched_next(s->every, s->last)));
			}
			json_array_append_new(rows, row);
		}
		mutex_unlock(&t->lock);
	}
	*out = rows;
	return 0;
}

const struct adm_command adm_sched_commands[] = {
    {"schedule create", sched_cmd_create, ADM_CHANGE},
    {"schedule remove", sched_cmd_remove, ADM_CHANGE},
    {"schedule pause", sched_cmd_pause, ADM_CHANGE},
    {"schedule resume", sched_cmd_resume, ADM_CHANGE},
    {"schedule list", sched_cmd_list, ADM_LOOK},
    {NULL, NULL, ADM_LOOK},
};
