/*
 * parent.h - the privileged parent: opens drives for the engine, restarts it, keeps the console
 * told.
 *
 * Messages over a SOCK_SEQPACKET pair, struct parent_msg each way; OPENED carries a descriptor. The
 * parent accepts only OPEN, READY, BIND and UNBIND, the engine only OPENED and DONE; anything else ends the conversation.
 */
#ifndef AGATE_ADMIN_PARENT_H
#define AGATE_ADMIN_PARENT_H

#include <time.h>
#include "admin/config.h"

/* So many deaths of the engine within so long: safe mode. */
#define CRASHES_MAX 5
#define CRASH_WINDOW_S 600
struct parent_crashes {
	time_t at_s[CRASHES_MAX]; /* ring of the latest */
	unsigned count;
};
/* Notes a death at now_s; true when there were too many lately. */
bool parent_note_crash(struct parent_crashes *c, time_t now_s);

enum parent_kind {
	PARENT_OPEN = 1,
	PARENT_OPENED = 2,
	PARENT_READY = 3,
	PARENT_BIND = 4,   /* an NVMe controller to vfio-pci; its address is in path */
	PARENT_UNBIND = 5, /* back to the kernel's driver */
	PARENT_DONE = 6,   /* the answer to both; a reason in path when err isn't 0 */
};
struct parent_msg {
	uint32_t kind;
	int32_t err;     /* OPENED, DONE: 0 or -errno */
	char path[1024]; /* OPEN */
};

/* Runs the engine, again and again, until it ends well or a signal says stop. Returns the exit
 * status. */
int parent_main(const struct adm_config *cfg, bool restart);

/* parent_vfio.c */
int parent_open_vfio(const char *path, int *out_fd) WARN_UNUSED;
void parent_bind_vfio(struct parent_msg *m); /* BIND or UNBIND becomes DONE */
bool parent_vfio_quiet(void); /* no controller at VFIO can reach memory; waits for it a little */

/* One message with at most one descriptor (-1 = none). 0 or -errno; recv: -EPIPE at the end.
 * Blocking. */
int parent_send(int sock, const struct parent_msg *m, int fd) WARN_UNUSED;
int parent_recv(int sock, struct parent_msg *m, int *out_fd) WARN_UNUSED;

#endif
