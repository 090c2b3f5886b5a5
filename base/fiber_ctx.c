/*
 * fiber_ctx.c - a stack that can be switched to, and what the sanitizers must be told about it.
 *
 * AddressSanitizer wants to know the bounds of the stack it is about to be on; those of a reactor's
 * own stack are learnt when the first fiber arrives from it. ThreadSanitizer follows each stack as
 * a "fiber". Contexts are kept for the life of the runtime: a fiber that ended waits inside its own
 * entry function for its next birth, so that nothing has to be prepared or poisoned anew.
 */
#include <string.h>
#include "base/check.h"
#include "base/rt_int.h"

#ifdef RT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef RT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
/* r15 r14 r13 r12 rbx rbp, return address */
#define SWITCH_WORDS 7u
#define SWITCH_WORD_ARG 2u
#define SWITCH_WORD_FN 3u
#define SWITCH_WORD_PC 6u
#elif defined(__aarch64__)
/* x19 .. x30, d8 .. d15 */
#define SWITCH_WORDS 20u
#define SWITCH_WORD_FN 0u
#define SWITCH_WORD_ARG 1u
#define SWITCH_WORD_PC 11u
#endif

/* stack: its lowest byte. colour: bytes to leave unused at the top, so that the hot frames of
 * different fibers don't all fall in the same cache sets. */
void
fiber_ctx_init(struct fiber_ctx *c, uint8_t *stack, size_t colour, void (*entry)(void *), void *arg)
{
	STATIC_ASSERT(FIBER_STACK_BYTES % 64 == 0);
	ASSERT(colour % 64 == 0 && colour < FIBER_STACK_BYTES / 8);
	/* top is a multiple of 16, which is what the entry's call needs; a pair of zero words above
	 * it ends a walk along frame pointers. */
	uint64_t *top = (uint64_t *)(void *)(stack + FIBER_STACK_BYTES - colour) - 2;
	uint64_t *sp = top - SWITCH_WORDS;
	memset(sp, 0, SWITCH_WORDS * sizeof(*sp));
	sp[SWITCH_WORD_FN] = (uint64_t)(uintptr_t)entry;
	sp[SWITCH_WORD_ARG] = (uint64_t)(uintptr_t)arg;
	sp[SWITCH_WORD_PC] = (uint64_t)(uintptr_t)fiber_switch_entry;
	c->sp = sp;
	c->stack_bottom = stack;
	c->stack_bytes = FIBER_STACK_BYTES;
#ifdef RT_TSAN
	c->tsan_fiber = __tsan_create_fiber(0);
#endif
}

void
fiber_ctx_destroy(struct fiber_ctx *c)
{
#ifdef RT_ASAN
	/* Frames abandoned on it left their red zones behind; the addresses will be mapped again.
	 */
	ASAN_UNPOISON_MEMORY_REGION(c->stack_bottom, c->stack_bytes);
#endif
#ifdef RT_TSAN
	__tsan_destroy_fiber(c->tsan_fiber);
#endif
	memset(c, 0, sizeof(*c));
}

void
fiber_ctx_init_loop(struct fiber_ctx *c)
{
	memset(c, 0, sizeof(*c));
#ifdef RT_TSAN
	c->tsan_fiber = __tsan_get_current_fiber();
#endif
}

void
fiber_ctx_switch(struct fiber_ctx *from, struct fiber_ctx *to)
{
#ifdef RT_ASAN
	__sanitizer_start_switch_fiber(&from->asan_fake_stack, to->stack_bottom, to->stack_bytes);
#endif
#ifdef RT_TSAN
	__tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
	fiber_switch(&from->sp, to->sp);
	fiber_ctx_arrived(from, to);
}

void
fiber_ctx_arrived(struct fiber_ctx *self, struct fiber_ctx *from)
{
#ifdef RT_ASAN
	__sanitizer_finish_switch_fiber(
	    self->asan_fake_stack, &from->stack_bottom, &from->stack_bytes);
#else
	(void)self;
	(void)from;
#endif
}
