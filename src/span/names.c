#include "span/names.h"

#include "base/sha256.h"
#include "serve/prefix.h"

#include <stdlib.h>
#include <string.h>

void names_open(names *n, const braid_hash *model, const braid_hash *adapter) {
    const braid_hash both[2] = {*model, adapter ? *adapter : *model};
    *n = (names){.first = adapter ? sha256_of(both, sizeof both) : *model};
}

void names_close(names *n) {
    free(n->tokens);
    free(n->chain);
    *n = (names){.first = n->first};
}

bool names_put(names *n, const uint32_t *tokens, uint32_t first, uint32_t count) {
    uint32_t end = first + count;
    if (first > n->count) return false;
    if (end > n->capacity) {
        uint32_t *more = realloc(n->tokens, 2 * (size_t)end * sizeof *more);
        if (!more) {
            names_close(n);
            return false;
        }
        n->tokens = more;
        n->capacity = 2 * end;
    }
    memcpy(n->tokens + first, tokens, count * sizeof *tokens);
    n->count = end;
    if (n->pages > first / ENGINE_PAGE_TOKENS) n->pages = first / ENGINE_PAGE_TOKENS;
    return true;
}

static bool extend(names *n, uint32_t pages) {
    if (pages > n->page_capacity) {
        braid_hash *more = realloc(n->chain, 2 * (size_t)pages * sizeof *more);
        if (!more) return false;
        n->chain = more;
        n->page_capacity = 2 * pages;
    }
    for (; n->pages < pages; n->pages++) {
        const braid_hash *before = n->pages > 0 ? &n->chain[n->pages - 1] : &n->first;
        n->chain[n->pages] = prefix_key_next(before, n->tokens + n->pages * ENGINE_PAGE_TOKENS);
    }
    return true;
}

uint32_t names_keys(names *n, uint32_t tokens, uint32_t from, session_key *keys, uint32_t most) {
    uint32_t pages = (tokens < n->count ? tokens : n->count) / ENGINE_PAGE_TOKENS, count = 0;
    if (!extend(n, pages)) return 0;
    for (; from + count < pages && count < most; count++)
        memcpy(keys[count].bytes, n->chain[from + count].bytes, sizeof keys[count].bytes);
    return count;
}
