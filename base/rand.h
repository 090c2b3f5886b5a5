/* rand.h - private to base/: the simulation's generator (xoshiro256**, seeded through splitmix64).
 */
#ifndef AGATE_BASE_RAND_H
#define AGATE_BASE_RAND_H

#include <stdint.h>

struct rand_stream {
	uint64_t s[4];
};

/* One splitmix64 step as a mixing function: every input bit reaches every output bit. */
uint64_t rand_mix(uint64_t x);
/* Streams of one seed with different numbers are independent. */
void rand_seed(struct rand_stream *r, uint64_t seed, uint64_t stream);
uint64_t rand_next(struct rand_stream *r);

#endif
