// Shared by the files of a stage: its memory, and the steps of a block and of the ends.
#ifndef BRAID_MODEL_STAGE_INNER_H
#define BRAID_MODEL_STAGE_INNER_H

#include "model/layout.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"

// The activations of a block for one microbatch. Forward fills them; the input gradient replaces
// those that the weight gradient does not need by gradients. With a mixture of experts, `up` and
// `act` have a row for each expert that a row of the microbatch uses, sorted by expert: [mlp_rows].
typedef struct block_memory {
    float *x;              // [rows, dim] the block's input; later the gradient of its output
    float *normed1;        // [rows, dim] input of qkv
    float *qkv;            // [rows, qkv_dim]; later its gradient
    float *attention;      // [rows, q_dim] input of o
    float *middle;         // [rows, dim] after the attention's residual; later its gradient
    float *normed2;        // [rows, dim] input of up
    float *up;             // [mlp_rows, up_dim]; later its gradient
    float *act;            // [mlp_rows, act_dim] the activation's logistic function; later the input of down
    float *post1, *post2;  // [rows, dim] outputs of o and down before their norms, later gradients; NULL: no norms
    float *mean1, *inverse1, *mean2, *inverse2, *post_inverse1, *post_inverse2;  // [rows]
    float *softmax_maximum, *softmax_inverse;                                    // [rows * heads]
    float *softmax_kept;                                                         // tensor_attention_kept; NULL: none
    // gradients of vectors, computed with the input gradient
    float *d_norm1, *d_norm1_bias, *d_norm2, *d_norm2_bias, *d_post1, *d_post2, *d_q_norm, *d_k_norm;
    float *d_qkv_bias, *d_o_bias, *d_up_bias, *d_down_bias;
    // mixture of experts
    float *router;       // [rows, experts] probabilities; later the gradient of the logits
    uint32_t *chosen;    // [mlp_rows] the used experts of each row
    float *weights;      // [mlp_rows] of these
    uint32_t *place;     // [mlp_rows] the position of each of these, sorted by expert
    uint32_t *source;    // [mlp_rows] the inverse: what stands at a position
    uint32_t *begin;     // [experts + 1] the first position of each expert
    float *gathered;     // [mlp_rows, dim] input of each position
    float *gathered_dy;  // [mlp_rows, dim] gradient of each position's output of down
} block_memory;

// The blocks' part of a stash. With recomputation a stage has one for all stashes.
typedef struct stage_body {
    float *d_embedding;  // [rows, dim] gradient of the embedding's output, stage 0
    float *blocks;       // [blocks, block_floats]
} stage_body;

typedef struct stage_header {
    uint64_t ticket;  // identifies the microbatch within this stage
    uint32_t phase;   // stage_phase
    uint32_t lossy;   // stage_loss computed a gradient
} stage_header;

typedef enum stage_phase { PHASE_EMPTY, PHASE_FORWARD_DONE, PHASE_INPUT_GRADIENT_DONE } stage_phase;

// The pieces of a stash's memory.
typedef struct stash_view {
    stage_header *header;
    int32_t *tokens, *targets;           // [rows], stage 0
    float *head_input;                   // [rows, dim] after the final norm, stage 0
    float *head_maximum, *head_inverse;  // [rows]
    float *d_head;                       // [vocab, dim]; NULL with recomputation
    float *d_norm, *d_norm_bias;         // [dim]
    float *x, *dy;                       // [rows, dim] with recomputation (x: except in stage 0)
    uint32_t *documents;                 // [rows] with shape.documents
    stage_body body;                     // without
} stash_view;

typedef enum tile_kind { TILE_LINEAR, TILE_HEAD, TILE_EMBEDDING, TILE_POSITIONS } tile_kind;
typedef enum tile_source {
    SOURCE_QKV,
    SOURCE_O,
    SOURCE_UP,
    SOURCE_DOWN,
    SOURCE_ROUTER,
    SOURCE_EXPERT_UP,
    SOURCE_EXPERT_DOWN
} tile_source;

// Rows [first, last) of one tensor's gradient: one product and one call of the sink.
typedef struct gradient_tile {
    uint8_t kind, source;
    uint32_t block, expert;
    uint32_t first, last;
    size_t offset;  // of the first element in the parameter array
} gradient_tile;

// The division of the head's computation; depends on the shape alone.
typedef struct head_cut {
    size_t rows;         // rows of the microbatch at a time
    size_t cols, tiles;  // columns of a tile, and tiles of the vocabulary
    size_t groups;       // of tiles
} head_cut;

// The norms of a block and the final one. A slot holds 1 + weight where the architecture needs it.
typedef enum norm_slot { NORM_1, NORM_2, NORM_POST1, NORM_POST2, NORM_Q, NORM_K, NORM_FINAL, NORM_SLOTS } norm_slot;
enum { NORM_PARTS = NORM_POST2 + 1 };

// Parts of a stage's work area.
typedef struct stage_rotation {
    float *cosines, *sines;
    tensor_rope rope;  // of these
} stage_rotation;

typedef struct stage_norms {
    float *parts[NORM_PARTS][2];  // [pieces, dim] partial gradients of norms: weights, biases
    size_t pieces;
    float *head_parts[2];        // of the norms of queries and keys (tensor_head_norm)
    float *weights[NORM_SLOTS];  // 1 + weight; NULL where the architecture does not add 1
} stage_norms;

typedef struct stage_mixture {
    float *out;        // [mlp_rows, dim] outputs of down, or input gradients of up
    float *d_weights;  // [mlp_rows] gradients of the experts' weights
} stage_mixture;

typedef struct stage_ends {
    float *logits;        // [head.rows, vocab], stored tile by tile
    float *slopes;        // of the softcap, with the same layout; NULL: none
    float *tops, *sums;   // [head.tiles, head.rows]
    float *targets;       // [head.rows]
    float *parts;         // [head.groups, head.rows, dim]
    double *losses;       // [rows]
    float *mean, *scale;  // [rows] statistics of the final norm
} stage_ends;

struct stage {
    model_config config;
    const model_row *row;
    stage_shape shape;
    tensor_pool *pool;
    layout layout;
    const float *parameters;
    size_t rows, q_dim, qkv_dim, up_dim, act_dim;
    size_t mlp_rows;  // rows of the MLP: more with a mixture of experts
    bool post_norms;
    size_t block_floats, stash_bytes, work_bytes;
    // work area
    void *work;
    float *grad[2], *narrow, *wide;  // [rows, dim] x 3, [mlp_rows, act_dim]
    // [rows, q_dim] gradient of the attention's output. It is `narrow` only where rows have the
    // same width: a chain writes these of some rows before it reads `narrow` of others.
    float *d_attention;
    const uint32_t *documents;   // of the microbatch under way; NULL: attention over whole sequences
    stage_rotation rotation[2];  // the second is of layers with a rotation of their own
    float *packed;               // packed weights of one product, or of all products of a chain
    stage_norms norms;
    stage_mixture mixture;
    float *attention_scratch;  // per thread
    float *tile_scratch;       // per thread, tile_floats each
    size_t tile_floats;
    head_cut head;
    stage_ends ends;
    stage_body body;  // recomputation
    uint64_t body_ticket, next_ticket;
    stage_phase body_phase;
    gradient_tile *tiles;  // in order: each block's tiles, then those of the ends
    size_t tile_count, block_tiles;
    uint32_t blocks_at_once;  // number of blocks that share one pass of the threads over weight gradients
};

// memory.c
// Computes the sizes and allocates the work area.
braid_err stage_reserve(stage *s, braid_error *error);
stash_view stage_stash_view(const stage *s, void *stash);
block_memory stage_block_memory(const stage *s, const stage_body *body, uint32_t block);
// Weight gradients are computed for groups of blocks, from the last block to the first. Returns the
// lowest block of the group that ends at `end`.
uint32_t stage_blocks_from(const stage *s, uint32_t end);

// block.c
void block_forward(stage *s, uint32_t block, const block_memory *m, float *y);
// dx must not be dy.
void block_input_gradient(stage *s, uint32_t block, const block_memory *m, const float *dy, float *dx);

// The weights of a norm of `width` elements, which a slot may hold until its next use.
const float *stage_norm_weights(const stage *s, const layout_norm *at, norm_slot slot, size_t width);
tensor_norm stage_norm(const stage *s, const layout_norm *at, norm_slot slot, float *mean, float *inverse);
// m NULL: for sizes only.
tensor_attention stage_attention(const stage *s, uint32_t block, const block_memory *m);
// The weight as the matrix [in, out] of the forward product, or its transpose.
tensor_matrix stage_weight(const stage *s, const layout_linear *l, bool as_in_out);
// act and logistic[rows, act_dim] from up[rows, up_dim].
void stage_activate(const stage *s, const float *up, float *act, float *logistic, size_t rows);
// From dy[rows, act_dim]: up becomes its gradient, and act, the logistic function, the activation
// for the weight gradient.
void stage_activation_gradient(const stage *s, float *up, float *act, const float *dy, size_t rows);

// mixture.c
// The experts' MLP after the attention: m->middle -> y[rows, dim].
void mixture_forward(stage *s, uint32_t block, const block_memory *m, float *y);
// dy[rows, dim] -> s->narrow[rows, dim], the gradient of m->normed2.
void mixture_input_gradient(stage *s, uint32_t block, const block_memory *m, const float *dy);

// chain.c
// A step of the computation of a block. Its rows depend on the same rows of earlier steps, or for
// attention on the same sequence.
typedef enum step_kind { STEP_PRODUCT, STEP_ATTENTION, STEP_ATTENTION_GRADIENT, STEP_NORM_GRADIENT } step_kind;
typedef struct block_step {
    step_kind kind;
    tensor_gemm product;
    tensor_gemm_rows rows;
    tensor_attention attention;
    float *qkv, *out;
    const float *d_out;  // STEP_ATTENTION_GRADIENT only
    tensor_norm norm;
    tensor_norm_gradient gradient;  // d_weight, d_bias: [norm_pieces, dim]
} block_step;

enum { CHAIN_MOST = 12 };
typedef struct block_chain {
    stage *s;
    block_step step[CHAIN_MOST];
    uint32_t steps;
} block_chain;

block_step *chain_add(block_chain *c, step_kind kind);
void chain_run(block_chain *c);
// Adds the gradient of a norm: dx from dy. norm_weight_gradient sums the weights' gradients after
// chain_run.
void chain_add_norm_gradient(block_chain *c, const tensor_norm *norm, norm_slot which, const float *x, const float *dy,
                             const float *residual, float *dx);
void norm_weight_gradient(stage *s, norm_slot which, float *d_weight, float *d_bias);
// The number of partial sums of a norm's weight gradients, each over some rows.
size_t chain_norm_pieces(const stage_shape *shape);

// tiles.c
braid_err tiles_new(stage *s, braid_error *error);
// Scratch memory that one thread needs for any tile.
size_t tiles_scratch_floats(const stage *s);
// Weight gradients of the matrices of blocks [first, end), and of the ends.
void tiles_run_blocks(stage *s, const stash_view *v, uint32_t first, uint32_t end, const stage_sink *sink);
void tiles_run_ends(stage *s, const stash_view *v, const stage_sink *sink);
// Only the tiles with elements in [first, end).
void tiles_run_ends_in(stage *s, const stash_view *v, size_t first, size_t end, const stage_sink *sink);

// The inputs x[rows, in] of a linear layer and the gradients dy[rows, out] of its outputs.
typedef struct stage_operands {
    const float *x, *dy;
    size_t rows;
} stage_operands;
// Of a layer without experts, after its input gradient.
stage_operands stage_linear_operands(const stage *s, const stash_view *v, uint32_t block, tile_source source);

// stage.c
// The stash after its input gradient, which is repeated if another microbatch has replaced it.
stash_view stage_open_gradients(stage *s, void *stash);

// head.c
head_cut head_cut_of(const model_config *config, size_t rows);
// Logits and loss of v->head_input[rows, dim] against v->targets; returns the sum of losses. With
// d_input also the gradients d_input[rows, dim] and v->d_head.
double head_loss(stage *s, const stash_view *v, float *d_input);
// Used when v->d_head is NULL: recomputes the gradient of one tile of the head's rows from the
// values that head_loss kept. scratch: head_recompute_floats.
void head_recompute_tile(stage *s, const stash_view *v, size_t tile, float *scratch, float *gradient);
size_t head_recompute_floats(const stage *s);

// ends.c
void ends_embed(stage *s, const int32_t *tokens, float *y);

#endif
