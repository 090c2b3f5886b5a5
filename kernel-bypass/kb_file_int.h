/* kb_file_int.h - the mapping of an image file in memory; see kb_file_map.c. */
#ifndef AGATE_KERNEL_BYPASS_KB_FILE_INT_H
#define AGATE_KERNEL_BYPASS_KB_FILE_INT_H

#include "kernel-bypass/kb_int.h"

#define KB_FILE_GRANULE (64 * KIB)

struct kb_file_map {
	uint8_t *base;             /* [c] NULL: not mapped */
	uint64_t size_bytes;       /* [c] */
	uint64_t granules;         /* [c] */
	_Atomic uint64_t *present; /* [a] one bit a granule */
	atomic_bool torn;          /* pages that were there have gone; what was read is nothing */
};

/* Maps the file; on failure base is NULL, and that is all. Blocks a little. */
void kb_file_map_open(struct kb_file_map *m, int fd, uint64_t size_bytes);
void kb_file_map_close(struct kb_file_map *m);
/* True when the range may be read or written through base; a write gets the memory it needs. */
bool kb_file_map_ready(
    struct kb_file_map *m, enum kb_op op, uint64_t off_bytes, uint64_t len_bytes);
/* Gets memory for the range, unless that is too much of what the file system of fd has left. Blocks. */
void kb_file_map_reserve(struct kb_file_map *m, int fd, uint64_t off_bytes, uint64_t len_bytes);
/* The range, of whole granules, is about to become a hole. */
void kb_file_map_forget(struct kb_file_map *m, uint64_t off_bytes, uint64_t len_bytes);

#endif
