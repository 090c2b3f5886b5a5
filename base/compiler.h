/* compiler.h - the few compiler annotations the code uses. */
#ifndef AGATE_BASE_COMPILER_H
#define AGATE_BASE_COMPILER_H

#define WARN_UNUSED __attribute__((warn_unused_result))
#define MAY_PARK /* documentation: the calling fiber may park; never call with a spin lock held */
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define STATIC_ASSERT(cond) _Static_assert(cond, #cond)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define DIV_UP(n, d) (((n) + (d)-1) / (d))
/* No masks: of a narrower type than n they would cut off its upper half. */
#define ALIGN_UP(n, align) (((n) + (align)-1) / (align) * (align))
#define ALIGN_DOWN(n, align) ((n) / (align) * (align))

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#define NSEC_PER_USEC ((uint64_t)1000)
#define NSEC_PER_MSEC ((uint64_t)1000000)
#define NSEC_PER_SEC ((uint64_t)1000000000)

/* The unit of allocation and of I/O, whatever the drive says (DESIGN section 3). */
#define SECTOR_BYTES 4096u
#define SECTOR_SHIFT 12

#endif
