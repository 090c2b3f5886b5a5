/*
 * later.c - a library to load before the daemon (LD_PRELOAD): its calendar is ahead by as many
 * hours as the file AGATE_LATER has bytes 'x' at its beginning, at any moment. The file has 960
 * bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HOURS_MAX 960

static const char *hours;

/* While the file can still be opened: the engine gives up its rights later. */
static void __attribute__((constructor)) later_open(void)
{
	const char *path = getenv("AGATE_LATER");
	int fd = path != NULL ? open(path, O_RDONLY) : -1;
	void *map = fd >= 0 ? mmap(NULL, HOURS_MAX, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	hours = map != MAP_FAILED ? map : NULL;
}

int
clock_gettime(clockid_t id, struct timespec *out)
{
	int err = (int)syscall(SYS_clock_gettime, id, out);
	for (int i = 0; err == 0 && id == CLOCK_REALTIME && hours != NULL && i < HOURS_MAX; i++) {
		if (hours[i] != 'x') {
			break;
		}
		out->tv_sec += 3600;
	}
	return err;
}
