/* fs_prop_value.c - the table of properties: how each is written, what it means as a number, what
 * it is when nobody set it. */
#include <stdio.h>
#include <stdlib.h>
#include "base/size.h"
#include "fs/fs_int.h"

static int
refuse(char *why, size_t why_len, const char *text, const char *want)
{
	(void)snprintf(why, why_len, "'%.40s' is not valid; use %s", text, want);
	return -EINVAL;
}

struct choice {
	const char *text, *canonical;
	uint64_t number;
};

static int
choose(const struct choice *c, size_t count, const char *text, char *out, size_t out_len,
    uint64_t *out_number)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(c[i].text, text) == 0) {
			(void)snprintf(out, out_len, "%s", c[i].canonical);
			*out_number = c[i].number;
			return 0;
		}
	}
	return -ENOENT;
}

/* number: algorithm << 8 | level */
static int
parse_compression(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	static const struct choice choices[] = {{"off", "off", BP_COMPRESS_OFF << 8},
	    {"on", "on", BP_COMPRESS_LZ4 << 8}, {"lz4", "lz4", BP_COMPRESS_LZ4 << 8},
	    {"zstd", "zstd", BP_COMPRESS_ZSTD << 8 | 3}};
	if (choose(choices, ARRAY_LEN(choices), text, out, out_len, out_number) == 0) {
		return 0;
	}
	if (strncmp(text, "zstd-", 5) == 0 && text[5] >= '1' && text[5] <= '9') {
		char *end;
		unsigned long level = strtoul(text + 5, &end, 10);
		if (*end == 0 && level <= 19) {
			(void)snprintf(out, out_len, "zstd-%lu", level);
			*out_number = (uint64_t)BP_COMPRESS_ZSTD << 8 | level;
			return 0;
		}
	}
	return refuse(why, why_len, text, "off, on, lz4, zstd or zstd-1 to zstd-19");
}

static int
parse_checksum(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	static const struct choice choices[] = {{"on", "on", BP_CKSUM_XXH3},
	    {"xxh3", "xxh3", BP_CKSUM_XXH3}, {"blake2b", "blake2b", BP_CKSUM_BLAKE2B}};
	int err = choose(choices, ARRAY_LEN(choices), text, out, out_len, out_number);
	return err == 0 ? 0 : refuse(why, why_len, text, "on, xxh3 or blake2b");
}

static int
parse_atime(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	static const struct choice choices[] = {{"off", "off", FS_ATIME_OFF},
	    {"on", "on", FS_ATIME_ON}, {"relatime", "relatime", FS_ATIME_RELATIME}};
	int err = choose(choices, ARRAY_LEN(choices), text, out, out_len, out_number);
	return err == 0 ? 0 : refuse(why, why_len, text, "off, on or relatime");
}

static int
parse_sync(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	static const struct choice choices[] = {{"standard", "standard", FS_SYNC_STANDARD},
	    {"always", "always", FS_SYNC_ALWAYS}, {"disabled", "disabled", FS_SYNC_DISABLED}};
	int err = choose(choices, ARRAY_LEN(choices), text, out, out_len, out_number);
	return err == 0 ? 0 : refuse(why, why_len, text, "standard, always or disabled");
}

static int
parse_onoff(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	static const struct choice choices[] = {{"off", "off", 0}, {"on", "on", 1}};
	int err = choose(choices, ARRAY_LEN(choices), text, out, out_len, out_number);
	return err == 0 ? 0 : refuse(why, why_len, text, "on or off");
}

static int
parse_snapdir(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	static const struct choice choices[] = {{"hidden", "hidden", 0}, {"visible", "visible", 1}};
	int err = choose(choices, ARRAY_LEN(choices), text, out, out_len, out_number);
	return err == 0 ? 0 : refuse(why, why_len, text, "hidden or visible");
}

static int
parse_recordsize(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	uint64_t n;
	bool ok = size_parse(text, &n) == 0 && n >= 4 * KIB && n <= MIB && (n & (n - 1)) == 0;
	if (!ok) {
		return refuse(why, why_len, text, "a power of two from 4K to 1M");
	}
	if (n == MIB) {
		(void)snprintf(out, out_len, "1M");
	} else {
		(void)snprintf(out, out_len, "%lluK", (unsigned long long)(n / KIB));
	}
	*out_number = n;
	return 0;
}

/* "none", or a size. */
static int
parse_limit(
    const char *text, char *out, size_t out_len, uint64_t *out_number, char *why, size_t why_len)
{
	uint64_t n = 0;
	if (strcmp(text, "none") != 0 && size_parse(text, &n) != 0) {
		return refuse(why, why_len, text, "none or a size such as 500M or 2T");
	}
	if (n == 0) {
		(void)snprintf(out, out_len, "none");
	} else {
		(void)snprintf(out, out_len, "%llu", (unsigned long long)n);
	}
	*out_number = n;
	return 0;
}

uint64_t *
prop_limit(const char *name, struct pool_limits *l)
{
	return strcmp(name, "quota") == 0            ? &l->quota
	       : strcmp(name, "refquota") == 0       ? &l->refquota
	       : strcmp(name, "reservation") == 0    ? &l->reservation
	       : strcmp(name, "refreservation") == 0 ? &l->refreservation
						     : NULL;
}

static const struct prop_def defs[] = {
    {"type", NULL, NULL, false},
    {"creation", NULL, NULL, true},
    {"used", NULL, NULL, true},
    {"available", NULL, NULL, true},
    {"referenced", NULL, NULL, true},
    {"logicalused", NULL, NULL, true},
    {"written", NULL, NULL, true},
    {"compressratio", NULL, NULL, false},
    {"recordsize", "128K", parse_recordsize, true},
    {"compression", "on", parse_compression, false},
    {"checksum", "on", parse_checksum, false},
    {"atime", "off", parse_atime, false},
    {"sync", "standard", parse_sync, false},
    {"readonly", "off", parse_onoff, false},
    {"protected", "off", parse_onoff, false},
    {"snapdir", "hidden", parse_snapdir, false},
    {"quota", "none", parse_limit, true},
    {"refquota", "none", parse_limit, true},
    {"reservation", "none", parse_limit, true},
    {"refreservation", "none", parse_limit, true},
    {"defaultuserquota", "none", parse_limit, true},
    {"defaultgroupquota", "none", parse_limit, true},
    {"defaultuserobjquota", "none", parse_limit, true},
    {"defaultgroupobjquota", "none", parse_limit, true},
    {"usedbydataset", NULL, NULL, true},
    {"usedbysnapshots", NULL, NULL, true},
    {"usedbychildren", NULL, NULL, true},
    {"usedbyrefreservation", NULL, NULL, true},
    {"pendingfree", NULL, NULL, true},
    {"guid", NULL, NULL, true},
};

const struct prop_def *
prop_at(uint32_t index)
{
	return index < ARRAY_LEN(defs) ? &defs[index] : NULL;
}

const struct prop_def *
prop_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(defs); i++) {
		if (strcmp(defs[i].name, name) == 0) {
			return &defs[i];
		}
	}
	return NULL;
}

uint32_t
fs_prop_count(void)
{
	return ARRAY_LEN(defs);
}

const char *
fs_prop_name(uint32_t index)
{
	return index < ARRAY_LEN(defs) ? defs[index].name : NULL;
}
