// A model as people have it: a Hugging Face directory (config.json, safetensors in one file or
// shards), a checkpoint of braid, or a GGUF file. Files are mapped, and only the tensors that are
// read cost memory. Input is untrusted: every offset, count, string and depth has a maximum.
#ifndef BRAID_WEIGHTS_MODEL_FILE_H
#define BRAID_WEIGHTS_MODEL_FILE_H

#include "base/err.h"
#include "model/config.h"
#include "tensor/weights.h"
#include "text/tokenizer.h"

enum { MODEL_FILE_NAME = 96 };

// `transposed`: stored [in, out] as GPT-2's Conv1D; then rows are inputs. `rope_pairs`: rows are in
// GGUF's order of LLaMA's queries and keys: of each head, row 2i is element i and row 2i + 1
// element i + head_dim / 2 in Hugging Face's order.
typedef struct model_file_tensor {
    char name[MODEL_FILE_NAME];  // Hugging Face's name, e.g. model.layers.3.self_attn.q_proj.weight
    weight_matrix weights;
    bool vector, transposed, rope_pairs;
    uint32_t head_dim;  // rows of a head, for rope_pairs
} model_file_tensor;

typedef struct model_file model_file;

// `path`: a directory or a .gguf file. Errors name the file, the cause and a remedy; an
// architecture without a row is refused with the key that says so. Free with model_file_close.
braid_err model_file_open(const char *path, model_file **out, braid_error *error);
void model_file_close(model_file *f);
const model_config *model_file_config(const model_file *f);
// All tensors of the architecture, in canonical order (model/stage.h); none is missing. An expert's
// matrices have names of their own, e.g. model.layers.0.mlp.experts.3.up_proj.weight.
uint32_t model_file_count(const model_file *f);
const model_file_tensor *model_file_at(const model_file *f, uint32_t i);
const model_file_tensor *model_file_find(const model_file *f, const char *name);  // NULL: none
// The values in Hugging Face's order (rope_pairs undone), [rows, cols] as stored; out has rows *
// cols elements.
void model_file_values(const model_file_tensor *t, float *out);
// The system may take back the memory of these bytes of a tensor, for a caller that has a copy. They can be read again.
void model_file_release(const model_file *f, const void *at, size_t bytes);
// The tokenizer that the model brings. BRAID_CONFIG: it has none. The caller frees it.
braid_err model_file_tokenizer(const model_file *f, tokenizer **out, braid_error *error);
// The chat template, 0-terminated, borrowed; NULL: none.
const char *model_file_chat_template(const model_file *f);

#endif
