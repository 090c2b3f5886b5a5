/*
 * fs_rig.h - what the tests of fs/ share: requests as one line each, and a whole dataset as text,
 * so that two states can be compared. Runs on whatever provides pool.h.
 */
#ifndef AGATE_TESTS_FS_RIG_H
#define AGATE_TESTS_FS_RIG_H

#include "fs/fs.h"

struct rig {
	struct pool *pool;
	struct fs_pool *fp;
	struct fs_ds *ds;
	struct fs_node *root;
};

/* A fake pool "tank" with its root dataset in service. */
void rig_open(struct rig *r);
void rig_attach(struct rig *r, struct pool *pool, fs_reply_found_fn *found, void *arg);
void rig_detach(struct rig *r); /* the pool stays */
void rig_close(struct rig *r);  /* the pool goes too */

struct fs_req rig_as(uint32_t uid, uint32_t gid);
/* All as uid 0 unless a request is given. out may be NULL. Return the call's error. */
int rig_create(
    struct fs_node *dir, const char *name, enum fs_type type, uint32_t mode, struct fs_node **out);
int rig_create_as(const struct fs_req *req, struct fs_node *dir, const char *name,
    enum fs_type type, uint32_t mode, struct fs_node **out);
int rig_symlink(struct fs_node *dir, const char *name, const char *target);
int rig_remove(struct fs_node *dir, const char *name);
int rig_rmdir(struct fs_node *dir, const char *name);
int rig_rename(struct fs_node *from_dir, const char *from, struct fs_node *to_dir, const char *to);
int rig_link(struct fs_node *n, struct fs_node *dir, const char *name);
int rig_lookup(struct fs_node *dir, const char *name, struct fs_node **out);
bool rig_exists(struct fs_node *dir, const char *name);
int rig_write(struct fs_node *n, uint64_t off, const void *data, uint32_t len, enum fs_stable how);
int rig_truncate(struct fs_node *n, uint64_t size);
/* Reads into out (len bytes, zero-filled behind the end); returns the length got or -errno. */
int64_t rig_read(struct fs_node *n, uint64_t off, void *out, uint32_t len, bool *out_eof);
struct fs_attr rig_attr(struct fs_node *n);

/* The dataset as text: every path with its attributes, cookie and contents. mem_free it. */
char *rig_dump(struct fs_ds *ds);
/* True when both are the same; else says where they part. */
bool rig_same(const char *a, const char *b);
/* fs_check; problems are printed. */
uint64_t rig_check(struct fs_pool *fp);
struct fs_cred rig_cred(uint32_t uid, uint32_t gid);

#endif
