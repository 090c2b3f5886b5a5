/* nfsd_rule_test.c - who a share is for: what doesn't parse never opens it . */
#include "nfsd/export.h"
#include "tests/lib/unit.h"

static bool
parses(const char *text, struct nfsd_rule *out)
{
	char why[200] = "";
	*out = (struct nfsd_rule){.squash = NFSD_ROOT_SQUASH};
	int err = nfsd_rule_parse(text, out, why, sizeof(why));
	if (err != 0) {
		/* it says what was wrong, and leaves the rule alone */
		CU_ASSERT(err == -EINVAL && strstr(why, text) != NULL);
		CU_ASSERT(out->prefix_bits == 0 && out->ip[15] == 0);
	}
	return err == 0;
}

static void
good(void)
{
	static const struct {
		const char *text;
		uint8_t bits;
	} cases[] = {
	    {"*", 0},
	    {"10.0.0.0/24", 120},
	    {"10.0.0.7", 128},
	    {"10.0.0.7/32", 128},
	    {"0.0.0.0/0", 96},
	    {"fd00::/64", 64},
	    {"[fd00::]/64", 64},
	    {"[fd00::1]", 128},
	    {"fd00::1/128", 128},
	    {"::ffff:10.0.0.7", 128},
	    {"fe80::1", 128},
	    {"::ffff:10.0.0.0/120", 120},
	    {"::/8", 8},
	};
	struct nfsd_rule r;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CU_ASSERT(parses(cases[i].text, &r));
		CU_ASSERT(r.prefix_bits == cases[i].bits);
	}
	CU_ASSERT(parses("10.1.2.3/8", &r) && r.ip[12] == 10 && r.ip[13] == 0); /* masked */
}

static void
bad(void)
{
	static const char *const cases[] = {"", " ", "10.0.0.0/33", "10.0.0.1/", "10.0.0.1/-1",
	    "10.0.0.1/ 8", "10.0.0.1/8 ", "10.0.0.1/0x8", "10.0.0.1/255.0.0.0", "10.0.0",
	    "10.0.0.256", "fd00::/129", "fd00::/", "[fd00::", "fd00::]", "[]", "[10.0.0.1", "**",
	    "*/0", "/", "/0", "nosuchhost", "host.example", "10.0.0.1,10.0.0.2", "10.0.0.1/8/8",
	    "fe80::1%eth0", "::/0", "[::]/0", "::ffff:10.0.0.0/24", "::ffff:0:0/95",
	    "0123456789012345678901234567890123456789012345678901234567890123456789"};
	struct nfsd_rule r;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool ok = parses(cases[i], &r);
		if (ok) {
			printf("\n'%s' was taken\n", cases[i]);
		}
		CU_ASSERT(!ok);
	}
}

static struct net_addr
addr(const char *text, uint16_t port)
{
	struct net_addr a;
	CU_ASSERT(net_addr_parse(text, port, &a) == 0);
	return a;
}

static enum export_verdict
check(struct export *e, const char *from, uint16_t port, struct export_access *out)
{
	struct net_addr a = addr(from, port);
	return export_check(e, &a, out);
}

static void
matching(void)
{
	static struct export e;
	struct nfsd_rule rules[3];
	struct export_access a;
	memset(&e, 0, sizeof(e));
	e.spec.rules = rules;
	CU_ASSERT(check(&e, "10.0.0.7", 700, &a) == EXPORT_NO_RULE); /* no rule, nobody */
	CU_ASSERT(parses("10.0.0.7", &rules[0]));
	rules[0].readonly = true;
	CU_ASSERT(parses("10.0.0.0/24", &rules[1]));
	CU_ASSERT(parses("fd00::/64", &rules[2]));
	e.spec.rule_count = 3;
	CU_ASSERT(check(&e, "10.0.0.7", 700, &a) == EXPORT_OK && a.readonly); /* first match */
	CU_ASSERT(check(&e, "10.0.0.8", 700, &a) == EXPORT_OK && !a.readonly);
	CU_ASSERT(check(&e, "::ffff:10.0.0.8", 700, &a) == EXPORT_OK);
	CU_ASSERT(check(&e, "10.0.1.8", 700, &a) == EXPORT_NO_RULE);
	CU_ASSERT(check(&e, "fd00::99", 700, &a) == EXPORT_OK);
	CU_ASSERT(check(&e, "fd00:0:0:1::99", 700, &a) == EXPORT_NO_RULE);
	CU_ASSERT(check(&e, "::1", 700, &a) == EXPORT_NO_RULE);
	CU_ASSERT(parses("::/8", &rules[2])); /* mapped IPv4 addresses lie in it, and don't count */
	CU_ASSERT(check(&e, "::1", 700, &a) == EXPORT_OK);
	CU_ASSERT(check(&e, "10.0.1.8", 700, &a) == EXPORT_NO_RULE);
	CU_ASSERT(parses("*", &rules[2]));
	CU_ASSERT(check(&e, "10.0.1.8", 700, &a) == EXPORT_OK);
	CU_ASSERT(check(&e, "fe80::5", 700, &a) == EXPORT_OK);
	CU_ASSERT(check(&e, "10.0.0.8", 50000, &a) == EXPORT_BAD_PORT);
	e.spec.insecure = true;
	CU_ASSERT(check(&e, "10.0.0.8", 50000, &a) == EXPORT_OK);
}

static void
squashing(void)
{
	static struct export e;
	memset(&e, 0, sizeof(e));
	e.spec.anon_uid = 1001;
	e.spec.anon_gid = 1002;
	struct export_access a = {.squash = NFSD_ROOT_SQUASH};
	struct fs_cred c = {.uid = 0, .gid = 0, .group_count = 2, .groups = {5, 0}};
	export_squash(&e, &a, &c);
	CU_ASSERT(c.uid == 1001 && c.gid == 1002 && c.groups[0] == 5 && c.groups[1] == 1002);
	c = (struct fs_cred){.uid = 7, .gid = 8, .group_count = 1, .groups = {9}};
	export_squash(&e, &a, &c);
	CU_ASSERT(c.uid == 7 && c.gid == 8 && c.groups[0] == 9);
	a.squash = NFSD_ALL_SQUASH;
	export_squash(&e, &a, &c);
	CU_ASSERT(c.uid == 1001 && c.gid == 1002 && c.group_count == 0);
	a.squash = NFSD_NO_ROOT_SQUASH;
	c = (struct fs_cred){.uid = 0, .gid = 0, .group_count = 1, .groups = {0}};
	export_squash(&e, &a, &c);
	CU_ASSERT(c.uid == 0 && c.gid == 0 && c.groups[0] == 0);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"good", good}, {"bad", bad}, {"matching", matching}, {"squashing", squashing}};
	return unit_main("nfsd_rule", tests, ARRAY_LEN(tests), argc, argv);
}
