// An untrusted config.json: no text harms the reader, and an accepted model reads back after it is
// written.
#include "fuzz.h"

#include "base/rng.h"
#include "format/hf_config.h"

#include <string.h>

static const model_config examples[] = {
    {MODEL_LLAMA, 64, 3, 8, 2, 100, 256, 128, 10000.0f, 1e-6f, true},
    {MODEL_GPT, 48, 2, 4, 4, 192, 300, 64, 0, 1e-5f, false},
};

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    size_t length = 0;
    char *text = hf_config_write(&examples[number % 2], &length);
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
    FUZZ_CHECK(back.dim == config.dim && back.layers == config.layers && back.ffn_dim == config.ffn_dim &&
               back.tied == config.tied);
    free(text);
    return 0;
}
