/* admin_config_test.c - agated.conf, and when the parent gives up restarting. */
#include "base/size.h"
#include "admin/config.h"
#include "admin/parent.h"
#include "tests/lib/unit.h"

/* Loads text as a file; the status of config_load. */
static int
load(const char *text, struct adm_config *c, char *why, size_t why_len)
{
	char path[] = "/tmp/agate-config-XXXXXX";
	int fd = mkstemp(path);
	ssize_t wrote = write(fd, text, strlen(text));
	close(fd);
	CU_ASSERT_EQUAL(wrote, (ssize_t)strlen(text));
	config_defaults(c);
	int err = config_load(path, c, why, why_len);
	unlink(path);
	return err;
}

static void
test_good(void)
{
	struct adm_config c;
	char why[512] = "";
	CU_ASSERT_EQUAL(load("", &c, why, sizeof(why)), 0);
	CU_ASSERT(c.nfs_port == 2049 && c.mount_port == 20048 && c.portmap && c.import_auto);
	CU_ASSERT_EQUAL(load("# a comment\n\n  listen = 192.0.2.1 # ours\nnfs_port=0\n"
			     "portmap = off\r\nmemory_bytes = 2G\nreactors=64\nuser = agate\n"
			     "import_auto=off\ndebug=on\ndrives_dir=/var/lib/a b",
			    &c, why, sizeof(why)),
	    0);
	CU_ASSERT_STRING_EQUAL(c.listen, "192.0.2.1");
	CU_ASSERT(c.nfs_port == 0 && !c.portmap && c.memory_bytes == 2 * GIB && c.reactors == 64);
	CU_ASSERT_STRING_EQUAL(c.user, "agate");
	CU_ASSERT_STRING_EQUAL(c.drives_dir, "/var/lib/a b");
	CU_ASSERT(!c.import_auto && c.debug);
}

static void
test_bad(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"nfs_port = 65536\n", ":1: '65536' is no value for nfs_port"},
	    {"\nnfs_port = -1\n", ":2: "},
	    {"nfs_port =\n", "no value"},
	    {"nfs_port = 1x\n", "no value"},
	    {"portmap = yes\n", "no value"},
	    {"reactors = 65\n", "no value"},
	    {"memory_bytes = 1.5G\n", "no value"},
	    {"memory_bytes = 99999999T\n", "no value"},
	    {"nosuch = 1\n", "there is no setting 'nosuch'"},
	    {"nonsense\n", "isn't 'key = value'"},
	    {"= 1\n", "there is no setting ''"},
	    {"user = a-name-that-is-far-too-long-for-any-user\n", "no value"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct adm_config c;
		char why[512] = "";
		CU_ASSERT_EQUAL(load(cases[i].text, &c, why, sizeof(why)), -EINVAL);
		CU_ASSERT(strstr(why, cases[i].why) != NULL);
	}
	struct adm_config c;
	char why[512] = "", line[1400];
	CU_ASSERT_EQUAL(config_load("/nonexistent/agated.conf", &c, why, sizeof(why)), -ENOENT);
	CU_ASSERT(strstr(why, "/nonexistent/agated.conf") != NULL);
	/* a line longer than any buffer isn't taken for two */
	memset(line, ' ', sizeof(line));
	snprintf(line + 1024, sizeof(line) - 1024, "debug=on\n");
	CU_ASSERT_EQUAL(load(line, &c, why, sizeof(why)), -EINVAL);
	CU_ASSERT(strstr(why, "too long") != NULL);
}

static void
test_size(void)
{
	uint64_t n = 77;
	CU_ASSERT(size_parse("64M", &n) == 0 && n == 64 * MIB);
	CU_ASSERT(size_parse("1t", &n) == 0 && n == 1024 * GIB);
	CU_ASSERT(size_parse("3GiB", &n) == 0 && n == 3 * GIB);
	CU_ASSERT(size_parse("7E", &n) == 0 && n == 7ull << 60);
	static const char *const bad[] = {
	    "", "M", "-1", " 1", "1 M", "1{", "8388608T", "1Mb", "1MiBs", "1B", "8E"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		n = 77;
		CU_ASSERT(size_parse(bad[i], &n) == -EINVAL && n == 77);
	}
}

/* Five deaths in ten minutes are too many; four, or five over a longer time, are not. */
static void
test_crashes(void)
{
	struct parent_crashes c = {0};
	for (time_t i = 0; i < 4; i++) {
		CU_ASSERT(!parent_note_crash(&c, 1000 + i));
	}
	CU_ASSERT(parent_note_crash(&c, 1004));
	c = (struct parent_crashes){0};
	for (time_t i = 0; i < 50; i++) {
		CU_ASSERT(!parent_note_crash(&c, i * (CRASH_WINDOW_S / 4)));
	}
	CU_ASSERT(!parent_note_crash(&c, 50 * (CRASH_WINDOW_S / 4)));
	CU_ASSERT(parent_note_crash(&c, 50 * (CRASH_WINDOW_S / 4)));
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"good", test_good},
	    {"bad", test_bad},
	    {"size", test_size},
	    {"crashes", test_crashes},
	};
	return unit_main("admin_config", tests, ARRAY_LEN(tests), argc, argv);
}
