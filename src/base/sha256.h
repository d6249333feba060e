// SHA-256 (FIPS 180-4), for content hashes, state hashes and run identities.
#ifndef BRAID_BASE_SHA256_H
#define BRAID_BASE_SHA256_H

#include "base/id.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t pending[64];
} sha256;

void sha256_init(sha256 *s);
void sha256_update(sha256 *s, const void *data, size_t bytes);
braid_hash sha256_final(sha256 *s);
braid_hash sha256_of(const void *data, size_t bytes);
// Hashes two messages at once, which is faster than one after the other. Each hash is that of sha256_update with its data.
void sha256_update_pair(sha256 s[2], const void *const data[2], const size_t bytes[2]);
void sha256_of_pair(const void *const data[2], const size_t bytes[2], braid_hash out[2]);
// The first eight bytes of the hash: the short digest of a tensor on the wire.
uint64_t sha256_short(const void *data, size_t bytes);

#endif
