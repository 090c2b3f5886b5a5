/*
 * nvme_decode.c - from the bytes of a controller to what the driver believes: one function per
 * structure. Whatever could make us compute a wrong address, length or size is refused here; what
 * is only odd is clamped.
 */
#include <ctype.h>
#include <stdio.h>
#include "kernel-bypass/nvme.h"

#define SHUTDOWN_MS_MIN 5000u
#define SHUTDOWN_MS_MAX 30000u
#define DESC_EUI64 1u
#define DESC_NGUID 2u
#define DESC_UUID 3u

/* Text of a fixed field, without blanks around it; what doesn't print becomes '_'. */
static void
text_of(char *out, size_t out_len, const char *in, size_t in_len)
{
	while (in_len > 0 && (in[0] == ' ' || in[0] == '\0')) {
		in++;
		in_len--;
	}
	while (in_len > 0 && (in[in_len - 1] == ' ' || in[in_len - 1] == '\0')) {
		in_len--;
	}
	in_len = MIN(in_len, out_len - 1);
	for (size_t i = 0; i < in_len; i++) {
		out[i] = isprint((unsigned char)in[i]) ? in[i] : '_';
	}
	out[in_len] = '\0';
}

static uint32_t
max_xfer(uint8_t mdts)
{
	/* 4096 << 8 is already more than we ever send. */
	if (mdts == 0 || mdts > 8) {
		return NVME_XFER_BYTES_MAX;
	}
	return MIN(NVS_PAGE_BYTES << mdts, NVME_XFER_BYTES_MAX);
}

int
nvme_decode_ctrl(const struct nvs_id_ctrl *raw, struct nvme_id *out, const char **out_why)
{
	uint32_t ms = le32_get(raw->rtd3e) / 1000;
	uint32_t nn = le32_get(raw->nn);

	if ((raw->sqes & 0xf) > 6 || raw->sqes >> 4 < 6 || (raw->cqes & 0xf) > 4 ||
	    raw->cqes >> 4 < 4) {
		*out_why = "queue entries of another size";
		return -EINVAL;
	}
	if (nn == 0) {
		*out_why = "no namespaces";
		return -EINVAL;
	}
	memset(out, 0, sizeof(*out));
	text_of(out->serial, sizeof(out->serial), raw->sn, sizeof(raw->sn));
	text_of(out->model, sizeof(out->model), raw->mn, sizeof(raw->mn));
	text_of(out->firmware, sizeof(out->firmware), raw->fr, sizeof(raw->fr));
	out->vendor = le16_get(raw->vid);
	out->max_xfer_bytes = max_xfer(raw->mdts);
	out->shutdown_ms = MIN(MAX(ms, SHUTDOWN_MS_MIN), SHUTDOWN_MS_MAX);
	out->namespaces = nn;
	out->events = NVS_EVENT_CRITICAL_ALL |
		      (le32_get(raw->oaes) & (NVS_OAES_NS_CHANGED | NVS_OAES_FIRMWARE));
	out->aers = MIN(raw->aerl + 1u, NVME_AERS);
	out->firmware_slots = raw->frmw >> 1 & 7u;
	out->volatile_cache = (raw->vwc & 1) != 0;
	out->dsm = (le16_get(raw->oncs) & NVS_ONCS_DSM) != 0;
	out->shadow_bells = (le16_get(raw->oacs) & NVS_OACS_DOORBELL_BUFFER) != 0;
	out->sgl = (le32_get(raw->sgls) & NVS_SGLS_KNOWN) != 0;
	return 0;
}

int
nvme_decode_ns(
    const struct nvs_id_ns *raw, uint32_t nsid, struct nvme_ns *out, const char **out_why)
{
	uint64_t blocks = le64_get(raw->nsze);
	unsigned format = NVS_FLBAS_INDEX(raw->flbas);
	const struct nvs_lbaf *f = &raw->lbaf[format];

	*out_why = NULL;
	if (blocks == 0) {
		*out_why = "inactive";
	} else if (format > raw->nlbaf) {
		*out_why = "its format does not exist";
	} else if (f->ds != 9 && f->ds != 12) {
		*out_why = "its blocks are neither 512 nor 4096 bytes";
	} else if (le16_get(f->ms) != 0 || (raw->dps & NVS_DPS_PROTECTED) != 0) {
		*out_why = "it is formatted with metadata";
	} else if (blocks > (uint64_t)INT64_MAX >> f->ds) {
		*out_why = "its size is absurd";
	} else if (blocks << f->ds < SECTOR_BYTES) {
		*out_why = "it is too small";
	} else if ((raw->nsattr & NVS_NSATTR_READ_ONLY) != 0) {
		*out_why = "it is write protected";
	}
	if (*out_why != NULL) {
		return -EINVAL;
	}
	memset(out, 0, sizeof(*out));
	out->nsid = nsid;
	out->blocks = blocks;
	out->block_shift = f->ds;
	out->boundary_bytes = (uint64_t)le16_get(raw->noiob) << f->ds;
	/* a boundary inside a sector would only make the I/O small */
	if (out->boundary_bytes % SECTOR_BYTES != 0) {
		out->boundary_bytes = 0;
	}
	return 0;
}

/* ---- identifiers ---- */

static bool
is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] != 0) {
			return false;
		}
	}
	return true;
}

static void
hex_add(char *out, size_t out_len, const uint8_t *p, size_t len)
{
	size_t at = strlen(out);

	for (size_t i = 0; i < len && at + 3 <= out_len; i++, at += 2) {
		snprintf(out + at, out_len - at, "%02x", p[i]);
	}
}

/* The identifier of a type in the list, or NULL. Each: type, length, two reserved, the bytes. */
static const uint8_t *
desc_find(const uint8_t *descs, unsigned type, size_t want_len)
{
	size_t at = 0;

	while (at + 4 <= NVS_PAGE_BYTES && descs[at] != 0) {
		size_t len = descs[at + 1];
		if (len == 0 || len > NVS_PAGE_BYTES - at - 4) {
			return NULL;
		}
		if (descs[at] == type && len == want_len && !is_zero(descs + at + 4, len)) {
			return descs + at + 4;
		}
		at += 4 + len;
	}
	return NULL;
}

static void
uuid_text(const uint8_t *uuid, char *out, size_t out_len)
{
	static const uint8_t groups[] = {4, 2, 2, 2, 6};

	snprintf(out, out_len, "uuid.");
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		hex_add(out, out_len, uuid, groups[i]);
		uuid += groups[i];
		if (i + 1 < ARRAY_LEN(groups)) {
			strncat(out, "-", out_len - strlen(out) - 1);
		}
	}
}

/* Where a drive has no identifier of its own: vendor, serial number, model, namespace. */
static void
made_up_text(const struct nvme_id *id, uint32_t nsid, char *out, size_t out_len)
{
	snprintf(out, out_len, "nvme.%04x-", id->vendor);
	hex_add(out, out_len, (const uint8_t *)id->serial, strlen(id->serial));
	strncat(out, "-", out_len - strlen(out) - 1);
	hex_add(out, out_len, (const uint8_t *)id->model, strlen(id->model));
	size_t at = strlen(out);
	snprintf(out + at, out_len - at, "-%08x", nsid);
}

void
nvme_decode_wwn(const struct nvme_id *id, const struct nvs_id_ns *raw, const uint8_t *descs,
    bool trusted, struct nvme_ns *ns)
{
	const uint8_t *uuid = NULL;
	const uint8_t *nguid = is_zero(raw->nguid, 16) ? NULL : raw->nguid;
	const uint8_t *eui64 = is_zero(raw->eui64, 8) ? NULL : raw->eui64;

	if (descs != NULL) {
		uuid = desc_find(descs, DESC_UUID, 16);
		nguid = nguid != NULL ? nguid : desc_find(descs, DESC_NGUID, 16);
		eui64 = eui64 != NULL ? eui64 : desc_find(descs, DESC_EUI64, 8);
	}
	if (trusted && uuid != NULL) {
		uuid_text(uuid, ns->wwn, sizeof(ns->wwn));
	} else if (trusted && (nguid != NULL || eui64 != NULL)) {
		snprintf(ns->wwn, sizeof(ns->wwn), "eui.");
		hex_add(ns->wwn, sizeof(ns->wwn), nguid != NULL ? nguid : eui64,
		    nguid != NULL ? 16 : 8);
	} else {
		made_up_text(id, ns->nsid, ns->wwn, sizeof(ns->wwn));
	}
}

/* ---- health ---- */

static uint64_t
le128_get(const uint8_t v[16])
{
	struct le64 low;

	memcpy(low.b, v, sizeof(low));
	return is_zero(v + 8, 8) ? le64_get(low) : UINT64_MAX;
}

static uint64_t
units_to_bytes(uint64_t units)
{
	return units > UINT64_MAX / 512000 ? UINT64_MAX : units * 512000;
}

void
nvme_decode_health(const struct nvs_log_health *raw, struct kb_health *out)
{
	int kelvin = raw->temperature[0] | raw->temperature[1] << 8;

	out->temperature_c = kelvin - 273;
	out->spare_percent = raw->spare;
	out->spare_threshold_percent = raw->spare_threshold;
	out->used_percent = raw->used;
	out->spare_low = (raw->critical & NVS_CRIT_SPARE) != 0;
	out->too_hot = (raw->critical & NVS_CRIT_TEMPERATURE) != 0;
	out->degraded = (raw->critical & NVS_CRIT_DEGRADED) != 0;
	out->read_only = (raw->critical & NVS_CRIT_READ_ONLY) != 0;
	out->backup_failed = (raw->critical & NVS_CRIT_BACKUP) != 0;
	out->read_bytes = units_to_bytes(le128_get(raw->units_read));
	out->written_bytes = units_to_bytes(le128_get(raw->units_written));
	out->power_on_hours = le128_get(raw->power_hours);
	out->power_cycles = le128_get(raw->power_cycles);
	out->unsafe_shutdowns = le128_get(raw->unsafe_shutdowns);
	out->media_errors = le128_get(raw->media_errors);
	out->error_log_entries = le128_get(raw->error_entries);
}
