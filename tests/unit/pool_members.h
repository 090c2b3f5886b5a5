/*
 * pool_members.h - pools whose drives come and go: rig.drives has those that are nobody's, NULL for
 * those that the pool has.
 */
#ifndef AGATE_TESTS_POOL_MEMBERS_H
#define AGATE_TESTS_POOL_MEMBERS_H

#include "tests/unit/pool_files.h"

static inline void
fill_pool(struct pool *p, uint32_t count, uint64_t seed)
{
	for (uint32_t i = 0; i < count; i++) {
		int err = write_file(p, 300000, seed + i);

		UNIT_CHECK(err == 0);
	}
}

static inline void
sync_pool(struct pool *p)
{
	int err = pool_sync(p);

	UNIT_CHECK(err == 0);
}

static inline bool
has_label(uint32_t medium)
{
	struct pool_label_info info;

	return pool_label_probe(rig.drives[medium], &info) == 0;
}

/* As a hot-plug event would. */
static inline void
give_back(struct pool *p, uint32_t medium)
{
	struct kb_drive *d;
	int err;

	kb_sim_return(rig.media[medium]);
	err = kb_sim_open(rig.media[medium], &d);
	ASSERT(err == 0);
	err = pool_drive_return(p, d);
	UNIT_CHECK(err == 0);
}

static inline void
close_pool(struct pool *p)
{
	int err;

	rig_close(&rig); /* what the pool has is NULL here */
	err = pool_export(p);
	UNIT_CHECK(err == 0);
	rig_open(&rig);
}

static inline struct pool *
make(const struct shape *sh)
{
	struct pool *p = make_pool(sh, "tank");

	for (uint32_t i = 0; i < sh->width * sh->sets + sh->logs; i++) {
		rig.drives[i] = NULL;
	}
	return p;
}

static inline struct pool *
take_up(void)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool *p = NULL;
	int err = take(&spec, NULL, &p, &result);

	UNIT_CHECK(err == 0);
	if (err != 0) {
		printf("\n    import: %s (%s)\n", err_str(err), result.why);
		abort();
	}
	for (uint32_t i = 0; i < rig.count; i++) {
		for (uint32_t k = 0; k < p->v.drive_count; k++) {
			if (p->v.drives[k].kb == rig.drives[i]) {
				rig.drives[i] = NULL;
				break;
			}
		}
	}
	return p;
}

#endif
