// A text that a model continues: its tokens and their cache, the sampler, stop ids and stop
// strings, and the text in pieces of whole characters.
#ifndef BRAID_INFER_GENERATION_H
#define BRAID_INFER_GENERATION_H

#include "infer/adapters.h"
#include "infer/engine.h"
#include "infer/sampler.h"
#include "text/tokenizer.h"

typedef struct generation generation;

typedef struct generation_settings {
    sampler_settings sampler;
    uint64_t max_tokens;       // 0: until a stop or the end of the context
    const char *const *stops;  // [stop_count], copied; the text ends before one (infer/stop.h)
    uint32_t stop_count;
    bool ignore_stop_ids;  // the ids of tokenizer_stops do not end the text
    bool show_special;     // special tokens are part of the text
    // When the context is full, the older half of the tokens is dropped and the rest is read again
    // at new positions; otherwise the text ends there.
    bool shift;
    const engine_adapter *adapter;  // NULL: none
    uint32_t top_logprobs;          // with each token, the likeliest (infer/sampler.h)
} generation_settings;

typedef enum generation_end {
    GENERATION_GOES_ON,
    GENERATION_STOP_ID,
    GENERATION_STOP_STRING,
    GENERATION_MAX_TOKENS,
    GENERATION_CONTEXT,  // the context is full
} generation_end;

// The result of one token.
typedef struct generation_step {
    uint32_t token;
    const char *text;  // may be empty, because the token is a stop id, or its text is incomplete or held back
    size_t length;     // borrowed until the next call
    float logprob;     // of the token, before bias, penalties and temperature; with top_logprobs only
    uint32_t top_count;
    sampler_top top[SAMPLER_MAX_TOP];
    generation_end end;  // with the last step, `text` includes everything that was held back
} generation_step;

// `engine` has all layers and the ends. `t` NULL: tokens are bytes, for a model with at least 256
// of them. Both are borrowed. Free with generation_free.
braid_err generation_new(engine *e, const tokenizer *t, const generation_settings *settings, generation **out,
                         braid_error *error);
// Without an engine, for a caller that reads the tokens by itself: a model of `vocab` tokens and
// texts of up to `context`. generation_prompt, generation_draw and generation_tokens work; with
// `shift` a prompt is cut, but a text ends at the context.
braid_err generation_new_apart(uint32_t vocab, uint32_t context, const tokenizer *t,
                               const generation_settings *settings, generation **out, braid_error *error);
void generation_free(generation *g);

// Sets all tokens before the text that is to come. Of the tokens that were read before, the common
// beginning is not read again, so a conversation passes its whole history. Begins a new text:
// penalties, max_tokens, stop strings and the seed start anew. Refuses no token, and more than the
// context (BRAID_LIMIT) unless `shift`. Tokens are copied and below the vocabulary.
braid_err generation_prompt(generation *g, const uint32_t *tokens, size_t count, braid_error *error);
// Reads what is unread and draws the next token. Not after a step with an end.
braid_err generation_next(generation *g, generation_step *step, braid_error *error);

// The two halves of generation_next, for a caller that reads several texts in one call of
// engine_read: the unread tokens, and the draw from logits[vocab] after them, which it changes.
braid_err generation_unread(generation *g, engine_part *part, braid_error *error);
braid_err generation_draw(generation *g, float *logits, generation_step *step, braid_error *error);

// All tokens: the prompt, then the text with its stop id.
const uint32_t *generation_tokens(const generation *g, size_t *count);
// How many more tokens may be drawn.
uint32_t generation_left(const generation *g);
// Tokens of the last prompt that were in the cache already.
size_t generation_reused(const generation *g);

#endif
