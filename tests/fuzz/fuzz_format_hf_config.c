// An untrusted config.json: no text harms the reader, and an accepted model reads back after it is
// written.
#include "fuzz.h"

#include "base/rng.h"
#include "format/hf_config.h"

#include <string.h>

static const model_config examples[] = {
    {.arch = MODEL_LLAMA,
     .dim = 64,
     .layers = 3,
     .heads = 8,
     .kv_heads = 2,
     .ffn_dim = 100,
     .vocab = 256,
     .context = 128,
     .rope_theta = 10000.0f,
     .norm_eps = 1e-6f,
     .tied = true},
    {.arch = MODEL_GPT,
     .dim = 48,
     .layers = 2,
     .heads = 4,
     .kv_heads = 4,
     .ffn_dim = 192,
     .vocab = 300,
     .context = 64,
     .norm_eps = 1e-5f,
     .tied = false},
    {.arch = MODEL_QWEN3,
     .dim = 64,
     .layers = 3,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 16,
     .ffn_dim = 100,
     .vocab = 256,
     .context = 128,
     .rope_theta = 1e6f,
     .norm_eps = 1e-6f,
     .qkv_bias = true,
     .o_bias = true,
     .window = 16,
     .windowed = {5},
     .rope =
         {.kind = MODEL_ROPE_LLAMA3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 64}},
    {.arch = MODEL_GEMMA3,
     .dim = 64,
     .layers = 3,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 32,
     .ffn_dim = 100,
     .vocab = 256,
     .context = 128,
     .rope_theta = 1e6f,
     .norm_eps = 1e-6f,
     .local_rope_theta = 10000,
     .tied = true,
     .window = 16,
     .windowed = {3},
     .attention_scale = 0.25f,
     .embedding_scale = 8,
     .logit_softcap = 30},
    {.arch = MODEL_SMOLLM3,
     .dim = 64,
     .layers = 3,
     .heads = 4,
     .kv_heads = 2,
     .ffn_dim = 100,
     .vocab = 256,
     .context = 128,
     .rope_theta = 1e6f,
     .norm_eps = 1e-6f,
     .unrotated = {4},
     .mlp_bias = true,
     .rope = {.kind = MODEL_ROPE_YARN, .factor = 4, .original_context = 32}},
    {.arch = MODEL_QWEN3_MOE,
     .dim = 64,
     .layers = 2,
     .heads = 4,
     .kv_heads = 2,
     .ffn_dim = 100,
     .vocab = 256,
     .context = 128,
     .rope_theta = 1e6f,
     .norm_eps = 1e-6f,
     .experts = 8,
     .experts_used = 2,
     .expert_ffn_dim = 32,
     .window = 16,
     .windowed = {3}},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    size_t length = 0;
    char *text = hf_config_write(&examples[number % EXAMPLES], &length);
    if (text && length <= capacity)
        memcpy(bytes, text, length);
    else
        length = 0;
    free(text);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    model_config config, back;
    braid_error error = {0};
    braid_err err = hf_config_read((const char *)data, size, "config.json", &config, &error);
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (err) return 0;
    size_t length;
    char *text = hf_config_write(&config, &length);
    FUZZ_CHECK(text && hf_config_read(text, length, "again", &back, NULL) == BRAID_OK);
    model_difference d;
    FUZZ_CHECK(!model_config_differ(&config, &back, &d));
    free(text);
    return 0;
}
