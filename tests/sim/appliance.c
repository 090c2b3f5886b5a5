/*
 * appliance.c - the machine of a seed, and its lives one after the other.
 */
#include <stdlib.h>
#include "tests/sim/sim.h"

#define ARENA_BYTES ((size_t)96 << 20)

static const char *
one_of(struct m_rand *r, const char *const *list, uint32_t count)
{
	return list[m_below(r, count)];
}

/* Some seeds have a quota that they reach. (By the seed alone: the other draws stay what they
 * were.) */
static void
draw_limit(struct sim *s)
{
	struct sim_machine *mc = &s->machine;
	if (mc->fill || s->seed % 8 != 5) {
		return;
	}
	mc->limit = s->seed / 8 % 2 == 0 ? "refquota" : "quota";
	snprintf(mc->limit_size, sizeof(mc->limit_size), "%uK",
	    (unsigned)(256 + s->seed * 37 % 16 * 64));
}

static void
draw_machine(struct sim *s)
{
	static const char *const syncs[] = {"standard", "standard", "always"};
	static const char *const compressions[] = {"off", "lz4", "zstd", "on"};
	static const char *const records[] = {"128K", "128K", "4K", "16K", "1M"};
	static const unsigned buggify[] = {0, 15, 40, 70};
	struct sim_machine *mc = &s->machine;
	struct m_rand *r = &s->rng;
	*mc = (struct sim_machine){.kind = RAIDZ_KIND_PARITY, .sets = 1, .width = 7, .parity = 1};
	if (m_chance(r, 30)) {
		mc->width = 3 + m_below(r, 3);
	}
	if (m_chance(r, 15)) {
		mc->kind = RAIDZ_KIND_MIRROR;
		mc->width = 1 + m_below(r, 3);
		mc->parity = 0;
	}
	if (m_chance(r, 25)) {
		mc->sets = 2;
	}
	mc->logs = m_chance(r, 70) ? 2 : m_below(r, 2);
	mc->drive_bytes = (96 + 32 * m_below(r, 3)) * MIB;
	mc->log_bytes = m_chance(r, 60) ? (4 + m_below(r, 5)) * MIB : 0; /* small ones wrap */
	mc->sync = one_of(r, syncs, ARRAY_LEN(syncs));
	mc->compression = one_of(r, compressions, ARRAY_LEN(compressions));
	mc->recordsize = one_of(r, records, ARRAY_LEN(records));
	mc->latency_ns = m_chance(r, 25) ? 5 * NSEC_PER_MSEC : 200 * NSEC_PER_USEC;
	mc->buggify = buggify[m_below(r, ARRAY_LEN(buggify))];
	if (m_chance(r, 6)) {
		mc->fill = true;
		mc->sets = 1;
		mc->kind = m_chance(r, 50) ? RAIDZ_KIND_MIRROR : RAIDZ_KIND_PARITY;
		mc->width = mc->kind == RAIDZ_KIND_MIRROR ? 1 : 3;
		mc->parity = mc->kind == RAIDZ_KIND_MIRROR ? 0 : 1;
		mc->drive_bytes = 64 * MIB;
	}
	draw_limit(s);
	s->names_per_dir = m_chance(r, 15) ? 300 : 12;
	s->nodes_max = m_chance(r, 15) ? 250 : 60;
	s->file_bytes_max = m_chance(r, 50) ? M_FILE_BYTES_MAX : 64u << 10;
}

static void
build_machine(struct sim *s)
{
	struct sim_machine *mc = &s->machine;
	mc->media_count = mc->sets * mc->width + mc->logs + mc->extra;
	for (uint32_t i = 0; i < mc->media_count; i++) {
		char *name = mc->name[i];
		bool log = i >= mc->sets * mc->width && i < mc->media_count - mc->extra;
		snprintf(name, sizeof(mc->name[i]), "%s%u", log ? "log" : "d", i);
		mc->small[i] = log;
		/* what comes into a mirror is larger than what was there: it may grow */
		bool large = mc->kind == RAIDZ_KIND_MIRROR && i >= mc->media_count - mc->extra;
		mc->media[i] = kb_sim_medium_create(name, log     ? 32 * MIB
							  : large ? mc->drive_bytes * 2
								  : mc->drive_bytes);
		ASSERT(mc->media[i] != NULL);
		kb_sim_set_plp(mc->media[i], m_chance(&s->rng, 15));
	}
}

/* Log-uniform: short ones as often as long ones. */
static uint64_t
draw_scale(struct m_rand *r, uint32_t bits_min, uint32_t bits_max)
{
	uint32_t bits = bits_min + m_below(r, bits_max - bits_min + 1);
	return 1 + m_rand(r) % (1ull << bits);
}

/* Where much may go wrong most lives are long enough for it. */
static void
draw_end(struct sim *s)
{
	struct sim_plan *p = &s->plan;
	struct m_rand *r = &s->rng;
	bool long_life = s->faults && s->operator&& m_chance(r, 65);
	p->end_ns = long_life ? draw_scale(r, 27, 31) : draw_scale(r, 20, 31);
	if (p->last) {
		return;
	}
	uint32_t draw = m_below(r, 100);
	if (draw < 60) {
		p->end = SIM_END_WRITES;
		p->end_writes = long_life ? draw_scale(r, 11, 14) : draw_scale(r, 4, 13);
	} else if (draw < 90) {
		p->end = SIM_END_TIME;
	}
}

static void
draw_plan(struct sim *s, unsigned lives)
{
	struct sim_plan *p = &s->plan;
	struct m_rand *r = &s->rng;
	*p = (struct sim_plan){.last = s->life == lives, .end = SIM_END_EXPORT};
	p->clients = 1 + m_below(r, SIM_CLIENTS_MAX);
	p->reactors = 1 + m_below(r, 4);
	p->sync_every_ns = m_chance(r, 80) ? draw_scale(r, 22, 27) : 0;
	draw_end(s);
	/* a root that old exists only when so many txgs were committed since the last import */
	if (!p->last && s->life > 0 && s->syncs >= 4 && m_chance(r, 50)) {
		p->rewind = 1 + m_below(r, 2);
	}
}

/* Exported clean, and the newest root is taken up: nothing may be missing, not even UNSTABLE data.
 */
static void
settle_all(struct sim *s)
{
	list_for_each(it, &s->m.nodes)
	{
		model_settle(list_entry(it, struct m_node, link));
	}
}

static void
begin_life(struct sim *s)
{
	if (s->clean && s->plan.rewind == 0) {
		settle_all(s);
	}
	s->clean = false;
	s->syncs = 0;
	s->has_verf = s->settled = s->quiet = s->stopping = false;
	s->pool = NULL;
	s->fp = NULL;
	s->nfsd = NULL;
	s->stats.lives++;
	s->stats.rewinds += s->plan.rewind > 0;
	static const char *const ends[] = {"writes", "time", "export"};
	sim_say(s, "begins: %u clients, %u reactors, end by %s (%llu writes, %llu us), rewind %u",
	    s->plan.clients, s->plan.reactors, ends[s->plan.end],
	    (unsigned long long)s->plan.end_writes, (unsigned long long)s->plan.end_ns / 1000,
	    s->plan.rewind);
}

static void
run_life(struct sim *s)
{
	begin_life(s);
	struct rt_options opt = {.reactors = s->plan.reactors,
	    .sim = true,
	    .seed = m_rand(&s->rng),
	    .arena_bytes = ARENA_BYTES};
	bug_set_buggify(s->machine.buggify);
	sim_faults_begin(s);
	int err = rt_run(&opt, sim_life, s);
	kb_sim_crash_after_writes(0);
	s->trace = s->trace * 31 + rt_sim_trace();
	if (err == -ERR_CRASHED) {
		s->stats.crashes++;
		s->stats.crashes_early += !s->settled;
		uint64_t seed = m_rand(&s->rng);
		for (uint32_t i = 0; i < s->machine.media_count; i++) {
			kb_sim_power_cut(s->machine.media[i], seed + i);
		}
	} else if (err == 0) {
		s->stats.exports++;
	} else {
		sim_wrong(s, "rt_run: %s", err_str(err));
	}
	sim_say(s, "ended: %s, trace %016llx", err_str(err), (unsigned long long)s->trace);
}

void
sim_run_seed(struct sim *s, uint64_t seed)
{
	s->seed = seed;
	s->rng.state = seed * 0x9e3779b97f4a7c15ull + 1;
	s->trace = seed;
	s->stats.runs++;
	model_init(&s->m);
	draw_machine(s);
	if (s->operator) {
		sim_operator_draw(s);
	}
	build_machine(s);
	if (s->faults) {
		sim_faults_draw(s);
	}
	sim_say(s, "%u set(s) of %u, parity %u, %u logs, sync=%s, %s, %s, buggify %u%%",
	    s->machine.sets, s->machine.width, s->machine.parity, s->machine.logs, s->machine.sync,
	    s->machine.compression, s->machine.recordsize, s->machine.buggify);
	unsigned lives = 2 + m_below(&s->rng, 5);
	for (s->life = 0; s->life <= lives && !sim_bad(s); s->life++) {
		draw_plan(s, lives);
		run_life(s);
	}
	if (!sim_bad(s)) {
		s->plan.last = false;
		s->plan.proof = true;
		s->plan.rewind = 0;
		s->stats.proofs++;
		run_life(s);
	}
}

void
sim_fini(struct sim *s)
{
	model_fini(&s->m);
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		kb_sim_medium_destroy(s->machine.media[i]);
	}
}
