// Bytes of a stream, decoded at once and in slices: the same events, and never more of a payload
// than announced. An input is: a byte of flags, a byte that seeds the cuts, the stream.
#include "fuzz.h"

#include "base/rng.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <string.h>

enum { FLAG_HANDSHAKE = 1, FLAG_SMALL_CAP = 2, SMALL_CAP = 100 };

static size_t add(uint8_t *bytes, size_t at, size_t prefix, const uint8_t *prefix_bytes, size_t count) {
    memcpy(bytes + at, prefix_bytes, prefix);
    memset(bytes + at + prefix, 'b', count);
    return at + prefix + count;
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(44, number)};
    uint64_t left[WIRE_MAX_TRANSFERS] = {0};
    uint8_t prefix[FRAME_MAX_PREFIX_BYTES];
    bytes[0] = (uint8_t)rng_below(&r, 4);
    bytes[1] = (uint8_t)rng_next(&r);
    size_t at = 2;
    if (bytes[0] & FLAG_HANDSHAKE) {
        at = add(bytes, at, frame_control((frame_kind)(1 + rng_below(&r, 3)), 20, prefix), prefix, 20);
    }
    for (uint64_t frames = rng_below(&r, 30); frames > 0 && at + 200 < capacity; frames--) {
        uint8_t t = (uint8_t)rng_below(&r, WIRE_MAX_TRANSFERS);
        size_t count = 1 + rng_below(&r, 100);
        if (rng_below(&r, 3) == 0) {
            at = add(bytes, at, frame_control(FRAME_MESSAGE, count, prefix), prefix, count);
        } else if (left[t] == 0) {
            left[t] = 1 + rng_below(&r, SMALL_CAP);
            at = add(bytes, at, frame_transfer(t, count, left[t], prefix), prefix, count);
        } else {
            if (count > left[t]) count = left[t];
            left[t] -= count;
            at = add(bytes, at, frame_chunk(t, count, prefix), prefix, count);
        }
    }
    return at;
}

// The events of a stream, independent of the cuts.
typedef struct summary {
    uint64_t digest;
    uint64_t left[WIRE_MAX_TRANSFERS];
    const char *error;
} summary;

static void fold(summary *s, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) s->digest = (s->digest ^ bytes[i]) * 0x100000001b3u;
}

static void take(summary *s, const frame_event *e, uint64_t cap) {
    if (e->kind != FRAME_EVENT_PAYLOAD) {
        const uint8_t mark[3] = {(uint8_t)e->kind, (uint8_t)e->frame, e->transfer};
        fold(s, mark, sizeof mark);
    }
    fold(s, e->bytes, e->count);
    switch (e->kind) {
    case FRAME_EVENT_BEGIN:
        FUZZ_CHECK(s->left[e->transfer] == 0);
        FUZZ_CHECK(e->payload_bytes > 0 && e->payload_bytes <= cap);
        FUZZ_CHECK(e->count > 0 && e->count <= WIRE_MAX_CONTROL_BYTES);
        s->left[e->transfer] = e->payload_bytes;
        break;
    case FRAME_EVENT_PAYLOAD:
        FUZZ_CHECK(e->count > 0 && e->count <= s->left[e->transfer]);
        s->left[e->transfer] -= e->count;
        break;
    case FRAME_EVENT_END: FUZZ_CHECK(s->left[e->transfer] == 0); break;
    case FRAME_EVENT_ERROR: s->error = e->error; break;
    case FRAME_EVENT_MESSAGE: FUZZ_CHECK(e->count > 0 && e->count <= WIRE_MAX_CONTROL_BYTES); break;
    case FRAME_EVENT_HANDSHAKE:
    case FRAME_EVENT_NONE: break;
    }
}

static summary decode(const uint8_t *data, size_t size, uint8_t flags, rng *cuts) {
    static frame_decoder d;
    uint64_t cap = flags & FLAG_SMALL_CAP ? SMALL_CAP : WIRE_MAX_PAYLOAD_BYTES;
    summary s = {.digest = 1};
    frame_decoder_init(&d);
    if (!(flags & FLAG_HANDSHAKE)) frame_decoder_open(&d, cap);
    for (size_t at = 0; at < size && s.error == NULL;) {
        size_t end = cuts == NULL ? size : at + 1 + rng_below(cuts, size - at);
        frame_event e = {.kind = FRAME_EVENT_MESSAGE};
        while (e.kind != FRAME_EVENT_NONE && e.kind != FRAME_EVENT_ERROR) {
            size_t used = frame_decode(&d, data + at, end - at, &e);
            FUZZ_CHECK(used <= end - at);
            FUZZ_CHECK(used > 0 || e.kind == FRAME_EVENT_END || e.kind == FRAME_EVENT_NONE || d.error != NULL);
            at += used;
            if (e.kind != FRAME_EVENT_NONE) take(&s, &e, cap);
            if (e.kind == FRAME_EVENT_HANDSHAKE) frame_decoder_open(&d, cap);
        }
        FUZZ_CHECK(e.kind == FRAME_EVENT_ERROR || at == end);
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    rng cuts = {data[1]};
    summary whole = decode(data + 2, size - 2, data[0], NULL);
    summary sliced = decode(data + 2, size - 2, data[0], &cuts);
    FUZZ_CHECK(whole.digest == sliced.digest);
    FUZZ_CHECK(whole.error == sliced.error);
    return 0;
}
