/* nvme_model_int.h - what the files of the model share. */
#ifndef AGATE_TESTS_NVME_MODEL_INT_H
#define AGATE_TESTS_NVME_MODEL_INT_H

#include "base/base.h"
#include "tests/lib/nvme_model.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define MODEL_IS_FREE(p, len) (__asan_region_is_poisoned((p), (len)) != NULL)
#else
#define MODEL_IS_FREE(p, len) ((void)(p), (void)(len), false)
#endif

#define MODEL_QUEUES 65u /* with the admin queue */
#define MODEL_NAMESPACES 4u
#define MODEL_MAPS 256u
#define MODEL_PAGE 4096u
#define MODEL_ARENA_IOVA 0x4000000000u
#define MODEL_DMA_IOVA 0x10000000u
#define MODEL_AERS 4u
#define MODEL_BELLS_BYTES 0x3000u

struct model_queue {
	uint64_t iova;
	uint32_t entries; /* 0: there is none */
	uint32_t head, tail;
	uint16_t other; /* SQ: its CQ; CQ: vector */
	bool irq;       /* CQ */
	uint16_t phase; /* CQ */
};

/* Memory of one life; freed by its timer, when it hangs and the controller goes off, or at last
 * with the model. */
struct model_command {
	struct list link; /* m->commands */
	struct rt_timer timer;
	struct nvme_model *m;
	struct nvs_sqe sqe;
	uint64_t life; /* of the controller, counted up by each disable */
	uint16_t sqid;
	bool hung, aborted;
};

struct model_answer {
	struct list link;
	struct model_queue *cq;
	struct nvs_cqe cqe;
};

struct model_page {
	uint8_t now[MODEL_PAGE], durable[MODEL_PAGE];
	bool dirty;
};

struct model_ns {
	uint64_t blocks;
	struct model_page **pages;
	uint64_t page_count;
};

struct model_vector {
	struct nvme_irq *irq;
	unsigned reactor;
	bool passes, pending, posted;
	struct rt_msg msg;
};

struct nvme_model {
	struct nvme_dev dev;
	struct nvme_model_options opt;
	struct nvme_model_faults faults;
	struct nvme_model_counters count;
	char serial[24];
	uint32_t cc, csts, aqa;
	uint64_t asq, acq;
	uint64_t life;
	bool vanished, open, cut_off;
	uint64_t turn_ns; /* CSTS.RDY follows CC.EN then */
	struct model_queue sq[MODEL_QUEUES], cq[MODEL_QUEUES];
	bool cache_on;
	uint64_t shadows, shadow_events; /* iova; 0: none */
	struct rt_timer look_timer;      /* looks at the shadows again, while busy */
	struct list commands;
	struct list held; /* struct model_answer: their completion queues are full */
	struct model_ns ns[MODEL_NAMESPACES];
	struct model_vector vectors[MODEL_QUEUES], release;
	struct nvme_dma maps[MODEL_MAPS];
	uint64_t next_iova;
	uint16_t aer_cid[MODEL_AERS];
	unsigned aer_count;
	uint32_t events[8];
	unsigned event_count;
	struct nvs_log_health health;
	_Alignas(8) uint8_t page[MODEL_PAGE]; /* of the answer in the making */
};

/* nvme_model.c */
void *model_reach(struct nvme_model *m, uint64_t iova, uint64_t len); /* NULL: a fault */
void model_complete(struct nvme_model *m, uint16_t sqid, uint16_t cid, uint16_t code, uint32_t dw0);
void model_change(struct nvme_model *m, enum nvme_model_what what, void *bytes, size_t len);
bool model_chance(uint32_t millionths);
void model_events_send(struct nvme_model *m);

/* nvme_model_data.c */
uint16_t model_io(struct nvme_model *m, const struct nvs_sqe *sqe);
void model_flush(struct nvme_model *m);
/* Moves len bytes between buf and the memory that the data pointer tells. Status code. */
uint16_t model_copy(
    struct nvme_model *m, const struct nvs_sqe *sqe, uint8_t *buf, uint64_t len, bool to_host);

/* nvme_model_admin.c; true: answered now */
bool model_admin(
    struct nvme_model *m, const struct nvs_sqe *sqe, uint16_t *out_code, uint32_t *out_dw0);

#endif
