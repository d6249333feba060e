// The seed of a random test: printed, and repeatable with BRAID_TEST_SEED=NUMBER.
#ifndef BRAID_TEST_SEED_H
#define BRAID_TEST_SEED_H

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>

static inline rng seeded_rng(const char *test, uint64_t usual) {
    const char *given = getenv("BRAID_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : usual;
    printf("%s: BRAID_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    return (rng){seed};
}

static inline void random_bytes(rng *r, void *out, size_t count) {
    uint8_t *p = out;
    for (size_t i = 0; i < count; i++) p[i] = (uint8_t)rng_next(r);
}

#endif
