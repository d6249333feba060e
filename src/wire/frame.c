#include "wire/frame.h"

#include <string.h>

_Static_assert(sizeof(uint32_t) + 2 * sizeof(uint8_t) + sizeof(uint16_t) == FRAME_HEADER_BYTES, "fields of a header");
_Static_assert(sizeof(uint64_t) == FRAME_TRANSFER_PREFIX_BYTES, "the payload's length");
_Static_assert(WIRE_MAX_CHUNK_BYTES + FRAME_HEADER_BYTES == 16 * 1024, "a full chunk fills one TLS record");
_Static_assert(WIRE_MAX_TRANSFERS <= UINT8_MAX, "transfer numbers have one byte");
_Static_assert(WIRE_MAX_DESCRIPTION_BYTES * 2 <= WIRE_MAX_CONTROL_BYTES, "a WELCOME with its description fits");

enum { OFFSET_KIND = 4, OFFSET_TRANSFER = 5, OFFSET_ZERO = 6 };

static void store(uint8_t *p, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t load(const uint8_t *p, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static size_t write_header(frame_kind kind, uint8_t transfer, size_t body_size, uint8_t *header) {
    store(header, body_size, 4);
    header[OFFSET_KIND] = (uint8_t)kind;
    header[OFFSET_TRANSFER] = transfer;
    store(header + OFFSET_ZERO, 0, 2);
    return FRAME_HEADER_BYTES;
}

size_t frame_control(frame_kind kind, size_t count, uint8_t prefix[FRAME_MAX_PREFIX_BYTES]) {
    if (kind <= FRAME_NONE || kind > FRAME_MESSAGE || count == 0 || count > WIRE_MAX_CONTROL_BYTES) return 0;
    return write_header(kind, 0, count, prefix);
}

size_t frame_transfer(uint8_t transfer, size_t count, uint64_t payload_bytes, uint8_t prefix[FRAME_MAX_PREFIX_BYTES]) {
    if (transfer >= WIRE_MAX_TRANSFERS || count == 0 || count > WIRE_MAX_CONTROL_BYTES) return 0;
    if (payload_bytes == 0 || payload_bytes > WIRE_MAX_PAYLOAD_BYTES) return 0;
    write_header(FRAME_TRANSFER, transfer, count + FRAME_TRANSFER_PREFIX_BYTES, prefix);
    store(prefix + FRAME_HEADER_BYTES, payload_bytes, FRAME_TRANSFER_PREFIX_BYTES);
    return FRAME_HEADER_BYTES + FRAME_TRANSFER_PREFIX_BYTES;
}

size_t frame_chunk(uint8_t transfer, size_t count, uint8_t prefix[FRAME_MAX_PREFIX_BYTES]) {
    if (transfer >= WIRE_MAX_TRANSFERS || count == 0 || count > WIRE_MAX_CHUNK_BYTES) return 0;
    return write_header(FRAME_CHUNK, transfer, count, prefix);
}

void frame_decoder_init(frame_decoder *d) {
    memset(d, 0, offsetof(frame_decoder, body));  // a transfer's message is written before it is read
}

void frame_decoder_open(frame_decoder *d, uint64_t max_payload) {
    d->open = true;
    d->max_payload = max_payload < WIRE_MAX_PAYLOAD_BYTES ? max_payload : WIRE_MAX_PAYLOAD_BYTES;
}

static const char *check_control(const frame_decoder *d) {
    bool greeting = d->kind < FRAME_MESSAGE;
    if (greeting && d->open) return "a greeting after the handshake";
    if (!greeting && !d->open) return "a message before the handshake";
    if (d->transfer != 0) return "a transfer number on a frame that has none";
    if (d->body_size == 0 || d->body_size > WIRE_MAX_CONTROL_BYTES) return "a message of a length that is not allowed";
    return NULL;
}

static const char *check_transfer(const frame_decoder *d) {
    if (!d->open) return "a payload before the handshake";
    if (d->transfer >= WIRE_MAX_TRANSFERS) return "more payloads at once than are allowed";
    if (d->left[d->transfer] > 0) return "a payload under the number of one that is not complete";
    if (d->body_size <= FRAME_TRANSFER_PREFIX_BYTES) return "a payload without its message";
    if (d->body_size > WIRE_MAX_CONTROL_BYTES + FRAME_TRANSFER_PREFIX_BYTES) return "a message longer than is allowed";
    return NULL;
}

static const char *check_chunk(const frame_decoder *d) {
    if (!d->open) return "a payload before the handshake";
    if (d->transfer >= WIRE_MAX_TRANSFERS) return "more payloads at once than are allowed";
    if (d->left[d->transfer] == 0) return "bytes of a payload that was not announced";
    if (d->body_size == 0 || d->body_size > WIRE_MAX_CHUNK_BYTES) return "a piece of a length that is not allowed";
    if (d->body_size > d->left[d->transfer]) return "a payload longer than was announced";
    return NULL;
}

// Validates and stores the header's fields. Returns NULL if the frame is legal now, else the
// violation.
static const char *read_header(frame_decoder *d) {
    d->body_size = (uint32_t)load(d->header, 4);
    d->body_bytes = 0;
    d->kind = d->header[OFFSET_KIND];
    d->transfer = d->header[OFFSET_TRANSFER];
    if (load(d->header + OFFSET_ZERO, 2) != 0) return "a frame that sets bits which have no meaning";
    switch (d->kind) {
    case FRAME_HELLO:
    case FRAME_WELCOME:
    case FRAME_REFUSE:
    case FRAME_MESSAGE: return check_control(d);
    case FRAME_TRANSFER: return check_transfer(d);
    case FRAME_CHUNK: return check_chunk(d);
    default: return "a frame of an unknown kind";
    }
}

static void fail(frame_decoder *d, frame_event *event, const char *error) {
    d->error = error;
    *event = (frame_event){.kind = FRAME_EVENT_ERROR, .error = error};
}

// Appends available bytes until `missing` of them are there; returns how many it appended.
static uint32_t gather(uint8_t *have, uint32_t missing, const uint8_t *bytes, size_t count) {
    uint32_t take = count < missing ? (uint32_t)count : missing;
    if (take > 0) memcpy(have, bytes, take);
    return take;
}

// A complete control body has arrived.
static void finish_body(frame_decoder *d, frame_event *event) {
    frame_kind kind = d->kind;
    d->kind = FRAME_NONE;
    if (kind != FRAME_TRANSFER) {
        *event = (frame_event){.kind = kind == FRAME_MESSAGE ? FRAME_EVENT_MESSAGE : FRAME_EVENT_HANDSHAKE,
                               .frame = kind,
                               .bytes = d->body,
                               .count = d->body_size};
        return;
    }
    uint64_t payload = load(d->body, FRAME_TRANSFER_PREFIX_BYTES);
    if (payload == 0 || payload > d->max_payload) {
        fail(d, event, "a payload of a length that is not allowed");
        return;
    }
    d->left[d->transfer] = payload;
    *event = (frame_event){.kind = FRAME_EVENT_BEGIN,
                           .frame = kind,
                           .transfer = d->transfer,
                           .bytes = d->body + FRAME_TRANSFER_PREFIX_BYTES,
                           .count = d->body_size - FRAME_TRANSFER_PREFIX_BYTES,
                           .payload_bytes = payload};
}

// Hands on the available bytes of a chunk, at least one.
static size_t pass_chunk(frame_decoder *d, const uint8_t *bytes, size_t count, frame_event *event) {
    uint32_t missing = d->body_size - d->body_bytes;
    uint32_t take = count < missing ? (uint32_t)count : missing;
    d->body_bytes += take;
    d->left[d->transfer] -= take;
    d->transfer_ended = d->left[d->transfer] == 0;
    if (d->body_bytes == d->body_size) d->kind = FRAME_NONE;
    *event = (frame_event){
        .kind = FRAME_EVENT_PAYLOAD, .frame = FRAME_CHUNK, .transfer = d->transfer, .bytes = bytes, .count = take};
    return take;
}

size_t frame_decode(frame_decoder *d, const uint8_t *bytes, size_t count, frame_event *event) {
    *event = (frame_event){.kind = FRAME_EVENT_NONE};
    if (d->error != NULL) {
        fail(d, event, d->error);
        return 0;
    }
    if (d->transfer_ended) {
        d->transfer_ended = false;
        *event = (frame_event){.kind = FRAME_EVENT_END, .frame = FRAME_CHUNK, .transfer = d->transfer};
        return 0;
    }
    size_t used = 0;
    if (d->kind == FRAME_NONE) {
        used = gather(d->header + d->header_bytes, FRAME_HEADER_BYTES - d->header_bytes, bytes, count);
        d->header_bytes += (uint32_t)used;
        if (d->header_bytes < FRAME_HEADER_BYTES) return used;
        d->header_bytes = 0;
        const char *error = read_header(d);
        if (error != NULL) {
            fail(d, event, error);
            return used;
        }
    }
    if (used == count) return used;
    if (d->kind == FRAME_CHUNK) return used + pass_chunk(d, bytes + used, count - used, event);
    uint32_t take = gather(d->body + d->body_bytes, d->body_size - d->body_bytes, bytes + used, count - used);
    d->body_bytes += take;
    if (d->body_bytes == d->body_size) finish_body(d, event);
    return used + take;
}
