/*
 * kb_worker.c - requests that need a blocking call: a few fibers per lane take them from a queue,
 * in no promised order, and carry each to a helper thread. Bounded twice: KB_WORKERS_MAX fibers a
 * lane, and the helper threads of base/. What has not begun can still be taken back at its
 * deadline.
 *
 * A worker ends when it finds the queue empty, but for the kept one (image files on disk): it
 * parks, so that reads and writes go on even when every fiber stack is taken by those who wait for
 * them. Without a kept worker (discard) a request may fail with -EAGAIN when there is no stack;
 * discard is a hint, and its caller tries again.
 */
#include "kernel-bypass/kb_int.h"

#define KB_WORKERS_MAX 4u

struct worker_call {
	int (*work)(struct kb_req *req);
	struct kb_req *req;
	int status;
};

void
kb_worker_set_init(struct kb_worker_set *ws, struct kb_lane *lane, int (*work)(struct kb_req *req))
{
	ws->lane = lane;
	ws->work = work;
	ws->live_max = KB_WORKERS_MAX;
	list_init(&ws->queue);
}

static void
worker_call(void *arg)
{
	struct worker_call *call = arg;

	call->status = call->work(call->req);
}

static void
worker_drain_queue(struct kb_worker_set *ws)
{
	while (!list_empty(&ws->queue)) {
		struct kb_worker_req *wr = list_first(&ws->queue, struct kb_worker_req, queue_link);
		struct worker_call call = {.work = ws->work, .req = &wr->req};

		list_remove(&wr->queue_link);
		offload(worker_call, &call);
		kb_req_complete(&wr->req, call.status);
	}
}

static void
worker_main(void *arg)
{
	struct kb_worker_set *ws = arg;

	for (;;) {
		worker_drain_queue(ws);
		if (ws->stop || !ws->keep_one || ws->idle != NULL) {
			break;
		}
		ws->idle = fiber_self();
		while (ws->idle == fiber_self()) {
			fiber_park();
		}
	}
	ws->live--;
	if (ws->stop && ws->live == 0) {
		kb_lane_stopped(ws->lane);
	}
}

void
kb_worker_set_keep_one(struct kb_worker_set *ws)
{
	ws->keep_one = true;
	ws->live = 1;
	fiber_spawn_wait(ws->lane->reactor, FIBER_REQUEST, "kb-worker", worker_main, ws);
}

static void
worker_wake_idle(struct kb_worker_set *ws)
{
	struct fiber *f = ws->idle;

	if (f != NULL) {
		ws->idle = NULL;
		fiber_wake(f);
	}
}

void
kb_worker_start(struct kb_worker_set *ws, struct kb_worker_req *wr)
{
	list_push_back(&ws->queue, &wr->queue_link);
	if (ws->idle != NULL) {
		worker_wake_idle(ws);
		return;
	}
	if (ws->live == ws->live_max) {
		return;
	}
	ws->live++;
	if (fiber_spawn(ws->lane->reactor, FIBER_REQUEST, "kb-worker", worker_main, ws) == 0) {
		return;
	}
	ws->live--;
	if (ws->live == 0) {
		list_remove(&wr->queue_link);
		kb_req_complete(&wr->req, -EAGAIN);
	}
}

bool
kb_worker_cancel(struct kb_worker_req *wr)
{
	if (list_empty(&wr->queue_link)) {
		return false;
	}
	list_remove(&wr->queue_link);
	return true;
}

void
kb_worker_stop(struct kb_worker_set *ws)
{
	ws->stop = true;
	if (ws->live == 0) {
		kb_lane_stopped(ws->lane);
		return;
	}
	worker_wake_idle(ws);
}
