// Packed sums from peers: no bytes harm the reader, and accepted ones pack again to no more bytes.
#include "fuzz.h"

#include "base/rng.h"
#include "train/sum.h"

#include <stdbool.h>
#include <string.h>

enum { MOST = 2048 };

// The first two bytes of an input are the number of elements in the block.
static size_t elements_of(const uint8_t *data) { return 1 + (size_t)(data[0] | data[1] << 8) % MOST; }

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static int64_t sum[MOST];
    rng r = {rng_seed(53, number)};
    bytes[0] = (uint8_t)rng_next(&r);
    bytes[1] = (uint8_t)rng_next(&r);
    size_t count = elements_of(bytes);
    for (size_t i = 0; i < count; i++) sum[i] = (int64_t)rng_next(&r) >> rng_below(&r, 64);
    bool overflow = rng_below(&r, 8) == 0;
    if (2 + sum_packed_bytes(sum, count, overflow) > capacity) return 0;
    return 2 + sum_pack(sum, count, overflow, bytes + 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int64_t sum[MOST];
    static float result[MOST];
    static uint8_t again[1 + MOST * 9];
    if (size < 2) return 0;
    size_t count = elements_of(data), length = sum_packed_length(data + 2, size - 2, count);
    FUZZ_CHECK(length <= size - 2);
    if (length == 0) return 0;
    bool whole = sum_unpack(data + 2, count, sum);
    size_t repacked = sum_pack(sum, count, !whole, again);
    FUZZ_CHECK(repacked <= length);
    FUZZ_CHECK(repacked == sum_packed_bytes(sum, count, !whole));
    sum_part parts[2] = {{.packed = data + 2}, {.packed = again}};
    sum_reduce(parts, 2, count, true, 3, result);
    return 0;
}
