// What waits to be sent on one link: frames without payload first, then payloads, first come first served. The stream is
// cut into records of at most 16 KiB, and the choice is made anew for each.
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
    uint8_t *control;  // frames, from `head` to `tail`
    size_t head, tail, capacity;
    outbox_payload *first, *last;  // the first is under way
    outbox_payload *done;          // written, or given up
    uint32_t payloads;
    uint64_t payload_bytes;  // still to be sent
    uint64_t control_out, bulk_out;
} outbox;

// Each returns false when there is no memory or a limit of the frames is broken; then nothing was queued.
bool outbox_add(outbox *o, frame_kind kind, const uint8_t *bytes, size_t count);
// `payload` may be empty: then the message goes as one without, and the token is done at once.
bool outbox_add_payload(outbox *o, const uint8_t *bytes, size_t count, const void *payload, uint64_t payload_bytes,
                        uint64_t token);

// The next bytes of the stream, at most OUTBOX_RECORD_BYTES; 0 when nothing waits. `scratch` holds that many. They count
// as sent, and are valid until the next call.
size_t outbox_next(outbox *o, uint8_t *scratch, const uint8_t **bytes);
bool outbox_is_empty(const outbox *o);
size_t outbox_control_waiting(const outbox *o);

// The token of a payload that is not needed any more; false when there is none.
bool outbox_pop_done(outbox *o, uint64_t *token);
// Gives up every payload (they become done), keeps the frames that wait.
void outbox_drop_payloads(outbox *o);
// Frees the frames that wait. Payloads were popped before.
void outbox_close(outbox *o);

#endif
