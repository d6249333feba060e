#include "wire/codec.h"

#include <string.h>

codec codec_writer(uint8_t *bytes, size_t capacity) { return (codec){.out = bytes, .size = capacity}; }

codec codec_reader(const uint8_t *bytes, size_t count) {
    return (codec){.in = bytes, .size = count, .failed = bytes == NULL};
}

size_t codec_written(const codec *c) { return c->failed ? 0 : c->at; }

bool codec_finished(const codec *c) { return !c->failed && c->at == c->size; }

// Makes sure that `count` more bytes fit, or fails the cursor.
static bool codec_has(codec *c, size_t count) {
    codec_require(c, count <= c->size - c->at);
    return !c->failed;
}

void codec_bytes(codec *c, uint8_t *bytes, size_t count) {
    if (!codec_has(c, count)) return;
    if (codec_reads(c)) {
        memcpy(bytes, c->in + c->at, count);
    } else {
        memcpy(c->out + c->at, bytes, count);
    }
    c->at += count;
}

// The only function that knows the byte order. Returns the value written or read.
static uint64_t codec_unsigned(codec *c, uint64_t value, unsigned bytes) {
    if (!codec_has(c, bytes)) return value;
    if (codec_reads(c)) {
        value = 0;
        for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)c->in[c->at + i] << (8 * i);
    } else {
        for (unsigned i = 0; i < bytes; i++) c->out[c->at + i] = (uint8_t)(value >> (8 * i));
    }
    c->at += bytes;
    return value;
}

// When writing, the message is const for the caller (codec_message), so fields are assigned only
// when reading.
#define CODEC_UNSIGNED(name, type)                                         \
    void name(codec *c, type *value) {                                     \
        uint64_t wide = codec_unsigned(c, *value, (unsigned)sizeof(type)); \
        if (codec_reads(c)) *value = (type)wide;                           \
    }
CODEC_UNSIGNED(codec_u8, uint8_t)
CODEC_UNSIGNED(codec_u16, uint16_t)
CODEC_UNSIGNED(codec_u32, uint32_t)
CODEC_UNSIGNED(codec_u64, uint64_t)
#undef CODEC_UNSIGNED

void codec_f32(codec *c, float *value) {
    _Static_assert(sizeof(float) == sizeof(uint32_t), "floats are IEEE binary32");
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    codec_u32(c, &bits);
    if (codec_reads(c)) memcpy(value, &bits, sizeof bits);
}

void codec_f64(codec *c, double *value) {
    _Static_assert(sizeof(double) == sizeof(uint64_t), "doubles are IEEE binary64");
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    codec_u64(c, &bits);
    if (codec_reads(c)) memcpy(value, &bits, sizeof bits);
}

void codec_bool(codec *c, bool *value) {
    uint8_t byte = codec_reads(c) ? 0 : *value;
    codec_u8_below(c, &byte, 2);
    if (codec_reads(c)) *value = byte == 1;
}

void codec_hash(codec *c, braid_hash *hash) { codec_bytes(c, hash->bytes, sizeof hash->bytes); }

void codec_id(codec *c, braid_id *id) { codec_bytes(c, id->bytes, sizeof id->bytes); }

void codec_text(codec *c, char *text, size_t size) {
    uint16_t length = codec_reads(c) ? 0 : (uint16_t)strnlen(text, size);
    codec_u16_below(c, &length, (uint16_t)size);
    if (!codec_has(c, length)) return;
    codec_bytes(c, (uint8_t *)text, length);
    for (uint16_t i = 0; i < length; i++) codec_require(c, text[i] >= ' ' && text[i] <= '~');
    if (codec_reads(c)) memset(text + length, 0, size - length);
}

void codec_u8_below(codec *c, uint8_t *value, uint8_t end) {
    codec_u8(c, value);
    codec_require(c, *value < end);
}

void codec_u16_below(codec *c, uint16_t *value, uint16_t end) {
    codec_u16(c, value);
    codec_require(c, *value < end);
}

void codec_term(codec *c, uint64_t *term) {
    codec_u64(c, term);
    codec_require(c, *term <= WIRE_MAX_TERM);
}

uint32_t codec_count16(codec *c, uint16_t *count, uint16_t maximum) {
    codec_u16(c, count);
    codec_require(c, *count <= maximum);
    return c->failed ? 0 : *count;
}

uint32_t codec_count32(codec *c, uint32_t *count, uint32_t maximum) {
    codec_u32(c, count);
    codec_require(c, *count <= maximum);
    return c->failed ? 0 : *count;
}

void codec_range(codec *c, uint32_t *first, uint32_t *count) {
    codec_u32(c, first);
    codec_u32(c, count);
    codec_require(c, *count <= UINT32_MAX - *first);
}

// Encodes words up to the last one that is not zero, because most runs have few microbatches.
void codec_set(codec *c, message_set *set) {
    uint16_t words = 0;
    if (!codec_reads(c)) {
        for (words = WIRE_SET_WORDS; words > 0 && set->words[words - 1] == 0;) words--;
    }
    uint32_t count = codec_count16(c, &words, WIRE_SET_WORDS);
    for (uint32_t i = 0; i < count; i++) codec_u64(c, &set->words[i]);
    codec_require(c, count == 0 || set->words[count - 1] != 0);
    if (!codec_reads(c)) return;
    for (uint32_t i = count; i < WIRE_SET_WORDS; i++) set->words[i] = 0;
}

void codec_path(codec *c, message_path *path) {
    uint32_t stages = codec_count16(c, &path->stages, WIRE_MAX_STAGES);
    for (uint32_t i = 0; i < stages; i++) codec_u64(c, &path->member[i]);
}
