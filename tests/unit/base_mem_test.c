/* The heap's door, errors, little-endian fields, lists, the log and the switches of bug.h. */
#include <fcntl.h>
#include <limits.h>
#include "base/base.h"
#include "base/mem_int.h"
#include "tests/lib/unit.h"

static void
test_mem_zeroed(void)
{
	uint64_t before = mem_live_count();
	unsigned char *p = mem_zalloc(1000);
	CU_ASSERT_FATAL(p != NULL);
	CU_ASSERT(((uintptr_t)p & 15) == 0);
	for (unsigned i = 0; i < 1000; i++) {
		CU_ASSERT(p[i] == 0);
		p[i] = (unsigned char)i;
	}
	p = mem_realloc(p, 5000);
	CU_ASSERT_FATAL(p != NULL);
	CU_ASSERT(p[999] == (unsigned char)999);
	char *s = mem_strdup("agate");
	CU_ASSERT_FATAL(s != NULL);
	CU_ASSERT_STRING_EQUAL(s, "agate");
	CU_ASSERT(mem_live_count() == before + 2);
	mem_free(s);
	mem_free(p);
	mem_free(NULL);
	CU_ASSERT(mem_live_count() == before);
	CU_ASSERT(mem_zalloc_array(SIZE_MAX / 4, 8) == NULL);
	CU_ASSERT(mem_zalloc(SIZE_MAX - 8) == NULL);
	void *empty = mem_zalloc(0);
	CU_ASSERT(empty != NULL);
	mem_free(empty);
}

static void
test_mem_fails(void)
{
	mem_fail_at(3, false);
	void *a = mem_zalloc(1);
	void *b = mem_zalloc(1);
	CU_ASSERT(a != NULL && b != NULL);
	CU_ASSERT(mem_zalloc(1) == NULL);
	void *c = mem_zalloc(1);
	CU_ASSERT(c != NULL);
	mem_fail_at(1, true);
	CU_ASSERT(mem_zalloc(1) == NULL);
	CU_ASSERT(mem_realloc(a, 100) == NULL);
	CU_ASSERT(mem_strdup("x") == NULL);
	mem_fail_at(0, false);
	mem_free(a);
	mem_free(b);
	mem_free(c);
}

static void
test_mem_life(void)
{
	uint64_t before = mem_live_count();
	void *outer = mem_zalloc(10);
	mem_life_begin();
	void *kept[4];
	for (unsigned i = 0; i < ARRAY_LEN(kept); i++) {
		kept[i] = mem_zalloc(100);
	}
	char *lasting = mem_zalloc_lasting(10);
	CU_ASSERT_FATAL(lasting != NULL);
	mem_free(kept[1]);
	mem_free(outer);
	kept[2] = mem_realloc(kept[2], 100000);
	CU_ASSERT(kept[2] != NULL);
	mem_fail_at(1, false);
	CU_ASSERT(mem_realloc(kept[3], 200000) == NULL);
	CU_ASSERT(mem_live_count() == before + 4);
	CU_ASSERT(mem_life_drop() == 3);
	CU_ASSERT(mem_live_count() == before + 1);
	lasting[9] = 1;
	mem_free(lasting);
	CU_ASSERT(mem_live_count() == before);

	mem_life_begin();
	void *result = mem_zalloc(10);
	CU_ASSERT(mem_life_end() == 1);
	mem_life_begin();
	mem_free(result);
	CU_ASSERT(mem_life_drop() == 0);
	CU_ASSERT(mem_live_count() == before);
}

static void
free_twice(void)
{
	char *p = mem_zalloc(10);
	mem_free(p);
	mem_free(p);
}

static void
test_mem_double_free_dies(void)
{
	CU_ASSERT(unit_dies(free_twice, NULL));
}

static void
test_err(void)
{
	CU_ASSERT_STRING_EQUAL(err_str(0), "success");
	CU_ASSERT_STRING_EQUAL(err_str(-ERR_CKSUM), "checksum mismatch");
	CU_ASSERT_STRING_EQUAL(err_str(ERR_TOOSMALL), "limit too small for one entry");
	CU_ASSERT_STRING_EQUAL(err_str(-ENOENT), "No such file or directory");
	CU_ASSERT_STRING_EQUAL(err_str(INT_MIN), "unknown error");
	CU_ASSERT_STRING_EQUAL(err_str(INT_MAX), "unknown error");
	for (int err = ERR_CKSUM; err <= ERR_TOOSMALL; err++) {
		CU_ASSERT(strcmp(err_str(err), "unknown error") != 0);
	}
}

static void
test_le(void)
{
	struct le64 v = le64_of(0x0102030405060708u);
	CU_ASSERT(v.b[0] == 8 && v.b[7] == 1);
	CU_ASSERT(le64_get(v) == 0x0102030405060708u);
	struct le32 w = le32_of(0xa0b0c0d0u);
	CU_ASSERT(w.b[0] == 0xd0 && w.b[3] == 0xa0 && le32_get(w) == 0xa0b0c0d0u);
	struct le16 h = le16_of(0x1234);
	CU_ASSERT(h.b[0] == 0x34 && h.b[1] == 0x12 && le16_get(h) == 0x1234);
}

struct item {
	struct list link;
	int n;
};

static void
test_list(void)
{
	struct list l, other;
	struct item items[3] = {{.n = 0}, {.n = 1}, {.n = 2}};
	list_init(&l);
	list_init(&other);
	CU_ASSERT(list_empty(&l));
	list_push_back(&l, &items[1].link);
	list_push_back(&other, &items[2].link);
	list_push_front(&l, &items[0].link);
	list_splice_back(&l, &other);
	list_splice_back(&l, &other);
	CU_ASSERT(list_empty(&other));
	int n = 0;
	list_for_each(at, &l)
	{
		CU_ASSERT(list_entry(at, struct item, link)->n == n);
		n++;
	}
	CU_ASSERT(n == 3);
	list_for_each_safe(at, next, &l)
	{
		list_remove(at);
		list_remove(at);
	}
	CU_ASSERT(list_empty(&l));
}

static size_t
read_all(int fd, char *text, size_t cap)
{
	size_t len = 0;
	ssize_t n;
	while (len < cap - 1 && (n = read(fd, text + len, cap - 1 - len)) > 0) {
		len += (size_t)n;
	}
	text[len] = '\0';
	return len;
}

static void
test_log(void)
{
	static char text[1 << 20];
	int fds[2];
	CU_ASSERT_FATAL(pipe2(fds, O_NONBLOCK) == 0);
	log_set_fd(fds[1]);
	log_set_level(LOG_INFO);
	log_debug("hidden a=1");
	log_warn("shown name=%s n=%d", "a\nb\x7f", 7);
	read_all(fds[0], text, sizeof(text));
	CU_ASSERT(strstr(text, "hidden") == NULL);
	CU_ASSERT(strstr(text, "shown name=a?b? n=7\n") != NULL);
	CU_ASSERT(strncmp(text, "warn ", 5) == 0);
	/* Longer than a line may be: cut, with its end of line. */
	static char longer[3000];
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	log_error("%s", longer);
	size_t len = read_all(fds[0], text, sizeof(text));
	CU_ASSERT(len == 1024 && text[len - 1] == '\n');
	/* More than the pipe holds, or the budget of a second allows: dropped, and counted later.
	 */
	for (int i = 0; i < 2000; i++) {
		log_error("%s", longer);
	}
	read_all(fds[0], text, sizeof(text));
	/* The budget opens with a new second. */
	bool told = false;
	for (int i = 0; i < 300 && !told; i++) {
		usleep(10000);
		log_error("after");
		read_all(fds[0], text, sizeof(text));
		told = strstr(text, "log_lines_dropped count=") != NULL;
	}
	CU_ASSERT(told);
	log_set_fd(-1);
	log_error("nowhere");
	CU_ASSERT(read_all(fds[0], text, sizeof(text)) == 0);
	log_set_fd(STDERR_FILENO);
	close(fds[0]);
	close(fds[1]);
}

#ifdef AGATE_DEBUG
static void
buggify_main(void *arg)
{
	unsigned *fired = arg;
	char name[16];
	for (unsigned point = 0; point < 64; point++) {
		snprintf(name, sizeof(name), "point%u", point);
		for (unsigned i = 0; i < 20; i++) {
			fired[point] += bug_buggify(name);
		}
	}
}

static unsigned
buggify_active(uint64_t seed, unsigned percent, unsigned fired[64])
{
	struct rt_options opt = unit_rt(true, 1, seed);
	unsigned active = 0;
	memset(fired, 0, 64 * sizeof(*fired));
	bug_set_buggify(percent);
	CU_ASSERT(rt_run(&opt, buggify_main, fired) == 0);
	bug_set_buggify(0);
	for (unsigned i = 0; i < 64; i++) {
		active += fired[i] > 0;
		CU_ASSERT(fired[i] < 20);
	}
	return active;
}

static void
test_buggify(void)
{
	unsigned first[64], again[64], other[64];
	CU_ASSERT(buggify_active(5, 0, first) == 0);
	CU_ASSERT(buggify_active(5, 100, first) == 64);
	unsigned half = buggify_active(5, 50, first);
	CU_ASSERT(half > 10 && half < 54);
	CU_ASSERT(buggify_active(5, 50, again) == half);
	CU_ASSERT(memcmp(first, again, sizeof(first)) == 0);
	buggify_active(6, 50, other);
	CU_ASSERT(memcmp(first, other, sizeof(first)) != 0);
	bug_set_buggify(100);
	CU_ASSERT(!BUGGIFY("outside of the simulation"));
	bug_set_buggify(0);
}

static void
test_deliberate(void)
{
	CU_ASSERT(!DELIBERATE_BUG("skip_flush"));
	bug_set_deliberate("lose_wake,skip_flush");
	CU_ASSERT(DELIBERATE_BUG("skip_flush"));
	CU_ASSERT(DELIBERATE_BUG("lose_wake"));
	CU_ASSERT(!DELIBERATE_BUG("skip"));
	bug_set_deliberate(NULL);
	CU_ASSERT(!DELIBERATE_BUG("skip_flush"));
}
#endif

/* What somebody outside can cause at will: some lines, then none, then how many were left out. */
static void
test_log_limit(void)
{
	struct log_limit l = {0};
	unsigned passed = 0, skipped = 0;
	for (unsigned i = 0; i < 1000; i++) {
		passed += log_limit_pass(&l, NSEC_PER_SEC + i, &skipped);
		CU_ASSERT(skipped == 0);
	}
	CU_ASSERT(passed == LOG_BURST);
	CU_ASSERT(log_limit_pass(&l, NSEC_PER_SEC + LOG_BURST_NS, &skipped));
	CU_ASSERT(skipped == 1000 - LOG_BURST);
	CU_ASSERT(log_limit_pass(&l, 1, &skipped) && skipped == 0); /* the clock began anew */
	int fds[2];
	static char text[65536];
	CU_ASSERT(pipe2(fds, O_NONBLOCK) == 0);
	log_set_fd(fds[1]);
	for (unsigned i = 0; i < 200; i++) {
		log_limited(LOG_WARN, "again i=%u", i);
	}
	ssize_t got = read(fds[0], text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	unsigned lines = 0;
	for (const char *at = text; (at = strstr(at, "again i=")) != NULL; at++) {
		lines++;
	}
	CU_ASSERT(lines == LOG_BURST);
	log_set_fd(2);
	close(fds[0]);
	close(fds[1]);
}

static const struct unit_test tests[] = {
    {"mem zeroed", test_mem_zeroed},
    {"mem fails when told", test_mem_fails},
    {"mem life", test_mem_life},
    {"mem double free dies", test_mem_double_free_dies},
    {"err", test_err},
    {"le", test_le},
    {"list", test_list},
    {"log", test_log},
    {"log limit", test_log_limit},
#ifdef AGATE_DEBUG
    {"buggify", test_buggify},
    {"deliberate", test_deliberate},
#endif
};

int
main(int argc, char **argv)
{
	return unit_main("base_mem", tests, ARRAY_LEN(tests), argc, argv);
}
