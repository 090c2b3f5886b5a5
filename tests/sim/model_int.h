/* model_int.h - shared by model.c and model_op.c. */
#ifndef AGATE_TESTS_MODEL_INT_H
#define AGATE_TESTS_MODEL_INT_H

#include "tests/sim/model.h"

/* A name of n is gone; with the last one n itself. */
void model_unlinked(struct model *m, struct m_node *n);

#endif
