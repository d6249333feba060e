// Models written in each form, and read back.
#include "weights/convert.h"
#include "weights/summary.h"

#include "text.h"
#include "tiny_model.h"

#include <math.h>

static tiny_file file;

static model_file *open_model(const char *path) {
    braid_error error = {0};
    model_file *f = NULL;
    if (model_file_open(path, &f, &error)) fail_msg("%s: %s", path, error.text);
    return f;
}

static void convert_sharded(const char *in, const char *out, weight_type to, uint64_t shard_bytes) {
    braid_error error = {0};
    model_file *f = open_model(in);
    convert_options options = {.to = to, .shard_bytes = shard_bytes};
    if (convert_write(f, out, &options, &error)) fail_msg("%s: %s", out, error.text);
    model_file_close(f);
}

static void convert(const char *in, const char *out, weight_type to) { convert_sharded(in, out, to, 0); }

static float *values_of(const model_file_tensor *t) {
    float *values = malloc(t->weights.rows * t->weights.cols * sizeof *values);
    assert_non_null(values);
    model_file_values(t, values);
    return values;
}

// Element (out, in) of a matrix, however it is stored.
static float element(const model_file_tensor *t, const float *values, size_t row, size_t col) {
    return t->transposed ? values[col * t->weights.cols + row] : values[row * t->weights.cols + col];
}

// The largest difference of two models' values, relative to the largest value of each row.
static float distance(const char *first, const char *second) {
    model_file *a = open_model(first), *b = open_model(second);
    float most = 0;
    assert_int_equal(model_file_count(a), model_file_count(b));
    for (uint32_t i = 0; i < model_file_count(a); i++) {
        const model_file_tensor *x = model_file_at(a, i), *y = model_file_at(b, i);
        float *p = values_of(x), *q = values_of(y);
        size_t rows = x->transposed ? x->weights.cols : x->weights.rows;
        size_t cols = x->transposed ? x->weights.rows : x->weights.cols;
        assert_string_equal(x->name, y->name);
        assert_int_equal(rows * cols, y->weights.rows * y->weights.cols);
        for (size_t r = 0; r < rows; r++) {
            float largest = 0, apart = 0;
            for (size_t k = 0; k < cols; k++) {
                largest = fmaxf(largest, fabsf(element(x, p, r, k)));
                apart = fmaxf(apart, fabsf(element(x, p, r, k) - element(y, q, r, k)));
            }
            most = fmaxf(most, largest > 0 ? apart / largest : apart);
        }
        free(p);
        free(q);
    }
    model_file_close(a);
    model_file_close(b);
    return most;
}

static void write_model(const char *path, const model_config *c, uint64_t seed) {
    tiny_fill(&file, c, seed);
    tiny_write(path, c, &file);
    tiny_free(&file);
}

static bool same_config(const char *first, const char *second) {
    model_file *a = open_model(first), *b = open_model(second);
    model_difference difference = {0};
    bool differ = model_config_differ(model_file_config(a), model_file_config(b), &difference);
    if (differ) print_message("%s: %g and %g\n", difference.member, difference.first, difference.second);
    model_file_close(a);
    model_file_close(b);
    return !differ;
}

// One config of each architecture that GGUF files can have.
static model_config config_of(model_arch arch) {
    model_config c = tiny_llama();
    c.arch = arch;
    const model_row *row = model_row_of(arch);
    if (row->learned_positions) return tiny_gpt();
    c.tied = row->absent.tied;
    if (row->always_qkv_bias) c.qkv_bias = true;
    if (row->may_mlp_bias && arch == MODEL_LLAMA) c.mlp_bias = c.qkv_bias = c.o_bias = true;
    if (arch == MODEL_QWEN3) c.head_dim = 32;
    if (arch == MODEL_LLAMA)
        c.rope = (model_rope){.kind = MODEL_ROPE_LLAMA3,
                              .factor = 8,
                              .low_freq_factor = 1,
                              .high_freq_factor = 4,
                              .original_context = 8192};
    if (arch == MODEL_QWEN2) c.rope = (model_rope){.kind = MODEL_ROPE_YARN, .factor = 4, .original_context = 32};
    if (row->may_unrotated) model_set_layer(c.unrotated, 3), c.layers = 4;
    if (row->mixture) {
        c.experts = 4, c.experts_used = 2, c.normalised_experts = true;
        c.expert_ffn_dim = row->one_ffn_dim ? c.ffn_dim : 32;
    }
    if (row->windows == MODEL_WINDOWS_ALL && arch != MODEL_QWEN3_MOE) {
        c.window = 16;
        for (uint32_t i = 0; i < c.layers; i++) model_set_layer(c.windowed, i);
    }
    if (row->norm_plus_one) {
        c.window = 16, c.embedding_scale = 8, c.attention_scale = 0.25f;
        if (row->local_theta) c.local_rope_theta = 1000;
        if (row->may_attention_softcap) c.attention_softcap = 50;
        if (row->may_logit_softcap) c.logit_softcap = 30;
        model_set_layer(c.windowed, 0), model_set_layer(c.windowed, 2);
    }
    return c;
}

// Directory -> GGUF -> directory -> GGUF: the same model, the same values, and from the second time
// the same bytes.
static void test_every_architecture_by_way_of_gguf(void **state) {
    (void)state;
    for (uint32_t arch = 0; arch < MODEL_ARCHS; arch++) {
        char name[4][32];
        for (int i = 0; i < 4; i++)
            snprintf(name[i], sizeof name[i], "%s-%d%s", model_row_of((model_arch)arch)->type, i, i % 2 ? ".gguf" : "");
        model_config c = config_of((model_arch)arch);
        write_model(name[0], &c, arch);
        convert(name[0], name[1], WEIGHT_F32);
        convert(name[1], name[2], WEIGHT_F32);
        convert(name[2], name[3], WEIGHT_F32);
        if (!same_config(name[0], name[1]) || !same_config(name[0], name[2])) fail_msg("%s: another config", name[0]);
        // Gemma's norms are stored with 1 added
        float most = model_row_of((model_arch)arch)->norm_plus_one ? 1e-6f : 0;
        assert_true(distance(name[0], name[1]) <= most);
        assert_true(distance(name[0], name[2]) <= most);
        if (most > 0) continue;
        tiny_assert_same_file(name[1], name[3]);
    }
}

static void test_again_is_the_same(void **state) {
    (void)state;
    model_config c = tiny_llama();
    write_model("one", &c, 20);
    convert("one", "two", WEIGHT_BF16);
    convert("two", "three", WEIGHT_BF16);
    tiny_assert_same_file("two/model.safetensors", "three/model.safetensors");
    tiny_assert_same_file("two/config.json", "three/config.json");
    convert("one", "q.gguf", WEIGHT_Q8_0);
    convert("q.gguf", "r.gguf", WEIGHT_Q8_0);
    tiny_assert_same_file("q.gguf", "r.gguf");
    convert("one", "m", WEIGHT_MIXED8);
    convert("m", "n", WEIGHT_MIXED8);
    tiny_assert_same_file("m/model.safetensors", "n/model.safetensors");
    tiny_assert_same_file("m/config.json", "n/config.json");
    assert_true(distance("one", "two") <= 1.0f / 256);
    assert_true(distance("one", "q.gguf") <= 0.6f / 127);
    assert_true(distance("one", "m") <= 0.6f / 127);
    model_file *m = open_model("m");
    assert_int_equal(model_file_find(m, "model.layers.0.mlp.up_proj.weight")->weights.type, WEIGHT_MIXED8);
    assert_int_equal(model_file_find(m, "model.norm.weight")->weights.type, WEIGHT_F32);
    assert_int_equal(convert_lossless(m, false), WEIGHT_MIXED8);
    assert_int_equal(convert_lossless(m, true), WEIGHT_F32);
    model_file_close(m);
}

static void test_mixed8_of_transposed(void **state) {
    (void)state;
    model_config c = tiny_gpt();
    write_model("gpt", &c, 21);
    convert("gpt", "m", WEIGHT_MIXED8);
    assert_true(distance("gpt", "m") <= 0.6f / 127);
    model_file *m = open_model("m");
    assert_false(model_file_find(m, "transformer.h.0.attn.c_attn.weight")->transposed);
    model_file_close(m);
    convert("m", "back", WEIGHT_F32);
    assert_true(distance("m", "back") <= 0);
}

static void test_shards(void **state) {
    (void)state;
    model_config c = tiny_llama();
    write_model("one", &c, 22);
    convert_sharded("one", "many", WEIGHT_F32, 40000);
    model_file *m = open_model("many");
    summary s;
    summary_of(m, &s);
    assert_in_range(s.files, 3, 20);
    model_file_close(m);
    assert_true(distance("one", "many") <= 0);
    convert("one", "a", WEIGHT_F32);
    convert("many", "b", WEIGHT_F32);
    tiny_assert_same_file("a/model.safetensors", "b/model.safetensors");
}

static void test_refusals(void **state) {
    (void)state;
    model_config c = tiny_llama();
    braid_error error = {0};
    write_model("one", &c, 23);
    model_file *f = open_model("one");
    convert_options options = {.to = WEIGHT_Q8_0};
    assert_int_equal(convert_write(f, "out", &options, &error), BRAID_ARGUMENT);
    options.to = WEIGHT_MIXED8;
    assert_int_equal(convert_write(f, "out.gguf", &options, &error), BRAID_ARGUMENT);
    options.to = WEIGHT_F32;
    tiny_put_text(".", "there", "x");
    assert_int_equal(convert_write(f, "there", &options, &error), BRAID_STATE);
    assert_text_holds(error.text, "'there' exists; remove it or choose another name");
    assert_int_equal(convert_write(f, "no/where.gguf", &options, &error), BRAID_IO);
    model_file_close(f);
    size_t bytes;
    free(tiny_read("there", &bytes));
    assert_int_equal(bytes, 1);
}

// A conversion that fails halfway leaves nothing behind.
static void test_values_that_do_not_fit(void **state) {
    (void)state;
    model_config c = tiny_llama();
    braid_error error = {0};
    tiny_fill(&file, &c, 24);
    file.values[tiny_index(&file, "model.layers.2.mlp.up_proj.weight")][77] = 1e6f;
    tiny_write("big", &c, &file);
    tiny_free(&file);
    model_file *f = open_model("big");
    convert_options options = {.to = WEIGHT_F16};
    assert_int_equal(convert_write(f, "out", &options, &error), BRAID_NUMERIC);
    assert_text_holds(error.text, "'model.layers.2.mlp.up_proj.weight' has the value 1e+06, which F16 does not hold");
    assert_int_equal(convert_write(f, "out.gguf", &options, &error), BRAID_NUMERIC);
    model_file_close(f);
    DIR *d = opendir(".");
    int entries = 0;
    while (readdir(d)) entries++;
    closedir(d);
    assert_int_equal(entries, 3);  // ., .. and big
}

// llama.cpp would compute another model.
static void test_what_llama_cpp_does_not_compute(void **state) {
    (void)state;
    model_config c = config_of(MODEL_SMOLLM3);
    braid_error error = {0};
    model_set_layer(c.unrotated, 1);
    write_model("one", &c, 25);
    model_file *f = open_model("one");
    convert_options options = {.to = WEIGHT_F32};
    assert_int_equal(convert_write(f, "one.gguf", &options, &error), BRAID_CONFIG);
    assert_text_holds(error.text, "which of its layers are rotated");
    model_file_close(f);
}

static void test_summary(void **state) {
    (void)state;
    model_config c = tiny_llama();
    write_model("one", &c, 26);
    model_file *f = open_model("one");
    summary s;
    summary_of(f, &s);
    assert_int_equal(s.cache_values, 2 * 16 * 2 * 3);  // BSNS, equation 4, with the heads that have keys and values
    assert_int_equal(s.bytes, s.values * 4);
    uint64_t bytes = 0, blocks = 0, cache = 0;
    for (uint32_t i = 0; i < 2; i++) {
        summary_peer p;
        summary_of_peer(f, 2, i, &p);
        assert_int_equal(p.begin, blocks);
        blocks = p.end;
        bytes += p.bytes;
        cache += p.cache_values;
    }
    assert_int_equal(blocks, 3);
    assert_int_equal(bytes, s.bytes);
    assert_int_equal(cache, s.cache_values);
    model_file_close(f);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, tiny_setup, tiny_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_every_architecture_by_way_of_gguf),
        TEST(test_again_is_the_same),
        TEST(test_mixed8_of_transposed),
        TEST(test_shards),
        TEST(test_refusals),
        TEST(test_values_that_do_not_fit),
        TEST(test_what_llama_cpp_does_not_compute),
        TEST(test_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
