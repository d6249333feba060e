// Descriptions of a served model: an accepted one is written back as the same model.
#include "fuzz.h"

#include "base/rng.h"
#include "span/model.h"

#include <stdlib.h>
#include <string.h>

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static span_model m;
    rng r = {rng_seed(71, number)};
    m = (span_model){
        .name = "a-model", .layers = 1 + (uint32_t)rng_below(&r, 20), .dim = 64, .vocab = 128, .context = 64};
    for (uint32_t i = 0; i < m.layers; i++) m.layer[i].bytes[0] = (uint8_t)rng_next(&r);
    size_t length = 0;
    char *text = span_model_describe(&m, &length);
    size_t count = text && length <= capacity ? length : 0;
    if (count) memcpy(bytes, text, count);
    free(text);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static span_model m, again;
    braid_error error = {0};
    if (span_model_parse((const char *)data, size, &m, &error) != BRAID_OK) {
        FUZZ_CHECK(error.code != BRAID_OK && strlen(error.text) > 0);
        return 0;
    }
    FUZZ_CHECK(m.layers >= 1 && m.layers <= SPAN_MAX_LAYERS);
    size_t length = 0;
    char *text = span_model_describe(&m, &length);
    FUZZ_CHECK(text && span_model_parse(text, length, &again, NULL) == BRAID_OK);
    braid_hash a = span_model_hash(&m), b = span_model_hash(&again);
    FUZZ_CHECK(hash_equal(&a, &b) && strcmp(m.name, again.name) == 0);
    free(text);
    return 0;
}
