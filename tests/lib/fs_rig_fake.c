/* fs_rig_fake.c - a rig on the pool without drives. */
#include "tests/lib/fakepool.h"
#include "tests/lib/fs_rig.h"

void
rig_open(struct rig *r)
{
	rig_attach(r, fakepool_create("tank"), NULL, NULL);
}

void
rig_close(struct rig *r)
{
	rig_detach(r);
	fakepool_free(r->pool);
}
