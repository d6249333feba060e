#include "weights/gguf_out.h"

#include <stdlib.h>
#include <string.h>

enum { COUNTS_AT = 8, ALIGNMENT = GGUF_DEFAULT_ALIGNMENT };

static const uint32_t type_numbers[WEIGHT_TYPES] = {
    [WEIGHT_F32] = 0, [WEIGHT_F16] = 1, [WEIGHT_Q8_0] = 8, [WEIGHT_BF16] = 30};

void gguf_out_put(gguf_out *o, const void *data, size_t bytes) {
    if (!o->failed && bytes > o->capacity - o->length) {
        size_t capacity = (o->capacity + bytes) * 2;
        uint8_t *larger = realloc(o->at, capacity);
        o->failed = !larger;
        if (larger) {
            o->at = larger;
            o->capacity = capacity;
        }
    }
    if (o->failed || bytes == 0) return;
    memcpy(o->at + o->length, data, bytes);
    o->length += bytes;
}

void gguf_out_string(gguf_out *o, const char *text, size_t length) {
    uint64_t bytes = length;
    gguf_out_put(o, &bytes, sizeof bytes);
    gguf_out_put(o, text, length);
}

void gguf_out_begin(gguf_out *o) {
    static const uint64_t counts[2];  // filled in at the end
    uint32_t version = 3;
    gguf_out_put(o, "GGUF", 4);
    gguf_out_put(o, &version, sizeof version);
    gguf_out_put(o, counts, sizeof counts);
}

static void put_key(gguf_out *o, const char *key, gguf_type type) {
    uint32_t number = type;
    gguf_out_string(o, key, strlen(key));
    gguf_out_put(o, &number, sizeof number);
    o->keys++;
}

void gguf_out_u32(gguf_out *o, const char *key, uint32_t value) {
    put_key(o, key, GGUF_U32);
    gguf_out_put(o, &value, sizeof value);
}

void gguf_out_f32(gguf_out *o, const char *key, float value) {
    put_key(o, key, GGUF_F32);
    gguf_out_put(o, &value, sizeof value);
}

void gguf_out_bool(gguf_out *o, const char *key, bool value) {
    uint8_t byte = value;
    put_key(o, key, GGUF_BOOL);
    gguf_out_put(o, &byte, sizeof byte);
}

void gguf_out_text(gguf_out *o, const char *key, const char *text, size_t length) {
    put_key(o, key, GGUF_STRING);
    gguf_out_string(o, text, length);
}

void gguf_out_array(gguf_out *o, const char *key, gguf_type type, uint64_t count) {
    uint32_t number = type;
    put_key(o, key, GGUF_ARRAY);
    gguf_out_put(o, &number, sizeof number);
    gguf_out_put(o, &count, sizeof count);
}

void gguf_out_copy(gguf_out *o, const gguf_key *key) {
    uint32_t type = key->type, array = GGUF_ARRAY;
    gguf_out_string(o, key->name.at, key->name.length);
    if (key->array) gguf_out_put(o, &array, sizeof array);
    gguf_out_put(o, &type, sizeof type);
    if (key->array) gguf_out_put(o, &key->count, sizeof key->count);
    gguf_out_put(o, key->at, gguf_value_bytes(key));
    o->keys++;
}

void gguf_out_tensor(gguf_out *o, const char *name, weight_type type, const uint64_t *shape, uint32_t dims) {
    uint64_t rows = 1;
    for (uint32_t d = 1; d < dims; d++) rows *= shape[d];
    gguf_out_string(o, name, strlen(name));
    gguf_out_put(o, &dims, sizeof dims);
    gguf_out_put(o, shape, dims * sizeof *shape);
    gguf_out_put(o, &type_numbers[type], sizeof *type_numbers);
    gguf_out_put(o, &o->offset, sizeof o->offset);
    o->offset += (weight_bytes(type, rows, shape[0]) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    o->tensors++;
}

bool gguf_out_end(gguf_out *o) {
    static const uint8_t zeros[ALIGNMENT];
    gguf_out_put(o, zeros, (ALIGNMENT - o->length % ALIGNMENT) % ALIGNMENT);
    if (o->failed) return false;
    memcpy(o->at + COUNTS_AT, &o->tensors, sizeof o->tensors);
    memcpy(o->at + COUNTS_AT + 8, &o->keys, sizeof o->keys);
    return true;
}

void gguf_out_free(gguf_out *o) {
    free(o->at);
    *o = (gguf_out){0};
}
