/*
 * ilog_rig.h - an owner of a log for tests: simulated drives as sides, records that describe
 * themselves, and a replay that checks and digests what it is given.
 */
#ifndef AGATE_TESTS_ILOG_RIG_H
#define AGATE_TESTS_ILOG_RIG_H

#include "intentlog/ilog.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/unit.h"

#define RIG_OFF (1u << 20)

struct rig {
	struct kb_sim_medium *media[ILOG_SIDES_MAX];
	unsigned sides;
	uint64_t ring_bytes;
	uint64_t epoch;
	uint32_t out; /* mask, durable: what the owner's labels say */
	unsigned lost_calls;
	int lost_status; /* what side_lost answers */
	uint64_t lost_takes_ns;
	bool lost_running;
	/* of one life */
	struct kb_drive *drives[ILOG_SIDES_MAX];
	struct ilog_config cfg;
};

/* The payload of a record: this, and then a pattern. */
struct rig_payload {
	uint64_t appender, counter, txg, len_bytes;
};

static inline uint8_t
rig_pattern(const struct rig_payload *p, uint32_t i)
{
	return (uint8_t)((p->appender * 131 + p->counter * 31 + (i >> 3)) ^ (i * 7));
}

static inline void
rig_fill(uint8_t *buf, const struct rig_payload *p)
{
	memcpy(buf, p, sizeof(*p));
	for (uint32_t i = sizeof(*p); i < p->len_bytes; i++) {
		buf[i] = rig_pattern(p, i);
	}
}

static inline bool
rig_payload_ok(const struct ilog_record *rec, const void *payload, struct rig_payload *out)
{
	const uint8_t *b = payload;

	if (rec->len_bytes < sizeof(*out)) {
		return false;
	}
	memcpy(out, payload, sizeof(*out));
	if (out->len_bytes != rec->len_bytes || out->txg != rec->txg ||
	    rec->object != out->appender || rec->generation != out->counter || rec->type != 7 ||
	    rec->flags != 3) {
		return false;
	}
	for (uint32_t i = sizeof(*out); i < rec->len_bytes; i++) {
		if (b[i] != rig_pattern(out, i)) {
			return false;
		}
	}
	return true;
}

static inline int
rig_side_lost(void *arg, unsigned side)
{
	struct rig *rig = arg;

	rig->lost_running = true;
	if (rig->lost_takes_ns != 0) {
		fiber_sleep(rig->lost_takes_ns);
	}
	rig->lost_running = false;
	rig->lost_calls++;
	if (rig->lost_status == 0) {
		rig->out |= 1u << side;
	}
	return rig->lost_status;
}

static inline bool
rig_init(struct rig *rig, unsigned sides, uint64_t ring_bytes)
{
	memset(rig, 0, sizeof(*rig));
	rig->sides = sides;
	rig->ring_bytes = ring_bytes;
	rig->epoch = 1;
	for (unsigned s = 0; s < sides; s++) {
		rig->media[s] = kb_sim_medium_create("log", RIG_OFF + ring_bytes + RIG_OFF);
		if (rig->media[s] == NULL) {
			return false;
		}
	}
	return true;
}

static inline void
rig_fini(struct rig *rig)
{
	for (unsigned s = 0; s < rig->sides; s++) {
		kb_sim_medium_destroy(rig->media[s]);
	}
}

/* In a fiber: open the sides that are not out (nor in without). */
static inline bool
rig_open(struct rig *rig, uint32_t without)
{
	rig->cfg = (struct ilog_config){
	    .side_count = rig->sides,
	    .region_bytes = rig->ring_bytes,
	    .guid = "0123456789abcde",
	    .epoch = rig->epoch,
	    .side_lost = rig_side_lost,
	    .arg = rig,
	};
	for (unsigned s = 0; s < rig->sides; s++) {
		rig->drives[s] = NULL;
		if (((rig->out | without) & 1u << s) == 0 &&
		    kb_sim_open(rig->media[s], &rig->drives[s]) != 0) {
			return false;
		}
		rig->cfg.sides[s] =
		    (struct ilog_side){.drive = rig->drives[s], .off_bytes = RIG_OFF};
	}
	return true;
}

static inline void
rig_close(struct rig *rig)
{
	for (unsigned s = 0; s < rig->sides; s++) {
		if (rig->drives[s] != NULL) {
			kb_close(rig->drives[s]);
			rig->drives[s] = NULL;
		}
	}
}

static inline void
rig_power_cut(struct rig *rig, uint64_t seed)
{
	for (unsigned s = 0; s < rig->sides; s++) {
		kb_sim_power_cut(rig->media[s], seed * 8 + s);
	}
}

/* Reserve and append one record; its payload is cut into three segments. 0 and *out_seq. */
static inline int
rig_append(struct ilog *l, const struct rig_payload *p, uint8_t *buf, uint64_t *out_seq)
{
	uint32_t len = (uint32_t)p->len_bytes;
	struct ilog_record rec = {
	    .type = 7,
	    .flags = 3,
	    .txg = p->txg,
	    .dataset = 11,
	    .incarnation = 12,
	    .object = p->appender,
	    .generation = p->counter,
	    .len_bytes = len,
	};
	const struct ilog_seg segs[3] = {
	    {buf, len / 3}, {buf + len / 3, 0}, {buf + len / 3, len - len / 3}};
	struct ilog_reservation r;
	int err = ilog_reserve(l, len, 1, RT_FOREVER, &r);

	if (err != 0) {
		return err;
	}
	rig_fill(buf, p);
	err = ilog_append(l, &r, &rec, segs, 3);
	ilog_unreserve(l, &r);
	if (err == 0) {
		*out_seq = rec.seq;
	}
	return err;
}

/* What a replay has delivered. */
struct rig_seen {
	uint64_t first_seq, last_seq, count;
	uint64_t digest;
	uint64_t last_counter[64]; /* per appender; 0 = none */
	bool bad;                  /* gap, wrong content, wrong order */
};

static inline int
rig_deliver(void *arg, const struct ilog_record *rec, const void *payload)
{
	struct rig_seen *seen = arg;
	struct rig_payload p = {.appender = 0};

	if (!rig_payload_ok(rec, payload, &p) || p.appender >= 64 ||
	    (seen->count > 0 && rec->seq != seen->last_seq + 1) ||
	    (seen->last_counter[p.appender] != 0 &&
		p.counter != seen->last_counter[p.appender] + 1)) {
		seen->bad = true;
	}
	if (!seen->bad) {
		seen->last_counter[p.appender] = p.counter;
	}
	seen->first_seq = seen->count == 0 ? rec->seq : seen->first_seq;
	seen->last_seq = rec->seq;
	seen->count++;
	seen->digest =
	    (seen->digest ^ rec->seq ^ (p.counter << 17) ^ p.appender ^ (p.len_bytes << 40)) *
	    0x9e3779b97f4a7c15ull;
	return 0;
}

#endif
