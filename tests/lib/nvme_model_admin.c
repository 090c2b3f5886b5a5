/* nvme_model_admin.c - the model's admin commands. */
#include "tests/lib/nvme_model_int.h"

static void
text_put(char *out, size_t len, const char *text)
{
	memset(out, ' ', len);
	memcpy(out, text, MIN(strlen(text), len));
}

static void
fill_ctrl(struct nvme_model *m, struct nvs_id_ctrl *id)
{
	id->vid = le16_of(m->opt.vendor);
	text_put(id->sn, sizeof(id->sn), m->serial);
	text_put(id->mn, sizeof(id->mn), "Software model");
	text_put(id->fr, sizeof(id->fr), "1.0");
	id->mdts = m->opt.mdts;
	id->ver = le32_of(0x00010400);
	id->oaes = le32_of(NVS_OAES_NS_CHANGED);
	id->oacs = le16_of(m->opt.shadow_bells ? NVS_OACS_DOORBELL_BUFFER : 0);
	id->acl = 3;
	id->aerl = MODEL_AERS - 1;
	id->frmw = 1 << 1;
	id->elpe = 7;
	id->sqes = 0x66;
	id->cqes = 0x44;
	id->nn = le32_of(m->opt.namespaces);
	id->oncs = le16_of(m->opt.no_dsm ? 0 : NVS_ONCS_DSM);
	id->vwc = m->opt.volatile_cache;
	id->sgls = le32_of(m->opt.sgl);
}

static void
fill_ns(struct nvme_model *m, uint32_t nsid, struct nvs_id_ns *id)
{
	id->nsze = id->ncap = id->nuse = le64_of(m->ns[nsid - 1].blocks);
	id->nlbaf = 1;
	id->lbaf[0].ds = 9;
	id->lbaf[1].ds = 12;
	id->flbas = m->opt.block_shift == 12;
	id->noiob = le16_of(m->opt.noiob);
	memcpy(id->nguid, m->serial, MIN(strlen(m->serial), sizeof(id->nguid) - 1));
	id->nguid[15] = (uint8_t)nsid;
}

static uint16_t
admin_identify(struct nvme_model *m, const struct nvs_sqe *sqe)
{
	uint32_t nsid = le32_get(sqe->nsid);
	uint8_t *page = m->page;

	memset(page, 0, MODEL_PAGE);
	switch (le32_get(sqe->cdw10) & 0xff) {
	case NVS_CNS_CONTROLLER:
		fill_ctrl(m, (struct nvs_id_ctrl *)(void *)page);
		break;
	case NVS_CNS_NAMESPACE:
		if (nsid == 0 || nsid > m->opt.namespaces) {
			return NVS_SC_INVALID_NS;
		}
		fill_ns(m, nsid, (struct nvs_id_ns *)(void *)page);
		break;
	case NVS_CNS_NS_LIST:
		for (uint32_t i = 0, n = 0; i < m->opt.namespaces; i++) {
			if (i >= nsid && m->ns[i].blocks != 0) {
				((struct le32 *)(void *)page)[n++] = le32_of(i + 1);
			}
		}
		break;
	default:
		return NVS_SC_INVALID_FIELD;
	}
	model_change(m, MODEL_IDENTIFY, page, MODEL_PAGE);
	return model_copy(m, sqe, page, MODEL_PAGE, true);
}

static uint16_t
admin_log(struct nvme_model *m, const struct nvs_sqe *sqe)
{
	uint32_t len =
	    ((le32_get(sqe->cdw10) >> 16 | (le32_get(sqe->cdw11) & 0xffff) << 16) + 1) * 4;
	uint8_t *page = m->page;

	if (len > MODEL_PAGE) {
		return NVS_SC_INVALID_FIELD;
	}
	memset(page, 0, MODEL_PAGE);
	switch (le32_get(sqe->cdw10) & 0xff) {
	case NVS_LOG_HEALTH:
		memcpy(page, &m->health, sizeof(m->health));
		break;
	case NVS_LOG_FIRMWARE:
		page[0] = 1;
		memcpy(page + 8, "1.0     ", 8);
		break;
	case NVS_LOG_ERROR:
	case NVS_LOG_NS_CHANGED:
		break;
	default:
		return NVS_SC_INVALID_LOG;
	}
	model_change(m, MODEL_LOG, page, len);
	return model_copy(m, sqe, page, len, true);
}

static uint16_t
admin_create(struct nvme_model *m, const struct nvs_sqe *sqe, bool is_cq)
{
	uint32_t qid = le32_get(sqe->cdw10) & 0xffff;
	uint32_t dw11 = le32_get(sqe->cdw11);
	struct model_queue *q;

	if (qid == 0 || qid > m->opt.queues || qid >= MODEL_QUEUES) {
		m->count.protocol_errors++;
		return NVS_SC_QID_INVALID;
	}
	q = is_cq ? &m->cq[qid] : &m->sq[qid];
	if (q->entries != 0 || (dw11 & NVS_QUEUE_CONTIGUOUS) == 0 ||
	    (!is_cq && m->cq[dw11 >> 16].entries == 0)) {
		m->count.protocol_errors++;
		return NVS_SC_QID_INVALID;
	}
	*q = (struct model_queue){
	    .iova = le64_get(sqe->dptr.prp[0]),
	    .entries = (le32_get(sqe->cdw10) >> 16) + 1,
	    .other = (uint16_t)(dw11 >> 16),
	    .irq = is_cq && (dw11 & NVS_CQ_INTERRUPTS) != 0,
	    .phase = 1,
	};
	return NVS_SC_OK;
}

/* A completion queue that a submission queue still uses stays. */
static uint16_t
admin_delete(struct nvme_model *m, const struct nvs_sqe *sqe, bool is_cq)
{
	uint32_t qid = le32_get(sqe->cdw10) & 0xffff;
	struct model_queue *q = is_cq ? &m->cq[qid % MODEL_QUEUES] : &m->sq[qid % MODEL_QUEUES];

	if (qid == 0 || qid >= MODEL_QUEUES || q->entries == 0 ||
	    (is_cq && m->sq[qid].entries != 0)) {
		m->count.protocol_errors++;
		return NVS_SC_QID_INVALID;
	}
	memset(q, 0, sizeof(*q));
	m->count.queues_deleted++;
	return NVS_SC_OK;
}

static uint16_t
admin_get_feature(struct nvme_model *m, const struct nvs_sqe *sqe, uint32_t *out_dw0)
{
	if ((le32_get(sqe->cdw10) & 0xff) != NVS_FEAT_WRITE_CACHE || !m->opt.volatile_cache) {
		return NVS_SC_INVALID_FIELD;
	}
	*out_dw0 = m->cache_on;
	return NVS_SC_OK;
}

static uint16_t
admin_shadows(struct nvme_model *m, const struct nvs_sqe *sqe)
{
	if (!m->opt.shadow_bells) {
		m->count.protocol_errors++;
		return NVS_SC_INVALID_OPCODE;
	}
	m->shadows = le64_get(sqe->dptr.prp[0]);
	m->shadow_events = le64_get(sqe->dptr.prp[1]);
	return m->shadows % MODEL_PAGE == 0 && m->shadow_events % MODEL_PAGE == 0
		   ? NVS_SC_OK
		   : NVS_SC_INVALID_FIELD;
}

/* Bit 0 of the answer: it was not aborted. */
static uint32_t
admin_abort(struct nvme_model *m, const struct nvs_sqe *sqe)
{
	uint32_t dw10 = le32_get(sqe->cdw10);

	m->count.aborts++;
	list_for_each_safe(l, next, &m->commands)
	{
		struct model_command *c = list_entry(l, struct model_command, link);
		if (m->faults.aborts_fail || c->life != m->life || c->sqid != (dw10 & 0xffff) ||
		    le16_get(c->sqe.cid) != dw10 >> 16) {
			continue;
		}
		if (!c->hung) {
			c->aborted = true;
			return 0;
		}
		m->count.aborted++;
		model_complete(m, c->sqid, (uint16_t)(dw10 >> 16), NVS_SC_ABORT_REQUESTED, 0);
		list_remove(&c->link);
		mem_free(c);
		return 0;
	}
	return 1;
}

bool
model_admin(struct nvme_model *m, const struct nvs_sqe *sqe, uint16_t *out_code, uint32_t *out_dw0)
{
	m->count.admin++;
	*out_code = NVS_SC_OK;
	switch (sqe->opcode) {
	case NVS_ADM_IDENTIFY:
		*out_code = admin_identify(m, sqe);
		break;
	case NVS_ADM_GET_LOG:
		*out_code = admin_log(m, sqe);
		break;
	case NVS_ADM_CREATE_CQ:
	case NVS_ADM_CREATE_SQ:
		*out_code = admin_create(m, sqe, sqe->opcode == NVS_ADM_CREATE_CQ);
		break;
	case NVS_ADM_SET_FEATURES:
		if ((le32_get(sqe->cdw10) & 0xff) == NVS_FEAT_QUEUES) {
			*out_dw0 = (m->opt.queues - 1) << 16 | (m->opt.queues - 1);
		}
		break;
	case NVS_ADM_DELETE_CQ:
	case NVS_ADM_DELETE_SQ:
		*out_code = admin_delete(m, sqe, sqe->opcode == NVS_ADM_DELETE_CQ);
		break;
	case NVS_ADM_GET_FEATURES:
		*out_code = admin_get_feature(m, sqe, out_dw0);
		break;
	case NVS_ADM_DOORBELL_BUFFER:
		*out_code = admin_shadows(m, sqe);
		break;
	case NVS_ADM_ABORT:
		*out_dw0 = admin_abort(m, sqe);
		break;
	case NVS_ADM_ASYNC_EVENT:
		if (m->aer_count == MODEL_AERS) {
			*out_code = NVS_SC_AER_LIMIT;
			break;
		}
		m->aer_cid[m->aer_count++] = le16_get(sqe->cid);
		model_events_send(m);
		return false;
	default:
		*out_code = NVS_SC_INVALID_OPCODE;
		m->count.protocol_errors++;
	}
	return true;
}
