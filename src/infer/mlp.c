// The MLP of a block, or its mixture of experts.
#include "infer/inside.h"

#include "tensor/elementary.h"
#include "tensor/kernels.h"

#include <string.h>

enum { ROWS_PER_TASK = 8 };

typedef struct activation_job {
    const engine *e;
    const float *up;  // [rows, gate then up] or [rows, up]
    float *act;
    size_t width;
} activation_job;

static void activate(const void *context, size_t begin, size_t end) {
    const activation_job *job = context;
    size_t n = job->width;
    if (!job->e->row->gated) {
        tensor_gelu_forward(job->up + begin * n, job->act + begin * n, NULL, (end - begin) * n);
        return;
    }
    void (*forward)(const float *x, float *y, float *logistic, size_t rows, size_t dim) =
        job->e->row->activation == MODEL_SILU ? tensor_swiglu_forward : tensor_geglu_forward;
    forward(job->up + begin * 2 * n, job->act + begin * n, NULL, end - begin, n);
}

static void one_mlp(engine *e, const engine_mlp *m, const float *x, size_t rows, float *y) {
    engine_scratch *s = &e->scratch;
    size_t n = m->up.w.rows;
    if (rows == 0) return;
    if (e->row->gated) {
        engine_product both[] = {{&m->gate, s->up, 2 * n}, {&m->up, s->up + n, 2 * n}};
        product_run(e, x, rows, both, 2);
    } else {
        product_run(e, x, rows, &(engine_product){&m->up, s->up, n}, 1);
    }
    activation_job job = {e, s->up, s->act, n};
    tensor_pool_ranges(e->pool, rows, ROWS_PER_TASK, activate, &job);
    product_run(e, s->act, rows, &(engine_product){&m->down, y, e->config.dim}, 1);
}

// --- mixture

static double weight_of(float score, float top) {
    double x = (double)score - (double)top;
    return x > -700 ? elementary_exp(x) : 0;
}

// Probabilities of the used experts, which are divided by their sum where the model does.
static void set_shares(const model_config *c, const float *scores, const uint32_t *chosen, float *shares) {
    float top = scores[0];
    double sum = 0;
    for (uint32_t i = 1; i < c->experts; i++) top = scores[i] > top ? scores[i] : top;
    for (uint32_t i = 0; i < c->experts && !c->normalised_experts; i++) sum += weight_of(scores[i], top);
    for (uint32_t k = 0; k < c->experts_used && c->normalised_experts; k++) sum += weight_of(scores[chosen[k]], top);
    for (uint32_t k = 0; k < c->experts_used; k++) shares[k] = (float)(weight_of(scores[chosen[k]], top) / sum);
}

// The experts with the highest scores, in ascending order of index, and their shares. Of equal scores the
// lower index is used.
static void choose(const model_config *c, const float *scores, uint32_t *chosen, float *shares) {
    uint32_t used = c->experts_used;
    for (uint32_t k = 0; k < used; k++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < c->experts; i++) {
            bool taken = false;
            for (uint32_t j = 0; j < k; j++) taken = taken || chosen[j] == i;
            if (!taken && (best == UINT32_MAX || scores[i] > scores[best])) best = i;
        }
        uint32_t j = k;
        for (; j > 0 && chosen[j - 1] > best; j--) chosen[j] = chosen[j - 1];
        chosen[j] = best;
    }
    set_shares(c, scores, chosen, shares);
}

// Rows of x that use the expert, in order. Returns how many.
static size_t gather(const engine *e, uint32_t expert, const float *x, size_t rows) {
    const engine_scratch *s = &e->scratch;
    uint32_t used = e->config.experts_used, dim = e->config.dim;
    size_t count = 0;
    for (size_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < used; k++)
            if (s->chosen[r * used + k] == expert) memcpy(s->expert_in + count++ * dim, x + r * dim, dim * sizeof *x);
    return count;
}

// Adds the expert's outputs, times their shares. Experts come in ascending order, so the sums do too.
static void scatter(const engine *e, uint32_t expert, size_t rows, float *y) {
    const engine_scratch *s = &e->scratch;
    uint32_t used = e->config.experts_used, dim = e->config.dim;
    const float *from = s->expert_out;
    for (size_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < used; k++) {
            if (s->chosen[r * used + k] != expert) continue;
            for (uint32_t i = 0; i < dim; i++) y[r * dim + i] += s->shares[r * used + k] * from[i];
            from += dim;
        }
}

void mlp_run(engine *e, const engine_block *b, const float *x, size_t rows, float *y) {
    const model_config *c = &e->config;
    engine_scratch *s = &e->scratch;
    if (!b->experts) {
        one_mlp(e, &b->mlp, x, rows, y);
        return;
    }
    product_run(e, x, rows, &(engine_product){&b->router, s->router, c->experts}, 1);
    for (size_t r = 0; r < rows; r++)
        choose(c, s->router + r * c->experts, s->chosen + r * c->experts_used, s->shares + r * c->experts_used);
    memset(y, 0, rows * c->dim * sizeof *y);
    for (uint32_t i = 0; i < c->experts; i++) {
        size_t count = gather(e, i, x, rows);
        if (count == 0) continue;
        one_mlp(e, &b->experts[i], s->expert_in, count, s->expert_out);
        scatter(e, i, rows, y);
    }
}
