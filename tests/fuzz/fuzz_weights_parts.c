// Bytes of a group of tensors from another peer: accepted ones give the same bytes again.
#include "fuzz.h"

#include "base/rng.h"
#include "weights/parts.h"

#include "model/rows.h"

#include <stdlib.h>
#include <string.h>

static const model_config shape = {.arch = MODEL_LLAMA,
                                   .dim = 8,
                                   .layers = 1,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .ffn_dim = 8,
                                   .vocab = 16,
                                   .context = 8,
                                   .rope_theta = 10000,
                                   .norm_eps = 1e-5f};

static void range(uint32_t *first, uint32_t *end) {
    *first = model_tensors_before(&shape);
    *end = *first + model_tensors_per_block(&shape);
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    model_file *f = NULL;
    uint32_t first, end;
    rng r = {rng_seed(72, number)};
    static uint8_t values[4096];
    range(&first, &end);
    if (parts_new(&shape, &f, NULL)) return 0;
    for (uint32_t i = first; i < end; i++) {
        model_file_tensor *t = (model_file_tensor *)model_file_at(f, i);
        model_tensor expected;
        model_tensor_at(&shape, i, &expected);
        t->weights = (weight_matrix){rng_below(&r, 2) ? WEIGHT_F16 : WEIGHT_F32, expected.rows, expected.cols, values};
    }
    size_t count = parts_bytes(f, first, end);
    if (count > capacity) count = 0;
    if (count > 0) parts_read(f, first, end, 0, count, bytes);
    model_file_close(f);
    if (count > 0 && rng_below(&r, 2)) bytes[rng_below(&r, count)] ^= (uint8_t)(1 << rng_below(&r, 8));
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    model_file *f = NULL;
    uint32_t first, end;
    braid_error error = {0};
    range(&first, &end);
    FUZZ_CHECK(parts_new(&shape, &f, NULL) == BRAID_OK);
    if (parts_set(f, first, end, data, size, &error) != BRAID_OK) {
        FUZZ_CHECK(strlen(error.text) > 0 && !parts_has(f, first, first + 1));
    } else {
        FUZZ_CHECK(parts_has(f, first, end) && parts_bytes(f, first, end) == size);
        uint8_t *again = malloc(size);
        FUZZ_CHECK(again != NULL);
        parts_read(f, first, end, 0, size, again);
        free(again);
    }
    model_file_close(f);
    return 0;
}
