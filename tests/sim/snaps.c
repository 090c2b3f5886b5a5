/*
 * snaps.c - snapshots in the life of the appliance. They are taken when nobody works and under
 * load, in some seeds; each is read through .snapshot at once, and a hash of all of it is
 * remembered. After every import, crash or not, what was acknowledged must be there, and hash the
 * same. What was being taken or destroyed when the power went is there or isn't.
 *
 * Rolling back: at a quiet moment a snapshot is taken, then files are spoiled behind the model's
 * back, then the snapshot is gone back to: the model must agree with everything again, handles
 * included. When the power goes in between, the next life goes back first. Calls from before aren't
 * sent again afterwards: the service has forgotten their replies, also of those whose effect the
 * snapshot has.
 */
#include "tests/sim/sim.h"

#define LIST_BYTES 4000u

static bool
snaps_wanted(const struct sim *s)
{
	return s->seed % 3 == 1 && !s->machine.fill && s->machine.limit == NULL &&
	       (!s->faults || s->operator);
}

/* ---- a tree as a number ---- */

static uint64_t
mix(uint64_t h, const void *data, size_t len)
{
	const uint8_t *b = data;
	for (size_t i = 0; i < len; i++) {
		h = (h ^ b[i]) * 1099511628211ull;
	}
	return h;
}

static uint64_t
mix_u64(uint64_t h, uint64_t v)
{
	return mix(h, &v, sizeof(v));
}

static uint64_t
mix_attr(uint64_t h, const fattr3 *a)
{
	h = mix_u64(h, a->type);
	h = mix_u64(h, a->mode);
	h = mix_u64(h, a->nlink);
	h = mix_u64(h, a->uid);
	h = mix_u64(h, a->gid);
	h = mix_u64(h, a->fileid);
	h = mix_u64(h, a->type == NF3DIR ? 0 : a->size);
	h = mix(h, &a->mtime, sizeof(a->mtime));
	return mix(h, &a->ctime, sizeof(a->ctime));
}

/* 0 when something can't be read; said. */
static uint64_t
hash_file(struct sim *s, struct nfsc *c, const struct rig_fh *fh, uint64_t size, uint64_t h)
{
	uint8_t *data = mem_zalloc(1u << 18);
	bool eof = size == 0;
	ASSERT(data != NULL);
	for (uint64_t at = 0; !eof && h != 0;) {
		uint32_t len = 0;
		uint32_t st = rig_read(c, fh, at, data, 1u << 18, &len, &eof);
		if (st != NFS3_OK) {
			sim_wrong(s, "READ for a snapshot answered %u", st);
			h = 0;
		} else {
			h = mix(h, data, len);
			at += len;
		}
	}
	mem_free(data);
	return h;
}

static uint64_t hash_tree(struct sim *s, struct nfsc *c, const struct rig_fh *fh, uint64_t h);

static uint64_t
hash_entries(struct sim *s, struct nfsc *c, const struct rig_fh *dir, const struct nfsc_dirres *res,
    uint64_t h)
{
	for (uint32_t i = 0; i < res->count && h != 0; i++) {
		const char *name = res->entries[i].name;
		struct rig_fh fh;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
			continue;
		}
		uint32_t st = rig_lookup(c, dir, name, &fh);
		if (st != NFS3_OK) {
			sim_wrong(s, "'%s' is listed, but LOOKUP answered %u", name, st);
			return 0;
		}
		h = hash_tree(s, c, &fh, mix(h, name, strlen(name)));
	}
	return h;
}

static uint64_t
hash_dir(struct sim *s, struct nfsc *c, const struct rig_fh *dir, uint64_t h)
{
	struct nfsc_dirres res = {.eof = FALSE};
	uint64_t cookie = 0;
	while (!res.eof && h != 0) {
		READDIR3args args = {.dir = rig_fh3(dir), .cookie = cookie, .count = LIST_BYTES};
		if (nfsc_call(c, NFSC_READDIR, &args, &res) != 0 || res.status != NFS3_OK) {
			sim_wrong(s, "listing for a snapshot answered %d", res.status);
			return 0;
		}
		/* what libtirpc allocated must not be lost in a power cut */
		struct nfsc_dirres copy = res;
		copy.entries = mem_zalloc_array(MAX(res.count, 1u), sizeof(*copy.entries));
		ASSERT(copy.entries != NULL);
		memcpy(copy.entries, res.entries, res.count * sizeof(*copy.entries));
		cookie = res.count > 0 ? res.entries[res.count - 1].cookie : cookie;
		nfsc_free(NFSC_READDIR, &res);
		h = hash_entries(s, c, dir, &copy, h);
		mem_free(copy.entries);
		res.eof = copy.eof;
	}
	return h;
}

static uint64_t
hash_tree(struct sim *s, struct nfsc *c, const struct rig_fh *fh, uint64_t h)
{
	fattr3 a;
	uint32_t st = rig_getattr(c, fh, &a);
	if (st != NFS3_OK) {
		sim_wrong(s, "GETATTR for a snapshot answered %u", st);
		return 0;
	}
	h = mix_attr(h, &a);
	return a.type == NF3REG   ? hash_file(s, c, fh, a.size, h)
	       : a.type == NF3DIR ? hash_dir(s, c, fh, h)
				  : h;
}

/* ---- those that are known ---- */

static uint32_t
enter(struct sim *s, struct nfsc *c, const char *snap, struct rig_fh *out)
{
	struct rig_fh dir;
	uint32_t st = rig_lookup(c, &s->m.root->fh, ".snapshot", &dir);
	return st == NFS3_OK ? rig_lookup(c, &dir, snap, out) : st;
}

static void
forget(struct sim *s, uint32_t at)
{
	s->snaps[at] = s->snaps[--s->snap_count];
}

static void
check_all(struct sim *s, struct nfsc *c)
{
	for (uint32_t i = s->snap_count; i-- > 0 && !sim_bad(s);) {
		struct sim_snap *snap = &s->snaps[i];
		struct rig_fh top;
		uint32_t st = enter(s, c, snap->name, &top);
		if (st == NFS3ERR_NOENT && (!snap->sure || s->plan.rewind > 0)) {
			forget(s, i);
		} else if (st != NFS3_OK) {
			sim_lost(s, "snapshot %s: LOOKUP answered %u", snap->name, st);
		} else {
			uint64_t h = hash_tree(s, c, &top, 1);
			if (snap->hash != 0 && h != snap->hash && !sim_bad(s)) {
				sim_wrong(s, "snapshot %s isn't what it was", snap->name);
			}
			snap->hash = h;
			snap->sure = true;
			s->stats.snapshots_read++;
		}
	}
}

/* NULL: there are enough, or it can't be taken. */
static struct sim_snap *
take(struct sim *s, struct nfsc *c)
{
	char full[64];
	const char *name = full;
	uint32_t bad;
	struct rig_fh top;
	if (s->snap_count == SIM_SNAPS_MAX) {
		return NULL;
	}
	struct sim_snap *snap = &s->snaps[s->snap_count];
	*snap = (struct sim_snap){.sure = false};
	snprintf(snap->name, sizeof(snap->name), "s%u", s->snap_next++);
	snprintf(full, sizeof(full), "tank@%s", snap->name);
	s->snap_count++;
	int err = fs_snap_create(s->fp, &name, 1, &bad);
	if (err != 0) {
		if (err != -ENOSPC) {
			sim_wrong(s, "%s: %s", full, err_str(err));
		}
		s->snap_count--;
		return NULL;
	}
	snap->sure = true;
	if (enter(s, c, snap->name, &top) != NFS3_OK) {
		sim_wrong(s, "%s was taken but can't be found", full);
		return NULL;
	}
	snap->hash = hash_tree(s, c, &top, 1);
	s->stats.snapshots++;
	return snap;
}

static void
destroy(struct sim *s, uint32_t at)
{
	char full[64];
	const char *name = full;
	uint32_t bad;
	snprintf(full, sizeof(full), "tank@%s", s->snaps[at].name);
	s->snaps[at].sure = false;
	int err = fs_snap_destroy(s->fp, &name, 1, &bad);
	if (err != 0) {
		sim_wrong(s, "destroying %s: %s", full, err_str(err));
		return;
	}
	forget(s, at);
}

/* ---- going back ---- */

/* Back to the newest one. */
static void
go_back(struct sim *s)
{
	char full[64];
	snprintf(full, sizeof(full), "tank@%s", s->spoiled);
	int err = fs_ds_rollback(s->fp, full, NULL);
	if (err == 0) {
		err = nfsd_refresh(s->nfsd);
	}
	if (err != 0) {
		sim_wrong(s, "rolling back to %s: %s", full, err_str(err));
		return;
	}
	s->spoiled[0] = '\0';
	s->has_verf = false; /* another one from now on */
	s->went_back = true;
	model_forget_replies(&s->m);
	s->stats.rollbacks++;
}

static void
spoil_one(struct sim *s, struct nfsc *c, struct m_node *n)
{
	char name[24];
	uint8_t junk[700];
	m_pattern(m_rand(&s->rng), 0, junk, sizeof(junk));
	if (n->type == NF3REG) {
		(void)rig_write(c, &n->fh, m_below(&s->rng, 9000), junk, sizeof(junk),
		    m_chance(&s->rng, 50) ? UNSTABLE : FILE_SYNC, NULL);
		(void)rig_set_mode(c, &n->fh, 0111);
	} else if (n->type == NF3DIR) {
		struct rig_fh f;
		snprintf(name, sizeof(name), "spoil%u", m_below(&s->rng, 5));
		if (rig_create(c, &n->fh, name, UNCHECKED, 0600, &f) == NFS3_OK) {
			(void)rig_write(c, &f, 0, junk, sizeof(junk), UNSTABLE, NULL);
		}
		list_for_each(it, &n->names)
		{
			const struct m_name *have = list_entry(it, struct m_name, link);
			if (have->node != NULL && m_chance(&s->rng, 30)) {
				(void)rig_remove(c, &n->fh, have->text);
			} else if (have->node != NULL && m_chance(&s->rng, 30)) {
				(void)rig_rename(c, &n->fh, have->text, &s->m.root->fh, name);
			}
		}
	}
}

static void
spoil_and_go_back(struct sim *s, struct nfsc *c)
{
	uint64_t before = hash_tree(s, c, &s->m.root->fh, 1);
	struct sim_snap *snap = take(s, c);
	if (snap == NULL || sim_bad(s)) {
		return;
	}
	if (snap->hash != before) {
		sim_wrong(s, "snapshot %s isn't what the filesystem is", snap->name);
		return;
	}
	/* so that no root without the snapshot is ever taken up */
	for (unsigned i = 0; i < 3; i++) {
		if (pool_sync(s->pool) != 0) {
			sim_wrong(s, "pool_sync failed");
			return;
		}
	}
	snprintf(s->spoiled, sizeof(s->spoiled), "%s", snap->name);
	list_for_each(it, &s->m.nodes)
	{
		if (m_chance(&s->rng, 40)) {
			spoil_one(s, c, list_entry(it, struct m_node, link));
		}
	}
	go_back(s);
	if (!sim_bad(s) && hash_tree(s, c, &s->m.root->fh, 1) != before) {
		sim_wrong(s, "after going back to %s the filesystem is another", snap->name);
	}
}

/* ---- when ---- */

void
sim_snaps_imported(struct sim *s)
{
	if (s->spoiled[0] != '\0' && !sim_bad(s)) {
		go_back(s);
	}
}

void
sim_snaps_quiet(struct sim *s, struct nfsc *c)
{
	if (!snaps_wanted(s)) {
		return;
	}
	check_all(s, c);
	if (!sim_bad(s) && s->snap_count > 0 && m_chance(&s->rng, 40)) {
		destroy(s, m_below(&s->rng, s->snap_count));
	}
	if (!sim_bad(s) && m_chance(&s->rng, 60)) {
		spoil_and_go_back(s, c);
	}
	if (!sim_bad(s) && s->snap_count == SIM_SNAPS_MAX) {
		destroy(s, m_below(&s->rng, s->snap_count));
	}
}

static void
snaps_fiber(void *arg)
{
	struct sim *s = arg;
	struct nfsc c;
	sim_client_init(s, &c, SIM_CLIENTS_MAX);
	if (sim_client_connect(s, &c) != 0) {
		sim_wrong(s, "no connection for reading snapshots");
	}
	while (!s->stopping && !sim_bad(s)) {
		fiber_sleep((20 + rt_random_u64() % 300) * NSEC_PER_MSEC);
		if (!s->stopping && s->snap_count > 1 && rt_random_u64() % 2 == 0) {
			destroy(s, (uint32_t)(rt_random_u64() % s->snap_count));
		} else if (!s->stopping) {
			(void)take(s, &c);
		}
	}
	nfsc_disconnect(&c);
	wg_done(&s->fibers);
}

void
sim_snaps_start(struct sim *s)
{
	if (snaps_wanted(s)) {
		wg_add(&s->fibers, 1);
		fiber_spawn_wait(0, FIBER_ADMIN, "snapshots", snaps_fiber, s);
	}
}
