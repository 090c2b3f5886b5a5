/* cli_test.c - agate without a daemon: lines to words, ranges, sizes, tables, options, and what is
 * refused before anything is sent. */
#include "base/size.h"
#include "cli/cli.h"
#include "cli/option.h"
#include "tests/lib/unit.h"

/* What fn prints on fd (1 or 2); static. */
static const char *
printed(int fd, void (*fn)(void *arg), void *arg)
{
	static char text[65536];
	FILE *f = tmpfile();
	fflush(NULL);
	int saved = dup(fd);
	dup2(fileno(f), fd);
	fn(arg);
	fflush(NULL);
	dup2(saved, fd);
	close(saved);
	rewind(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

/* ---- words ---- */

static void
check_split(const char *line, int max, int expected, const char *joined)
{
	char copy[512], *words[16], got[512] = "";
	snprintf(copy, sizeof(copy), "%s", line);
	int count = words_split(copy, words, max);
	CU_ASSERT_EQUAL(count, expected);
	for (int i = 0; i < count; i++) {
		strncat(got, i > 0 ? "|" : "", sizeof(got) - strlen(got) - 1);
		strncat(got, words[i], sizeof(got) - strlen(got) - 1);
	}
	CU_ASSERT_STRING_EQUAL(got, joined);
}

static void
test_split(void)
{
	check_split("", 16, 0, "");
	check_split(" \t\n", 16, 0, "");
	check_split("pool create tank", 16, 3, "pool|create|tank");
	check_split("  a  'b c'  \"d e\"f g\\ h\n", 16, 4, "a|b c|d ef|g h");
	check_split("a '' b", 16, 3, "a||b");
	check_split("a # b c", 16, 1, "a");
	check_split("a#b", 16, 1, "a#b");
	check_split("'a\\b' \"a\\\"b\"", 16, 2, "a\\b|a\"b");
	check_split("a\\", 16, 1, "a\\");
	check_split("a 'b", 16, WORDS_OPEN_QUOTE, "");
	check_split("a \"b\\\"", 16, WORDS_OPEN_QUOTE, "");
	check_split("a b c", 3, 3, "a|b|c");
	check_split("a b c d", 3, WORDS_TOO_MANY, "");
	check_split("a b c # d", 3, 3, "a|b|c");
}

static void
check_expand(const char *word, const char *joined)
{
	json_t *list = json_array(), *name;
	char got[512] = "";
	size_t i;
	bool good = words_expand(word, list);
	CU_ASSERT_EQUAL(good, joined != NULL);
	json_array_foreach(list, i, name)
	{
		strncat(got, i > 0 ? "|" : "", sizeof(got) - strlen(got) - 1);
		strncat(got, json_string_value(name), sizeof(got) - strlen(got) - 1);
	}
	if (joined != NULL) {
		CU_ASSERT_STRING_EQUAL(got, joined);
	}
	json_decref(list);
}

static void
test_expand(void)
{
	check_expand("d0.img", "d0.img");
	check_expand("d[0-2].img", "d0.img|d1.img|d2.img");
	check_expand("d[9-11]", "d9|d10|d11");
	check_expand("d[09-11]", "d09|d10|d11");
	check_expand("d[008-010]x", "d008x|d009x|d010x");
	check_expand("a[0-1]b[0-1]", "a0b0|a0b1|a1b0|a1b1");
	check_expand("d[5-5]", "d5");
	static const char *const bad[] = {"d[", "d[]", "d[-]", "d[1]", "d[1-]", "d[-1-3]", "d[2-1]",
	    "d[ 1-2]", "d[+1-2]", "d[1-2", "d[a-b]", "d[0-1024]", "d[0-99999999999999999999]",
	    "d[0-99][0-99]", "d[0-1]["};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		check_expand(bad[i], NULL);
	}
	char long_name[700];
	memset(long_name, 'x', sizeof(long_name));
	snprintf(long_name + 600, 100, "[0-1]");
	check_expand(long_name, NULL);
	json_t *list = json_array();
	CU_ASSERT(words_expand("d[0-1023]", list));
	CU_ASSERT_EQUAL(json_array_size(list), 1024);
	CU_ASSERT(!words_expand("one-more", list));
	json_decref(list);
}

/* ---- values ---- */

static void
test_sizes(void)
{
	static const struct {
		const char *text;
		bool good;
		uint64_t value;
	} cases[] = {{"0", true, 0}, {"4096", true, 4096}, {"64K", true, 65536},
	    {"64k", true, 65536}, {"25G", true, (uint64_t)25 << 30},
	    {"1T", true, (uint64_t)1 << 40}, {"8388607T", true, (uint64_t)8388607 << 40},
	    {"8388608T", false, 0}, {"", false, 0}, {"G", false, 0}, {"-1", false, 0},
	    {" 1", false, 0}, {"1 ", false, 0}, {"1GB", true, (uint64_t)1 << 30}, {"1x", false, 0},
	    {"1.5G", false, 0}, {"0x10", false, 0}, {"1e3", false, 0},
	    {"18446744073709551616", false, 0}, {"9223372036854775807", true, INT64_MAX},
	    {"1\xc3\xa4", false, 0}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t value = 77;
		bool good = size_parse(cases[i].text, &value) == 0;
		CU_ASSERT_EQUAL(good, cases[i].good);
		CU_ASSERT_EQUAL(value, cases[i].good ? cases[i].value : 77);
	}
}

static void
test_counts(void)
{
	unsigned n = 77;
	CU_ASSERT(option_count("rewind=1", "rewind=", 64, &n) && n == 1);
	CU_ASSERT(option_count("rewind=64", "rewind=", 64, &n) && n == 64);
	static const char *const bad[] = {"rewind=", "rewind=0", "rewind=65", "rewind=-1",
	    "rewind=1x", "rewind= 1", "rewine=1", "rew", "", "rewind=99999999999999999999"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		n = 77;
		CU_ASSERT(!option_count(bad[i], "rewind=", 64, &n));
		CU_ASSERT_EQUAL(n, 77);
	}
}

static void
check_size(uint64_t bytes, bool exact, const char *expected)
{
	char text[32];
	print_size(bytes, exact, text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, expected);
}

static void
test_print_size(void)
{
	check_size(0, false, "0B");
	check_size(1023, false, "1023B");
	check_size(1024, false, "1.00K");
	check_size(1536, false, "1.50K");
	check_size((uint64_t)99 << 20, false, "99.0M");
	check_size((uint64_t)999 << 30, false, "999G");
	check_size(UINT64_MAX, false, "16.0E");
	check_size(1536, true, "1536");
	check_size(UINT64_MAX, true, "18446744073709551615");
}

/* ---- tables ---- */

struct table {
	struct cli_args args;
	json_t *rows;
};

static void
show_table(void *arg)
{
	static const struct column columns[] = {{"NAME", "name", COLUMN_TEXT},
	    {"SIZE", "size", COLUMN_SIZE}, {"N", "n", COLUMN_COUNT}, {"ON", "on", COLUMN_FLAG},
	    {"WHEN", "when", COLUMN_TIME}, {"NOTE", "note", COLUMN_TEXT}};
	struct table *t = arg;
	print_table(&t->args, t->rows, columns, ARRAY_LEN(columns));
}

static void
test_table(void)
{
	char wide[501];
	memset(wide, 'w', 500);
	wide[500] = '\0';
	struct table t = {.rows = json_pack("[{s:s, s:i, s:i, s:b, s:i, s:s}, {s:s, s:i}]", "name",
			      "tank", "size", 2048, "n", 3, "on", 1, "when", 0, "note", "a\033b\tc",
			      "name", "gr\xc3\xbcn", "size", 1)};
	setenv("TZ", "UTC", 1);
	CU_ASSERT_STRING_EQUAL(printed(1, show_table, &t),
	    "NAME   SIZE  N  ON   WHEN              NOTE\n"
	    "tank  2.00K  3  yes  1970-01-01 00:00  a?b?c\n"
	    "gr\xc3\xbcn     1B  0  no   1970-01-01 00:00  -\n");
	t.args.bare = t.args.exact = true;
	CU_ASSERT_STRING_EQUAL(printed(1, show_table, &t),
	    "tank\t2048\t3\tyes\t0\ta?b?c\ngr\xc3\xbcn\t1\t0\tno\t0\t-\n");
	json_object_set_new(json_array_get(t.rows, 0), "name", json_string(wide));
	const char *text = printed(1, show_table, &t);
	CU_ASSERT(strncmp(text, wide, 500) == 0 && text[500] == '\t');
	json_decref(t.rows);
	t.rows = json_pack("[{s:[], s:s, s:n, s:{}}]", "name", "size", "x", "n", "on");
	CU_ASSERT_STRING_EQUAL(printed(1, show_table, &t), "-\t0\t0\tno\t0\t-\n");
	json_decref(t.rows);
}

/* ---- commands that are refused before anything is sent ---- */

struct line {
	const char *text;
	int status;
};

static void
run_line(void *arg)
{
	struct line *l = arg;
	char copy[512], *words[64];
	snprintf(copy, sizeof(copy), "%s", l->text);
	int count = words_split(copy, words, 64);
	l->status = cli_run_words(count, words);
}

static void
test_usage(void)
{
	static const char *const bad[] = {"bogus", "pool", "pool bogus", "help bogus",
	    "pool create", "pool create tank", "pool create -x tank d0", "pool create tank raidz1",
	    "pool create tank raidz1 log d0", "pool create tank log d0", "pool create tank d[1-",
	    "pool create tank raidz1 d[3-1]", "pool create -o logsize=x tank d0",
	    "pool create -o nosuch=1 tank d0", "pool create -o logsize tank d0",
	    "pool create tank d0 -o", "pool destroy", "pool destroy -q tank", "pool destroy a b",
	    "pool export", "pool import -o rewind=0 tank", "pool import -o rewind=x tank",
	    "pool import -o what=1 tank", "pool import a b c", "pool check", "pool list a b",
	    "fs create", "fs create a b", "fs create -o tank/x", "fs destroy", "fs get all",
	    "fs set x tank", "fs set =1 tank", "share create", "share create /a /b",
	    "share set /tank/a", "share remove", "share list x", "disk list x", "system status x",
	    "fs snapshot", "fs snapshot a b", "fs list -t x", "fs list -o x", "fs list -o name,",
	    "fs list -s", "fs list -s x", "fs hold a", "fs holds", "fs rollback",
	    "fs rollback --keep-as", "fs rollback --keep x a@b", "fs clone a@b", "fs promote",
	    "fs rename a", "pool upgrade", "schedule create hourly",
	    "schedule create -o keep=0 hourly a", "schedule create -o keep=x hourly a",
	    "schedule create -o x=1 hourly a", "schedule remove hourly", "schedule pause hourly",
	    "schedule list x", "fs list --json", "pool create t\xff d0", "fs create tank/\xc3"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct line l = {.text = bad[i]};
		const char *said = printed(2, run_line, &l);
		bool silent = strcmp(bad[i], "pool") == 0; /* shows its help on stdout */
		CU_ASSERT_EQUAL(l.status, CLI_USAGE);
		CU_ASSERT(silent || strncmp(said, "agate: ", 7) == 0);
		if (l.status != CLI_USAGE) {
			printf("\n    not refused: %s", bad[i]);
		}
	}
}

static void
test_help(void)
{
	struct line l = {.text = "help"};
	const char *text = printed(1, run_line, &l);
	CU_ASSERT_EQUAL(l.status, CLI_OK);
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		char name[64];
		snprintf(name, sizeof(name), "%s %s", v->noun, v->verb);
		CU_ASSERT(strstr(text, name) != NULL);
		CU_ASSERT(v->words_min <= v->words_max && v->help[0] != '\0');
	}
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		char words[64];
		snprintf(words, sizeof(words), "%s %s --help", v->noun, v->verb);
		l.text = words;
		text = printed(1, run_line, &l);
		CU_ASSERT_EQUAL(l.status, CLI_OK);
		CU_ASSERT(strstr(text, v->synopsis) != NULL);
	}
}

static void
test_unreachable(void)
{
	struct line l = {.text = "pool list"};
	setenv("AGATE_SOCKET", "/nonexistent/agate.sock", 1);
	const char *said = printed(2, run_line, &l);
	CU_ASSERT_EQUAL(l.status, CLI_UNREACHABLE);
	CU_ASSERT(strstr(said, "/nonexistent/agate.sock") != NULL);
	l.text = "pool destroy tank";
	int null = open("/dev/null", O_RDONLY), saved = dup(0);
	dup2(null, 0);
	said = printed(2, run_line, &l);
	dup2(saved, 0);
	close(null);
	close(saved);
	CU_ASSERT_EQUAL(l.status, CLI_FAILED); /* asked, not confirmed: nothing was even sent */
	CU_ASSERT(strstr(said, "Nothing was destroyed") != NULL);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"split", test_split},
	    {"expand", test_expand},
	    {"sizes", test_sizes},
	    {"counts", test_counts},
	    {"print_size", test_print_size},
	    {"table", test_table},
	    {"usage", test_usage},
	    {"help", test_help},
	    {"unreachable", test_unreachable},
	};
	return unit_main("cli", tests, ARRAY_LEN(tests), argc, argv);
}
