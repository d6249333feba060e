// Kernels of the architectures' switches: attention with a window, norms of heads, a scale and a
// softcap; GeGLU; the router of a mixture. Forward is compared with textbook formulas in fp64, and
// gradients with finite differences of these.
#include "kernel_case.h"

// ---- attention

typedef struct switches {
    size_t sequences, tokens, heads, kv_heads, width, window;
    double scale, softcap, theta;  // theta 0: no rotation
    bool norms;
} switches;

typedef struct attention_case {
    switches s;
    double *qkv, *q_weight, *k_weight, *out, *turned;
    const double *d_out;
} attention_case;

static const double eps = 1e-6;

// One query or key after its norm and its rotation to position t.
static void turn_head(const switches *s, const double *weight, size_t t, const double *from, double *to) {
    double square = 0, half = (double)(s->width / 2);
    for (size_t i = 0; i < s->width; i++) square += from[i] * from[i];
    for (size_t i = 0; i < s->width; i++)
        to[i] = s->norms ? from[i] / sqrt(square / (double)s->width + eps) * weight[i] : from[i];
    for (size_t i = 0; s->theta > 0 && i < s->width / 2; i++) {
        double angle = (double)t * pow(s->theta, -(double)i / half), a = to[i], b = to[i + s->width / 2];
        to[i] = a * cos(angle) - b * sin(angle);
        to[i + s->width / 2] = b * cos(angle) + a * sin(angle);
    }
}

static double score(const switches *s, const double *q, const double *k) {
    double sum = 0;
    for (size_t i = 0; i < s->width; i++) sum += q[i] * k[i];
    sum *= s->scale > 0 ? s->scale : 1 / sqrt((double)s->width);
    return s->softcap > 0 ? s->softcap * tanh(sum / s->softcap) : sum;
}

static void attend(const attention_case *c, size_t sequence, size_t head) {
    const switches *s = &c->s;
    size_t stride = (s->heads + 2 * s->kv_heads) * s->width, kv = head / (s->heads / s->kv_heads);
    const double *base = c->qkv + sequence * s->tokens * stride;
    double *keys = c->turned, query[64];
    for (size_t t = 0; t < s->tokens; t++)
        turn_head(s, c->k_weight, t, base + t * stride + (s->heads + kv) * s->width, keys + t * s->width);
    for (size_t t = 0; t < s->tokens; t++) {
        double sum = 0, *out = c->out + ((sequence * s->tokens + t) * s->heads + head) * s->width;
        turn_head(s, c->q_weight, t, base + t * stride + head * s->width, query);
        memset(out, 0, s->width * sizeof *out);
        for (size_t j = s->window && t + 1 > s->window ? t + 1 - s->window : 0; j <= t; j++) {
            double p = exp(score(s, query, keys + j * s->width));
            const double *value = base + j * stride + (s->heads + s->kv_heads + kv) * s->width;
            sum += p;
            for (size_t i = 0; i < s->width; i++) out[i] += p * value[i];
        }
        for (size_t i = 0; i < s->width; i++) out[i] /= sum;
    }
}

static double attention_scalar(const void *context) {
    const attention_case *c = context;
    for (size_t i = 0; i < c->s.sequences * c->s.heads; i++) attend(c, i / c->s.heads, i % c->s.heads);
    return weighted_sum(c->out, c->d_out, c->s.sequences * c->s.tokens * c->s.heads * c->s.width);
}

typedef struct attention_result {
    float *out, *gradient, *q_weight, *k_weight;
} attention_result;

static void run_attention(const switches *s, tensor_pool *pool, bool keep, const float *qkv, const float *d_out,
                          const float *q_weight, const float *k_weight, attention_result *r) {
    size_t half = s->width / 2, rows = s->sequences * s->tokens, q = s->sequences * s->heads,
           k = s->sequences * s->kv_heads;
    tensor_rope rope = {s->width, floats(s->tokens * half), floats(s->tokens * half)};
    tensor_rope_tables(s->tokens, s->width, (float)(s->theta > 0 ? s->theta : 1), (float *)(uintptr_t)rope.cosines,
                       (float *)(uintptr_t)rope.sines);
    tensor_attention a = {.sequences = s->sequences,
                          .tokens = s->tokens,
                          .heads = s->heads,
                          .kv_heads = s->kv_heads,
                          .width = s->width,
                          .rope = s->theta > 0 ? &rope : NULL,
                          .maximum = floats(rows * s->heads),
                          .inverse = floats(rows * s->heads),
                          .scale = (float)s->scale,
                          .softcap = (float)s->softcap,
                          .window = s->window,
                          .eps = (float)eps};
    if (s->norms) {
        a.q_norm = (tensor_head_norm){q_weight, floats(q * s->width)};
        a.k_norm = (tensor_head_norm){k_weight, floats(k * s->width)};
    }
    if (keep && tensor_attention_kept(&a) > 0) a.kept = floats(tensor_attention_kept(&a));
    a.scratch = floats(tensor_attention_scratch(&a) * tensor_pool_threads(pool));
    r->out = floats(rows * s->heads * s->width);
    r->gradient = copy_of(qkv, rows * (s->heads + 2 * s->kv_heads) * s->width);
    tensor_attention_forward(pool, &a, qkv, r->out);
    tensor_attention_input_gradient(pool, &a, r->gradient, r->out, d_out);
    r->q_weight = floats(s->width), r->k_weight = floats(s->width);
    if (!s->norms) return;
    tensor_sum_parts(pool, a.q_norm.d_weight, q, s->width, r->q_weight);
    tensor_sum_parts(pool, a.k_norm.d_weight, k, s->width, r->k_weight);
}

static void check_attention(switches s, bool differences) {
    size_t in = s.sequences * s.tokens * (s.heads + 2 * s.kv_heads) * s.width,
           out = s.sequences * s.tokens * s.heads * s.width;
    pair qkv = random_pair(in, 0, 1), d_out = random_pair(out, 0, 1), q = random_pair(s.width, 1, 0.2),
         k = random_pair(s.width, 1, 0.2);
    attention_result r[POOLS];
    for (int p = 0; p < POOLS; p++) run_attention(&s, pools[p], p > 0, qkv.f, d_out.f, q.f, k.f, &r[p]);
    attention_case c = {.s = s, .qkv = qkv.d, .q_weight = q.d, .k_weight = k.d, .d_out = d_out.d};
    c.out = doubles(out), c.turned = doubles(s.tokens * s.width);
    attention_scalar(&c);
    expect_near("attention", r[0].out, c.out, out);
    if (differences) {
        expect_finite_difference("attention's gradient", r[0].gradient, qkv.d, in, attention_scalar, &c);
        if (s.norms) expect_finite_difference("of queries' norm", r[0].q_weight, q.d, s.width, attention_scalar, &c);
        if (s.norms) expect_finite_difference("of keys' norm", r[0].k_weight, k.d, s.width, attention_scalar, &c);
    }
    assert_memory_equal(r[0].out, r[1].out, out * sizeof(float));
    assert_memory_equal(r[0].gradient, r[1].gradient, in * sizeof(float));
    if (s.norms) assert_memory_equal(r[0].q_weight, r[1].q_weight, s.width * sizeof(float));
    if (s.norms) assert_memory_equal(r[0].k_weight, r[1].k_weight, s.width * sizeof(float));
    free_arrays();
}

static void test_windows(void **state) {
    (void)state;
    const size_t windows[] = {1, 3, 7, 8, 9, 48, 1000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        check_attention(
            (switches){.sequences = 2, .tokens = 9, .heads = 2, .kv_heads = 1, .width = 4, .window = windows[i]}, true);
        check_attention(
            (switches){.sequences = 1, .tokens = 300, .heads = 2, .kv_heads = 1, .width = 8, .window = windows[i]},
            false);
    }
    check_attention((switches){.sequences = 1, .tokens = 120, .heads = 1, .kv_heads = 1, .width = 8, .window = 50},
                    false);
    check_attention((switches){.sequences = 1, .tokens = 400, .heads = 1, .kv_heads = 1, .width = 16, .window = 129},
                    false);
    check_attention((switches){.sequences = 1, .tokens = 52, .heads = 1, .kv_heads = 1, .width = 2, .window = 5}, true);
}

static void test_norms_of_heads(void **state) {
    (void)state;
    check_attention((switches){.sequences = 2, .tokens = 7, .heads = 4, .kv_heads = 2, .width = 6, .norms = true},
                    true);
    check_attention(
        (switches){.sequences = 1, .tokens = 53, .heads = 2, .kv_heads = 1, .width = 2, .theta = 100, .norms = true},
        true);
    check_attention(
        (switches){.sequences = 2, .tokens = 150, .heads = 2, .kv_heads = 2, .width = 18, .theta = 100, .norms = true},
        false);
}

static void test_softcap_and_scale(void **state) {
    (void)state;
    check_attention((switches){.sequences = 2,
                               .tokens = 8,
                               .heads = 2,
                               .kv_heads = 1,
                               .width = 6,
                               .scale = 0.7,
                               .softcap = 1.5,
                               .theta = 30},
                    true);
    check_attention(
        (switches){.sequences = 1, .tokens = 50, .heads = 1, .kv_heads = 1, .width = 4, .softcap = 2, .window = 6},
        true);
    check_attention((switches){.sequences = 1,
                               .tokens = 200,
                               .heads = 2,
                               .kv_heads = 1,
                               .width = 8,
                               .scale = 0.3,
                               .softcap = 5,
                               .window = 90,
                               .norms = true},
                    false);
}

static void test_softcap_error(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        float x = (float)((rng_unit(&numbers) - 0.5) * pow(10, 3 * rng_unit(&numbers) - 1)), y = x, slope;
        tensor_softcap(&y, &slope, 1, 0.5f, 3);
        double t = tanh((double)x * 0.5 / 3);
        assert_true(fabs((double)y - 3 * t) <= 4e-7 * fabs(3 * t));
        assert_true(fabs((double)slope - 0.5 * (1 - t * t)) < 2e-7);
    }
    float nan = NAN, infinity = -INFINITY;
    tensor_softcap(&nan, NULL, 1, 1, 3), tensor_softcap(&infinity, NULL, 1, 1, 3);
    assert_true(isnan(nan) && infinity == -3);
}

// ---- GeGLU

typedef struct geglu_case {
    size_t rows, dim;
    double *x, *y;
    const double *dy;
} geglu_case;

static double geglu_scalar(const void *context) {
    const geglu_case *c = context;
    for (size_t r = 0; r < c->rows; r++) {
        const double *x = c->x + r * 2 * c->dim;
        reference_gelu(x, c->y + r * c->dim, c->dim);
        for (size_t i = 0; i < c->dim; i++) c->y[r * c->dim + i] *= x[c->dim + i];
    }
    return weighted_sum(c->y, c->dy, c->rows * c->dim);
}

static void test_geglu(void **state) {
    (void)state;
    size_t rows = 5, dim = 37, count = rows * dim;
    pair x = random_pair(2 * count, 0, 2), dy = random_pair(count, 0, 1);
    float *y = floats(count), *alone = floats(count), *logistic = floats(count), *dx = copy_of(x.f, 2 * count);
    geglu_case c = {rows, dim, x.d, doubles(count), dy.d};
    tensor_geglu_forward(x.f, y, logistic, rows, dim);
    tensor_geglu_forward(x.f, alone, NULL, rows, dim);
    tensor_geglu_input_gradient(dx, logistic, dy.f, dx, rows, dim);
    geglu_scalar(&c);
    expect_near("geglu", y, c.y, count);
    assert_memory_equal(y, alone, count * sizeof *y);
    expect_near("geglu, again for the weight gradient", logistic, c.y, count);
    expect_finite_difference("geglu's gradient", dx, x.d, 2 * count, geglu_scalar, &c);
    free_arrays();
}

// ---- router

typedef struct router_case {
    tensor_router r;
    size_t rows;
    double *logits;
    const uint32_t *chosen;
    const double *d_weights;
} router_case;

static double router_scalar(const void *context) {
    const router_case *c = context;
    double total = 0;
    for (size_t r = 0; r < c->rows; r++) {
        const double *logits = c->logits + r * c->r.experts;
        const uint32_t *chosen = c->chosen + r * c->r.used;
        double all = 0, some = 0;
        for (size_t e = 0; e < c->r.experts; e++) all += exp(logits[e]);
        for (size_t i = 0; i < c->r.used; i++) some += exp(logits[chosen[i]]);
        for (size_t i = 0; i < c->r.used; i++)
            total += c->d_weights[r * c->r.used + i] * exp(logits[chosen[i]]) / (c->r.normalised ? some : all);
    }
    return total;
}

static void check_router(tensor_router r) {
    size_t rows = 6, logits = rows * r.experts, used = rows * r.used;
    pair x = random_pair(logits, 0, 2), dw = random_pair(used, 0, 1);
    float *gradient = copy_of(x.f, logits), *weights = floats(used);
    uint32_t chosen[64];
    tensor_route_rows(&r, rows, gradient, chosen, weights);
    for (size_t row = 0; row < rows; row++) {
        const uint32_t *of_row = chosen + row * r.used;
        for (size_t i = 1; i < r.used; i++) assert_true(of_row[i - 1] < of_row[i]);
        for (uint32_t e = 0; e < r.experts; e++) {
            size_t above = 0;
            bool is_chosen = false;
            for (size_t o = 0; o < r.experts; o++) above += x.f[row * r.experts + o] > x.f[row * r.experts + e];
            for (size_t i = 0; i < r.used; i++) is_chosen = is_chosen || of_row[i] == e;
            assert_true(is_chosen == (above < r.used));
        }
    }
    router_case c = {r, rows, x.d, chosen, dw.d};
    double sum = 0;
    for (size_t i = 0; i < used; i++) sum += (double)weights[i] * dw.d[i];
    assert_true(fabs(sum - router_scalar(&c)) < 1e-5);
    tensor_route_gradient_rows(&r, rows, gradient, chosen, weights, dw.f);
    expect_finite_difference("router's gradient", gradient, x.d, logits, router_scalar, &c);
    free_arrays();
}

static void test_router(void **state) {
    (void)state;
    check_router((tensor_router){9, 3, false});
    check_router((tensor_router){9, 3, true});
    check_router((tensor_router){4, 4, false});
    check_router((tensor_router){20, 2, true});
}

// Equal logits select the lower number. A NaN reaches the weights, so that a diverged run is noticed.
static void test_router_edges(void **state) {
    (void)state;
    tensor_router r = {4, 2, true};
    float equal[4] = {1, 1, 1, 1}, broken[4] = {1, 2, NAN, 3}, all[4] = {NAN, NAN, NAN, NAN}, weights[2];
    uint32_t chosen[2];
    tensor_route_rows(&r, 1, equal, chosen, weights);
    assert_true(chosen[0] == 0 && chosen[1] == 1 && weights[0] == 0.5f && weights[1] == 0.5f);
    tensor_route_rows(&r, 1, broken, chosen, weights);
    assert_true((chosen[0] == 2 || chosen[1] == 2) && isnan(weights[0]));
    tensor_route_rows(&r, 1, all, chosen, weights);
    assert_true(chosen[0] < chosen[1] && chosen[1] < 4 && isnan(weights[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_norms_of_heads),
        cmocka_unit_test(test_softcap_and_scale),
        cmocka_unit_test(test_softcap_error),
        cmocka_unit_test(test_geglu),
        cmocka_unit_test(test_router),
        cmocka_unit_test(test_router_edges),
    };
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
