#include "base/sha256.h"

#include "base/sha256_blocks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCK_BYTES = 64, LENGTH_AT = 56 };

const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate_right(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

static inline uint32_t load_big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void store_big_endian(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (24 - 8 * i));
}

// FIPS 180-4, 6.2.2 step 1: the 16 words of the block, extended to 64.
static void schedule(const uint8_t *block, uint32_t w[64]) {
    for (int i = 0; i < 16; i++) w[i] = load_big_endian(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

void sha256_blocks_portable(uint32_t state[8], const uint8_t *data, size_t blocks) {
    uint32_t w[64];
    for (; blocks > 0; blocks--, data += BLOCK_BYTES) {
        schedule(data, w);
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
            uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + sha256_constants[i] + w[i];
            uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
            uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

// The processor is queried once. Two threads that query at the same time store the same answer.
static bool use_x86(void) {
    enum { UNKNOWN, PORTABLE, X86 };
    static atomic_int chosen = UNKNOWN;
    int way = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (way == UNKNOWN) {
        way = sha256_has_x86() ? X86 : PORTABLE;
        atomic_store_explicit(&chosen, way, memory_order_relaxed);
    }
    return way == X86;
}

static void compress(uint32_t state[8], const uint8_t *data, size_t blocks) {
    if (use_x86()) {
        sha256_blocks_x86(state, data, blocks);
    } else {
        sha256_blocks_portable(state, data, blocks);
    }
}

void sha256_init(sha256 *s) {
    // The first 32 bits of the fractional parts of the square roots of the first eight primes.
    static const uint32_t start[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    memcpy(s->state, start, sizeof start);
    s->bytes = 0;
}

void sha256_update(sha256 *s, const void *data, size_t bytes) {
    if (bytes == 0) return;  // data may be NULL when count is 0
    const uint8_t *p = data;
    size_t used = s->bytes % BLOCK_BYTES;
    s->bytes += bytes;
    if (used > 0) {
        size_t take = bytes < BLOCK_BYTES - used ? bytes : BLOCK_BYTES - used;
        memcpy(s->pending + used, p, take);
        if (used + take < BLOCK_BYTES) return;
        compress(s->state, s->pending, 1);
        p += take;
        bytes -= take;
    }
    compress(s->state, p, bytes / BLOCK_BYTES);
    memcpy(s->pending, p + (bytes - bytes % BLOCK_BYTES), bytes % BLOCK_BYTES);
}

braid_hash sha256_final(sha256 *s) {
    uint64_t bits = s->bytes * 8;
    size_t used = s->bytes % BLOCK_BYTES;
    s->pending[used++] = 0x80;
    if (used > LENGTH_AT) {  // no room for the length after the padding byte: one more block
        memset(s->pending + used, 0, BLOCK_BYTES - used);
        compress(s->state, s->pending, 1);
        used = 0;
    }
    memset(s->pending + used, 0, LENGTH_AT - used);
    store_big_endian(s->pending + LENGTH_AT, (uint32_t)(bits >> 32));
    store_big_endian(s->pending + LENGTH_AT + 4, (uint32_t)bits);
    compress(s->state, s->pending, 1);
    braid_hash hash;
    for (int i = 0; i < 8; i++) store_big_endian(hash.bytes + 4 * i, s->state[i]);
    return hash;
}

braid_hash sha256_of(const void *data, size_t bytes) {
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, data, bytes);
    return sha256_final(&s);
}

void sha256_update_pair(sha256 s[2], const void *const data[2], const size_t bytes[2]) {
    const uint8_t *at[2] = {data[0], data[1]};
    size_t both = bytes[0] < bytes[1] ? bytes[0] : bytes[1];
    size_t blocks = use_x86() && s[0].bytes % BLOCK_BYTES == 0 && s[1].bytes % BLOCK_BYTES == 0 ? both / BLOCK_BYTES
                                                                                                : 0;
    if (blocks > 0) {
        uint32_t state[2][8];
        for (int i = 0; i < 2; i++) memcpy(state[i], s[i].state, sizeof state[i]);
        sha256_pairs_x86(state, at, blocks);
        for (int i = 0; i < 2; i++) {
            memcpy(s[i].state, state[i], sizeof state[i]);
            s[i].bytes += blocks * BLOCK_BYTES;
            at[i] += blocks * BLOCK_BYTES;
        }
    }
    for (int i = 0; i < 2; i++) sha256_update(&s[i], at[i], bytes[i] - blocks * BLOCK_BYTES);
}

void sha256_of_pair(const void *const data[2], const size_t bytes[2], braid_hash out[2]) {
    sha256 s[2];
    for (int i = 0; i < 2; i++) sha256_init(&s[i]);
    sha256_update_pair(s, data, bytes);
    for (int i = 0; i < 2; i++) out[i] = sha256_final(&s[i]);
}

uint64_t sha256_short(const void *data, size_t bytes) {
    braid_hash hash = sha256_of(data, bytes);
    return (uint64_t)load_big_endian(hash.bytes) << 32 | load_big_endian(hash.bytes + 4);
}
