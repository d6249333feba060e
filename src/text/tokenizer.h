// Text to token ids and back, as the Python package `tokenizers` 0.23.3 does it for a tokenizer.json and llama.cpp for the
// vocabulary of a GGUF file. Files are untrusted: every count, string and depth has a maximum, and what is not
// supported is refused by name.
//
// A tokenizer is read-only after it was opened and may be shared by threads. An encoder has the caches and the scratch
// memory of one thread.
#ifndef BRAID_TEXT_TOKENIZER_H
#define BRAID_TEXT_TOKENIZER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKENIZER_MAX_FILE_BYTES = 256 << 20,
    TOKENIZER_MAX_IDS = 1 << 22,  // ids are below this
    TOKENIZER_MAX_MERGES = 1 << 22,
    TOKENIZER_MAX_TOKEN_BYTES = 1 << 16,  // of one token's text
    TOKENIZER_MAX_ADDED = 1 << 15,        // added tokens
    TOKENIZER_MAX_STEPS = 64,             // normalizers, pre-tokenizers, decoders, each
    TOKENIZER_MAX_STOPS = 32,
    TOKENIZER_MAX_INPUT_BYTES = 1 << 30,  // of one text
};
#define TOKENIZER_NO_ID UINT32_MAX

typedef struct tokenizer tokenizer;
typedef struct tokenizer_encoder tokenizer_encoder;
typedef struct tokenizer_stream tokenizer_stream;

// A directory with tokenizer.json, or such a file. Beside it, where they are, special_tokens_map.json, then
// tokenizer_config.json name the beginning and end tokens; generation_config.json, else config.json the ids that end a
// generated text. Free with tokenizer_free.
braid_err tokenizer_open(const char *path, tokenizer **out, braid_error *error);
// The text of a tokenizer.json alone.
braid_err tokenizer_parse(const char *text, size_t length, tokenizer **out, braid_error *error);

// A string of a GGUF file: not 0-terminated.
typedef struct tokenizer_text {
    const char *at;
    size_t length;
} tokenizer_text;

// The keys tokenizer.ggml.* of a GGUF file. Borrowed during the call. Absent ids are TOKENIZER_NO_ID, absent flags -1, absent
// arrays NULL.
typedef struct tokenizer_vocabulary {
    const char *model;             // "gpt2", "llama", "bert", "gemma4"
    const char *pre;               // NULL: absent
    uint32_t count;                // of tokens, scores and types
    const tokenizer_text *tokens;  // [count]
    const float *scores;           // [count]
    const int32_t *types;          // [count]; 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
    uint32_t merge_count;
    const tokenizer_text *merges;  // [merge_count], "left right"
    uint32_t bos, eos, unknown, separator, classifier;
    int add_bos, add_eos, add_space_prefix;
} tokenizer_vocabulary;

braid_err tokenizer_from_vocabulary(const tokenizer_vocabulary *v, tokenizer **out, braid_error *error);
void tokenizer_free(tokenizer *t);

uint32_t tokenizer_size(const tokenizer *t);  // one more than the largest id
uint32_t tokenizer_bos(const tokenizer *t);   // TOKENIZER_NO_ID: none
uint32_t tokenizer_eos(const tokenizer *t);
// The ids that end a generated text, in the order of the file.
const uint32_t *tokenizer_stops(const tokenizer *t, uint32_t *count);
// TOKENIZER_NO_ID: no token has this text.
uint32_t tokenizer_id(const tokenizer *t, const char *text, size_t length);
// The text of a token as the file spells it, not 0-terminated; NULL: no token has this id.
const char *tokenizer_token(const tokenizer *t, uint32_t id, size_t *length);
bool tokenizer_is_special(const tokenizer *t, uint32_t id);
// The bytes that the token stands for inside a text; `out` holds `capacity`. Returns how many there are, also when that is more.
size_t tokenizer_token_bytes(const tokenizer *t, uint32_t id, char *out, size_t capacity);

typedef struct tokenizer_ids {
    uint32_t *at;
    size_t count, capacity;
} tokenizer_ids;
void tokenizer_ids_free(tokenizer_ids *ids);

enum {
    TOKENIZER_ADD_SPECIAL = 1,   // the tokens that the post-processor adds around a text
    TOKENIZER_PARSE_SPECIAL = 2  // the text of a special token in the input becomes that token
};

// The tokenizer is borrowed until tokenizer_encoder_free. NULL: no memory.
tokenizer_encoder *tokenizer_encoder_new(const tokenizer *t);
void tokenizer_encoder_free(tokenizer_encoder *e);
// Appends the ids of the text. Bytes that are no UTF-8 are read as U+FFFD, one for each maximal invalid part, as Python's
// errors="replace".
braid_err tokenizer_encode(tokenizer_encoder *e, const char *text, size_t length, unsigned flags, tokenizer_ids *ids,
                           braid_error *error);

// The text of the ids in new memory, 0-terminated behind `length`; ids without a token are left out. The caller frees it.
braid_err tokenizer_decode(const tokenizer *t, const uint32_t *ids, size_t count, bool skip_special, char **text,
                           size_t *length, braid_error *error);

// Decodes one id after the other. What could still change (an incomplete character) is held back.
tokenizer_stream *tokenizer_stream_new(const tokenizer *t, bool skip_special);  // NULL: no memory
void tokenizer_stream_free(tokenizer_stream *s);
// The text that this id completes, maybe empty; valid until the next call.
braid_err tokenizer_stream_next(tokenizer_stream *s, uint32_t id, const char **text, size_t *length,
                                braid_error *error);
// The text that was held back.
braid_err tokenizer_stream_end(tokenizer_stream *s, const char **text, size_t *length, braid_error *error);

#endif
