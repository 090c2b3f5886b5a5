/* block_share.h - one read of a block for all who want it now. Private to pool/. Theory: block_share.c. */
#ifndef AGATE_POOL_BLOCK_SHARE_H
#define AGATE_POOL_BLOCK_SHARE_H

#include "pool/cache.h"

struct shares;
struct shared_read;

int shares_open(struct shares **out) WARN_UNUSED;
/* Nobody is reading any more. NULL is fine. */
void shares_close(struct shares *t);

/*
 * share_join - the read of key that is under way, or a new one. out_mine: it is the caller's, who
 * reads the block and calls share_finish; everybody else calls share_await. Either ends the use of
 * what this returns. NULL: no memory; read it for yourself.
 */
struct shared_read *share_join(struct shares *t, const struct cache_key *key, bool *out_mine);
/* The owner has the block (borrowed), or this error. */
void share_finish(struct shares *t, struct shared_read *r, int err, struct iobuf *buf);
/* Parks until the owner has finished, which a drive's deadline bounds; out: a reference. Returns his error. */
int share_await(struct shared_read *r, struct iobuf **out) WARN_UNUSED MAY_PARK;

#endif
