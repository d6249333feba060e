// A model for the verbs that write or read text: its file, tokenizer, engine and one text.
#ifndef BRAID_CLI_GENERATOR_H
#define BRAID_CLI_GENERATOR_H

#include "infer/generation.h"

typedef struct generator_settings {
    engine_settings engine;    // its pool is set by generator_open
    generation_settings text;  // `shift` is set for models of bytes
    const char *adapter;       // directory of peft; NULL: none
    unsigned threads;
} generator_settings;

typedef struct generator {
    model_file *file;
    tokenizer *tokenizer;  // NULL: tokens are bytes
    tokenizer_encoder *encoder;
    tensor_pool *pool;
    engine *engine;
    engine_adapter *adapter;
    generation *text;
} generator;

// `path`: a directory of Hugging Face, a checkpoint of braid (DIR, or the directory of one step),
// verified by its hashes, or a GGUF file. A model without a tokenizer is refused unless it is a
// checkpoint. Close with generator_close, also after a failure.
braid_err generator_open(generator *g, const char *path, const generator_settings *settings, braid_error *error);
// The same without an engine and a text: file, tokenizer, encoder and pool.
braid_err generator_open_model(generator *g, const char *path, unsigned threads, braid_error *error);
void generator_close(generator *g);
// Only the file, found in the same way. Free with model_file_close.
braid_err generator_open_file(const char *path, model_file **out, braid_error *error);
// Appends the tokens of a text with those that the tokenizer adds around it; for an empty one, the
// token that begins a text (for bytes, a new line).
braid_err generator_encode(generator *g, const char *text, size_t length, tokenizer_ids *ids, braid_error *error);

#endif
