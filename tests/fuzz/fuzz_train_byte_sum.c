// Sums and results of one byte a value from peers: all bytes decode, and decoded values keep their
// bits when they are passed on.
#include "fuzz.h"

#include "base/rng.h"
#include "train/byte_sum.h"

#include <string.h>

enum { MOST = 2048 };

// The first two bytes of an input are the number of elements in the block.
static size_t elements_of(const uint8_t *data) { return 1 + (size_t)(data[0] | data[1] << 8) % MOST; }

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(59, number)};
    bytes[0] = (uint8_t)rng_next(&r);
    bytes[1] = (uint8_t)rng_next(&r);
    size_t length = byte_sum_bytes(elements_of(bytes));
    if (2 + length > capacity) return 0;
    for (size_t i = 0; i < length; i++) bytes[2 + i] = (uint8_t)rng_next(&r);
    return 2 + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static float values[MOST], once[MOST], twice[MOST];
    static uint8_t again[2 * MOST];
    if (size < 2) return 0;
    size_t count = elements_of(data), bytes = count * sizeof *once;
    if (byte_sum_bytes(count) != size - 2) return 0;
    byte_sum_decode(data + 2, count, values);
    byte_sum_encode(values, count, again);
    byte_sum_decode(again, count, once);
    byte_sum_encode(once, count, again);
    byte_sum_decode(again, count, twice);
    FUZZ_CHECK(memcmp(once, twice, bytes) == 0);
    const sum_part parts[2] = {{.packed = data + 2}, {.packed = again}};
    byte_sum_reduce(parts, 2, count, 3, once);
    return 0;
}
