/*
 * offload.c - helper threads for what may block. A job lives on the stack of the fiber that waits
 * for it. This is the only place where threads wait for each other with the system's primitives;
 * the fiber's side of a job is one atomic flag and a wake.
 */
#include <signal.h>
#include "base/check.h"
#include "base/rt_int.h"

struct offload_job {
	struct list link; /* [m] */
	void (*fn)(void *arg);
	void *arg;
	struct fiber *waiting;
	atomic_bool done;
};

static struct {
	pthread_mutex_t mu;
	pthread_cond_t some;
	struct list jobs; /* [m] */
	bool stopping;    /* [m] */
	unsigned count;
	pthread_t threads[RT_HELPERS_MAX];
} helpers = {.mu = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER};

static struct offload_job *
helper_next_job(void)
{
	struct offload_job *job = NULL;
	pthread_mutex_lock(&helpers.mu);
	while (list_empty(&helpers.jobs) && !helpers.stopping) {
		pthread_cond_wait(&helpers.some, &helpers.mu);
	}
	if (!list_empty(&helpers.jobs)) {
		job = list_first(&helpers.jobs, struct offload_job, link);
		list_remove(&job->link);
	}
	pthread_mutex_unlock(&helpers.mu);
	return job;
}

static void *
helper_run(void *arg)
{
	(void)arg;
	struct offload_job *job;
	while ((job = helper_next_job()) != NULL) {
		struct fiber *waiting = job->waiting;
		job->fn(job->arg);
		/* From here the job's frame may be gone. */
		atomic_store_explicit(&job->done, true, memory_order_release);
		fiber_wake(waiting);
	}
	return NULL;
}

int
helpers_start(unsigned count)
{
	sigset_t all, before;
	list_init(&helpers.jobs);
	helpers.stopping = false;
	helpers.count = 0;
	sigfillset(&all);
	ASSERT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	int err = 0;
	while (helpers.count < count && err == 0) {
		err = -pthread_create(&helpers.threads[helpers.count], NULL, helper_run, NULL);
		helpers.count += err == 0;
	}
	ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	if (err != 0) {
		helpers_stop();
	}
	return err;
}

void
helpers_stop(void)
{
	pthread_mutex_lock(&helpers.mu);
	helpers.stopping = true;
	pthread_cond_broadcast(&helpers.some);
	pthread_mutex_unlock(&helpers.mu);
	for (unsigned i = 0; i < helpers.count; i++) {
		ASSERT(pthread_join(helpers.threads[i], NULL) == 0);
	}
	helpers.count = 0;
}

void
offload(void (*fn)(void *arg), void *arg)
{
	ASSERT(fiber_self() != NULL);
	if (rt.sim) {
		/* Others run before and after, as they would while a helper works. */
		fiber_yield();
		fn(arg);
		fiber_yield();
		return;
	}
	struct offload_job job = {.fn = fn, .arg = arg, .waiting = fiber_self()};
	pthread_mutex_lock(&helpers.mu);
	list_push_back(&helpers.jobs, &job.link);
	pthread_cond_signal(&helpers.some);
	pthread_mutex_unlock(&helpers.mu);
	while (!atomic_load_explicit(&job.done, memory_order_acquire)) {
		fiber_park();
	}
}
