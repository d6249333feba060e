// The two ends of the model, which stage 0 computes: embedding; final norm, head and loss.
#include "base/err.h"
#include "model/stage_inner.h"

#include <string.h>

void ends_embed(stage *s, const int32_t *tokens, float *y) {
    tensor_embedding e = {.rows = s->rows,
                          .dim = s->config.dim,
                          .sequence = s->shape.tokens,
                          .tokens = tokens,
                          .scale = s->config.embedding_scale};
    const float *positions = s->row->learned_positions ? s->parameters + s->layout.positions : NULL;
    for (size_t r = 0; r < s->rows; r++) BRAID_ASSERT(tokens[r] >= 0 && (uint32_t)tokens[r] < s->config.vocab);
    tensor_embedding_forward(s->pool, &e, s->parameters + s->layout.embedding, positions, y);
}

double stage_loss(stage *s, void *stash, const float *x, const int32_t *targets, float *dx, uint32_t *tokens) {
    stash_view v = stage_stash_view(s, stash);
    BRAID_ASSERT(s->shape.ends && v.header->phase != PHASE_EMPTY);
    tensor_norm norm = stage_norm(s, &s->layout.norm, NORM_FINAL, s->ends.mean, s->ends.scale);
    *tokens = 0;
    for (size_t r = 0; r < s->rows; r++) {
        BRAID_ASSERT(targets[r] < (int32_t)s->config.vocab);
        if (targets[r] >= 0) ++*tokens;
    }
    memcpy(v.targets, targets, s->rows * sizeof *targets);
    tensor_norm_forward(s->pool, &norm, x, v.head_input);
    double sum = head_loss(s, &v, dx ? s->narrow : NULL);
    if (!dx) return sum;
    block_chain c = {.s = s};
    chain_add_norm_gradient(&c, &norm, NORM_1, x, s->narrow, NULL, dx);
    chain_run(&c);
    norm_weight_gradient(s, NORM_1, v.d_norm, v.d_norm_bias);
    v.header->lossy = 1;
    return sum;
}
