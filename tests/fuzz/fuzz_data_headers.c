// Any bytes as the header of an llm.c token file and as that of a cache: what is accepted is within
// the limits.
#include "fuzz.h"

#include "base/rng.h"
#include "base/sha256.h"
#include "data/cache_inside.h"
#include "data/llmc.h"

#include <string.h>

static size_t example_cache(rng *r, uint8_t *bytes) {
    cache_header h = {.magic = CACHE_MAGIC,
                      .version = CACHE_VERSION,
                      .width = 1u << rng_below(r, 3),
                      .order = CACHE_ORDER,
                      .limit = 200};
    memcpy(h.magic, CACHE_MAGIC, sizeof h.magic);
    h.documents = rng_below(r, 100);
    h.tokens = h.documents + rng_below(r, 1000);
    if (rng_below(r, 2)) h.tokens = rng_next(r);
    h.own = sha256_of(&h, offsetof(cache_header, own));
    memset(bytes, 0, CACHE_HEADER_BYTES);
    memcpy(bytes, &h, sizeof h);
    return CACHE_HEADER_BYTES;
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const uint32_t heads[2][2] = {{20240520, 1}, {20240801, 7}};
    rng r = {rng_seed(80, number)};
    if (capacity < CACHE_HEADER_BYTES) return 0;
    if (number % 2) return example_cache(&r, bytes);
    memset(bytes, 0, LLMC_HEADER_BYTES);
    memcpy(bytes, heads[rng_below(&r, 2)], 8);
    uint32_t count = (uint32_t)rng_next(&r);
    memcpy(bytes + 8, &count, sizeof count);
    return LLMC_HEADER_BYTES;
}

static void check_cache(const uint8_t *data, size_t size, uint64_t file_bytes) {
    cache_summary about = {0};
    braid_error error = {0};
    braid_err err = cache_header_check(data, size, file_bytes, &about, &error);
    FUZZ_CHECK(err == BRAID_OK || (err == BRAID_FORMAT && error.text[0]));
    if (err) return;
    FUZZ_CHECK(about.width == 1 || about.width == 2 || about.width == 4);
    FUZZ_CHECK(about.tokens <= CACHE_MAX_TOKENS && about.documents <= about.tokens);
    FUZZ_CHECK(file_bytes > CACHE_HEADER_BYTES + about.tokens * about.width || about.tokens == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    llmc_header h;
    uint64_t words[3] = {0};
    if (size >= LLMC_HEADER_BYTES && llmc_is(data, size) && llmc_header_read(data, &h, NULL) == BRAID_OK)
        FUZZ_CHECK((h.width == 2 && h.mark == 50256) || (h.width == 4 && h.mark == 128000));
    check_cache(data, size, size);
    // a file of the size that its counts ask for
    if (size < CACHE_HEADER_BYTES) return 0;
    cache_header c;
    memcpy(&c, data, sizeof c);
    words[0] = CACHE_HEADER_BYTES + cache_body_bytes(&c) + cache_chunks(cache_body_bytes(&c)) * sizeof(braid_hash);
    words[1] = c.tokens;
    words[2] = UINT64_MAX;
    for (int i = 0; i < 3; i++) check_cache(data, size, words[i]);
    return 0;
}
