/*
 * nfssnaps.c - snapshots over NFS, through libnfs; see usage.
 *
 * put: the file holds the text, whatever it held before. move, link, remove, mkdir: what they say.
 * walk: until its standard input ends, lists .snapshot again and again, and in each snapshot "sN"
 * it finds reads the file "f", which must hold the text "N". Snapshots may come and go meanwhile:
 * what can't be found must not be listed any more. storm: until its standard input ends, writes,
 * creates, renames and removes below the share, as several clients; the only thing they may hear
 * besides success is that what they made is gone.
 *
 * Exit: 0 all is as it should be, and how much was done; else 1, with a sentence.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/libnfs_client.h"

#define NAMES_MAX 20000
#define STORM_CLIENTS 3

static const char usage[] = "usage: nfssnaps URL put FILE TEXT\n"
			    "       nfssnaps URL move|link FILE NEW\n"
			    "       nfssnaps URL remove|mkdir FILE\n"
			    "       nfssnaps URL walk\n"
			    "       nfssnaps URL storm";
static struct nfs_context *nfs;

static bool
input_ended(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	return poll(&p, 1, 0) != 0;
}

/* ---- put ---- */

static void
put(const char *path, const char *text)
{
	struct nfsfh *fh;
	int err = nfs_open(nfs, path, O_WRONLY, &fh);
	if (err == -ENOENT) {
		err = nfs_creat(nfs, path, 0644, &fh);
	}
	client_must(nfs, err, "open", path);
	client_must(nfs, nfs_ftruncate(nfs, fh, 0), "truncate", path);
	client_must(nfs, nfs_write(nfs, fh, strlen(text), text), "write", path);
	client_must(nfs, nfs_fsync(nfs, fh), "commit", path);
	nfs_close(nfs, fh);
}

/* ---- a change ---- */

static bool
change(const char *what, const char *path, const char *to)
{
	int err = -EINVAL;
	if (to != NULL && strcmp(what, "move") == 0) {
		err = nfs_rename(nfs, path, to);
	} else if (to != NULL && strcmp(what, "link") == 0) {
		err = nfs_link(nfs, path, to);
	} else if (to == NULL && strcmp(what, "remove") == 0) {
		err = nfs_unlink(nfs, path);
	} else if (to == NULL && strcmp(what, "mkdir") == 0) {
		err = nfs_mkdir(nfs, path);
	} else {
		return false;
	}
	client_must(nfs, err, what, path);
	return true;
}

/* ---- walk ---- */

static uint32_t names[NAMES_MAX], name_count;

static int
by_number(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
	return a < b ? -1 : a > b;
}

static void
list_snapshots(void)
{
	struct nfsdir *dir;
	struct nfsdirent *e;
	client_must(nfs, nfs_opendir(nfs, "/.snapshot", &dir), "list", "/.snapshot");
	name_count = 0;
	while ((e = nfs_readdir(nfs, dir)) != NULL) {
		if (e->name[0] == 's' && name_count < NAMES_MAX) {
			names[name_count++] = (uint32_t)strtoul(e->name + 1, NULL, 10);
		}
	}
	nfs_closedir(nfs, dir);
	qsort(names, name_count, sizeof(names[0]), by_number);
	for (uint32_t i = 1; i < name_count; i++) {
		if (names[i] == names[i - 1]) {
			die("s%u is listed twice", names[i]);
		}
	}
}

/* 0: as it should be; -ENOENT, -ESTALE: not there. */
static int
read_one(uint32_t number)
{
	char path[64], got[32] = "", want[32];
	struct nfsfh *fh;
	snprintf(path, sizeof(path), "/.snapshot/s%u/f", number);
	snprintf(want, sizeof(want), "%u", number);
	int err = nfs_open(nfs, path, O_RDONLY, &fh);
	if (err == 0) {
		int n = nfs_read(nfs, fh, sizeof(got) - 1, got);
		err = n < 0 ? n : 0;
		nfs_close(nfs, fh);
		if (err == 0 && strcmp(got, want) != 0) {
			die("%s holds '%s'", path, got);
		}
	}
	return err;
}

static void
walk(void)
{
	unsigned long rounds = 0, reads = 0, gone = 0;
	bool last = false;
	while (!last) {
		last = input_ended();
		list_snapshots();
		for (uint32_t i = 0; i < name_count; i++) {
			uint32_t number = names[i];
			int err = read_one(number);
			reads += err == 0;
			if (err == 0) {
				continue;
			}
			/* libnfs says EFAULT for any read that failed */
			if (err != -ENOENT && err != -ESTALE && err != -EFAULT) {
				die("s%u: %s", number, strerror(-err));
			}
			gone++;
			list_snapshots();
			if (bsearch(&number, names, name_count, sizeof(names[0]), by_number) !=
			    NULL) {
				die("s%u is listed but can't be found: %s", number, strerror(-err));
			}
			break;
		}
		rounds++;
	}
	printf("%lu rounds, %lu reads, %lu gone\n", rounds, reads, gone);
}

/* ---- storm ---- */

/* libnfs says EFAULT for any write that failed. */
static void
storm_must(int err, const char *what, const char *path)
{
	if (err < 0 && err != -ESTALE && err != -ENOENT && err != -EEXIST && err != -EFAULT) {
		die("%s %s: %s (%s)", what, path, strerror(-err), nfs_get_error(nfs));
	}
}

static void
storm_one(unsigned client)
{
	unsigned long calls = 0;
	char path[64], to[64], data[4096];
	memset(data, 'x', sizeof(data));
	for (unsigned i = 0; !input_ended(); i++) {
		struct nfsfh *fh;
		/* what the snapshot has is always there */
		client_must(nfs, nfs_open(nfs, "/f", O_RDWR, &fh), "open", "/f");
		int n = nfs_pwrite(nfs, fh, i % 100, sizeof(data), data);
		client_must(nfs, n, "write", "/f");
		nfs_close(nfs, fh);
		snprintf(path, sizeof(path), "/storm%u.%u", client, i % 20);
		snprintf(to, sizeof(to), "/moved%u.%u", client, i % 20);
		int err = nfs_creat(nfs, path, 0644, &fh);
		storm_must(err, "create", path);
		if (err == 0) {
			storm_must(nfs_write(nfs, fh, sizeof(data), data), "write", path);
			nfs_close(nfs, fh);
		}
		storm_must(nfs_rename(nfs, path, to), "rename", path);
		if (i % 3 == 0) {
			storm_must(nfs_unlink(nfs, to), "remove", to);
		}
		calls += 5;
	}
	if (calls == 0) {
		die("client %u did nothing", client);
	}
}

static void
storm(const char *url)
{
	pid_t pids[STORM_CLIENTS];
	for (unsigned i = 0; i < STORM_CLIENTS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			nfs = client_mount(url);
			storm_one(i);
			exit(EXIT_SUCCESS);
		}
	}
	for (unsigned i = 0; i < STORM_CLIENTS; i++) {
		int status;
		if (waitpid(pids[i], &status, 0) != pids[i] || status != 0) {
			die("client %u failed", i);
		}
	}
}

int
main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[2], "put") == 0) {
		nfs = client_mount(argv[1]);
		put(argv[3], argv[4]);
	} else if (argc == 3 && strcmp(argv[2], "walk") == 0) {
		nfs = client_mount(argv[1]);
		walk();
	} else if (argc == 3 && strcmp(argv[2], "storm") == 0) {
		storm(argv[1]);
	} else if (argc == 4 || argc == 5) {
		nfs = client_mount(argv[1]);
		if (!change(argv[2], argv[3], argv[4])) {
			die("%s", usage);
		}
	} else {
		die("%s", usage);
	}
	return EXIT_SUCCESS;
}
