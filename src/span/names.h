// The tokens of one session and the names of its pages, for the prefix caches of spans.
#ifndef BRAID_SPAN_NAMES_H
#define BRAID_SPAN_NAMES_H

#include "session/message.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct names {
    braid_hash first;  // the key before the first page
    uint32_t *tokens;  // [count]
    uint32_t count, capacity;
    braid_hash *chain;  // [pages], the keys of whole pages
    uint32_t pages, page_capacity;
} names;

// `adapter` NULL: none.
void names_open(names *n, const braid_hash *model, const braid_hash *adapter);
void names_close(names *n);
// Tokens from `first` <= count on; later ones are forgotten. False: no memory, and no name is known.
bool names_put(names *n, const uint32_t *tokens, uint32_t first, uint32_t count);
// Names of the whole pages among the first `tokens` tokens, from page `from` on; at most `most`.
uint32_t names_keys(names *n, uint32_t tokens, uint32_t from, session_key *keys, uint32_t most);

#endif
