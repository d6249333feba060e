// 32-byte names: a peer's id (SHA-256 of its Ed25519 public key) and content hashes (SHA-256).
#ifndef BRAID_BASE_ID_H
#define BRAID_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BRAID_ID_BYTES = 32 };

typedef struct braid_id {
    uint8_t bytes[BRAID_ID_BYTES];
} braid_id;

typedef struct braid_hash {
    uint8_t bytes[BRAID_ID_BYTES];
} braid_hash;

static inline bool id_equal(const braid_id *a, const braid_id *b) { return memcmp(a, b, sizeof *a) == 0; }
static inline bool hash_equal(const braid_hash *a, const braid_hash *b) { return memcmp(a, b, sizeof *a) == 0; }

// Lower-case hex; `text` holds 2 * count + 1 characters.
void id_hex(const uint8_t *bytes, size_t count, char *text);
// Reads exactly `count` bytes of hex; false when a character is not hex or the text is shorter.
bool id_unhex(const char *text, size_t count, uint8_t *bytes);

#endif
