// Attention and rotary positions compared with their reference implementations. Gradients are also
// compared with finite differences (central, fp64), and the bits with one thread with those of
// three.
#include "kernel_case.h"

// ---- rotary positions

static void test_rope(void **state) {
    (void)state;
    size_t tokens = 300, heads = 5, width = 10, stride = 70, half = width / 2, first = 17, count = tokens * stride;
    pair x = random_pair(count, 0, 1);
    float *cosines = floats(tokens * half), *sines = floats(tokens * half), *turned = copy_of(x.f, count),
          *back = copy_of(x.f, count);
    double *plain = doubles(tokens * heads * width);
    tensor_rope_tables(tokens, width, 10000.0f, cosines, sines);
    tensor_rope r = {width, cosines, sines};
    for (size_t h = 0; h < heads; h++) {
        size_t later = first * stride + h * width;
        tensor_rope_rows(&r, 0, first, false, x.f + h * width, stride, turned + h * width, stride);
        tensor_rope_rows(&r, first, tokens - first, false, x.f + later, stride, turned + later, stride);
        tensor_rope_rows(&r, 0, tokens, true, turned + h * width, stride, back + h * width, stride);
    }
    for (size_t t = 0; t < tokens; t++)
        memcpy(plain + t * heads * width, x.d + t * stride, heads * width * sizeof *plain);
    reference_rope(tokens, heads, width, 10000, false, plain);
    for (size_t t = 0; t < tokens; t++) {
        expect_near("rope", turned + t * stride, plain + t * heads * width, heads * width);
        for (size_t i = heads * width; i < stride; i++) assert_true(turned[t * stride + i] == x.f[t * stride + i]);
    }
    expect_near("rope and back", back, x.d, count);  // the gradient of a rotation is its inverse
    free_arrays();
}

static void test_rope_gradient(void **state) {
    (void)state;
    size_t tokens = 20, width = 6, count = tokens * width;
    pair x = random_pair(count, 0, 1), dy = random_pair(count, 0, 1);
    float *cosines = floats(count / 2), *sines = floats(count / 2), *dx = floats(count);
    tensor_rope_tables(tokens, width, 500.0f, cosines, sines);
    tensor_rope r = {width, cosines, sines};
    tensor_rope_rows(&r, 0, tokens, true, dy.f, width, dx, width);
    double after = 0, before = 0;
    for (size_t i = 0; i < count; i++) before += x.d[i] * (double)dx[i];
    reference_rope(tokens, 1, width, 500, false, x.d);
    after = weighted_sum(x.d, dy.d, count);
    assert_true(fabs(after - before) < 1e-4);
    free_arrays();
}

// ---- attention

typedef struct attention_case {
    reference_attention a;
    bool rope;
    size_t sequences;
    double *qkv, *turned, *out;
    double *part;  // [tokens, heads + kv_heads, width]
    const double *d_out;
} attention_case;

static size_t attention_stride(const attention_case *c) { return (c->a.heads + 2 * c->a.kv_heads) * c->a.width; }

// Rotates the queries and keys of all sequences.
static void turn_reference(const attention_case *c, bool inverse, double *qkv) {
    size_t tokens = c->a.tokens, stride = attention_stride(c), width = stride - c->a.kv_heads * c->a.width;
    double *part = c->part;
    for (size_t s = 0; c->rope && s < c->sequences; s++, qkv += tokens * stride) {
        for (size_t t = 0; t < tokens; t++) memcpy(part + t * width, qkv + t * stride, width * sizeof *part);
        reference_rope(tokens, c->a.heads + c->a.kv_heads, c->a.width, 10000, inverse, part);
        for (size_t t = 0; t < tokens; t++) memcpy(qkv + t * stride, part + t * width, width * sizeof *part);
    }
}

static double attention_scalar(const void *context) {
    const attention_case *c = context;
    size_t in = c->a.tokens * attention_stride(c), out = c->a.tokens * c->a.heads * c->a.width;
    memcpy(c->turned, c->qkv, c->sequences * in * sizeof *c->qkv);
    turn_reference(c, false, c->turned);
    for (size_t s = 0; s < c->sequences; s++) reference_attention_forward(&c->a, c->turned + s * in, c->out + s * out);
    return weighted_sum(c->out, c->d_out, c->sequences * out);
}

// `keep`: forward keeps the exponentials for the gradient.
static void run_attention(const attention_case *c, tensor_pool *pool, bool keep, const float *qkv, const float *d_out,
                          float *found, float *gradient) {
    const reference_attention *shape = &c->a;
    size_t half = shape->width / 2, rows = c->sequences * shape->heads * shape->tokens;
    tensor_rope rope = {shape->width, NULL, NULL};
    float *cosines = floats(shape->tokens * half), *sines = floats(shape->tokens * half);
    tensor_rope_tables(shape->tokens, shape->width, 10000.0f, cosines, sines);
    rope.cosines = cosines, rope.sines = sines;
    tensor_attention a = {.sequences = c->sequences,
                          .tokens = shape->tokens,
                          .heads = shape->heads,
                          .kv_heads = shape->kv_heads,
                          .width = shape->width,
                          .rope = c->rope ? &rope : NULL,
                          .maximum = floats(rows),
                          .inverse = floats(rows)};
    assert_int_equal(tensor_attention_kept(&a) > 0, shape->tokens <= 128);
    if (keep) a.kept = floats(tensor_attention_kept(&a));
    a.scratch = floats(tensor_attention_scratch(&a) * tensor_pool_threads(pool));
    tensor_attention_forward(pool, &a, qkv, found);
    tensor_attention_input_gradient(pool, &a, gradient, found, d_out);
}

static void check_attention(size_t sequences, reference_attention shape, bool rope, bool differences) {
    attention_case c = {.a = shape, .rope = rope, .sequences = sequences};
    size_t in = shape.tokens * attention_stride(&c), out = shape.tokens * shape.heads * shape.width;
    pair qkv = random_pair(sequences * in, 0, 1.5), d_out = random_pair(sequences * out, 0, 1);
    float *found[POOLS], *gradient[POOLS];
    for (int p = 0; p < POOLS; p++) {
        found[p] = floats(sequences * out), gradient[p] = copy_of(qkv.f, sequences * in);
        run_attention(&c, pools[p], p > 0, qkv.f, d_out.f, found[p], gradient[p]);
    }
    c.a.probabilities = doubles(shape.heads * shape.tokens * shape.tokens);
    c.qkv = qkv.d, c.d_out = d_out.d, c.turned = doubles(sequences * in), c.out = doubles(sequences * out);
    c.part = doubles(sequences * in);
    double *expected = doubles(sequences * in);
    memcpy(c.turned, c.qkv, sequences * in * sizeof *c.qkv);
    turn_reference(&c, false, c.turned);
    for (size_t s = 0; s < sequences; s++) {
        reference_attention_forward(&c.a, c.turned + s * in, c.out + s * out);
        reference_attention_gradient(&c.a, c.turned + s * in, d_out.d + s * out, expected + s * in);
    }
    turn_reference(&c, true, expected);
    expect_near("attention", found[0], c.out, sequences * out);
    expect_near("attention's gradient", gradient[0], expected, sequences * in);
    if (differences)
        expect_finite_difference("attention's gradient, differences", gradient[0], qkv.d, sequences * in,
                                 attention_scalar, &c);
    assert_memory_equal(found[0], found[1], sequences * out * sizeof(float));
    assert_memory_equal(gradient[0], gradient[1], sequences * in * sizeof(float));
    free_arrays();
}

static void test_attention(void **state) {
    (void)state;
    check_attention(2, (reference_attention){6, 4, 2, 3, NULL}, false, true);
    check_attention(1, (reference_attention){9, 3, 3, 4, NULL}, false, true);
    check_attention(1, (reference_attention){1, 2, 1, 5, NULL}, false, true);
    check_attention(2, (reference_attention){67, 2, 1, 8, NULL}, false, false);
    check_attention(1, (reference_attention){64, 3, 1, 16, NULL}, false, false);
    check_attention(1, (reference_attention){128, 4, 2, 32, NULL}, false, false);
    check_attention(3, (reference_attention){200, 4, 4, 32, NULL}, false, false);
    check_attention(1, (reference_attention){300, 2, 1, 50, NULL}, false, false);
    check_attention(1, (reference_attention){131, 1, 1, 65, NULL}, false, false);
}

static void test_attention_with_rotary_positions(void **state) {
    (void)state;
    check_attention(2, (reference_attention){7, 4, 2, 6, NULL}, true, true);
    check_attention(1, (reference_attention){145, 2, 1, 32, NULL}, true, false);
    check_attention(2, (reference_attention){83, 4, 2, 22, NULL}, true, false);
    check_attention(3, (reference_attention){121, 3, 3, 50, NULL}, true, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_rope_gradient),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_with_rotary_positions),
    };
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
