// SHA-256 with the SHA extensions of x86 (Intel SDM: SHA256RNDS2, SHA256MSG1, SHA256MSG2), about
// six times as fast as the portable code. Other processors get only sha256_has_x86(), which is
// false.
#include "base/sha256_blocks.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

bool sha256_has_x86(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
    if (!(c & bit_SSSE3) || !(c & bit_SSE4_1)) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

typedef struct lanes {
    __m128i abef, cdgh;  // the word order of the SHA instructions
} lanes;

// Four rounds with the message words w (lowest lane first) and the round constants from index `at`
// on.
SHA_TARGET static inline void four_rounds(lanes *s, __m128i w, int at) {
    __m128i sum = _mm_add_epi32(w, _mm_loadu_si128((const __m128i *)(const void *)&sha256_constants[at]));
    s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, sum);
    s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

// The next four message words after w0..w3.
SHA_TARGET static inline __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3) {
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
    return _mm_sha256msg2_epu32(sum, w3);
}

SHA_TARGET static inline __m128i load_words(const uint8_t *p) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), swap);
}

SHA_TARGET static inline void one_block(lanes *s, const uint8_t *block) {
    lanes before = *s;
    __m128i w0 = load_words(block), w1 = load_words(block + 16);
    __m128i w2 = load_words(block + 32), w3 = load_words(block + 48);
    for (int at = 0;; at += 16) {
        four_rounds(s, w0, at);
        four_rounds(s, w1, at + 4);
        four_rounds(s, w2, at + 8);
        four_rounds(s, w3, at + 12);
        if (at == 48) break;
        w0 = next_words(w0, w1, w2, w3);
        w1 = next_words(w1, w2, w3, w0);
        w2 = next_words(w2, w3, w0, w1);
        w3 = next_words(w3, w0, w1, w2);
    }
    s->abef = _mm_add_epi32(s->abef, before.abef);
    s->cdgh = _mm_add_epi32(s->cdgh, before.cdgh);
}

// One block of each of two messages. A round waits for the one before it, so the rounds of the other
// message fit in between.
SHA_TARGET static inline void two_blocks(lanes *s, lanes *t, const uint8_t *of_s, const uint8_t *of_t) {
    const lanes s_before = *s, t_before = *t;
    __m128i v[4], w[4];
    for (int i = 0; i < 4; i++) v[i] = load_words(of_s + 16 * i), w[i] = load_words(of_t + 16 * i);
#pragma GCC unroll 16
    for (int at = 0; at < 16; at++) {
        four_rounds(s, v[at % 4], 4 * at);
        four_rounds(t, w[at % 4], 4 * at);
        if (at >= 12) continue;
        v[at % 4] = next_words(v[at % 4], v[(at + 1) % 4], v[(at + 2) % 4], v[(at + 3) % 4]);
        w[at % 4] = next_words(w[at % 4], w[(at + 1) % 4], w[(at + 2) % 4], w[(at + 3) % 4]);
    }
    s->abef = _mm_add_epi32(s->abef, s_before.abef);
    s->cdgh = _mm_add_epi32(s->cdgh, s_before.cdgh);
    t->abef = _mm_add_epi32(t->abef, t_before.abef);
    t->cdgh = _mm_add_epi32(t->cdgh, t_before.cdgh);
}

SHA_TARGET static inline lanes lanes_of(const uint32_t state[8]) {
    const __m128i *words = (const __m128i *)(const void *)state;
    __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
    return (lanes){_mm_alignr_epi8(badc, hgfe, 8), _mm_blend_epi16(hgfe, badc, 0xf0)};
}

SHA_TARGET static inline void state_of(lanes s, uint32_t state[8]) {
    __m128i *words = (__m128i *)(void *)state;
    __m128i feba = _mm_shuffle_epi32(s.abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(s.cdgh, 0xb1);
    _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

SHA_TARGET void sha256_blocks_x86(uint32_t state[8], const uint8_t *data, size_t blocks) {
    lanes s = lanes_of(state);
    for (; blocks > 0; blocks--, data += 64) one_block(&s, data);
    state_of(s, state);
}

SHA_TARGET void sha256_pairs_x86(uint32_t state[2][8], const uint8_t *const data[2], size_t blocks) {
    lanes s = lanes_of(state[0]), t = lanes_of(state[1]);
    for (size_t i = 0; i < blocks; i++) two_blocks(&s, &t, data[0] + 64 * i, data[1] + 64 * i);
    state_of(s, state[0]);
    state_of(t, state[1]);
}

#else

#include "base/err.h"

bool sha256_has_x86(void) { return false; }

void sha256_blocks_x86(uint32_t state[8], const uint8_t *data, size_t blocks) {
    (void)state, (void)data, (void)blocks;
    BRAID_ASSERT(sha256_has_x86());
}

void sha256_pairs_x86(uint32_t state[2][8], const uint8_t *const data[2], size_t blocks) {
    (void)state, (void)data, (void)blocks;
    BRAID_ASSERT(sha256_has_x86());
}

#endif
