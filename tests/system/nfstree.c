/*
 * nfstree.c - trees and odd things over NFS, through libnfs; see usage. copy and compare take
 * directories, files, symbolic links and their types; compare reads every byte and looks in both
 * directions. names: of every kind. sparse: a 5 GB file that is mostly hole. bigdir: a directory of
 * COUNT entries is listed completely, exactly once each. mkdirs: directories named on standard
 * input.
 *
 * Exit: 0 all is as it should be; else 1, with a sentence.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/libnfs_client.h"

#define IO_BYTES (1u << 20)
#define CREATORS 4u

static const char usage[] = "usage: nfstree URL copy DIR SUB\n"
			    "       nfstree URL compare DIR SUB\n"
			    "       nfstree URL names SUB\n"
			    "       nfstree URL sparse SUB\n"
			    "       nfstree URL bigdir SUB COUNT\n"
			    "       nfstree URL mkdirs SUB\n"
			    "       nfstree URL remove FILE";
static struct nfs_context *nfs;
static const char *nfs_url_text;
static uint64_t file_count, byte_count;

static void
join(char *out, size_t len, const char *dir, const char *name)
{
	if (snprintf(out, len, "%s/%s", dir, name) >= (int)len) {
		die("path too long: %s/%s", dir, name);
	}
}

static bool
is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- copy ---- */

static void
write_all(struct nfsfh *fh, const char *to, const char *data, size_t len)
{
	while (len > 0) {
		int n = nfs_write(nfs, fh, len, data);
		client_must(nfs, n, "write", to);
		data += n;
		len -= (size_t)n;
	}
}

static void
copy_file(const char *from, const char *to, mode_t mode)
{
	static char data[IO_BYTES];
	struct nfsfh *fh;
	int fd = open(from, O_RDONLY);
	ssize_t n;
	if (fd < 0) {
		die("%s: %s", from, strerror(errno));
	}
	client_must(nfs, nfs_creat(nfs, to, (int)(mode & 07777), &fh), "create", to);
	while ((n = read(fd, data, sizeof(data))) > 0) {
		write_all(fh, to, data, (size_t)n);
		byte_count += (uint64_t)n;
	}
	client_must(nfs, nfs_fsync(nfs, fh), "fsync", to);
	client_must(nfs, nfs_close(nfs, fh), "close", to);
	close(fd);
	file_count++;
}

static void
copy_link(const char *from, const char *to)
{
	char target[4096];
	ssize_t n = readlink(from, target, sizeof(target) - 1);
	if (n < 0) {
		die("%s: %s", from, strerror(errno));
	}
	target[n] = '\0';
	client_must(nfs, nfs_symlink(nfs, target, to), "symlink", to);
}

static void
copy_tree(const char *from, const char *to)
{
	char a[4096], b[4096];
	DIR *dir = opendir(from);
	struct dirent *e;
	if (dir == NULL) {
		die("%s: %s", from, strerror(errno));
	}
	while ((e = readdir(dir)) != NULL) {
		struct stat st;
		if (is_dots(e->d_name)) {
			continue;
		}
		join(a, sizeof(a), from, e->d_name);
		join(b, sizeof(b), to, e->d_name);
		if (lstat(a, &st) != 0) {
			die("%s: %s", a, strerror(errno));
		}
		if (S_ISDIR(st.st_mode)) {
			client_must(nfs, nfs_mkdir2(nfs, b, (int)(st.st_mode & 07777)), "mkdir", b);
			copy_tree(a, b);
		} else if (S_ISLNK(st.st_mode)) {
			copy_link(a, b);
		} else if (S_ISREG(st.st_mode)) {
			copy_file(a, b, st.st_mode);
		}
	}
	closedir(dir);
}

/* ---- compare ---- */

static void
compare_file(const char *a, const char *b, uint64_t size)
{
	static char mine[IO_BYTES], theirs[IO_BYTES];
	struct nfsfh *fh;
	int fd = open(a, O_RDONLY);
	if (fd < 0) {
		die("%s: %s", a, strerror(errno));
	}
	client_must(nfs, nfs_open(nfs, b, O_RDONLY, &fh), "open", b);
	uint64_t at = 0;
	while (at < size) {
		int n = nfs_pread(nfs, fh, at, sizeof(theirs), theirs);
		client_must(nfs, n, "read", b);
		if (n == 0 || pread(fd, mine, (size_t)n, (off_t)at) != n ||
		    memcmp(mine, theirs, (size_t)n) != 0) {
			die("%s differs from %s at or behind byte %llu", b, a,
			    (unsigned long long)at);
		}
		at += (uint64_t)n;
	}
	if (nfs_pread(nfs, fh, at, 1, theirs) != 0) {
		die("%s goes on behind its end", b);
	}
	client_must(nfs, nfs_close(nfs, fh), "close", b);
	close(fd);
	file_count++;
	byte_count += size;
}

static void
compare_link(const char *a, const char *b)
{
	char mine[4096] = "", theirs[4096] = "";
	if (readlink(a, mine, sizeof(mine) - 1) < 0) {
		die("%s: %s", a, strerror(errno));
	}
	client_must(nfs, nfs_readlink(nfs, b, theirs, sizeof(theirs)), "readlink", b);
	if (strcmp(mine, theirs) != 0) {
		die("%s points to '%s', %s to '%s'", a, mine, b, theirs);
	}
}

/* Every entry of b exists in a: counts them, so that equal counts mean equal sets. */
static size_t
count_remote(const char *b)
{
	struct nfsdir *dir;
	struct nfsdirent *e;
	size_t count = 0;
	client_must(nfs, nfs_opendir(nfs, b, &dir), "opendir", b);
	while ((e = nfs_readdir(nfs, dir)) != NULL) {
		count += !is_dots(e->name);
	}
	nfs_closedir(nfs, dir);
	return count;
}

static void
compare_tree(const char *from, const char *to)
{
	char a[4096], b[4096];
	DIR *dir = opendir(from);
	struct dirent *e;
	size_t count = 0;
	if (dir == NULL) {
		die("%s: %s", from, strerror(errno));
	}
	while ((e = readdir(dir)) != NULL) {
		struct stat st;
		struct nfs_stat_64 remote;
		if (is_dots(e->d_name)) {
			continue;
		}
		join(a, sizeof(a), from, e->d_name);
		join(b, sizeof(b), to, e->d_name);
		if (lstat(a, &st) != 0) {
			die("%s: %s", a, strerror(errno));
		}
		if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISREG(st.st_mode)) {
			continue;
		}
		client_must(nfs, nfs_lstat64(nfs, b, &remote), "lstat", b);
		count++;
		if ((remote.nfs_mode & S_IFMT) != (st.st_mode & S_IFMT)) {
			die("%s: another type", b);
		}
		if (S_ISDIR(st.st_mode)) {
			compare_tree(a, b);
		} else if (S_ISLNK(st.st_mode)) {
			compare_link(a, b);
		} else {
			if (remote.nfs_size != (uint64_t)st.st_size) {
				die("%s: %llu bytes, not %llu", b,
				    (unsigned long long)remote.nfs_size,
				    (unsigned long long)st.st_size);
			}
			compare_file(a, b, remote.nfs_size);
		}
	}
	closedir(dir);
	if (count_remote(to) != count) {
		die("%s has other entries than %s", to, from);
	}
}

/* ---- names ---- */

static void
put_text(const char *path, const char *text)
{
	struct nfsfh *fh;
	client_must(nfs, nfs_creat(nfs, path, 0644, &fh), "create", path);
	write_all(fh, path, text, strlen(text));
	client_must(nfs, nfs_close(nfs, fh), "close", path);
}

static void
expect_text(const char *path, const char *text)
{
	char got[1024] = "";
	struct nfsfh *fh;
	client_must(nfs, nfs_open(nfs, path, O_RDONLY, &fh), "open", path);
	int n = nfs_read(nfs, fh, sizeof(got) - 1, got);
	client_must(nfs, n, "read", path);
	client_must(nfs, nfs_close(nfs, fh), "close", path);
	if (strcmp(got, text) != 0) {
		die("%s holds another file's content", path);
	}
}

/* How often name is listed in dir. */
static int
listed(const char *dir_path, const char *name)
{
	struct nfsdir *dir;
	struct nfsdirent *e;
	int count = 0;
	client_must(nfs, nfs_opendir(nfs, dir_path, &dir), "opendir", dir_path);
	while ((e = nfs_readdir(nfs, dir)) != NULL) {
		count += strcmp(e->name, name) == 0;
	}
	nfs_closedir(nfs, dir);
	return count;
}

static char long_a[256], long_b[256], long_umlauts[256], too_long[257];
static const char *const odd_names[] = {" ", "a b", " leading", "trailing ", "tab\there",
    "new\nline", "back\\slash", "quote'\"`", "*?[a]", "$HOME", "-rf", "...", "..a", ".hidden", "a.",
    "100%", "%00", "~", "#", "a:b", "\xc3\xa9", "e\xcc\x81", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
    "\xf0\x9f\x98\x80", "\xff\xfe", "\xc3", "\x01\x7f", "CON", "con", "Con", long_a, long_b,
    long_umlauts};

static void
names(const char *sub)
{
	char path[4096], text[300], other[4096];
	memset(long_a, 'n', 255);
	memset(long_b, 'n', 254);
	long_b[254] = 'm';
	memset(too_long, 'n', 256);
	for (int i = 0; i < 127; i++) {
		memcpy(long_umlauts + i * 2, "\xc3\xbc", 2);
	}
	client_must(nfs, nfs_mkdir(nfs, sub), "mkdir", sub);
	for (size_t i = 0; i < ARRAY_LEN(odd_names); i++) {
		join(path, sizeof(path), sub, odd_names[i]);
		snprintf(text, sizeof(text), "content of %s", odd_names[i]);
		put_text(path, text);
	}
	for (size_t i = 0; i < ARRAY_LEN(odd_names); i++) {
		join(path, sizeof(path), sub, odd_names[i]);
		snprintf(text, sizeof(text), "content of %s", odd_names[i]);
		expect_text(path, text);
		if (listed(sub, odd_names[i]) != 1) {
			die("'%s' is not listed exactly once", odd_names[i]);
		}
	}
	join(path, sizeof(path), sub, too_long);
	struct nfsfh *fh;
	int err = nfs_creat(nfs, path, 0644, &fh);
	if (err != -ENAMETOOLONG) {
		die("a name of 256 bytes: %d", err);
	}
	/* each to another name and back, then away */
	for (size_t i = 0; i < ARRAY_LEN(odd_names); i++) {
		join(path, sizeof(path), sub, odd_names[i]);
		join(other, sizeof(other), sub, "renamed");
		client_must(nfs, nfs_rename(nfs, path, other), "rename", path);
		if (listed(sub, odd_names[i]) != 0) {
			die("'%s' is still listed", odd_names[i]);
		}
		client_must(nfs, nfs_rename(nfs, other, path), "rename", other);
		client_must(nfs, nfs_unlink(nfs, path), "unlink", path);
	}
	if (count_remote(sub) != 0) {
		die("%s isn't empty", sub);
	}
	client_must(nfs, nfs_rmdir(nfs, sub), "rmdir", sub);
	printf("%zu names\n", ARRAY_LEN(odd_names));
}

/* ---- sparse ---- */

#define SPARSE_BYTES ((uint64_t)5000000000)
static const uint64_t islands[] = {0, 4095, 1u << 20, ((uint64_t)1 << 31) - 5,
    ((uint64_t)1 << 32) - 5, ((uint64_t)1 << 32) + 7777777, SPARSE_BYTES - 11};
static const char island_text[] = "not a hole"; /* without its end: 10 bytes */
#define ISLAND_BYTES (sizeof(island_text) - 1)

/* What byte `at` must be. */
static char
sparse_byte(uint64_t at)
{
	for (size_t i = 0; i < ARRAY_LEN(islands); i++) {
		if (at >= islands[i] && at - islands[i] < ISLAND_BYTES) {
			return island_text[at - islands[i]];
		}
	}
	return '\0';
}

static void
sparse_verify(struct nfsfh *fh, const char *path, uint64_t from, uint64_t len)
{
	static char data[IO_BYTES];
	while (len > 0) {
		uint64_t want = MIN(len, (uint64_t)sizeof(data));
		int n = nfs_pread(nfs, fh, from, want, data);
		client_must(nfs, n, "read", path);
		if (n == 0) {
			die("%s ends at %llu", path, (unsigned long long)from);
		}
		for (int i = 0; i < n; i++) {
			if (data[i] != sparse_byte(from + (uint64_t)i)) {
				die("%s is wrong at byte %llu", path,
				    (unsigned long long)from + (unsigned)i);
			}
		}
		from += (uint64_t)n;
		len -= (uint64_t)n;
	}
}

static void
sparse(const char *path)
{
	struct nfsfh *fh;
	struct nfs_stat_64 st;
	client_must(nfs, nfs_creat(nfs, path, 0644, &fh), "create", path);
	client_must(nfs, nfs_ftruncate(nfs, fh, SPARSE_BYTES), "truncate", path);
	for (size_t i = 0; i < ARRAY_LEN(islands); i++) {
		client_must(
		    nfs, nfs_pwrite(nfs, fh, islands[i], ISLAND_BYTES, island_text), "write", path);
	}
	client_must(nfs, nfs_fsync(nfs, fh), "fsync", path);
	client_must(nfs, nfs_fstat64(nfs, fh, &st), "stat", path);
	if (st.nfs_size != SPARSE_BYTES) {
		die("%s: %llu bytes", path, (unsigned long long)st.nfs_size);
	}
	if (st.nfs_used > 64u << 20) {
		die("%s: %llu bytes used; it is mostly hole", path,
		    (unsigned long long)st.nfs_used);
	}
	for (size_t i = 0; i < ARRAY_LEN(islands); i++) {
		uint64_t from = islands[i] > 3 * IO_BYTES ? islands[i] - 3 * IO_BYTES : 0;
		sparse_verify(fh, path, from, MIN(SPARSE_BYTES - from, (uint64_t)6 * IO_BYTES));
	}
	for (uint64_t at = 0; at < SPARSE_BYTES; at += (uint64_t)97 << 20) {
		sparse_verify(fh, path, at, MIN(SPARSE_BYTES - at, (uint64_t)IO_BYTES));
	}
	/* cut through an island and grown again: what was cut is zero */
	client_must(nfs, nfs_ftruncate(nfs, fh, islands[4] + 3), "truncate", path);
	client_must(nfs, nfs_ftruncate(nfs, fh, SPARSE_BYTES), "truncate", path);
	char tail[ISLAND_BYTES];
	client_must(nfs, nfs_pread(nfs, fh, islands[4], sizeof(tail), tail), "read", path);
	if (memcmp(tail, "not\0\0\0\0\0\0\0", sizeof(tail)) != 0) {
		die("%s: what was cut off came back", path);
	}
	client_must(nfs, nfs_close(nfs, fh), "close", path);
	client_must(nfs, nfs_unlink(nfs, path), "unlink", path);
	printf("%llu bytes\n", (unsigned long long)SPARSE_BYTES);
}

/* ---- bigdir ---- */

static void
bigdir_name(char *out, size_t len, const char *sub, uint32_t number)
{
	snprintf(out, len, "%s/entry %07u of many", sub, number);
}

static void
bigdir_part(const char *sub, uint32_t count, uint32_t part, bool create)
{
	char path[4096];
	for (uint32_t i = part; i < count; i += CREATORS) {
		struct nfsfh *fh;
		bigdir_name(path, sizeof(path), sub, i);
		if (!create) {
			client_must(nfs, nfs_unlink(nfs, path), "unlink", path);
			continue;
		}
		client_must(nfs, nfs_creat(nfs, path, 0644, &fh), "create", path);
		client_must(nfs, nfs_close(nfs, fh), "close", path);
	}
}

/* Several processes, each with its own connection. */
static void
bigdir_all(const char *sub, uint32_t count, bool create)
{
	for (uint32_t part = 0; part < CREATORS; part++) {
		if (fork() == 0) {
			nfs = client_mount(nfs_url_text);
			bigdir_part(sub, count, part, create);
			_exit(EXIT_SUCCESS);
		}
	}
	for (uint32_t part = 0; part < CREATORS; part++) {
		int status;
		if (wait(&status) < 0 || status != 0) {
			die("a creator failed");
		}
	}
}

static void
bigdir_list(const char *sub, uint32_t count)
{
	struct nfsdir *dir;
	struct nfsdirent *e;
	uint32_t seen = 0;
	uint8_t *times = calloc(count, 1);
	client_must(nfs, nfs_opendir(nfs, sub, &dir), "opendir", sub);
	while ((e = nfs_readdir(nfs, dir)) != NULL) {
		unsigned number;
		if (is_dots(e->name)) {
			continue;
		}
		if (sscanf(e->name, "entry %7u of many", &number) != 1 || number >= count) {
			die("'%s' was never made", e->name);
		}
		if (times[number]++ != 0) {
			die("'%s' came twice", e->name);
		}
		seen++;
	}
	nfs_closedir(nfs, dir);
	free(times);
	if (seen != count) {
		die("%u of %u entries listed", seen, count);
	}
}

static void
bigdir(const char *sub, uint32_t count)
{
	client_must(nfs, nfs_mkdir(nfs, sub), "mkdir", sub);
	bigdir_all(sub, count, true);
	bigdir_list(sub, count);
	nfs_destroy_context(nfs);
	nfs = client_mount(nfs_url_text); /* no client remembers anything */
	bigdir_list(sub, count);
	bigdir_all(sub, count, false);
	nfs_destroy_context(nfs);
	nfs = client_mount(nfs_url_text);
	bigdir_list(sub, 0);
	client_must(nfs, nfs_rmdir(nfs, sub), "rmdir", sub);
	printf("%u entries\n", count);
}

static void
mkdirs(const char *sub)
{
	char line[4096], path[8192];
	client_must(nfs, nfs_mkdir(nfs, sub), "mkdir", sub);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		join(path, sizeof(path), sub, line);
		client_must(nfs, nfs_mkdir(nfs, path), "mkdir", path);
	}
}

int
main(int argc, char **argv)
{
	if (argc < 4) {
		die("%s", usage);
	}
	nfs_url_text = argv[1];
	nfs = client_mount(argv[1]);
	if (strcmp(argv[2], "copy") == 0 && argc == 5) {
		client_must(nfs, nfs_mkdir(nfs, argv[4]), "mkdir", argv[4]);
		copy_tree(argv[3], argv[4]);
		printf("%llu files, %llu bytes\n", (unsigned long long)file_count,
		    (unsigned long long)byte_count);
	} else if (strcmp(argv[2], "compare") == 0 && argc == 5) {
		compare_tree(argv[3], argv[4]);
		printf("%llu files, %llu bytes\n", (unsigned long long)file_count,
		    (unsigned long long)byte_count);
	} else if (strcmp(argv[2], "names") == 0 && argc == 4) {
		names(argv[3]);
	} else if (strcmp(argv[2], "sparse") == 0 && argc == 4) {
		sparse(argv[3]);
	} else if (strcmp(argv[2], "bigdir") == 0 && argc == 5) {
		bigdir(argv[3], (uint32_t)strtoul(argv[4], NULL, 10));
	} else if (strcmp(argv[2], "mkdirs") == 0 && argc == 4) {
		mkdirs(argv[3]);
	} else if (strcmp(argv[2], "remove") == 0 && argc == 4) {
		client_must(nfs, nfs_unlink(nfs, argv[3]), "unlink", argv[3]);
	} else {
		die("%s", usage);
	}
	nfs_destroy_context(nfs);
	return EXIT_SUCCESS;
}
