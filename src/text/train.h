// New tokenizers: byte-level BPE.
#ifndef BRAID_TEXT_TRAIN_H
#define BRAID_TEXT_TRAIN_H

#include "base/err.h"

#include <stdint.h>

enum { TOKENIZER_TRAIN_MAX_TOKENS = 1 << 20 };

typedef struct tokenizer_training {
    uint32_t tokens;
    double bytes_a_token;  // of the texts
} tokenizer_training;

// Reads the files, cuts them as GPT-2 does, and merges the most frequent pair of neighbours until there are `tokens` tokens,
// or no pair occurs twice. Of equally frequent pairs the one with the lowest ids is merged: the same texts make the same file
// everywhere. Writes directory/tokenizer.json with the token <|endoftext|> as id 0, the 256 bytes behind it, then the merges.
braid_err tokenizer_train(const char *const *paths, uint32_t count, uint32_t tokens, const char *directory,
                          tokenizer_training *result, braid_error *error);

#endif
