/*
 * nvme_model.h - a software model of an NVMe controller behind nvme_dev.h: registers, queues,
 * doorbells, interrupts, an IOMMU that refuses what was not mapped, namespaces with a volatile
 * cache, and faults. It is written from the specification and shares nothing with the driver but
 * nvme_spec.h, so that a misreading shows.
 *
 * A model outlives the machine, as a drive does: create, then open it in each life. Only for the
 * simulated runtime: it has no locks.
 */
#ifndef AGATE_TESTS_NVME_MODEL_H
#define AGATE_TESTS_NVME_MODEL_H

#include "kernel-bypass/nvme_dev.h"
#include "kernel-bypass/nvme_spec.h"

struct nvme_model;

struct nvme_model_options {
	const char *serial;
	uint64_t bytes;       /* of each namespace */
	unsigned block_shift; /* 9 or 12 */
	unsigned namespaces;  /* 1 .. 4 */
	bool volatile_cache, sgl, no_interrupts, no_dsm;
	bool ignores_fua;       /* takes the bit, and does nothing of it */
	bool cache_off;         /* there is a cache, turned off; any write is durable */
	bool shadow_bells;      /* looks for doorbells in memory, when told where */
	uint8_t mdts;            /* 0 = no limit */
	uint16_t noiob;          /* blocks */
	unsigned queues;         /* I/O queue pairs; 0 = 16 */
	uint16_t mqes;           /* 0 = 1023 */
	uint8_t stride;          /* CAP.DSTRD */
	uint16_t vendor, device; /* PCI identity, for quirks */
};

/* What is about to be seen by the driver and may be changed first. */
enum nvme_model_what {
	MODEL_IDENTIFY,   /* 4096 bytes */
	MODEL_LOG,        /* as long as asked for */
	MODEL_COMPLETION, /* struct nvs_cqe, without its phase, which is set behind */
	MODEL_RAW,        /* the same with its phase */
	MODEL_REGISTER,   /* 4 or 8 bytes that are read */
};

struct nvme_model_faults { /* all off at first; chances in millionths per I/O command */
	uint32_t error;
	uint16_t error_code; /* type << 8 | code */
	bool error_final;    /* with "do not retry" */
	uint32_t hang;       /* no answer, until an abort or reset */
	uint32_t late;       /* answers only after late_ns */
	uint64_t late_ns;
	bool aborts_fail; /* an abort leaves the command alone */
	bool admin_hangs;
	bool never_ready; /* does not become ready */
	bool never_off;   /* stays ready when disabled */
	bool no_function_reset;
	bool no_dma_stop;
	uint32_t double_answer;                  /* the completion comes twice */
	uint32_t lost_answer;                    /* it was done, nothing comes */
	uint64_t latency_ns_min, latency_ns_max; /* default 5 us .. 60 us */
	void (*change)(void *arg, enum nvme_model_what what, void *bytes, size_t len);
	void *change_arg;
};

struct nvme_model_counters {
	uint64_t reads, writes, fua_writes, flushes, discards, admin, aborts, aborted;
	uint64_t shadow_looks; /* commands that it found without being rung for */
	uint64_t queues_deleted;
	uint64_t enables, shutdowns, function_resets, dma_stops, interrupts, doorbells;
	uint64_t prp_lists, sgl_lists, crossings, bytes_max; /* of one command */
	uint64_t iommu_faults;    /* addresses outside what was mapped: a bug of the driver */
	uint64_t protocol_errors; /* commands that make no sense: a bug of the driver */
	uint64_t memory_maps;     /* alive now */
};

struct nvme_model *nvme_model_create(const struct nvme_model_options *opt);
void nvme_model_destroy(struct nvme_model *m);
/* A device on it, in a running simulation. */
struct nvme_dev *nvme_model_open(struct nvme_model *m);
void nvme_model_set_faults(struct nvme_model *m, const struct nvme_model_faults *f);
void nvme_model_get_counters(const struct nvme_model *m, struct nvme_model_counters *out);

void nvme_model_vanish(
    struct nvme_model *m); /* registers read all ones, nothing happens any more */
void nvme_model_return(struct nvme_model *m);
void nvme_model_fatal(struct nvme_model *m);               /* CSTS.CFS until it is reset */
void nvme_model_reset(struct nvme_model *m); /* by somebody else; turns the cache on */
void nvme_model_junk_events(
    struct nvme_model *m, uint32_t junk); /* as how far it has looked into the shadows */
void nvme_model_event(struct nvme_model *m, uint32_t dw0); /* an asynchronous event */
void nvme_model_ask_release(
    struct nvme_model *m); /* as the kernel does when it wants the device back */
void nvme_model_set_size(
    struct nvme_model *m, unsigned ns, uint64_t blocks); /* 0 = the namespace is deleted */
void nvme_model_set_health(struct nvme_model *m, const struct nvs_log_health *h);
void nvme_model_release_hung(struct nvme_model *m); /* what hangs answers now */
/* The volatile cache is lost, each page as chance decides. */
void nvme_model_power_cut(struct nvme_model *m, uint64_t seed);
void nvme_model_peek(
    struct nvme_model *m, unsigned ns, uint64_t off_bytes, void *out, uint32_t len);

#endif
