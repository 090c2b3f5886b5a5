/*
 * model.h - what the clients of the simulated appliance know: names, bytes and attributes, which
 * replies were received, and which calls were still unanswered when the power went.
 *
 * It lives in plain malloc memory and survives rt_sim_crash. The clients follow one rule that makes
 * it exact: at most one change is in flight per object and per name. So after a crash
 *  - a call that was unanswered has happened wholly or not at all, and which, can be seen;
 *  - of a file, the state is the one before the first change not known to be durable, plus a prefix
 *    of the changes since (struct m_node.pending); an answered stable change empties that list.
 */
#ifndef AGATE_TESTS_MODEL_H
#define AGATE_TESTS_MODEL_H

#include "tests/lib/nfs_calls.h"

#define M_NAME_MAX 64
#define M_FILE_BYTES_MAX (768u << 10)

struct m_rand {
	uint64_t state;
};
uint64_t m_rand(struct m_rand *r);
/* 0..n-1; n > 0 */
uint32_t m_below(struct m_rand *r, uint32_t n);
/* true in percent of the cases */
bool m_chance(struct m_rand *r, uint32_t percent);

struct m_bytes {
	uint8_t *data;
	uint64_t size, cap;
};

/* One state of an object. */
struct m_state {
	struct m_bytes bytes; /* regular files */
	uint32_t mode, uid, gid;
	bool times_known; /* mtime and ctime as the last reply gave them */
	nfstime3 mtime, ctime;
};

/* One change of one object's data or attributes. */
struct m_change {
	bool write; /* else the attributes below */
	uint64_t off;
	uint32_t len;
	uint64_t key; /* what the data is made from */
	bool set_size, set_mode, set_uid, set_mtime;
	uint64_t size;
	uint32_t mode, uid, gid;
	nfstime3 mtime;
	bool times_known; /* the reply's attributes, when there was one */
	nfstime3 mtime_after, ctime_after;
};

struct m_op;

struct m_node {
	struct list link; /* model.nodes, or model.gone */
	uint32_t id;
	ftype3 type;
	struct rig_fh fh;
	uint64_t fileid;
	uint32_t nlink; /* names that point here */
	struct m_state base, now;
	struct m_change *pending; /* base -> now */
	uint32_t pending_count, pending_cap;
	char *target;      /* symbolic links */
	struct list names; /* directories: m_name.link */
	struct m_node *up; /* directories: where it is */
	uint32_t subdirs;
	struct m_op *holder; /* the one call that may change it */
	bool alone;          /* held with nobody inside */
	uint32_t users;      /* directories: calls in flight inside; readers of anything */
	uint64_t touched;    /* model.clock at the last change of anything about it */
};

struct m_name {
	struct list link;
	struct m_node *dir, *node; /* node NULL: there is no such name */
	char text[M_NAME_MAX + 1];
	struct m_op *holder;
	uint64_t touched; /* model.clock when a call about it began or was answered */
};

#define M_OP_NODES 3
/* One call that changes something. */
struct m_op {
	struct list link; /* model.inflight, or model.done */
	enum nfsc_proc proc;
	uint32_t client;
	unsigned life;         /* of the machine, when it was sent */
	uint8_t *call, *reply; /* its bytes; reply NULL: none yet */
	uint32_t call_len, reply_len;
	uint64_t clock; /* model.clock when it was answered */
	/* what it is about */
	struct m_name *name, *name2;
	struct m_node *node;   /* the object changed, removed, renamed or linked */
	struct m_node *victim; /* RENAME: what name2 was */
	ftype3 type;           /* what is created */
	nfsstat3 expect;       /* what it must answer */
	createmode3 how;
	stable_how stable;
	uint32_t call_xid;
	struct m_change change;
	char *target;
	/* held by it */
	struct m_node *held[M_OP_NODES], *used[M_OP_NODES];
	bool holds_rename;
	/* after a crash: what was seen of it */
	bool resolved, happened;
};

struct model {
	struct list nodes, gone; /* gone: newest last */
	struct list inflight, done;
	struct m_node *root;
	uint32_t next_id, node_count, gone_count, done_count;
	uint64_t clock;
	struct m_op *renamer; /* the one rename of a directory */
};

void model_init(struct model *m);
void model_fini(struct model *m);

struct m_node *model_node_new(struct model *m, ftype3 type);
/* The name in dir, made when it is new. */
struct m_name *model_name(struct m_node *dir, const char *text);
struct m_name *model_find(struct m_node *dir, const char *text); /* or NULL */

/* ---- contents ---- */
void m_pattern(uint64_t key, uint64_t off, uint8_t *out, uint32_t len);
void m_change_apply(struct m_state *s, const struct m_change *c);
void m_state_copy(struct m_state *to, const struct m_state *from);
/* The node has changed, as an answered call says. durable: nothing of it may be lost any more. */
void model_change(struct model *m, struct m_node *n, const struct m_change *c, bool durable);
/* All of n up to now is durable. */
void model_settle(struct m_node *n);
/* After a crash: n is known to be what it was after the first kept changes. */
void model_fall_back(struct m_node *n, uint32_t kept);
/* Nobody asks for these replies again. */
void model_forget_replies(struct model *m);

/* ---- calls in flight ---- */
struct m_op *model_op_new(struct model *m, enum nfsc_proc proc, uint32_t client);
/* Each takes what it says, or returns false: busy. Everything is let go by model_op_end.
 * alone: also keep everyone out of it. */
bool model_hold(struct m_op *op, struct m_node *n, bool alone);
bool model_use(struct m_op *op, struct m_node *dir);
bool model_hold_name(struct model *m, struct m_op *op, struct m_name *name, bool second);
bool model_hold_rename(struct model *m, struct m_op *op);
/* It happened (answered, or seen after a crash): changes names and nodes. fh, fileid: of a new
 * object. */
void model_op_apply(
    struct model *m, struct m_op *op, const struct rig_fh *fh, uint64_t fileid, bool durable);
/* Lets go of everything. keep: remember it among the answered ones, for retransmission. */
void model_op_end(struct model *m, struct m_op *op, bool keep);
/* Nothing it was about has been touched since it was answered. */
bool model_op_is_last(const struct m_op *op);
bool model_is_below(const struct m_node *dir, const struct m_node *top);

#endif
