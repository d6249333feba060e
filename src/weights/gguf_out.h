// Builds the start of a GGUF file of version 3: keys, then names, shapes and offsets of tensors.
#ifndef BRAID_WEIGHTS_GGUF_OUT_H
#define BRAID_WEIGHTS_GGUF_OUT_H

#include "weights/gguf.h"

typedef struct gguf_out {
    uint8_t *at;
    size_t length, capacity;
    bool failed;  // memory ran out
    uint64_t keys, tensors;
    uint64_t offset;  // of the next tensor's bytes
} gguf_out;

void gguf_out_begin(gguf_out *o);  // `o` is all zero
void gguf_out_u32(gguf_out *o, const char *key, uint32_t value);
void gguf_out_f32(gguf_out *o, const char *key, float value);
void gguf_out_bool(gguf_out *o, const char *key, bool value);
void gguf_out_text(gguf_out *o, const char *key, const char *text, size_t length);
// Keys of other types are copied.
void gguf_out_copy(gguf_out *o, const gguf_key *key);
// An array; its values follow with gguf_out_put and gguf_out_string.
void gguf_out_array(gguf_out *o, const char *key, gguf_type type, uint64_t count);
void gguf_out_put(gguf_out *o, const void *data, size_t bytes);
void gguf_out_string(gguf_out *o, const char *text, size_t length);
// After the keys; columns first. Tensors follow each other in the file, each at the next multiple
// of 32.
void gguf_out_tensor(gguf_out *o, const char *name, weight_type type, const uint64_t *shape, uint32_t dims);
// Fills in the counts, and pads to the start of the tensors' bytes. False: memory ran out.
bool gguf_out_end(gguf_out *o);
void gguf_out_free(gguf_out *o);

#endif
