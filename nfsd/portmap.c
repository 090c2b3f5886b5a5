/*
 * portmap.c - where our programs are: port mapper version 2 (RFC 1833 3) and the look-ups of
 * rpcbind versions 3 and 4 (RFC 1833 2). We register nothing for others: SET and UNSET answer
 * false.
 */
#include <stdio.h>
#include "nfsd/nfsd_int.h"

/* Versions 3 and 4 use the numbers of GETPORT and DUMP for GETADDR and DUMP. */
enum { PMAP_NULL = 0, PMAP_SET = 1, PMAP_UNSET = 2, PMAP_GETPORT = 3, PMAP_DUMP = 4, RPCB_GETVERSADDR = 9 };
enum { PROTO_TCP = 6, PROTO_UDP = 17 };
#define RPCB_STRING_MAX 256u

struct served {
	uint32_t prog, vers, proto;
	uint16_t port;
};
#define SERVED_MAX 12

static uint32_t
portmap_served(const struct nfsd *n, struct served out[SERVED_MAX])
{
	uint32_t count = 0;
	out[count++] = (struct served){100003, 3, PROTO_TCP, n->nfs_port};
	for (uint32_t vers = 1; vers <= 3; vers += 2) {
		out[count++] = (struct served){100005, vers, PROTO_TCP, n->mount_port};
		out[count++] = (struct served){100005, vers, PROTO_UDP, n->mount_port};
	}
	for (uint32_t vers = 2; vers <= 4; vers++) {
		out[count++] = (struct served){100000, vers, PROTO_TCP, n->portmap_port};
		out[count++] = (struct served){100000, vers, PROTO_UDP, n->portmap_port};
	}
	return count;
}

static uint16_t
portmap_find(const struct nfsd *n, uint32_t prog, uint32_t vers, uint32_t proto)
{
	struct served list[SERVED_MAX];
	uint32_t count = portmap_served(n, list);
	for (uint32_t i = 0; i < count; i++) {
		if (list[i].prog == prog && list[i].vers == vers && list[i].proto == proto) {
			return list[i].port;
		}
	}
	return 0;
}

static void
portmap_getport(struct request *r)
{
	uint32_t prog = xdr_get_u32(&r->call.args), vers = xdr_get_u32(&r->call.args);
	uint32_t proto = xdr_get_u32(&r->call.args);
	(void)xdr_get_u32(&r->call.args);
	if (r->call.args.bad) {
		r->accept = RPC_GARBAGE_ARGS;
		return;
	}
	xdr_put_u32(&r->out, portmap_find(r->n, prog, vers, proto));
}

static void
portmap_universal_address(uint16_t port, char out[32])
{
	snprintf(out, 32, "0.0.0.0.%u.%u", port >> 8, port & 0xff);
}

/* GETADDR and GETVERSADDR: an address as text, empty for what isn't served. */
static void
portmap_getaddr(struct request *r)
{
	struct xdr_in *x = &r->call.args;
	uint32_t len;
	uint32_t prog = xdr_get_u32(x), vers = xdr_get_u32(x);
	const uint8_t *netid = xdr_get_opaque(x, RPCB_STRING_MAX, &len);
	if (x->bad) {
		r->accept = RPC_GARBAGE_ARGS;
		return;
	}
	uint32_t proto = 0;
	if (len >= 3 && memcmp(netid, "tcp", 3) == 0) {
		proto = PROTO_TCP;
	} else if (len >= 3 && memcmp(netid, "udp", 3) == 0) {
		proto = PROTO_UDP;
	}
	char address[32] = "";
	uint16_t port = portmap_find(r->n, prog, vers, proto);
	if (port != 0) {
		portmap_universal_address(port, address);
	}
	xdr_put_opaque(&r->out, address, (uint32_t)strlen(address));
}

static void
portmap_dump(struct request *r)
{
	struct served list[SERVED_MAX];
	uint32_t count = portmap_served(r->n, list);
	for (uint32_t i = 0; i < count; i++) {
		xdr_put_u32(&r->out, 1);
		xdr_put_u32(&r->out, list[i].prog);
		xdr_put_u32(&r->out, list[i].vers);
		if (r->call.vers == 2) {
			xdr_put_u32(&r->out, list[i].proto);
			xdr_put_u32(&r->out, list[i].port);
			continue;
		}
		char address[32];
		portmap_universal_address(list[i].port, address);
		xdr_put_opaque(&r->out, list[i].proto == PROTO_TCP ? "tcp" : "udp", 3);
		xdr_put_opaque(&r->out, address, (uint32_t)strlen(address));
		xdr_put_opaque(&r->out, "agate", 5);
	}
	xdr_put_u32(&r->out, 0);
}

void
portmap_run(struct request *r)
{
	switch (r->call.proc) {
	case PMAP_NULL:
		break;
	case PMAP_SET:
	case PMAP_UNSET:
		xdr_put_u32(&r->out, 0);
		break;
	case PMAP_GETPORT:
		if (r->call.vers == 2) {
			portmap_getport(r);
		} else {
			portmap_getaddr(r);
		}
		break;
	case PMAP_DUMP:
		portmap_dump(r);
		break;
	case RPCB_GETVERSADDR:
		if (r->call.vers == 4) {
			portmap_getaddr(r);
			break;
		}
		r->accept = RPC_PROC_UNAVAIL;
		break;
	default:
		r->accept = RPC_PROC_UNAVAIL;
		break;
	}
}
