/*
 * nvme_quirk.c - controllers that need something the specification doesn't say, by their PCI
 * identity. device 0 stands for all of a vendor.
 */
#include "kernel-bypass/nvme.h"

struct quirk_row {
	uint16_t vendor, device;
	uint32_t quirks;
	const char *what; /* for the reader of this table */
};

static const struct quirk_row rows[] = {
    {0x8086, 0x0953, NVME_QUIRK_STRIPE_128K, "Intel P3500, P3600, P3700"},
    {0x8086, 0x0a53, NVME_QUIRK_STRIPE_128K, "Intel P3520"},
    {0x8086, 0x0a54, NVME_QUIRK_STRIPE_128K, "Intel P4500, P4600"},
    {0x8086, 0x0a55, NVME_QUIRK_STRIPE_128K, "Dell's P4600"},
    {0x1c58, 0x0003, NVME_QUIRK_DELAY_READY, "HGST SN100"},
    {0x1c58, 0x0023, NVME_QUIRK_DELAY_READY, "WDC SN200"},
    {0x1c5f, 0x0540, NVME_QUIRK_DELAY_READY, "Memblaze PBlaze4"},
    {0x144d, 0xa821, NVME_QUIRK_DELAY_READY, "Samsung PM1725"},
    {0x144d, 0xa822, NVME_QUIRK_DELAY_READY, "Samsung PM1725a"},
    {0x1b36, 0x0010, NVME_QUIRK_BOGUS_WWN | NVME_QUIRK_NO_FUA, "QEMU's emulated controller"},
};

uint32_t
nvme_quirks(uint16_t vendor, uint16_t device)
{
	uint32_t quirks = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].vendor == vendor && (rows[i].device == device || rows[i].device == 0)) {
			quirks |= rows[i].quirks;
		}
	}
	return quirks;
}
