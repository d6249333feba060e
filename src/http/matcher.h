// Matches a text against a grammar, byte by byte. All derivations are followed at once: a state is
// a set of stacks, and states become a deterministic automaton as the text meets them. So a byte
// costs one look-up once its state is known.
#ifndef BRAID_HTTP_MATCHER_H
#define BRAID_HTTP_MATCHER_H

#include "http/grammar.h"

enum {
    MATCHER_MAX_DEPTH = 512,    // of a stack: nesting of the text
    MATCHER_MAX_STACKS = 4096,  // of one state
    MATCHER_MAX_NODES = 1 << 20,
    MATCHER_MAX_STATES = 1 << 14,
    MATCHER_MAX_WORK = 1 << 22,  // elements of the grammar that are looked at, between two calls of matcher_rest
};
#define MATCHER_DEAD UINT32_MAX  // no text goes on from here

typedef struct matcher matcher;

// The grammar is borrowed. NULL: no memory. Free with matcher_free.
matcher *matcher_new(const grammar *g);
void matcher_free(matcher *m);
uint32_t matcher_start(matcher *m);
// The state after a byte, or MATCHER_DEAD: the byte cannot follow, or a maximum is reached.
uint32_t matcher_next(matcher *m, uint32_t state, unsigned char byte);
// Allows MATCHER_MAX_WORK anew. So a grammar that is made to be slow costs a bounded time for each token.
void matcher_rest(matcher *m);
bool matcher_complete(const matcher *m, uint32_t state);  // the text may end here
// Room for a pointer of the caller at each state; it frees them before matcher_free.
void **matcher_note(matcher *m, uint32_t state);
uint32_t matcher_states(const matcher *m);

#endif
