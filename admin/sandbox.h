/* sandbox.h - what the engine gives up before it touches a byte from the network. */
#ifndef AGATE_ADMIN_SANDBOX_H
#define AGATE_ADMIN_SANDBOX_H

#include "base/base.h"

/* Becomes user (empty: stays) and keeps only the capabilities to bind low ports and to lock memory.
 * 0; -ENOENT no such user; -errno. */
int sandbox_drop_user(const char *user) WARN_UNUSED;
/* From here on no program can be started, no module loaded, nothing mounted, nobody traced. -errno.
 */
int sandbox_seccomp(void) WARN_UNUSED;

#endif
