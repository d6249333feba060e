// Safetensors (github.com/huggingface/safetensors, "Format"): 8 bytes length of the header, the
// header (JSON: name -> dtype, shape, data_offsets), then the tensors' bytes without holes. Input
// is untrusted: every field is checked against the file's real size, and allocations do not depend
// on sizes that a header claims.
#ifndef BRAID_FORMAT_SAFETENSORS_H
#define BRAID_FORMAT_SAFETENSORS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SAFETENSORS_LENGTH_BYTES = 8,
    SAFETENSORS_MAX_HEADER = 32 << 20,
    SAFETENSORS_MAX_TENSORS = 1 << 16,
    SAFETENSORS_MAX_DIMS = 8,
    SAFETENSORS_MAX_NAME = 256
};

typedef enum safetensors_dtype {
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_U8,
    SAFETENSORS_OTHER
} safetensors_dtype;

typedef struct safetensors_tensor {
    const char *name;
    safetensors_dtype dtype;
    const char *dtype_name;  // as the file spells it
    uint32_t dims;
    uint64_t shape[SAFETENSORS_MAX_DIMS];
    uint64_t offset, bytes;  // offset in the file
} safetensors_tensor;

typedef struct safetensors safetensors;

// Length prefix and header in bytes, from the file's first 8 bytes; 0 when the length is invalid.
uint64_t safetensors_prefix_bytes(const uint8_t first[SAFETENSORS_LENGTH_BYTES], uint64_t file_bytes);
// Parses the start of a file (`count` = safetensors_prefix_bytes). `origin` is the file's name in
// messages. Free with safetensors_free.
braid_err safetensors_parse(const uint8_t *prefix, size_t count, uint64_t file_bytes, const char *origin,
                            safetensors **out, braid_error *error);
void safetensors_free(safetensors *s);
uint32_t safetensors_count(const safetensors *s);
const safetensors_tensor *safetensors_at(const safetensors *s, uint32_t i);  // in the order of their data
const safetensors_tensor *safetensors_find(const safetensors *s, const char *name);
// A text in the header's __metadata__; NULL when there is none of that name.
const char *safetensors_metadata(const safetensors *s, const char *key);

typedef struct safetensors_note {
    const char *key, *text;
} safetensors_note;

// Builds the start of a file of tensors in this order without holes, and sets their offset and
// bytes. The data types are F32, F16, BF16 and U8. `notes` become its __metadata__. The caller
// frees it; NULL when there is no memory.
uint8_t *safetensors_prefix(safetensors_tensor *tensors, uint32_t count, const safetensors_note *notes,
                            uint32_t note_count, size_t *bytes);

#endif
