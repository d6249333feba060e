// The send queue of one link: frames without payload first, then payloads in order. The stream is
// divided into records of at most 16 KiB, and each record is chosen when it is sent.
#ifndef BRAID_NET_OUTBOX_H
#define BRAID_NET_OUTBOX_H

#include "wire/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OUTBOX_RECORD_BYTES = FRAME_HEADER_BYTES + WIRE_MAX_CHUNK_BYTES };

typedef struct outbox_payload {
    struct outbox_payload *next;
    const uint8_t *bytes;  // borrowed
    uint64_t count, sent;
    uint64_t token;
    bool begun;
    size_t message_bytes;
    uint8_t message[];
} outbox_payload;

typedef struct outbox {
    uint8_t *control;  // queued frames, from `head` to `tail`
    size_t head, tail, capacity;
    outbox_payload *first, *last;  // the first is being sent
    outbox_payload *done;          // written or dropped
    uint32_t payloads;
    uint64_t payload_bytes;  // not yet sent
    uint64_t control_out, bulk_out;
} outbox;

// These return false when there is no memory or a limit of the frames is violated; then nothing was
// queued.
bool outbox_add(outbox *o, frame_kind kind, const uint8_t *bytes, size_t count);
// `payload` may be empty: then the message is sent without one, and the token is done at once.
bool outbox_add_payload(outbox *o, const uint8_t *bytes, size_t count, const void *payload, uint64_t payload_bytes,
                        uint64_t token);

// The next bytes of the stream, at most OUTBOX_RECORD_BYTES; 0 when the queue is empty. `scratch`
// has that size. The bytes count as sent, and stay valid until the next call.
size_t outbox_next(outbox *o, uint8_t *scratch, const uint8_t **bytes);
bool outbox_is_empty(const outbox *o);
size_t outbox_control_waiting(const outbox *o);

// The token of a payload that is no longer used; false when there is none.
bool outbox_pop_done(outbox *o, uint64_t *token);
// Drops every payload (they become done) and keeps the queued frames.
void outbox_drop_payloads(outbox *o);
// Frees the queued frames. Payloads must have been popped before.
void outbox_close(outbox *o);

#endif
