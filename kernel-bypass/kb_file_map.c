/*
 * kb_file_map.c - image files in memory, mapped: an I/O is then one memcpy, several times cheaper
 * than a system call that walks the file page by page.
 *
 * The danger of a mapping is SIGBUS, when the kernel finds no memory for a page at the moment of
 * the access. So nothing is touched that isn't there already: `present` has a bit for each granule
 * all of whose pages the file system has allocated. A write to another granule first asks for its
 * pages with madvise, which answers with an error instead of a signal; a read of another granule,
 * and a write that got no pages, take the way of the system call, which gives zeros for a hole and
 * says when there is no space.
 *
 * Bits are set after the pages are there, and cleared before a hole is punched. A hole is made of
 * whole granules only. I/O into a range while it is being discarded has no meaning, and its caller
 * none either.
 *
 * A file that is shortened all the same takes pages away that were there. The signal then puts
 * empty memory in the place of the whole mapping and marks it torn, which the I/O sees when it has
 * copied. The table of mappings is what a signal handler can get at, hence not in any struct.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "kernel-bypass/kb_file_int.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define BITS_PER_WORD 64u
#define MAPS_MAX 1024u
#define RESERVE_PART 8u /* sparse images share a file system: one asks for so much of the rest */

static struct kb_file_map *_Atomic maps[MAPS_MAX];

static void
map_signal(int sig, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr;

	(void)context;
	for (unsigned i = 0; i < MAPS_MAX; i++) {
		struct kb_file_map *m = atomic_load(&maps[i]);

		if (m == NULL || at < m->base || at >= m->base + m->size_bytes) {
			continue;
		}
		void *p = mmap(m->base, m->size_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (p == m->base) {
			atomic_store(&m->torn, true);
			return;
		}
	}
	signal(sig, SIG_DFL); /* not ours: it comes again, and ends the program */
}

/* False: no room; then the file isn't mapped. */
static bool
map_enter(struct kb_file_map *m)
{
	struct sigaction action = {.sa_sigaction = map_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, &action, NULL) != 0) {
		return false;
	}
	for (unsigned i = 0; i < MAPS_MAX; i++) {
		struct kb_file_map *none = NULL;

		if (atomic_compare_exchange_strong(&maps[i], &none, m)) {
			return true;
		}
	}
	return false;
}

static void
map_leave(struct kb_file_map *m)
{
	for (unsigned i = 0; i < MAPS_MAX; i++) {
		struct kb_file_map *mine = m;

		(void)atomic_compare_exchange_strong(&maps[i], &mine, NULL);
	}
}

static bool
bit_is_set(const struct kb_file_map *m, uint64_t granule)
{
	uint64_t word =
	    atomic_load_explicit(&m->present[granule / BITS_PER_WORD], memory_order_acquire);
	return (word >> (granule % BITS_PER_WORD) & 1u) != 0;
}

static void
bit_set(struct kb_file_map *m, uint64_t granule)
{
	atomic_fetch_or(
	    &m->present[granule / BITS_PER_WORD], (uint64_t)1 << (granule % BITS_PER_WORD));
}

/* What the file has allocated already: of a data extent the granules that lie wholly inside. */
static void
map_note_data(struct kb_file_map *m, int fd)
{
	off_t end = 0;

	for (;;) {
		off_t start = lseek(fd, end, SEEK_DATA);
		end = start < 0 ? -1 : lseek(fd, start, SEEK_HOLE);
		if (end < 0) {
			return;
		}
		uint64_t granule = DIV_UP((uint64_t)start, KB_FILE_GRANULE);
		uint64_t stop =
		    (uint64_t)end >= m->size_bytes ? m->granules : (uint64_t)end / KB_FILE_GRANULE;
		for (; granule < stop; granule++) {
			bit_set(m, granule);
		}
	}
}

/* In a program that locks its memory a mapping would be filled at once, holes too: hence the
 * detour. */
static void *
map_shared(int fd, uint64_t size_bytes)
{
	void *p = mmap(NULL, size_bytes, PROT_NONE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED) {
		return NULL;
	}
	(void)munlock(p, size_bytes);
	if (mprotect(p, size_bytes, PROT_READ | PROT_WRITE) != 0) {
		munmap(p, size_bytes);
		return NULL;
	}
	return p;
}

void
kb_file_map_open(struct kb_file_map *m, int fd, uint64_t size_bytes)
{
	m->size_bytes = size_bytes;
	m->granules = DIV_UP(size_bytes, KB_FILE_GRANULE);
	m->present = mem_zalloc_array(DIV_UP(m->granules, BITS_PER_WORD), sizeof(*m->present));
	if (m->present == NULL) {
		return;
	}
	m->base = map_shared(fd, size_bytes);
	if (m->base != NULL && !map_enter(m)) {
		munmap(m->base, size_bytes);
		m->base = NULL;
	}
	if (m->base != NULL) {
		map_note_data(m, fd);
	}
}

void
kb_file_map_close(struct kb_file_map *m)
{
	if (m->base != NULL) {
		map_leave(m);
		munmap(m->base, m->size_bytes);
	}
	mem_free(m->present);
}

static bool
granule_fetch(struct kb_file_map *m, uint64_t granule)
{
	uint64_t start = granule * KB_FILE_GRANULE;
	uint64_t len = MIN(KB_FILE_GRANULE, m->size_bytes - start);

	if (madvise(m->base + start, len, MADV_POPULATE_WRITE) != 0) {
		return false;
	}
	bit_set(m, granule);
	return true;
}

bool
kb_file_map_ready(struct kb_file_map *m, enum kb_op op, uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t last = (off_bytes + len_bytes - 1) / KB_FILE_GRANULE;

	if (m->base == NULL) {
		return false;
	}
	for (uint64_t g = off_bytes / KB_FILE_GRANULE; g <= last; g++) {
		if (!bit_is_set(m, g) && (op == KB_READ || !granule_fetch(m, g))) {
			return false;
		}
	}
	return true;
}

void
kb_file_map_reserve(struct kb_file_map *m, int fd, uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t last = (off_bytes + len_bytes - 1) / KB_FILE_GRANULE;
	struct statvfs fs;

	if (m->base == NULL || len_bytes == 0 || fstatvfs(fd, &fs) != 0 ||
	    len_bytes > fs.f_bavail * fs.f_frsize / RESERVE_PART) {
		return;
	}
	for (uint64_t g = off_bytes / KB_FILE_GRANULE; g <= last; g++) {
		if (!bit_is_set(m, g) && !granule_fetch(m, g)) {
			return;
		}
	}
}

void
kb_file_map_forget(struct kb_file_map *m, uint64_t off_bytes, uint64_t len_bytes)
{
	for (uint64_t at = off_bytes; at < off_bytes + len_bytes; at += KB_FILE_GRANULE) {
		uint64_t granule = at / KB_FILE_GRANULE;
		atomic_fetch_and(&m->present[granule / BITS_PER_WORD],
		    ~((uint64_t)1 << (granule % BITS_PER_WORD)));
	}
}
