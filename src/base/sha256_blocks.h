// The compression function of SHA-256 over whole 64-byte blocks, once per instruction set. Only
// sha256.c and its test include this.
#ifndef BRAID_BASE_SHA256_BLOCKS_H
#define BRAID_BASE_SHA256_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The round constants: the first 32 bits of the fractional parts of the cube roots of the first 64
// primes.
extern const uint32_t sha256_constants[64];

void sha256_blocks_portable(uint32_t state[8], const uint8_t *data, size_t blocks);

// Uses the SHA extensions of x86; valid only if sha256_has_x86() is true.
void sha256_blocks_x86(uint32_t state[8], const uint8_t *data, size_t blocks);
// Two messages at once, `blocks` of each: about 1.7 times as fast as one after the other.
void sha256_pairs_x86(uint32_t state[2][8], const uint8_t *const data[2], size_t blocks);
// Queries the processor. The query is slow inside a virtual machine, so callers cache the answer.
bool sha256_has_x86(void);

#endif
