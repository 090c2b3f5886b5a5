/*
 * export.c - end a pool's life in this process. The heartbeat stops first, so that nothing writes
 * an uberblock behind the clean one.
 */
#include "pool/heartbeat.h"
#include "pool/pool_int.h"
#include "pool/scan.h"
#include "pool/trim.h"

int
pool_export(struct pool *p)
{
	int err;

	heartbeat_stop(p);
	trim_stop(p);
	scan_stop(p);
	err = pool_engine_close(p, !p->readonly);
	trim_free(p);
	scan_free(p);
	log_info("pool.export name=%s result=%s", p->name, err == 0 ? "clean" : err_str(-err));
	vdev_free(&p->v, true);
	pool_free(p);
	return err;
}

int
pool_release(struct pool *p)
{
	atomic_store(&p->released, true);
	return pool_export(p);
}

int
pool_destroy(struct pool *p)
{
	int err;

	heartbeat_stop(p);
	trim_stop(p);
	scan_stop(p);
	err = pool_engine_close(p, false);
	trim_free(p);
	scan_free(p);
	if (err != 0) {
		log_info("pool.destroy_unsynced name=%s error=%s", p->name, err_str(-err));
	}
	/* labels are what makes it importable; a suspended pool's drives may well take the zeros */
	err = vdev_erase_labels(&p->v);
	log_info("pool.destroy name=%s result=%s", p->name, err == 0 ? "erased" : err_str(-err));
	vdev_free(&p->v, true);
	pool_free(p);
	return err;
}

const char *
pool_name(const struct pool *p)
{
	return p->name;
}

struct guid
pool_guid(const struct pool *p)
{
	return p->v.pool_guid;
}

bool
pool_is_readonly(const struct pool *p)
{
	return p->readonly;
}

bool
pool_is_suspended(const struct pool *p)
{
	return p->suspended;
}
