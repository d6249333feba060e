// The files of a tokenizer that the checkpoints of a run carry, so that programs that read a
// checkpoint can read its tokens.
#ifndef BRAID_NODE_CARRIED_H
#define BRAID_NODE_CARRIED_H

#include "text/tokenizer.h"
#include "train/files.h"

// Reads tokenizer.json (always the first of `out`) and the files beside it. Without a
// tokenizer_config.json or generation_config.json, such files are made that name the end token:
// `end`, "" the tokenizer's. `path`: a directory or a tokenizer.json. Free with carried_free.
braid_err carried_read(const char *path, const tokenizer *t, const char *end, uint32_t context, files_text **out,
                       uint32_t *count, braid_error *error);
void carried_free(files_text *files, uint32_t count);

#endif
