// Untrusted safetensors headers: no bytes harm the reader, and every tensor lies within the file.
#include "fuzz.h"

#include "base/rng.h"
#include "format/safetensors.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_DATA = 1 << 20 };

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(52, number)};
    safetensors_tensor tensors[4];
    char names[4][32];
    uint32_t count = (uint32_t)rng_below(&r, 5);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "layer.%u.weight", i);
        tensors[i] = (safetensors_tensor){
            .name = names[i], .dims = (uint32_t)rng_below(&r, 3), .shape = {rng_below(&r, 9), rng_below(&r, 9)}};
    }
    size_t length = 0;
    uint8_t *prefix = safetensors_prefix(tensors, count, NULL, 0, &length);
    if (prefix && length <= capacity)
        memcpy(bytes, prefix, length);
    else
        length = 0;
    free(prefix);
    return length;
}

static void check(const safetensors *s, size_t prefix, uint64_t file_bytes) {
    uint64_t at = prefix;
    for (uint32_t i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        FUZZ_CHECK(t->offset == at && t->bytes <= file_bytes - at);
        at += t->bytes;
        const safetensors_tensor *found = safetensors_find(s, t->name);
        FUZZ_CHECK(found && strcmp(found->name, t->name) == 0);
    }
    FUZZ_CHECK(at == file_bytes);
}

// The size of the data according to the header, for headers that braid writes: the largest number
// before a "]}".
static uint64_t claimed(const uint8_t *data, size_t size) {
    uint64_t most = 0, n = 0;
    for (size_t i = SAFETENSORS_LENGTH_BYTES; i < size; i++) {
        bool digit = data[i] >= '0' && data[i] <= '9';
        if (data[i] == ']' && i + 1 < size && data[i + 1] == '}' && n > most) most = n;
        n = digit ? (n * 10 + data[i] - '0') % MOST_DATA : 0;
    }
    return most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SAFETENSORS_LENGTH_BYTES) return 0;
    // Two files begin with these bytes: one ends there, and one is as long as its tensors need.
    uint64_t sizes[] = {size, size + claimed(data, size)};
    for (int i = 0; i < 2; i++) {
        uint64_t prefix = safetensors_prefix_bytes(data, sizes[i]);
        FUZZ_CHECK(prefix <= sizes[i]);
        if (prefix == 0 || prefix > size) continue;
        safetensors *s = NULL;
        braid_error error = {0};
        braid_err err = safetensors_parse(data, (size_t)prefix, sizes[i], "fuzz", &s, &error);
        FUZZ_CHECK((err == BRAID_OK) == (s != NULL));
        FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
        if (s) check(s, (size_t)prefix, sizes[i]);
        safetensors_free(s);
    }
    return 0;
}
