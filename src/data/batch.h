// Texts that are tokenised together by several threads. The ids do not depend on the number of
// threads.
#ifndef BRAID_DATA_BATCH_H
#define BRAID_DATA_BATCH_H

#include "tensor/pool.h"
#include "text/buffer.h"
#include "text/tokenizer.h"

// The bytes of texts that a batch collects before it is tokenised, for each thread.
enum { BATCH_BYTES = 2 << 20, BATCH_MAX_TEXTS = 1 << 16 };

typedef struct batch batch;

typedef struct batch_text {
    size_t offset, length;
    bool last;  // of its document
} batch_text;

// `t` is borrowed; NULL: every byte is an id.
braid_err batch_new(const tokenizer *t, unsigned threads, batch **out, braid_error *error);
void batch_free(batch *b);  // NULL is allowed
// Copies a text. BRAID_MEMORY.
braid_err batch_add(batch *b, const char *text, size_t length, bool last, braid_error *error);
bool batch_is_full(const batch *b);

// Tokenises all texts, calls `take` for each in order, and empties the batch.
typedef braid_err (*batch_take_fn)(void *context, const uint32_t *ids, size_t count, bool last, braid_error *error);
braid_err batch_run(batch *b, batch_take_fn take, void *context, braid_error *error);

#endif
