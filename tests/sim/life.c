/*
 * life.c - from power on to power off: create or import, replay, check, serve a load, and then the
 * power is cut (somewhere, possibly before all that is over) or the pool is exported.
 */
#include <stdlib.h>
#include "tests/sim/load.h"

#define HOST_ID 4711u
#define CHECK_PERCENT 50u
#define SETTLE_NS_MAX (120 * NSEC_PER_SEC)

static void
timer_crash(struct rt_timer *t)
{
	(void)t;
	rt_sim_crash();
}

/* From here on the power may go. */
static void
arm_end(struct sim *s)
{
	memset(&s->timer, 0, sizeof(s->timer));
	switch (s->plan.end) {
	case SIM_END_WRITES:
		kb_sim_crash_after_writes(s->plan.end_writes);
		break;
	case SIM_END_TIME:
		rt_timer_arm(&s->timer, rt_now_ns() + s->plan.end_ns, timer_crash);
		break;
	case SIM_END_EXPORT:
		break;
	}
}

static bool
open_drives(struct sim *s, struct kb_drive *drives[SIM_MEDIA_MAX])
{
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->plan.proof && s->machine.missing[i]) {
			drives[i] = NULL;
			continue;
		}
		int err = kb_sim_open(s->machine.media[i], &drives[i]);
		drives[i] = err == 0 ? drives[i] : NULL;
		if (err != 0 && !s->machine.gone[i]) {
			sim_wrong(s, "drive %u doesn't open: %s", i, err_str(err));
			return false;
		}
	}
	return true;
}

static int
create_pool(struct sim *s, struct kb_drive **drives)
{
	const struct sim_machine *mc = &s->machine;
	struct pool_set_spec sets[4];
	char why[256] = "";
	for (uint32_t i = 0; i < mc->sets; i++) {
		sets[i] = (struct pool_set_spec){.kind = mc->kind,
		    .parity = mc->parity,
		    .width = mc->width,
		    .drives = drives + i * mc->width};
	}
	struct pool_create_spec spec = {.name = "tank",
	    .sets = sets,
	    .set_count = mc->sets,
	    .logs = drives + mc->sets * mc->width,
	    .log_count = mc->logs,
	    .log_bytes = mc->log_bytes,
	    .host_name = "sim",
	    .host_id = HOST_ID};
	int err = pool_create(&spec, &s->pool, why, sizeof(why));
	if (err != 0) {
		sim_wrong(s, "pool_create: %s: %s", err_str(err), why);
	}
	for (uint32_t i = 0; i < mc->extra; i++) {
		kb_close(drives[mc->media_count - 1 - i]);
	}
	return err;
}

/* What the pool didn't take is somebody else's business: an operator's. */
static void
close_unused(struct kb_drive **there, const bool *used, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!used[i]) {
			kb_close(there[i]);
		}
	}
}

static int
import_pool(struct sim *s, struct kb_drive **drives)
{
	bool used[SIM_MEDIA_MAX];
	struct pool_label_info label;
	struct pool_import_result res = {.drive_used = used};
	struct kb_drive *there[SIM_MEDIA_MAX];
	uint32_t count = 0, missing = 0;
	int err = -ENOENT;
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		missing += s->ill[i].lied && drives[i] != NULL; /* it may have lost its labels */
		if (drives[i] == NULL) {
			missing++;
			continue;
		}
		there[count++] = drives[i];
		err = err != 0 || label.role != DRIVE_ROLE_DATA
			  ? pool_label_probe(drives[i], &label)
			  : 0;
	}
	if (err != 0) {
		sim_wrong(s, "no drive has a label: %s", err_str(err));
		return err;
	}
	struct pool_import_spec spec = {.pool_guid = label.pool_guid,
	    .drives = there,
	    .drive_count = count,
	    .rewind_txgs = s->plan.rewind,
	    .readonly = s->plan.proof,
	    .host_name = "sim",
	    .host_id = HOST_ID};
	err = pool_import(&spec, &s->pool, &res);
	if (err != 0) {
		sim_wrong(
		    s, "pool_import (rewind %u): %s: %s", s->plan.rewind, err_str(err), res.why);
		return err;
	}
	close_unused(there, used, count);
	if (res.missing_drives > missing) {
		sim_wrong(s, "import misses %u drives: %s", res.missing_drives, res.why);
	}
	sim_say(s, "imported txg %llu, log pending %d, roots skipped %u",
	    (unsigned long long)res.txg, res.log_pending, res.roots_skipped);
	return 0;
}

static void
publish(struct sim *s)
{
	struct nfsd_rule rule = {.squash = NFSD_NO_ROOT_SQUASH};
	struct nfsd_export *e = mem_zalloc(sizeof(*e));
	ASSERT(e != NULL);
	e->share_id = 1;
	snprintf(e->path, sizeof(e->path), "/tank");
	snprintf(e->dataset, sizeof(e->dataset), "tank");
	e->rules = &rule;
	e->rule_count = 1;
	e->insecure = true;
	int err = nfsd_publish(s->nfsd, e, 1);
	mem_free(e);
	if (err != 0) {
		sim_wrong(s, "publishing: %s", err_str(err));
	}
}

static void
set_properties(struct sim *s)
{
	const char *const props[][2] = {{"sync", s->machine.sync},
	    {"compression", s->machine.compression}, {"recordsize", s->machine.recordsize}};
	char why[256] = "";
	for (size_t i = 0; i < ARRAY_LEN(props); i++) {
		int err = fs_prop_set(s->fp, "tank", props[i][0], props[i][1], why, sizeof(why));
		if (err != 0) {
			sim_wrong(s, "%s=%s: %s: %s", props[i][0], props[i][1], err_str(err), why);
		}
	}
	if (s->machine.limit != NULL) {
		int err = fs_prop_set(
		    s->fp, "tank", s->machine.limit, s->machine.limit_size, why, sizeof(why));
		if (err != 0) {
			sim_wrong(s, "%s=%s: %s: %s", s->machine.limit, s->machine.limit_size,
			    err_str(err), why);
		}
	}
}

/* Two of three pools tell their drives, which answer with junk, what is free. (By the seed alone.) */
static void
trim(struct sim *s)
{
	if (s->seed % 3 != 0) {
		pool_set_autotrim(s->pool, true, 0);
	}
	if (s->seed % 3 == 1) {
		/* one may be running still, or the drives be gone */
		(void)!pool_trim(s->pool, POOL_TRIM_START, NULL, 0);
	}
}

static bool
start_service(struct sim *s)
{
	struct nfsd_config cfg = {.host = "127.0.0.1", .nfs_port = 2049, .mount_port = 20048};
	uint16_t portmap;
	int err = nfsd_start(&cfg, &s->nfsd);
	if (err == 0) {
		err = nfsd_add_pool(s->nfsd, s->pool, &s->fp);
	}
	if (err != 0) {
		sim_wrong(s, "starting the service (replay included): %s", err_str(err));
		return false;
	}
	publish(s);
	trim(s);
	nfsd_ports(s->nfsd, &s->nfs_port, &s->mount_port, &portmap);
	return true;
}

/* The first life: what MNT gives is the model's root from now on. In later ones it must be the
 * same. */
static void
mount_root(struct sim *s)
{
	struct nfsc c;
	nfs_fh3 fh;
	uint8_t bytes[64];
	fattr3 a;
	struct m_node *root = s->m.root;
	sim_client_init(s, &c, 0);
	c.port = s->mount_port;
	int err = nfsc_mnt(&c, 3, "/tank", &fh, bytes);
	nfsc_disconnect(&c);
	if (err != 0) {
		sim_wrong(s, "MNT /tank: %d", err);
		return;
	}
	if (root->fh.len == 0) {
		struct rig_fh first = {.len = fh.data.data_len};
		memcpy(first.bytes, bytes, first.len);
		sim_client_init(s, &c, 0);
		if (rig_getattr(&c, &first, &a) == NFS3_OK) {
			root->fh = first; /* now both are known: the power may go at any time */
			root->fileid = a.fileid;
		}
		nfsc_disconnect(&c);
	} else if (root->fh.len != fh.data.data_len ||
		   memcmp(root->fh.bytes, bytes, fh.data.data_len) != 0) {
		sim_wrong(s, "the root's handle has changed");
	}
}

/* Where drives are ill, blocks that had to be repaired are no fault of the pool. */
static bool
is_repair(const struct sim *s, const char *what)
{
	return s->faults && !s->whole && strstr(what, "wrong on columns") != NULL;
}

static void
check_problem(void *sim, const char *what)
{
	struct sim *s = sim;
	if (is_repair(s, what)) {
		s->stats.repaired++;
	} else {
		sim_wrong(s, "check: %s", what);
	}
}

static void
check_structure(struct sim *s)
{
	uint64_t count = 0, repaired = s->stats.repaired;
	int err = pool_check(s->pool, check_problem, s, &count);
	count -= s->stats.repaired - repaired;
	if (err == 0 && count == 0 && s->stats.repaired > repaired && !s->settled) {
		/* nobody is ill yet in this life: now it must be whole */
		repaired = s->stats.repaired;
		err = pool_check(s->pool, check_problem, s, &count);
	}
	if (err != 0 || count > 0) {
		sim_wrong(
		    s, "pool_check: %s, %llu problems", err_str(err), (unsigned long long)count);
	}
	err = fs_check(s->fp, check_problem, s, &count);
	if (err != 0 || count > 0) {
		sim_wrong(
		    s, "fs_check: %s, %llu problems", err_str(err), (unsigned long long)count);
	}
}

static void
check_after_import(struct sim *s)
{
	struct nfsc c;
	sim_client_init(s, &c, SIM_CLIENTS_MAX);
	s->quiet = true;
	sim_snaps_imported(s);
	sim_resolve(s, &c);
	if (!sim_bad(s)) {
		sim_verify(s, &c);
	}
	if (!sim_bad(s)) {
		sim_snaps_quiet(s, &c);
		if (!sim_bad(s)) {
			sim_verify(s, &c);
		}
	}
	if (!sim_bad(s) && sim_resend(s) && !sim_bad(s)) {
		sim_verify(s, &c);
	}
	nfsc_disconnect(&c);
	/* a check repairs: where drives were ill the last scrub shall have something to do */
	bool wanted = s->plan.last ? !s->faults : m_chance(&s->rng, CHECK_PERCENT);
	if (!sim_bad(s) && wanted) {
		check_structure(s);
	}
	s->settled = true;
	s->quiet = false;
}

static void
check_before_export(struct sim *s)
{
	struct nfsc c;
	sim_client_init(s, &c, SIM_CLIENTS_MAX);
	s->quiet = true;
	sim_verify(s, &c);
	nfsc_disconnect(&c);
	if (!sim_bad(s)) {
		check_structure(s);
	}
}

static void
serve(struct sim *s)
{
	mutex_init(&s->connecting, RANK_ADMIN);
	wg_init(&s->fibers);
	mount_root(s);
	if (!sim_bad(s) && !s->plan.proof) {
		check_after_import(s);
	}
	if (!sim_bad(s) && !s->plan.last && !s->plan.proof) {
		if (s->machine.fill && !s->machine.filled) {
			sim_fill(s);
			s->machine.filled = true;
		}
		sim_load_start(s);
		sim_snaps_start(s);
		if (s->faults) {
			sim_faults_arm(s);
		}
		sim_operator_start(s);
		if (s->plan.end == SIM_END_EXPORT) {
			fiber_sleep(s->plan.end_ns);
		} else {
			uint64_t until = rt_now_ns() + SETTLE_NS_MAX;
			while (rt_now_ns() < until && !sim_bad(s)) {
				fiber_sleep(100 * NSEC_PER_MSEC);
			}
			if (!sim_bad(s)) {
				rt_sim_crash(); /* so few writes: cut now */
			}
		}
		s->stopping = true;
		wg_wait(&s->fibers);
	}
	if (!sim_bad(s) && s->plan.last) {
		sim_heal(s);
		s->whole = true;
	}
	if (!sim_bad(s)) {
		check_before_export(s);
	}
}

void
sim_life(void *arg)
{
	struct sim *s = arg;
	struct kb_drive *drives[SIM_MEDIA_MAX];
	bool fresh = !s->machine.created;
	if (!open_drives(s, drives)) {
		return;
	}
	if (!fresh) {
		arm_end(s);
	}
	if ((fresh ? create_pool(s, drives) : import_pool(s, drives)) != 0 || !start_service(s)) {
		rt_sim_crash();
	}
	if (fresh) {
		set_properties(s);
		s->machine.created = true;
		arm_end(s);
	}
	serve(s);
	if (sim_bad(s)) {
		rt_sim_crash(); /* what it found is told; the rest isn't of interest */
	}
	nfsd_stop(s->nfsd, NSEC_PER_SEC);
	int err = pool_export(s->pool);
	if (err != 0) {
		sim_wrong(s, "pool_export: %s", err_str(err));
	}
	s->clean = err == 0;
}
