/* accounts.c - what users and groups have of a snapshot is the sum of its slots. */
#include "pool/accounts.h"
#include "tests/histories/history.h"

#define WHO_MAX 8u
struct sums {
	uint32_t id[WHO_MAX], count;
	uint64_t sectors[WHO_MAX], objects[WHO_MAX];
};

static void
sums_add(struct sums *s, uint32_t id, uint64_t sectors)
{
	uint32_t i = 0;

	while (i < s->count && s->id[i] != id) {
		i++;
	}
	ASSERT(i < WHO_MAX);
	s->count = MAX(s->count, i + 1);
	s->id[i] = id;
	s->sectors[i] += sectors;
	s->objects[i]++;
}

struct accounts_look {
	struct sums want;
	uint32_t found;
};

static int
accounts_match(void *arg, const struct pool_account *a)
{
	struct accounts_look *l = arg;

	for (uint32_t i = 0; i < l->want.count; i++) {
		if (l->want.id[i] == a->id) {
			ASSERT(a->objects == l->want.objects[i]);
			ASSERT(a->bytes == space_data_bytes(hs.pool, l->want.sectors[i]));
			l->found++;
			return 0;
		}
	}
	ASSERT(!"an account of nobody");
	return -EIO;
}

/* The accounts of what nobody changes are those of its slots. */
void
accounts_compare(struct pool_ds *ds)
{
	struct accounts_look look[2] = {0};
	unsigned percent;

	if (pool_accounts_state(ds, &percent) != 0) {
		return;
	}
	for (uint64_t n = 1; n < ds->next_object; n++) {
		struct object_slot slot;
		int err = obj_slot_read(ds, n, &slot);
		uint32_t bonus[3];

		ASSERT(err == 0 || err == -ENOENT);
		memcpy(bonus, slot.bonus, sizeof(bonus));
		if (err == 0 && slot.type >= OBJ_FILE) {
			sums_add(&look[0].want, bonus[1], le64_get(slot.used_sectors));
			sums_add(&look[1].want, bonus[2], le64_get(slot.used_sectors));
		}
	}
	for (unsigned k = 0; k < 2; k++) {
		int err =
		    pool_accounts_each(ds, (enum pool_account_kind)k, accounts_match, &look[k]);

		ASSERT(err == 0 && look[k].found == look[k].want.count);
	}
	history_count(HK_ACCOUNTS);
}

/* A pool as it was before there were accounts. */
void
accounts_none(void)
{
	hs.pool->v.feat_rocompat &= ~(uint64_t)FEATURE_RO_ACCOUNTS;
	atomic_store(&hs.pool->datasets->root->accounts_next, 0);
	atomic_store(&hs.pool->config_dirty, true);
}

void
step_upgrade(void)
{
	uint64_t fresh = 0;
	int err;

	if (!hs.old || hs.adm.running || history_rnd(100) != 0) {
		return;
	}
	err = pool_upgrade(hs.pool, &fresh);
	ASSERT(err == 0);
	hs.old = false;
	hs.counts->kind[HK_UPGRADE] += fresh == FEATURE_RO_ACCOUNTS;
}
