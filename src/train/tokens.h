// Token ids in documents, as an interface: this room neither tokenises nor knows caches.
#ifndef BRAID_TRAIN_TOKENS_H
#define BRAID_TRAIN_TOKENS_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { TOKENS_MAX_NAME = 64 };

typedef struct train_tokens {
    char name[TOKENS_MAX_NAME];  // of the source, for messages
    double weight;               // share of the sequences, relative to the other sources'; above 0
    uint64_t tokens, documents;
    const uint64_t *ends;  // [documents] index behind each document's last token; rising, the last is `tokens`
    uint32_t limit;        // every id is below
    braid_hash hash;       // equal for equal tokens
    void *context;
    // Copies ids [at, at + count). False: they cannot be read; `why` has the message.
    bool (*read)(void *context, uint64_t at, uint32_t count, int32_t *out);
    void (*why)(void *context, braid_error *error);
    void (*free)(void *context);
} train_tokens;

#endif
