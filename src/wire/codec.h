// A cursor over bytes that writes or reads, so that one description of a layout serves both:
//     codec_u32(c, &body->rev);
// Little-endian, no padding, one encoding for each value. The first value that does not fit or
// violates a limit makes the cursor fail; after that nothing is read or written, and every count
// is 0.
#ifndef BRAID_WIRE_CODEC_H
#define BRAID_WIRE_CODEC_H

#include "base/id.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct codec {
    uint8_t *out;       // writing, else NULL
    const uint8_t *in;  // reading, else NULL
    size_t at, size;
    bool failed;
} codec;

codec codec_writer(uint8_t *bytes, size_t capacity);
codec codec_reader(const uint8_t *bytes, size_t count);
// Call after writing: the number of bytes written, 0 if the cursor failed.
size_t codec_written(const codec *c);
// Call after reading: true if nothing failed and no byte is left.
bool codec_finished(const codec *c);

static inline bool codec_reads(const codec *c) { return c->in != NULL; }
static inline void codec_require(codec *c, bool condition) { c->failed |= !condition; }

void codec_bytes(codec *c, uint8_t *bytes, size_t count);
void codec_u8(codec *c, uint8_t *value);
void codec_u16(codec *c, uint16_t *value);
void codec_u32(codec *c, uint32_t *value);
void codec_u64(codec *c, uint64_t *value);
void codec_f32(codec *c, float *value);
void codec_f64(codec *c, double *value);
void codec_bool(codec *c, bool *value);
void codec_hash(codec *c, braid_hash *hash);
void codec_id(codec *c, braid_id *id);
// A terminated string of printable ASCII in `size` bytes of storage.
void codec_text(codec *c, char *text, size_t size);

// A value with an upper bound: an enum below its count, or a stage number.
void codec_u8_below(codec *c, uint8_t *value, uint8_t end);
void codec_u16_below(codec *c, uint16_t *value, uint16_t end);
// A leader's term, at most WIRE_MAX_TERM.
void codec_term(codec *c, uint64_t *term);
// A count of entries that follow. Returns the number of entries to process: 0 when the count
// exceeds its maximum.
uint32_t codec_count16(codec *c, uint16_t *count, uint16_t maximum);
uint32_t codec_count32(codec *c, uint32_t *count, uint32_t maximum);
// The range [first, first + count); its end must fit in a u32.
void codec_range(codec *c, uint32_t *first, uint32_t *count);

void codec_set(codec *c, message_set *set);
void codec_path(codec *c, message_path *path);

void codec_route(codec *c, message_route *route);
void codec_view(codec *c, message_view *view);
void codec_log_entry(codec *c, log_entry *entry);
void codec_message(codec *c, message *msg);

#endif
