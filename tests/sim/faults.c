/*
 * faults.c - what else goes wrong with drives: at most one drive of each set, and at most one of
 * two log drives, is the victim of a run. It may fail reads or writes, lie, rot, hang, answer late,
 * write elsewhere, or be pulled out. No client may notice, nothing may be lost.
 */
#include "tests/sim/sim.h"

#define FAULTY_PERCENT 60u
#define BACK_PERCENT 50u
#define RATE_PPM 15000u
#define SLOW_RATE_PPM 1500u

static bool
set_survives(const struct sim_machine *mc)
{
	return mc->kind == RAIDZ_KIND_MIRROR ? mc->width >= 2 : mc->parity >= 1;
}

void
sim_faults_draw(struct sim *s)
{
	struct sim_machine *mc = &s->machine;
	for (uint32_t i = 0; i < mc->sets; i++) {
		uint32_t v = i * mc->width + m_below(&s->rng, mc->width);
		mc->victim[v] = set_survives(mc) && m_chance(&s->rng, FAULTY_PERCENT);
	}
	if (mc->logs == 2) {
		uint32_t v = mc->sets * mc->width + m_below(&s->rng, 2);
		mc->victim[v] = m_chance(&s->rng, FAULTY_PERCENT);
	}
}

static void
set_latency(const struct sim *s, struct kb_sim_faults *f)
{
	f->latency_ns_min = s->machine.latency_ns / 10;
	f->latency_ns_max = s->machine.latency_ns;
}

void
sim_faults_begin(struct sim *s)
{
	struct sim_machine *mc = &s->machine;
	for (uint32_t i = 0; i < mc->media_count; i++) {
		struct kb_sim_faults none = {0};
		set_latency(s, &none);
		kb_sim_set_faults(mc->media[i], &none);
		kb_sim_unhang(mc->media[i]);
		if (mc->gone[i] && m_chance(&s->rng, BACK_PERCENT)) {
			kb_sim_return(mc->media[i]);
			mc->gone[i] = false;
			sim_say(s, "drive %u is back", i);
		}
	}
}

struct pull {
	struct sim *s;
	uint32_t drive;
	uint64_t at_ns;
};

static void
pull_out(void *arg)
{
	struct pull *p = arg;
	struct sim *s = p->s;
	while (!s->stopping && rt_now_ns() < p->at_ns) {
		fiber_sleep(MIN(p->at_ns - rt_now_ns(), 20 * NSEC_PER_MSEC));
	}
	if (!s->stopping) {
		sim_say(s, "drive %u is pulled out", p->drive);
		s->machine.gone[p->drive] = true;
		kb_sim_vanish(s->machine.media[p->drive]);
	}
	mem_free(p);
	wg_done(&s->fibers);
}

static void
pull_later(struct sim *s, uint32_t drive)
{
	struct pull *p = mem_zalloc(sizeof(*p));
	ASSERT(p != NULL);
	*p = (struct pull){s, drive, rt_now_ns() + m_rand(&s->rng) % (200 * NSEC_PER_MSEC)};
	wg_add(&s->fibers, 1);
	fiber_spawn_wait(0, FIBER_ADMIN, "sim-pull", pull_out, p);
}

static void
make_ill(struct sim *s, uint32_t drive)
{
	static const char *const names[] = {"read errors", "write errors", "flush errors", "rot",
	    "misdirected writes", "dropped writes", "hangs", "late writes", "pulled out later"};
	struct kb_sim_faults f = {0};
	uint32_t *const rates[] = {&f.read_error, &f.write_error, &f.flush_error, &f.rot,
	    &f.misdirected, &f.dropped, &f.hang, &f.late};
	uint32_t kind = m_below(&s->rng, ARRAY_LEN(names));
	sim_say(s, "drive %u: %s", drive, names[kind]);
	s->stats.faulty_drives++;
	if (kind == ARRAY_LEN(rates)) {
		pull_later(s, drive);
		return;
	}
	set_latency(s, &f);
	*rates[kind] = kind >= 6 ? SLOW_RATE_PPM : RATE_PPM;
	kb_sim_set_faults(s->machine.media[drive], &f);
}

void
sim_faults_arm(struct sim *s)
{
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->machine.victim[i] && !s->machine.gone[i] && m_chance(&s->rng, 70)) {
			make_ill(s, i);
		}
	}
}
