/*
 * kb_gpt_format.h - the partition table as it lies on a drive (UEFI specification 2.10, chapter 5),
 * with the offset beside each field. One partition, of our own type.
 */
#ifndef AGATE_KERNEL_BYPASS_KB_GPT_FORMAT_H
#define AGATE_KERNEL_BYPASS_KB_GPT_FORMAT_H

#include "base/base.h"

/* Type of the partition: 6f0e7d52-1c64-4b8f-a6d1-0a9a7e5b21c3, first three fields little-endian. */
#define GPT_TYPE_AGATE                                                                             \
	{                                                                                          \
		0x52, 0x7d, 0x0e, 0x6f, 0x64, 0x1c, 0x8f, 0x4b, 0xa6, 0xd1, 0x0a, 0x9a, 0x7e,      \
		    0x5b, 0x21, 0xc3                                                               \
	}

#define GPT_SIGNATURE "EFI PART"
#define GPT_REVISION 0x00010000u
#define GPT_HEADER_BYTES 92u
#define GPT_ENTRIES 128u
#define GPT_ENTRY_BYTES 128u
#define GPT_ENTRIES_BYTES (GPT_ENTRIES * GPT_ENTRY_BYTES)

struct gpt_header {
	uint8_t signature[8];       /* 0x00 */
	struct le32 revision;       /* 0x08 */
	struct le32 header_bytes;   /* 0x0c */
	struct le32 header_crc;     /* 0x10, of the header with this field 0 */
	struct le32 reserved;       /* 0x14 */
	struct le64 my_lba;         /* 0x18 */
	struct le64 other_lba;      /* 0x20 */
	struct le64 first_usable;   /* 0x28 */
	struct le64 last_usable;    /* 0x30 */
	uint8_t disk_guid[16];      /* 0x38 */
	struct le64 entries_lba;    /* 0x48 */
	struct le32 entry_count;    /* 0x50 */
	struct le32 entry_bytes;    /* 0x54 */
	struct le32 entries_crc;    /* 0x58 */
};
STATIC_ASSERT(sizeof(struct gpt_header) == GPT_HEADER_BYTES);
STATIC_ASSERT(offsetof(struct gpt_header, my_lba) == 0x18);
STATIC_ASSERT(offsetof(struct gpt_header, disk_guid) == 0x38);
STATIC_ASSERT(offsetof(struct gpt_header, entries_crc) == 0x58);

struct gpt_entry {
	uint8_t type[16];         /* 0x00; all zero: unused */
	uint8_t guid[16];         /* 0x10 */
	struct le64 first_lba;    /* 0x20 */
	struct le64 last_lba;     /* 0x28, inclusive */
	struct le64 attributes;   /* 0x30 */
	struct le16 name[36];     /* 0x38, UTF-16 */
};
STATIC_ASSERT(sizeof(struct gpt_entry) == GPT_ENTRY_BYTES);
STATIC_ASSERT(offsetof(struct gpt_entry, first_lba) == 0x20);
STATIC_ASSERT(offsetof(struct gpt_entry, name) == 0x38);

/* The protective master boot record in block 0: one partition that spans the drive. */
#define MBR_TYPE_GPT 0xeeu
struct mbr {
	uint8_t code[446];         /* 0x000 */
	struct {
		uint8_t status;    /* 0x00 */
		uint8_t first[3];  /* 0x01, cylinder, head, sector */
		uint8_t type;      /* 0x04 */
		uint8_t last[3];   /* 0x05 */
		struct le32 first_lba; /* 0x08 */
		struct le32 lba_count; /* 0x0c */
	} parts[4];                /* 0x1be */
	uint8_t signature[2];      /* 0x1fe */
};
STATIC_ASSERT(sizeof(struct mbr) == 512);
STATIC_ASSERT(offsetof(struct mbr, parts) == 0x1be);

#endif
