// GGUF files: what is refused, and by which sentence.
#define _GNU_SOURCE  // memmem
#include "weights/gguf_config.h"
#include "weights/gguf_out.h"
#include "weights/model_file.h"

#include "text.h"
#include "tiny_model.h"

// A file of version 3 with a few keys and tensors; `data` bytes of tensors follow the header.
static void begin(gguf_out *o) {
    *o = (gguf_out){0};
    gguf_out_begin(o);
    gguf_out_text(o, "general.architecture", "llama", 5);
    gguf_out_u32(o, "llama.block_count", 2);
    gguf_out_array(o, "list", GGUF_STRING, 2);
    gguf_out_string(o, "one", 3);
    gguf_out_string(o, "", 0);
}

static uint8_t *end(gguf_out *o, size_t *bytes) {
    assert_true(gguf_out_end(o));
    *bytes = o->length + o->offset;
    uint8_t *file = calloc(1, *bytes);
    assert_non_null(file);
    memcpy(file, o->at, o->length);
    gguf_out_free(o);
    return file;
}

static uint8_t *example(size_t *bytes) {
    gguf_out o;
    begin(&o);
    gguf_out_tensor(&o, "a.weight", WEIGHT_Q8_0, (uint64_t[]){64, 3}, 2);
    gguf_out_tensor(&o, "b.weight", WEIGHT_F32, (uint64_t[]){5}, 1);
    return end(&o, bytes);
}

static void parse_fails(const uint8_t *data, size_t bytes, const char *text) {
    gguf g;
    braid_error error = {0};
    assert_int_not_equal(gguf_parse(data, bytes, "x.gguf", &g, &error), BRAID_OK);
    assert_text_holds(error.text, text);
    assert_text_holds(error.text, "x.gguf");
}

static void test_keys_and_tensors(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *data = example(&bytes);
    gguf g;
    assert_int_equal(gguf_parse(data, bytes, "x", &g, NULL), BRAID_OK);
    assert_int_equal(g.version, 3);
    assert_int_equal(g.key_count, 3);
    assert_int_equal(g.tensor_count, 2);
    assert_true(gguf_is_text(gguf_find(&g, "general.architecture"), "llama"));
    uint64_t n;
    assert_true(gguf_u64(gguf_find(&g, "llama.block_count"), &n));
    assert_int_equal(n, 2);
    assert_null(gguf_find(&g, "llama.block"));
    const gguf_key *list = gguf_find(&g, "list");
    const uint8_t *at = list->at;
    assert_true(list->array);
    assert_int_equal(gguf_next_string(&at).length, 3);
    assert_int_equal(gguf_next_string(&at).length, 0);
    assert_string_equal(g.tensor[0].name, "a.weight");
    assert_int_equal(g.tensor[0].bytes, 6 * 34);
    assert_int_equal(g.tensor[1].offset % 32, 0);
    assert_int_equal(g.tensor[1].offset - g.tensor[0].offset, 224);
    gguf_free(&g);
    free(data);
}

// Every cut is refused, except one within the padding behind the last tensor, which llama.cpp does
// not need either.
static void test_truncated(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *data = example(&bytes);
    for (size_t cut = 0; cut < bytes - 12; cut++) {
        gguf g;
        braid_error error = {0};
        assert_int_not_equal(gguf_parse(data, cut, "x", &g, &error), BRAID_OK);
        assert_int_not_equal(error.text[0], 0);
    }
    gguf g;
    assert_int_equal(gguf_parse(data, bytes - 12, "x", &g, NULL), BRAID_OK);
    gguf_free(&g);
    parse_fails(data, bytes - 13, "the tensor 'b.weight' ends outside the file; it is truncated or damaged");
    free(data);
}

static void test_versions(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *data = example(&bytes);
    gguf g;
    data[4] = 2;
    assert_int_equal(gguf_parse(data, bytes, "x", &g, NULL), BRAID_OK);
    gguf_free(&g);
    data[4] = 1;
    parse_fails(data, bytes, "GGUF version 1, braid reads 2 and 3");
    data[4] = 4;
    parse_fails(data, bytes, "GGUF version 4");
    data[4] = 0;
    parse_fails(data, bytes, "GGUF version 0");
    data[7] = 3;
    parse_fails(data, bytes, "a big-endian GGUF file");
    memcpy(data, "GGML", 4);
    parse_fails(data, bytes, "not a GGUF file");
    free(data);
}

static void test_doubles(void **state) {
    (void)state;
    size_t bytes;
    gguf_out o;
    begin(&o);
    gguf_out_u32(&o, "llama.block_count", 2);
    uint8_t *data = end(&o, &bytes);
    parse_fails(data, bytes, "the key 'llama.block_count' stands twice");
    free(data);
    begin(&o);
    gguf_out_tensor(&o, "a.weight", WEIGHT_F32, (uint64_t[]){8}, 1);
    gguf_out_tensor(&o, "a.weight", WEIGHT_F32, (uint64_t[]){8}, 1);
    data = end(&o, &bytes);
    parse_fails(data, bytes, "the tensor 'a.weight' stands twice");
    free(data);
}

// Finds the record of a tensor in the header: its dimensions are behind the name.
static uint8_t *behind_name(uint8_t *data, size_t bytes, const char *name) {
    uint8_t *at = memmem(data, bytes, name, strlen(name));
    assert_non_null(at);
    return at + strlen(name);
}

static void test_tensors(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *data = example(&bytes), *b = behind_name(data, bytes, "b.weight");
    const uint32_t type = 39, unknown = 77;
    uint64_t offset = 64, shape = 64 * 3 + 1;
    uint8_t *kind = b + 4 + 8, *place = kind + 4, saved[8];
    memcpy(saved, place, 8);
    memcpy(place, &offset, 8);
    parse_fails(data, bytes, "the tensors 'a.weight' and 'b.weight' overlap");
    offset = 5;
    memcpy(place, &offset, 8);
    parse_fails(data, bytes, "the tensor 'b.weight' is at 5, which is no multiple of 32");
    offset = UINT64_MAX - 31;
    memcpy(place, &offset, 8);
    parse_fails(data, bytes, "'b.weight' ends outside the file");
    memcpy(place, saved, 8);
    memcpy(kind, &type, 4);
    parse_fails(data, bytes, "'b.weight' has the type MXFP4 (number 39), which braid does not read");
    memcpy(kind, &unknown, 4);
    parse_fails(data, bytes, "'b.weight' has the type unknown (number 77)");
    b[0] = 5;
    parse_fails(data, bytes, "'b.weight' has 5 dimensions");
    b[0] = 0;
    parse_fails(data, bytes, "'b.weight' has 0 dimensions");
    uint8_t *a = behind_name(data, bytes, "a.weight");
    memcpy(a + 4, &shape, 8);
    parse_fails(data, bytes, "'a.weight' of type Q8_0 has rows of 193 elements, which its blocks of 32 do not fill");
    shape = 0;
    memcpy(a + 4, &shape, 8);
    parse_fails(data, bytes, "'a.weight' has no usable shape");
    free(data);
}

static void test_alignment(void **state) {
    (void)state;
    size_t bytes;
    gguf_out o;
    const uint32_t bad[] = {0, 24, 33};
    for (int i = 0; i < 3; i++) {
        begin(&o);
        gguf_out_u32(&o, "general.alignment", bad[i]);
        uint8_t *data = end(&o, &bytes);
        parse_fails(data, bytes, "'general.alignment' is not a u32 and a power of two");
        free(data);
    }
    begin(&o);
    gguf_out_text(&o, "general.alignment", "32", 2);
    uint8_t *data = end(&o, &bytes);
    parse_fails(data, bytes, "'general.alignment'");
    free(data);
    // the start of the tensors' bytes moves, too
    begin(&o);
    gguf_out_u32(&o, "general.alignment", 4);
    gguf_out_tensor(&o, "a.weight", WEIGHT_F32, (uint64_t[]){8}, 1);
    size_t header = o.length;
    data = end(&o, &bytes);
    gguf g;
    assert_int_equal(gguf_parse(data, bytes, "x", &g, NULL), BRAID_OK);
    assert_int_equal(g.tensor[0].offset, (header + 3) / 4 * 4);
    gguf_free(&g);
    free(data);
}

static void test_names_and_arrays(void **state) {
    (void)state;
    size_t bytes;
    gguf_out o;
    begin(&o);
    gguf_out_u32(&o, "bad\nname", 1);
    uint8_t *data = end(&o, &bytes);
    parse_fails(data, bytes, "a key has no usable name");
    free(data);
    begin(&o);
    gguf_out_array(&o, "nested", GGUF_ARRAY, 0);
    data = end(&o, &bytes);
    parse_fails(data, bytes, "'nested' is an array of arrays");
    free(data);
    begin(&o);
    gguf_out_array(&o, "long", GGUF_U64, UINT64_MAX / 4);
    data = end(&o, &bytes);
    parse_fails(data, bytes, "the value of the key 'long' ends outside the file");
    free(data);
    begin(&o);
    gguf_out_array(&o, "odd", (gguf_type)99, 0);
    data = end(&o, &bytes);
    parse_fails(data, bytes, "'odd' has the unknown type 99");
    free(data);
    // counts that the file is too short for
    begin(&o);
    data = end(&o, &bytes);
    uint64_t many = 60000;
    memcpy(data + 8, &many, 8);
    parse_fails(data, bytes, "too short for its counts");
    many = UINT64_MAX;
    memcpy(data + 16, &many, 8);
    parse_fails(data, bytes, "at most");
    free(data);
}

// ---- configs

static braid_err config_of(gguf_out *o, const gguf_facts *facts, model_config *c, braid_error *error) {
    size_t bytes;
    gguf g;
    uint8_t *data = end(o, &bytes);
    assert_int_equal(gguf_parse(data, bytes, "x", &g, NULL), BRAID_OK);
    braid_err err = gguf_config_read(&g, facts, "x.gguf", c, error);
    gguf_free(&g);
    free(data);
    return err;
}

static void llama_keys(gguf_out *o, const char *skipped) {
    static const struct {
        const char *name;
        uint32_t value;
    } counts[] = {{"llama.context_length", 64},
                  {"llama.embedding_length", 32},
                  {"llama.block_count", 2},
                  {"llama.feed_forward_length", 48},
                  {"llama.attention.head_count", 4}};
    *o = (gguf_out){0};
    gguf_out_begin(o);
    gguf_out_text(o, "general.architecture", "llama", 5);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strcmp(counts[i].name, skipped) != 0) gguf_out_u32(o, counts[i].name, counts[i].value);
    if (strcmp("llama.attention.layer_norm_rms_epsilon", skipped) != 0)
        gguf_out_f32(o, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static const gguf_facts facts = {.vocab = 100, .tied = true};

static void test_configs(void **state) {
    (void)state;
    static const char *const needed[] = {"llama.context_length",       "llama.embedding_length",
                                         "llama.block_count",          "llama.feed_forward_length",
                                         "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"};
    gguf_out o;
    model_config c;
    braid_error error = {0};
    llama_keys(&o, "");
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_OK);
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.vocab, 100);
    assert_true(c.rope_theta >= 10000 && c.rope_theta <= 10000);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char text[96];
        llama_keys(&o, needed[i]);
        assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_FORMAT);
        snprintf(text, sizeof text, "the key '%s' is missing", needed[i]);
        assert_text_holds(error.text, text);
    }
    // counts for each layer, all equal
    llama_keys(&o, "");
    gguf_out_array(&o, "llama.attention.head_count_kv", GGUF_I32, 2);
    gguf_out_put(&o, (const int32_t[]){2, 2}, 8);
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_OK);
    assert_int_equal(c.kv_heads, 2);
    llama_keys(&o, "");
    gguf_out_array(&o, "llama.attention.head_count_kv", GGUF_I32, 2);
    gguf_out_put(&o, (const int32_t[]){2, 4}, 8);
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_FORMAT);
    assert_text_holds(error.text, "differs from layer to layer");
}

static void test_unknown_configs(void **state) {
    (void)state;
    gguf_out o = {0};
    model_config c;
    braid_error error = {0};
    gguf_out_begin(&o);
    gguf_out_text(&o, "general.architecture", "mamba\n", 6);
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_CONFIG);
    assert_text_holds(error.text, "the key 'general.architecture' is 'mamba?', which braid does not compute");
    o = (gguf_out){0};
    gguf_out_begin(&o);
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_FORMAT);
    assert_text_holds(error.text, "'general.architecture' is missing");
    llama_keys(&o, "");
    gguf_out_text(&o, "llama.rope.scaling.type", "longrope", 8);
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_FORMAT);
    assert_text_holds(error.text, "'llama.rope.scaling.type' has a value that braid does not compute");
    llama_keys(&o, "");
    gguf_out_u32(&o, "llama.rope.dimension_count", 4);
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_FORMAT);
    assert_text_holds(error.text, "'llama.rope.dimension_count' is not the width of a head");
    llama_keys(&o, "");
    gguf_out_u32(&o, "llama.attention.value_length", 4);
    assert_int_equal(config_of(&o, &facts, &c, &error), BRAID_FORMAT);
    assert_text_holds(error.text, "'llama.attention.value_length' is not attention.key_length");
}

// rope_freqs.weight has the factors of LLaMA 3.1; other factors are refused, and all ones mean
// none.
static void test_rope_factors(void **state) {
    (void)state;
    gguf_out o;
    model_config c = tiny_llama(), read;
    braid_error error = {0};
    float factors[32];
    c.dim = 256, c.heads = 4;
    c.rope = (model_rope){
        .kind = MODEL_ROPE_LLAMA3, .factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
    gguf_rope_factors(&c, factors);
    assert_true(factors[0] >= 1 && factors[0] <= 1);
    assert_true(factors[31] >= 32 && factors[31] <= 32);
    gguf_facts with = {.vocab = 100, .rope_freqs = factors, .rope_pairs = 32};
    for (int i = 0; i < 3; i++) {
        llama_keys(&o, "llama.embedding_length");
        gguf_out_u32(&o, "llama.embedding_length", 256);
        braid_err err = config_of(&o, &with, &read, &error);
        assert_int_equal(err, i == 1 ? BRAID_FORMAT : BRAID_OK);
        if (i == 0) assert_int_equal(read.rope.kind, MODEL_ROPE_LLAMA3);
        if (i == 0) assert_true(read.rope.factor >= 32 && read.rope.factor <= 32);
        if (i == 1) assert_text_holds(error.text, "'rope_freqs.weight' has other factors");
        if (i == 2) assert_int_equal(read.rope.kind, MODEL_ROPE_PLAIN);
        factors[20] = 7;
        for (int k = 0; k < 32 && i == 1; k++) factors[k] = 1;
    }
}

// ---- shards

static void put_shard(const char *path, const char *name, uint32_t number, uint32_t count, uint32_t total,
                      uint32_t alignment) {
    gguf_out o = {0};
    size_t bytes;
    gguf_out_begin(&o);
    if (number == 0) gguf_out_text(&o, "general.architecture", "llama", 5);
    if (alignment) gguf_out_u32(&o, "general.alignment", alignment);
    gguf_out_u32(&o, "split.no", number);
    gguf_out_u32(&o, "split.count", count);
    gguf_out_u32(&o, "split.tensors.count", total);
    gguf_out_tensor(&o, name, WEIGHT_F32, (uint64_t[]){8}, 1);
    uint8_t *data = end(&o, &bytes);
    tiny_put(".", path, data, bytes);
    free(data);
}

static void open_fails(const char *path, const char *text) {
    model_file *f = NULL;
    braid_error error = {0};
    assert_int_not_equal(model_file_open(path, &f, &error), BRAID_OK);
    assert_text_holds(error.text, text);
}

static void test_shards(void **state) {
    (void)state;
    put_shard("m-00001-of-00002.gguf", "a", 0, 2, 2, 0);
    open_fails("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    put_shard("m-00002-of-00002.gguf", "b", 1, 2, 2, 0);
    open_fails("m-00001-of-00002.gguf", "'token_embd.weight' is missing");  // the shards themselves are fine
    open_fails("m-00002-of-00002.gguf", "is shard 2 of a model; name the first one, m-00001-of-00002.gguf");
    put_shard("m-00002-of-00002.gguf", "a", 1, 2, 2, 0);
    open_fails("m-00001-of-00002.gguf", "the tensor 'a' is in two shards");
    put_shard("m-00002-of-00002.gguf", "b", 0, 2, 2, 0);
    open_fails("m-00001-of-00002.gguf", "do not say shard 2 of 2");
    put_shard("m-00001-of-00002.gguf", "a", 0, 2, 3, 0);
    put_shard("m-00002-of-00002.gguf", "b", 1, 2, 3, 0);
    open_fails("m-00001-of-00002.gguf", "its shards have 2 tensors, its key split.tensors.count says 3");
    put_shard("m-00001-of-00002.gguf", "a", 0, 2, 2, 16);
    open_fails("m-00001-of-00002.gguf", "does not name the first shard's alignment (16)");
    put_shard("renamed.gguf", "a", 0, 2, 2, 0);
    open_fails("renamed.gguf", "its name does not end with -00001-of-00002.gguf");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, tiny_setup, tiny_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_and_tensors),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_names_and_arrays),
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_unknown_configs),
        cmocka_unit_test(test_rope_factors),
        TEST(test_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
