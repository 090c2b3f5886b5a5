/*
 * server_cost.c - processor time from /proc, instructions from the processor's counters
 * (perf_event_open(2)), which a virtual machine may not have. Time says what a load costs on this
 * machine now; instructions say it whoever else is on the machine.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "bench/server_cost.h"
#include "tests/lib/libnfs_client.h"

static double
cpu_us(const char *pid)
{
	char path[64], text[1024];
	unsigned long user, system;
	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	FILE *f = fopen(path, "re");
	if (f == NULL || fgets(text, sizeof(text), f) == NULL) {
		die("%s: no such process", path);
	}
	fclose(f);
	const char *behind = strrchr(text, ')');
	if (behind == NULL ||
	    sscanf(behind + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
		&system) != 2) {
		die("%s isn't understood", path);
	}
	return (double)(user + system) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

/* -1: no counter to be had. */
static int
counter_open(pid_t thread)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_HW_INSTRUCTIONS,
	    .exclude_hv = 1};
	return (int)syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void
counters_open(struct server_cost *c)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%s/task", c->pid);
	DIR *tasks = opendir(path);
	if (tasks == NULL) {
		die("%s: %s", path, strerror(errno));
	}
	for (struct dirent *d = readdir(tasks); d != NULL; d = readdir(tasks)) {
		pid_t thread = (pid_t)strtol(d->d_name, NULL, 10);
		int fd =
		    thread > 0 && c->counter_count < SERVER_THREADS_MAX ? counter_open(thread) : -1;
		if (fd >= 0) {
			c->counters[c->counter_count++] = fd;
		}
	}
	closedir(tasks);
}

void
server_cost_begin(struct server_cost *c, const char *pid)
{
	*c = (struct server_cost){.pid = pid};
	counters_open(c);
	c->cpu_us = cpu_us(pid);
}

void
server_cost_end(struct server_cost *c)
{
	c->cpu_us = cpu_us(c->pid) - c->cpu_us;
	for (unsigned i = 0; i < c->counter_count; i++) {
		uint64_t count = 0;
		if (read(c->counters[i], &count, sizeof(count)) == (ssize_t)sizeof(count)) {
			c->instructions += count;
		}
		close(c->counters[i]);
	}
	c->counter_count = 0;
}
