/*
 * nvme_status.c - the one place where a status of NVMe becomes an error of ours. What the table
 * doesn't name is -EIO, not to be retried.
 */
#include "kernel-bypass/nvme.h"

struct status_row {
	uint16_t code;
	int16_t err;
	bool retry; /* unless the controller says "do not retry" */
	const char *text;
};

static const struct status_row rows[] = {
    {NVS_SC_OK, 0, false, "success"},
    {NVS_SC_INVALID_OPCODE, -EIO, false, "invalid command"},
    {NVS_SC_INVALID_FIELD, -EIO, false, "invalid field"},
    {NVS_SC_CID_CONFLICT, -EIO, false, "command identifier in use"},
    {NVS_SC_TRANSFER, -EIO, true, "data transfer error"},
    {NVS_SC_POWER_LOSS, -EIO, true, "aborted: power loss"},
    {NVS_SC_INTERNAL, -EIO, true, "internal error"},
    {NVS_SC_ABORT_REQUESTED, -EIO, false, "aborted on request"},
    {NVS_SC_ABORT_SQ_DELETED, -EIO, true, "aborted: queue deleted"},
    {NVS_SC_INVALID_NS, -ERR_GONE, false, "no such namespace"},
    {NVS_SC_SGL_INVALID, -EIO, false, "invalid descriptor"},
    {NVS_SC_INTERRUPTED, -EIO, true, "interrupted"},
    {NVS_SC_TRANSIENT, -EIO, true, "transient transport error"},
    {NVS_SC_LBA_RANGE, -EIO, false, "beyond the end"},
    {NVS_SC_CAPACITY, -EIO, false, "capacity exceeded"},
    {NVS_SC_NS_NOT_READY, -EIO, true, "namespace not ready"},
    {NVS_SC_FORMATTING, -EIO, false, "being formatted"},
    {NVS_SC_READ_ONLY, -EIO, false, "read-only"},
    {NVS_SC_WRITE_FAULT, -ENODATA, false, "write fault"},
    {NVS_SC_UNRECOVERED_READ, -ENODATA, false, "unrecovered read error"},
    {NVS_SC_GUARD, -ENODATA, false, "guard check failed"},
    {NVS_SC_APP_TAG, -ENODATA, false, "application tag check failed"},
    {NVS_SC_REF_TAG, -ENODATA, false, "reference tag check failed"},
    {NVS_SC_COMPARE, -EIO, false, "compare failed"},
    {NVS_SC_DEALLOCATED, -ENODATA, false, "deallocated or unwritten block"},
};

static const struct status_row *
status_row(uint32_t code)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].code == code) {
			return &rows[i];
		}
	}
	return NULL;
}

int
nvme_status_errno(uint32_t code)
{
	const struct status_row *row = status_row(code);

	return row != NULL ? row->err : -EIO;
}

const char *
nvme_status_text(uint32_t code)
{
	const struct status_row *row = status_row(code);

	return row != NULL ? row->text : "unknown status";
}

bool
nvme_status_retry(uint32_t raw_status)
{
	const struct status_row *row = status_row(NVS_STATUS_CODE(raw_status));

	return row != NULL && row->retry && (raw_status & NVS_STATUS_DNR) == 0;
}
