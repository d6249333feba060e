// The structure of an open model, shared by the readers of its two forms.
#ifndef BRAID_WEIGHTS_INSIDE_H
#define BRAID_WEIGHTS_INSIDE_H

#include "format/safetensors.h"
#include "weights/expected.h"
#include "weights/gguf.h"
#include "weights/mapped.h"
#include "weights/model_file.h"

// quantization_config.quant_method of a directory with mixed8 matrices. transformers 5.23 does not
// know it, and refuses the shapes of the tensors.
#define MODEL_FILE_MIXED8 "braid-mixed8"

struct model_file {
    model_config config;
    char path[MAPPED_MAX_PATH];
    bool directory;
    // shards in order; gguf[i] or header[i] is the parsed start of map[i]
    uint32_t shards;
    mapped *map;
    gguf *gguf;
    safetensors **header;
    model_file_tensor *tensor;  // canonical order
    const model_file_tensor **by_name;
    expected_list expected;  // the same tensors as the model's shape lists them
    uint32_t count;
    // Values that are not the file's: of tensors that are not stored as the model uses them (Gemma's
    // norms in GGUF), and of matrices that an adapter changed (peft.h). NULL: none.
    struct {
        float *read, *merged;
    } owned;
    char *chat_template;  // NULL: none
};

// Fill an empty model_file with a path. On failure model_file_close frees its parts.
braid_err gguf_model_open(model_file *f, braid_error *error);
braid_err directory_open(model_file *f, braid_error *error);
// Allocates the arrays of that many shards.
braid_err model_file_reserve(model_file *f, uint32_t shards, braid_error *error);
// Lists the tensors of f->config with their names and kinds; data, type and shape are left to the
// reader.
braid_err model_file_expect(model_file *f, braid_error *error);

bool model_file_has_tokenizer(const model_file *f);
braid_err gguf_tokenizer(const model_file *f, tokenizer **out, braid_error *error);
// Copies a text that is not 0-terminated; NULL: no memory.
char *model_file_copy(const char *text, size_t length);

#endif
