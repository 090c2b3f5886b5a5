/* report.c - what a run says. */
#include <stdarg.h>
#include "tests/sim/sim.h"

#define PROBLEMS_SHOWN_MAX 10u

static void
say(const struct sim *s, const char *what, const char *text)
{
	printf("seed %llu life %u %s%s%s\n", (unsigned long long)s->seed, s->life, what,
	    what[0] != '\0' ? ": " : "", text);
	fflush(stdout);
}

static void
problem(struct sim *s, const char *what, const char *text)
{
	if (s->first_problem[0] == '\0') {
		snprintf(s->first_problem, sizeof(s->first_problem), "%s: %s", what, text);
	}
	if (s->lost + s->wrong <= PROBLEMS_SHOWN_MAX || s->verbose) {
		say(s, what, text);
	}
}

static void PRINTF_LIKE(3, 0) format(char *out, size_t len, const char *fmt, va_list ap)
{
	vsnprintf(out, len, fmt, ap);
}

void
sim_lost(struct sim *s, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	format(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->lost++;
	problem(s, "LOST", text);
}

void
sim_wrong(struct sim *s, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	format(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->wrong++;
	problem(s, "WRONG", text);
}

void
sim_say(const struct sim *s, const char *fmt, ...)
{
	if (!s->verbose) {
		return;
	}
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	format(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(s, "", text);
}

static const char *const proc_names[NFSC_PROCS] = {"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS",
    "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME",
    "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT"};

const char *
sim_proc(const struct m_op *op)
{
	return proc_names[op->proc];
}

static uint32_t
id_or_0(const struct m_node *n)
{
	return n != NULL ? n->id : 0;
}

void
sim_say_op(const struct sim *s, const struct m_op *op, const char *what)
{
	const struct m_change *c = &op->change;
	if (!s->verbose || op->proc == NFSC_GETATTR) {
		return;
	}
	printf("%10.6f client %u xid %08x %s %s object %u",
	    (double)(rt_now_ns() % 1000000000000) / 1e9, op->client, op->call_xid, what,
	    sim_proc(op), id_or_0(op->node));
	if (op->name != NULL) {
		printf(" %u/%s", op->name->dir->id, op->name->text);
	}
	if (op->name2 != NULL) {
		printf(
		    " -> %u/%s over %u", op->name2->dir->id, op->name2->text, id_or_0(op->victim));
	}
	if (c->write) {
		printf(" [%llu +%u) stable %d", (unsigned long long)c->off, c->len, op->stable);
	}
	if (c->set_size) {
		printf(" size %llu", (unsigned long long)c->size);
	}
	printf("\n");
	fflush(stdout);
}
