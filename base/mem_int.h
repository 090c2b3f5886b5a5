/* mem_int.h - private to base/. */
#ifndef AGATE_BASE_MEM_INT_H
#define AGATE_BASE_MEM_INT_H

#include <stdint.h>

/* Ends a life that ended cleanly: what it still holds stays allocated and no longer belongs to any
 * life (results handed to the caller of rt_run). Returns how many allocations that are. */
uint64_t mem_life_end(void);

#endif
