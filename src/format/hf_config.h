// Hugging Face's config.json for the architectures that braid trains: LlamaForCausalLM and
// GPT2LMHeadModel.
#ifndef BRAID_FORMAT_HF_CONFIG_H
#define BRAID_FORMAT_HF_CONFIG_H

#include "base/err.h"
#include "model/config.h"

#include <stddef.h>

// `origin` is the file's name in messages. Variants with another computation (rope scaling, biases,
// other activations) are refused by name.
braid_err hf_config_read(const char *text, size_t length, const char *origin, model_config *out, braid_error *error);
// Returns the file's text, which the caller frees; NULL when there is no memory.
char *hf_config_write(const model_config *config, size_t *length);

#endif
