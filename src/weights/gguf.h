// The container of GGUF files, versions 2 and 3 (github.com/ggml-org/ggml, docs/gguf.md): typed
// keys, then the names, shapes and offsets of tensors, then their bytes. All of it is checked
// against the file's size before it is used.
#ifndef BRAID_WEIGHTS_GGUF_H
#define BRAID_WEIGHTS_GGUF_H

#include "base/err.h"
#include "tensor/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GGUF_MAX_KEYS = 1 << 16,
    GGUF_MAX_TENSORS = 1 << 16,
    GGUF_MAX_KEY_BYTES = 256,
    GGUF_MAX_NAME_BYTES = 63,
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_SHARDS = 1024,
    GGUF_DEFAULT_ALIGNMENT = 32,
};

typedef enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
} gguf_type;

// Borrowed from the file: not 0-terminated.
typedef struct gguf_text {
    const char *at;
    size_t length;
} gguf_text;

typedef struct gguf_key {
    gguf_text name;
    gguf_type type;  // of the value, or of an array's elements
    bool array;
    uint64_t count;     // 1 unless it is an array
    const uint8_t *at;  // values; a string is its length in 8 bytes, then its bytes
} gguf_key;

typedef struct gguf_tensor {
    char name[GGUF_MAX_NAME_BYTES + 1];
    weight_type type;
    uint32_t dims;
    uint64_t shape[GGUF_MAX_DIMS];  // columns first; 1 beyond `dims`
    uint64_t offset, bytes;         // offset in the file
} gguf_tensor;

typedef struct gguf {
    uint32_t version;
    uint32_t alignment;
    uint32_t key_count, tensor_count;
    gguf_key *key;        // by name
    gguf_tensor *tensor;  // by offset
} gguf;

// Whether the bytes start as a GGUF file does.
bool gguf_is(const uint8_t *data, size_t bytes);
// `data` is borrowed until gguf_free. `origin` is the file's name in messages.
braid_err gguf_parse(const uint8_t *data, size_t bytes, const char *origin, gguf *out, braid_error *error);
void gguf_free(gguf *g);

const gguf_key *gguf_find(const gguf *g, const char *name);  // NULL: none
// Single values; false when the key is absent, of another type or out of range. Integers of any
// width are accepted.
bool gguf_u64(const gguf_key *key, uint64_t *out);
bool gguf_real(const gguf_key *key, double *out);  // F32 or F64
bool gguf_bool(const gguf_key *key, bool *out);
bool gguf_string(const gguf_key *key, gguf_text *out);
bool gguf_is_text(const gguf_key *key, const char *text);
// Element i of an array of integers or booleans.
bool gguf_element(const gguf_key *key, uint64_t i, int64_t *out);
// The bytes of a parsed key's value or values.
size_t gguf_value_bytes(const gguf_key *key);
// Reads the string at `*at` of a parsed array of strings, and moves on.
gguf_text gguf_next_string(const uint8_t **at);

#endif
