/* admin_request_test.c - the command socket's bytes: requests of any shape get a request or an
 * error, and shares' properties are checked whole. Runs on small stacks, as the engine does. */
#include <pthread.h>
#include "admin/request.h"
#include "admin/shares.h"
#include "tests/lib/unit.h"

static int
decode(const char *line, size_t len, struct adm_error *e)
{
	struct adm_request r;
	*e = (struct adm_error){0};
	int err = adm_request_decode(line, len, &r, e);
	if (err == 0) {
		CU_ASSERT(r.cmd != NULL && json_is_object(r.args));
		adm_request_free(&r);
	} else {
		CU_ASSERT(e->code == -err && e->message[0] != '\0');
		char *text = adm_answer_text(adm_answer(err, NULL, e));
		CU_ASSERT_PTR_NOT_NULL(text);
		mem_free(text);
	}
	return err;
}

static void
test_shapes(void)
{
	static const struct {
		const char *line;
		int err;
	} cases[] = {
	    {"{\"v\":1, \"cmd\":\"pool list\"}", 0},
	    {"{\"v\":1, \"cmd\":\"pool list\", \"args\":{}}", 0},
	    {" {\"v\":1, \"cmd\":\"x\", \"args\":{\"a\":[[1]]}} ", 0},
	    {"", -EINVAL},
	    {" ", -EINVAL},
	    {"null", -EINVAL},
	    {"7", -EINVAL},
	    {"\"pool list\"", -EINVAL},
	    {"[]", -EINVAL},
	    {"[{\"v\":1, \"cmd\":\"pool list\"}]", -EINVAL},
	    {"{}", -EINVAL},
	    {"{\"v\":1}", -EINVAL},
	    {"{\"v\":1, \"cmd\":7}", -EINVAL},
	    {"{\"v\":1, \"cmd\":null}", -EINVAL},
	    {"{\"v\":1, \"cmd\":[\"pool list\"]}", -EINVAL},
	    {"{\"v\":1, \"cmd\":\"x\", \"args\":[]}", -EINVAL},
	    {"{\"v\":1, \"cmd\":\"x\", \"args\":\"y\"}", -EINVAL},
	    {"{\"v\":1, \"cmd\":\"x\", \"args\":null}", -EINVAL},
	    {"{\"v\":2, \"cmd\":\"x\"}", -EPROTO},
	    {"{\"v\":\"1\", \"cmd\":\"x\"}", -EPROTO},
	    {"{\"cmd\":\"x\"}", -EPROTO},
	    {"{\"v\":1, \"v\":1, \"cmd\":\"x\"}", -EINVAL},
	    {"{\"v\":1, \"cmd\":\"x\"} {}", -EINVAL},
	    {"{\"v\":1, \"cmd\":\"x\"", -EINVAL},
	    {"{\"v\":1, \"cmd\":\"\xff\"}", -EINVAL},
	    {"{\"v\":1, \"cmd\":\"x\\u0000y\"}", -EINVAL},
	    {"{\"v\":1e999, \"cmd\":\"x\"}", -EINVAL},
	    {"{\"v\":99999999999999999999, \"cmd\":\"x\"}", -EINVAL},
	    {"GET / HTTP/1.1\r", -EINVAL},
	};
	struct adm_error e;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int err = decode(cases[i].line, strlen(cases[i].line), &e);
		CU_ASSERT_EQUAL(err, cases[i].err);
		if (err != cases[i].err) {
			printf("\n    %s: %d", cases[i].line, err);
		}
	}
	CU_ASSERT_EQUAL(decode("{\"v\":1,\0\"cmd\":\"x\"}", 18, &e), -EINVAL);
}

static void *
deep(void *arg)
{
	struct adm_error *e = arg;
	enum { LEN = 1 << 20 };
	char *line = mem_zalloc(LEN);
	static const char *const units[] = {"[", "{\"a\":", "[{\"a\":[", "{\"a\":{\"b\":["};
	for (size_t u = 0; u < ARRAY_LEN(units); u++) {
		size_t len = 0, unit = strlen(units[u]);
		while (len + unit < LEN) {
			memcpy(line + len, units[u], unit);
			len += unit;
		}
		CU_ASSERT_EQUAL(decode(line, len, e), -EINVAL);
		CU_ASSERT(strstr(e->message, "deep") != NULL);
	}
	/* brackets in strings are text */
	int n = snprintf(line, LEN, "{\"v\":1,\"cmd\":\"");
	memset(line + n, '[', 1000);
	snprintf(line + n + 1000, 100, "\\\"{{{{{{{{{{{{{{{{{{\\\\\"}");
	CU_ASSERT_EQUAL(decode(line, strlen(line), e), 0);
	mem_free(line);
	return NULL;
}

/* On 64 KiB, which is what a fiber has. */
static void
test_depth(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	static struct adm_error e;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	CU_ASSERT_EQUAL(pthread_create(&thread, &attr, deep, &e), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

static uint64_t
next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* Mutations of a good request, and random pieces of JSON: an answer each time, nothing left behind.
 */
static void
test_junk(void)
{
	static const char good[] = "{\"v\":1,\"cmd\":\"pool create\",\"args\":{\"name\":\"tank\","
				   "\"sets\":[{\"kind\":\"raidz1\",\"drives\":[\"d0\",\"d1\"]}],"
				   "\"log_bytes\":-1,\"x\":[true,null,1.5,\"\\u00e4\"]}}";
	static const char *const pieces[] = {"{", "}", "[", "]", ",", ":", "\"v\":1",
	    "\"cmd\":\"x\"", "\"args\":", "1", "-", "1e400", "\"", "\\", "\\u", "\\ud800", "null",
	    "true", " ", "\xc3", "\xa4", "\x01", "{\"v\":1,\"cmd\":\"x\",\"args\":{", "}}"};
	uint64_t s = unit_seed(20260101) | 1, before = mem_live_count(), decoded = 0;
	struct adm_error e;
	char line[1024];
	for (int i = 0; i < 200000; i++) {
		size_t len = sizeof(good) - 1;
		memcpy(line, good, len);
		for (uint64_t k = next(&s) % 4; k > 0; k--) {
			line[next(&s) % len] = (char)next(&s);
		}
		len -= next(&s) % 3 == 0 ? next(&s) % len : 0;
		decoded += decode(line, len, &e) == 0;
		len = 0;
		for (uint64_t k = next(&s) % 12; k > 0; k--) {
			const char *piece = pieces[next(&s) % ARRAY_LEN(pieces)];
			memcpy(line + len, piece, strlen(piece));
			len += strlen(piece);
		}
		decoded += decode(line, len, &e) == 0;
	}
	CU_ASSERT(decoded > 1000);
	CU_ASSERT_EQUAL(mem_live_count(), before);
}

/* The n-th allocation fails: an error, and nothing left behind. */
static void
test_no_memory(void)
{
	static const char good[] = "{\"v\":1,\"cmd\":\"x\",\"args\":{\"a\":[\"b\",{\"c\":1}]}}";
	uint64_t before = mem_live_count();
	bool failed = true;
	for (uint64_t n = 1; failed; n++) {
		struct adm_request r;
		struct adm_error e = {0};
		mem_fail_at(n, false);
		int err = adm_request_decode(good, sizeof(good) - 1, &r, &e);
		mem_fail_at(0, false);
		failed = err != 0;
		if (err == 0) {
			adm_request_free(&r);
		}
		CU_ASSERT_EQUAL(mem_live_count(), before);
		CU_ASSERT_FATAL(n < 200);
	}
}

static void
test_text(void)
{
	struct adm_error e = {0};
	json_t *t = adm_text("gr\xc3\xbcn");
	CU_ASSERT_STRING_EQUAL(json_string_value(t), "gr\xc3\xbcn");
	json_decref(t);
	t = adm_text("a\xff\xc3");
	CU_ASSERT_STRING_EQUAL(json_string_value(t), "a??");
	json_decref(t);
	/* a message cut in the middle of a letter still makes an answer */
	adm_fail(&e, ENOENT, "there is no '%.3s'", "ab\xc3\xa4");
	char *text = adm_answer_text(adm_answer(-ENOENT, NULL, &e));
	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	CU_ASSERT(strstr(text, "there is no 'ab?'") != NULL && strstr(text, "\"ENOENT\"") != NULL);
	mem_free(text);
	adm_fail(&e, ERR_SUSPENDED, "x");
	text = adm_answer_text(adm_answer(-ERR_SUSPENDED, NULL, &e));
	CU_ASSERT(text != NULL && strstr(text, "\"ERR_SUSPENDED\"") != NULL);
	mem_free(text);
}

/* ---- shares ---- */

static json_t *
new_share(void)
{
	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:b}", "id", 1, "path",
	    "/tank/a", "dataset", "tank/a", "subdir", "", "rw", "", "ro", "", "squash",
	    "root_squash", "anonuid", 65534, "anongid", 65534, "insecure", 0);
}

static void
test_share_good(void)
{
	static const char *const props[] = {"rw=10.0.0.0/24,[fd00::]/64", "ro=192.0.2.7,fd01::1",
	    "squash=all_squash", "anonuid=0", "anongid=4294967294", "insecure=on"};
	json_t *share = new_share();
	struct adm_error e = {0};
	struct nfsd_export *x = mem_zalloc(sizeof(*x));
	for (size_t i = 0; i < ARRAY_LEN(props); i++) {
		CU_ASSERT_EQUAL(share_apply(share, props[i], &e), 0);
	}
	CU_ASSERT_EQUAL(share_compile(share, x, &e), 0);
	CU_ASSERT_EQUAL(x->rule_count, 4);
	CU_ASSERT(!x->rules[0].readonly && !x->rules[1].readonly && x->rules[2].readonly);
	CU_ASSERT(x->rules[0].prefix_bits == 96 + 24 && x->rules[1].prefix_bits == 64);
	CU_ASSERT(x->rules[2].prefix_bits == 128 && x->rules[3].prefix_bits == 128);
	CU_ASSERT(x->rules[0].squash == NFSD_ALL_SQUASH && x->insecure);
	CU_ASSERT(x->anon_uid == 0 && x->anon_gid == 4294967294u);
	CU_ASSERT_STRING_EQUAL(x->path, "/tank/a");
	mem_free(x->rules);
	mem_free(x);
	json_decref(share);
}

/* One bad token refuses the whole, is quoted, and never means everyone. */
static void
test_share_bad(void)
{
	static const char *const clients[] = {"", "10.0.0.0/33", "10.0.0.1/", "10.0.0.1/x",
	    "fd00::/129", "10.0.0.1,", ",10.0.0.1", "10.0.0.1,,10.0.0.2", "host.example", "10.0.0",
	    "10.0.0.0.1", "**", "*/0", "[fd00::1", "fd00::1]", "10.0.0.1 ", " *", "0x0a.0.0.1",
	    "1234567890123456789012345678901234567890123456789012345678901234567890"};
	static const char *const props[] = {"", "=", "rw", "rw10", "nosuch=1",
	    "squash=", "squash=no", "anonuid=", "anonuid=-1", "anonuid=4294967295", "anonuid=1x",
	    "insecure=yes", "insecure=", "anongid=99999999999999999999", "id=7", "path=/x",
	    "dataset=x"};
	struct nfsd_export *x = mem_zalloc(sizeof(*x));
	uint64_t before = mem_live_count();
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		for (int readonly = 0; readonly < 2; readonly++) {
			json_t *share = new_share();
			struct adm_error e = {0};
			char prop[200];
			snprintf(prop, sizeof(prop), "%s=%s", readonly ? "ro" : "rw", clients[i]);
			CU_ASSERT_EQUAL(share_apply(share, prop, &e), 0);
			CU_ASSERT_EQUAL(share_compile(share, x, &e), -EINVAL);
			CU_ASSERT(e.message[0] != '\0' && x->rules == NULL);
			json_decref(share);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(props); i++) {
		json_t *share = new_share(), *same = new_share();
		struct adm_error e = {0};
		CU_ASSERT_EQUAL(share_apply(share, props[i], &e), -EINVAL);
		CU_ASSERT(json_equal(share, same));
		json_decref(share);
		json_decref(same);
	}
	CU_ASSERT_EQUAL(mem_live_count(), before);
	mem_free(x);
}

/* A list of shares as a damaged pool might hold it. */
static void
test_share_hostile(void)
{
	static const char *const shares[] = {"{}", "{\"rw\":7}", "{\"rw\":\"*\"}",
	    "{\"rw\":\"*\",\"squash\":\"root_squash\"}",
	    "{\"rw\":\"*\",\"squash\":\"root_squash\",\"path\":[],\"id\":\"x\",\"anonuid\":-5,"
	    "\"dataset\":{},\"insecure\":1}",
	    "{\"rw\":[\"*\"],\"ro\":null}", "[]", "7", "null"};
	struct nfsd_export *x = mem_zalloc(sizeof(*x));
	for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
		json_t *share = json_loads(shares[i], JSON_DECODE_ANY, NULL);
		struct adm_error e = {0};
		int err = share_compile(share, x, &e);
		CU_ASSERT_EQUAL(err == 0, i == 3 || i == 4);
		mem_free(x->rules);
		json_decref(share);
	}
	mem_free(x);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"shapes", test_shapes},
	    {"depth", test_depth},
	    {"junk", test_junk},
	    {"no_memory", test_no_memory},
	    {"text", test_text},
	    {"share_good", test_share_good},
	    {"share_bad", test_share_bad},
	    {"share_hostile", test_share_hostile},
	};
	adm_use_mem();
	return unit_main("admin_request", tests, ARRAY_LEN(tests), argc, argv);
}
