/*
 * dump_text.h - what agate-dump finds, as text to compare with what fs/ says (rig_dump). It sees nothing of
 * pool/ and fs/, as agate-dump doesn't.
 */
#ifndef AGATE_TESTS_DUMP_TEXT_H
#define AGATE_TESTS_DUMP_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* A dataset, read from images: one line a file, sorted. NULL: it can't be opened. txg 0: the newest root. mem_free it. */
char *dump_text(char *const *paths, uint32_t count, const char *dataset, uint64_t txg);
/* The same without complaints on stderr; what can't be read is left out. */
char *dump_text_quietly(char *const *paths, uint32_t count, const char *dataset);
/* The text of rig_dump without what a walk doesn't know (cookies, lines of ".."), sorted. Frees text. */
char *dump_text_of_rig(char *text);
/* txg of the newest root; 0: none. */
uint64_t dump_text_newest(char *const *paths, uint32_t count);
/* Can everything below the root of txg be read? */
bool dump_text_is_whole(char *const *paths, uint32_t count, const char *dataset, uint64_t txg);
/* Every command over the images, output thrown away: nothing must crash. */
void dump_text_everything(char *const *paths, uint32_t count, const char *dataset);
void dump_text_extract(char *const *paths, uint32_t count, const char *dataset, const char *path, const char *dir);
/* Gang headers read so far. */
uint64_t dump_text_gangs(void);
/* space finds what the uberblock says. */
bool dump_text_space_agrees(char *const *paths, uint32_t count);

#endif
