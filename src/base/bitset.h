// Sets of small numbers in 64-bit words.
#ifndef BRAID_BASE_BITSET_H
#define BRAID_BASE_BITSET_H

#include <stdbool.h>
#include <stdint.h>

#define BITSET_WORDS(count) (((count) + 63) / 64)

static inline bool bitset_has(const uint64_t *set, uint32_t i) { return (set[i / 64] >> (i % 64)) & 1; }
static inline void bitset_add(uint64_t *set, uint32_t i) { set[i / 64] |= (uint64_t)1 << (i % 64); }
static inline void bitset_remove(uint64_t *set, uint32_t i) { set[i / 64] &= ~((uint64_t)1 << (i % 64)); }

// The smallest element that is at least `from`; `end` when no element below `end` is left.
static inline uint32_t bitset_next(const uint64_t *set, uint32_t from, uint32_t end) {
    while (from < end) {
        uint64_t word = set[from / 64] >> (from % 64);
        if (word != 0) {
            from += (uint32_t)__builtin_ctzll(word);
            return from < end ? from : end;
        }
        from = (from / 64 + 1) * 64;
    }
    return end;
}

static inline uint32_t bitset_count(const uint64_t *set, uint32_t words) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < words; i++) n += (uint32_t)__builtin_popcountll(set[i]);
    return n;
}

#endif
