/* schedule_time.c - slots of time and the names of their snapshots. Time is UTC, so that no hour
 * comes twice. */
#include <stdio.h>
#include <time.h>
#include "admin/schedule.h"

#define HOUR_S 3600
#define DAY_S (24 * HOUR_S)
#define WEEK_S (7 * DAY_S)
#define MONDAY_S (4 * DAY_S) /* 1970 began on a Thursday */

static const struct {
	const char *name;
	int64_t seconds, offset;
	uint32_t keep;
} kinds[SCHED_KINDS] = {
    [SCHED_15MIN] = {"15min", 15 * 60, 0, 8},
    [SCHED_HOURLY] = {"hourly", HOUR_S, 0, 24},
    [SCHED_DAILY] = {"daily", DAY_S, 0, 14},
    [SCHED_WEEKLY] = {"weekly", WEEK_S, MONDAY_S, 8},
    [SCHED_MONTHLY] = {"monthly", 0, 0, 12},
};

const char *
sched_every_name(enum sched_every every)
{
	return kinds[every].name;
}

bool
sched_every_parse(const char *text, enum sched_every *out)
{
	for (unsigned i = 0; i < SCHED_KINDS; i++) {
		if (strcmp(text, kinds[i].name) == 0) {
			*out = (enum sched_every)i;
			return true;
		}
	}
	return false;
}

uint32_t
sched_keep_default(enum sched_every every)
{
	return kinds[every].keep;
}

static int64_t
month_start(int64_t now, int months_on)
{
	time_t t = (time_t)now;
	struct tm tm;
	if (gmtime_r(&t, &tm) == NULL) {
		return now;
	}
	struct tm first = {.tm_year = tm.tm_year, .tm_mon = tm.tm_mon + months_on, .tm_mday = 1};
	return (int64_t)timegm(&first);
}

int64_t
sched_slot(enum sched_every every, int64_t now)
{
	if (every == SCHED_MONTHLY) {
		return month_start(now, 0);
	}
	int64_t since = now - kinds[every].offset, into = since % kinds[every].seconds;
	return now - (into < 0 ? into + kinds[every].seconds : into);
}

int64_t
sched_next(enum sched_every every, int64_t slot)
{
	return every == SCHED_MONTHLY ? month_start(slot, 1) : slot + kinds[every].seconds;
}

void
sched_name(enum sched_every every, int64_t slot, char out[SCHED_NAME_BYTES])
{
	time_t t = (time_t)slot;
	struct tm tm = {0};
	(void)gmtime_r(&t, &tm);
	char when[24];
	(void)strftime(when, sizeof(when), "%Y-%m-%d_%H:%M", &tm);
	(void)snprintf(out, SCHED_NAME_BYTES, "auto-%s-%s", kinds[every].name, when);
}

bool
sched_name_is(enum sched_every every, const char *name)
{
	static const char shape[] = "dddd-dd-dd_dd:dd";
	char lead[24];
	int len = snprintf(lead, sizeof(lead), "auto-%s-", kinds[every].name);
	if (strncmp(name, lead, (size_t)len) != 0) {
		return false;
	}
	name += len;
	for (size_t i = 0; i < sizeof(shape); i++) { /* the end included */
		bool digit = name[i] >= '0' && name[i] <= '9';
		if (shape[i] == 'd' ? !digit : name[i] != shape[i]) {
			return false;
		}
	}
	return true;
}

bool
sched_is_due(const struct sched *s, int64_t now)
{
	return !s->paused && now >= s->retry && sched_slot(s->every, now) > s->last;
}
