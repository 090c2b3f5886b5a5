/*
 * rule.c - parsing who a share is for. What can't be parsed is an error that quotes the token;
 * nothing ever means everyone but a literal "*".
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include "nfsd/export.h"

#define RULE_TEXT_MAX 63

static int
rule_bad(const char *text, const char *what, char *why, size_t why_len)
{
	snprintf(why, why_len, "'%s' is not a client: %s", text, what);
	return -EINVAL;
}

/* Clears the bits behind the prefix, so that 10.0.0.5/24 is 10.0.0.0/24. */
static void
rule_mask(struct nfsd_rule *rule)
{
	for (unsigned bit = rule->prefix_bits; bit < 128; bit++) {
		rule->ip[bit / 8] &= (uint8_t) ~(0x80u >> (bit % 8));
	}
}

static bool
rule_parse_prefix(const char *text, unsigned max, unsigned *out)
{
	size_t len = strlen(text);
	if (len < 1 || len > 3 || strspn(text, "0123456789") != len) {
		return false;
	}
	*out = (unsigned)strtoul(text, NULL, 10);
	return *out <= max;
}

int
nfsd_rule_parse(const char *text, struct nfsd_rule *out, char *out_why, size_t why_len)
{
	char host[RULE_TEXT_MAX + 1];
	struct nfsd_rule rule = {.squash = out->squash, .readonly = out->readonly};
	if (strcmp(text, "*") == 0) {
		*out = rule;
		return 0;
	}
	const char *slash = strchr(text, '/');
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
	if (len == 0 || len > RULE_TEXT_MAX) {
		return rule_bad(
		    text, "write an address, a network like 10.0.0.0/24, or *", out_why, why_len);
	}
	memcpy(host, text, len);
	host[len] = '\0';
	if (host[0] == '[' && host[len - 1] == ']') {
		memmove(host, host + 1, len - 2);
		host[len - 2] = '\0';
	}
	struct in_addr v4;
	struct in6_addr v6;
	unsigned bits;
	if (inet_pton(AF_INET, host, &v4) == 1) {
		bits = 32;
		if (slash != NULL && !rule_parse_prefix(slash + 1, 32, &bits)) {
			return rule_bad(text, "an IPv4 prefix is 0 to 32", out_why, why_len);
		}
		bits += NFSD_MAPPED_BITS;
		rule.ip[10] = rule.ip[11] = 0xff;
		memcpy(rule.ip + 12, &v4, 4);
	} else if (inet_pton(AF_INET6, host, &v6) == 1) {
		bits = 128;
		if (slash != NULL && !rule_parse_prefix(slash + 1, 128, &bits)) {
			return rule_bad(text, "an IPv6 prefix is 0 to 128", out_why, why_len);
		}
		memcpy(rule.ip, &v6, 16);
		if (nfsd_is_mapped(rule.ip) && bits < NFSD_MAPPED_BITS) {
			return rule_bad(
			    text, "write an IPv4 network as 10.0.0.0/24", out_why, why_len);
		}
	} else {
		return rule_bad(text, "neither an IPv4 nor an IPv6 address", out_why, why_len);
	}
	if (bits == 0) {
		return rule_bad(text, "write * for everyone", out_why, why_len);
	}
	rule.prefix_bits = (uint8_t)bits;
	rule_mask(&rule);
	*out = rule;
	return 0;
}
