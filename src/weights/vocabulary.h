// The arrays tokenizer.ggml.* of a GGUF file from a tokenizer.json.
#ifndef BRAID_WEIGHTS_VOCABULARY_H
#define BRAID_WEIGHTS_VOCABULARY_H

#include "text/buffer.h"
#include "weights/model_file.h"

typedef struct vocabulary_out {
    tokenizer_vocabulary v;  // points into the memory below
    buffer texts;
    tokenizer_text *tokens, *merges;
    float *scores;
    int32_t *types;
} vocabulary_out;

// `directory` has the tokenizer.json that `t` was opened from. There are `rows` tokens in the end,
// as many as the embedding has rows. BRAID_CONFIG: llama.cpp has no tokenizer that gives the same
// ids. Free with vocabulary_out_free, also after a failure.
braid_err vocabulary_of_tokenizer(const char *directory, const tokenizer *t, uint32_t rows, vocabulary_out *out,
                                  braid_error *error);
void vocabulary_out_free(vocabulary_out *out);

#endif
