/*
 * kb_call.c - the small calls of a drive: one I/O and its wait, what is known of it, its counters,
 * and the few helpers that backends share.
 */
#include <unistd.h>
#include "kernel-bypass/kb_int.h"

static int
one_io(struct kb_drive *d, struct kb_io *io)
{
	struct kb_group g;

	kb_group_init(&g);
	kb_submit(d, io, &g, 0);
	kb_group_wait(&g);
	return io->status;
}

int
kb_read(struct kb_drive *d, uint64_t off_bytes, struct iobuf *buf, uint32_t len_bytes)
{
	struct kb_seg seg = {.buf = buf, .len_bytes = len_bytes};
	struct kb_io io = {.op = KB_READ, .off_bytes = off_bytes, .segs = &seg, .seg_count = 1};

	return one_io(d, &io);
}

int
kb_write(
    struct kb_drive *d, uint64_t off_bytes, struct iobuf *buf, uint32_t len_bytes, uint32_t flags)
{
	struct kb_seg seg = {.buf = buf, .len_bytes = len_bytes};
	struct kb_io io = {
	    .op = KB_WRITE, .flags = flags, .off_bytes = off_bytes, .segs = &seg, .seg_count = 1};

	return one_io(d, &io);
}

int
kb_flush(struct kb_drive *d)
{
	struct kb_io io = {.op = KB_FLUSH};

	return one_io(d, &io);
}

int
kb_discard(struct kb_drive *d, uint64_t off_bytes, uint64_t len_bytes)
{
	struct kb_io io = {.op = KB_DISCARD, .off_bytes = off_bytes, .len_bytes = len_bytes};

	return one_io(d, &io);
}

void
kb_reserve(struct kb_drive *d, uint64_t off_bytes, uint64_t len_bytes)
{
	if (d->ops->reserve != NULL) {
		d->ops->reserve(d, off_bytes, len_bytes);
	}
}

void
kb_get_info(const struct kb_drive *d, struct kb_info *out)
{
	*out = d->info;
}

const char *
kb_id(const struct kb_drive *d)
{
	return d->info.id;
}

const char *
kb_path(const struct kb_drive *d)
{
	return d->info.path;
}

uint64_t
kb_size(const struct kb_drive *d)
{
	return d->info.size_bytes;
}

uint32_t
kb_physical(const struct kb_drive *d, bool *out_volatile_cache)
{
	*out_volatile_cache = d->info.volatile_cache;
	return d->info.physical_sector_bytes;
}

bool
kb_discards(const struct kb_drive *d)
{
	return d->info.discard;
}

uint64_t
kb_late_writes(const struct kb_drive *d)
{
	return atomic_load(&d->late_writes);
}

bool
kb_is_gone(const struct kb_drive *d)
{
	return atomic_load_explicit(&d->gone, memory_order_relaxed);
}

void
kb_drive_set_gone(struct kb_drive *d)
{
	atomic_store(&d->gone, true);
}

void
kb_get_counters(const struct kb_drive *d, struct kb_counters *out)
{
	struct kb_counters sum = {0};

	for (unsigned i = 0; i < d->lane_count; i++) {
		struct kb_lane_counters *c = &kb_lane_at(d, i)->count;
		sum.reads += atomic_load_explicit(&c->ios[KB_READ], memory_order_relaxed);
		sum.writes += atomic_load_explicit(&c->ios[KB_WRITE], memory_order_relaxed);
		sum.flushes += atomic_load_explicit(&c->ios[KB_FLUSH], memory_order_relaxed);
		sum.discards += atomic_load_explicit(&c->ios[KB_DISCARD], memory_order_relaxed);
		sum.read_bytes += atomic_load_explicit(&c->read_bytes, memory_order_relaxed);
		sum.write_bytes += atomic_load_explicit(&c->write_bytes, memory_order_relaxed);
		sum.errors += atomic_load_explicit(&c->errors, memory_order_relaxed);
		sum.read_ns += atomic_load_explicit(&c->read_ns, memory_order_relaxed);
		sum.slow += atomic_load_explicit(&c->slow, memory_order_relaxed);
		sum.timeouts += atomic_load_explicit(&c->timeouts, memory_order_relaxed);
	}
	*out = sum;
}

void
kb_set_slow(struct kb_drive *d, uint64_t ns)
{
	atomic_store_explicit(&d->slow_ns, ns, memory_order_relaxed);
}

static void
close_blocking(void *arg)
{
	close(*(int *)arg);
}

/* On a loop there is no fiber that could park; it happens only when the last late I/O has ended. */
void
kb_close_fd(int fd)
{
	if (fiber_self() != NULL) {
		offload(close_blocking, &fd);
	} else {
		close(fd);
	}
}

int
kb_status_of_errno(int err)
{
	switch (err < 0 ? -err : err) {
	case 0:
		return 0;
	case ENODATA:
		return -ENODATA;
	case ENODEV:
	case ENXIO:
	case ERR_GONE:
		return -ERR_GONE;
	default:
		return -EIO;
	}
}
