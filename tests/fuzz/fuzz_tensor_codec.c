// Tensors from a link: any bytes can be decoded, and what is decoded is encoded to the same bytes
// from then on, or to NaN.
#include "fuzz.h"

#include "base/rng.h"
#include "tensor/codec.h"

#include <string.h>

enum { MOST = 300 };

// The first two bytes of an input are the codec and the number of values.
static size_t values_of(const uint8_t *data) { return 1u + data[1] % (size_t)MOST; }

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(91, number)};
    bytes[0] = (uint8_t)rng_next(&r);
    bytes[1] = (uint8_t)rng_next(&r);
    size_t size = tensor_codec_bytes((tensor_codec)(bytes[0] % TENSOR_CODECS), values_of(bytes));
    if (2 + size > capacity) return 0;
    for (size_t i = 0; i < size; i++) bytes[2 + i] = (uint8_t)(rng_below(&r, 6) ? rng_next(&r) : 0);
    return 2 + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tensor_pool *pool;
    float x[MOST], y[MOST];
    uint32_t packed[MOST];
    if (!pool && tensor_pool_new(1, &pool, NULL)) return 0;
    if (size < 2) return 0;
    tensor_codec codec = (tensor_codec)(data[0] % TENSOR_CODECS);
    size_t count = values_of(data), bytes = tensor_codec_bytes(codec, count);
    if (bytes > size - 2) return 0;
    memcpy(packed, data + 2, bytes);
    tensor_codec_decode(pool, codec, packed, count, x);
    memcpy(y, x, count * sizeof *y);
    tensor_codec_round(pool, codec, y, count);
    tensor_codec_encode(pool, codec, x, count, packed);
    tensor_codec_decode(pool, codec, packed, count, x);
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(memcmp(&x[i], &y[i], sizeof *x) == 0 || (x[i] != x[i] && y[i] != y[i]));
    return 0;
}
