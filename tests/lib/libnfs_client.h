/* libnfs_client.h - what the test programs on libnfs share: a mounted context from a URL, and dying
 * with a sentence. */
#ifndef AGATE_TESTS_LIBNFS_CLIENT_H
#define AGATE_TESTS_LIBNFS_CLIENT_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <nfsc/libnfs.h>
#include "base/compiler.h"

static inline void die(const char *fmt, ...) PRINTF_LIKE(1, 2) NORETURN;
static inline void
die(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	putc('\n', stderr);
	exit(EXIT_FAILURE);
}

/* url: nfs://host/export?nfsport=...; NULL when the server isn't there. */
static inline struct nfs_context *
client_try_mount(const char *url)
{
	struct nfs_context *nfs = nfs_init_context();
	if (nfs == NULL) {
		die("no memory for a client");
	}
	struct nfs_url *parts = nfs_parse_url_dir(nfs, url);
	if (parts == NULL) {
		die("not a URL: %s", url);
	}
	int err = nfs_mount(nfs, parts->server, parts->path);
	nfs_destroy_url(parts);
	if (err != 0) {
		nfs_destroy_context(nfs);
		return NULL;
	}
	return nfs;
}

static inline struct nfs_context *
client_mount(const char *url)
{
	struct nfs_context *nfs = client_try_mount(url);
	if (nfs == NULL) {
		die("%s can't be mounted", url);
	}
	nfs_umask(nfs, 0);
	return nfs;
}

/* err of a libnfs call that has to be fine. */
static inline void
client_must(struct nfs_context *nfs, int err, const char *what, const char *path)
{
	if (err < 0) {
		die("%s %s: %s (%s)", what, path, strerror(-err), nfs_get_error(nfs));
	}
}

#endif
