/*
 * parent.c - the privileged parent of the engine.
 *
 * It opens drives when asked, hands the descriptors over and keeps none, so that the engine is the
 * only holder and its death ends all I/O. When the engine dies it is started again, with a growing
 * pause; after five deaths in ten minutes in safe mode, which imports nothing and says so.
 *
 * States: RUNNING (an engine) -> engine ended 0: done; engine died: PAUSE -> RUNNING; SIGTERM or
 * SIGINT: passed on, then done when the engine has ended.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "admin/parent.h"
#include "admin/admin_int.h"
#include "admin/sandbox.h"

#define PAUSE_S_MAX 8

struct parent {
	const struct adm_config *cfg;
	int signals; /* signalfd: SIGCHLD, SIGTERM, SIGINT */
	int sock;    /* to the engine */
	pid_t engine;
	bool stopping, engine_ended;
	int engine_status;
	struct parent_crashes crashes;
};

/* Tells systemd, when it asked to be told (sd_notify protocol: one datagram). */
static void
parent_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	if (path == NULL || strlen(path) >= sizeof(addr.sun_path)) {
		return;
	}
	memcpy(addr.sun_path, path, strlen(path));
	if (addr.sun_path[0] == '@') {
		addr.sun_path[0] = '\0';
	}
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return;
	}
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (sendto(fd, state, strlen(state), 0, (struct sockaddr *)&addr, len) < 0) {
		log_warn("notify-failed reason=%s", err_str(errno));
	}
	close(fd);
}

/* An engine that was taken over must not get at the machine's files: of those only images, by their
 * real name. */
static bool
parent_may_open(int fd, const struct stat *st)
{
	char link[64], real[512];
	if (S_ISBLK(st->st_mode)) {
		return true;
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, real, sizeof(real) - 1);
	if (!S_ISREG(st->st_mode) || len < 5) {
		return false;
	}
	real[len] = '\0';
	return strcmp(real + len - 4, ".img") == 0 || strcmp(real + len - 4, ".raw") == 0;
}

/* Nothing else may have the device: neither a mount nor the kernel. We keep no such claim, since
 * pools share spares. */
static int
parent_check_exclusive(const char *path, const struct stat *st)
{
	if (!S_ISBLK(st->st_mode)) {
		return 0;
	}
	int fd = open(path, O_RDWR | O_EXCL | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		return -errno;
	}
	close(fd);
	return 0;
}

static int
parent_open_drive(const char *path, int *out_fd)
{
	struct stat st;
	if (strncmp(path, "pci:", 4) == 0 || strncmp(path, "/dev/vfio/", 10) == 0) {
		return parent_open_vfio(path, out_fd);
	}
	if (stat(path, &st) != 0) {
		return -errno;
	}
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode)) {
		return -EINVAL; /* before it is opened: opening may already do something */
	}
	int err = parent_check_exclusive(path, &st);
	if (err != 0) {
		return err;
	}
	int fd = open(path, O_RDWR | O_CLOEXEC | O_DIRECT | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && errno == EINVAL) {
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	}
	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, &st) != 0 || !parent_may_open(fd, &st)) {
		close(fd);
		return -EINVAL;
	}
	*out_fd = fd;
	return 0;
}

static void
parent_end_conversation(struct parent *p)
{
	if (p->sock >= 0) {
		close(p->sock);
		p->sock = -1;
	}
}

static void
parent_answer(struct parent *p)
{
	struct parent_msg m;
	int fd = -1;
	int err = parent_recv(p->sock, &m, &fd);
	if (fd >= 0) {
		close(fd);
	}
	if (err != 0) {
		parent_end_conversation(p);
		return;
	}
	if (m.kind == PARENT_READY) {
		parent_notify("READY=1");
		return;
	}
	if (m.kind == PARENT_BIND || m.kind == PARENT_UNBIND) {
		parent_bind_vfio(&m);
		if (parent_send(p->sock, &m, -1) != 0) {
			parent_end_conversation(p);
		}
		return;
	}
	if (m.kind != PARENT_OPEN) {
		log_limited(LOG_ERROR, "engine-message-unknown kind=%u", m.kind);
		parent_end_conversation(p);
		return;
	}
	m.kind = PARENT_OPENED;
	m.err = parent_open_drive(m.path, &fd);
	err = parent_send(p->sock, &m, m.err == 0 ? fd : -1);
	if (m.err == 0) {
		close(fd);
	}
	if (err != 0) {
		parent_end_conversation(p);
	}
}

static void
parent_signal(struct parent *p)
{
	struct signalfd_siginfo info;
	if (read(p->signals, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
		return;
	}
	if (info.ssi_signo == SIGCHLD) {
		if (waitpid(p->engine, &p->engine_status, WNOHANG) == p->engine) {
			p->engine_ended = true;
		}
		return;
	}
	p->stopping = true;
	kill(p->engine, SIGTERM);
}

/* In the child: its own process group stays ours, so that a terminal's ^C reaches the parent alone.
 */
static int
parent_be_engine(struct parent *p, int sock, pid_t parent_pid, bool safe_mode)
{
	setpgid(0, 0);
	close(p->signals);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int err = sandbox_drop_user(p->cfg->user);
	if (err != 0) {
		log_error("engine-user-failed user=%s reason=%s", p->cfg->user, err_str(err));
		return 1;
	}
	/* behind the change of user, which would take it back; the parent may be gone already */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent_pid) {
		return 1;
	}
	return engine_run(p->cfg, sock, safe_mode);
}

static int
parent_start_engine(struct parent *p, bool safe_mode)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		return -errno;
	}
	p->engine_ended = false;
	pid_t self = getpid();
	p->engine = fork();
	if (p->engine < 0) {
		int err = -errno;
		close(pair[0]);
		close(pair[1]);
		return err;
	}
	if (p->engine == 0) {
		close(pair[0]);
		exit(parent_be_engine(p, pair[1], self, safe_mode));
	}
	close(pair[1]);
	p->sock = pair[0];
	return 0;
}

static void
parent_watch_engine(struct parent *p)
{
	while (!p->engine_ended) {
		struct pollfd fds[2] = {
		    {.fd = p->signals, .events = POLLIN}, {.fd = p->sock, .events = POLLIN}};
		if (poll(fds, 2, -1) < 0) {
			continue;
		}
		if (fds[1].revents != 0) {
			parent_answer(p);
		}
		if (fds[0].revents != 0) {
			parent_signal(p);
		}
	}
	parent_end_conversation(p);
}

/* Waits before the next start. False: a signal says stop. */
static bool
parent_pause(struct parent *p, unsigned pause_s)
{
	struct pollfd fd = {.fd = p->signals, .events = POLLIN};
	struct signalfd_siginfo info;
	if (poll(&fd, 1, (int)(pause_s * 1000)) > 0 &&
	    read(p->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		return info.ssi_signo == SIGCHLD;
	}
	return true;
}

static time_t
parent_now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static int
parent_setup_signals(struct parent *p)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	p->signals = signalfd(-1, &set, SFD_CLOEXEC);
	return p->signals < 0 ? -errno : 0;
}

int
parent_main(const struct adm_config *cfg, bool restart)
{
	struct parent p = {.cfg = cfg, .sock = -1};
	bool safe_mode = false;
	unsigned pause_s = 0;
	if (parent_setup_signals(&p) != 0) {
		return 1;
	}
	/* an engine of an earlier agated may still be dying; one that isn't quiet can't be opened
	 */
	(void)parent_vfio_quiet();
	for (;;) {
		int err = parent_start_engine(&p, safe_mode);
		if (err != 0) {
			log_error("engine-start-failed reason=%s", err_str(err));
			return 1;
		}
		parent_watch_engine(&p);
		bool died = !WIFEXITED(p.engine_status) || WEXITSTATUS(p.engine_status) != 0;
		if (died) {
			log_error("engine-died status=0x%x", (unsigned)p.engine_status);
		}
		if (!died || p.stopping || !restart) {
			return died && !(p.stopping && WIFSIGNALED(p.engine_status)) ? 1 : 0;
		}
		safe_mode = parent_note_crash(&p.crashes, parent_now_s()) || safe_mode;
		safe_mode = !parent_vfio_quiet() || safe_mode;
		log_error("engine-restart in_s=%u safe_mode=%d", pause_s, safe_mode);
		if (!parent_pause(&p, pause_s)) {
			return 0;
		}
		pause_s = MIN(pause_s * 2 + 1, (unsigned)PAUSE_S_MAX);
	}
}
