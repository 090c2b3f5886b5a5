/*
 * nvme.h - private to the NVMe driver: the controller, its queue pairs, its requests.
 *
 * Who runs what
 *   A controller has one fiber, its keeper, on the reactor that opened it (home). The keeper alone
 *   touches the registers, the admin queue and the state; it brings the controller up, sends every
 *   admin command, resets, shuts down. What others want of it they say with nvme_want (any
 *   reactor) and it wakes.
 *   A queue pair belongs to its reactor; nobody else touches it. When the keeper must change one it
 *   posts a message and waits for the answer (nvme_qpairs_each). So the I/O path has no lock, and,
 * as long as completions keep coming, no system call.
 *
 * States of a controller, moved by the keeper only
 *   STARTING  -> LIVE      all steps of nvme_start_steps have succeeded
 *   STARTING  -> DEAD      one has failed, twice
 *   LIVE      -> RESETTING somebody wants a reset: a command that an abort did not end, a fatal
 *                          status, a completion that makes no sense
 *   RESETTING -> LIVE      started again; what was in flight has been sent once more
 *   RESETTING -> DEAD      not started again, or reset NVME_RESETS_MAX times within NVME_RESETS_NS
 *   any       -> DEAD      registers read all ones (pulled out), or the kernel wants the device
 * back LIVE, DEAD -> STOPPED  the last drive has closed: shut down, memory and device given back In
 * DEAD every request ends with -ERR_GONE, for good.
 *
 * States of a command slot, moved on its reactor
 *   free -> busy     a command is written to the queue
 *   busy -> free     its completion came (index, generation and queue all agree)
 *   busy -> expired  its request's deadline passed: an abort is on its way; still busy
 *   busy -> free     nvme_qpair_reclaim, when the controller is certainly off
 *
 * Invariants
 *  1. A buffer is let go only when the controller can't touch it: the command has completed, or
 *     the controller was disabled (CSTS.RDY seen 0), or reset by its function, or cut off from
 *     memory (nvme_quiesce). When none of these can be had, requests stay late for ever.
 *  2. Busy slots are at most entries - 1, so the submission queue can't overflow, whatever the
 *     controller says about its head.
 *  3. A completion is believed only when its slot is busy and its generation agrees. Anything else
 *     is an offence; NVME_OFFENCES_MAX of them between two resets are one more reset.
 *  4. Nothing that the controller wrote is read twice: entries are copied, then checked.
 *  5. A write that is sent again after a reset writes the same bytes to the same place, while its
 * caller still waits; one whose caller was told -ETIMEDOUT is never sent again.
 *
 * Fields: [c] constant after start, [r] the queue pair's reactor only, [k] keeper only, [a] atomic.
 */
#ifndef AGATE_KERNEL_BYPASS_NVME_H
#define AGATE_KERNEL_BYPASS_NVME_H

#include "kernel-bypass/kb_int.h"
#include "kernel-bypass/kb_nvme.h"
#include "kernel-bypass/nvme_dev.h"
#include "kernel-bypass/nvme_spec.h"

#define NVME_ENTRIES 128u /* of an I/O queue; at most 256, see cid */
#define NVME_ADMIN_ENTRIES 32u
#define NVME_LIST_BYTES 1024u /* of a slot, for PRP entries, SGL descriptors or ranges */
#define NVME_PRPS_MAX (NVME_LIST_BYTES / 8 + 1)
#define NVME_SGLS_MAX (NVME_LIST_BYTES / 16)
#define NVME_XFER_BYTES_MAX (512u << 10) /* of one command */
#define NVME_AERS 4u
#define NVME_NAMESPACES_MAX 32u

#define NVME_POLL_NS (5 * NSEC_PER_MSEC)       /* after so long without an event: interrupts */
#define NVME_REAP_MAX 8u   /* completions of a turn, so that there are new commands soon after */
#define NVME_ACK_SPARE 16u /* completion entries kept free beyond those awaited */
#define NVME_RING_MAX 8u   /* commands between looks whether to ring */
#define NVME_HOLD_TOLD 8u  /* with so many out a dear doorbell waits */
#define NVME_HOLD_NS (200 * NSEC_PER_USEC) /* for no longer */
#define NVME_DOZE_TOLD 8u                  /* with so many out a look may wait */
#define NVME_DOZE_PART 4u                  /* for such a part of what an answer takes */
#define NVME_ANSWER_NS_MAX (800 * NSEC_PER_USEC) /* that is taken for no longer */
#define NVME_NAP_NS (1 * NSEC_PER_MSEC)        /* between looks, where there are no interrupts */
#define NVME_IRQ_EVENTS 256u                   /* after so many events: polling */
#define NVME_ADMIN_NS (5 * NSEC_PER_SEC)       /* an admin command */
#define NVME_ABORT_GRACE_NS (1 * NSEC_PER_SEC) /* expired and aborted, then a reset */
#define NVME_RETRY_NS (10 * NSEC_PER_MSEC)
#define NVME_TRIES_MAX 4u
#define NVME_RESETS_MAX 5u
#define NVME_RESETS_NS (60 * NSEC_PER_SEC)
#define NVME_OFFENCES_MAX 8u
#define NVME_ABSENT_NS (100 * NSEC_PER_MSEC) /* while its function is reset it seems to be absent */
#define NVME_ABSENT_TRIES 4u
#define NVME_START_TRIES 6u
#define NVME_HEARTBEAT_NS (500 * NSEC_PER_MSEC)

/* ---- what identify says, checked (nvme_decode.c) ---- */

struct nvme_id {
	char serial[24], model[48], firmware[16];
	uint16_t vendor;
	uint32_t max_xfer_bytes; /* of one command, a power of two */
	uint32_t shutdown_ms;
	uint32_t namespaces; /* highest id */
	uint32_t events;     /* to ask for */
	unsigned aers;
	unsigned firmware_slots;
	bool volatile_cache, dsm, sgl;
	bool shadow_bells; /* it can look for doorbells in memory */
};

struct nvme_ns {
	uint32_t nsid;
	uint64_t blocks;
	unsigned block_shift;    /* 9 or 12 */
	uint64_t boundary_bytes; /* reads and writes should not cross; 0 = none */
	char wwn[160]; /* as Linux tells it, so that a drive is the same under both drivers */
};

/* 0; -EINVAL with a reason. */
int nvme_decode_ctrl(
    const struct nvs_id_ctrl *raw, struct nvme_id *out, const char **out_why) WARN_UNUSED;
int nvme_decode_ns(const struct nvs_id_ns *raw, uint32_t nsid, struct nvme_ns *out,
    const char **out_why) WARN_UNUSED;
/* descs: one page of identifiers (NVS_CNS_NS_DESCS) or NULL; trusted: those it has are unique. */
void nvme_decode_wwn(const struct nvme_id *id, const struct nvs_id_ns *raw, const uint8_t *descs,
    bool trusted, struct nvme_ns *ns);
void nvme_decode_health(const struct nvs_log_health *raw, struct kb_health *out);

/* ---- status (nvme_status.c) ---- */

/* code: NVS_STATUS_CODE of a completion. */
int nvme_status_errno(uint32_t code);
const char *nvme_status_text(uint32_t code);
bool nvme_status_retry(uint32_t raw_status); /* the same command may succeed later */

/* ---- quirks (nvme_quirk.c) ---- */

#define NVME_QUIRK_DELAY_READY 1u /* no register may be read for 2 s after the disabling */
#define NVME_QUIRK_STRIPE_128K 2u /* slow across boundaries it does not tell */
#define NVME_QUIRK_BOGUS_WWN 4u   /* its namespace identifiers are not unique */
#define NVME_QUIRK_NO_SGL 8u
#define NVME_QUIRK_NO_SHADOW 32u
#define NVME_QUIRK_NO_FUA 16u /* takes the FUA bit and ignores it: a flush must follow */
uint32_t nvme_quirks(uint16_t vendor, uint16_t device);

/* ---- data pointers (nvme_map.c) ---- */

/* Where a request stands in its segments. */
struct nvme_cursor {
	uint32_t seg, seg_off_bytes;
	uint64_t done_bytes;
};

struct nvme_map_in {
	const struct iovec *iov;
	uint32_t seg_count;
	uintptr_t arena_va;
	uint64_t arena_bytes, arena_iova;
	uint32_t limit_bytes; /* longest data, a multiple of block_bytes */
	uint32_t block_bytes;
	bool sgl;
	uint8_t *list; /* NVME_LIST_BYTES, inside one page */
	uint64_t list_iova;
};

/* Writes the data pointer of sqe for as much as one command can take from at on, moves at behind
 * it, and returns the bytes; -EFAULT outside the arena; -EINVAL no whole block fits. */
int64_t nvme_map(
    const struct nvme_map_in *in, struct nvme_cursor *at, struct nvs_sqe *sqe) WARN_UNUSED;

/* ---- requests and queue pairs (nvme_queue.c) ---- */

struct nvme_qpair;

struct nvme_req {
	struct kb_req req;
	struct list wait_link; /* on nvme_qpair.waiting or .delayed */
	struct nvme_cursor at; /* what has been sent */
	unsigned flying;       /* its commands in the queue */
	unsigned tries;
	int status;      /* the first failure of its commands */
	bool flush_sent; /* the last command, of a flush or behind a write */
	bool stop;       /* send no more of it */
	bool retry;      /* what failed may succeed later */
};

struct nvme_slot {
	struct nvme_req *req; /* NULL: free */
	_Atomic uint16_t
	    cid; /* slot in the low byte, generation above; the keeper reads it to abort */
	uint64_t expired_ns; /* 0: not expired */
};

/* A doorbell; and its shadow in memory, for controllers that look there by themselves while they
 * are busy, and say in event beyond which value they want the doorbell itself. */
struct nvme_bell {
	volatile uint32_t *reg;            /* [c] NULL: through the device's ops */
	uint32_t off;                      /* [c] of the register */
	volatile uint32_t *shadow, *event; /* [c] shared with the controller */
	uint32_t said;                     /* [r] the last value */
};

struct nvme_qpair {
	struct nvme_ctrl *ctrl; /* [c] */
	unsigned reactor;       /* [c] */
	uint16_t id;            /* [c] of both queues, from 1 */
	uint32_t vector;        /* [c] 0: polled only */
	uint32_t entries;       /* [c] */
	struct nvs_sqe *sq;     /* [c] shared with the controller, as cq and lists */
	volatile struct nvs_cqe *cq;
	uint8_t *lists;
	uint64_t sq_iova, cq_iova, lists_iova; /* [c] */
	struct nvme_dma dma;                   /* [c] all three */
	struct nvme_bell sq_bell, cq_bell;
	bool shadowed;             /* [r] the controller looks into memory for doorbells */
	uint32_t sq_tail, cq_head; /* [r] */
	uint16_t phase;            /* [r] of the entries not yet seen */
	uint16_t generation;       /* [r] */
	uint32_t free_count, busy_count, expired_count; /* [r] */
	uint8_t free[NVME_ENTRIES];                     /* [r] stack of slots */
	struct nvme_slot slots[NVME_ENTRIES];           /* [r] */
	struct list waiting;                            /* [r] struct nvme_req, not all sent */
	struct list delayed;                            /* [r] struct nvme_req, to be tried again */
	bool frozen;                                    /* [r] nothing may be sent */
	bool dead;                                      /* [r] everything ends with -ERR_GONE */
	bool irq_is_open, irq_on;                       /* [r] */
	uint32_t irq_events;            /* [r] events since the interrupt was let through */
	uint64_t event_ns;              /* [r] last sign of life */
	uint64_t untold_ns;             /* [r] when the first that the doorbell doesn't tell was written */
	uint64_t last_ns;               /* [r] when the last that was answered began */
	uint64_t answer_ns;             /* [r] how long a command takes, on average */
	unsigned offences;              /* [r] since the last reset */
	_Atomic uint64_t offence_count; /* [a] ever; written on the reactor */
	_Atomic uint64_t requeue_count; /* [a] requests sent again after a reset */
	struct rt_poller poller;        /* [r] on the reactor while there is anything to find */
	struct rt_timer timer;          /* [r] delayed requests, expired commands */
	struct nvme_irq irq;
	_Atomic uint64_t abort_bits[NVME_ENTRIES / 64]; /* [a] slots to abort */
	struct rt_msg msg;                              /* the keeper's */
	void (*msg_fn)(struct nvme_qpair *qp);
};

/* All on the queue pair's reactor. nvme_queue.c: sending and completing */
void nvme_req_begin(struct nvme_req *nr);
void nvme_slot_give(struct nvme_qpair *qp, unsigned i);
void nvme_qpair_fill(struct nvme_qpair *qp);
void nvme_qpair_add(struct nvme_qpair *qp, struct nvme_req *nr);
unsigned nvme_qpair_reap(struct nvme_qpair *qp, unsigned max);
unsigned nvme_qpair_poll(struct rt_poller *p);
bool nvme_qpair_wants_poll(struct rt_poller *p);
uint64_t nvme_qpair_nap_ns(struct rt_poller *p);
void nvme_qpair_irq(struct nvme_irq *irq);

/* nvme_bell.c */
void nvme_qpair_advance(struct nvme_qpair *qp); /* a command has been written at its tail */
void nvme_qpair_ring(struct nvme_qpair *qp);    /* for all that is not told, if it is time */
void nvme_qpair_ack(struct nvme_qpair *qp);     /* the completion entries seen go back */
void nvme_qpair_ack_if_due(struct nvme_qpair *qp);
/* Commands that the controller knows of and has not answered, as far as we have seen. (It may answer
 * others.) */
uint32_t nvme_qpair_told(const struct nvme_qpair *qp);

/* nvme_queue_life.c: everything that is not the path of a good I/O */
void nvme_qpair_init(struct nvme_qpair *qp);
void nvme_qpair_start(struct nvme_qpair *qp, struct nvme_req *nr);
bool nvme_qpair_cancel(struct nvme_qpair *qp, struct nvme_req *nr); /* as kb_ops.cancel */
void nvme_qpair_arm(struct nvme_qpair *qp, uint64_t at_ns);
void nvme_qpair_freeze(struct nvme_qpair *qp);
/* The controller is off: late requests end, the others wait to be sent again; the queue is as new.
 */
void nvme_qpair_reclaim(struct nvme_qpair *qp);
void nvme_qpair_thaw(struct nvme_qpair *qp);
/* The controller is off for good. */
void nvme_qpair_kill(struct nvme_qpair *qp);
/* The controller is lost but may still reach memory: what is in flight stays, the rest ends. */
void nvme_qpair_abandon(struct nvme_qpair *qp);
void nvme_qpair_irq_open(struct nvme_qpair *qp);
void nvme_qpair_irq_close(struct nvme_qpair *qp);

/* ---- admin queue (nvme_admin.c); keeper only ---- */

struct nvme_admin {
	struct nvme_dma
	    dma; /* one page each: submission, completion, data, doorbells, their events */
	struct nvs_sqe *sq;
	volatile struct nvs_cqe *cq;
	uint8_t *data; /* NVS_PAGE_BYTES, the controller's to write */
	uint64_t data_iova;
	uint8_t
	    *shadows; /* of the doorbells, and a page behind, how far the controller has looked */
	uint32_t sq_tail, cq_head;
	uint16_t phase, generation;
	uint16_t wait_cid; /* of the command in progress; 0 = none */
	bool wait_done;
	struct nvs_cqe wait_cqe;
	uint16_t aer_cid[NVME_AERS];              /* 0: not sent */
	_Alignas(8) uint8_t page[NVS_PAGE_BYTES]; /* the last answer, ours */
};

struct nvme_ctrl;
void nvme_admin_reset(struct nvme_ctrl *c);
/* Sends a command and waits for it. out_dw0 may be NULL. 0; -EIO refused (the status is in
 * c->admin_status); -ETIMEDOUT; -ERR_GONE. */
int nvme_admin_call(
    struct nvme_ctrl *c, struct nvs_sqe *sqe, uint32_t *out_dw0) WARN_UNUSED MAY_PARK;
/* The same; the answer is in admin.page. */
int nvme_admin_identify(struct nvme_ctrl *c, uint32_t cns, uint32_t nsid) WARN_UNUSED MAY_PARK;
int nvme_admin_log(struct nvme_ctrl *c, uint8_t log, uint32_t len_bytes) WARN_UNUSED MAY_PARK;
int nvme_admin_feature(
    struct nvme_ctrl *c, uint8_t feature, uint32_t value, uint32_t *out_dw0) WARN_UNUSED MAY_PARK;
int nvme_admin_get_feature(
    struct nvme_ctrl *c, uint8_t feature, uint32_t *out_dw0) WARN_UNUSED MAY_PARK;
int nvme_admin_shadow_bells(struct nvme_ctrl *c) WARN_UNUSED MAY_PARK;
int nvme_admin_delete_queues(struct nvme_ctrl *c, const struct nvme_qpair *qp) WARN_UNUSED MAY_PARK;
int nvme_admin_create_queues(struct nvme_ctrl *c, const struct nvme_qpair *qp) WARN_UNUSED MAY_PARK;
void nvme_admin_abort(struct nvme_ctrl *c, uint16_t sqid, uint16_t cid) MAY_PARK;
/* Looks for events, and asks for more of them. */
void nvme_admin_events(struct nvme_ctrl *c);

/* ---- controller (nvme_ctrl.c; opening: nvme_open.c) ---- */

enum nvme_state { NVME_STARTING, NVME_LIVE, NVME_RESETTING, NVME_DEAD, NVME_STOPPED };

#define NVME_WANT_RESET 1u
#define NVME_WANT_ABORTS 2u
#define NVME_WANT_STOP 4u
#define NVME_WANT_RELEASE 8u
#define NVME_WANT_HEALTH 16u
#define NVME_WANT_EVENTS 32u
#define NVME_WANT_LEAVE 64u /* a drive is being closed */

struct nvme_ctrl {
	struct nvme_dev *dev;   /* [k] NULL: given back. Queue pairs use it while they are alive */
	char name[32];          /* [c] the device's */
	unsigned home;          /* [c] the keeper's reactor */
	uint32_t quirks;        /* [c] */
	uint64_t cap;           /* [c] */
	uint32_t ready_ms;      /* [c] */
	uint32_t stride;        /* [c] bytes between doorbells */
	bool shadowed;          /* [k] it looks for doorbells in memory, since the last start */
	struct nvme_qpair *qps; /* [c] one for each reactor */
	unsigned qp_count;      /* [c] */
	struct nvme_id id;      /* under guard for others; written by the keeper */
	struct nvme_ns ns[NVME_NAMESPACES_MAX]; /* the same, as ns_count */
	unsigned ns_count;
	struct nvme_ns found[NVME_NAMESPACES_MAX]; /* [k] in the making */
	unsigned found_count;                      /* [k] */
	struct nvme_admin admin;                   /* [k] */
	uint32_t admin_status;                     /* [k] code of the last refused command */
	uint64_t reset_ns[NVME_RESETS_MAX];        /* [k] when, a ring */
	unsigned resets;                           /* [k] */
	const char *why;                           /* [k] what failed last; static text */
	struct nvme_irq irq, release_irq;
	_Atomic uint32_t want;          /* [a] NVME_WANT_ bits */
	_Atomic uint32_t state;         /* [a] enum nvme_state; written by the keeper */
	_Atomic(struct fiber *) keeper; /* [a] NULL: none */
	struct waitgroup round;         /* the keeper waits here for the reactors */
	struct waitgroup opened;        /* nvme_ctrl_open waits here for the first start */
	int open_err;                   /* written before opened */
	struct mutex health_lock;       /* RANK_KB: one question at a time */
	struct waitgroup health_done;
	int health_err;
	struct kb_health health;
	struct spin guard;
	struct list drives;                /* struct nvme_drive, under guard */
	unsigned drive_count;              /* under guard; those that are open */
	uint32_t event_type, event_info;   /* [k] of the last event */
	uint8_t event_log;                 /* [k] */
	unsigned admin_offences;           /* [k] since the last reset */
	uint32_t entries;                  /* [c] of an I/O queue */
	bool irq_is_open, release_is_open; /* [k] */
	struct rt_msg *stop_msg; /* set with NVME_WANT_STOP: posted when all is given back */
	unsigned stop_reactor;
	bool abandoned;           /* [k] DEAD, but it may still reach memory */
	_Atomic unsigned stuck;   /* [a] commands it will never be asked about again */
	_Atomic unsigned closing; /* [a] drives whose closing has begun */
	struct {
		_Atomic uint64_t resets, aborts, events, offences;
	} count; /* [a] written by the keeper */
};

/* The keeper, and what is left to free when it has ended or never started. */
void nvme_keeper_main(void *arg);
void nvme_ctrl_free(struct nvme_ctrl *c) MAY_PARK;
/* Any thread. */
void nvme_want(struct nvme_ctrl *c, uint32_t bits);

/* Takes the device (also on failure it is closed) and brings its controller up. */
int nvme_ctrl_open(struct nvme_dev *dev, struct nvme_ctrl **out) WARN_UNUSED MAY_PARK;
/* Shuts it down, gives everything back and posts then to this reactor; no drive may be open. */
void nvme_ctrl_stop_then(struct nvme_ctrl *c, struct rt_msg *then);
void nvme_ctrl_close(struct nvme_ctrl *c) MAY_PARK; /* the same, and waits */

/* nvme_start.c: the steps that bring a controller up, and those that stop it; keeper only. */
int nvme_run_start(struct nvme_ctrl *c) WARN_UNUSED MAY_PARK;
int nvme_run_namespaces(struct nvme_ctrl *c) WARN_UNUSED MAY_PARK; /* only looks at them anew */
/* After it the controller does not touch memory: disabled, reset, cut off or not there. 0, or
 * -EIO: nothing helped. */
int nvme_quiesce(struct nvme_ctrl *c) WARN_UNUSED MAY_PARK;
/* The same without asking the controller. */
int nvme_cut_off(struct nvme_ctrl *c) WARN_UNUSED MAY_PARK;
void nvme_shutdown(struct nvme_ctrl *c) MAY_PARK;
/* For longer than a reset of its function takes. */
bool nvme_is_absent(struct nvme_ctrl *c) MAY_PARK;
void nvme_qpairs_each(struct nvme_ctrl *c, void (*fn)(struct nvme_qpair *qp)) MAY_PARK;

/* ---- drives (nvme_drive.c) ---- */

struct nvme_drive {
	struct kb_drive drive;
	struct nvme_ctrl *ctrl;
	struct nvme_ns ns;        /* [c] */
	uint32_t limit_bytes;     /* [c] of one command */
	bool dsm, sgl;            /* [c] */
	atomic_bool flush_needed; /* [a] set late when a reset has turned the cache on */
	bool ignores_fua;         /* [c] a write that must be durable is followed by a flush */
	struct list link;         /* ctrl->drives, under its guard */
	_Atomic unsigned lanes_left;
};

static inline bool
nvme_drive_needs_flush(const struct nvme_drive *d)
{
	return atomic_load_explicit(&d->flush_needed, memory_order_relaxed);
}

struct nvme_lane {
	struct kb_lane lane;
	struct nvme_qpair *qp; /* [c] */
	struct rt_msg stop_msg;
};

/* After a restart: are the namespaces of the open drives what they were? Those that are not are
 * gone. */
void nvme_drives_check(struct nvme_ctrl *c);
void nvme_drives_gone(struct nvme_ctrl *c);

#endif
