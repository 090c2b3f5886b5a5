/*
 * nvme_spec_test.c - nvme_spec.h against an independent header of the same specification
 * (libnvme's): each structure has the same size and each field the same place.
 */
#include "kernel-bypass/nvme_spec.h"
#include <libnvme.h>
#include "tests/lib/unit.h"

#define SAME(a, fa, b, fb) \
	CU_ASSERT(offsetof(struct a, fa) == offsetof(struct b, fb) && \
		  sizeof(((struct a *)0)->fa) == sizeof(((struct b *)0)->fb))

static void
test_identify_controller(void)
{
	CU_ASSERT(sizeof(struct nvs_id_ctrl) == sizeof(struct nvme_id_ctrl));
	SAME(nvs_id_ctrl, vid, nvme_id_ctrl, vid);
	SAME(nvs_id_ctrl, sn, nvme_id_ctrl, sn);
	SAME(nvs_id_ctrl, mn, nvme_id_ctrl, mn);
	SAME(nvs_id_ctrl, fr, nvme_id_ctrl, fr);
	SAME(nvs_id_ctrl, mdts, nvme_id_ctrl, mdts);
	SAME(nvs_id_ctrl, cntlid, nvme_id_ctrl, cntlid);
	SAME(nvs_id_ctrl, ver, nvme_id_ctrl, ver);
	SAME(nvs_id_ctrl, rtd3e, nvme_id_ctrl, rtd3e);
	SAME(nvs_id_ctrl, oaes, nvme_id_ctrl, oaes);
	SAME(nvs_id_ctrl, oacs, nvme_id_ctrl, oacs);
	SAME(nvs_id_ctrl, acl, nvme_id_ctrl, acl);
	SAME(nvs_id_ctrl, aerl, nvme_id_ctrl, aerl);
	SAME(nvs_id_ctrl, frmw, nvme_id_ctrl, frmw);
	SAME(nvs_id_ctrl, elpe, nvme_id_ctrl, elpe);
	SAME(nvs_id_ctrl, wctemp, nvme_id_ctrl, wctemp);
	SAME(nvs_id_ctrl, cctemp, nvme_id_ctrl, cctemp);
	SAME(nvs_id_ctrl, sqes, nvme_id_ctrl, sqes);
	SAME(nvs_id_ctrl, cqes, nvme_id_ctrl, cqes);
	SAME(nvs_id_ctrl, maxcmd, nvme_id_ctrl, maxcmd);
	SAME(nvs_id_ctrl, nn, nvme_id_ctrl, nn);
	SAME(nvs_id_ctrl, oncs, nvme_id_ctrl, oncs);
	SAME(nvs_id_ctrl, vwc, nvme_id_ctrl, vwc);
	SAME(nvs_id_ctrl, awupf, nvme_id_ctrl, awupf);
	SAME(nvs_id_ctrl, sgls, nvme_id_ctrl, sgls);
}

static void
test_identify_namespace(void)
{
	CU_ASSERT(sizeof(struct nvs_id_ns) == sizeof(struct nvme_id_ns));
	SAME(nvs_id_ns, nsze, nvme_id_ns, nsze);
	SAME(nvs_id_ns, nlbaf, nvme_id_ns, nlbaf);
	SAME(nvs_id_ns, flbas, nvme_id_ns, flbas);
	SAME(nvs_id_ns, dps, nvme_id_ns, dps);
	SAME(nvs_id_ns, noiob, nvme_id_ns, noiob);
	SAME(nvs_id_ns, nvmcap, nvme_id_ns, nvmcap);
	SAME(nvs_id_ns, nsattr, nvme_id_ns, nsattr);
	SAME(nvs_id_ns, nguid, nvme_id_ns, nguid);
	SAME(nvs_id_ns, eui64, nvme_id_ns, eui64);
	SAME(nvs_id_ns, lbaf, nvme_id_ns, lbaf);
	SAME(nvs_lbaf, ms, nvme_lbaf, ms);
	SAME(nvs_lbaf, ds, nvme_lbaf, ds);
}

static void
test_logs(void)
{
	CU_ASSERT(sizeof(struct nvs_log_health) == sizeof(struct nvme_smart_log));
	SAME(nvs_log_health, critical, nvme_smart_log, critical_warning);
	SAME(nvs_log_health, temperature, nvme_smart_log, temperature);
	SAME(nvs_log_health, spare, nvme_smart_log, avail_spare);
	SAME(nvs_log_health, spare_threshold, nvme_smart_log, spare_thresh);
	SAME(nvs_log_health, used, nvme_smart_log, percent_used);
	SAME(nvs_log_health, units_read, nvme_smart_log, data_units_read);
	SAME(nvs_log_health, units_written, nvme_smart_log, data_units_written);
	SAME(nvs_log_health, power_cycles, nvme_smart_log, power_cycles);
	SAME(nvs_log_health, power_hours, nvme_smart_log, power_on_hours);
	SAME(nvs_log_health, unsafe_shutdowns, nvme_smart_log, unsafe_shutdowns);
	SAME(nvs_log_health, media_errors, nvme_smart_log, media_errors);
	SAME(nvs_log_health, error_entries, nvme_smart_log, num_err_log_entries);
	SAME(nvs_log_health, warning_minutes, nvme_smart_log, warning_temp_time);
	SAME(nvs_log_health, sensors, nvme_smart_log, temp_sensor);
	CU_ASSERT(sizeof(struct nvs_log_error) == sizeof(struct nvme_error_log_page));
	SAME(nvs_log_error, count, nvme_error_log_page, error_count);
	SAME(nvs_log_error, status, nvme_error_log_page, status_field);
	SAME(nvs_log_error, lba, nvme_error_log_page, lba);
	SAME(nvs_log_error, nsid, nvme_error_log_page, nsid);
	CU_ASSERT(sizeof(struct nvs_log_firmware) == sizeof(struct nvme_firmware_slot));
	SAME(nvs_log_firmware, active, nvme_firmware_slot, afi);
	SAME(nvs_log_firmware, revision, nvme_firmware_slot, frs);
	CU_ASSERT(sizeof(struct nvs_dsm_range) == sizeof(struct nvme_dsm_range));
	SAME(nvs_dsm_range, blocks, nvme_dsm_range, nlb);
	SAME(nvs_dsm_range, lba, nvme_dsm_range, slba);
}

static void
test_numbers(void)
{
	uint64_t cap = 0x0123456789abcdefull;

	CU_ASSERT(NVS_REG_CAP == NVME_REG_CAP && NVS_REG_CC == NVME_REG_CC);
	CU_ASSERT(NVS_REG_CSTS == NVME_REG_CSTS && NVS_REG_AQA == NVME_REG_AQA);
	CU_ASSERT(NVS_REG_ASQ == NVME_REG_ASQ && NVS_REG_ACQ == NVME_REG_ACQ);
	CU_ASSERT(NVS_CAP_MQES(cap) == NVME_CAP_MQES(cap));
	CU_ASSERT(NVS_CAP_TO(cap) == NVME_CAP_TO(cap));
	CU_ASSERT(NVS_CAP_DSTRD(cap) == NVME_CAP_DSTRD(cap));
	CU_ASSERT(NVS_CAP_MPSMIN(cap) == NVME_CAP_MPSMIN(cap));
	for (unsigned bit = 37; bit < 45; bit++) {
		uint64_t one = (uint64_t)1 << bit;
		CU_ASSERT(NVS_CAP_CSS_NVM(one) == ((NVME_CAP_CSS(one) & NVME_CAP_CSS_NVM) != 0));
		CU_ASSERT(NVS_CAP_CSS_IOCS(one) == ((NVME_CAP_CSS(one) & NVME_CAP_CSS_CSI) != 0));
	}
	CU_ASSERT(NVS_CC_SHN_NORMAL == NVME_SET(NVME_CC_SHN_NORMAL, CC_SHN));
	CU_ASSERT(NVS_CC_CSS_ALL == NVME_SET(NVME_CC_CSS_CSI, CC_CSS));
	CU_ASSERT(
	    NVS_CC_IOSQES == NVME_SET(6, CC_IOSQES) && NVS_CC_IOCQES == NVME_SET(4, CC_IOCQES));
	CU_ASSERT(
	    NVS_CSTS_SHST(0x8) == NVME_CSTS_SHST(0x8) && NVS_SHST_DONE == NVME_CSTS_SHST_CMPLT);
	CU_ASSERT(
	    NVS_ADM_IDENTIFY == nvme_admin_identify && NVS_ADM_GET_LOG == nvme_admin_get_log_page);
	CU_ASSERT(
	    NVS_ADM_CREATE_CQ == nvme_admin_create_cq && NVS_ADM_CREATE_SQ == nvme_admin_create_sq);
	CU_ASSERT(
	    NVS_ADM_ABORT == nvme_admin_abort_cmd && NVS_ADM_ASYNC_EVENT == nvme_admin_async_event);
	CU_ASSERT(NVS_ADM_SET_FEATURES == nvme_admin_set_features);
	CU_ASSERT(NVS_IO_READ == nvme_cmd_read && NVS_IO_WRITE == nvme_cmd_write);
	CU_ASSERT(NVS_IO_FLUSH == nvme_cmd_flush && NVS_IO_DSM == nvme_cmd_dsm);
	CU_ASSERT(NVS_IO_FUA >> 16 == NVME_IO_FUA && NVS_DSM_DEALLOCATE == NVME_DSMGMT_AD);
	CU_ASSERT(NVS_FEAT_QUEUES == NVME_FEAT_FID_NUM_QUEUES);
	CU_ASSERT(NVS_FEAT_EVENTS == NVME_FEAT_FID_ASYNC_EVENT);
	CU_ASSERT(NVS_LOG_HEALTH == NVME_LOG_LID_SMART && NVS_LOG_ERROR == NVME_LOG_LID_ERROR);
	CU_ASSERT(NVS_ONCS_DSM == NVME_CTRL_ONCS_DSM);
}

static void
test_status(void)
{
	CU_ASSERT(NVS_SC_INVALID_FIELD == NVME_SC_INVALID_FIELD);
	CU_ASSERT(NVS_SC_ABORT_REQUESTED == NVME_SC_ABORT_REQ);
	CU_ASSERT(NVS_SC_ABORT_SQ_DELETED == NVME_SC_ABORT_QUEUE);
	CU_ASSERT(NVS_SC_INVALID_NS == NVME_SC_INVALID_NS);
	CU_ASSERT(NVS_SC_INTERRUPTED == NVME_SC_CMD_INTERRUPTED);
	CU_ASSERT(NVS_SC_TRANSIENT == NVME_SC_TRAN_TPORT_ERROR);
	CU_ASSERT(NVS_SC_LBA_RANGE == NVME_SC_LBA_RANGE);
	CU_ASSERT(NVS_SC_NS_NOT_READY == NVME_SC_NS_NOT_READY);
	CU_ASSERT(NVS_SC_FORMATTING == NVME_SC_FORMAT_IN_PROGRESS);
	CU_ASSERT(NVS_SC_AER_LIMIT == (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_ASYNC_LIMIT));
	CU_ASSERT(NVS_SC_READ_ONLY == (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_READ_ONLY));
	CU_ASSERT(NVS_SC_WRITE_FAULT == (NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT));
	CU_ASSERT(NVS_SC_UNRECOVERED_READ == (NVME_SCT_MEDIA << 8 | NVME_SC_READ_ERROR));
	CU_ASSERT(NVS_SC_GUARD == (NVME_SCT_MEDIA << 8 | NVME_SC_GUARD_CHECK));
	CU_ASSERT(NVS_SC_DEALLOCATED == (NVME_SCT_MEDIA << 8 | NVME_SC_UNWRITTEN_BLOCK));
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"identify controller", test_identify_controller},
	    {"identify namespace", test_identify_namespace},
	    {"logs", test_logs},
	    {"numbers", test_numbers},
	    {"status", test_status},
	};
	return unit_main("nvme_spec", tests, ARRAY_LEN(tests), argc, argv);
}
