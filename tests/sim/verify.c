/*
 * verify.c - the appliance against the model: every name, every byte, every attribute that the
 * model knows. Of what wasn't promised to survive, less may be there, but only what once was.
 */
#include <stdlib.h>
#include "tests/sim/sim.h"

/* ---- one object ---- */

static bool
same_time(nfstime3 a, nfstime3 b)
{
	return a.seconds == b.seconds && a.nseconds == b.nseconds;
}

/* What differs between the state and what is there; NULL: nothing. */
static const char *
state_differs(
    const struct m_node *n, const struct m_state *st, const fattr3 *a, const uint8_t *bytes)
{
	if (a->mode != st->mode) {
		return "mode";
	}
	if (a->uid != st->uid || a->gid != st->gid) {
		return "owner";
	}
	if (n->type == NF3REG && a->size != st->bytes.size) {
		return "size";
	}
	if (n->type == NF3REG && a->size > 0 && memcmp(bytes, st->bytes.data, a->size) != 0) {
		return "contents";
	}
	if (st->times_known && n->type != NF3DIR && !same_time(a->mtime, st->mtime)) {
		return "mtime";
	}
	if (st->times_known && n->type != NF3DIR && !same_time(a->ctime, st->ctime)) {
		return "ctime";
	}
	return NULL;
}

static void
tell_contents(struct sim *s, const struct m_node *n, const fattr3 *a, const uint8_t *bytes)
{
	const struct m_bytes *want = &n->now.bytes;
	uint64_t at = 0, end = MIN(a->size, want->size);
	while (at < end && bytes[at] == want->data[at]) {
		at++;
	}
	uint64_t last = end;
	while (last > at && bytes[last - 1] == want->data[last - 1]) {
		last--;
	}
	uint64_t zeros = 0;
	for (uint64_t i = at; i < last; i++) {
		zeros += bytes[i] == 0;
	}
	sim_say(s,
	    "file %u: size %llu (base %llu now %llu), differs from %llu to %llu, %llu zeros, "
	    "%u pending",
	    n->id, (unsigned long long)a->size, (unsigned long long)n->base.bytes.size,
	    (unsigned long long)want->size, (unsigned long long)at, (unsigned long long)last,
	    (unsigned long long)zeros, n->pending_count);
}

/* The most changes of n that the appliance can have kept; -1: it is in no state n ever had. */
static int
states_match(const struct m_node *n, const fattr3 *a, const uint8_t *bytes, const char **out_why)
{
	struct m_state st = {0};
	int best = -1;
	*out_why = state_differs(n, &n->now, a, bytes);
	if (*out_why == NULL) {
		return (int)n->pending_count;
	}
	m_state_copy(&st, &n->base);
	for (uint32_t i = 0; i <= n->pending_count; i++) {
		if (i > 0) {
			m_change_apply(&st, &n->pending[i - 1]);
		}
		if (state_differs(n, &st, a, bytes) == NULL) {
			best = (int)i;
		}
	}
	free(st.bytes.data);
	return best;
}

static bool
read_all_of(struct sim *s, struct nfsc *c, const struct m_node *n, uint64_t size, uint8_t *out,
    struct m_rand *rng)
{
	uint64_t at = 0;
	bool eof = false;
	while (at < size) {
		uint32_t want = 1 + m_below(rng, m_chance(rng, 50) ? 1u << 20 : 20000);
		uint32_t cap = (uint32_t)MIN((uint64_t)want, size - at), len = 0;
		uint32_t st = rig_read(c, &n->fh, at, out + at, cap, &len, &eof);
		if (st != NFS3_OK || len != cap || eof != (at + len == size)) {
			sim_wrong(s, "READ of file %u at %llu for %u answered %u, %u bytes, eof %d",
			    n->id, (unsigned long long)at, cap, st, len, eof);
			return false;
		}
		at += len;
	}
	return true;
}

static void
verify_target(struct sim *s, struct nfsc *c, const struct m_node *n)
{
	READLINK3args args = {rig_fh3(&n->fh)};
	READLINK3res res;
	if (nfsc_call(c, NFSC_READLINK, &args, &res) != 0) {
		sim_wrong(s, "READLINK of %u: no reply", n->id);
		return;
	}
	const nfspath3 *p = &res.READLINK3res_u.resok.data;
	if (res.status != NFS3_OK || p->nfspath3_len != strlen(n->target) ||
	    memcmp(p->nfspath3_val, n->target, p->nfspath3_len) != 0) {
		sim_wrong(s, "symbolic link %u points elsewhere (status %d)", n->id, res.status);
	}
	nfsc_free(NFSC_READLINK, &res);
}

static void
verify_kind(struct sim *s, const struct m_node *n, const fattr3 *a)
{
	uint32_t nlink = n->type == NF3DIR ? 2 + n->subdirs : n->nlink;
	if (a->type != n->type || a->fileid != n->fileid) {
		sim_wrong(s, "object %u is another: type %d, fileid %llx", n->id, a->type,
		    (unsigned long long)a->fileid);
	}
	/* of a directory with others at work in it the count isn't known */
	if (a->nlink != nlink && (n->type != NF3DIR || s->quiet)) {
		sim_wrong(s, "object %u has %u links, not %u", n->id, a->nlink, nlink);
	}
}

static void
settle_on(struct sim *s, struct m_node *n, int kept, const char *why, const fattr3 *a,
    const uint8_t *bytes)
{
	if (kept == (int)n->pending_count) {
		return;
	}
	if (kept >= 0 && !s->settled) {
		s->stats.unstable_lost += n->pending_count - (uint32_t)kept;
		model_fall_back(n, (uint32_t)kept);
		return;
	}
	if (n->type == NF3REG) {
		tell_contents(s, n, a, bytes);
	}
	if (!s->settled && strcmp(why, "size") == 0 && a->size < n->base.bytes.size) {
		sim_lost(s, "object %u: %s", n->id, why);
	} else {
		sim_wrong(
		    s, "object %u: %s (kept %d of %u changes)", n->id, why, kept, n->pending_count);
	}
}

void
sim_verify_node(struct sim *s, struct nfsc *c, struct m_node *n, struct m_rand *rng)
{
	fattr3 a;
	uint32_t st = rig_getattr(c, &n->fh, &a);
	s->stats.verified_nodes++;
	if (st != NFS3_OK) {
		sim_lost(s, "object %u (type %d): GETATTR answered %u", n->id, n->type, st);
		return;
	}
	verify_kind(s, n, &a);
	if (n->type == NF3LNK) {
		verify_target(s, c, n);
	}
	uint8_t *bytes = NULL;
	if (n->type == NF3REG) {
		if (a.size > 2 * M_FILE_BYTES_MAX) {
			sim_wrong(s, "file %u has %llu bytes", n->id, (unsigned long long)a.size);
			return;
		}
		bytes = mem_zalloc(a.size + 1);
		ASSERT(bytes != NULL);
		if (!read_all_of(s, c, n, a.size, bytes, rng)) {
			mem_free(bytes);
			return;
		}
	}
	const char *why;
	int kept = states_match(n, &a, bytes, &why);
	settle_on(s, n, kept, why, &a, bytes);
	mem_free(bytes);
}

/* ---- one directory ---- */

struct listing {
	struct m_name *name;
	uint64_t touched; /* when the listing began; 0: not known then */
	uint32_t seen;
	uint64_t fileid;
};

/* What the model knows of the directory before the listing. */
static struct listing *
listing_begin(struct m_node *dir, uint32_t *out_count)
{
	uint32_t count = 0;
	list_for_each(it, &dir->names)
	{
		count++;
	}
	struct listing *l = mem_zalloc(MAX(count, 1u) * sizeof(*l));
	ASSERT(l != NULL);
	count = 0;
	list_for_each(it, &dir->names)
	{
		struct m_name *name = list_entry(it, struct m_name, link);
		bool quiet = name->holder == NULL;
		l[count++] = (struct listing){name, quiet ? name->touched : UINT64_MAX, 0, 0};
	}
	*out_count = count;
	return l;
}

static void
listing_take(struct sim *s, struct m_node *dir, struct listing *l, uint32_t count,
    const struct nfsc_dirent *e)
{
	if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0 ||
	    strcmp(e->name, SIM_FILLER) == 0) {
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(l[i].name->text, e->name) == 0) {
			l[i].seen++;
			l[i].fileid = e->fileid;
			return;
		}
	}
	/* a name that came up meanwhile is in the model, but not in l */
	if (model_find(dir, e->name) == NULL) {
		sim_wrong(s, "directory %u lists '%s', which nobody made", dir->id, e->name);
	}
}

static void
listing_end(struct sim *s, const struct m_node *dir, const struct listing *l, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct m_name *name = l[i].name;
		if (name->touched != l[i].touched) {
			continue; /* somebody was at it */
		}
		uint32_t want = name->node != NULL;
		if (l[i].seen < want) {
			sim_lost(s, "directory %u doesn't list '%s'", dir->id, name->text);
		} else if (l[i].seen > want) {
			sim_wrong(s, "directory %u lists '%s' %u times instead of %u", dir->id,
			    name->text, l[i].seen, want);
		} else if (want > 0 && l[i].fileid != name->node->fileid) {
			sim_wrong(s, "directory %u: '%s' is object %llx, not %llx", dir->id,
			    name->text, (unsigned long long)l[i].fileid,
			    (unsigned long long)name->node->fileid);
		}
	}
}

static int
list_page(struct nfsc *c, const struct m_node *dir, uint64_t cookie, uint32_t bytes, bool plus,
    struct nfsc_dirres *res)
{
	if (plus) {
		READDIRPLUS3args args = {.dir = rig_fh3(&dir->fh),
		    .cookie = cookie,
		    .dircount = bytes / 2,
		    .maxcount = bytes};
		return nfsc_call(c, NFSC_READDIRPLUS, &args, res);
	}
	READDIR3args args = {.dir = rig_fh3(&dir->fh), .cookie = cookie, .count = bytes};
	return nfsc_call(c, NFSC_READDIR, &args, res);
}

void
sim_verify_dir(struct sim *s, struct nfsc *c, struct m_node *dir, struct m_rand *rng)
{
	uint32_t count, bytes = 600 + m_below(rng, m_chance(rng, 50) ? 1000 : 40000);
	bool plus = m_chance(rng, 50);
	struct listing *l = listing_begin(dir, &count);
	struct nfsc_dirres res = {.eof = FALSE};
	uint64_t cookie = 0;
	while (!res.eof && !sim_bad(s)) {
		if (list_page(c, dir, cookie, bytes, plus, &res) != 0) {
			sim_wrong(s, "listing directory %u: no reply", dir->id);
			break;
		}
		if (res.status != NFS3_OK || (res.count == 0 && !res.eof)) {
			sim_lost(s, "listing directory %u answered %d, %u entries", dir->id,
			    res.status, res.count);
			res.eof = TRUE;
		}
		for (uint32_t i = 0; i < res.count; i++) {
			listing_take(s, dir, l, count, &res.entries[i]);
			cookie = res.entries[i].cookie;
		}
		bool_t eof = res.eof;
		nfsc_free(plus ? NFSC_READDIRPLUS : NFSC_READDIR, &res);
		res.eof = eof;
	}
	if (!sim_bad(s)) {
		listing_end(s, dir, l, count);
	}
	mem_free(l);
}

/* ---- everything ---- */

void
sim_verify(struct sim *s, struct nfsc *c)
{
	struct m_rand rng = {m_rand(&s->rng)};
	list_for_each(it, &s->m.nodes)
	{
		struct m_node *n = list_entry(it, struct m_node, link);
		sim_verify_node(s, c, n, &rng);
		if (n->type == NF3DIR) {
			sim_verify_dir(s, c, n, &rng);
		}
		if (sim_bad(s)) {
			return;
		}
	}
	list_for_each(it, &s->m.gone)
	{
		const struct m_node *n = list_entry(it, struct m_node, link);
		uint32_t st = rig_getattr(c, &n->fh, NULL);
		if (st != NFS3ERR_STALE) {
			sim_wrong(s, "object %u was removed and answers %u", n->id, st);
			return;
		}
	}
}
