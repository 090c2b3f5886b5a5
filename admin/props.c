/*
 * props.c - settings of a pool, kept in it as one blob: an object of strings, and of numbers that
 * no command sets (facts). What isn't set has its default. Names that this version doesn't know are
 * kept.
 */
#include <stdio.h>
#include "admin/admin_int.h"
#include "base/size.h"

#define PROPS_BLOB "properties"

struct prop {
	const char *name;
	const char *values[5]; /* the first is the default */
	const char *help;
	enum { PROP_WORD, PROP_THRESHOLD, PROP_MS } kind; /* what it takes besides these values */
};
static const struct prop all_props[] = {
    {"autoreplace", {"off", "on"}, "an empty drive in a lost one's place is taken"},
    {"autoexpand", {"off", "on"}, "sets grow when all their drives are larger"},
    {"failmode", {"wait", "continue"}, "without enough drives, clients wait or get errors"},
    {"undo", {"24h", "off", "1h", "7d", "30d"}, "how long a destroyed filesystem can be had back"},
    {"scrub", {"monthly", "weekly", "off"}, "how often all blocks are verified"},
    {"io_errors", {"10/600", "off"}, "so many I/O errors in so many seconds fault a drive",
	PROP_THRESHOLD},
    {"checksum_errors", {"10/600", "off"},
	"so many wrong checksums in so many seconds degrade a drive", PROP_THRESHOLD},
    {"slow_ios", {"20/60", "off"}, "so many slow I/Os in so many seconds degrade a drive",
	PROP_THRESHOLD},
    {"slow_io_ms", {"1000"}, "from how many milliseconds on an I/O is slow", PROP_MS},
    {"sitout", {"10min", "off", "1min", "1h"},
	"how long reads do without a drive much slower than its siblings"},
    {"autotrim", {"off", "on"}, "drives are told what was freed"},
    {"autotrim_rate", {"64M", "off", "16M", "256M", "1G"},
	"how many bytes a second each drive is told by autotrim"},
};

#define THRESHOLD_SECONDS_MAX 86400u
#define SLOW_MS_MAX 60000u

/* "10/600"; false: it isn't one. */
static bool
threshold_parse(const char *text, struct pool_threshold *out)
{
	unsigned count, seconds;
	int end = 0;
	if (text[0] < '0' || text[0] > '9' || strlen(text) > 12 ||
	    sscanf(text, "%u/%u%n", &count, &seconds, &end) != 2 || text[end] != '\0') {
		return false;
	}
	*out = (struct pool_threshold){count, seconds};
	return count >= 1 && count <= POOL_THRESHOLD_MAX && seconds >= 1 &&
	       seconds <= THRESHOLD_SECONDS_MAX;
}

static bool
ms_parse(const char *text, uint32_t *out)
{
	int end = 0;
	return text[0] >= '0' && text[0] <= '9' && strlen(text) <= 6 &&
	       sscanf(text, "%u%n", out, &end) == 1 && text[end] == '\0' && *out >= 1 &&
	       *out <= SLOW_MS_MAX;
}

static struct pool_threshold
threshold_get(const struct adm_pool *ap, const char *name)
{
	struct pool_threshold t = {0};
	return threshold_parse(props_get(ap, name), &t) ? t : (struct pool_threshold){0};
}

void
props_apply(struct adm_pool *ap)
{
	static const struct {
		const char *value;
		uint32_t seconds;
	} times[] = {{"10min", 600}, {"1min", 60}, {"1h", 3600}};
	struct pool_health_config cfg = {
	    .io = threshold_get(ap, "io_errors"),
	    .cksum = threshold_get(ap, "checksum_errors"),
	    .slow = threshold_get(ap, "slow_ios"),
	};
	if (!ms_parse(props_get(ap, "slow_io_ms"), &cfg.slow_ms)) {
		cfg.slow_ms = POOL_HEALTH_DEFAULTS.slow_ms;
	}
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		if (props_is(ap, "sitout", times[i].value)) {
			cfg.sit_out_s = times[i].seconds;
		}
	}
	pool_set_health(ap->pool, &cfg);
	uint64_t rate = 0; /* off: no limit */
	(void)!size_parse(props_get(ap, "autotrim_rate"), &rate);
	pool_set_autotrim(ap->pool, props_is(ap, "autotrim", "on"), rate);
	pool_set_failmode(ap->pool, props_is(ap, "failmode", "continue"));
}

int
props_load(struct adm_pool *ap, struct adm_error *e)
{
	void *data;
	uint32_t len;
	int err = pool_blob_get(ap->pool, PROPS_BLOB, &data, &len);
	if (err == 0) {
		ap->props = json_loadb(data, len, 0, NULL);
		mem_free(data);
	}
	if (!json_is_object(ap->props)) {
		json_decref(ap->props);
		ap->props = json_object();
		err = err == 0 ? -ERR_CORRUPT : err;
	}
	return err == 0 || err == -ENOENT
		   ? 0
		   : adm_fail(e, err, "the properties of pool '%s' can't be read: %s",
			 pool_name(ap->pool), err_str(err));
}

static const struct prop *
prop_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(all_props); i++) {
		if (strcmp(all_props[i].name, name) == 0) {
			return &all_props[i];
		}
	}
	return NULL;
}

static bool
prop_takes(const struct prop *p, const char *value)
{
	struct pool_threshold t;
	uint32_t ms;
	if ((p->kind == PROP_THRESHOLD && threshold_parse(value, &t)) ||
	    (p->kind == PROP_MS && ms_parse(value, &ms))) {
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(p->values) && p->values[i] != NULL; i++) {
		if (strcmp(p->values[i], value) == 0) {
			return true;
		}
	}
	return false;
}

const char *
props_get(const struct adm_pool *ap, const char *name)
{
	const struct prop *p = prop_find(name);
	const char *value = json_string_value(json_object_get(ap->props, name));
	if (p == NULL) {
		return "";
	}
	return value != NULL && prop_takes(p, value) ? value : p->values[0];
}

bool
props_is(const struct adm_pool *ap, const char *name, const char *value)
{
	return strcmp(props_get(ap, name), value) == 0;
}

int64_t
props_fact(const struct adm_pool *ap, const char *name)
{
	return json_integer_value(json_object_get(ap->props, name));
}

static int
props_store(struct adm_pool *ap, json_t *props)
{
	char *text = json_dumps(props, JSON_COMPACT);
	int err = text != NULL ? pool_blob_put(ap->pool, PROPS_BLOB, text, (uint32_t)strlen(text))
			       : -ENOMEM;
	mem_free(text);
	if (err == 0) {
		json_incref(props);
		json_decref(ap->props);
		ap->props = props;
	}
	return err;
}

/* value NULL: by default again. */
static int
props_change(struct adm_pool *ap, const char *name, json_t *value)
{
	json_t *props = json_copy(ap->props);
	if (props == NULL) {
		json_decref(value);
		return -ENOMEM;
	}
	if (value != NULL) {
		json_object_set_new(props, name, value);
	} else {
		json_object_del(props, name);
	}
	int err = props_store(ap, props);
	json_decref(props);
	return err;
}

int
props_fact_store(struct adm_pool *ap, const char *name, int64_t value)
{
	return props_change(ap, name, json_integer(value));
}

static json_t *
prop_json(const struct adm_pool *ap, const struct prop *p)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "pool", pool_name(ap->pool), "property",
	    p->name, "value", props_get(ap, p->name), "source",
	    json_object_get(ap->props, p->name) != NULL ? "local" : "default", "help", p->help);
}

/* A figure, not a setting. It can't be told while the pool can't be written. */
static json_t *
undoused_json(struct adm_pool *ap)
{
	uint64_t bytes = 0;
	char text[64] = "-";
	bool told = trash_used(ap, &bytes) == 0;
	if (told) {
		fs_prop_size_text(bytes, text, sizeof(text));
	}
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "pool", pool_name(ap->pool), "property",
	    "undoused", "value", text, "source", "-", "help",
	    "what comes back when all that was destroyed is gone for good");
	if (told) {
		json_object_set_new(o, "number", json_integer((json_int_t)bytes));
	}
	return o;
}

static int
prop_unknown(const char *name, struct adm_error *e)
{
	char known[320] = "";
	for (size_t i = 0; i < ARRAY_LEN(all_props); i++) {
		size_t len = strlen(known);
		snprintf(
		    known + len, sizeof(known) - len, "%s%s", i > 0 ? ", " : "", all_props[i].name);
	}
	adm_fail_next(e, "A pool has: %s.", known);
	return adm_fail(e, EINVAL, "there is no pool property '%.60s'", name);
}

int
pool_cmd_get(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	const char *name = ap != NULL ? adm_arg_string(args, "property", e) : NULL;
	if (name == NULL) {
		return -e->code;
	}
	bool is_undoused = strcmp(name, "undoused") == 0;
	if (strcmp(name, "all") != 0 && !is_undoused && prop_find(name) == NULL) {
		return prop_unknown(name, e);
	}
	json_t *list = json_array();
	for (size_t i = 0; i < ARRAY_LEN(all_props); i++) {
		if (strcmp(name, "all") == 0 || strcmp(name, all_props[i].name) == 0) {
			json_array_append_new(list, prop_json(ap, &all_props[i]));
		}
	}
	if (strcmp(name, "all") == 0 || is_undoused) {
		json_array_append_new(list, undoused_json(ap));
	}
	*out = list;
	return 0;
}

int
pool_cmd_set(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	const char *name = ap != NULL ? adm_arg_string(args, "property", e) : NULL;
	const char *value = json_string_value(json_object_get(args, "value"));
	(void)out;
	if (name == NULL) {
		return -e->code;
	}
	const struct prop *p = prop_find(name);
	if (p == NULL) {
		return prop_unknown(name, e);
	}
	if (value == NULL) {
		return adm_fail(e, EINVAL, "the argument 'value' is missing");
	}
	if (value[0] != '\0' && !prop_takes(p, value)) {
		char takes[120] = "";
		for (size_t i = 0; i < ARRAY_LEN(p->values) && p->values[i] != NULL; i++) {
			size_t len = strlen(takes);
			snprintf(takes + len, sizeof(takes) - len, "%s%s", i > 0 ? ", " : "",
			    p->values[i]);
		}
		if (p->kind != PROP_WORD) {
			snprintf(takes, sizeof(takes),
			    p->kind == PROP_THRESHOLD
				? "COUNT/SECONDS (1 to 64, 1 to 86400), or off"
				: "1 to 60000");
		}
		adm_fail_next(e, "It takes: %s.", takes);
		return adm_fail(e, EINVAL, "'%.60s' is no value for %s", value, name);
	}
	int err = props_change(ap, name, value[0] != '\0' ? json_string(value) : NULL);
	if (err != 0) {
		return adm_fail(e, err, "the property could not be stored: %s", err_str(err));
	}
	props_apply(ap);
	return 0;
}
