/*
 * nvme_soft.h - a controller in this process that answers at once: what is left of an operation's
 * time is the driver's. Its medium is memory. For the profile of the hot path only;
 * tests/lib/nvme_model.h is the one that tests use.
 */
#ifndef AGATE_BENCH_NVME_SOFT_H
#define AGATE_BENCH_NVME_SOFT_H

#include "kernel-bypass/nvme_dev.h"

/* On the reactor that calls, which polls it; one reactor only. bytes: of its one namespace. NULL:
 * no memory. */
struct nvme_dev *nvme_soft_open(uint64_t bytes);

#endif
