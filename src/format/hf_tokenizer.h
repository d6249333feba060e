// Hugging Face's tokenizer files for a vocabulary of bytes: token i is the byte i.
//
// tokenizer.json is a byte-level BPE without merges (package tokenizers, "ByteLevel"): each byte
// has a printable character of GPT-2's table (bytes_to_unicode in openai/gpt-2, src/encoder.py),
// and that character's id is the byte.
#ifndef BRAID_FORMAT_HF_TOKENIZER_H
#define BRAID_FORMAT_HF_TOKENIZER_H

#include "model/config.h"

#include <stddef.h>

// Return the files' texts, which the caller frees; NULL when there is no memory.
char *hf_tokenizer_write(size_t *length);                                     // tokenizer.json
char *hf_tokenizer_config_write(const model_config *config, size_t *length);  // tokenizer_config.json

#endif
