// Untrusted indices of safetensors files: no bytes harm the reader; the names that come out are
// files of the directory itself.
#include "fuzz.h"

#include "base/rng.h"
#include "weights/shards.h"

#include <string.h>

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(54, number)};
    uint64_t tensors = rng_below(&r, 20), files = 1 + rng_below(&r, 5);
    size_t at = (size_t)snprintf((char *)bytes, capacity, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (uint64_t i = 0; i < tensors && at < capacity - 128; i++)
        at += (size_t)snprintf((char *)bytes + at, capacity - at,
                               "%s\"model.layers.%llu.weight\": \"model-%05llu-of-%05llu.safetensors\"", i ? ", " : "",
                               (unsigned long long)i, (unsigned long long)(1 + rng_below(&r, files)),
                               (unsigned long long)files);
    return at + (size_t)snprintf((char *)bytes + at, capacity - at, "}}");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    braid_error error = {0};
    json *d = NULL;
    shard_names names;
    if (json_parse((const char *)data, size, &d, &error)) return 0;
    braid_err err = shards_of_index(d, "fuzz", &names, &error);
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    FUZZ_CHECK((err == BRAID_OK) == (names.count > 0));
    for (uint32_t i = 0; i < names.count; i++) {
        FUZZ_CHECK(!strchr(names.name[i], '/') && names.name[i][0] != '.');
        FUZZ_CHECK(i == 0 || strcmp(names.name[i - 1], names.name[i]) < 0);
    }
    free(names.name);
    json_free(d);
    return 0;
}
