// The tokenizer of a GGUF file as a directory with tokenizer.json, which checkpoints carry.
#ifndef BRAID_NODE_GGUF_TOKENIZER_H
#define BRAID_NODE_GGUF_TOKENIZER_H

#include "data/place.h"
#include "train/files.h"

#include <stdbool.h>

bool gguf_tokenizer_is(const char *path);
// Writes the directory into the cache unless an earlier process has, and returns its path. `cache`:
// data.cache, "" the user's.
braid_err gguf_tokenizer_make(const char *path, const char *cache, const place_host *host, char out[FILES_MAX_PATH],
                              braid_error *error);

#endif
