// A small seeded random number generator (splitmix64) with the same stream on every machine. Not
// for keys.
#ifndef BRAID_BASE_RNG_H
#define BRAID_BASE_RNG_H

#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

// Mixes 64 bits so that every input bit affects every output bit (the finaliser of splitmix64).
static inline uint64_t rng_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t rng_next(rng *r) { return rng_mix(r->state += 0x9e3779b97f4a7c15u); }

// Combines a seed with a further value: rng_seed(rng_seed(seed, iteration), index).
static inline uint64_t rng_seed(uint64_t seed, uint64_t value) {
    return rng_mix(seed ^ rng_mix(value + 0x9e3779b97f4a7c15u));
}

// Uniform in [0, bound), bound > 0; the modulo bias is negligible for bound < 2^32.
static inline uint64_t rng_below(rng *r, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)rng_next(r) * bound) >> 64);
}

// Uniform in [0, 1) with 53 random bits.
static inline double rng_unit(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

#endif
