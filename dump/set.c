/* set.c - a set of numbers that aren't 0: open addressing, a power of two of places, at most half
 * of them taken. */
#include "dump/dump.h"

static bool
put(uint64_t *v, size_t cap, uint64_t number)
{
	size_t i = (size_t)(number * 0x9e3779b97f4a7c15ull >> 20) & (cap - 1);

	while (v[i] != 0) {
		if (v[i] == number) {
			return false;
		}
		i = (i + 1) & (cap - 1);
	}
	v[i] = number;
	return true;
}

int
dump_set_add(struct dump_numbers *s, uint64_t number)
{
	if (s->count * 2 >= s->cap) {
		size_t cap = MAX(s->cap * 2, (size_t)64);
		uint64_t *v = mem_zalloc_array(cap, sizeof(*v));

		if (v == NULL) {
			return -ENOMEM;
		}
		for (size_t i = 0; i < s->cap; i++) {
			if (s->v[i] != 0) {
				(void)put(v, cap, s->v[i]);
			}
		}
		mem_free(s->v);
		s->v = v;
		s->cap = cap;
	}
	if (!put(s->v, s->cap, number)) {
		return 0;
	}
	s->count++;
	return 1;
}

void
dump_set_free(struct dump_numbers *s)
{
	mem_free(s->v);
	*s = (struct dump_numbers){NULL, 0, 0};
}
