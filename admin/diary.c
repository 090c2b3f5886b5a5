/*
 * diary.c - the history of a pool (what administrators did to it) and its events (what happened to
 * it). Two lists of lines in memory, each at most DIARY_BYTES_MAX long: the oldest lines go first.
 * They travel with the drives, as two blobs of the pool; the monitor stores them a moment after
 * something was added.
 *
 * A line: seconds since 1970, who (a user, or how bad it is), what (the command, the event's name),
 * text; tabs between.
 */
#include <stdio.h>
#include <stdlib.h>
#include "admin/admin_int.h"

#define DIARY_BYTES_MAX (64u << 10)
#define NOTE_BYTES_MAX 1024u
#define EVENTS_AT_ONCE 16u

static const char *const blob_names[DIARY_KINDS] = {"history", "events"};

struct diary_list {
	char *text; /* DIARY_BYTES_MAX */
	uint32_t len;
	uint64_t changes, stored;
};

struct adm_diary {
	struct mutex mu; /* RANK_LEAF */
	struct diary_list lists[DIARY_KINDS];
	uint64_t event_seq; /* of the pool's events, the newest taken over */
};

static void
list_take(struct diary_list *l, const char *data, uint32_t len)
{
	const char *from = data;
	if (len > DIARY_BYTES_MAX) {
		from = memchr(data + len - DIARY_BYTES_MAX, '\n', DIARY_BYTES_MAX);
		from = from != NULL ? from + 1 : data + len;
	}
	l->len = len - (uint32_t)(from - data);
	memcpy(l->text, from, l->len);
}

int
diary_load(struct adm_pool *ap, struct adm_error *e)
{
	struct adm_diary *n = mem_zalloc(sizeof(*n));
	if (n == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	mutex_init(&n->mu, RANK_LEAF);
	ap->diary = n;
	for (unsigned i = 0; i < DIARY_KINDS; i++) {
		void *data;
		uint32_t len;
		n->lists[i].text = mem_zalloc(DIARY_BYTES_MAX);
		if (n->lists[i].text == NULL) {
			return adm_fail(e, ENOMEM, "out of memory");
		}
		int err = pool_blob_get(ap->pool, blob_names[i], &data, &len);
		if (err == 0) {
			list_take(&n->lists[i], data, len);
			mem_free(data);
		} else if (err != -ENOENT) {
			log_error("diary-not-read pool=%s what=%s reason=%s", pool_name(ap->pool),
			    blob_names[i], err_str(err));
		}
	}
	return 0;
}

void
diary_free(struct adm_diary *n)
{
	for (unsigned i = 0; n != NULL && i < DIARY_KINDS; i++) {
		mem_free(n->lists[i].text);
	}
	mem_free(n);
}

/* Room for len more: whole lines go. */
static void
list_shift(struct diary_list *l, uint32_t len)
{
	if (l->len + len <= DIARY_BYTES_MAX) {
		return;
	}
	uint32_t drop = l->len + len - DIARY_BYTES_MAX;
	const char *end = memchr(l->text + drop - 1, '\n', l->len - drop + 1);
	drop = end != NULL ? (uint32_t)(end + 1 - l->text) : l->len;
	l->len -= drop;
	memmove(l->text, l->text + drop, l->len);
}

/* Under mu. */
static void
list_note(struct diary_list *l, uint64_t time_s, const char *const parts[3])
{
	char line[NOTE_BYTES_MAX];
	int len = snprintf(line, sizeof(line) - 1, "%llu", (unsigned long long)time_s);
	for (unsigned i = 0; i < 3; i++) {
		line[len++] = '\t';
		for (const char *p = parts[i]; *p != '\0' && (size_t)len < sizeof(line) - 8; p++) {
			line[len++] = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
		}
	}
	line[len++] = '\n';
	list_shift(l, (uint32_t)len);
	memcpy(l->text + l->len, line, (size_t)len);
	l->len += (uint32_t)len;
	l->changes++;
}

static bool
diary_has(const struct adm_diary *n, enum diary_kind kind)
{
	return n != NULL && n->lists[kind].text != NULL;
}

void
diary_add(
    struct adm_pool *ap, enum diary_kind kind, const char *who, const char *what, const char *text)
{
	const char *const parts[3] = {who, what, text};
	struct adm_diary *n = ap->diary;
	if (!diary_has(n, kind)) {
		return;
	}
	mutex_lock(&n->mu);
	list_note(&n->lists[kind], rt_wall_ns() / NSEC_PER_SEC, parts);
	mutex_unlock(&n->mu);
}

static const char *
level_name(enum pool_event_level level)
{
	switch (level) {
	case POOL_EVENT_INFO:
		return "info";
	case POOL_EVENT_WARNING:
		return "warning";
	case POOL_EVENT_ERROR:
		return "error";
	}
	return "error";
}

/* The monitor and whoever asks for the events may both come: each event is taken once. */
void
diary_gather(struct adm_pool *ap)
{
	struct adm_diary *n = ap->diary;
	struct pool_event *events = mem_zalloc_array(EVENTS_AT_ONCE, sizeof(*events));
	uint32_t count = events != NULL && diary_has(n, DIARY_EVENTS) ? EVENTS_AT_ONCE : 0;
	while (count == EVENTS_AT_ONCE) {
		mutex_lock(&n->mu);
		count = pool_events_get(ap->pool, n->event_seq, events, EVENTS_AT_ONCE);
		for (uint32_t i = 0; i < count; i++) {
			const char *const parts[3] = {
			    level_name(events[i].level), events[i].name, events[i].text};
			list_note(&n->lists[DIARY_EVENTS], events[i].time, parts);
			n->event_seq = events[i].seq;
		}
		mutex_unlock(&n->mu);
	}
	mem_free(events);
}

void
diary_store(struct adm_pool *ap)
{
	struct adm_diary *n = ap->diary;
	if (n == NULL || pool_is_readonly(ap->pool) || pool_is_suspended(ap->pool)) {
		return;
	}
	for (unsigned i = 0; i < DIARY_KINDS; i++) {
		struct diary_list *l = &n->lists[i];
		char *copy = l->changes != l->stored ? mem_zalloc(DIARY_BYTES_MAX) : NULL;
		if (copy == NULL) {
			continue;
		}
		mutex_lock(&n->mu);
		uint64_t changes = l->changes;
		uint32_t len = l->len;
		memcpy(copy, l->text, len);
		mutex_unlock(&n->mu);
		int err = pool_blob_put(ap->pool, blob_names[i], copy, len);
		mem_free(copy);
		if (err == 0) {
			l->stored = changes;
		} else {
			log_warn("diary-not-stored pool=%s what=%s reason=%s", pool_name(ap->pool),
			    blob_names[i], err_str(err));
		}
	}
}

/* The next field of a line, without copying; NULL behind the last. */
static char *
next_field(char **line)
{
	char *field = *line;
	if (field != NULL) {
		char *end = strchr(field, '\t');
		if (end != NULL) {
			*end++ = '\0';
		}
		*line = end;
	}
	return field;
}

static json_t *
line_json(char *line)
{
	const char *time_s = next_field(&line), *who = next_field(&line), *what = next_field(&line);
	if (what == NULL) {
		return NULL; /* of a later version, perhaps */
	}
	return json_pack("{s:I, s:o, s:o, s:o}", "time", (json_int_t)strtoll(time_s, NULL, 10),
	    "who", adm_text(who), "what", adm_text(what), "text",
	    adm_text(line != NULL ? line : ""));
}

json_t *
diary_json(struct adm_pool *ap, enum diary_kind kind)
{
	struct adm_diary *n = ap->diary;
	json_t *list = json_array();
	diary_gather(ap); /* what has happened by now is told now */
	char *copy = n != NULL ? mem_zalloc(DIARY_BYTES_MAX + 1) : NULL;
	if (copy == NULL) {
		return list;
	}
	mutex_lock(&n->mu);
	memcpy(copy, n->lists[kind].text, n->lists[kind].len);
	mutex_unlock(&n->mu);
	for (char *line = copy, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		*end = '\0';
		json_t *o = line_json(line);
		if (o != NULL) {
			json_array_append_new(list, o);
		}
	}
	mem_free(copy);
	return list;
}
