// The two writers of convert.c, and what they share.
#ifndef BRAID_WEIGHTS_CONVERT_INSIDE_H
#define BRAID_WEIGHTS_CONVERT_INSIDE_H

#include "weights/convert.h"
#include "weights/gguf_out.h"
#include "weights/inside.h"
#include "weights/tensor_write.h"

// `path` is a temporary name.
braid_err gguf_write(const model_file *f, const char *path, convert_options *options, braid_error *error);
braid_err directory_write(const model_file *f, const char *path, convert_options *options, braid_error *error);

// BRAID_CONFIG: llama.cpp would compute something else.
braid_err gguf_check_config(const model_config *config, braid_error *error);
// The keys of the model's shape.
void gguf_write_config(gguf_out *o, const model_config *config);
// The keys of the tokenizer and the chat template. BRAID_CONFIG: GGUF cannot express the tokenizer.
braid_err gguf_write_tokenizer(gguf_out *o, const model_file *f, braid_error *error);

// Whether two tokenizers give the same ids for texts with all that pre-tokenizers treat
// differently.
braid_err tokenizers_agree(const tokenizer *a, const tokenizer *b, bool *agree, braid_error *error);

#endif
