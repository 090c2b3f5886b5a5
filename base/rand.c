/*
 * rand.c - random numbers. In the simulation everything derives from the seed, in separate streams
 * (scheduler, code under test, BUGGIFY), so that drawing from one doesn't shift another. Otherwise
 * all bytes come from the kernel's generator, since keys and vectors are made of them; single words
 * are taken from a small buffer of the reactor.
 */
#include <sys/random.h>
#include <string.h>
#include "base/rand.h"
#include "base/check.h"
#include "base/rt.h"
#include "base/rt_int.h"

uint64_t
rand_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void
rand_seed(struct rand_stream *r, uint64_t seed, uint64_t stream)
{
	uint64_t x = rand_mix(seed) ^ rand_mix(~stream);
	for (int i = 0; i < 4; i++) {
		x = rand_mix(x);
		r->s[i] = x;
	}
	r->s[0] |= 1; /* the all-zero state would stay there */
}

static uint64_t
rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t
rand_next(struct rand_stream *r)
{
	uint64_t *s = r->s;
	uint64_t out = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return out;
}

static void
rand_from_system(void *out, size_t len)
{
	uint8_t *at = out;
	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);
		if (n < 0) {
			ASSERT(errno == EINTR);
			continue;
		}
		at += n;
		len -= (size_t)n;
	}
}

uint64_t
rt_random_u64(void)
{
	if (rt.sim) {
		return rand_next(&rt.rand_app);
	}
	uint64_t word;
	struct reactor *r = rt_cur;
	if (r == NULL) {
		rand_from_system(&word, sizeof(word));
		return word;
	}
	if (r->rand_left == 0) {
		rand_from_system(r->rand_words, sizeof(r->rand_words));
		r->rand_left = RT_RAND_WORDS;
	}
	r->rand_left--;
	word = r->rand_words[r->rand_left];
	r->rand_words[r->rand_left] = 0; /* what was given out is not kept */
	return word;
}

void
rt_random_bytes(void *out, size_t len)
{
	if (!rt.sim) {
		rand_from_system(out, len);
		return;
	}
	uint8_t *at = out;
	while (len > 0) {
		uint64_t word = rand_next(&rt.rand_app);
		size_t n = len < sizeof(word) ? len : sizeof(word);
		memcpy(at, &word, n);
		at += n;
		len -= n;
	}
}
