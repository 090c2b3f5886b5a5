/*
 * faults.c - how drives fall ill. They may fail reads or writes, lie, rot, hang, answer late, be
 * slow, write elsewhere, or be pulled out. No client may notice, nothing may be lost.
 *
 * Without an operator at most one drive of each set, and at most one of two log drives, is the
 * victim of a run. With one, whoever the atlas allows falls ill and gets well again (operator.c).
 */
#include "tests/sim/sim.h"

#define FAULTY_PERCENT 60u
#define BACK_PERCENT 50u
#define RATE_PPM 20000u
#define SLOW_RATE_PPM 1500u
#define OFTEN_FACTOR 10u
#define SLOW_FACTOR 20u

static bool
set_survives(const struct sim_machine *mc)
{
	return mc->kind == RAIDZ_KIND_MIRROR ? mc->width >= 2 : mc->parity >= 1;
}

void
sim_faults_draw(struct sim *s)
{
	struct sim_machine *mc = &s->machine;
	if (mc->extra > 0) {
		return; /* with an operator nobody is a victim for ever */
	}
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
	sim_atlas_power_on(s);
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

/* Of each kind: how often, and whether wrong contents stay behind. */
struct kind {
	const char *name;
	size_t rate; /* offset in struct kb_sim_faults */
	uint32_t ppm;
	bool lies;
};

#define KIND(field) offsetof(struct kb_sim_faults, field)

static const struct kind kinds[] = {
    {"read errors", KIND(read_error), RATE_PPM, false},
    {"write errors", KIND(write_error), RATE_PPM, false},
    {"flush errors", KIND(flush_error), RATE_PPM, false},
    {"rot", KIND(rot), RATE_PPM, true},
    {"misdirected writes", KIND(misdirected), RATE_PPM, true},
    {"dropped writes", KIND(dropped), RATE_PPM, true},
    {"hangs", KIND(hang), SLOW_RATE_PPM, false},
    {"late writes", KIND(late), SLOW_RATE_PPM, false},
};

/* Slow, then one of the kinds, or both. */
void
sim_make_ill(struct sim *s, uint32_t medium)
{
	struct kb_sim_faults f = {0};
	uint32_t n = m_below(&s->rng, ARRAY_LEN(kinds) + 1);
	const struct kind *k = n < ARRAY_LEN(kinds) ? &kinds[n] : NULL;
	set_latency(s, &f);
	if (k == NULL || m_chance(&s->rng, 10)) {
		f.latency_ns_min *= SLOW_FACTOR;
		f.latency_ns_max *= SLOW_FACTOR;
	}
	if (k != NULL) {
		uint32_t rate = k->ppm * (m_chance(&s->rng, 50) ? OFTEN_FACTOR : 1);
		memcpy((uint8_t *)&f + k->rate, &rate, sizeof(rate));
	}
	sim_say(s, "drive %u: %s", medium, k != NULL ? k->name : "slow");
	s->stats.faulty_drives++;
	sim_atlas_ill(s, (int)medium, k != NULL && k->lies);
	kb_sim_set_faults(s->machine.media[medium], &f);
}

void
sim_make_well(struct sim *s, uint32_t medium)
{
	struct kb_sim_faults none = {0};
	set_latency(s, &none);
	sim_say(s, "drive %u is well again", medium);
	kb_sim_set_faults(s->machine.media[medium], &none);
	kb_sim_unhang(s->machine.media[medium]);
	sim_atlas_well(s, (int)medium);
}

void
sim_faults_arm(struct sim *s)
{
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (!s->machine.victim[i] || s->machine.gone[i] || !m_chance(&s->rng, 70)) {
			continue;
		}
		if (m_chance(&s->rng, 12)) {
			s->stats.faulty_drives++;
			pull_later(s, i);
		} else {
			sim_make_ill(s, i);
		}
	}
}
