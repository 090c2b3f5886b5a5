/*
 * engine.c - the unprivileged engine: runtime, NFS service, pools, command socket; started by the
 * parent, stopped by SIGTERM. A clean stop: no new connections, requests drained for 5 s, every
 * pool synced, marked clean and closed.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <xxhash.h>
#include "admin/request.h"
#include "admin/sandbox.h"
#include "admin/vfio.h"

#define DRAIN_NS (5 * NSEC_PER_SEC)
#define MEMORY_MIN (64 * MIB)
#define ARENA_STEP (2 * MIB)
#define FILES_WANTED 65536u
#define FILES_RESERVED 512u /* for drives, the command socket and the rest */
#define CONNS_MAX 4096u
#define CONNS_MIN 64u

struct engine {
	struct adm adm;
	struct rt_fdwatch signals;
	int status;
};

void
engine_stop(struct adm *a)
{
	mutex_lock(&a->stop_lock);
	a->stopping = true;
	cond_broadcast(&a->stop_changed);
	mutex_unlock(&a->stop_lock);
}

static void
engine_stop_fiber(void *arg)
{
	engine_stop(arg);
}

static void
engine_signal(struct rt_fdwatch *w, uint32_t events)
{
	struct engine *e = container_of(w, struct engine, signals);
	struct signalfd_siginfo info;
	(void)events;
	while (read(w->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (fiber_spawn(0, FIBER_ADMIN, "stop", engine_stop_fiber, &e->adm) != 0) {
			log_error("stop-not-started reason=no-fiber");
		}
	}
}

static int
engine_watch_signals(struct engine *e)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	e->signals = (struct rt_fdwatch){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
	    .events = EPOLLIN,
	    .ready = engine_signal};
	if (e->signals.fd < 0) {
		return -errno;
	}
	return rt_fdwatch_add(&e->signals);
}

/* Who this machine is, for the pools' labels. */
static void
engine_identify(struct adm *a)
{
	char id[64] = "";
	FILE *f = fopen("/etc/machine-id", "re");
	if (f != NULL) {
		if (fgets(id, sizeof(id), f) == NULL) {
			id[0] = '\0';
		}
		fclose(f);
	}
	if (gethostname(a->host_name, sizeof(a->host_name) - 1) != 0 || a->host_name[0] == '\0') {
		snprintf(a->host_name, sizeof(a->host_name), "agate");
	}
	const char *text = id[0] != '\0' ? id : a->host_name;
	a->host_id = XXH3_64bits(text, strlen(text));
}

/* As many connections as there are descriptors for: clients must never use up those of the drives
 * and of the administrator. */
static uint32_t
engine_conn_max(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
		return CONNS_MIN;
	}
	uint64_t have = files.rlim_cur;
	have = have > FILES_RESERVED ? have - FILES_RESERVED : 0;
	return (uint32_t)MIN(MAX(have, (uint64_t)CONNS_MIN), (uint64_t)CONNS_MAX);
}

/* Up to what the system allows; it is no error when that is little. */
static void
engine_want_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_WANTED) {
		files.rlim_cur = MIN(files.rlim_max, (rlim_t)FILES_WANTED);
		if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
			log_warn("files-not-raised reason=%s", err_str(errno));
		}
	}
}

static int
engine_start_nfsd(struct adm *a)
{
	const struct adm_config *c = a->cfg;
	struct nfsd_config cfg = {
	    .host = c->listen[0] != '\0' ? c->listen : NULL,
	    .nfs_port = c->nfs_port,
	    .mount_port = c->mount_port,
	    .portmap_port = c->portmap_port,
	    .portmap = c->portmap,
	    .conn_max = engine_conn_max(),
	    .wait = true,
	};
	return nfsd_start(&cfg, &a->nfsd);
}

static void
engine_close_pools(struct adm *a)
{
	while (a->pool_count > 0) {
		struct adm_pool *ap = &a->pools[--a->pool_count];
		diary_gather(ap);
		diary_store(ap);
		int err = pool_export(ap->pool);
		if (err != 0) {
			log_error("pool-not-clean reason=%s", err_str(err));
		}
		adm_pool_free(ap);
	}
}

static void
engine_wait(struct adm *a)
{
	mutex_lock(&a->stop_lock);
	while (!a->stopping) {
		cond_wait(&a->stop_changed,
		    &a->stop_lock); /* ended by SIGTERM, or by the parent's death (SIGKILL) */
	}
	mutex_unlock(&a->stop_lock);
}

static int
engine_serve(struct engine *e)
{
	struct adm *a = &e->adm;
	int err = engine_watch_signals(e);
	if (err != 0) {
		log_error("signals-failed reason=%s", err_str(err));
		return 1;
	}
	err = engine_start_nfsd(a);
	if (err != 0) {
		log_error("nfs-not-started reason=%s", err_str(err));
		rt_fdwatch_remove(&e->signals);
		return 1;
	}
	if (!a->safe_mode) {
		vfio_start(a);
	}
	if (a->safe_mode) {
		log_error("safe-mode reason=repeated-crashes note=no-pool-imported");
	} else if (a->cfg->import_auto) {
		arrivals_begin(a);
		imports_auto(a, IMPORTS_START);
	}
	nfsd_serve(a->nfsd);
	err = monitor_start(a);
	if (err != 0) {
		log_error("monitor-not-started reason=%s", err_str(err));
	}
	err = server_start(a);
	if (err != 0) {
		log_error("socket-not-served path=%s reason=%s", a->cfg->socket, err_str(err));
	} else {
		parent_ready(a);
		log_notice("serving pools=%u", a->pool_count);
		engine_wait(a);
		server_stop(a);
	}
	monitor_stop(a);
	nfsd_stop(a->nfsd, DRAIN_NS);
	engine_close_pools(a);
	vfio_stop(a);
	inject_free(a);
	rt_fdwatch_remove(&e->signals);
	return err != 0 ? 1 : 0;
}

static void
engine_main(void *arg)
{
	struct engine *e = arg;
	struct adm *a = &e->adm;
	rwlock_init(&a->lock, RANK_ADMIN);
	mutex_init(&a->parent_lock, RANK_LEAF);
	mutex_init(&a->drives_lock, RANK_ADMIN_DRIVES);
	mutex_init(&a->stop_lock, RANK_LEAF);
	mutex_init(&a->inject_lock, RANK_LEAF);
	cond_init(&a->stop_changed);
	wg_init(&a->sessions);
	spin_init(&a->session_guard);
	mutex_init(&a->diff_lock, RANK_LEAF);
	list_init(&a->diffs);
	list_init(&a->session_list);
	a->started_ns = rt_now_ns();
	engine_identify(a);
	e->status = engine_serve(e);
}

static uint64_t
engine_memory(const struct adm_config *cfg)
{
	uint64_t bytes = cfg->memory_bytes;
	if (bytes == 0) {
		bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	}
	return ALIGN_DOWN(MAX(bytes, MEMORY_MIN), ARENA_STEP);
}

int
engine_run(const struct adm_config *cfg, int parent_fd, bool safe_mode)
{
	static struct engine e;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	engine_want_files();
	int err = sandbox_seccomp();
	if (err != 0) {
		log_error("seccomp-failed reason=%s", err_str(err));
		return 1;
	}
	adm_use_mem();
	e.adm.cfg = cfg;
	e.adm.parent_fd = parent_fd;
	e.adm.safe_mode = safe_mode;
	struct rt_options opt = {
	    .reactors = cfg->reactors, .arena_bytes = engine_memory(cfg), .hugepages = true};
	err = rt_run(&opt, engine_main, &e);
	if (err != 0) {
		log_error("runtime-not-started reason=%s", err_str(err));
		return 1;
	}
	if (mem_live_count() != 0) {
		log_warn("heap-left-over allocations=%llu", (unsigned long long)mem_live_count());
	}
	return e.status;
}
