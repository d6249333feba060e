// Frames: messages and their payloads on one stream of bytes between two peers.
//
// A stream is a sequence of frames, each a header of 8 bytes and a body, little-endian:
//     offset 0  u32  bytes of the body
//            4  u8   kind
//            5  u8   transfer, 0 .. WIRE_MAX_TRANSFERS - 1 in TRANSFER and CHUNK, else 0
//            6  u16  zero
// This header and the first fields of a handshake (wire/handshake.h) are the same in every version.
//
// A message without a payload is one MESSAGE frame. A message with a payload is a TRANSFER frame
// (u64 bytes of the payload, then the encoded message), followed by CHUNK frames of the same
// transfer number until the payload is complete. The number is free again then. Frames of other
// transfers and MESSAGE frames may stand between two chunks, so that a short message waits for at
// most one chunk. So a MESSAGE may overtake a payload that was begun before it; only messages of
// the same sort keep their order.
//
// During the handshake a stream carries only HELLO, WELCOME and REFUSE; afterwards none of these.
#ifndef BRAID_WIRE_FRAME_H
#define BRAID_WIRE_FRAME_H

#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER_BYTES = 8,
    FRAME_TRANSFER_PREFIX_BYTES = 8,  // the payload's length, which precedes the message in a TRANSFER
    FRAME_MAX_PREFIX_BYTES = FRAME_HEADER_BYTES + FRAME_TRANSFER_PREFIX_BYTES,
};

typedef enum frame_kind {
    FRAME_NONE,
    FRAME_HELLO,
    FRAME_WELCOME,
    FRAME_REFUSE,
    FRAME_MESSAGE,
    FRAME_TRANSFER,
    FRAME_CHUNK,
    FRAME_KINDS
} frame_kind;

// --- sending: each function writes the bytes that precede the caller's own and returns their
// number, 0 when a limit is violated.

// Header of a HELLO, WELCOME, REFUSE or MESSAGE of `count` bytes (1 .. WIRE_MAX_CONTROL_BYTES).
size_t frame_control(frame_kind kind, size_t count, uint8_t prefix[FRAME_MAX_PREFIX_BYTES]);
// Header of an encoded message of `count` bytes with a payload of `payload_bytes` (1 ..
// WIRE_MAX_PAYLOAD_BYTES).
size_t frame_transfer(uint8_t transfer, size_t count, uint64_t payload_bytes, uint8_t prefix[FRAME_MAX_PREFIX_BYTES]);
// Header of a chunk: the next `count` bytes of that payload (1 .. WIRE_MAX_CHUNK_BYTES).
size_t frame_chunk(uint8_t transfer, size_t count, uint8_t prefix[FRAME_MAX_PREFIX_BYTES]);

// --- receiving

typedef enum frame_event_kind {
    FRAME_EVENT_NONE,       // all input was consumed; more is needed
    FRAME_EVENT_HANDSHAKE,  // `frame`: HELLO, WELCOME or REFUSE; `bytes`, `count`: its body
    FRAME_EVENT_MESSAGE,    // `bytes`, `count`: an encoded message without a payload
    FRAME_EVENT_BEGIN,      // an encoded message; its payload of `payload_bytes` follows as `transfer`
    FRAME_EVENT_PAYLOAD,    // `bytes`, `count`: the next bytes of `transfer`
    FRAME_EVENT_END,        // `transfer` is complete
    FRAME_EVENT_ERROR,      // `error` describes the protocol violation; close the link
} frame_event_kind;

typedef struct frame_event {
    frame_event_kind kind;
    frame_kind frame;
    uint8_t transfer;
    const uint8_t *bytes;  // point into the input or into the decoder; valid until the next call
    size_t count;
    uint64_t payload_bytes;
    const char *error;
} frame_event;

// The decoder of one direction of one link. About 64 KiB; owns no other memory.
typedef struct frame_decoder {
    bool open;            // the handshake is complete
    uint64_t max_payload;
    const char *error;    // once set, the decoder accepts no more input
    uint8_t kind;         // kind of the current frame, FRAME_NONE while its header is incomplete
    uint8_t transfer;
    bool transfer_ended;  // the next event is FRAME_EVENT_END
    uint32_t header_bytes, body_bytes, body_size;
    uint64_t left[WIRE_MAX_TRANSFERS];  // payload bytes still to come; 0: the transfer number is free
    uint8_t header[FRAME_HEADER_BYTES];
    uint8_t body[WIRE_MAX_CONTROL_BYTES + FRAME_TRANSFER_PREFIX_BYTES];
} frame_decoder;

// Prepares the decoder for a handshake.
void frame_decoder_init(frame_decoder *d);
// The handshake is complete: from here on only messages are legal, with payloads of at most
// `max_payload` bytes (at most WIRE_MAX_PAYLOAD_BYTES). Call it between the event of the last
// handshake frame and the next frame_decode.
void frame_decoder_open(frame_decoder *d, uint64_t max_payload);
// Consumes input that may be cut anywhere. Returns the number of bytes consumed and fills `event`.
// The caller repeats the call with the rest until the event is FRAME_EVENT_NONE or
// FRAME_EVENT_ERROR.
size_t frame_decode(frame_decoder *d, const uint8_t *bytes, size_t count, frame_event *event);

#endif
