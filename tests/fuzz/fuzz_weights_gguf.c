// Untrusted GGUF files: no bytes harm the reader; a model that opens has its tensors within the
// file.
#define _GNU_SOURCE  // memfd_create
#include "fuzz.h"

#include "base/rng.h"
#include "weights/gguf_out.h"
#include "weights/model_file.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DIM = 32, FFN = 64, VOCAB = 12, MOST_VALUES = 1 << 16 };

static void put_tokenizer(gguf_out *o) {
    static const char *const tokens[VOCAB] = {"<s>", "a", "b", "ab", "c", "\xc4\xa0", "d", "e", "f", "g", "h", "</s>"};
    gguf_out_text(o, "tokenizer.ggml.model", "gpt2", 4);
    gguf_out_text(o, "tokenizer.ggml.pre", "gpt-2", 5);
    gguf_out_array(o, "tokenizer.ggml.tokens", GGUF_STRING, VOCAB);
    for (int i = 0; i < VOCAB; i++) gguf_out_string(o, tokens[i], strlen(tokens[i]));
    gguf_out_array(o, "tokenizer.ggml.merges", GGUF_STRING, 1);
    gguf_out_string(o, "a b", 3);
    gguf_out_array(o, "tokenizer.ggml.token_type", GGUF_I32, VOCAB);
    for (int32_t i = 0, type = 3; i < VOCAB; i++, type = 1) gguf_out_put(o, &type, sizeof type);
    gguf_out_u32(o, "tokenizer.ggml.bos_token_id", 0);
    gguf_out_text(o, "tokenizer.chat_template", "{{ x }}", 7);
}

static void put_tensors(gguf_out *o, weight_type type) {
    static const struct {
        const char *name;
        uint64_t shape[2];
        uint32_t dims;
    } tensors[] = {
        {"token_embd.weight", {DIM, VOCAB}, 2}, {"blk.0.attn_norm.weight", {DIM}, 1},
        {"blk.0.attn_q.weight", {DIM, DIM}, 2}, {"blk.0.attn_k.weight", {DIM, DIM}, 2},
        {"blk.0.attn_v.weight", {DIM, DIM}, 2}, {"blk.0.attn_output.weight", {DIM, DIM}, 2},
        {"blk.0.ffn_norm.weight", {DIM}, 1},    {"blk.0.ffn_gate.weight", {DIM, FFN}, 2},
        {"blk.0.ffn_up.weight", {DIM, FFN}, 2}, {"blk.0.ffn_down.weight", {FFN, DIM}, 2},
        {"output_norm.weight", {DIM}, 1},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        gguf_out_tensor(o, tensors[i].name, tensors[i].dims == 1 ? WEIGHT_F32 : type, tensors[i].shape,
                        tensors[i].dims);
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const weight_type types[] = {WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8_0};
    rng r = {rng_seed(53, number)};
    gguf_out o = {0};
    gguf_out_begin(&o);
    gguf_out_text(&o, "general.architecture", "llama", 5);
    gguf_out_u32(&o, "llama.context_length", 64);
    gguf_out_u32(&o, "llama.embedding_length", DIM);
    gguf_out_u32(&o, "llama.block_count", 1);
    gguf_out_u32(&o, "llama.feed_forward_length", FFN);
    gguf_out_u32(&o, "llama.attention.head_count", 4);
    gguf_out_f32(&o, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (rng_below(&r, 2)) put_tokenizer(&o);
    put_tensors(&o, types[rng_below(&r, 4)]);
    size_t length = 0;
    if (gguf_out_end(&o) && o.length + o.offset <= capacity) {
        length = o.length + o.offset;
        memcpy(bytes, o.at, o.length);
        for (size_t i = o.length; i < length; i++) bytes[i] = (uint8_t)(rng_next(&r) & 0x3b);
    }
    gguf_out_free(&o);
    return length;
}

static void read_values(const model_file *f) {
    for (uint32_t i = 0; i < model_file_count(f); i++) {
        const model_file_tensor *t = model_file_at(f, i);
        size_t count = t->weights.rows * t->weights.cols;
        FUZZ_CHECK(model_file_find(f, t->name) == t);
        if (count > MOST_VALUES) continue;
        float *values = malloc(count * sizeof *values);
        FUZZ_CHECK(values);
        model_file_values(t, values);
        free(values);
    }
}

// The container alone, then the whole model by way of a file in memory.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    braid_error error = {0};
    gguf g;
    braid_err err = gguf_parse(data, size, "fuzz", &g, &error);
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (err) return 0;
    for (uint32_t i = 0; i < g.tensor_count; i++)
        FUZZ_CHECK(g.tensor[i].offset <= size && g.tensor[i].bytes <= size - g.tensor[i].offset);
    for (uint32_t i = 0; i < g.key_count; i++)
        FUZZ_CHECK(gguf_value_bytes(&g.key[i]) <= (size_t)(data + size - g.key[i].at));
    gguf_free(&g);
    char path[64];
    int fd = memfd_create("fuzz", 0);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    model_file *f = NULL;
    tokenizer *t = NULL;
    error.text[0] = 0;
    err = model_file_open(path, &f, &error);
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (f) read_values(f);
    if (f && model_file_tokenizer(f, &t, &error) == BRAID_OK) tokenizer_free(t);
    model_file_close(f);
    close(fd);
    return 0;
}
