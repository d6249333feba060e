// Hugging Face's config.json of the architectures that braid computes (model/rows.h), as
// transformers 4 and 5 write and read it.
#ifndef BRAID_FORMAT_HF_CONFIG_H
#define BRAID_FORMAT_HF_CONFIG_H

#include "base/err.h"
#include "model/config.h"

#include <stddef.h>

// `origin` is the file's name in messages. BRAID_FORMAT with the name of the key: an architecture
// without a row, or a computation that its row lacks (rope types, activations, ...). head_dim is 0
// in the result where it is dim / heads.
braid_err hf_config_read(const char *text, size_t length, const char *origin, model_config *out, braid_error *error);
// The text of a checked config, which the caller frees; NULL when there is no memory.
char *hf_config_write(const model_config *config, size_t *length);

#endif
