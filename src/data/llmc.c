#include "data/llmc.h"

typedef struct llmc_kind {
    uint32_t magic, version, width, mark;
} llmc_kind;

static const llmc_kind kinds[] = {{20240520, 1, 2, 50256}, {20240801, 7, 4, 128000}};

static uint32_t word(const uint8_t *bytes, size_t i) {
    return bytes[4 * i] | (uint32_t)bytes[4 * i + 1] << 8 | (uint32_t)bytes[4 * i + 2] << 16 |
           (uint32_t)bytes[4 * i + 3] << 24;
}

static const llmc_kind *kind_of(const uint8_t *bytes) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].magic == word(bytes, 0)) return &kinds[i];
    return NULL;
}

bool llmc_is(const uint8_t *bytes, size_t count) { return count >= 4 && kind_of(bytes) != NULL; }

braid_err llmc_header_read(const uint8_t bytes[LLMC_HEADER_BYTES], llmc_header *out, braid_error *error) {
    const llmc_kind *kind = kind_of(bytes);
    if (!kind) return braid_fail(error, BRAID_FORMAT, "no token file of llm.c");
    if (word(bytes, 1) != kind->version)
        return braid_fail(error, BRAID_FORMAT,
                          "a token file of llm.c of version %u, not %u; write it again with a current llm.c",
                          word(bytes, 1), kind->version);
    if (word(bytes, 2) > INT32_MAX)
        return braid_fail(error, BRAID_FORMAT, "a token file of llm.c with a negative count");
    *out = (llmc_header){.tokens = word(bytes, 2), .width = kind->width, .mark = kind->mark};
    return BRAID_OK;
}
