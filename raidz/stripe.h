/*
 * stripe.h - parity of a whole block whose columns differ in length. Private to raidz/. Pure.
 *
 * mem[c] is the memory of column c of the map (parity first), rows of it long.
 */
#ifndef AGATE_RAIDZ_STRIPE_H
#define AGATE_RAIDZ_STRIPE_H

#include "raidz/geometry.h"

/* Fills the parity columns from the data columns. */
void stripe_gen(const struct raidz_map *m, uint8_t *const mem[RAIDZ_WIDTH_MAX]);

/*
 * Fills the data columns in missing (bit c = column c of the map) from the other data columns and
 * as many parity columns, those in use. Parity columns not in use are not touched.
 */
void stripe_rebuild(
    const struct raidz_map *m, uint8_t *const mem[RAIDZ_WIDTH_MAX], uint32_t missing, uint32_t use);

#endif
