// Attention within documents equals the attention of each document alone: output and gradient, with
// kept exponentials and without, with the same bits for any number of threads.
#include "kernel_case.h"

typedef struct document_case {
    size_t sequences, tokens, heads, kv_heads, width;
    bool rope;
    const uint32_t *first;
} document_case;

static size_t stride_of(const document_case *c) { return (c->heads + 2 * c->kv_heads) * c->width; }

static void run_case(const document_case *c, tensor_pool *pool, bool keep, const float *qkv, const float *d_out,
                     float *out, float *gradient) {
    size_t half = c->width / 2, rows = c->sequences * c->heads * c->tokens;
    float *cosines = floats(c->tokens * half + 1), *sines = floats(c->tokens * half + 1);
    tensor_rope rope = {c->width, cosines, sines};
    if (c->rope) tensor_rope_tables(c->tokens, c->width, 10000.0f, cosines, sines);
    tensor_attention a = {.sequences = c->sequences,
                          .tokens = c->tokens,
                          .heads = c->heads,
                          .kv_heads = c->kv_heads,
                          .width = c->width,
                          .rope = c->rope ? &rope : NULL,
                          .maximum = floats(rows),
                          .inverse = floats(rows),
                          .first = c->first};
    if (keep) a.kept = floats(tensor_attention_kept(&a));
    a.scratch = floats(tensor_attention_scratch(&a) * tensor_pool_threads(pool));
    tensor_attention_forward(pool, &a, qkv, out);
    tensor_attention_input_gradient(pool, &a, gradient, out, d_out);
}

static void turn(const document_case *c, size_t tokens, bool inverse, double *part, double *qkv) {
    size_t width = (c->heads + c->kv_heads) * c->width, stride = stride_of(c);
    for (size_t t = 0; t < tokens; t++) memcpy(part + t * width, qkv + t * stride, width * sizeof *part);
    reference_rope(tokens, c->heads + c->kv_heads, c->width, 10000, inverse, part);
    for (size_t t = 0; t < tokens; t++) memcpy(qkv + t * stride, part + t * width, width * sizeof *part);
}

// Each document as a sequence of its own. Its rotary positions begin at 0: only distances matter.
static void reference_documents(const document_case *c, const double *qkv, const double *d_out, double *out,
                                double *d_qkv) {
    size_t rows = c->sequences * c->tokens, stride = stride_of(c), wide = c->heads * c->width;
    double *turned = doubles(c->tokens * stride), *part = doubles(c->tokens * stride),
           *probabilities = doubles(c->heads * c->tokens * c->tokens);
    for (size_t begin = 0, end; begin < rows; begin = end) {
        for (end = begin + 1; end < rows && end % c->tokens != 0 && c->first[end] == c->first[begin];) end++;
        size_t tokens = end - begin;
        reference_attention a = {tokens, c->heads, c->kv_heads, c->width, probabilities};
        memcpy(turned, qkv + begin * stride, tokens * stride * sizeof *turned);
        if (c->rope) turn(c, tokens, false, part, turned);
        reference_attention_forward(&a, turned, out + begin * wide);
        reference_attention_gradient(&a, turned, d_out + begin * wide, d_qkv + begin * stride);
        if (c->rope) turn(c, tokens, true, part, d_qkv + begin * stride);
    }
}

// Documents of 1 to `most` tokens; the first of a sequence may have begun earlier.
static const uint32_t *documents(size_t sequences, size_t tokens, uint32_t most) {
    uint32_t *first = (uint32_t *)(void *)floats(sequences * tokens);
    rng r = {tokens + most};
    for (size_t s = 0; s < sequences; s++) {
        uint32_t begin = 0, end = 0;
        for (uint32_t t = 0; t < tokens; t++) {
            if (t == end) begin = t, end = t + 1 + (uint32_t)rng_below(&r, most);
            first[s * tokens + t] = begin;
        }
    }
    return first;
}

static void check(size_t sequences, size_t tokens, size_t heads, size_t kv_heads, size_t width, bool rope,
                  uint32_t most) {
    document_case c = {sequences, tokens, heads, kv_heads, width, rope, documents(sequences, tokens, most)};
    size_t in = sequences * tokens * stride_of(&c), out = sequences * tokens * heads * width;
    pair qkv = random_pair(in, 0, 1.5), d_out = random_pair(out, 0, 1);
    float *found[POOLS], *gradient[POOLS];
    for (int p = 0; p < POOLS; p++) {
        found[p] = floats(out), gradient[p] = copy_of(qkv.f, in);
        run_case(&c, pools[p], p > 0, qkv.f, d_out.f, found[p], gradient[p]);
    }
    double *expected = doubles(out), *d_expected = doubles(in);
    reference_documents(&c, qkv.d, d_out.d, expected, d_expected);
    expect_near("attention within documents", found[0], expected, out);
    expect_near("its gradient", gradient[0], d_expected, in);
    for (int p = 1; p < POOLS; p++) {
        assert_memory_equal(found[0], found[p], out * sizeof(float));
        assert_memory_equal(gradient[0], gradient[p], in * sizeof(float));
    }
    free_arrays();
}

static void documents_attend_to_themselves(void **state) {
    (void)state;
    check(2, 9, 2, 1, 4, false, 3);
    check(1, 128, 4, 2, 32, false, 40);
    check(2, 128, 2, 2, 16, true, 100);
    check(1, 300, 2, 1, 32, true, 30);
    check(2, 700, 2, 1, 16, true, 400);
    check(1, 530, 1, 1, 65, false, 1);
    check(1, 600, 2, 1, 24, true, 600);
}

// Without boundaries the bits are those of the attention without documents.
static void one_document_changes_no_bits(void **state) {
    (void)state;
    for (size_t tokens = 60; tokens < 400; tokens += 170) {
        document_case c = {1, tokens, 2, 1, 32, true, documents(1, tokens, 1)}, plain;
        memset((void *)(uintptr_t)c.first, 0, tokens * sizeof *c.first);
        plain = c;
        plain.first = NULL;
        size_t in = tokens * stride_of(&c), out = tokens * 64;
        pair qkv = random_pair(in, 0, 1.5), d_out = random_pair(out, 0, 1);
        float *found[2] = {floats(out), floats(out)}, *gradient[2] = {copy_of(qkv.f, in), copy_of(qkv.f, in)};
        run_case(&c, pools[0], true, qkv.f, d_out.f, found[0], gradient[0]);
        run_case(&plain, pools[0], true, qkv.f, d_out.f, found[1], gradient[1]);
        assert_memory_equal(found[0], found[1], out * sizeof(float));
        assert_memory_equal(gradient[0], gradient[1], in * sizeof(float));
        free_arrays();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_attend_to_themselves),
        cmocka_unit_test(one_document_changes_no_bits),
    };
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
