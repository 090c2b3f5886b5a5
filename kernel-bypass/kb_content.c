/*
 * kb_content.c - whose data is on a drive? Judged by its first and last MiB: ours by our partition
 * table; nobody's when both are all zero; otherwise somebody's, named by the marks that file
 * systems and volume managers leave at known places. What bears no known mark is still not taken
 * for blank.
 */
#include <stdio.h>
#include "kernel-bypass/kb_int.h"

struct mark {
	const char *what;
	uint32_t at;
	uint32_t len;
	const char *bytes;
};

static const struct mark marks[] = {
    {"LUKS encrypted volume", 0, 6, "LUKS\xba\xbe"},
    {"LVM physical volume", 512, 8, "LABELONE"},
    {"Linux software RAID member", 4096, 4, "\xfc\x4e\x2b\xa9"},
    {"Linux software RAID member", 0, 4, "\xfc\x4e\x2b\xa9"},
    {"XFS file system", 0, 4, "XFSB"},
    {"ext2/3/4 file system", 1080, 2, "\x53\xef"},
    {"btrfs file system", 65600, 8, "_BHRfS_M"},
    {"bcachefs file system", 4120, 4, "\xc6\x85\x73\xf6"},
    {"F2FS file system", 1024, 4, "\x10\x20\xf5\xf2"},
    {"NTFS file system", 3, 8, "NTFS    "},
    {"exFAT file system", 3, 8, "EXFAT   "},
    {"FAT file system", 54, 3, "FAT"},
    {"FAT file system", 82, 5, "FAT32"},
    {"ISO 9660 image", 32769, 5, "CD001"},
    {"swap space", 4086, 10, "SWAPSPACE2"},
};

#define ZFS_UBERBLOCKS_AT 131072u
#define ZFS_UBERBLOCKS_BYTES 131072u
#define ZFS_UBERBLOCK_STEP 1024u

static bool
is_zero(const uint8_t *p, size_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

/* 0x00bab10c at the start of an uberblock, in either byte order. */
static bool
has_zfs_uberblock(const uint8_t *head)
{
	for (uint32_t i = 0; i < ZFS_UBERBLOCKS_BYTES; i += ZFS_UBERBLOCK_STEP) {
		const uint8_t *u = head + ZFS_UBERBLOCKS_AT + i;
		if (memcmp(u, "\x0c\xb1\xba\x00\x00\x00\x00\x00", 8) == 0 ||
		    memcmp(u, "\x00\x00\x00\x00\x00\xba\xb1\x0c", 8) == 0) {
			return true;
		}
	}
	return false;
}

static const char *
mark_of(const uint8_t *head)
{
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		if (memcmp(head + marks[i].at, marks[i].bytes, marks[i].len) == 0) {
			return marks[i].what;
		}
	}
	if (has_zfs_uberblock(head)) {
		return "ZFS pool member";
	}
	return NULL;
}

enum kb_content
kb_content_of(const struct kb_edges *e, char *out_what, size_t what_len)
{
	enum kb_gpt_look gpt = kb_gpt_look(e);
	const char *what = gpt == KB_GPT_FOREIGN ? "partition table of something else" : NULL;

	if (gpt == KB_GPT_OURS) {
		snprintf(out_what, what_len, "Agate");
		return KB_CONTENT_OURS;
	}
	if (is_zero(e->head, KB_EDGE_BYTES) && is_zero(e->tail, KB_EDGE_BYTES)) {
		snprintf(out_what, what_len, "%s", "");
		return KB_CONTENT_BLANK;
	}
	if (what == NULL) {
		what = mark_of(e->head);
	}
	if (what == NULL && e->head[510] == 0x55 && e->head[511] == 0xaa) {
		what = "partition table of something else";
	}
	snprintf(out_what, what_len, "%s", what != NULL ? what : "data of an unknown kind");
	return KB_CONTENT_FOREIGN;
}
