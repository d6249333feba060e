// LoRA adapters as the Python package peft 0.21 stores them: a directory with adapter_config.json
// and adapter_model.safetensors. Both are untrusted.
#ifndef BRAID_WEIGHTS_PEFT_H
#define BRAID_WEIGHTS_PEFT_H

#include "model/adapter.h"
#include "weights/model_file.h"

// A[rank, in] and B[out, rank] of one matrix, in memory of the adapter.
typedef struct peft_matrix {
    char name[MODEL_FILE_NAME];  // of the base matrix, e.g. model.layers.3.self_attn.q_proj.weight
    model_role role;
    uint32_t layer;
    uint32_t rank, in, out;
    float scale;  // s of W + s B A
    float *a, *b;
} peft_matrix;

typedef struct peft_adapter {
    float alpha;
    uint32_t rank;  // of the configuration
    bool rank_stabilised;
    uint32_t count;
    peft_matrix *matrix;  // in the order of the model's tensors
} peft_adapter;

// Reads an adapter of `model`. Keys are read with and without peft's name of the adapter
// (lora_A.weight, lora_A.default.weight). Refuses other kinds of adapters, other shapes, a pair
// without its other half, and tensors of matrices that the model lacks. Free with peft_close.
braid_err peft_open(const char *directory, const model_file *model, peft_adapter **out, braid_error *error);
void peft_close(peft_adapter *p);

// Adds s B A to the model's matrices, which become F32 in memory; the files stay as they are. Once
// per open model (BRAID_STATE).
braid_err peft_merge(const peft_adapter *p, model_file *model, braid_error *error);

// Further members of adapter_config.json.
typedef struct peft_about {
    const char *base;            // base_model_name_or_path
    const char *const *targets;  // target_modules
    uint32_t target_count;
} peft_about;

// Writes an adapter as peft does, into a directory that exists. Each file appears complete or stays
// as it was.
braid_err peft_write(const peft_adapter *p, const peft_about *about, const model_file *model, const char *directory,
                     braid_error *error);

#endif
