// The token files of llm.c (https://github.com/karpathy/llm.c, dev/data/data_common.py,
// write_datafile): a header of 256 int32, then the ids. Each document begins with the end-of-text
// id of its tokenizer.
#ifndef BRAID_DATA_LLMC_H
#define BRAID_DATA_LLMC_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LLMC_HEADER_BYTES = 1024 };

typedef struct llmc_header {
    uint32_t tokens;
    uint32_t width;  // bytes of an id: 2 (GPT-2), 4 (LLaMA 3)
    uint32_t mark;   // the id before each document: 50256, 128000
} llmc_header;

// True for a file of this kind, by its first bytes.
bool llmc_is(const uint8_t *bytes, size_t count);
// BRAID_FORMAT: another version, or a negative count.
braid_err llmc_header_read(const uint8_t bytes[LLMC_HEADER_BYTES], llmc_header *out, braid_error *error);

#endif
