/* notes.h - notes of transactions, and their object. Private to pool/. Theory: notes.c. */
#ifndef AGATE_POOL_NOTES_H
#define AGATE_POOL_NOTES_H

#include "pool/object.h"

int notes_open(struct pool *p) WARN_UNUSED;
void notes_close(struct pool *p);
/* Finds where to go on writing; after datasets_open, before the first txg. Reads what it can. */
void notes_load(struct pool *p) MAY_PARK;
/* The notes of tx's txg go to their object. -errno: the txg can't be written. */
int notes_sync(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;

#endif
