// Low-rank adapters (LoRA, Hu et al. 2021, section 4.1) on matrices of a stage:
// W' = W + s B A with A[rank, in], B[out, rank]; s = alpha / rank, or alpha / sqrt(rank)
// (rank-stabilised, Kalajdzievski 2023). The base weights stay fixed.
//
// The stage computes with merged weights, so forward and input gradient use the same values.
// adapter_gradient computes the gradients of A and B alone, from the microbatch's stash.
#ifndef BRAID_MODEL_ADAPTER_H
#define BRAID_MODEL_ADAPTER_H

#include "model/stage.h"

enum { ADAPTER_MAX_RANK = 4096 };

typedef struct adapter_config {
    uint32_t rank;
    float alpha;
    bool rank_stabilised;
    uint64_t roles;  // bit 1 << role of each target (adapter_may_target)
} adapter_config;

// One adapted matrix. Both parts are row-major in the adapter's parameter array.
typedef struct adapter_tensor {
    uint32_t tensor;   // index in stage_tensors
    uint32_t in, out;  // of the product, also where the file stores [in, out]
    size_t a, b;       // offsets of A[rank, in] and B[out, rank]
} adapter_tensor;

typedef struct adapter adapter;

// True for the matrices of attention and of an MLP without experts.
bool adapter_may_target(model_role role);
// All roles that an adapter of this model may have.
uint64_t adapter_all_roles(const model_config *model);

enum { ADAPTER_TARGETS_TEXT = 256 };

// Adds the roles that a name means: a module such as self_attn.q_proj, its last part (q_proj), a
// pattern of these with * or ? (mlp.*, ?_proj), or "all". Part of a name must begin behind a dot, as
// in peft. False: the model has no such matrix.
bool adapter_role_named(const model_config *model, const char *name, uint64_t *roles);
// The module of a role, e.g. self_attn.q_proj; "": the model lacks it.
void adapter_role_name(const model_config *model, model_role role, char out[MODEL_TENSOR_NAME]);
// The modules of all `roles`, with `between` between two of them.
void adapter_targets_text(const model_config *model, uint64_t roles, const char *between,
                          char out[ADAPTER_TARGETS_TEXT]);
// The factor s of a rank.
float adapter_scale(float alpha, uint32_t rank, bool rank_stabilised);
// `s` is borrowed and outlives the adapter. BRAID_CONFIG: a bad rank, or a role that the model
// lacks. Free with adapter_free.
braid_err adapter_new(stage *s, const adapter_config *config, adapter **out, braid_error *error);
void adapter_free(adapter *a);

// Overwrites the work memory, in which values of the parameters remain after each call.
void adapter_wipe(adapter *a);

size_t adapter_parameters(const adapter *a);  // elements
size_t adapter_work_bytes(const adapter *a);  // allocated in adapter_new
uint32_t adapter_tensor_count(const adapter *a);
const adapter_tensor *adapter_tensors(const adapter *a);        // in the order of stage_tensors
const char *adapter_tensor_name(const adapter *a, uint32_t i);  // of the base matrix, as stage_tensor.name

// The parameters as a table like stage_tensors, with the names of peft's files: A and B of each
// adapted matrix, at the offsets that adapter_new gives them. A stage with the ends has one more
// tensor behind them, a constant zero without a name (adapter_is_filler), because it may adapt no
// matrix and no stage of a run is empty. The caller frees the table.
braid_err adapter_table_new(const model_config *model, const stage_shape *shape, const adapter_config *config,
                            stage_tensor **out, uint32_t *count, braid_error *error);
static inline bool adapter_is_filler(const stage_tensor *t) { return t->name[0] == 0; }
// Tensors of one layer in that table.
uint32_t adapter_tensors_per_layer(const model_config *model, uint64_t roles);

// A is uniform in [-1 / sqrt(in), 1 / sqrt(in)) from (seed, name, element), B zero, as in peft 0.21.
void adapter_init(const adapter *a, float *parameters, uint64_t seed);
// merged = base with s B A added to the adapted matrices; both are arrays as for stage_bind, and
// do not overlap. Copies the other tensors only if `all`.
void adapter_merge(const adapter *a, const float *base, const float *parameters, bool all, float *merged);
// Passes the gradients of A and B of this microbatch to `sink`, indexed like the adapter's
// parameters; `place` is not used. stage_input_gradient must have run with merged weights. The
// stash is free afterwards. The bits do not depend on the number of threads.
void adapter_gradient(adapter *a, void *stash, const float *parameters, const stage_sink *sink);

#endif
