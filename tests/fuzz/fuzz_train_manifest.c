// An untrusted checkpoint manifest: no text harms the reader, and an accepted one reads back after
// it is written.
#include "fuzz.h"

#include "base/rng.h"
#include "train/checkpoint_manifest.h"

#include <string.h>

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static manifest m;
    rng r = {rng_seed(54, number)};
    memset(&m, 0, sizeof m);
    m.version = rng_next(&r) >> rng_below(&r, 64);
    m.weights.bytes[3] = (uint8_t)rng_next(&r);
    m.count = (uint32_t)rng_below(&r, 4);
    if (rng_below(&r, 2)) {
        m.adapter.config = (adapter_config){
            .rank = 1 + (uint32_t)rng_below(&r, 64), .alpha = 0.5f, .rank_stabilised = rng_below(&r, 2)};
        snprintf(m.targets, sizeof m.targets, "self_attn.q_proj mlp.up_proj");
    }
    for (uint32_t i = 0; i < m.count; i++) {
        snprintf(m.files[i].name, sizeof m.files[i].name, "file-%u.safetensors", i);
        m.files[i].bytes = rng_next(&r) >> 40;
    }
    size_t length = 0;
    char *text = manifest_text(&m, &length);
    if (text && length <= capacity)
        memcpy(bytes, text, length);
    else
        length = 0;
    free(text);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static manifest m, back;
    braid_error error = {0};
    braid_err err = manifest_parse((const char *)data, size, "manifest", &m, &error);
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (err) return 0;
    FUZZ_CHECK(m.count <= CHECKPOINT_MAX_FILES);
    for (uint32_t i = 0; i < m.count; i++) FUZZ_CHECK(strchr(m.files[i].name, '/') == NULL);
    size_t length;
    char *text = manifest_text(&m, &length);
    FUZZ_CHECK(text && manifest_parse(text, length, "again", &back, NULL) == BRAID_OK);
    FUZZ_CHECK(memcmp(&m, &back, sizeof m) == 0);
    free(text);
    return 0;
}
