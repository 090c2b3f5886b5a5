/*
 * retire.c - descriptors of drives that returned, were replaced or left: closed once nobody uses
 * them.
 *
 * A descriptor is retired (vdev_retire) when no column and no entry has it any more and the set's
 * blocks have let go of it. Who may be at it still:
 *  - a ring of the log, also a former one, as long as the pool is open (log_knows); there are
 *    LOG_RINGS_MAX of them at most, so what they hold is bounded
 *  - a look at all drives (pool.looking)
 *  - somebody who doesn't park, and a ring that is being made: over long before RETIRED_NS
 *  - a write past its deadline (kb_late_writes): until it has ended the drive is nobody else's
 *
 * What is left at the end is closed with the pool (vdev_free).
 */
#include "pool/drive.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"

#define RETIRED_NS (60 * NSEC_PER_SEC) /* longer than any I/O may take */

static bool
is_over(const struct pool *p, const struct vdev_retired *r)
{
	return rt_now_ns() - r->since_ns >= RETIRED_NS && kb_late_writes(r->kb) == 0 &&
	       !log_knows(p, r->kb);
}

/* NULL: none. */
static struct kb_drive *
take_one(struct pool *p)
{
	struct kb_drive *kb = NULL;

	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.retired_count && atomic_load(&p->looking) == 0; i++) {
		if (is_over(p, &p->v.retired[i])) {
			kb = p->v.retired[i].kb;
			p->v.retired[i] = p->v.retired[--p->v.retired_count];
			break;
		}
	}
	mutex_unlock(&p->config_lock);
	return kb;
}

void
retired_look(struct pool *p)
{
	struct kb_drive *kb;

	while ((kb = take_one(p)) != NULL) {
		log_info("drive.closed pool=%s path=%s", p->name, kb_path(kb));
		kb_close(kb);
	}
}
