// The two ends of the model, which stage 0 holds: embedding; final norm, head and loss.
#include "base/err.h"
#include "model/stage_inner.h"
#include "tensor/gemm.h"

#include <string.h>

void ends_embed(stage *s, const int32_t *tokens, float *y) {
    tensor_embedding e = {.rows = s->rows, .dim = s->config.dim, .sequence = s->shape.tokens, .tokens = tokens};
    const float *positions = s->config.arch == MODEL_GPT ? s->parameters + s->layout.positions : NULL;
    for (size_t r = 0; r < s->rows; r++) BRAID_ASSERT(tokens[r] >= 0 && (uint32_t)tokens[r] < s->config.vocab);
    tensor_embedding_forward(s->pool, &e, s->parameters + s->layout.embedding, positions, y);
}

double stage_loss(stage *s, void *stash, const float *x, const int32_t *targets, float *dx, uint32_t *tokens) {
    stash_view v = stage_stash_view(s, stash);
    BRAID_ASSERT(s->shape.ends && v.header->phase != PHASE_EMPTY);
    tensor_norm norm = stage_norm(s, &s->layout.norm, s->head_mean, s->head_scale);
    *tokens = 0;
    for (size_t r = 0; r < s->rows; r++) {
        BRAID_ASSERT(targets[r] < (int32_t)s->config.vocab);
        if (targets[r] >= 0) ++*tokens;
    }
    memcpy(v.targets, targets, s->rows * sizeof *targets);
    tensor_norm_forward(s->pool, &norm, x, v.head_input);
    double sum = head_loss(s, &v, dx ? s->narrow : NULL);
    if (!dx) return sum;
    tensor_norm_weight_gradient(s->pool, &norm, x, s->narrow, v.d_norm, v.d_norm_bias);
    tensor_norm_input_gradient(s->pool, &norm, x, s->narrow, NULL, dx);
    v.header->lossy = 1;
    return sum;
}

void stage_logits(stage *s, const float *x, uint32_t position, float *logits) {
    size_t dim = s->config.dim, sequences = s->shape.sequences;
    BRAID_ASSERT(s->shape.ends && position < s->shape.tokens);
    tensor_norm norm = stage_norm(s, &s->layout.norm, s->head_mean, s->head_scale);
    norm.rows = sequences;
    for (size_t i = 0; i < sequences; i++)
        memcpy(s->narrow + i * dim, x + (i * s->shape.tokens + position) * dim, dim * sizeof *x);
    tensor_norm_forward(s->pool, &norm, s->narrow, s->grad[0]);
    tensor_gemm_run(s->pool, &(tensor_gemm){sequences, s->config.vocab, dim, tensor_plain(s->grad[0], dim),
                                            tensor_transposed(s->parameters + s->layout.head, dim), logits,
                                            s->config.vocab, GEMM_SET});
}
