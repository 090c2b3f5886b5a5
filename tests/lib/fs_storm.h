/*
 * fs_storm.h - any operation of fs/ at random, on a few names in a few directories, so that they
 * meet. Asserts only that errors are among those an operation may give.
 */
#ifndef AGATE_TESTS_FS_STORM_H
#define AGATE_TESTS_FS_STORM_H

#include "fs/fs.h"

struct storm {
	struct fs_ds *ds;
	struct fs_node *root; /* everything happens below this directory */
	atomic_uint next_xid;
	/* called with each reply as it goes into the log, or NULL */
	void (*replied)(struct storm *s, uint32_t xid, uint64_t object);
};

/* What a storm's replies look like in the log. */
struct storm_reply {
	uint32_t xid;
	uint64_t object;
};

void storm_op(struct storm *s) MAY_PARK;

#endif
