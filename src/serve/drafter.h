// Drafts by a small model with the same tokens: the likeliest next token, again and again.
//
// One thread calls: that of the scheduler.
#ifndef BRAID_SERVE_DRAFTER_H
#define BRAID_SERVE_DRAFTER_H

#include "infer/engine.h"
#include "serve/draft.h"

typedef struct drafter drafter;

// One text's state in the draft model. Begins as zeros.
typedef struct drafter_text {
    sequence *sequence;       // of the text's first tokens, then of guesses
    uint32_t known, guesses;  // tokens of the text at the last call, and guesses that were read after them
    uint32_t guess[DRAFT_MOST];
} drafter_text;

// `e` has all layers and the ends; borrowed until drafter_free. NULL: no memory.
drafter *drafter_new(engine *e);
void drafter_free(drafter *d);
// Guesses up to `most` <= DRAFT_MOST tokens, all below `vocab`, that follow the text, of which the
// tokens of earlier calls are the beginning. Returns how many: fewer at the end of the draft model's
// context, none without memory for keys and values.
uint32_t drafter_guess(drafter *d, drafter_text *t, const uint32_t *tokens, uint32_t count, uint32_t vocab,
                       uint32_t *draft, uint32_t most);
// Measured seconds of one guess; 0: none yet.
double drafter_seconds(const drafter *d);
void drafter_text_end(drafter_text *t);

#endif
