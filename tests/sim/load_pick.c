/* load_pick.c - what a client does next. Each pick holds what it needs, or does nothing. */
#include <stdlib.h>
#include "tests/sim/load.h"

/* A random object of a type (0 = any but the root); NULL: none met. */
static struct m_node *
pick_node(struct sim_client *cl, ftype3 type)
{
	struct model *m = &cl->s->m;
	uint32_t skip = m_below(&cl->rng, m->node_count);
	struct m_node *found = NULL;
	list_for_each(it, &m->nodes)
	{
		struct m_node *n = list_entry(it, struct m_node, link);
		if (n != m->root && (type == 0 || n->type == type)) {
			found = n;
			if (skip == 0) {
				break;
			}
		}
		skip -= skip > 0;
	}
	return found;
}

static struct m_node *
pick_dir(struct sim_client *cl)
{
	struct m_node *d = m_chance(&cl->rng, 40) ? NULL : pick_node(cl, NF3DIR);
	return d != NULL ? d : cl->s->m.root;
}

static struct m_name *
pick_name(struct sim_client *cl, struct m_node *dir)
{
	char text[M_NAME_MAX + 1];
	uint32_t n = m_below(&cl->rng, cl->s->names_per_dir);
	const char *tail = n % 4 == 3 ? "-with-a-longer-name-than-the-others-have" : "";
	snprintf(text, sizeof(text), "n%u%s", n, tail);
	return model_name(dir, text);
}

/* A name that is there, in a random directory. */
static struct m_name *
pick_used_name(struct sim_client *cl)
{
	struct m_node *dir = pick_dir(cl);
	for (unsigned i = 0; i < 8; i++) {
		struct m_name *name = pick_name(cl, dir);
		if (name->node != NULL) {
			return name;
		}
	}
	return NULL;
}

static void
random_attr(struct sim_client *cl, struct m_op *op, sattr3 *out)
{
	op->change.set_mode = true;
	op->change.mode = m_below(&cl->rng, 01000);
	out->mode.set_it = TRUE;
	out->mode.set_mode3_u.mode = op->change.mode;
	if (m_chance(&cl->rng, 30)) {
		op->change.set_uid = true;
		op->change.uid = m_below(&cl->rng, 5) * 100;
		op->change.gid = m_below(&cl->rng, 5) * 100;
		out->uid.set_it = out->gid.set_it = TRUE;
		out->uid.set_uid3_u.uid = op->change.uid;
		out->gid.set_gid3_u.gid = op->change.gid;
	}
}

static diropargs3
dirop(struct m_name *name)
{
	return (diropargs3){.dir = rig_fh3(&name->dir->fh), .name = nfsc_name(name->text)};
}

static void
drop(struct sim_client *cl, struct m_op *op)
{
	model_op_end(&cl->s->m, op, false);
}

static void
go(struct sim_client *cl, struct m_op *op, const void *args)
{
	if (load_encode(cl, op, args)) {
		load_run(cl, op);
	} else {
		drop(cl, op);
	}
}

/* ---- making names ---- */

static struct m_op *
begin_new(struct sim_client *cl, enum nfsc_proc proc, ftype3 type)
{
	struct sim *s = cl->s;
	struct m_node *dir = pick_dir(cl);
	struct m_name *name = pick_name(cl, dir);
	if (name->node == NULL && s->m.node_count >= s->nodes_max) {
		return NULL;
	}
	struct m_op *op = model_op_new(&s->m, proc, cl->index);
	op->type = type;
	op->expect = name->node != NULL ? NFS3ERR_EXIST : NFS3_OK;
	if (!model_use(op, dir) || !model_hold_name(&s->m, op, name, false)) {
		drop(cl, op);
		return NULL;
	}
	if (name->node != NULL && !m_chance(&cl->rng, 10)) {
		drop(cl, op);
		return NULL;
	}
	return op;
}

/* UNCHECKED on a file that is there cuts it, when a size is given. */
static bool
unchecked_existing(struct sim_client *cl, struct m_op *op, CREATE3args *args)
{
	struct m_node *n = op->name->node;
	if (n->type != NF3REG || !model_hold(op, n, false)) {
		return false;
	}
	op->expect = NFS3_OK;
	sattr3 *set = &args->how.createhow3_u.unchecked_attributes;
	if (m_chance(&cl->rng, 50)) {
		op->change.set_size = true;
		set->size.set_it = TRUE;
		set->size.set_size3_u.size = 0;
	}
	return true;
}

static void
step_create(struct sim_client *cl)
{
	struct m_op *op = begin_new(cl, NFSC_CREATE, NF3REG);
	if (op == NULL) {
		return;
	}
	CREATE3args args = {.where = dirop(op->name), .how = {.mode = GUARDED}};
	bool exists = op->name->node != NULL;
	op->how = args.how.mode = (createmode3)m_below(&cl->rng, 3);
	if (op->how == UNCHECKED && exists) {
		if (!unchecked_existing(cl, op, &args)) {
			drop(cl, op);
			return;
		}
	} else if (op->how == EXCLUSIVE) {
		uint64_t verf = m_rand(&cl->rng);
		memcpy(args.how.createhow3_u.verf, &verf, 8);
		op->change.set_mode = true;
		op->change.mode = 0600;
	} else {
		random_attr(cl, op, &args.how.createhow3_u.guarded_attributes);
	}
	go(cl, op, &args);
}

static void
step_mkdir(struct sim_client *cl)
{
	struct m_op *op = begin_new(cl, NFSC_MKDIR, NF3DIR);
	if (op == NULL) {
		return;
	}
	MKDIR3args args = {.where = dirop(op->name)};
	random_attr(cl, op, &args.attributes);
	go(cl, op, &args);
}

static void
step_symlink(struct sim_client *cl)
{
	struct m_op *op = begin_new(cl, NFSC_SYMLINK, NF3LNK);
	if (op == NULL) {
		return;
	}
	uint32_t len = 1 + m_below(&cl->rng, m_chance(&cl->rng, 20) ? 1000 : 60);
	op->target = calloc(1, len + 1);
	ASSERT(op->target != NULL);
	for (uint32_t i = 0; i < len; i++) {
		op->target[i] = (char)('a' + m_below(&cl->rng, 26));
	}
	SYMLINK3args args = {.where = dirop(op->name)};
	args.symlink.symlink_data.nfspath3_len = len;
	args.symlink.symlink_data.nfspath3_val = op->target;
	random_attr(cl, op, &args.symlink.symlink_attributes);
	go(cl, op, &args);
}

static void
step_mknod(struct sim_client *cl)
{
	struct m_op *op = begin_new(cl, NFSC_MKNOD, NF3FIFO);
	if (op == NULL) {
		return;
	}
	MKNOD3args args = {.where = dirop(op->name), .what = {.type = NF3FIFO}};
	random_attr(cl, op, &args.what.mknoddata3_u.pipe_attributes);
	go(cl, op, &args);
}

static void
step_link(struct sim_client *cl)
{
	struct m_node *n = pick_node(cl, NF3REG);
	struct m_op *op = n != NULL ? begin_new(cl, NFSC_LINK, NF3REG) : NULL;
	if (op == NULL) {
		return;
	}
	if (!model_hold(op, n, false)) {
		drop(cl, op);
		return;
	}
	op->node = n;
	LINK3args args = {.file = rig_fh3(&n->fh), .link = dirop(op->name)};
	go(cl, op, &args);
}

/* ---- removing and moving names ---- */

static bool
dir_is_empty(const struct m_node *dir)
{
	list_for_each(it, (struct list *)(uintptr_t)&dir->names)
	{
		if (list_entry(it, struct m_name, link)->node != NULL) {
			return false;
		}
	}
	return true;
}

static void
step_remove(struct sim_client *cl)
{
	struct m_name *name = pick_used_name(cl);
	if (name == NULL) {
		return;
	}
	bool dir = name->node->type == NF3DIR;
	struct m_op *op = model_op_new(&cl->s->m, dir ? NFSC_RMDIR : NFSC_REMOVE, cl->index);
	if (!model_use(op, name->dir) || !model_hold_name(&cl->s->m, op, name, false) ||
	    !model_hold(op, name->node, dir)) {
		drop(cl, op);
		return;
	}
	if (dir && !dir_is_empty(name->node)) {
		op->expect = NFS3ERR_NOTEMPTY;
	}
	op->node = name->node;
	REMOVE3args args = {dirop(name)};
	go(cl, op, &args);
}

static bool
rename_target(struct m_op *op, struct m_node *n, struct m_node *old)
{
	if (old == NULL || old == n) {
		return true;
	}
	bool dir = n->type == NF3DIR;
	if (dir != (old->type == NF3DIR) || !model_hold(op, old, dir)) {
		return false;
	}
	op->victim = old;
	if (dir && !dir_is_empty(old)) {
		op->expect = NFS3ERR_NOTEMPTY;
	}
	return true;
}

static void
step_rename(struct sim_client *cl)
{
	struct model *m = &cl->s->m;
	struct m_name *from = pick_used_name(cl);
	if (from == NULL) {
		return;
	}
	struct m_node *n = from->node, *to_dir = m_chance(&cl->rng, 40) ? from->dir : pick_dir(cl);
	struct m_name *to = pick_name(cl, to_dir);
	bool dir = n->type == NF3DIR;
	if (to == from || (dir && model_is_below(to_dir, n))) {
		return;
	}
	struct m_op *op = model_op_new(m, NFSC_RENAME, cl->index);
	bool got = (!dir || model_hold_rename(m, op)) && model_use(op, from->dir) &&
		   model_use(op, to_dir) && model_hold_name(m, op, from, false) &&
		   model_hold_name(m, op, to, true) && model_hold(op, n, false) &&
		   rename_target(op, n, to->node);
	if (!got) {
		drop(cl, op);
		return;
	}
	op->node = n;
	RENAME3args args = {.from = dirop(from), .to = dirop(to)};
	go(cl, op, &args);
}

/* ---- data and attributes ---- */

static struct m_op *
begin_on_file(struct sim_client *cl, enum nfsc_proc proc)
{
	struct m_node *n = pick_node(cl, NF3REG);
	if (n == NULL) {
		return NULL;
	}
	struct m_op *op = model_op_new(&cl->s->m, proc, cl->index);
	if (!model_hold(op, n, false)) {
		drop(cl, op);
		return NULL;
	}
	op->node = n;
	return op;
}

/* Sizes and offsets: tiny, odd, aligned, across blocks. */
static void
random_range(struct sim_client *cl, const struct m_node *n, uint64_t *off, uint32_t *len)
{
	struct m_rand *r = &cl->rng;
	uint32_t max = cl->s->file_bytes_max;
	switch (m_below(r, 5)) {
	case 0:
		*len = m_below(r, 300);
		break;
	case 1:
		*len = 4096 * (1 + m_below(r, 16));
		break;
	case 2:
		*len = m_below(r, 200000);
		break;
	default:
		*len = m_below(r, 9000);
		break;
	}
	*len = MIN(*len, max);
	switch (m_below(r, 4)) {
	case 0:
		*off = n->now.bytes.size; /* append */
		break;
	case 1:
		*off = 4096u * m_below(r, max / 4096);
		break;
	case 2:
		*off = 0;
		break;
	default:
		*off = m_below(r, max);
		break;
	}
	*off = MIN(*off, (uint64_t)(max - *len));
}

static void
step_write(struct sim_client *cl)
{
	struct m_op *op = begin_on_file(cl, NFSC_WRITE);
	if (op == NULL) {
		return;
	}
	struct m_change *c = &op->change;
	c->write = true;
	c->key = m_rand(&cl->rng);
	random_range(cl, op->node, &c->off, &c->len);
	op->stable = (stable_how)(m_chance(&cl->rng, 60) ? 0 : m_below(&cl->rng, 3));
	uint8_t *data = mem_zalloc(MAX(c->len, 1u));
	ASSERT(data != NULL);
	m_pattern(c->key, c->off, data, c->len);
	WRITE3args args = {.file = rig_fh3(&op->node->fh),
	    .offset = c->off,
	    .count = c->len,
	    .stable = op->stable,
	    .data = {c->len, (char *)data}};
	bool good = load_encode(cl, op, &args);
	mem_free(data);
	if (good) {
		load_run(cl, op);
	}
}

static void
step_commit(struct sim_client *cl)
{
	struct m_op *op = begin_on_file(cl, NFSC_COMMIT);
	if (op != NULL) {
		COMMIT3args args = {.file = rig_fh3(&op->node->fh)};
		go(cl, op, &args);
	}
}

static void
step_setattr(struct sim_client *cl)
{
	struct m_op *op = NULL;
	SETATTR3args args = {.guard = {.check = FALSE}};
	sattr3 *set = &args.new_attributes;
	if (m_chance(&cl->rng, 60)) {
		op = begin_on_file(cl, NFSC_SETATTR);
		if (op != NULL) {
			op->change.set_size = true;
			op->change.size = m_chance(&cl->rng, 70)
					      ? m_below(&cl->rng, cl->s->file_bytes_max)
					      : op->node->now.bytes.size / 2;
			set->size.set_it = TRUE;
			set->size.set_size3_u.size = op->change.size;
		}
	} else {
		struct m_node *n = pick_node(cl, 0);
		op = n != NULL ? model_op_new(&cl->s->m, NFSC_SETATTR, cl->index) : NULL;
		if (op != NULL && !model_hold(op, n, false)) {
			drop(cl, op);
			op = NULL;
		}
		if (op != NULL) {
			op->node = n;
			random_attr(cl, op, set);
		}
	}
	if (op == NULL) {
		return;
	}
	if (m_chance(&cl->rng, 30)) {
		set->mtime.set_it = SET_TO_CLIENT_TIME;
		set->mtime.set_time3_u.time =
		    (nfstime3){m_below(&cl->rng, 2000000000), m_below(&cl->rng, 1000000000)};
	}
	args.object = rig_fh3(&op->node->fh);
	go(cl, op, &args);
}

/* ---- looking ---- */

static void
step_look(struct sim_client *cl)
{
	struct sim *s = cl->s;
	struct m_node *n = pick_node(cl, 0);
	if (n == NULL) {
		n = s->m.root;
	}
	/* a call of its own in the model, so that a power cut lets go of it */
	struct m_op *op = model_op_new(&s->m, NFSC_GETATTR, cl->index);
	if (!model_use(op, n)) {
		drop(cl, op);
		return;
	}
	s->stats.calls++;
	if (cl->c.conn == NULL && sim_client_connect(s, &cl->c) != 0) {
		sim_wrong(s, "client %u: can't connect", cl->index);
	} else if (n->type == NF3DIR) {
		sim_verify_dir(s, &cl->c, n, &cl->rng);
	} else {
		sim_verify_node(s, &cl->c, n, &cl->rng);
	}
	drop(cl, op);
}

void
load_step(struct sim_client *cl)
{
	static const struct {
		uint32_t weight;
		void (*step)(struct sim_client *cl);
	} steps[] = {
	    {30, step_write},
	    {10, step_commit},
	    {12, step_create},
	    {5, step_mkdir},
	    {3, step_symlink},
	    {2, step_mknod},
	    {4, step_link},
	    {9, step_remove},
	    {8, step_rename},
	    {8, step_setattr},
	    {9, step_look},
	};
	uint32_t draw = m_below(&cl->rng, 100);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		if (draw < steps[i].weight) {
			steps[i].step(cl);
			return;
		}
		draw -= steps[i].weight;
	}
}
