/* fakepool_int.h - shared by fakepool.c and fakepool_obj.c. Its memory is the C library's, so that
 * tests may fail the allocations of fs/ alone. */
#ifndef AGATE_TESTS_FAKEPOOL_INT_H
#define AGATE_TESTS_FAKEPOOL_INT_H

#include <stdlib.h>
#include "base/base.h"
#include "tests/lib/fakepool.h"

struct fake_record {
	struct pool_record rec;
	uint8_t *payload;
	struct fake_record *next; /* deferred: of the same object */
};

struct pool {
	char name[POOL_NAME_MAX + 1];
	struct list datasets; /* pool_ds.link, by path */
	struct list snaps;    /* pool_ds.link: every snapshot there ever was */
	struct list blobs;
	uint64_t txg, next_guid, base_records;
	struct fake_record **log;
	uint64_t log_count, log_cap;
	const struct pool *given;
	uint64_t given_from, given_to;
	uint64_t fail_at;
	bool failed, full, no_parking, quiet;
	uint32_t waits, live_tx;
};

struct fake_prop {
	char key[64], value[64];
};

struct pool_ds {
	struct list link;
	struct pool *pool;
	char path[DATASET_NAME_MAX + 1];
	uint64_t guid, root_object, object_count, incarnation;
	uint32_t refs;
	bool destroyed;
	struct pool_ds *head; /* of a snapshot */
	uint64_t snap_guid, create_txg, origin_guid;
	char snap[DATASET_NAME_MAX + 1];
	char holds[4][64];
	uint32_t hold_count;
	uint64_t list_seq, list_ns; /* of a head: its snapshots */
	uint8_t owner[512];
	struct fake_prop props[16];
	uint32_t prop_count;
	struct pool_limits limits;
	uint32_t account_limits; /* how many, the first, and one default */
	struct pool_account_limit account_limit;
	uint64_t account_default;
	struct pool_obj **slots; /* by number */
	uint64_t *generations;
	uint64_t slot_cap;
};

struct fake_block {
	uint64_t number;
	uint8_t *data;
};

struct pool_obj {
	struct pool_ds *ds;
	uint64_t number, generation, txg;
	enum object_type type;
	uint32_t block_bytes, holds;
	bool stale, is_inline;
	uint32_t inline_len;
	uint8_t bonus[OBJECT_BONUS_BYTES];
	uint8_t inl[OBJECT_INLINE_MAX];
	struct fake_block *blocks; /* sorted */
	uint64_t block_count, block_cap;
	void *owner;
	void (*drop)(void *owner);
	struct fake_record *deferred;
};

struct pool_tx {
	struct pool_ds *ds;
	uint64_t txg;
};

struct pool_ds *fake_ds_new(struct pool *p, const char *path, uint64_t guid);
/* Without being on a list. */
struct pool_ds *fake_ds_make(struct pool *p, const char *path, uint64_t guid);
struct pool_ds *fake_ds_find(struct pool *p, const char *path);
void fake_ds_free(struct pool_ds *ds);
/* Contents and the like; not names. */
void fake_ds_copy(struct pool_ds *to, const struct pool_ds *from);
void fake_snaps_clone(struct pool *to, struct pool *from);
void fake_park(struct pool *p);
int fake_fails(struct pool *p);
void fake_obj_free(struct pool_obj *o);
struct pool_obj *fake_obj_clone(struct pool_ds *ds, const struct pool_obj *o);
void fake_log_append(struct pool *p, struct fake_record *r);
void fake_record_free(struct fake_record *r);
void *fake_alloc(size_t len);
void fake_blobs_free(struct pool *p);
void fake_blobs_clone(struct pool *to, struct pool *from);

#endif
