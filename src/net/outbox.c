#include "net/outbox.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { CONTROL_FIRST_BYTES = 4096, CONTROL_KEPT_BYTES = 64 * 1024 };

static bool control_reserve(outbox *o, size_t more) {
    if (o->control != NULL && o->capacity - o->tail >= more) return true;
    size_t waiting = o->tail - o->head;
    if (o->control != NULL && o->head >= waiting &&
        o->capacity - waiting >= more) {  // amortises moves: at most one byte moved per byte sent
        memcpy(o->control, o->control + o->head, waiting);
    } else {
        size_t capacity = o->capacity > 0 ? o->capacity : CONTROL_FIRST_BYTES;
        while (capacity - waiting < more) capacity *= 2;
        uint8_t *control = malloc(capacity);
        if (control == NULL) return false;
        if (waiting > 0) memcpy(control, o->control + o->head, waiting);
        free(o->control);
        o->control = control;
        o->capacity = capacity;
    }
    o->head = 0;
    o->tail = waiting;
    return true;
}

static void control_put(outbox *o, const uint8_t *bytes, size_t count) {
    memcpy(o->control + o->tail, bytes, count);
    o->tail += count;
    o->control_out += count;
}

static bool frame_put(outbox *o, const uint8_t *prefix, size_t prefix_bytes, const uint8_t *bytes, size_t count) {
    if (prefix_bytes == 0 || !control_reserve(o, prefix_bytes + count)) return false;
    control_put(o, prefix, prefix_bytes);
    control_put(o, bytes, count);
    return true;
}

bool outbox_add(outbox *o, frame_kind kind, const uint8_t *bytes, size_t count) {
    uint8_t prefix[FRAME_MAX_PREFIX_BYTES];
    return frame_put(o, prefix, frame_control(kind, count, prefix), bytes, count);
}

static void payload_finish(outbox *o, outbox_payload *p) {
    p->next = o->done;
    o->done = p;
}

bool outbox_add_payload(outbox *o, const uint8_t *bytes, size_t count, const void *payload, uint64_t payload_bytes,
                        uint64_t token) {
    if (count == 0 || count > WIRE_MAX_CONTROL_BYTES || payload_bytes > WIRE_MAX_PAYLOAD_BYTES) return false;
    outbox_payload *p = malloc(sizeof *p + count);
    if (p == NULL) return false;
    *p = (outbox_payload){.bytes = payload, .count = payload_bytes, .token = token, .message_bytes = count};
    memcpy(p->message, bytes, count);
    if (payload_bytes == 0) {
        if (!outbox_add(o, FRAME_MESSAGE, bytes, count)) {
            free(p);
            return false;
        }
        payload_finish(o, p);
        return true;
    }
    if (o->last != NULL) {
        o->last->next = p;
    } else {
        o->first = p;
    }
    o->last = p;
    o->payloads++;
    o->payload_bytes += payload_bytes;
    return true;
}

static void payload_unlink_first(outbox *o) {
    outbox_payload *p = o->first;
    o->first = p->next;
    if (o->first == NULL) o->last = NULL;
    o->payloads--;
    o->payload_bytes -= p->count - p->sent;
    payload_finish(o, p);
}

static size_t control_next(outbox *o, const uint8_t **bytes) {
    size_t count = o->tail - o->head;
    if (count > OUTBOX_RECORD_BYTES) count = OUTBOX_RECORD_BYTES;
    *bytes = o->control + o->head;
    o->head += count;
    return count;
}

// One payload is sent at a time, always as transfer 0.
static size_t chunk_next(outbox *o, uint8_t *scratch, const uint8_t **bytes) {
    outbox_payload *p = o->first;
    uint64_t left = p->count - p->sent;
    size_t count = left < WIRE_MAX_CHUNK_BYTES ? (size_t)left : WIRE_MAX_CHUNK_BYTES;
    uint8_t prefix[FRAME_MAX_PREFIX_BYTES];
    size_t prefix_bytes = frame_chunk(0, count, prefix);
    BRAID_ASSERT(prefix_bytes == FRAME_HEADER_BYTES);
    memcpy(scratch, prefix, prefix_bytes);
    memcpy(scratch + prefix_bytes, p->bytes + p->sent, count);
    p->sent += count;
    o->payload_bytes -= count;
    o->bulk_out += count;
    if (p->sent == p->count) payload_unlink_first(o);
    *bytes = scratch;
    return prefix_bytes + count;
}

size_t outbox_next(outbox *o, uint8_t *scratch, const uint8_t **bytes) {
    outbox_payload *p = o->first;
    if (o->head == o->tail && o->capacity > CONTROL_KEPT_BYTES) outbox_close(o);  // shrinks after a burst
    if (p != NULL && !p->begun && o->head == o->tail) {
        uint8_t prefix[FRAME_MAX_PREFIX_BYTES];
        size_t prefix_bytes = frame_transfer(0, p->message_bytes, p->count, prefix);
        if (!frame_put(o, prefix, prefix_bytes, p->message, p->message_bytes)) return 0;
        p->begun = true;
    }
    if (o->head < o->tail) return control_next(o, bytes);
    return p != NULL ? chunk_next(o, scratch, bytes) : 0;
}

bool outbox_is_empty(const outbox *o) { return o->head == o->tail && o->first == NULL; }
size_t outbox_control_waiting(const outbox *o) { return o->tail - o->head; }

bool outbox_pop_done(outbox *o, uint64_t *token) {
    outbox_payload *p = o->done;
    if (p == NULL) return false;
    o->done = p->next;
    *token = p->token;
    free(p);
    return true;
}

void outbox_drop_payloads(outbox *o) {
    while (o->first != NULL) payload_unlink_first(o);
}

void outbox_close(outbox *o) {
    free(o->control);
    o->control = NULL;
    o->head = o->tail = o->capacity = 0;
}
