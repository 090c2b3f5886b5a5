/*
 * mount.c - MOUNT version 3 (RFC 1813 appendix I), and versions 1 and 2 for showmount: their MNT is
 * refused, since a version 1 handle of 32 bytes can't hold ours.
 *
 * Lists are encoded iteratively, in one reply that is sized beforehand.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include "nfsd/export.h"
#include "nfsd/nfs3.h"

enum {
	MOUNT_NULL = 0,
	MOUNT_MNT = 1,
	MOUNT_DUMP = 2,
	MOUNT_UMNT = 3,
	MOUNT_UMNTALL = 4,
	MOUNT_EXPORT = 5
};
enum mount_stat {
	MNT3_OK = 0,
	MNT3ERR_PERM = 1,
	MNT3ERR_NOENT = 2,
	MNT3ERR_IO = 5,
	MNT3ERR_ACCES = 13,
	MNT3ERR_NOTDIR = 20,
	MNT3ERR_INVAL = 22,
	MNT3ERR_NAMETOOLONG = 63,
	MNT3ERR_NOTSUPP = 10004,
	MNT3ERR_SERVERFAULT = 10006,
};
#define MOUNT_PATH_MAX 1024u
#define MOUNT_LIST_MAX 1024u /* entries kept for DUMP; the oldest go */
#define MOUNT_HOST_MAX 64u   /* an address as text */
#define MOUNT_RULE_TEXT 64u

/* ---- who mounted what: for DUMP only, never for deciding anything ---- */

struct mount_entry {
	struct list link;
	uint8_t ip[16];
	char path[MOUNT_PATH_MAX + 1];
};

struct mount_list {
	struct mutex lock;
	struct list entries;
	uint32_t count;
};

int
mount_list_create(struct mount_list **out)
{
	struct mount_list *m = mem_zalloc(sizeof(*m));
	if (m == NULL) {
		return -ENOMEM;
	}
	mutex_init(&m->lock, RANK_LEAF);
	list_init(&m->entries);
	*out = m;
	return 0;
}

static void
mount_entry_free(struct mount_list *m, struct mount_entry *e)
{
	list_remove(&e->link);
	m->count--;
	mem_free(e);
}

void
mount_list_destroy(struct mount_list *m)
{
	while (!list_empty(&m->entries)) {
		mount_entry_free(m, list_first(&m->entries, struct mount_entry, link));
	}
	mem_free(m);
}

/* path NULL: everything of that client. */
static void
mount_list_remove(struct mount_list *m, const uint8_t ip[16], const char *path)
{
	mutex_lock(&m->lock);
	list_for_each_safe(item, tmp, &m->entries)
	{
		struct mount_entry *e = list_entry(item, struct mount_entry, link);
		if (memcmp(e->ip, ip, 16) == 0 && (path == NULL || strcmp(e->path, path) == 0)) {
			mount_entry_free(m, e);
		}
	}
	mutex_unlock(&m->lock);
}

static void
mount_list_add(struct mount_list *m, const uint8_t ip[16], const char *path)
{
	mount_list_remove(m, ip, path);
	struct mount_entry *e = mem_zalloc(sizeof(*e));
	if (e == NULL) {
		return;
	}
	memcpy(e->ip, ip, 16);
	snprintf(e->path, sizeof(e->path), "%s", path);
	mutex_lock(&m->lock);
	list_push_back(&m->entries, &e->link);
	m->count++;
	if (m->count > MOUNT_LIST_MAX) {
		mount_entry_free(m, list_first(&m->entries, struct mount_entry, link));
	}
	mutex_unlock(&m->lock);
}

static void
mount_ip_text(const uint8_t ip[16], char out[MOUNT_HOST_MAX])
{
	bool v4 = nfsd_is_mapped(ip);
	if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? ip + 12 : ip, out, MOUNT_HOST_MAX) == NULL) {
		out[0] = '\0';
	}
}

/* ---- paths ---- */

/* Copies a path of the wire as "/a/b": slashes single, none at the end. False: not a path we could
 * export. */
static bool
mount_clean_path(const uint8_t *raw, uint32_t len, char out[MOUNT_PATH_MAX + 1])
{
	uint32_t used = 0;
	if (len == 0 || raw[0] != '/' || memchr(raw, '\0', len) != NULL) {
		return false;
	}
	for (uint32_t i = 0; i < len; i++) {
		if (raw[i] == '/' && (i + 1 == len || raw[i + 1] == '/')) {
			continue;
		}
		out[used++] = (char)raw[i];
	}
	if (used == 0) {
		out[used++] = '/';
	}
	out[used] = '\0';
	return strstr(out, "/../") == NULL && (used < 3 || strcmp(out + used - 3, "/..") != 0);
}

/* The export whose path is the longest whole-component prefix of path. */
static struct export *
mount_find(struct export_table *t, const char *path, const char **out_rest)
{
	struct export *best = NULL;
	size_t best_len = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		const char *have = t->exports[i].spec.path;
		size_t len = strlen(have);
		if (strncmp(path, have, len) == 0 && (path[len] == '/' || path[len] == '\0') &&
		    len > best_len) {
			best = &t->exports[i];
			best_len = len;
			*out_rest = path + len;
		}
	}
	return best;
}

/* From the share's top down to the directory asked for. */
static int
mount_walk(
    const struct export *e, const struct fs_cred *cred, const char *rest, struct nfs3_place *out)
{
	struct nfs3_place at = {0};
	int err = e->top_object != 0
		      ? fs_node_get(e->ds, e->top_object, e->top_generation, &at.node)
		      : fs_root(e->ds, &at.node);
	while (err == 0 && *rest == '/') {
		rest++;
		size_t len = strcspn(rest, "/");
		struct nfs3_place next = {0};
		err = nfs3_place_lookup(e, &at, cred, rest, (uint32_t)len, &next);
		nfs3_place_put(&at);
		at = next;
		rest += len;
	}
	if (err != 0) {
		return err;
	}
	struct fs_attr attr;
	nfs3_place_attr(&at, &attr);
	if (attr.type != FS_DIR) {
		nfs3_place_put(&at);
		return -ENOTDIR;
	}
	*out = at;
	return 0;
}

static enum mount_stat
mount_status(int err)
{
	switch (-err) {
	case 0:
		return MNT3_OK;
	case EPERM:
		return MNT3ERR_PERM;
	case ENOENT:
	case ESTALE:
		return MNT3ERR_NOENT;
	case EACCES:
		return MNT3ERR_ACCES;
	case ENOTDIR:
		return MNT3ERR_NOTDIR;
	case EINVAL:
		return MNT3ERR_INVAL;
	case ENAMETOOLONG:
		return MNT3ERR_NAMETOOLONG;
	case EIO:
		return MNT3ERR_IO;
	default:
		return MNT3ERR_SERVERFAULT;
	}
}

static int
mount_resolve(
    struct request *r, const char *path, struct export **out_export, struct nfs3_place *out)
{
	struct export_access access;
	const char *rest = "";
	struct export *e = mount_find(r->table, path, &rest);
	if (e == NULL) {
		return -ENOENT;
	}
	if (export_check(e, &r->peer, &access) != EXPORT_OK) {
		return -EACCES;
	}
	if (e->ds == NULL) {
		return -ENOENT;
	}
	/* The walk is the server's, as root: a client may mount a directory it can't search, and
	 * read nothing there. */
	static const struct fs_cred root_cred = {0};
	*out_export = e;
	return mount_walk(e, &root_cred, rest, out);
}

static void
mount_mnt(struct request *r)
{
	struct xdr_out *x = &r->out;
	char path[MOUNT_PATH_MAX + 1];
	uint32_t len;
	const uint8_t *raw = xdr_get_opaque(&r->call.args, UINT32_MAX, &len);
	if (r->call.args.bad) {
		r->accept = RPC_GARBAGE_ARGS;
		return;
	}
	struct export *e = NULL;
	struct nfs3_place place = {0};
	int err = len > MOUNT_PATH_MAX ? -ENAMETOOLONG : 0;
	if (err == 0 && r->call.vers < 3) {
		err = -EACCES;
	}
	if (err == 0 && !mount_clean_path(raw, len, path)) {
		err = -ENOENT;
	}
	if (err == 0) {
		err = mount_resolve(r, path, &e, &place);
		if (err == -ESTALE && e != NULL && fs_ds_is_moving(e->ds) &&
		    export_settle(r, e->dataset_guid, e->handle_share) == 0) {
			err = mount_resolve(r, path, &e, &place);
		}
	}
	xdr_put_u32(x, mount_status(err));
	if (err != 0) {
		return;
	}
	nfs3_put_place_fh(x, e, &place);
	nfs3_place_put(&place);
	xdr_put_u32(x, 2);
	xdr_put_u32(x, RPC_AUTH_SYS);
	xdr_put_u32(x, RPC_AUTH_NONE);
	mount_list_add(r->n->mounts, r->peer.ip, path);
}

static void
mount_umnt(struct request *r)
{
	char path[MOUNT_PATH_MAX + 1];
	uint32_t len;
	const uint8_t *raw = xdr_get_opaque(&r->call.args, UINT32_MAX, &len);
	if (r->call.args.bad) {
		r->accept = RPC_GARBAGE_ARGS;
		return;
	}
	if (len <= MOUNT_PATH_MAX && mount_clean_path(raw, len, path)) {
		mount_list_remove(r->n->mounts, r->peer.ip, path);
	}
}

static void
mount_dump(struct request *r)
{
	struct mount_list *m = r->n->mounts;
	char host[MOUNT_HOST_MAX];
	uint32_t worst = 0;
	mutex_lock(&m->lock);
	list_for_each(item, &m->entries)
	{
		worst +=
		    12 + MOUNT_HOST_MAX +
		    xdr_padded((uint32_t)strlen(list_entry(item, struct mount_entry, link)->path));
	}
	if (request_grow(r, worst + 8) != 0) {
		mutex_unlock(&m->lock);
		r->accept = RPC_SYSTEM_ERR;
		return;
	}
	list_for_each(item, &m->entries)
	{
		const struct mount_entry *e = list_entry(item, struct mount_entry, link);
		mount_ip_text(e->ip, host);
		xdr_put_u32(&r->out, 1);
		xdr_put_opaque(&r->out, host, (uint32_t)strlen(host));
		xdr_put_opaque(&r->out, e->path, (uint32_t)strlen(e->path));
	}
	mutex_unlock(&m->lock);
	xdr_put_u32(&r->out, 0);
}

static void
mount_rule_text(const struct nfsd_rule *rule, char out[MOUNT_RULE_TEXT])
{
	char host[MOUNT_HOST_MAX];
	mount_ip_text(rule->ip, host);
	bool v4 = strchr(host, ':') == NULL && rule->prefix_bits >= 96;
	unsigned bits = v4 ? rule->prefix_bits - 96u : rule->prefix_bits;
	if (rule->prefix_bits == 0) {
		snprintf(out, MOUNT_RULE_TEXT, "*");
	} else if (rule->prefix_bits == 128) {
		snprintf(out, MOUNT_RULE_TEXT, "%.48s", host);
	} else {
		snprintf(out, MOUNT_RULE_TEXT, "%.48s/%u", host, bits);
	}
}

static void
mount_export_list(struct request *r)
{
	struct export_table *t = r->table;
	uint32_t worst = 8;
	for (uint32_t i = 0; i < t->count; i++) {
		const struct nfsd_export *s = &t->exports[i].spec;
		worst += 16 + xdr_padded((uint32_t)strlen(s->path)) +
			 s->rule_count * (8 + MOUNT_RULE_TEXT);
	}
	if (request_grow(r, worst) != 0) {
		r->accept = RPC_SYSTEM_ERR;
		return;
	}
	for (uint32_t i = 0; i < t->count; i++) {
		const struct nfsd_export *s = &t->exports[i].spec;
		xdr_put_u32(&r->out, 1);
		xdr_put_opaque(&r->out, s->path, (uint32_t)strlen(s->path));
		for (uint32_t k = 0; k < s->rule_count; k++) {
			char text[MOUNT_RULE_TEXT];
			mount_rule_text(&s->rules[k], text);
			xdr_put_u32(&r->out, 1);
			xdr_put_opaque(&r->out, text, (uint32_t)strlen(text));
		}
		xdr_put_u32(&r->out, 0);
	}
	xdr_put_u32(&r->out, 0);
}

void
mount_run(struct request *r)
{
	r->table = export_table_get(r->n);
	switch (r->call.proc) {
	case MOUNT_NULL:
		break;
	case MOUNT_MNT:
		mount_mnt(r);
		break;
	case MOUNT_DUMP:
		mount_dump(r);
		break;
	case MOUNT_UMNT:
		mount_umnt(r);
		break;
	case MOUNT_UMNTALL:
		mount_list_remove(r->n->mounts, r->peer.ip, NULL);
		break;
	case MOUNT_EXPORT:
		mount_export_list(r);
		break;
	default:
		r->accept = RPC_PROC_UNAVAIL;
		break;
	}
	export_table_put(r->table);
	r->table = NULL;
}
