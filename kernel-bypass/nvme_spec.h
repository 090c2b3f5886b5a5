/*
 * nvme_spec.h - registers, commands and structures of NVM Express, as far as the driver uses them:
 * the one place where they are defined. Numbers in brackets are sections of the NVM Express Base
 * Specification 2.0 (B), its NVM Command Set Specification 1.0 (C) and its PCIe Transport
 * Specification 1.0 (P). Sizes and offsets are asserted; tests/unit/nvme_spec_test.c compares them with
 * an independent header.
 *
 * Names begin with nvs_ and NVS_, so that this header may stand next to others on the same subject.
 */
#ifndef AGATE_KERNEL_BYPASS_NVME_SPEC_H
#define AGATE_KERNEL_BYPASS_NVME_SPEC_H

#include <stddef.h>
#include "base/compiler.h"
#include "base/le.h"

/* ---- registers (B 3.1.3), offsets in BAR 0 ---- */

#define NVS_REG_CAP 0x00u  /* 8 bytes: capabilities */
#define NVS_REG_VS 0x08u   /* version */
#define NVS_REG_CC 0x14u   /* configuration */
#define NVS_REG_CSTS 0x1cu /* status */
#define NVS_REG_AQA 0x24u  /* sizes of the admin queues, less one: SQ bits 11:0, CQ bits 27:16 */
#define NVS_REG_ASQ 0x28u  /* 8 bytes: address of the admin submission queue */
#define NVS_REG_ACQ 0x30u  /* 8 bytes: address of the admin completion queue */
#define NVS_REG_DOORBELLS 0x1000u /* (P 3.1.2) SQ y tail: + 2y strides, CQ y head: + (2y + 1) strides */
#define NVS_ALL_ONES32 0xffffffffu /* what reading a device that is not there gives */

/* CAP (B 3.1.3.1) */
#define NVS_CAP_MQES(cap) ((uint32_t)((cap)&0xffffu))           /* entries of a queue, less one */
#define NVS_CAP_TO(cap) ((uint32_t)((cap) >> 24 & 0xffu))       /* worst time to ready, 500 ms */
#define NVS_CAP_DSTRD(cap) ((uint32_t)((cap) >> 32 & 0xfu))     /* doorbell stride: 4 << n bytes */
#define NVS_CAP_CSS_NVM(cap) (((cap) >> 37 & 1u) != 0)          /* knows the NVM command set */
#define NVS_CAP_CSS_IOCS(cap) (((cap) >> 43 & 1u) != 0)         /* knows several command sets */
#define NVS_CAP_MPSMIN(cap) ((uint32_t)((cap) >> 48 & 0xfu))    /* smallest page: 4096 << n */

/* CC (B 3.1.3.5) */
#define NVS_CC_EN 1u
#define NVS_CC_CSS_ALL (6u << 4) /* all command sets that the controller knows; 0: NVM */
#define NVS_CC_SHN_MASK (3u << 14)
#define NVS_CC_SHN_NORMAL (1u << 14)
#define NVS_CC_IOSQES (6u << 16) /* 64-byte submission entries */
#define NVS_CC_IOCQES (4u << 20) /* 16-byte completion entries */

/* CSTS (B 3.1.3.6) */
#define NVS_CSTS_RDY 1u
#define NVS_CSTS_CFS 2u /* fatal: only a reset helps */
#define NVS_CSTS_SHST(csts) ((csts) >> 2 & 3u)
#define NVS_SHST_DONE 2u

#define NVS_PAGE_BYTES 4096u /* the memory page size we set (CC.MPS = 0) */

/* ---- submission queue entry (B 3.3.3.1) ---- */

struct nvs_sgl { /* data block descriptor, or a pointer to more (B 4.1.2) */
	struct le64 addr;
	struct le32 len_bytes;
	uint8_t reserved[3];
	uint8_t id; /* type in bits 7:4, sub type in bits 3:0 */
};
STATIC_ASSERT(sizeof(struct nvs_sgl) == 16);
#define NVS_SGL_DATA 0x00u
#define NVS_SGL_LAST_SEGMENT 0x30u

struct nvs_sqe {
	uint8_t opcode;   /* 0x00 */
	uint8_t flags;    /* 0x01: bits 7:6 data pointer: 0 PRP, 1 SGL */
	struct le16 cid;  /* 0x02 */
	struct le32 nsid; /* 0x04 */
	struct le32 cdw2; /* 0x08 */
	struct le32 cdw3; /* 0x0c */
	struct le64 mptr; /* 0x10 */
	union {           /* 0x18 */
		struct le64 prp[2];
		struct nvs_sgl sgl;
	} dptr;
	struct le32 cdw10; /* 0x28 */
	struct le32 cdw11; /* 0x2c */
	struct le32 cdw12; /* 0x30 */
	struct le32 cdw13; /* 0x34 */
	struct le32 cdw14; /* 0x38 */
	struct le32 cdw15; /* 0x3c */
};
STATIC_ASSERT(sizeof(struct nvs_sqe) == 64);
STATIC_ASSERT(offsetof(struct nvs_sqe, dptr) == 0x18);
STATIC_ASSERT(offsetof(struct nvs_sqe, cdw10) == 0x28);
#define NVS_SQE_SGL 0x40u /* flags: dptr is an SGL, metadata a contiguous buffer */

/* ---- completion queue entry (B 3.3.3.2) ---- */

struct nvs_cqe {
	struct le32 dw0;     /* 0x00: command specific */
	struct le32 dw1;     /* 0x04 */
	struct le16 sqhd;    /* 0x08 */
	struct le16 sqid;    /* 0x0a */
	struct le16 cid;     /* 0x0c */
	struct le16 status;  /* 0x0e: phase in bit 0, then the status field */
};
STATIC_ASSERT(sizeof(struct nvs_cqe) == 16);
STATIC_ASSERT(offsetof(struct nvs_cqe, status) == 0x0e);

#define NVS_STATUS_PHASE(raw) ((raw)&1u)
#define NVS_STATUS_CODE(raw) ((raw) >> 1 & 0x7ffu) /* type << 8 | code */
#define NVS_STATUS_MORE (1u << 14)
#define NVS_STATUS_DNR (1u << 15) /* do not retry */

/* Status codes, type << 8 | code (B 3.3.3.2.1, C 3.1) */
#define NVS_SC_OK 0x000u
#define NVS_SC_INVALID_OPCODE 0x001u
#define NVS_SC_INVALID_FIELD 0x002u
#define NVS_SC_CID_CONFLICT 0x003u
#define NVS_SC_TRANSFER 0x004u
#define NVS_SC_POWER_LOSS 0x005u
#define NVS_SC_INTERNAL 0x006u
#define NVS_SC_ABORT_REQUESTED 0x007u
#define NVS_SC_ABORT_SQ_DELETED 0x008u
#define NVS_SC_INVALID_NS 0x00bu
#define NVS_SC_SGL_INVALID 0x00du
#define NVS_SC_INTERRUPTED 0x021u
#define NVS_SC_TRANSIENT 0x022u
#define NVS_SC_LBA_RANGE 0x080u
#define NVS_SC_CAPACITY 0x081u
#define NVS_SC_NS_NOT_READY 0x082u
#define NVS_SC_FORMATTING 0x084u
#define NVS_SC_CQ_INVALID 0x100u
#define NVS_SC_QID_INVALID 0x101u
#define NVS_SC_AER_LIMIT 0x105u
#define NVS_SC_INVALID_LOG 0x109u
#define NVS_SC_READ_ONLY 0x182u
#define NVS_SC_WRITE_FAULT 0x280u
#define NVS_SC_UNRECOVERED_READ 0x281u
#define NVS_SC_GUARD 0x282u
#define NVS_SC_APP_TAG 0x283u
#define NVS_SC_REF_TAG 0x284u
#define NVS_SC_COMPARE 0x285u
#define NVS_SC_DEALLOCATED 0x287u

/* ---- admin commands (B 5) ---- */

#define NVS_ADM_DELETE_SQ 0x00u /* (B 5.7): cdw10 id */
#define NVS_ADM_CREATE_SQ 0x01u /* (B 5.5): cdw10 size-1 : id, cdw11 cqid : flags */
#define NVS_ADM_GET_LOG 0x02u   /* (B 5.16): cdw10 dwords-1 low : log id, cdw11 dwords-1 high */
#define NVS_ADM_DELETE_CQ 0x04u /* (B 5.6): cdw10 id */
#define NVS_ADM_CREATE_CQ 0x05u /* (B 5.4): cdw10 size-1 : id, cdw11 vector : flags */
#define NVS_ADM_IDENTIFY 0x06u  /* (B 5.17): cdw10 CNS */
#define NVS_ADM_ABORT 0x08u     /* (B 5.1): cdw10 cid : sqid */
#define NVS_ADM_SET_FEATURES 0x09u /* (B 5.27) */
#define NVS_ADM_GET_FEATURES 0x0au /* (B 5.15) */
#define NVS_ADM_ASYNC_EVENT 0x0cu  /* (B 5.2) */
#define NVS_ADM_DOORBELL_BUFFER 0x7cu /* (B 5.8): prp1 shadow doorbells, prp2 event indexes */
#define NVS_QUEUE_CONTIGUOUS 1u
#define NVS_CQ_INTERRUPTS 2u

#define NVS_CNS_NAMESPACE 0x00u  /* (C 4.1.5.1) */
#define NVS_CNS_CONTROLLER 0x01u /* (B 5.17.2.1) */
#define NVS_CNS_NS_LIST 0x02u    /* (B 5.17.2.2): ids above nsid, ascending, 1,024 of them */
#define NVS_CNS_NS_DESCS 0x03u   /* (B 5.17.2.3) */
#define NVS_NS_LIST_MAX 1024u
#define NVS_NSID_ALL 0xffffffffu

#define NVS_FEAT_WRITE_CACHE 0x06u /* (B 5.27.1.4): bit 0 enabled */
#define NVS_FEAT_QUEUES 0x07u      /* (B 5.27.1.5): both numbers less one */
#define NVS_FEAT_EVENTS 0x0bu      /* (B 5.27.1.8) */
#define NVS_EVENT_CRITICAL_ALL 0x1fu     /* feature 0x0b: every critical warning */
#define NVS_EVENT_NS_CHANGED (1u << 8)
#define NVS_EVENT_FIRMWARE (1u << 9)

/* Asynchronous event, completion dw0 (B 5.2.1) */
#define NVS_AER_TYPE(dw0) ((dw0)&7u)
#define NVS_AER_INFO(dw0) ((dw0) >> 8 & 0xffu)
#define NVS_AER_LOG(dw0) ((dw0) >> 16 & 0xffu)
#define NVS_AER_ERROR 0u
#define NVS_AER_HEALTH 1u
#define NVS_AER_NOTICE 2u
#define NVS_AER_NOTICE_NS_CHANGED 0u

#define NVS_LOG_ERROR 0x01u    /* (B 5.16.1.2) */
#define NVS_LOG_HEALTH 0x02u   /* (B 5.16.1.3) */
#define NVS_LOG_FIRMWARE 0x03u /* (B 5.16.1.4) */
#define NVS_LOG_NS_CHANGED 0x04u /* (B 5.16.1.5) */

/* ---- I/O commands (C 3.2) ---- */

#define NVS_IO_FLUSH 0x00u /* (B 7.1) */
#define NVS_IO_WRITE 0x01u /* (C 3.2.6): cdw10/11 lba, cdw12 count-1 and flags */
#define NVS_IO_READ 0x02u  /* (C 3.2.4) */
#define NVS_IO_DSM 0x09u   /* (C 3.2.3): cdw10 ranges-1, cdw11 attributes */
#define NVS_IO_FUA (1u << 30)
#define NVS_DSM_DEALLOCATE 4u
#define NVS_IO_BLOCKS_MAX 0x10000u /* of one read or write */

struct nvs_dsm_range { /* (C 3.2.3) */
	struct le32 attributes;
	struct le32 blocks;
	struct le64 lba;
};
STATIC_ASSERT(sizeof(struct nvs_dsm_range) == 16);
#define NVS_DSM_RANGES_MAX 256u

/* ---- identify controller (B 5.17.2.1) ---- */

struct nvs_id_ctrl {
	struct le16 vid;         /* 0x000 */
	struct le16 ssvid;       /* 0x002 */
	char sn[20];             /* 0x004 */
	char mn[40];             /* 0x018 */
	char fr[8];              /* 0x040 */
	uint8_t rab;             /* 0x048 */
	uint8_t ieee[3];         /* 0x049 */
	uint8_t cmic;            /* 0x04c */
	uint8_t mdts;            /* 0x04d: longest transfer, smallest page << n; 0 = no limit */
	struct le16 cntlid;      /* 0x04e */
	struct le32 ver;         /* 0x050 */
	struct le32 rtd3r;       /* 0x054 */
	struct le32 rtd3e;       /* 0x058: microseconds a shutdown may take; 0 = not told */
	struct le32 oaes;        /* 0x05c: notices it can send */
	uint8_t reserved_60[160];
	struct le16 oacs;        /* 0x100 */
	uint8_t acl;             /* 0x102: aborts at once, less one */
	uint8_t aerl;            /* 0x103: event requests at once, less one */
	uint8_t frmw;            /* 0x104: bits 3:1 number of firmware slots */
	uint8_t lpa;             /* 0x105: bit 0 health log by namespace */
	uint8_t elpe;            /* 0x106: entries of the error log, less one */
	uint8_t npss;            /* 0x107 */
	uint8_t avscc;           /* 0x108 */
	uint8_t apsta;           /* 0x109 */
	struct le16 wctemp;      /* 0x10a: kelvin */
	struct le16 cctemp;      /* 0x10c: kelvin */
	uint8_t reserved_10e[242];
	uint8_t sqes;            /* 0x200: log2 of entry size, bits 3:0 required, 7:4 largest */
	uint8_t cqes;            /* 0x201 */
	struct le16 maxcmd;      /* 0x202 */
	struct le32 nn;          /* 0x204: highest namespace id */
	struct le16 oncs;        /* 0x208: optional commands */
	struct le16 fuses;       /* 0x20a */
	uint8_t fna;             /* 0x20c */
	uint8_t vwc;             /* 0x20d: bit 0 there is a volatile write cache */
	struct le16 awun;        /* 0x20e */
	struct le16 awupf;       /* 0x210 */
	uint8_t icsvscc;         /* 0x212 */
	uint8_t nwpc;            /* 0x213 */
	struct le16 acwu;        /* 0x214 */
	struct le16 cdfs;        /* 0x216 */
	struct le32 sgls;        /* 0x218: bits 1:0 SGLs known */
	uint8_t reserved_21c[3556];
};
STATIC_ASSERT(sizeof(struct nvs_id_ctrl) == 4096);
STATIC_ASSERT(offsetof(struct nvs_id_ctrl, mdts) == 0x4d);
STATIC_ASSERT(offsetof(struct nvs_id_ctrl, oacs) == 0x100);
STATIC_ASSERT(offsetof(struct nvs_id_ctrl, wctemp) == 0x10a);
STATIC_ASSERT(offsetof(struct nvs_id_ctrl, sqes) == 0x200);
STATIC_ASSERT(offsetof(struct nvs_id_ctrl, vwc) == 0x20d);
STATIC_ASSERT(offsetof(struct nvs_id_ctrl, sgls) == 0x218);
#define NVS_OACS_DOORBELL_BUFFER (1u << 8)
#define NVS_ONCS_DSM (1u << 2)
#define NVS_SGLS_KNOWN 3u /* sgls: any of these bits */
#define NVS_OAES_NS_CHANGED (1u << 8)
#define NVS_OAES_FIRMWARE (1u << 9)

/* ---- identify namespace (C 4.1.5.1) ---- */

struct nvs_lbaf {
	struct le16 ms; /* metadata bytes of a block */
	uint8_t ds;     /* log2 of the block size */
	uint8_t rp;
};
STATIC_ASSERT(sizeof(struct nvs_lbaf) == 4);

struct nvs_id_ns {
	struct le64 nsze;    /* 0x00: blocks */
	struct le64 ncap;    /* 0x08 */
	struct le64 nuse;    /* 0x10 */
	uint8_t nsfeat;      /* 0x18 */
	uint8_t nlbaf;       /* 0x19: formats, less one */
	uint8_t flbas;       /* 0x1a: format in use: bits 3:0, and 6:5 above them */
	uint8_t mc;          /* 0x1b */
	uint8_t dpc;         /* 0x1c */
	uint8_t dps;         /* 0x1d: bits 2:0 protection in use */
	uint8_t nmic;        /* 0x1e */
	uint8_t rescap;      /* 0x1f */
	uint8_t fpi;         /* 0x20 */
	uint8_t dlfeat;      /* 0x21 */
	uint8_t reserved_22[12];
	struct le16 noiob;   /* 0x2e: blocks between boundaries that reads and writes should not cross */
	uint8_t nvmcap[16];  /* 0x30 */
	uint8_t reserved_40[23];
	uint8_t reserved_57[12];
	uint8_t nsattr;      /* 0x63: bit 0 write protected */
	uint8_t reserved_64[4];
	uint8_t nguid[16];   /* 0x68 */
	uint8_t eui64[8];    /* 0x78 */
	struct nvs_lbaf lbaf[64]; /* 0x80 */
	uint8_t reserved_180[3712];
};
STATIC_ASSERT(sizeof(struct nvs_id_ns) == 4096);
STATIC_ASSERT(offsetof(struct nvs_id_ns, noiob) == 0x2e);
STATIC_ASSERT(offsetof(struct nvs_id_ns, nsattr) == 0x63);
STATIC_ASSERT(offsetof(struct nvs_id_ns, nguid) == 0x68);
STATIC_ASSERT(offsetof(struct nvs_id_ns, lbaf) == 0x80);
#define NVS_FLBAS_INDEX(f) (((f)&0xfu) | ((f) >> 1 & 0x30u))
#define NVS_DPS_PROTECTED 7u
#define NVS_NSATTR_READ_ONLY 1u

/* ---- log pages ---- */

struct nvs_log_health {          /* (B 5.16.1.3) */
	uint8_t critical;        /* 0x00: see NVS_CRIT_ */
	uint8_t temperature[2];  /* 0x01: kelvin; unaligned */
	uint8_t spare;           /* 0x03: percent left */
	uint8_t spare_threshold; /* 0x04 */
	uint8_t used;            /* 0x05: percent of the rated life; may exceed 100 */
	uint8_t endurance;       /* 0x06 */
	uint8_t reserved_07[25];
	uint8_t units_read[16];    /* 0x20: thousands of 512 bytes */
	uint8_t units_written[16]; /* 0x30 */
	uint8_t host_reads[16];
	uint8_t host_writes[16];
	uint8_t busy_minutes[16]; /* 0x60 */
	uint8_t power_cycles[16]; /* 0x70 */
	uint8_t power_hours[16];  /* 0x80 */
	uint8_t unsafe_shutdowns[16]; /* 0x90 */
	uint8_t media_errors[16];     /* 0xa0 */
	uint8_t error_entries[16];    /* 0xb0 */
	struct le32 warning_minutes;  /* 0xc0 */
	struct le32 critical_minutes; /* 0xc4 */
	struct le16 sensors[8];       /* 0xc8 */
	uint8_t reserved_d8[296];
};
STATIC_ASSERT(sizeof(struct nvs_log_health) == 512);
STATIC_ASSERT(offsetof(struct nvs_log_health, units_read) == 0x20);
STATIC_ASSERT(offsetof(struct nvs_log_health, warning_minutes) == 0xc0);
#define NVS_CRIT_SPARE 0x01u
#define NVS_CRIT_TEMPERATURE 0x02u
#define NVS_CRIT_DEGRADED 0x04u
#define NVS_CRIT_READ_ONLY 0x08u
#define NVS_CRIT_BACKUP 0x10u

struct nvs_log_error { /* one entry (B 5.16.1.2) */
	struct le64 count; /* 0x00: 0 = no entry */
	struct le16 sqid;  /* 0x08 */
	struct le16 cid;   /* 0x0a */
	struct le16 status; /* 0x0c: as in a completion */
	struct le16 location;
	struct le64 lba;   /* 0x10 */
	struct le32 nsid;  /* 0x18 */
	uint8_t vendor;
	uint8_t transport;
	uint8_t reserved_1e[2];
	struct le64 specific;
	struct le16 transport_specific;
	uint8_t reserved_2a[22];
};
STATIC_ASSERT(sizeof(struct nvs_log_error) == 64);
STATIC_ASSERT(offsetof(struct nvs_log_error, lba) == 0x10);

struct nvs_log_firmware { /* (B 5.16.1.4) */
	uint8_t active;       /* 0x00: bits 2:0 slot in use, 6:4 after the next reset */
	uint8_t reserved_01[7];
	char revision[7][8]; /* 0x08 */
	uint8_t reserved_40[448];
};
STATIC_ASSERT(sizeof(struct nvs_log_firmware) == 512);
STATIC_ASSERT(offsetof(struct nvs_log_firmware, revision) == 0x08);

#endif
