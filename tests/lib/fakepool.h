/*
 * fakepool.h - pool.h without drives: objects are bytes in memory, so that fs/ can be tested fast
 * and against a model. Only for the simulated runtime (nothing is locked). It is stricter than the
 * pool:
 *  - calls that may park do so at random; blocks move in memory when they are made dirty
 *  - a change of an object by an older txg than the last one stops the program
 *  - the n-th call that can fail may be told to
 * Records are captured in ring order. A clone is a copy of everything at a quiet moment; given the
 * log of the original it stands for what an import after a crash finds.
 */
#ifndef AGATE_TESTS_FAKEPOOL_H
#define AGATE_TESTS_FAKEPOOL_H

#include "pool/pool.h"

struct pool *fakepool_create(const char *name);
void fakepool_free(struct pool *p);
/* A copy at this quiet moment; what is logged from now on isn't in it. */
struct pool *fakepool_clone(struct pool *p);
/* What pool_replay of clone will deliver: the records of p since the clone was made, at most max of
 * them. */
void fakepool_give_log(struct pool *clone, const struct pool *p, uint64_t max);
uint64_t fakepool_log_count(const struct pool *p); /* records logged so far */
const void *fakepool_log_payload(
    const struct pool *p, uint64_t index, uint16_t *out_type, uint32_t *out_len);
/* Lets everything deferred enter the log. */
void fakepool_commit_all(struct pool *p);
void fakepool_next_txg(struct pool *p);
/* Fail the n-th fallible call from now on (1 = next) with -EIO; 0 = none. Returns whether the last
 * order was carried out. */
bool fakepool_fail_at(struct pool *p, uint64_t n);
void fakepool_set_full(struct pool *p, bool full);  /* growth gets -ENOSPC */
void fakepool_set_parking(struct pool *p, bool on); /* default on */
/* The bytes of a block, to be spoiled; NULL: there is none. */
uint8_t *fakepool_block(struct pool_obj *o, uint64_t block);
uint32_t fakepool_waits(
    const struct pool *p); /* calls of pool_commit that had something to wait for */

#endif
