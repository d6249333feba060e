// Examples for tuning, from JSON lines: token ids, and which of them count in the loss.
//
// A row has one of three forms:
//     messages                a conversation, rendered by the chat template; the assistant's turns count
//     prompt, completion      two texts; the completion and the end token count
//     text                    all tokens but the first count
#ifndef BRAID_TUNE_EXAMPLES_H
#define BRAID_TUNE_EXAMPLES_H

#include "base/err.h"
#include "base/id.h"
#include "chat/template.h"
#include "text/tokenizer.h"

enum { EXAMPLES_MAX = 1 << 26, EXAMPLES_MAX_TURNS = 1 << 12 };

typedef struct tune_examples {
    uint32_t count;
    uint64_t *ends;       // [count] index behind each example's last token
    tokenizer_ids ids;    // of all examples
    uint8_t *learned;     // [ids.count] 1: the token counts in the loss
    uint64_t cut_tokens;  // dropped from the ends of examples
    uint32_t cut;         // examples that were shortened
    uint32_t dropped;     // examples of which no learned token was left
    size_t learned_room;
    uint32_t ends_room;
} tune_examples;

typedef struct examples_source {
    const char *path;
    const tokenizer *tokenizer;      // NULL: tokens are bytes
    tokenizer_encoder *encoder;      // of it
    const chat_template *template_;  // NULL: the model has none
    uint32_t longest;                // tokens of an example; more are cut
} examples_source;

// Adds the examples of a file, compressed or not. Errors name the file and the line. Free with
// examples_free, also after an error.
braid_err examples_read(tune_examples *e, const examples_source *source, braid_error *error);
void examples_free(tune_examples *e);
braid_hash examples_hash(const tune_examples *e);

static inline uint64_t examples_begin(const tune_examples *e, uint32_t i) { return i > 0 ? e->ends[i - 1] : 0; }

#endif
