/*
 * durable.c - see durable.h, and usage below.
 *
 * run: works until the time has passed or SIGTERM comes to its process group (exit 0) or the server
 * has gone (exit 3); an answer that is an error is a failure (exit 1). check: the last line is
 * "durable: N acknowledged of N begun, LOST 0, WRONG 0"; exit 1 unless both are 0. always: the
 * share has sync=always, so that UNSTABLE data is durable too. tamper: changes something of worker
 * 0 that the next check has to notice.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/system/durable.h"

enum { EXIT_GONE = 3 };

static const char usage[] = "usage: durable URL run JOURNAL DIR WORKERS SEED SECONDS\n"
			    "       durable URL check JOURNAL DIR WORKERS [always]\n"
			    "       durable URL tamper JOURNAL DIR KIND\n"
			    "       durable - kinds";

/* SIGTERM is held back and looked for between calls: it would break the poll of the one under way.
 */
static bool
is_asked_to_end(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && sigismember(&set, SIGTERM) == 1;
}

struct worker {
	struct nfs_context *nfs;
	const char *dir;
	unsigned number;
	int journal;
	struct model m;
	struct nfsfh *fh[SLOTS], *fh_sync[SLOTS];
	uint64_t random, version;
	uint32_t names;
};

static uint32_t
pick(struct worker *w, uint32_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (uint32_t)((w->random >> 16) % below);
}

static void
note(struct worker *w, struct note *n, enum durable_kind kind)
{
	n->kind = (uint8_t)kind;
	note_seal(n);
	if (write(w->journal, n, sizeof(*n)) != (ssize_t)sizeof(*n)) {
		die("the journal can't be written: %s", strerror(errno));
	}
}

static int
open_slot(struct worker *w, unsigned slot, const char *path)
{
	int err = nfs_open(w->nfs, path, O_RDWR, &w->fh[slot]);
	return err != 0 ? err : nfs_open(w->nfs, path, O_RDWR | O_SYNC, &w->fh_sync[slot]);
}

/* Closing commits what is dirty; the file is gone, so the answer doesn't matter. */
static void
close_slot(struct worker *w, unsigned slot)
{
	(void)nfs_close(w->nfs, w->fh[slot]);
	(void)nfs_close(w->nfs, w->fh_sync[slot]);
}

static int
do_write(struct worker *w, const struct note *n)
{
	static uint8_t data[WRITE_CELLS_MAX * CELL_BYTES];
	for (uint32_t i = 0; i < n->b; i++) {
		cell_fill(data + (size_t)i * CELL_BYTES, w->number, n->a + i, n->version + i);
	}
	struct nfsfh *fh = n->op == OP_WRITE_SYNC ? w->fh_sync[n->slot] : w->fh[n->slot];
	int got =
	    nfs_pwrite(w->nfs, fh, (uint64_t)n->a * CELL_BYTES, (uint64_t)n->b * CELL_BYTES, data);
	if (got >= 0 && (uint32_t)got != n->b * CELL_BYTES) {
		die("a WRITE of %u bytes took %d", n->b * CELL_BYTES, got);
	}
	return got < 0 ? got : 0;
}

static int
do_create(struct worker *w, const char *path)
{
	struct nfsfh *fh;
	int err = nfs_creat(w->nfs, path, 0644, &fh);
	return err != 0 ? err : nfs_close(w->nfs, fh);
}

static int
perform(struct worker *w, const struct note *n)
{
	char from[512], to[512];
	path_file(from, sizeof(from), w->dir, w->number, n->slot, w->m.file[n->slot].name);
	switch ((enum durable_op)n->op) {
	case OP_CREATE:
		path_file(to, sizeof(to), w->dir, w->number, n->slot, n->a);
		return do_create(w, to);
	case OP_WRITE:
	case OP_WRITE_SYNC:
		return do_write(w, n);
	case OP_COMMIT:
		return nfs_fsync(w->nfs, w->fh[n->slot]);
	case OP_TRUNCATE:
		return nfs_ftruncate(w->nfs, w->fh[n->slot], (uint64_t)n->a * CELL_BYTES);
	case OP_RENAME:
		path_file(to, sizeof(to), w->dir, w->number, n->slot, n->a);
		return nfs_rename(w->nfs, from, to);
	case OP_REPLACE:
		path_file(to, sizeof(to), w->dir, w->number, n->a, w->m.file[n->a].name);
		return nfs_rename(w->nfs, from, to);
	case OP_UNLINK:
		return nfs_unlink(w->nfs, from);
	}
	return -EINVAL;
}

/* What the worker has to do for itself once a change is acknowledged. */
static int
follow(struct worker *w, const struct note *n)
{
	char path[512];
	if (n->op == OP_CREATE) {
		path_file(path, sizeof(path), w->dir, w->number, n->slot, n->a);
		return open_slot(w, n->slot, path);
	}
	if (n->op == OP_UNLINK) {
		close_slot(w, n->slot);
	} else if (n->op == OP_REPLACE) {
		close_slot(w, n->a);
		w->fh[n->a] = w->fh[n->slot];
		w->fh_sync[n->a] = w->fh_sync[n->slot];
	}
	return 0;
}

static void
plan_write(struct worker *w, struct note *n, bool stable)
{
	n->op = stable ? OP_WRITE_SYNC : OP_WRITE;
	n->b = 1 + pick(w, WRITE_CELLS_MAX);
	n->a = pick(w, CELLS_MAX - n->b + 1);
	n->version = w->version;
	w->version += n->b;
}

static void
plan(struct worker *w, struct note *n)
{
	const struct file *f = &w->m.file[n->slot];
	uint32_t dice = pick(w, 100);
	if (!f->exists) {
		n->op = OP_CREATE;
		n->a = ++w->names;
	} else if (f->uncommitted >= UNCOMMITTED_MAX || dice < 8) {
		n->op = OP_COMMIT;
	} else if (dice < 70) {
		plan_write(w, n, dice < 40);
	} else if (dice < 78) {
		n->op = OP_TRUNCATE;
		n->a = pick(w, CELLS_MAX + 1);
	} else if (dice < 88) {
		n->op = OP_RENAME;
		n->a = ++w->names;
	} else if (dice < 94) {
		n->op = OP_REPLACE;
		n->a = pick(w, SLOTS);
		if (n->a == n->slot || !w->m.file[n->a].exists) {
			n->op = OP_COMMIT;
			n->a = 0;
		}
	} else {
		n->op = OP_UNLINK;
	}
}

#define AGAIN_US 50000
#define AGAIN_TRIES_MAX 1200

/* A suspended pool: nothing was changed, and the client is to try again later. Of a WRITE that was
 * refused libnfs tells only that much. */
static bool
asks_again(struct worker *w, int err)
{
	const char *said = nfs_get_error(w->nfs);
	return err == -EFAULT || (said != NULL && strstr(said, "NFS3ERR_JUKEBOX") != NULL);
}

/* A server that is gone answers nothing; every answer it gives has to be good. */
static void NORETURN
end_worker(struct worker *w, int err, const char *what)
{
	const char *said = nfs_get_error(w->nfs);
	if (said != NULL && strstr(said, "NFS3ERR") != NULL) {
		die("worker %u: %s: %d (%s)", w->number, what, err, said);
	}
	fprintf(stderr, "worker %u: %s: %d (%s)\n", w->number, what, err, said != NULL ? said : "");
	_exit(EXIT_GONE);
}

static int NORETURN
work(const char *url, const char *journal, const char *dir, unsigned number, uint64_t seed,
    double seconds)
{
	static struct worker w;
	char path[512];
	struct timespec start, now;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	w = (struct worker){.nfs = client_mount(url), .dir = dir, .number = number, .version = 1};
	w.random = (seed + 1) * 0x9e3779b97f4a7c15ull + number * 0xd1b54a32d192ed03ull + 1;
	snprintf(path, sizeof(path), "%s.%u", journal, number);
	w.journal = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	path_dir(path, sizeof(path), dir, number);
	client_must(w.nfs, nfs_mkdir(w.nfs, path), "mkdir", path);
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		struct note n = {.slot = (uint16_t)pick(&w, SLOTS)};
		plan(&w, &n);
		note(&w, &n, KIND_INTENT);
		int err = perform(&w, &n);
		for (int tries = 0; err != 0 && asks_again(&w, err) && tries < AGAIN_TRIES_MAX;
		     tries++) {
			usleep(AGAIN_US);
			err = perform(&w, &n);
		}
		if (err != 0) {
			end_worker(&w, err, "a change");
		}
		note(&w, &n, KIND_ACK);
		model_apply(&w.m, &n);
		err = follow(&w, &n);
		if (err != 0) {
			end_worker(&w, err, "open");
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (!is_asked_to_end() &&
		 (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 <
		     seconds);
	_exit(EXIT_SUCCESS);
}

static int
run(char **argv)
{
	unsigned workers = (unsigned)strtoul(argv[5], NULL, 10);
	int worst = EXIT_SUCCESS;
	sigset_t term;

	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &term, NULL);
	for (unsigned i = 0; i < workers; i++) {
		if (fork() == 0) {
			work(argv[1], argv[3], argv[4], i, strtoull(argv[6], NULL, 10),
			    strtod(argv[7], NULL));
		}
	}
	for (unsigned i = 0; i < workers; i++) {
		int status;
		if (wait(&status) < 0) {
			die("wait: %s", strerror(errno));
		}
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
		if (worst != EXIT_FAILURE && code != EXIT_SUCCESS) {
			worst = code;
		}
	}
	return worst;
}

static int
check(char **argv)
{
	struct nfs_context *nfs = client_mount(argv[1]);
	struct verdict v = {0};
	unsigned workers = (unsigned)strtoul(argv[5], NULL, 10);
	for (unsigned i = 0; i < workers; i++) {
		check_worker(nfs, argv[3], argv[4], i, &v);
	}
	nfs_destroy_context(nfs);
	printf("durable: %llu acknowledged of %llu begun, LOST %llu, WRONG %llu\n",
	    (unsigned long long)v.acknowledged, (unsigned long long)v.begun,
	    (unsigned long long)v.lost, (unsigned long long)v.wrong);
	return v.lost == 0 && v.wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	if (argc == 8 && strcmp(argv[2], "run") == 0) {
		return run(argv);
	}
	if ((argc == 6 || (argc == 7 && strcmp(argv[6], "always") == 0)) &&
	    strcmp(argv[2], "check") == 0) {
		model_set_always(argc == 7);
		return check(argv);
	}
	if (argc == 3 && strcmp(argv[2], "kinds") == 0) {
		for (unsigned i = 0; tamper_kind(i) != NULL; i++) {
			puts(tamper_kind(i));
		}
		return EXIT_SUCCESS;
	}
	if (argc == 6 && strcmp(argv[2], "tamper") == 0) {
		tamper(client_mount(argv[1]), argv[3], argv[4], argv[5]);
		return EXIT_SUCCESS;
	}
	die("%s", usage);
}
