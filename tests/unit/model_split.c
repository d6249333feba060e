// A model that is split into stages at any boundaries has the bits of the whole one: outputs, loss,
// every gradient; with any number of threads, with or without recomputation, and with another
// microbatch in between.
#include "base/rng.h"
#include "model/stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef ALL_CASES  // tests/campaign/model_split.c
enum { STRIDE = 1, MOST_THREADS = 3 };
#else
enum { STRIDE = 5, MOST_THREADS = 2 };
#endif
enum { MICROBATCHES = 2, MOST_STAGES = 5, CUTS = 16 };

// The results of a pass over all microbatches, in canonical order of tensors.
typedef struct outcome {
    double loss[MICROBATCHES];
    float *y[MICROBATCHES], *gradient[MICROBATCHES];
} outcome;

typedef struct part {
    stage *s;
    float *weights;
    void *stash[MICROBATCHES];
} part;

typedef struct swarm {
    model_config config;
    uint32_t sequences, tokens;
    bool fastest;
    size_t rows, parameters;
    size_t *start;  // offset of each canonical tensor in the whole model
    uint32_t parts;
    part part[MOST_STAGES];
} swarm;

static float *floats_new(size_t count) {
    float *values = aligned_alloc(64, (count * sizeof *values + 63) / 64 * 64);
    assert_non_null(values);
    return values;
}

static void part_new(swarm *w, part *p, uint32_t begin, uint32_t end, bool ends, bool recompute, tensor_pool *pool) {
    stage_shape shape = {.layer_begin = begin,
                         .layer_end = end,
                         .ends = ends,
                         .sequences = w->sequences,
                         .tokens = w->tokens,
                         .recompute = recompute,
                         .fastest = w->fastest};
    braid_error error;
    if (stage_new(&w->config, &shape, pool, &p->s, &error)) fail_msg("%s", error.text);
    p->weights = floats_new(stage_parameters(p->s));
    stage_init(p->s, p->weights, 7);
    // norms and biases that differ from 1 and 0, the same in every split
    for (uint32_t i = 0; i < stage_tensor_count(p->s); i++) {
        const stage_tensor *t = &stage_tensors(p->s)[i];
        for (size_t e = 0; e < t->elements; e++)
            p->weights[t->offset + e] = 5 * p->weights[t->offset + e] + 0.01f * (float)((e + t->canonical) % 13);
    }
    stage_bind(p->s, p->weights);
    for (int m = 0; m < MICROBATCHES; m++) {
        p->stash[m] = aligned_alloc(64, stage_stash_bytes(p->s));
        memset(p->stash[m], 0xff, stage_stash_bytes(p->s));
    }
}

static void swarm_free(swarm *w) {
    for (uint32_t i = 0; i < w->parts; i++) {
        for (int m = 0; m < MICROBATCHES; m++) free(w->part[i].stash[m]);
        free(w->part[i].weights);
        stage_free(w->part[i].s);
    }
}

// Bit b of `cuts`: a boundary before layer b.
static void swarm_new(swarm *w, uint32_t cuts, bool recompute, tensor_pool *pool) {
    uint32_t begin = 0;
    w->parts = 0;
    for (uint32_t layer = 0; layer < w->config.layers; layer++) {
        if (!(cuts >> layer & 1)) continue;
        part_new(w, &w->part[w->parts], begin, layer, w->parts == 0, recompute, pool);
        w->parts++;
        begin = layer;
    }
    part_new(w, &w->part[w->parts], begin, w->config.layers, w->parts == 0, recompute, pool);
    w->parts++;
}

typedef struct gather_context {
    const swarm *w;
    const stage *s;
    float *gradient;
} gather_context;

static void gather(void *context, size_t offset, const float *gradient, size_t count) {
    const gather_context *g = context;
    const stage_tensor *t = stage_tensors(g->s);
    while (offset >= t->offset + t->elements) t++;
    memcpy(g->gradient + g->w->start[t->canonical] + (offset - t->offset), gradient, count * sizeof *gradient);
}

static void swarm_forward(swarm *w, int m, const int32_t *tokens, float *y) {
    size_t activation = w->rows * w->config.dim;
    float *from = floats_new(activation);
    for (uint32_t i = 0; i < w->parts; i++) {
        stage_forward(w->part[i].s, w->part[i].stash[m], i == 0 ? tokens : NULL, i == 0 ? NULL : from, y);
        memcpy(from, y, activation * sizeof *y);
    }
    free(from);
}

static double swarm_back(swarm *w, int m, const int32_t *targets, const float *y) {
    size_t activation = w->rows * w->config.dim;
    float *from = floats_new(activation), *to = floats_new(activation);
    uint32_t counted;
    double loss = stage_loss(w->part[0].s, w->part[0].stash[m], y, targets, from, &counted);
    assert_int_equal(counted, w->rows);
    for (uint32_t i = w->parts; i-- > 0;) {
        stage_input_gradient(w->part[i].s, w->part[i].stash[m], from, i == 0 ? NULL : to);
        memcpy(from, to, i == 0 ? 0 : activation * sizeof *from);
    }
    free(from);
    free(to);
    return loss;
}

static void swarm_weight_gradients(swarm *w, int m, float *gradient) {
    memset(gradient, 0xff, w->parameters * sizeof *gradient);
    for (uint32_t i = 0; i < w->parts; i++) {
        gather_context g = {w, w->part[i].s, gradient};
        stage_weight_gradient(w->part[i].s, w->part[i].stash[m], &(stage_sink){.take = gather, .context = &g});
    }
}

// All forwards, then all input gradients, then all weight gradients: with recomputation each step
// finds another microbatch in the stage.
static void swarm_run(swarm *w, outcome *o) {
    int32_t *tokens = calloc(2 * MICROBATCHES * w->rows, sizeof *tokens), *targets = tokens + MICROBATCHES * w->rows;
    rng r = {1};
    for (size_t i = 0; i < 2 * MICROBATCHES * w->rows; i++) tokens[i] = (int32_t)rng_below(&r, w->config.vocab);
    for (size_t m = 0; m < MICROBATCHES; m++) {
        o->y[m] = floats_new(w->rows * w->config.dim);
        o->gradient[m] = floats_new(w->parameters);
        swarm_forward(w, (int)m, tokens + m * w->rows, o->y[m]);
    }
    for (size_t m = 0; m < MICROBATCHES; m++) o->loss[m] = swarm_back(w, (int)m, targets + m * w->rows, o->y[m]);
    for (int m = 0; m < MICROBATCHES; m++) swarm_weight_gradients(w, m, o->gradient[m]);
    free(tokens);
}

static void outcome_free(outcome *o) {
    for (int m = 0; m < MICROBATCHES; m++) {
        free(o->y[m]);
        free(o->gradient[m]);
    }
}

static void expect_same(const swarm *w, const outcome *a, const outcome *b, const char *what) {
    for (int m = 0; m < MICROBATCHES; m++) {
        bool same = a->loss[m] == b->loss[m] &&
                    memcmp(a->y[m], b->y[m], w->rows * w->config.dim * sizeof(float)) == 0 &&
                    memcmp(a->gradient[m], b->gradient[m], w->parameters * sizeof(float)) == 0;
        if (!same) fail_msg("%s: microbatch %d differs", what, m);
    }
}

// The whole model in one stage; initialises `start` and `parameters`.
static void whole_model(swarm *w, outcome *o) {
    tensor_pool *pool;
    assert_int_equal(tensor_pool_new(1, &pool, NULL), BRAID_OK);
    swarm_new(w, 0, false, pool);
    const stage *s = w->part[0].s;
    assert_int_equal(stage_tensor_count(s), model_tensor_count(&w->config));
    w->parameters = stage_parameters(s);
    w->start = calloc(stage_tensor_count(s), sizeof *w->start);
    for (uint32_t i = 0; i < stage_tensor_count(s); i++) {
        assert_int_equal(stage_tensors(s)[i].canonical, i);
        w->start[i] = stage_tensors(s)[i].offset;
    }
    swarm_run(w, o);
    swarm_free(w);
    tensor_pool_free(pool);
}

static void check_splits_of(const model_config *config, uint32_t sequences, uint32_t tokens, const uint32_t *cuts, uint32_t count,
                            bool fastest) {
    swarm w = {.config = *config, .sequences = sequences, .tokens = tokens, .rows = (size_t)sequences * tokens, .fastest = fastest};
    outcome whole, found;
    whole_model(&w, &whole);
    for (unsigned threads = 1; threads <= MOST_THREADS; threads++) {
        tensor_pool *pool;
        assert_int_equal(tensor_pool_new(threads, &pool, NULL), BRAID_OK);
        for (uint32_t i = 0; i < 2 * count; i++) {
            char what[80];
            bool recompute = i % 2 == 1;
            snprintf(what, sizeof what, "cuts %x, %u threads, recompute %d, fastest %d", cuts[i / 2], threads, recompute, fastest);
            swarm_new(&w, cuts[i / 2], recompute, pool);
            swarm_run(&w, &found);
            expect_same(&w, &whole, &found, what);
            outcome_free(&found);
            swarm_free(&w);
        }
        tensor_pool_free(pool);
    }
    outcome_free(&whole);
    free(w.start);
}

static void check_splits(const model_config *config, uint32_t sequences, uint32_t tokens, const uint32_t *cuts, uint32_t count) {
    for (int fastest = 0; fastest < 2; fastest++) check_splits_of(config, sequences, tokens, cuts, count, fastest);
}

// Every cut, or every fifth: no boundary, two of them, and all.
static void check_cuts(const model_config *config, uint32_t tokens) {
    uint32_t cuts[CUTS], count = 0;
    for (uint32_t cut = 0; cut < CUTS; cut += STRIDE) cuts[count++] = cut;
    check_splits(config, 2, tokens, cuts, count);
}

static void test_llama_every_boundary(void **state) {
    (void)state;
    const model_config tied = {.arch = MODEL_LLAMA,
                               .dim = 24,
                               .layers = 4,
                               .heads = 4,
                               .kv_heads = 2,
                               .ffn_dim = 37,
                               .vocab = 50,
                               .context = 80,
                               .rope_theta = 10000,
                               .norm_eps = 1e-5f,
                               .tied = true};
    check_cuts(&tied, 70);
}

static void test_gpt_every_boundary(void **state) {
    (void)state;
    const model_config untied = {.arch = MODEL_GPT,
                                 .dim = 21,
                                 .layers = 4,
                                 .heads = 3,
                                 .kv_heads = 3,
                                 .ffn_dim = 84,
                                 .vocab = 33,
                                 .context = 80,
                                 .norm_eps = 1e-5f};
    check_cuts(&untied, 67);
}

// Each switch of the rows: post norms, norms of heads, windows, layers without rotation, two
// rotations, softcaps, biases, experts. 55 tokens are two blocks of queries; 3 sequences on one thread
// run as chains of steps.
static void test_rows(void **state) {
    (void)state;
    const model_config rows[] = {
        {.arch = MODEL_LLAMA, .qkv_bias = true, .o_bias = true, .mlp_bias = true, .rope = {.kind = MODEL_ROPE_YARN, .factor = 4, .original_context = 20}},
        {.arch = MODEL_QWEN3, .head_dim = 10, .window = 9, .windowed = {6}},
        {.arch = MODEL_SMOLLM3, .unrotated = {5}},
        {.arch = MODEL_GEMMA3, .head_dim = 12, .local_rope_theta = 100, .window = 20, .windowed = {5}, .embedding_scale = 4, .attention_scale = 0.5f, .logit_softcap = 5, .tied = true},
        {.arch = MODEL_GEMMA2, .window = 20, .windowed = {2}, .embedding_scale = 4, .attention_softcap = 3, .logit_softcap = 5},
        {.arch = MODEL_MIXTRAL, .experts = 4, .experts_used = 2, .expert_ffn_dim = 21, .normalised_experts = true},
        {.arch = MODEL_QWEN3_MOE, .head_dim = 6, .experts = 7, .experts_used = 3, .expert_ffn_dim = 9, .window = 30, .windowed = {15}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model_config c = rows[i];
        c.dim = 16, c.layers = 4, c.heads = 4, c.kv_heads = 2, c.ffn_dim = 21, c.vocab = 33, c.context = 150;
        c.rope_theta = 1000, c.norm_eps = 1e-5f;
        const uint32_t cuts[] = {0, 10};
        check_splits_of(&c, 3, 55, cuts, 2, i & 1);
#ifdef ALL_CASES
        check_splits(&c, 1, 140, cuts, 2);  // several blocks of keys
        check_splits(&c, 13, 20, cuts, 2);  // enough sequences for each thread to compute a whole block of one
#endif
    }
}

#ifdef ALL_CASES
// Large enough for products, gradients and loss with several tiles.
static void test_several_tiles(void **state) {
    (void)state;
    const uint32_t some[] = {5}, none = 0;
    model_config c = {.arch = MODEL_LLAMA,
                      .dim = 64,
                      .layers = 4,
                      .heads = 4,
                      .kv_heads = 4,
                      .ffn_dim = 300,
                      .vocab = 300,
                      .context = 150,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5f};
    check_splits(&c, 2, 150, some, 1);
    check_splits(&c, 12, 33, some, 1);  // enough sequences for each thread to compute a whole block of one
    // Weights that are packed in one orientation only: 2 MB is between their packed sizes.
    c = (model_config){.arch = MODEL_LLAMA,
                       .dim = 514,
                       .layers = 1,
                       .heads = 257,
                       .kv_heads = 1,
                       .ffn_dim = 504,
                       .vocab = 40,
                       .context = 3,
                       .rope_theta = 10000,
                       .norm_eps = 1e-5f};
    check_splits(&c, 1, 3, &none, 1);
    c = (model_config){.arch = MODEL_GPT,
                       .dim = 64,
                       .layers = 4,
                       .heads = 2,
                       .kv_heads = 2,
                       .ffn_dim = 600,
                       .vocab = 300,
                       .context = 400,
                       .norm_eps = 1e-5f,
                       .tied = true};
    check_splits(&c, 2, 150, some, 1);
}

static double loss_at(swarm *w, const int32_t *tokens, const int32_t *targets, const float *direction, float step) {
    part *p = &w->part[0];
    float *y = floats_new(w->rows * w->config.dim);
    uint32_t counted;
    for (size_t i = 0; i < w->parameters; i++) p->weights[i] += step * direction[i];
    stage_forward(p->s, p->stash[0], tokens, NULL, y);
    double loss = stage_loss(p->s, p->stash[0], y, targets, NULL, &counted);
    for (size_t i = 0; i < w->parameters; i++) p->weights[i] -= step * direction[i];
    free(y);
    return loss;
}

// When the head's rows of all targets grow, the loss changes as its gradient predicts: no row of
// the microbatch is missing.
static void check_slope(const model_config *config, uint32_t tokens, const float *gradient) {
    swarm w = {.config = *config, .sequences = 1, .tokens = tokens, .rows = tokens};
    int32_t *inputs = calloc(2 * MICROBATCHES * w.rows, sizeof *inputs);
    rng r = {1};  // arguments as in swarm_run
    for (size_t i = 0; i < 2 * MICROBATCHES * w.rows; i++) inputs[i] = (int32_t)rng_below(&r, config->vocab);
    tensor_pool *pool;
    assert_int_equal(tensor_pool_new(1, &pool, NULL), BRAID_OK);
    swarm_new(&w, 0, false, pool);
    w.parameters = stage_parameters(w.part[0].s);
    const int32_t *targets = inputs + MICROBATCHES * w.rows;
    float *direction = calloc(w.parameters, sizeof *direction);
    double slope = 0;
    for (size_t t = 0; t < w.rows; t++)
        for (size_t i = 0; i < config->dim; i++) direction[(size_t)targets[t] * config->dim + i] = i % 2 ? 1.0f : -0.5f;
    for (size_t i = 0; i < w.parameters; i++) slope += (double)gradient[i] * (double)direction[i];
    float step = (float)(0.02 / fabs(slope));
    double found = loss_at(&w, inputs, targets, direction, step) - loss_at(&w, inputs, targets, direction, -step);
    if (fabs(found / (2 * (double)step) - slope) > 0.02 * fabs(slope))
        fail_msg("the loss rises by %g, the gradient says %g", found / (2 * (double)step), slope);
    free(direction);
    swarm_free(&w);
    tensor_pool_free(pool);
    free(inputs);
}

// A vocabulary so long that the logits of one microbatch are computed for some rows at a time.
static void test_long_vocabulary(void **state) {
    (void)state;
    const model_config c = {.arch = MODEL_LLAMA,
                            .dim = 4,
                            .layers = 1,
                            .heads = 1,
                            .kv_heads = 1,
                            .ffn_dim = 4,
                            .vocab = 140001,
                            .context = 121,
                            .rope_theta = 10000,
                            .norm_eps = 1e-5f,
                            .tied = true};
    const uint32_t cut = 0;
    check_splits(&c, 1, 121, &cut, 1);
    swarm w = {.config = c, .sequences = 1, .tokens = 121, .rows = 121};
    outcome whole;
    whole_model(&w, &whole);
    check_slope(&c, 121, whole.gradient[0]);
    outcome_free(&whole);
    free(w.start);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_every_boundary),
        cmocka_unit_test(test_gpt_every_boundary),
        cmocka_unit_test(test_rows),
#ifdef ALL_CASES
        cmocka_unit_test(test_several_tiles),
        cmocka_unit_test(test_long_vocabulary),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
