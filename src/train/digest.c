#include "train/digest.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digests read little-endian words");

// Odd numbers with about as many ones as zeros and without structure (digits of pi).
static const uint64_t keys[] = {0x243f6a8885a308d3u, 0x13198a2e03707345u, 0xa4093822299f31d1u, 0x082efa98ec4e6c89u,
                                0x452821e638d01377u, 0xbe5466cf34e90c6du, 0xc0ac29b7c97c50ddu, 0x3f84d5b5b5470917u};

// Adds both halves of the 128-bit product: every input bit reaches the upper half, and the fold
// returns it to the lower.
static inline uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

uint64_t digest64(const void *data, size_t bytes) {
    const uint8_t *p = data;
    size_t left = bytes;
    // Four lanes, so that multiplications do not wait for each other.
    uint64_t lane[4] = {keys[0], keys[1], keys[2], keys[3]};
    for (; left >= 64; left -= 64, p += 64) {
        for (int i = 0; i < 4; i++) lane[i] = mix(load(p + 16 * i) ^ keys[4 + i], load(p + 16 * i + 8) ^ lane[i]);
    }
    uint64_t h = mix(lane[0] ^ keys[4], lane[1] ^ keys[5]) ^ mix(lane[2] ^ keys[6], lane[3] ^ keys[7]);
    for (; left >= 8; left -= 8, p += 8) h = mix(load(p) ^ keys[4], h ^ keys[1]);
    uint64_t tail = 0;
    if (left > 0) memcpy(&tail, p, left);
    h = mix(tail ^ keys[5], h ^ keys[2]);
    h = mix(h ^ keys[3], (uint64_t)bytes ^ keys[6]);
    return h ? h : 1;
}
