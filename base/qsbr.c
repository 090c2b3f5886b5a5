/*
 * qsbr.c - quiescent-state reclamation. What a reactor retires waits for its next round; a round is
 * one message that travels through the loops of all reactors and comes home. A loop that handles it
 * is between two runs of fibers, so no reader of that reactor can still hold what was unpublished
 * before the round began; its inbox also gives the memory ordering and wakes a reactor that sleeps.
 * At most one round a reactor is under way; what is retired meanwhile goes with the next. As long
 * as anything is retired, a round is under way; so running all messages to their end, as the
 * runtime does when it stops, runs everything that was retired.
 */
#include "base/check.h"
#include "base/rt_int.h"

static void qsbr_round(struct rt_msg *m);

static void
qsbr_round_begin(struct reactor *r)
{
	r->retiring = r->retired;
	r->retired = NULL;
	r->retired_tail = &r->retired;
	r->retire_msg.fn = qsbr_round;
	rt_post((r->id + 1) % rt.count, &r->retire_msg);
}

static void
qsbr_run_all(struct qsbr_node *n)
{
	while (n != NULL) {
		struct qsbr_node *next = n->next;
		n->fn(n);
		n = next;
	}
}

static void
qsbr_round(struct rt_msg *m)
{
	struct reactor *home = container_of(m, struct reactor, retire_msg);
	if (home != rt_cur) {
		rt_post((rt_cur->id + 1) % rt.count, m);
		return;
	}
	struct qsbr_node *done = home->retiring;
	home->retiring = NULL;
	qsbr_run_all(done);
	if (home->retired != NULL && home->retiring == NULL) {
		qsbr_round_begin(home);
	}
}

void
qsbr_retire(struct qsbr_node *n, void (*fn)(struct qsbr_node *n))
{
	struct reactor *r = rt_cur;
	n->fn = fn;
	n->next = NULL;
	*r->retired_tail = n;
	r->retired_tail = &n->next;
	if (r->retiring == NULL) {
		qsbr_round_begin(r);
	}
}
