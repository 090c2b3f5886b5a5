/*
 * net_addr.c - addresses: text, struct net_addr and the kernel's sockaddr. One form inside: IPv6
 * with IPv4 mapped into it, so that rules about addresses compare 16 bytes and never look at
 * families.
 */
#include "base/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool
net_addr_is_v4(const struct net_addr *a)
{
	return memcmp(a->ip, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

uint32_t
net_ip_hash(const uint8_t ip[16])
{
	uint64_t half[2];

	memcpy(half, ip, sizeof(half));
	half[0] = (half[0] ^ (half[0] >> 32)) * 0x9e3779b97f4a7c15ull;
	half[1] ^= half[0] ^ (half[0] >> 29);
	half[1] = (half[1] ^ (half[1] >> 32)) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)((half[1] ^ (half[1] >> 29)) >> 32);
}

static bool
is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

/* An interface by name or number; 0 is none. */
static uint32_t
scope_parse(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text >= '0' && *text <= '9' && *end == '\0' && n <= UINT32_MAX) {
		return (uint32_t)n;
	}
	return if_nametoindex(text);
}

int
net_addr_parse(const char *host, uint16_t port, struct net_addr *out)
{
	struct net_addr a = {.port = port};
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE];
	char *percent;

	if (host == NULL) {
		*out = a;
		return 0;
	}
	if (strlen(host) >= sizeof(text)) {
		return -EINVAL;
	}
	if (inet_pton(AF_INET, host, a.ip + sizeof(mapped_prefix)) == 1) {
		memcpy(a.ip, mapped_prefix, sizeof(mapped_prefix));
		*out = a;
		return 0;
	}
	strcpy(text, host);
	percent = strchr(text, '%');
	if (percent != NULL) {
		*percent = '\0';
	}
	if (inet_pton(AF_INET6, text, a.ip) != 1) {
		return -EINVAL;
	}
	if (percent != NULL) {
		a.scope = is_link_local(a.ip) ? scope_parse(percent + 1) : 0;
		if (a.scope == 0) {
			return -EINVAL;
		}
	}
	*out = a;
	return 0;
}

const char *
net_addr_format(const struct net_addr *a, char buf[NET_ADDR_TEXT_MAX])
{
	char ip[INET6_ADDRSTRLEN];

	if (net_addr_is_v4(a)) {
		const uint8_t *v4 = a->ip + sizeof(mapped_prefix);

		snprintf(
		    buf, NET_ADDR_TEXT_MAX, "%u.%u.%u.%u:%u", v4[0], v4[1], v4[2], v4[3], a->port);
	} else if (inet_ntop(AF_INET6, a->ip, ip, sizeof(ip)) == NULL) {
		snprintf(buf, NET_ADDR_TEXT_MAX, "?");
	} else if (a->scope != 0) {
		snprintf(buf, NET_ADDR_TEXT_MAX, "[%s%%%u]:%u", ip, a->scope, a->port);
	} else {
		snprintf(buf, NET_ADDR_TEXT_MAX, "[%s]:%u", ip, a->port);
	}
	return buf;
}

int
net_addr_decode(const struct sockaddr_storage *ss, socklen_t len, struct net_addr *out)
{
	struct net_addr a = {0};
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;

	if (len >= sizeof(in4) && ss->ss_family == AF_INET) {
		memcpy(&in4, ss, sizeof(in4));
		memcpy(a.ip, mapped_prefix, sizeof(mapped_prefix));
		memcpy(a.ip + sizeof(mapped_prefix), &in4.sin_addr, 4);
		a.port = ntohs(in4.sin_port);
	} else if (len >= sizeof(in6) && ss->ss_family == AF_INET6) {
		memcpy(&in6, ss, sizeof(in6));
		memcpy(a.ip, &in6.sin6_addr, 16);
		a.port = ntohs(in6.sin6_port);
		a.scope = is_link_local(a.ip) ? in6.sin6_scope_id : 0;
	} else {
		return -EAFNOSUPPORT;
	}
	*out = a;
	return 0;
}

int
net_addr_encode(
    const struct net_addr *a, int family, struct sockaddr_storage *out, socklen_t *out_len)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(a->port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};

	if (family == AF_INET && net_addr_is_v4(a)) {
		memcpy(&in4.sin_addr, a->ip + sizeof(mapped_prefix), 4);
		memcpy(out, &in4, sizeof(in4));
		*out_len = sizeof(in4);
	} else if (family == AF_INET6) {
		memcpy(&in6.sin6_addr, a->ip, 16);
		in6.sin6_scope_id = a->scope;
		memcpy(out, &in6, sizeof(in6));
		*out_len = sizeof(in6);
	} else {
		return -EAFNOSUPPORT;
	}
	return 0;
}
