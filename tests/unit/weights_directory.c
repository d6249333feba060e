// Models in directories, as transformers, safetensors and braid write them.
#include "weights/model_file.h"

#include "text.h"
#include "tiny_model.h"

#include <math.h>
#include <sys/mman.h>

static void open_fails(const char *path, braid_err code, const char *text) {
    braid_error error = {0};
    model_file *f = NULL;
    assert_int_equal(model_file_open(path, &f, &error), code);
    assert_text_holds(error.text, text);
    assert_null(f);
}

static model_file *open_model(const char *path) {
    braid_error error = {0};
    model_file *f = NULL;
    if (model_file_open(path, &f, &error)) fail_msg("%s: %s", path, error.text);
    return f;
}

static void assert_values(const model_file *m, const tiny_file *f, const char *name, uint32_t stored) {
    const model_file_tensor *t = model_file_find(m, name);
    assert_non_null(t);
    size_t n = t->weights.rows * t->weights.cols;
    assert_int_equal(n, tiny_elements(&f->entry[stored]));
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    model_file_values(t, values);
    assert_memory_equal(values, f->values[stored], n * sizeof *values);
    free(values);
}

static void assert_all_values(const model_file *m, const tiny_file *f) {
    assert_int_equal(model_file_count(m), f->count);
    for (uint32_t i = 0; i < f->count; i++) {
        assert_string_equal(model_file_at(m, i)->name, f->entry[i].name);
        assert_values(m, f, f->entry[i].name, i);
    }
}

static tiny_file file;

static void test_one_file(void **state) {
    (void)state;
    model_config configs[] = {tiny_llama(), tiny_gpt()};
    for (int i = 0; i < 2; i++) {
        const char *path = i ? "gpt" : "llama";
        tiny_fill(&file, &configs[i], 1);
        tiny_write(path, &configs[i], &file);
        model_file *m = open_model(path);
        assert_all_values(m, &file);
        assert_int_equal(model_file_config(m)->dim, 64);
        assert_null(model_file_find(m, "lm_head.weight"));
        assert_null(model_file_chat_template(m));
        model_file_close(m);
        tiny_free(&file);
    }
    model_file *m = open_model("gpt");
    assert_true(model_file_find(m, "transformer.h.0.attn.c_attn.weight")->transposed);
    assert_false(model_file_find(m, "transformer.wte.weight")->transposed);
    tokenizer *t;
    braid_error error = {0};
    assert_int_equal(model_file_tokenizer(m, &t, &error), BRAID_CONFIG);
    model_file_close(m);
}

static void test_half_types(void **state) {
    (void)state;
    model_config c = tiny_llama();
    tiny_fill(&file, &c, 2);
    for (uint32_t i = 0; i < file.count; i++) file.entry[i].dtype = i % 2 ? SAFETENSORS_F16 : SAFETENSORS_BF16;
    tiny_write("half", &c, &file);
    model_file *m = open_model("half");
    float values[64];
    assert_int_equal(model_file_at(m, 1)->weights.type, WEIGHT_F16);
    assert_int_equal(model_file_at(m, 0)->weights.type, WEIGHT_BF16);
    weight_rows(&model_file_at(m, 0)->weights, 5, 1, values);
    for (int i = 0; i < 64; i++)
        assert_true(fabsf(values[i] - file.values[0][5 * 64 + i]) <= fabsf(file.values[0][5 * 64 + i]) / 256);
    model_file_close(m);
    tiny_free(&file);
}

// Two files; the index names the wrong one for each tensor, as transformers allows.
static void put_shards(const char *directory) {
    char index[1024];
    tiny_put_weights(directory, "model-00001-of-00002.safetensors", &file, 0, 5, NULL, 0);
    tiny_put_weights(directory, "model-00002-of-00002.safetensors", &file, 5, file.count - 5, NULL, 0);
    snprintf(index, sizeof index,
             "{\"weight_map\": {\"a\": \"model-00002-of-00002.safetensors\", \"%s\": "
             "\"model-00002-of-00002.safetensors\", \"b\": \"model-00001-of-00002.safetensors\"}}",
             file.entry[0].name);
    tiny_put_text(directory, "model.safetensors.index.json", index);
}

static void test_shards(void **state) {
    (void)state;
    model_config c = tiny_llama();
    tiny_fill(&file, &c, 3);
    tiny_directory("shards");
    tiny_put_config("shards", &c);
    put_shards("shards");
    model_file *m = open_model("shards");
    assert_all_values(m, &file);
    model_file_close(m);
    // both forms at once: transformers would silently load the single file
    tiny_put_weights("shards", "model.safetensors", &file, 0, file.count, NULL, 0);
    open_fails("shards", BRAID_FORMAT, "one of them is older");
    // an index of missing files is no contradiction
    unlink("shards/model-00002-of-00002.safetensors");
    m = open_model("shards");
    assert_all_values(m, &file);
    model_file_close(m);
    unlink("shards/model.safetensors");
    open_fails("shards", BRAID_IO, "model-00002-of-00002.safetensors");
    tiny_put_text("shards", "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../model.safetensors\"}}");
    open_fails("shards", BRAID_FORMAT, "name of a safetensors file in the same directory");
    tiny_put_text("shards", "model.safetensors.index.json", "{}");
    open_fails("shards", BRAID_FORMAT, "'weight_map'");
    unlink("shards/model.safetensors.index.json");
    tiny_put_text("shards", "pytorch_model.bin", "x");
    open_fails("shards", BRAID_FORMAT, "save it as safetensors");
    tiny_free(&file);
}

// transformers 5.23 reads names without "model." and with one too many.
static void test_spellings(void **state) {
    (void)state;
    model_config c = tiny_llama(), g = tiny_gpt();
    for (int i = 0; i < 3; i++) {
        char path[24];
        snprintf(path, sizeof path, "spelt%d", i);
        tiny_fill(&file, i == 2 ? &g : &c, 4);
        for (uint32_t k = 0; k < file.count; k++) {
            const char *from = i == 1 ? file.name[k] : strchr(file.name[k], '.') + 1;
            size_t length = strlen(from) + 1;
            memmove(file.name[k] + (i == 1 ? 6 : 0), from, length);
            if (i == 1) memcpy(file.name[k], "model.", 6);
        }
        tiny_write(path, i == 2 ? &g : &c, &file);
        model_file *m = open_model(path);
        for (uint32_t k = 0; k < file.count; k++) assert_values(m, &file, model_file_at(m, k)->name, k);
        model_file_close(m);
        tiny_free(&file);
    }
}

// Of a tied pair either one is enough; two of different values are no pair.
static void test_tied(void **state) {
    (void)state;
    model_config c = tiny_llama();
    rng r = {50};
    tiny_fill(&file, &c, 5);
    uint32_t embedding = tiny_index(&file, "model.embed_tokens.weight");
    snprintf(file.name[embedding], sizeof file.name[0], "lm_head.weight");
    tiny_write("head", &c, &file);
    model_file *m = open_model("head");
    assert_values(m, &file, "model.embed_tokens.weight", embedding);
    assert_true(model_file_config(m)->tied);
    model_file_close(m);

    snprintf(file.name[embedding], sizeof file.name[0], "model.embed_tokens.weight");
    tiny_add(&file, "lm_head.weight", 2, c.vocab, c.dim, &r);
    tiny_write("different", &c, &file);
    m = open_model("different");
    assert_false(model_file_config(m)->tied);
    assert_values(m, &file, "lm_head.weight", file.count - 1);
    model_file_close(m);

    memcpy(file.values[file.count - 1], file.values[embedding], (size_t)c.vocab * c.dim * sizeof(float));
    tiny_write("equal", &c, &file);
    m = open_model("equal");
    assert_true(model_file_config(m)->tied);
    assert_null(model_file_find(m, "lm_head.weight"));
    model_file_close(m);
    tiny_free(&file);
}

// safetensors.torch.save_model keeps one of two equal tensors, and notes the other's name.
static void test_alias(void **state) {
    (void)state;
    model_config c = tiny_llama();
    c.tied = false;
    tiny_fill(&file, &c, 6);
    uint32_t embedding = tiny_index(&file, "model.embed_tokens.weight"), head = tiny_index(&file, "lm_head.weight");
    assert_int_equal(embedding, 0);
    const safetensors_note alias = {"model.embed_tokens.weight", "lm_head.weight"};
    tiny_directory("alias");
    tiny_put_config("alias", &c);
    tiny_put_weights("alias", "model.safetensors", &file, 1, file.count - 1, &alias, 1);
    model_file *m = open_model("alias");
    assert_values(m, &file, "model.embed_tokens.weight", head);
    model_file_close(m);
    tiny_put_weights("alias", "model.safetensors", &file, 1, file.count - 1, NULL, 0);
    open_fails("alias", BRAID_FORMAT, "'model.embed_tokens.weight' is missing");
    tiny_free(&file);
}

static void test_bad_tensors(void **state) {
    (void)state;
    model_config c = tiny_llama();
    rng r = {7};
    tiny_fill(&file, &c, 7);
    uint32_t count = file.count, up = tiny_index(&file, "model.layers.1.mlp.up_proj.weight");
    tiny_write("bad", &c, &file);
    tiny_put_weights("bad", "model.safetensors", &file, 0, count - 1, NULL, 0);
    open_fails("bad", BRAID_FORMAT, "the tensor 'model.norm.weight' is missing");
    tiny_add(&file, "model.layers.3.mlp.up_proj.weight", 2, 96, 64, &r);
    tiny_put_weights("bad", "model.safetensors", &file, 0, count + 1, NULL, 0);
    open_fails("bad", BRAID_FORMAT, "'model.layers.3.mlp.up_proj.weight' is no part of the model");
    snprintf(file.name[count], sizeof file.name[0], "model.layers.0.self_attn.rotary_emb.inv_freq");
    tiny_put_weights("bad", "model.safetensors", &file, 0, count + 1, NULL, 0);
    model_file_close(open_model("bad"));
    file.entry[up].shape[0] = 64, file.entry[up].shape[1] = 96;
    tiny_put_weights("bad", "model.safetensors", &file, 0, count, NULL, 0);
    open_fails("bad", BRAID_FORMAT,
               "'model.layers.1.mlp.up_proj.weight' has the shape [64, 96], config.json says [96, 64]");
    tiny_free(&file);
}

static void test_bad_files(void **state) {
    (void)state;
    model_config c = tiny_llama();
    tiny_fill(&file, &c, 8);
    tiny_write("bad", &c, &file);
    size_t bytes;
    uint8_t *data = tiny_read("bad/model.safetensors", &bytes);
    tiny_put("bad", "model.safetensors", data, bytes - 100);
    open_fails("bad", BRAID_FORMAT, "truncated");
    tiny_put("bad", "model.safetensors", data, 5);
    open_fails("bad", BRAID_FORMAT, "not a safetensors file, or truncated");
    char *dtype = strstr((char *)data + 8, "F32");
    memcpy(dtype, "I32", 3);
    tiny_put("bad", "model.safetensors", data, bytes);
    open_fails("bad", BRAID_FORMAT, "has the dtype I32; braid reads F32, F16 and BF16");
    free(data);
    tiny_put_text("bad", "config.json", "{\"model_type\": \"bert\"}");
    open_fails("bad", BRAID_FORMAT, "'model_type' is bert");
    tiny_put_text("bad", "config.json",
                  "{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"gptq\"}}");
    open_fails("bad", BRAID_CONFIG, "'quantization_config' says gptq");
    unlink("bad/config.json");
    open_fails("bad", BRAID_FORMAT, "has no config.json");
    open_fails("nowhere", BRAID_IO, "nowhere");
    tiny_free(&file);
}

static void test_templates(void **state) {
    (void)state;
    model_config c = tiny_llama();
    tiny_fill(&file, &c, 9);
    tiny_write("chat", &c, &file);
    tiny_put_text("chat", "tokenizer_config.json", "{\"chat_template\": \"key \\u00e9\"}");
    model_file *m = open_model("chat");
    assert_string_equal(model_file_chat_template(m), "key \xc3\xa9");
    model_file_close(m);
    tiny_put_text("chat", "tokenizer_config.json",
                  "{\"chat_template\": [{\"name\": \"tool\", \"template\": \"t\"}, {\"name\": \"default\", "
                  "\"template\": \"d\"}]}");
    m = open_model("chat");
    assert_string_equal(model_file_chat_template(m), "d");
    model_file_close(m);
    tiny_put_text("chat", "chat_template.jinja", "from the file");
    m = open_model("chat");
    assert_string_equal(model_file_chat_template(m), "from the file");
    model_file_close(m);
    tiny_free(&file);
}

// A directory of checkpoints: `latest` is a link, or a file with a name.
static void test_latest(void **state) {
    (void)state;
    model_config c = tiny_llama();
    tiny_fill(&file, &c, 10);
    tiny_directory("run");
    tiny_write("run/step-000004", &c, &file);
    assert_int_equal(symlink("step-000004", "run/latest"), 0);
    model_file_close(open_model("run"));
    unlink("run/latest");
    tiny_put_text("run", "latest", "step-000004\n");
    model_file_close(open_model("run"));
    tiny_put_text("run", "latest", "../run/step-000004");
    open_fails("run", BRAID_FORMAT, "has no config.json");
    tiny_free(&file);
}

// The pages of `t` that are in memory.
static size_t resident(const model_file_tensor *t, size_t page) {
    uintptr_t from = (uintptr_t)t->weights.data / page * page;
    size_t bytes = (uintptr_t)t->weights.data + weight_bytes(t->weights.type, t->weights.rows, t->weights.cols) - from;
    size_t pages = (bytes + page - 1) / page, held = 0;
    unsigned char *in = malloc(pages);
    assert_non_null(in);
    assert_int_equal(mincore((void *)from, pages * page, in), 0);
    for (size_t i = 0; i < pages; i++) held += in[i] & 1;
    free(in);
    return held;
}

// Opening a model and reading one block leaves the other blocks' pages on the disk. A file system
// in memory has them all in memory, and says nothing.
static void test_only_what_is_read_is_loaded(void **state) {
    (void)state;
    model_config c = tiny_llama();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    c.dim = 256, c.ffn_dim = 2048;
    tiny_fill(&file, &c, 11);
    tiny_write("large", &c, &file);
    tiny_free(&file);
    int fd = open("large/model.safetensors", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
    model_file *m = open_model("large");
    const model_file_tensor *first = model_file_find(m, "model.layers.0.mlp.up_proj.weight");
    const model_file_tensor *last = model_file_find(m, "model.layers.2.mlp.down_proj.weight");
    size_t pages = weight_bytes(WEIGHT_F32, first->weights.rows, first->weights.cols) / page;
    if (resident(last, page) >= pages) {
        print_message("the file system does not drop pages; nothing was compared\n");
        model_file_close(m);
        skip();
    }
    float *values = malloc(first->weights.rows * first->weights.cols * sizeof *values);
    assert_non_null(values);
    model_file_values(first, values);
    assert_in_range(resident(first, page), pages, pages + 1);
    assert_in_range(resident(last, page), 0, pages / 2);  // readahead may have touched its beginning
    free(values);
    model_file_close(m);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, tiny_setup, tiny_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_one_file),
        TEST(test_half_types),
        TEST(test_shards),
        TEST(test_spellings),
        TEST(test_tied),
        TEST(test_alias),
        TEST(test_bad_tensors),
        TEST(test_bad_files),
        TEST(test_templates),
        TEST(test_latest),
        TEST(test_only_what_is_read_is_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
