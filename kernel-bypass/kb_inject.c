/*
 * kb_inject.c - faults on purpose: a drive that works is made to fail, lie, hang, be slow or be
 * gone, as the operator said, so that one can see what a pool does then and whether alerts arrive.
 *
 * The layer sits between kb_submit and the backend, so it is the same for every driver. What it
 * does to an I/O is decided once, when that is submitted (kb_faults_judge); kb.c carries it out.
 * Nothing but the data that a read returned is ever changed: what a drive holds stays what was
 * written.
 *
 * A drive's pointer to armed faults is what each I/O looks at; the memory stays until the drive
 * goes, so that an I/O on another reactor that has just read the pointer may still use it.
 */
#include "base/bug.h"
#include "kernel-bypass/kb_int.h"

struct kb_faults {
	atomic_uint refs;
	struct spin lock;
	struct kb_fault_spec spec; /* under lock, as the rest */
	uint64_t hits;
};

struct kb_faults *
kb_faults_create(void)
{
	struct kb_faults *f = mem_zalloc(sizeof(*f));

	if (f != NULL) {
		atomic_init(&f->refs, 1);
		spin_init(&f->lock);
	}
	return f;
}

void
kb_faults_put(struct kb_faults *f)
{
	if (atomic_fetch_sub(&f->refs, 1) == 1) {
		mem_free(f);
	}
}

void
kb_faults_set(struct kb_faults *f, const struct kb_fault_spec *spec)
{
	spin_lock(&f->lock);
	f->spec = *spec;
	f->hits = 0;
	spin_unlock(&f->lock);
}

static bool
counted_out(const struct kb_faults *f)
{
	return f->spec.count != 0 && f->hits >= f->spec.count;
}

void
kb_faults_get(struct kb_faults *f, struct kb_fault_spec *out, uint64_t *out_hits, bool *out_spent)
{
	spin_lock(&f->lock);
	*out = f->spec;
	*out_hits = f->hits;
	*out_spent =
	    counted_out(f) || (f->spec.hang_until_ns != 0 && f->spec.hang_until_ns <= rt_now_ns());
	spin_unlock(&f->lock);
}

void
kb_faults_attach(struct kb_drive *d, struct kb_faults *f, bool armed)
{
	struct kb_fault_spec spec;
	uint64_t hits;
	bool spent;

	if (d->faults == NULL) {
		atomic_fetch_add(&f->refs, 1);
		d->faults = f;
	}
	ASSERT(d->faults == f);
	atomic_store_explicit(&d->armed, armed ? f : NULL, memory_order_release);
	kb_faults_get(f, &spec, &hits, &spent);
	if (armed && spec.gone) {
		kb_drive_set_gone(d);
	}
}

static bool
touches(const struct kb_fault_spec *s, const struct kb_io *io, uint64_t len_bytes)
{
	if (s->len_bytes == 0) {
		return true;
	}
	return io->op != KB_FLUSH && io->off_bytes < s->off_bytes + s->len_bytes &&
	       s->off_bytes < io->off_bytes + len_bytes;
}

static bool
its_turn(const struct kb_fault_spec *s)
{
	return s->one_in <= 1 || rt_random_u64() % s->one_in == 0;
}

/* Under the lock. True: something happens to it. */
static bool
judge_locked(const struct kb_fault_spec *s, enum kb_op op, struct kb_verdict *v)
{
	bool corrupt = s->corrupt && (op == KB_READ || DELIBERATE_BUG("kb-inject-writes"));

	v->delay_ns = s->slow_ms * NSEC_PER_MSEC;
	v->corrupt = corrupt;
	if ((s->errors & (1u << op)) == 0) {
		return corrupt || s->slow_ms != 0;
	}
	if (s->status == -ETIMEDOUT) {
		v->delay_ns = UINT64_MAX;
	} else {
		v->status = s->status;
	}
	return true;
}

struct kb_verdict
kb_faults_judge(struct kb_faults *f, const struct kb_io *io, uint64_t len_bytes)
{
	struct kb_verdict v = {0};
	uint64_t now = rt_now_ns();

	spin_lock(&f->lock);
	if (f->spec.hang_until_ns > now && touches(&f->spec, io, len_bytes)) {
		v.delay_ns = f->spec.hang_until_ns - now;
		f->hits++;
	} else if (!counted_out(f) && touches(&f->spec, io, len_bytes) && its_turn(&f->spec) &&
		   judge_locked(&f->spec, io->op, &v)) {
		f->hits++;
	}
	spin_unlock(&f->lock);
	return v;
}

/* One bit somewhere: in the first sector, so that short reads aren't spared. */
void
kb_faults_corrupt(const struct kb_io *io)
{
	const struct kb_seg *s = &io->segs[0];
	uint64_t at = rt_random_u64() % ((uint64_t)SECTOR_BYTES * 8);

	s->buf->data[s->off_bytes + at / 8] ^= (uint8_t)(1u << at % 8);
}
