/*
 * nvme_fuzz.c - the NVMe driver against a controller whose every answer the input may change:
 * registers, identify pages, logs, completions with and without their phase, interrupts that nobody
 * expects. Whatever it says, each request ends with a status we know, the driver stays in bounds,
 * never makes the controller reach outside what was mapped for it, and closing gives everything
 * back.
 *
 * Input: two bytes of options, then for each thing the controller says a byte: 0 to 191 leave it
 * alone, above change (byte - 191) / 8 + 1 places, each by three more bytes: two of place, one of
 * value.
 *
 * Built by --enable-fuzz as a libFuzzer target; in make check, NVME_FUZZ_JUNK gives it a main of
 * its own that feeds junk from fixed seeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/base.h"
#include "kernel-bypass/kb_nvme.h"
#include "tests/lib/nvme_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_IOS 12u

struct fuzz {
	struct nvme_model *model;
	const uint8_t *data;
	size_t size, at;
	unsigned opened;
	bool lied; /* of what it has done */
};

static void
require(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "nvme_fuzz: %s\n", what);
		abort();
	}
}

static uint8_t
next_byte(struct fuzz *f)
{
	return f->at < f->size ? f->data[f->at++] : 0;
}

static void
fuzz_change(void *arg, enum nvme_model_what what, void *bytes, size_t len)
{
	struct fuzz *f = arg;
	uint8_t *p = bytes;
	uint8_t how = next_byte(f);

	if (how < 192) {
		return;
	}
	f->lied = f->lied || what == MODEL_COMPLETION || what == MODEL_RAW;
	for (unsigned n = (how - 191u) / 8 + 1; n > 0; n--) {
		size_t place = next_byte(f);
		place |= (size_t)next_byte(f) << 8;
		p[place % len] = next_byte(f);
	}
}

static bool
status_is_known(int s)
{
	return s == 0 || s == -EIO || s == -ENODATA || s == -ETIMEDOUT || s == -ERR_GONE ||
	       s == -EINVAL;
}

static void
fuzz_io(struct kb_drive *d, uint8_t what)
{
	struct iobuf *b;
	uint64_t off = (uint64_t)(what >> 3) * SECTOR_BYTES;
	uint32_t len = (1u + (what & 7u) * 9u) * SECTOR_BYTES;
	int err = 0;

	require(iobuf_alloc(len, ARENA_SYNC, &b) == 0, "no buffer");
	memset(b->data, what, len);
	switch (what % 4) {
	case 0:
		err = kb_read(d, off, b, len);
		break;
	case 1:
		err = kb_write(d, off, b, len, what & 16 ? KB_FUA : 0);
		break;
	case 2:
		err = kb_flush(d);
		break;
	case 3:
		err = kb_discard(d, off, len);
		break;
	}
	require(status_is_known(err), "an unknown status");
	iobuf_unref(b);
}

static void
fuzz_life(void *arg)
{
	struct fuzz *f = arg;
	struct kb_drive *d[4];
	struct kb_health h;
	unsigned count = 0;

	if (kb_nvme_open_dev(nvme_model_open(f->model), d, 4, &count) != 0) {
		return;
	}
	f->opened = count;
	for (unsigned i = 0; i < FUZZ_IOS; i++) {
		fuzz_io(d[i % count], (uint8_t)(next_byte(f) + i));
	}
	uint8_t junk = next_byte(f);
	if (junk >= 128) {
		nvme_model_junk_events(f->model, junk);
		fuzz_io(d[0], junk);
	}
	nvme_model_event(f->model, next_byte(f) | (uint32_t)next_byte(f) << 16);
	fiber_sleep(10 * NSEC_PER_MSEC);
	int err = kb_nvme_health(d[0], &h);
	require(status_is_known(err), "an unknown status of the health");
	for (unsigned i = 0; i < count; i++) {
		kb_close(d[i]);
	}
	fiber_sleep(30 * NSEC_PER_SEC); /* what was late ends by a reset */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {.data = data, .size = size};
	struct nvme_model_options opt = {
	    .serial = "FUZZ", .bytes = 4 * MIB, .volatile_cache = true};
	struct nvme_model_faults faults = {.change = fuzz_change, .change_arg = &f};
	struct rt_options rt = {.reactors = 2, .sim = true, .arena_bytes = 32 * MIB};
	struct nvme_model_counters c;
	uint8_t o = next_byte(&f);

	rt.seed = next_byte(&f);
	opt.block_shift = o & 1 ? 9 : 12;
	opt.namespaces = o & 2 ? 2 : 1;
	opt.sgl = (o & 4) != 0;
	opt.no_interrupts = (o & 8) != 0;
	opt.mqes = o & 16 ? 3 : 0;
	opt.mdts = o & 32 ? 3 : 0;
	opt.shadow_bells = (o & 64) != 0;
	log_set_level(LOG_ERROR + 1);
	f.model = nvme_model_create(&opt);
	nvme_model_set_faults(f.model, &faults);
	require(rt_run(&rt, fuzz_life, &f) == 0, "the life ended badly");
	nvme_model_get_counters(f.model, &c);
	/* who says that a command is done, and then does it, finds the next one's list: the IOMMU stops that */
	require(c.iommu_faults == 0 || f.lied, "an address outside what is mapped");
	require(c.memory_maps == 0, "memory was not given back");
	nvme_model_destroy(f.model);
	return 0;
}

#ifdef NVME_FUZZ_JUNK
static uint64_t
next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The rarer the changes, the further a run comes: all kinds of inputs, from hardly any to many. */
int
main(int argc, char **argv)
{
	static uint8_t buf[4096];
	uint64_t state = 0x243f6a8885a308d3ull;
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 300;

	for (unsigned i = 0; i < rounds; i++) {
		size_t len = next(&state) % sizeof(buf);
		unsigned rare = 1 + (unsigned)(next(&state) % 60);
		for (size_t at = 0; at < len; at++) {
			uint64_t r = next(&state);
			buf[at] = (uint8_t)(r % rare == 0 ? r >> 32 : (r >> 32) % 192);
		}
		(void)LLVMFuzzerTestOneInput(buf, len);
	}
	return 0;
}
#endif
