// Pseudo-random permutations of [0, count) that are computed element by element: a Feistel network
// on the next larger power of four, with cycle walking (Black and Rogaway, "Ciphers with Arbitrary
// Finite Domains", CT-RSA 2002).
#ifndef BRAID_TRAIN_PERMUTATION_H
#define BRAID_TRAIN_PERMUTATION_H

#include "base/rng.h"

enum { PERMUTATION_ROUNDS = 4 };

typedef struct permutation {
    uint64_t count, key;
    unsigned half;  // bits of each half
} permutation;

static inline permutation permutation_of(uint64_t count, uint64_t key) {
    permutation p = {.count = count, .key = key, .half = 1};
    while (p.half < 31 && (uint64_t)1 << (2 * p.half) < count) p.half++;
    return p;
}

static inline uint64_t permutation_step(const permutation *p, uint64_t x) {
    uint64_t mask = ((uint64_t)1 << p->half) - 1, left = x >> p->half, right = x & mask;
    for (uint64_t round = 0; round < PERMUTATION_ROUNDS; round++) {
        uint64_t next = left ^ (rng_seed(p->key + round, right) & mask);
        left = right;
        right = next;
    }
    return left << p->half | right;
}

// The element at position i < count. count is at most 2^62.
static inline uint64_t permutation_at(const permutation *p, uint64_t i) {
    uint64_t x = i;
    do x = permutation_step(p, x);
    while (x >= p->count);
    return x;
}

#endif
