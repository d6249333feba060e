// Inference on one machine. An engine has the weights of some layers of a model, in the form of
// their file; a sequence has the keys and values of one text's tokens. Several sequences, and any
// number of tokens of each, are read in one call.
//
// The bits of every output depend on the weights and on the tokens before it alone: not on the
// other sequences of a call, on the split of a text into calls, on the number of threads, or on the
// split of the layers between engines.
//
// An engine is used by one thread at a time. It computes on the threads of its pool.
#ifndef BRAID_INFER_ENGINE_H
#define BRAID_INFER_ENGINE_H

#include "base/err.h"
#include "model/config.h"
#include "tensor/pool.h"
#include "weights/model_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ENGINE_CHUNK_ROWS = 256,  // tokens that pass through the layers together
    ENGINE_PAGE_TOKENS = 64,  // keys and values have memory in pages of this many tokens
};

typedef struct engine engine;
typedef struct sequence sequence;

// The tensors of a model by Hugging Face's name, NULL where there is none. Tensors and their memory
// are borrowed until the engine is freed.
typedef struct engine_source {
    const model_config *config;
    const model_file_tensor *(*find)(const void *context, const char *name);
    const void *context;
    // NULL, or called for bytes of a tensor that the engine has a copy of, or of the embedding after
    // many of its rows were read, until the engine is freed. It may still read them later.
    void (*release)(const void *context, const void *at, size_t bytes);
} engine_source;

engine_source engine_source_file(const model_file *file);

typedef struct engine_settings {
    tensor_pool *pool;                // borrowed
    uint32_t layer_begin, layer_end;  // layers [begin, end); end 0: all layers from begin
    bool no_ends;                     // without embedding, final norm and head
    uint32_t context;                 // the longest sequence; 0: the model's
    bool exact;                       // quantised weights times fp32 activations; otherwise activations are rounded to
                                      // 8 bits, as the weights' format asks for
    bool half_cache;                  // keys and values as fp16: half the memory, other bits
    bool narrow;                      // F32, F16 and BF16 matrices become Q8_0 in memory of the engine
} engine_settings;

// Refuses a model that lacks a tensor, or has one of another shape (BRAID_FORMAT), with its name.
// Free with engine_free, after all sequences.
braid_err engine_new(const engine_source *source, const engine_settings *settings, engine **out, braid_error *error);
void engine_free(engine *e);
const model_config *engine_config(const engine *e);
uint32_t engine_context(const engine *e);
tensor_pool *engine_pool(const engine *e);
// Keys and values of one token in this engine's layers.
size_t engine_token_bytes(const engine *e);
// Memory of the engine besides the borrowed weights; and of its sequences and pages.
size_t engine_scratch_bytes(const engine *e);
size_t engine_copied_bytes(const engine *e);  // the part of it with the engine's copies of weights
size_t engine_cache_bytes(const engine *e);
// Allocates all other memory of calls with up to `rows` tokens, in texts of up to `tokens`, so that
// engine_scratch_bytes grows no more.
braid_err engine_reserve(engine *e, uint32_t rows, uint32_t tokens, braid_error *error);

// An empty sequence. Its memory grows as tokens are read.
braid_err sequence_new(engine *e, sequence **out, braid_error *error);
// The same for rows that pass through layers [begin, end) alone, which are among the engine's. All
// parts of one call have the same layers.
braid_err sequence_new_of(engine *e, uint32_t begin, uint32_t end, sequence **out, braid_error *error);
// A sequence that begins with the first `tokens` tokens of another one. They share the memory of
// keys and values until one of them changes it.
braid_err sequence_fork(const sequence *from, uint32_t tokens, sequence **out, braid_error *error);
void sequence_free(sequence *s);
uint32_t sequence_length(const sequence *s);  // tokens read
// Forgets all tokens from `length` on; length <= sequence_length.
void sequence_truncate(sequence *s, uint32_t length);

// Keys and values of ENGINE_PAGE_TOKENS tokens in all layers of an engine. Their bits depend on
// these tokens and on those before. A page is freed with its last reference.
typedef struct cache_page cache_page;

size_t engine_page_bytes(const engine *e);
// All pages together at most, from now on; 0: no limit. BRAID_LIMIT: less than one page, or than is
// in use.
braid_err engine_limit_cache(engine *e, size_t bytes, braid_error *error);
size_t engine_cache_limit(const engine *e);  // in whole pages; 0: none
// That may still be used; SIZE_MAX: no limit.
size_t engine_free_pages(const engine *e);
// New pages that the next `tokens` tokens of a sequence need.
uint32_t sequence_pages_needed(const sequence *s, uint32_t tokens);
// The page with tokens index * ENGINE_PAGE_TOKENS and on, all of which were read; borrowed.
cache_page *sequence_page(const sequence *s, uint32_t index);
// Continues a sequence of whole pages with one that was read after the same tokens.
braid_err sequence_add_page(sequence *s, cache_page *p, braid_error *error);
void cache_page_hold(engine *e, cache_page *p);
void cache_page_release(engine *e, cache_page *p);
// The same for the one reference of a page for later texts.
void cache_page_keep(engine *e, cache_page *p);
void cache_page_drop(engine *e, cache_page *p);
// Whether dropping the page frees its memory; and the number of these pages.
bool cache_page_only_kept(const engine *e, cache_page *p);
size_t engine_only_kept_pages(const engine *e);

// Keys and values of one token in one layer.
size_t sequence_layer_bytes(const engine *e);
// Copies keys and values of positions [first, first + count) in layers [begin, end), which the
// sequence has, to bytes[end - begin, 2, count, kv_heads, head_dim].
void sequence_export(const sequence *s, uint32_t begin, uint32_t end, uint32_t first, uint32_t count, void *bytes);
// Appends those of `count` positions in all layers of the sequence, exported by an engine with the
// same `half_cache`.
braid_err sequence_import(sequence *s, uint32_t count, const void *bytes, braid_error *error);

// The next tokens of one sequence. A sequence occurs once in a call.
typedef struct engine_part {
    sequence *sequence;
    uint32_t count;
    const uint32_t *tokens;  // [count]; NULL for engine_layers
} engine_part;

// Reads all parts, on an engine with all layers and the ends. logits[parts, vocab] follow the last
// token of each part; NULL: none. BRAID_LIMIT: a text is longer than the context; BRAID_ARGUMENT: a
// token is not in the vocabulary; then nothing was read. BRAID_MEMORY: some sequences may have been
// read further.
braid_err engine_read(engine *e, const engine_part *parts, uint32_t count, float *logits, braid_error *error);
// The same with logits[tokens of all parts, vocab].
braid_err engine_read_all(engine *e, const engine_part *parts, uint32_t count, float *logits, braid_error *error);

// The three steps of engine_read, for engines of some layers. x[rows, dim] is in memory of the
// caller; rows are the tokens of all parts, in order.
//
// The embedding of each token at its sequence's next positions. Sequences do not change.
braid_err engine_embed(engine *e, const engine_part *parts, uint32_t count, float *x, braid_error *error);
// The same for tokens at positions first .. first + count - 1 < context, without a sequence.
braid_err engine_embed_at(engine *e, uint32_t first, const uint32_t *tokens, uint32_t count, float *x,
                          braid_error *error);
// x through this engine's layers, in place; the parts' sequences become longer.
braid_err engine_layers(engine *e, const engine_part *parts, uint32_t count, float *x, braid_error *error);
// logits[rows, vocab] = the head of the final norm of x[rows, dim].
braid_err engine_logits(engine *e, const float *x, size_t rows, float *logits, braid_error *error);
// x[rows, dim] is replaced by its final norm.
braid_err engine_final_norm(engine *e, float *x, size_t rows, braid_error *error);

#endif
