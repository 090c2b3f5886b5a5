/*
 * nfsd_rpc_test.c - RPC headers and XDR cursors: what is cut short, too long or nonsense is an
 * error and stays in bounds. Messages lie at the end of a malloc block of their
 * exact size, so that a sanitizer sees every byte read too far.
 */
#include "nfsd/rpc.h"
#include "tests/lib/unit.h"

struct msg {
	uint8_t bytes[1024];
	struct xdr_out x;
};

static void
begin(struct msg *m)
{
	m->x = (struct xdr_out){.pos = m->bytes, .end = m->bytes + sizeof(m->bytes)};
}

static uint32_t
len_of(const struct msg *m)
{
	return (uint32_t)(m->x.pos - m->bytes);
}

/* A call with an AUTH_SYS credential of body_len declared bytes, gids of them and 3 words of
 * arguments. */
static void
put_call(struct msg *m, uint32_t gids)
{
	begin(m);
	xdr_put_u32(&m->x, 0x1234);
	xdr_put_u32(&m->x, 0);
	xdr_put_u32(&m->x, 2);
	xdr_put_u32(&m->x, 100003);
	xdr_put_u32(&m->x, 3);
	xdr_put_u32(&m->x, 1);
	xdr_put_u32(&m->x, RPC_AUTH_SYS);
	xdr_put_u32(&m->x, 4 + 4 + 8 + 4 + 4 + 4 + 4 * gids);
	xdr_put_u32(&m->x, 77);
	xdr_put_opaque(&m->x, "machine", 7);
	xdr_put_u32(&m->x, 1001);
	xdr_put_u32(&m->x, 1002);
	xdr_put_u32(&m->x, gids);
	for (uint32_t i = 0; i < gids; i++) {
		xdr_put_u32(&m->x, 2000 + i);
	}
	xdr_put_u32(&m->x, RPC_AUTH_NONE);
	xdr_put_u32(&m->x, 0);
	for (uint32_t i = 0; i < 3; i++) {
		xdr_put_u32(&m->x, i);
	}
}

static enum rpc_decode
decode(const uint8_t *bytes, uint32_t len, struct rpc_call *out, enum rpc_auth_stat *auth)
{
	uint8_t *exact = malloc(len + (len == 0));
	if (exact == NULL) {
		abort();
	}
	memcpy(exact, bytes, len);
	enum rpc_decode how = rpc_decode_call(exact, len, out, auth);
	if (how == RPC_DECODE_OK) {
		/* the arguments must lie within */
		CU_ASSERT(out->args.pos >= exact && out->args.end == exact + len);
		CU_ASSERT(out->args.pos <= out->args.end);
	}
	free(exact);
	return how;
}

static void
whole_calls(void)
{
	struct msg m;
	struct rpc_call c;
	enum rpc_auth_stat auth = RPC_AUTH_OK;
	for (uint32_t gids = 0; gids <= 16; gids++) {
		put_call(&m, gids);
		CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_OK);
		CU_ASSERT(c.xid == 0x1234 && c.prog == 100003 && c.vers == 3 && c.proc == 1);
		CU_ASSERT(c.flavor == RPC_AUTH_SYS && c.cred.uid == 1001 && c.cred.gid == 1002);
		CU_ASSERT(c.cred.group_count == gids);
		CU_ASSERT(gids == 0 || c.cred.groups[gids - 1] == 2000 + gids - 1);
	}
}

static void
truncated_calls(void)
{
	struct msg m;
	struct rpc_call c;
	enum rpc_auth_stat auth;
	put_call(&m, 16);
	uint32_t args = len_of(&m) - 12;
	for (uint32_t len = 0; len < args; len++) {
		CU_ASSERT(decode(m.bytes, len, &c, &auth) != RPC_DECODE_OK);
	}
	for (uint32_t len = args; len <= len_of(&m); len++) {
		CU_ASSERT(decode(m.bytes, len, &c, &auth) == RPC_DECODE_OK);
	}
}

static void
set32(struct msg *m, uint32_t off, uint32_t v)
{
	xdr_store32(m->bytes + off, v);
}

#define OFF_KIND 4u
#define OFF_RPCVERS 8u
#define OFF_FLAVOR 24u
#define OFF_CRED_LEN 28u
#define OFF_NAME_LEN 36u
#define OFF_GIDS 56u
#define OFF_VERF_LEN 64u /* with no gids */

static void
bad_headers(void)
{
	struct msg m;
	struct rpc_call c;
	enum rpc_auth_stat auth;
	put_call(&m, 0);
	set32(&m, OFF_KIND, 1);
	CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_DROP);
	static const uint32_t versions[] = {0, 1, 3, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		put_call(&m, 0);
		set32(&m, OFF_RPCVERS, versions[i]);
		CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_RPC_MISMATCH);
		CU_ASSERT(c.xid == 0x1234);
	}
	static const uint32_t flavors[] = {2, 3, 4, 6, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_LEN(flavors); i++) {
		put_call(&m, 0);
		set32(&m, OFF_FLAVOR, flavors[i]);
		CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_AUTH_ERROR);
		CU_ASSERT(auth == RPC_AUTH_REJECTEDCRED);
	}
}

static void
bad_credentials(void)
{
	static const struct {
		uint32_t off, value;
		enum rpc_auth_stat want;
	} cases[] = {
	    {OFF_CRED_LEN, 401, RPC_AUTH_BADCRED},
	    {OFF_CRED_LEN, 0x7ffffffc, RPC_AUTH_BADCRED},
	    {OFF_CRED_LEN, UINT32_MAX, RPC_AUTH_BADCRED},
	    {OFF_NAME_LEN, 256, RPC_AUTH_BADCRED},
	    {OFF_NAME_LEN, UINT32_MAX, RPC_AUTH_BADCRED},
	    {OFF_GIDS, 1, RPC_AUTH_BADCRED},
	    {OFF_GIDS, 17, RPC_AUTH_BADCRED},
	    {OFF_GIDS, 0x40000001, RPC_AUTH_BADCRED},
	    {OFF_VERF_LEN, 401, RPC_AUTH_BADVERF},
	    {OFF_VERF_LEN, UINT32_MAX, RPC_AUTH_BADVERF},
	};
	struct rpc_call c;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct msg m;
		enum rpc_auth_stat auth = RPC_AUTH_OK;
		put_call(&m, 0);
		set32(&m, cases[i].off, cases[i].value);
		CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_AUTH_ERROR);
		CU_ASSERT(auth == cases[i].want);
	}
	/* a credential whose body is longer or shorter than its contents */
	struct msg m;
	enum rpc_auth_stat auth = RPC_AUTH_OK;
	put_call(&m, 2);
	set32(&m, OFF_GIDS, 1);
	CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_AUTH_ERROR);
	put_call(&m, 1);
	set32(&m, OFF_GIDS, 2);
	CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_AUTH_ERROR);
	put_call(&m, 17);
	CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_AUTH_ERROR);
}

static void
auth_none(void)
{
	struct msg m;
	struct rpc_call c;
	enum rpc_auth_stat auth;
	begin(&m);
	xdr_put_u32(&m.x, 1);
	xdr_put_u32(&m.x, 0);
	xdr_put_u32(&m.x, 2);
	xdr_put_u32(&m.x, 100003);
	xdr_put_u32(&m.x, 3);
	xdr_put_u32(&m.x, 0);
	xdr_put_u64(&m.x, 0);
	xdr_put_u64(&m.x, 0);
	CU_ASSERT(decode(m.bytes, len_of(&m), &c, &auth) == RPC_DECODE_OK);
	CU_ASSERT(c.flavor == RPC_AUTH_NONE && c.cred.uid == 65534 && c.cred.group_count == 0);
}

static void
junk(void)
{
	unsigned state = (unsigned)unit_seed(7);
	for (unsigned i = 0; i < 200000; i++) {
		struct msg m;
		struct rpc_call c;
		enum rpc_auth_stat auth;
		put_call(&m, i % 17);
		for (unsigned k = 0; k < 1 + i % 5; k++) {
			state = state * 1103515245u + 12345u;
			unsigned at = (state >> 8) % len_of(&m);
			state = state * 1103515245u + 12345u;
			m.bytes[at] = (uint8_t)(state >> 16);
		}
		state = state * 1103515245u + 12345u;
		(void)decode(m.bytes, len_of(&m) - (state >> 20) % 3, &c, &auth);
	}
}

static void
cursors(void)
{
	uint8_t b[64];
	struct xdr_out o = {.pos = b, .end = b + sizeof(b)};
	uint32_t len;
	xdr_put_u32(&o, 0xdeadbeef);
	xdr_put_u64(&o, 0x0123456789abcdefull);
	xdr_put_opaque(&o, "abcde", 5);
	CU_ASSERT(o.pos == b + 4 + 8 + 4 + 8 && !o.full);
	CU_ASSERT(b[21] == 0 && b[22] == 0 && b[23] == 0); /* padding is zero */
	struct xdr_in x = {.pos = b, .end = o.pos};
	CU_ASSERT(xdr_get_u32(&x) == 0xdeadbeef);
	CU_ASSERT(xdr_get_u64(&x) == 0x0123456789abcdefull);
	const uint8_t *p = xdr_get_opaque(&x, 5, &len);
	CU_ASSERT(len == 5 && p != NULL && memcmp(p, "abcde", 5) == 0 && !x.bad);
	CU_ASSERT(xdr_get_u32(&x) == 0 && x.bad);
	x = (struct xdr_in){.pos = b + 12, .end = o.pos};
	CU_ASSERT(xdr_get_opaque(&x, 4, &len) == NULL && x.bad && len == 0); /* over its maximum */
	x = (struct xdr_in){.pos = b + 12, .end = o.pos - 1};
	CU_ASSERT(xdr_get_opaque(&x, 64, &len) == NULL && x.bad); /* its padding isn't there */
	xdr_store32(b, UINT32_MAX);
	x = (struct xdr_in){.pos = b, .end = b + 64};
	CU_ASSERT(xdr_get_opaque(&x, UINT32_MAX, &len) == NULL && x.bad);
	xdr_store32(b, 2);
	x = (struct xdr_in){.pos = b, .end = b + 64};
	CU_ASSERT(!xdr_get_bool(&x) && x.bad);
	o = (struct xdr_out){.pos = b, .end = b + 7};
	xdr_put_u64(&o, 1);
	CU_ASSERT(o.full && o.pos <= b + 7);
}

static void
replies(void)
{
	uint8_t b[64];
	struct xdr_out o = {.pos = b, .end = b + sizeof(b)};
	rpc_put_accepted(&o, 9, RPC_PROC_UNAVAIL);
	CU_ASSERT(o.pos - b == RPC_REPLY_HEAD_BYTES);
	rpc_put_mark(b, RPC_REPLY_HEAD_BYTES - 4);
	CU_ASSERT(xdr_load32(b) == (0x80000000u | (RPC_REPLY_HEAD_BYTES - 4)));
	CU_ASSERT(xdr_load32(b + 4) == 9 && xdr_load32(b + 8) == 1 && xdr_load32(b + 12) == 0);
	CU_ASSERT(xdr_load32(b + 24) == RPC_PROC_UNAVAIL);
	o.pos = b;
	rpc_put_rpc_mismatch(&o, 9);
	CU_ASSERT(o.pos - b == 28 && xdr_load32(b + 12) == 1 && xdr_load32(b + 16) == 0);
	CU_ASSERT(xdr_load32(b + 20) == 2 && xdr_load32(b + 24) == 2);
	o.pos = b;
	rpc_put_auth_error(&o, 9, RPC_AUTH_BADCRED);
	CU_ASSERT(xdr_load32(b + 16) == 1 && xdr_load32(b + 20) == RPC_AUTH_BADCRED);
	o.pos = b;
	rpc_put_prog_mismatch(&o, 9, 1, 3);
	CU_ASSERT(xdr_load32(b + 24) == RPC_PROG_MISMATCH && xdr_load32(b + 28) == 1 &&
		  xdr_load32(b + 32) == 3);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"whole_calls", whole_calls},
	    {"truncated_calls", truncated_calls},
	    {"bad_headers", bad_headers},
	    {"bad_credentials", bad_credentials},
	    {"auth_none", auth_none},
	    {"junk", junk},
	    {"cursors", cursors},
	    {"replies", replies},
	};
	return unit_main("nfsd_rpc", tests, ARRAY_LEN(tests), argc, argv);
}
