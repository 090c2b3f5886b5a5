/*
 * portmap.c - where our programs are: port mapper version 2 (RFC 1833 3) and the look-ups of
 * rpcbind versions 3 and 4 (RFC 1833 2). We register nothing for others: SET and UNSET answer
 * false.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include "nfsd/nfsd_int.h"

/* Versions 3 and 4 use the numbers of GETPORT and DUMP for GETADDR and DUMP. */
enum {
	PMAP_NULL = 0,
	PMAP_SET = 1,
	PMAP_UNSET = 2,
	PMAP_GETPORT = 3,
	PMAP_DUMP = 4,
	RPCB_GETVERSADDR = 9
};
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
		out[count++] = (struct served){100005, vers, PROTO_UDP, n->mount_udp};
	}
	for (uint32_t vers = 2; vers <= 4; vers++) {
		out[count++] = (struct served){100000, vers, PROTO_TCP, n->portmap_port};
		out[count++] = (struct served){100000, vers, PROTO_UDP, n->portmap_udp};
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

#define UADDR_MAX 72u /* an IPv6 address, two numbers */

static bool
portmap_is(const uint8_t *netid, uint32_t len, const char *name)
{
	return len == strlen(name) && memcmp(netid, name, len) == 0;
}

/* Of the two families, those that our sockets take. */
static bool
portmap_has_family(const struct nfsd *n, bool v6)
{
	struct net_addr a;
	net_listener_addr(n->listeners[0].tcp, &a);
	return net_addr_is_v4(&a) ? !v6 : v6 || n->cfg.host == NULL;
}

/*
 * The address as programs that take it by its word need it: the one this call came to, when it is
 * of the family asked for. Else the unspecified one, of which only the port counts.
 */
static void
portmap_universal_address(struct request *r, bool v6, uint16_t port, char out[UADDR_MAX])
{
	struct net_addr local = {0};
	char text[INET6_ADDRSTRLEN];
	bool known = true;
	if (r->conn != NULL) {
		conn_local(r->conn, &local);
	} else {
		known = net_udp_last_local(r->udp, &local);
	}
	bool v4 = net_addr_is_v4(&local);
	if (!known || v4 == v6 ||
	    inet_ntop(v6 ? AF_INET6 : AF_INET, v6 ? local.ip : local.ip + 12, text, sizeof(text)) ==
		NULL) {
		snprintf(text, sizeof(text), "%s", v6 ? "::" : "0.0.0.0");
	}
	snprintf(out, UADDR_MAX, "%s.%u.%u", text, port >> 8, port & 0xff);
}

/* GETADDR and GETVERSADDR: an address as text, empty for what isn't served. */
static void
portmap_getaddr(struct request *r)
{
	struct xdr_in *x = &r->call.args;
	char address[UADDR_MAX] = "";
	uint32_t len;
	uint32_t prog = xdr_get_u32(x), vers = xdr_get_u32(x);
	const uint8_t *netid = xdr_get_opaque(x, RPCB_STRING_MAX, &len);
	if (x->bad) {
		r->accept = RPC_GARBAGE_ARGS;
		return;
	}
	bool v6 = portmap_is(netid, len, "tcp6") || portmap_is(netid, len, "udp6");
	uint32_t proto = 0;
	if (portmap_is(netid, len, "tcp") || portmap_is(netid, len, "tcp6")) {
		proto = PROTO_TCP;
	} else if (portmap_is(netid, len, "udp") || v6) {
		proto = PROTO_UDP;
	}
	uint16_t port = portmap_has_family(r->n, v6) ? portmap_find(r->n, prog, vers, proto) : 0;
	if (port != 0) {
		portmap_universal_address(r, v6, port, address);
	}
	xdr_put_opaque(&r->out, address, (uint32_t)strlen(address));
}

static void
portmap_dump_addresses(struct request *r, const struct served *s)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		char address[UADDR_MAX], netid[8];
		if (!portmap_has_family(r->n, v6 != 0)) {
			continue;
		}
		portmap_universal_address(r, v6 != 0, s->port, address);
		snprintf(netid, sizeof(netid), "%s%s", s->proto == PROTO_TCP ? "tcp" : "udp",
		    v6 != 0 ? "6" : "");
		xdr_put_u32(&r->out, 1);
		xdr_put_u32(&r->out, s->prog);
		xdr_put_u32(&r->out, s->vers);
		xdr_put_opaque(&r->out, netid, (uint32_t)strlen(netid));
		xdr_put_opaque(&r->out, address, (uint32_t)strlen(address));
		xdr_put_opaque(&r->out, "agate", 5);
	}
}

static void
portmap_dump(struct request *r)
{
	struct served list[SERVED_MAX];
	uint32_t count = portmap_served(r->n, list);
	/* worst: two families, each with an address of INET6_ADDRSTRLEN */
	if (request_grow(r, count * 2 * (12 + 12 + 4 + UADDR_MAX + 12) + 4) != 0) {
		r->accept = RPC_SYSTEM_ERR;
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (list[i].port == 0) {
			continue;
		}
		if (r->call.vers > 2) {
			portmap_dump_addresses(r, &list[i]);
			continue;
		}
		xdr_put_u32(&r->out, 1);
		xdr_put_u32(&r->out, list[i].prog);
		xdr_put_u32(&r->out, list[i].vers);
		xdr_put_u32(&r->out, list[i].proto);
		xdr_put_u32(&r->out, list[i].port);
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
