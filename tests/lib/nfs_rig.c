/* nfs_rig.c - the service on a fake pool, and its client. */
#include <stdio.h>
#include "tests/lib/nfs_rig.h"
#include "tests/lib/fakepool.h"

#define RIG_REACTORS 3

void
nfs_rig_export(struct nfsd_export *e, uint32_t share_id, const char *path, const char *dataset,
    struct nfsd_rule *rule)
{
	*rule = (struct nfsd_rule){.squash = NFSD_NO_ROOT_SQUASH};
	memset(e, 0, sizeof(*e));
	e->share_id = share_id;
	e->rules = rule;
	e->rule_count = 1;
	e->anon_uid = e->anon_gid = 65534;
	e->insecure = true;
	snprintf(e->path, sizeof(e->path), "%s", path);
	snprintf(e->dataset, sizeof(e->dataset), "%s", dataset);
}

static void
rig_start(struct nfs_rig *r, uint32_t conn_max)
{
	struct nfsd_config cfg = {.host = "127.0.0.1",
	    .nfs_port = 2049,
	    .mount_port = 20048,
	    .portmap_port = 111,
	    .portmap = true,
	    .conn_max = conn_max};
	static struct nfsd_rule rule;
	static struct nfsd_export e;
	nfs_rig_export(&e, 1, "/tank", "tank", &rule);
	ASSERT(nfsd_start(&cfg, &r->nfsd) == 0);
	ASSERT(nfsd_add_pool(r->nfsd, r->pool, &r->fp) == 0);
	ASSERT(nfsd_publish(r->nfsd, &e, 1) == 0);
	nfsd_ports(r->nfsd, &r->nfs_port, &r->mount_port, &r->portmap_port);
}

void
nfs_rig_restart_with(struct nfs_rig *r, uint32_t conn_max)
{
	nfsc_disconnect(&r->c);
	nfsd_stop(r->nfsd, NSEC_PER_SEC);
	rig_start(r, conn_max);
}

void
nfs_rig_restart(struct nfs_rig *r)
{
	nfs_rig_restart_with(r, 0);
}

struct nfsc
nfs_rig_client(const struct nfs_rig *r, uint32_t uid, uint32_t gid)
{
	struct nfsc c;
	nfsc_init(&c, "127.0.0.1", r->nfs_port);
	c.uid = uid;
	c.gid = gid;
	return c;
}

struct rig_fh
rig_root(const struct nfs_rig *r)
{
	struct rig_fh fh = {.len = r->root.data.data_len};
	memcpy(fh.bytes, r->root_bytes, fh.len);
	return fh;
}

struct rig_main {
	void (*body)(struct nfs_rig *r);
};

static void
rig_main(void *arg)
{
	struct rig_main *m = arg;
	struct nfs_rig r = {.pool = fakepool_create("tank")};
	struct nfsc mount;
	rig_start(&r, 0);
	nfsc_init(&mount, "127.0.0.1", r.mount_port);
	ASSERT(nfsc_mnt(&mount, 3, "/tank", &r.root, r.root_bytes) == 0);
	nfsc_disconnect(&mount);
	r.c = nfs_rig_client(&r, 0, 0);
	m->body(&r);
	nfsc_disconnect(&r.c);
	nfsd_stop(r.nfsd, NSEC_PER_SEC);
	fakepool_free(r.pool);
}

void
nfs_rig_run(uint64_t seed, void (*body)(struct nfs_rig *r))
{
	struct rig_main m = {body};
	struct rt_options opt = unit_rt(true, RIG_REACTORS, seed);
	opt.arena_bytes = (size_t)64 << 20;
	uint64_t live = mem_live_count();
	CU_ASSERT(rt_run(&opt, rig_main, &m) == 0);
	CU_ASSERT(mem_live_count() == live);
}
