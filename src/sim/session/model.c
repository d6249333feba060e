#include "sim/session/inside.h"

enum { VOCABULARY = 1000 };

uint64_t model_embed(uint64_t token) { return rng_mix(token + 0x5eed); }
uint64_t model_token(uint64_t row) { return rng_mix(row) % VOCABULARY; }

uint64_t model_row(uint64_t chain[WORLD_LAYERS][WORLD_TOKENS], uint16_t begin, uint16_t end, uint32_t position,
                   uint64_t x) {
    for (uint16_t l = begin; l < end; l++) {
        uint64_t before = position > 0 ? chain[l][position - 1] : 0x1a7e5;
        chain[l][position] = rng_seed(rng_seed(before, l), x);
        x = rng_mix(chain[l][position] + l);
    }
    return x;
}
