/*
 * mem.h - the one door to the heap. Product code allocates only here, so that tests can fail the
 * n-th call, so that a simulated power cut can drop everything a life had allocated at once, and so
 * that a clean stop can prove that nothing leaked. I/O buffers come from arena.h instead.
 */
#ifndef AGATE_BASE_MEM_H
#define AGATE_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/compiler.h"

/* Zeroed memory, or NULL when there is none (or when a test said so). Free with mem_free. */
void *mem_zalloc(size_t len) WARN_UNUSED;
void *mem_zalloc_array(size_t count, size_t item_len) WARN_UNUSED;
/* Grows or shrinks; what is new is not zeroed. NULL leaves old as it was. */
void *mem_realloc(void *old, size_t len) WARN_UNUSED;
char *mem_strdup(const char *s) WARN_UNUSED;
void mem_free(void *p); /* NULL is fine */

/* Test: fail the n-th allocation from now on (1 = next), 0 = never. persistent: and all after it. */
void mem_fail_at(uint64_t n, bool persistent);
/* Allocations alive now, for leak checks. */
uint64_t mem_live_count(void);
/* The same as mem_zalloc, but never part of a life: what a power cut does not erase (the media of
 * simulated drives, the notes of a test). Only kernel-bypass/'s simulated drives and tests use it. */
void *mem_zalloc_lasting(size_t len) WARN_UNUSED;
/* Simulation: from here until mem_life_drop every allocation belongs to one life.
 * rt_run does this by itself with sim; on a clean end what is left stays allocated and is the caller's. */
void mem_life_begin(void);
/* Frees all that the life still holds and ends it. Returns how many allocations that were. */
uint64_t mem_life_drop(void);

#endif
