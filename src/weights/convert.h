// Writes a model in another form.
#ifndef BRAID_WEIGHTS_CONVERT_H
#define BRAID_WEIGHTS_CONVERT_H

#include "weights/model_file.h"
#include "weights/output.h"

typedef struct convert_options {
    // WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8_0 (GGUF only) or WEIGHT_MIXED8 (a directory
    // only)
    weight_type to;
    uint64_t shard_bytes;  // of a directory's files, at most; 0: 5 GB. A larger tensor has a file of its own.
    output_progress progress;
} convert_options;

// The type in which the model's matrices can be written without a loss, to a GGUF file or to a
// directory: their own, or F32.
weight_type convert_lossless(const model_file *f, bool one_file);
// tokenizer.json, tokenizer_config.json and generation_config.json for the tokenizer of a GGUF file,
// into a directory that exists; none if it has no tokenizer. BRAID_CONFIG: a tokenizer.json cannot
// give the same ids.
braid_err directory_write_tokenizer(const model_file *f, const char *directory, braid_error *error);
// `path` ending in .gguf: one file that llama.cpp reads; else a directory that transformers reads
// (a mixed8 one: only braid). Nothing of that name may exist (BRAID_STATE). It appears complete or
// not at all. Vectors are fp32 in a GGUF file, and in a mixed8 directory. The bytes depend on the
// model and the options only.
braid_err convert_write(const model_file *f, const char *path, convert_options *options, braid_error *error);

#endif
