/*
 * snapdir.c - snapshots over NFS: where a handle or a name leads when .snapshot is in the way.
 *
 * /tank/ann/.snapshot/mon/file: .snapshot is found by LOOKUP in every directory of a dataset
 * (its host); its handle is that of the host with another type. Behind it each snapshot leads to
 * the host as it was: a handle with the guid of the snapshot, in a file system of its own (fsid).
 * From the top of a snapshot - of the dataset or of the share - ".." leads back to .snapshot, and
 * from there to the host. A snapshot is held while a call runs and never longer, so handles keep
 * nobody from destroying it; they are stale then. All of it is read-only, and under the rules of
 * the share it was reached by.
 */
#include "nfsd/nfs3.h"

void
nfs3_place_put(struct nfs3_place *p)
{
	fs_node_put(p->node);
	if (p->snap != NULL) {
		fs_ds_close(p->snap);
	}
	*p = (struct nfs3_place){0};
}

/* A share of a directory: what isn't below it is no part of the share. In a snapshot the directory
 * must be the same one. -ESTALE when it is outside. */
static int
place_in_share(const struct export *e, const struct nfs3_place *p)
{
	bool below = false;
	if (e->top_object == 0) {
		return 0;
	}
	if (p->snap != NULL) {
		struct fs_node *top;
		int err = fs_node_get(p->snap, e->top_object, e->top_generation, &top);
		if (err != 0) {
			return err;
		}
		fs_node_put(top);
	}
	int err = fs_node_is_below(p->node, e->top_object, &below);
	return err == 0 && !below ? -ESTALE : err;
}

int
nfs3_place_hold(const struct export *e, const struct fh_parts *parts, struct nfs3_place *out)
{
	struct nfs3_place p = {.snapdir = parts->type == FH_SNAPDIR};
	int err = 0;
	if (parts->snapshot != 0) {
		err = fs_snap_open_guid(e->pool->fp, e->dataset_guid, parts->snapshot, &p.snap);
	}
	if (err == 0) {
		err = fs_node_get(
		    p.snap != NULL ? p.snap : e->ds, parts->object, parts->generation, &p.node);
	}
	if (err == 0) {
		err = place_in_share(e, &p);
	}
	if (err != 0) {
		nfs3_place_put(&p);
		return err == -ENOENT ? -ESTALE : err;
	}
	*out = p;
	return 0;
}

/* Another hold of the same node. */
static int
place_again(const struct nfs3_place *p, bool snapdir, struct nfs3_place *out)
{
	struct fs_node *node;
	int err = fs_node_get(
	    fs_node_ds(p->node), fs_node_object(p->node), fs_node_generation(p->node), &node);
	if (err == 0) {
		*out = (struct nfs3_place){.node = node, .snapdir = snapdir};
	}
	return err;
}

static bool
is_name(const char *name, uint32_t len, const char *want)
{
	return len == strlen(want) && memcmp(name, want, len) == 0;
}

static int
lookup_in_snapdir(const struct nfs3_place *dir, const struct fs_cred *cred, const char *name,
    uint32_t len, struct nfs3_place *out)
{
	int err = fs_snapdir_enter(dir->node, cred);
	if (err != 0) {
		return err;
	}
	if (is_name(name, len, ".") || is_name(name, len, "..")) {
		return place_again(dir, len == 1, out);
	}
	struct nfs3_place p = {0};
	err = fs_snapdir_lookup(dir->node, cred, name, len, &p.snap, &p.node);
	if (err == 0) {
		*out = p;
	}
	return err;
}

/* ".." of a snapshot's top: .snapshot of its host, which is there as long as the share is. */
static int
lookup_up(const struct export *e, const struct nfs3_place *dir, struct nfs3_place *out)
{
	struct nfs3_place p = {.snapdir = true};
	int err =
	    fs_node_get(e->ds, fs_node_object(dir->node), fs_node_generation(dir->node), &p.node);
	if (err == 0) {
		*out = p;
	}
	return err;
}

static bool
is_top(const struct export *e, const struct nfs3_place *dir)
{
	uint64_t object = fs_node_object(dir->node);
	return e->top_object != 0 ? object == e->top_object
				  : dir->snap != NULL && fs_is_root(dir->node);
}

static int
lookup_in_snapshot(const struct export *e, const struct nfs3_place *dir, const struct fs_cred *cred,
    const char *name, uint32_t len, struct nfs3_place *out)
{
	struct nfs3_place p = {0};
	int err = fs_lookup(dir->node, cred, name, len, &p.node);
	if (err != 0) {
		return err;
	}
	if (is_name(name, len, "..") && is_top(e, dir)) {
		fs_node_put(p.node);
		return lookup_up(e, dir, out);
	}
	/* the same snapshot, held once more: it is in service as long as dir holds it */
	err = fs_snap_open_guid(e->pool->fp, e->dataset_guid, fs_ds_snap_guid(dir->snap), &p.snap);
	if (err != 0) {
		fs_node_put(p.node);
		return err == -ENOENT ? -ESTALE : err;
	}
	*out = p;
	return 0;
}

int
nfs3_place_lookup(const struct export *e, const struct nfs3_place *dir, const struct fs_cred *cred,
    const char *name, uint32_t len, struct nfs3_place *out)
{
	struct nfs3_place p = {0};
	int err;
	if (dir->snapdir) {
		err = lookup_in_snapdir(dir, cred, name, len, &p);
	} else if (dir->snap != NULL) {
		err = lookup_in_snapshot(e, dir, cred, name, len, &p);
	} else if (fs_name_is_snapdir(name, len)) {
		err = fs_snapdir_enter(dir->node, cred);
		if (err == 0) {
			err = place_again(dir, true, &p);
		}
	} else {
		/* ".." of the share's top is the top itself: "." */
		bool up = is_name(name, len, "..") && is_top(e, dir);
		err = fs_lookup(dir->node, cred, name, up ? 1 : len, &p.node);
	}
	if (err == 0 && dir->snapdir && p.snap != NULL) {
		err = place_in_share(e, &p);
		err = err == -ESTALE ? -ENOENT : err;
		if (err != 0) {
			nfs3_place_put(&p);
		}
	}
	if (err == 0) {
		*out = p;
	}
	return err;
}

void
nfs3_place_attr(const struct nfs3_place *p, struct fs_attr *out)
{
	if (p->snapdir) {
		fs_snapdir_getattr(p->node, out);
	} else {
		fs_getattr(p->node, out);
	}
}

void
nfs3_put_place_fh(struct xdr_out *x, const struct export *e, const struct nfs3_place *p)
{
	struct fh_parts parts = {.type = p->snapdir ? FH_SNAPDIR : FH_NODE,
	    .snapshot = p->snap != NULL ? fs_ds_snap_guid(p->snap) : 0,
	    .object = fs_node_object(p->node),
	    .generation = fs_node_generation(p->node)};
	uint8_t fh[FH_BYTES];
	fh_encode_parts(e, &parts, fh);
	xdr_put_opaque(x, fh, sizeof(fh));
}

void
nfs3_put_post_op_place(struct xdr_out *x, const struct nfs3_place *p)
{
	struct fs_attr a;
	nfs3_place_attr(p, &a);
	nfs3_put_post_op(x, &a);
}
