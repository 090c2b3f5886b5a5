/*
 * Golden images: pools as earlier firmware wrote them, which every later reader must read the same.
 * Each is tests/golden/NAME.img.zst (the images of all drives, one after the other, equally long)
 * and NAME.txt (what agate-dump says about them). With AGATE_GOLDEN_WRITE=NAME in the environment
 * NAME.txt is written instead.
 */
#include <fcntl.h>

#include "base/check.h"
#include "dump/dump.h"
#include "tests/lib/golden.h"
#include "tests/lib/unit.h"

#define DRIVES_MAX 16u
#define REPORT_MAX (4u << 20)

static char dir[GOLDEN_DIR];
static const struct golden *g;

/* ---- what agate-dump says ---- */

static int
sum_file(void *arg, const char *path, const struct dump_file *f)
{
	static uint8_t buf[1u << 20];
	struct dump_fs *fs = arg;
	uint64_t len = MIN(f->inode.size, sizeof(buf));
	uint8_t sum[32];

	if (f->inode.type == INO_REG) {
		int err = dump_object_read(fs->p, &f->slot, 0, buf, len);
		dump_cksum(CKSUM_XXH3, buf, len, sum);
		(void)printf("%s ", err == 0 ? "xxh3" : "unreadable");
		out_hex(stdout, sum, 16);
		(void)printf(" ");
		out_text(stdout, path, strlen(path));
		(void)printf("\n");
	}
	return 0;
}

static void
dataset_report(struct dump_pool *p, const char *dataset)
{
	static struct dump_fs fs;
	struct dump_file root;

	(void)printf("== %s\n", dataset);
	if ((p->config.feat_rocompat & DUMP_FEATURE_ACCOUNTS) != 0) {
		(void)cmd_accounts(p, dataset);
	}
	(void)cmd_ls(p, dataset, "", true);
	if (dump_fs_open(p, dataset, &fs) == 0 && dump_path_find(&fs, "", &root) == 0) {
		ASSERT(dump_walk(&fs, &root, true, sum_file, &fs) == 0);
	}
}

static void
pool_report(struct dump_pool *p, bool whole)
{
	struct dump_dataset *v;
	uint32_t count;

	if (whole) {
		(void)printf("== config\n");
		(void)cmd_config(p);
		(void)printf("== space\n");
		(void)cmd_space(p);
		(void)printf("== log\n");
		(void)cmd_log(p);
	}
	(void)printf("== datasets\n");
	(void)cmd_datasets(p);
	ASSERT(dump_datasets(p, &v, &count) == 0);
	for (uint32_t i = 0; i < count; i++) {
		dataset_report(p, v[i].path);
	}
	mem_free(v);
}

/* stdout while fn runs, as text. */
static char *
report(uint32_t without)
{
	static struct dump_pool p;
	static struct dump_drive drives[DRIVES_MAX];
	static char paths[DRIVES_MAX][16];
	char *text = mem_zalloc(REPORT_MAX);
	uint32_t count = 0;

	(void)fflush(stdout);
	int kept = dup(STDOUT_FILENO), fd = open("report", O_RDWR | O_CREAT | O_TRUNC, 0600);
	ASSERT(kept >= 0 && fd >= 0 && text != NULL && dup2(fd, STDOUT_FILENO) >= 0);
	for (uint32_t i = 0; i < g->drives; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "d%u.img", i);
		if (i != without) {
			ASSERT(dump_drive_open(paths[i], &drives[count++]) == 0);
		}
	}
	if (dump_pool_open(drives, count, NULL, 0, &p) == 0) {
		pool_report(&p, without >= g->drives);
		dump_pool_close(&p);
	}
	for (uint32_t i = 0; i < count; i++) {
		dump_drive_close(&drives[i]);
	}
	(void)fflush(stdout);
	(void)dup2(kept, STDOUT_FILENO);
	(void)close(kept);
	ASSERT(pread(fd, text, REPORT_MAX - 1, 0) >= 0);
	(void)close(fd);
	return text;
}

static char *
expected(void)
{
	char *text = mem_zalloc(REPORT_MAX);
	char path[1024];

	golden_path(g, path, sizeof(path), "txt");
	FILE *f = fopen(path, "r");
	ASSERT(text != NULL && f != NULL && fread(text, 1, REPORT_MAX - 1, f) > 0);
	(void)fclose(f);
	return text;
}

static bool
same(const char *want, const char *got)
{
	while (*want != '\0' && *want == *got) {
		want++;
		got++;
	}
	if (*want != *got) {
		(void)printf("\n    expected: %.80s\n    got:      %.80s\n", want, got);
	}
	return *want == *got;
}

static void
clean_up(void)
{
	(void)unlink("report");
	golden_clean_up(g, dir);
}

static void
test_golden(void)
{
	for (size_t k = 0; k < GOLDENS; k++) {
		g = &goldens[k];
		golden_unpack(g, dir);
		char *want = expected(), *all = report(UINT32_MAX);
		CU_ASSERT(same(want, all));
		for (uint32_t i = 0; i < g->set_drives; i++) {
			char *got = report(i);
			CU_ASSERT(same(strstr(want, "== datasets"), got));
			mem_free(got);
		}
		mem_free(want);
		mem_free(all);
		clean_up();
	}
}

/* For tests/golden/make. */
static int
write_expected(const char *name)
{
	char path[1024];

	g = golden_find(name);
	ASSERT(g != NULL);
	golden_unpack(g, dir);
	char *text = report(UINT32_MAX);
	golden_path(g, path, sizeof(path), "txt");
	FILE *f = fopen(path, "w");
	ASSERT(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
	mem_free(text);
	clean_up();
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"golden images read as ever", test_golden}};

	if (getenv("AGATE_GOLDEN_WRITE") != NULL) {
		return write_expected(getenv("AGATE_GOLDEN_WRITE"));
	}
	return unit_main("dump_golden", tests, ARRAY_LEN(tests), argc, argv);
}
