/* dump_text.c - see dump_text.h. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/dump_text.h"
#include "base/check.h"
#include "dump/dump.h"

struct text {
	char *buf;
	size_t len, cap;
	struct dump_fs *fs;
};

static void PRINTF_LIKE(2, 3) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->cap - t->len < 2048) {
		t->cap = t->cap * 2 + 8192;
		t->buf = mem_realloc(t->buf, t->cap);
		ASSERT(t->buf != NULL);
	}
	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->cap - t->len, fmt, ap);
	va_end(ap);
	ASSERT(n >= 0 && (size_t)n < t->cap - t->len);
	t->len += (size_t)n;
}

static int
line_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines; frees text. */
static char *
sorted(char *text)
{
	size_t len = strlen(text), count = 0, n = 0;
	char *out = mem_zalloc(len + 1), **lines, *at = out;

	for (size_t i = 0; i < len; i++) {
		count += text[i] == '\n';
	}
	lines = mem_zalloc_array(count + 1, sizeof(*lines));
	ASSERT(out != NULL && lines != NULL);
	for (char *p = text; *p != '\0'; p += strlen(p) + 1) {
		p[strcspn(p, "\n")] = '\0';
		lines[n++] = p;
	}
	if (n > 1) {
		qsort(lines, n, sizeof(*lines), line_order);
	}
	for (size_t i = 0; i < n; i++) {
		at += sprintf(at, "%s\n", lines[i]);
	}
	mem_free(lines);
	mem_free(text);
	return out;
}

char *
dump_text_of_rig(char *text)
{
	char *to = text;

	for (char *line = text; *line != '\0';) {
		char *end = line + strcspn(line, "\n"), *cookie, *rest;

		*end = '\0';
		cookie = strstr(line, " cookie=");
		if (cookie != NULL) {
			rest = cookie + strlen(" cookie=");
			rest += strspn(rest, "0123456789");
			*cookie = '\0';
			to += sprintf(to, "%s%s\n", line, rest);
		}
		line = end + 1;
	}
	*to = '\0';
	return sorted(text);
}

/* ---- the walk ---- */

static void
add_data(struct text *t, const struct dump_file *f)
{
	static uint8_t buf[65536];
	uint64_t sum = 14695981039346656037ull, size = MIN(f->inode.size, 8 * MIB);
	int err = 0;

	for (uint64_t off = 0; off < size && err == 0; off += sizeof(buf)) {
		uint64_t n = MIN(sizeof(buf), size - off);

		err = dump_object_read(t->fs->p, &f->slot, off, buf, n);
		for (uint64_t i = 0; i < n; i++) {
			sum = (sum ^ buf[i]) * 1099511628211ull;
		}
	}
	add(t, err == 0 ? " data=%016llx" : " data=?", (unsigned long long)sum);
}

static void
add_target(struct text *t, const struct dump_file *f)
{
	uint8_t target[4096];
	uint32_t len = (uint32_t)MIN(f->inode.size, sizeof(target)), sum = 0;
	int err = dump_object_read(t->fs->p, &f->slot, 0, target, len);

	for (uint32_t i = 0; i < len; i++) {
		sum = sum * 31 + target[i];
	}
	add(t, err == 0 ? " target=%u:%08x" : " target=?", len, sum);
}

static int
add_file(void *arg, const char *path, const struct dump_file *f)
{
	const struct dump_inode *i = &f->inode;
	struct text *t = arg;

	add(t, "%s%s", *path != '\0' ? "/" : "", path);
	add(t,
	    " type=%u mode=%o nlink=%u uid=%u gid=%u size=%llu rdev=%u,%u obj=%llu gen=%llu "
	    "change=%llu m=%lld.%09u c=%lld.%09u b=%lld.%09u",
	    i->type, i->mode, i->nlink, i->uid, i->gid,
	    (unsigned long long)(i->type == INO_DIR ? 0 : i->size), i->rdev_major, i->rdev_minor,
	    (unsigned long long)f->object, (unsigned long long)f->slot.generation,
	    (unsigned long long)i->change, (long long)i->mtime.sec, i->mtime.nsec,
	    (long long)i->ctime.sec, i->ctime.nsec, (long long)i->btime.sec, i->btime.nsec);
	if (i->type == INO_REG) {
		add_data(t, f);
	} else if (i->type == INO_LNK) {
		add_target(t, f);
	}
	add(t, "\n");
	return 0;
}

static char *
dataset_text(struct dump_pool *p, const char *dataset)
{
	static struct dump_fs fs;
	struct text t = {.fs = &fs};
	struct dump_file root;

	if (dump_fs_open(p, dataset, &fs) != 0 || dump_path_find(&fs, "", &root) != 0 ||
	    dump_walk(&fs, &root, true, add_file, &t) != 0) {
		mem_free(t.buf);
		return NULL;
	}
	return sorted(t.buf);
}

static uint64_t gangs;

uint64_t
dump_text_gangs(void)
{
	return gangs;
}

struct images {
	struct dump_drive *drives;
	uint32_t count;
};

static void
images_open(char *const *paths, uint32_t count, struct images *out)
{
	out->count = 0;
	out->drives = mem_zalloc_array(count, sizeof(*out->drives));
	ASSERT(out->drives != NULL);
	for (uint32_t i = 0; i < count; i++) {
		out->count += dump_drive_open(paths[i], &out->drives[out->count]) == 0;
	}
}

static void
images_close(struct images *im)
{
	for (uint32_t i = 0; i < im->count; i++) {
		dump_drive_close(&im->drives[i]);
	}
	mem_free(im->drives);
}

char *
dump_text(char *const *paths, uint32_t count, const char *dataset, uint64_t txg)
{
	static struct dump_pool p;
	struct images im;
	char *text = NULL;

	images_open(paths, count, &im);
	if (dump_pool_open(im.drives, im.count, NULL, txg, &p) == 0) {
		text = dataset_text(&p, dataset);
		gangs += p.gangs;
		dump_pool_close(&p);
	}
	images_close(&im);
	return text;
}

uint64_t
dump_text_newest(char *const *paths, uint32_t count)
{
	static struct dump_pool p;
	struct images im;
	uint64_t txg = 0;

	images_open(paths, count, &im);
	if (dump_pool_open(im.drives, im.count, NULL, 0, &p) == 0) {
		txg = p.uber.txg;
		dump_pool_close(&p);
	}
	images_close(&im);
	return txg;
}

bool
dump_text_is_whole(char *const *paths, uint32_t count, const char *dataset, uint64_t txg)
{
	uint64_t before = out_error_count();
	char *text = dump_text(paths, count, dataset, txg);
	bool whole = text != NULL && strstr(text, "=?") == NULL && out_error_count() == before;

	mem_free(text);
	return whole;
}

/* Output of the commands isn't what these tests look at. */
static int
hush(int fd)
{
	int kept = dup(fd), null = open("/dev/null", O_WRONLY);

	ASSERT(kept >= 0 && null >= 0);
	(void)fflush(NULL);
	(void)dup2(null, fd);
	(void)close(null);
	return kept;
}

static void
unhush(int fd, int kept)
{
	(void)fflush(NULL);
	(void)dup2(kept, fd);
	(void)close(kept);
}

static void
pool_commands(struct dump_pool *p, const char *dataset)
{
	(void)cmd_config(p);
	(void)cmd_datasets(p);
	(void)cmd_ls(p, dataset, "", true);
	(void)cmd_cat(p, dataset, "a");
	for (unsigned i = 0; i < 12; i++) {
		char number[16];

		(void)snprintf(number, sizeof(number), "%u", i);
		(void)cmd_object(p, ":mos", number);
		(void)cmd_object(p, dataset, number);
	}
	(void)cmd_accounts(p, dataset);
	(void)cmd_block(p, "0:0:2");
	(void)cmd_log(p);
	(void)cmd_space(p);
}

void
dump_text_everything(char *const *paths, uint32_t count, const char *dataset)
{
	static struct dump_pool p;
	int out = hush(STDOUT_FILENO), err = hush(STDERR_FILENO);
	struct images im;

	images_open(paths, count, &im);
	(void)cmd_labels(im.drives, im.count, true);
	if (dump_pool_open(im.drives, im.count, NULL, 0, &p) == 0) {
		pool_commands(&p, dataset);
		dump_pool_close(&p);
	}
	images_close(&im);
	unhush(STDOUT_FILENO, out);
	unhush(STDERR_FILENO, err);
}

void
dump_text_extract(
    char *const *paths, uint32_t count, const char *dataset, const char *path, const char *dir)
{
	static struct dump_pool p;
	int err = hush(STDERR_FILENO);
	struct images im;

	images_open(paths, count, &im);
	if (dump_pool_open(im.drives, im.count, NULL, 0, &p) == 0) {
		(void)cmd_extract(&p, dataset, path, dir);
		dump_pool_close(&p);
	}
	images_close(&im);
	unhush(STDERR_FILENO, err);
}

bool
dump_text_space_agrees(char *const *paths, uint32_t count)
{
	static struct dump_pool p;
	struct images im;
	uint64_t before = out_error_count();
	bool agrees = false;

	images_open(paths, count, &im);
	if (dump_pool_open(im.drives, im.count, NULL, 0, &p) == 0) {
		int out = hush(STDOUT_FILENO);

		agrees = cmd_space(&p) == 0 && out_error_count() == before;
		unhush(STDOUT_FILENO, out);
		dump_pool_close(&p);
	}
	images_close(&im);
	return agrees;
}

char *
dump_text_quietly(char *const *paths, uint32_t count, const char *dataset)
{
	int err = getenv("AGATE_LOUD") == NULL ? hush(STDERR_FILENO) : dup(STDERR_FILENO);
	char *text = dump_text(paths, count, dataset, 0);

	unhush(STDERR_FILENO, err);
	return text;
}
