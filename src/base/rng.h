// Small seeded random numbers (splitmix64): the same stream everywhere. Not for keys.
#ifndef BRAID_BASE_RNG_H
#define BRAID_BASE_RNG_H

#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

// Mixes 64 bits so that every input bit moves every output bit (splitmix64's finaliser).
static inline uint64_t rng_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t rng_next(rng *r) { return rng_mix(r->state += 0x9e3779b97f4a7c15u); }

// Folds a further value into a seed: rng_seed(rng_seed(seed, iteration), index).
static inline uint64_t rng_seed(uint64_t seed, uint64_t value) {
    return rng_mix(seed ^ rng_mix(value + 0x9e3779b97f4a7c15u));
}

// Uniform in [0, bound), bound > 0, without modulo bias that matters (bound < 2^32).
static inline uint64_t rng_below(rng *r, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)rng_next(r) * bound) >> 64);
}

// Uniform in [0, 1) with 53 bits.
static inline double rng_unit(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

#endif
