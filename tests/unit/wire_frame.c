// Frames: every division of a stream gives the same events, and no bytes make a payload longer than
// announced.
#include "wire/frame.h"

#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STREAM_BYTES = 1 << 20, LOG_BYTES = 1 << 21 };

static uint8_t stream[STREAM_BYTES];
static size_t stream_bytes;
static frame_decoder decoder;

static void put(const uint8_t *prefix, size_t prefix_bytes, const uint8_t *body, size_t count) {
    assert_true(prefix_bytes > 0 && stream_bytes + prefix_bytes + count <= STREAM_BYTES);
    memcpy(stream + stream_bytes, prefix, prefix_bytes);
    if (count > 0) memcpy(stream + stream_bytes + prefix_bytes, body, count);
    stream_bytes += prefix_bytes + count;
}

static void put_control(frame_kind kind, const uint8_t *body, size_t count) {
    uint8_t prefix[FRAME_MAX_PREFIX_BYTES];
    put(prefix, frame_control(kind, count, prefix), body, count);
}

static void put_transfer(uint8_t transfer, const uint8_t *body, size_t count, uint64_t payload) {
    uint8_t prefix[FRAME_MAX_PREFIX_BYTES];
    put(prefix, frame_transfer(transfer, count, payload, prefix), body, count);
}

static void put_chunk(uint8_t transfer, const uint8_t *body, size_t count) {
    uint8_t prefix[FRAME_MAX_PREFIX_BYTES];
    put(prefix, frame_chunk(transfer, count, prefix), body, count);
}

static void start(bool open) {
    stream_bytes = 0;
    frame_decoder_init(&decoder);
    if (open) frame_decoder_open(&decoder, WIRE_MAX_PAYLOAD_BYTES);
}

static frame_event next(size_t *at) {
    frame_event e;
    *at += frame_decode(&decoder, stream + *at, stream_bytes - *at, &e);
    return e;
}

static void test_a_valid_conversation(void **state) {
    (void)state;
    start(false);
    put_control(FRAME_HELLO, (const uint8_t *)"hello", 5);
    put_control(FRAME_MESSAGE, (const uint8_t *)"one", 3);
    put_transfer(1, (const uint8_t *)"with", 4, 10);
    put_chunk(1, (const uint8_t *)"01234", 5);
    put_control(FRAME_MESSAGE, (const uint8_t *)"between", 7);
    put_chunk(1, (const uint8_t *)"56789", 5);
    size_t at = 0;
    frame_event e = next(&at);
    assert_int_equal(e.kind, FRAME_EVENT_HANDSHAKE);
    assert_int_equal(e.frame, FRAME_HELLO);
    assert_int_equal(e.count, 5);
    assert_memory_equal(e.bytes, "hello", 5);
    frame_decoder_open(&decoder, 10);
    e = next(&at);
    assert_int_equal(e.kind, FRAME_EVENT_MESSAGE);
    assert_memory_equal(e.bytes, "one", 3);
    e = next(&at);
    assert_int_equal(e.kind, FRAME_EVENT_BEGIN);
    assert_int_equal(e.transfer, 1);
    assert_int_equal(e.payload_bytes, 10);
    assert_int_equal(e.count, 4);
    assert_memory_equal(e.bytes, "with", 4);
    e = next(&at);
    assert_int_equal(e.kind, FRAME_EVENT_PAYLOAD);
    assert_memory_equal(e.bytes, "01234", 5);
    e = next(&at);
    assert_int_equal(e.kind, FRAME_EVENT_MESSAGE);
    assert_memory_equal(e.bytes, "between", 7);
    e = next(&at);
    assert_int_equal(e.kind, FRAME_EVENT_PAYLOAD);
    assert_int_equal(e.transfer, 1);
    assert_memory_equal(e.bytes, "56789", 5);
    assert_int_equal(at, stream_bytes);
    e = next(&at);  // without further input
    assert_int_equal(e.kind, FRAME_EVENT_END);
    assert_int_equal(e.transfer, 1);
    assert_int_equal(next(&at).kind, FRAME_EVENT_NONE);
}

// --- a random stream, decoded in random slices, must give back its frames

static uint8_t sent[LOG_BYTES], received[LOG_BYTES];  // The events in order, independent of the cuts.
static size_t sent_bytes, received_bytes;

static void note(uint8_t *log, size_t *used, uint8_t what, uint8_t transfer, const uint8_t *body, size_t count) {
    assert_true(*used + 2 + count <= LOG_BYTES);
    log[(*used)++] = what;
    log[(*used)++] = transfer;
    if (count > 0) memcpy(log + *used, body, count);
    *used += count;
}

static void random_body(rng *r, uint8_t *body, size_t count) {
    random_bytes(r, body, count < 64 ? count : 64);
    for (size_t i = 64; i < count; i++) body[i] = (uint8_t)(body[i - 64] + i);
}

static void build_random_stream(rng *r) {
    static uint8_t body[WIRE_MAX_CONTROL_BYTES];
    uint64_t left[WIRE_MAX_TRANSFERS] = {0};
    stream_bytes = sent_bytes = 0;
    while (stream_bytes < 300000) {
        uint8_t t = (uint8_t)rng_below(r, WIRE_MAX_TRANSFERS);
        size_t count = 1 + rng_below(r, rng_below(r, 20) == 0 ? WIRE_MAX_CONTROL_BYTES : 200);
        random_body(r, body, count);
        if (rng_below(r, 2) == 0) {
            put_control(FRAME_MESSAGE, body, count);
            note(sent, &sent_bytes, FRAME_EVENT_MESSAGE, 0, body, count);
        } else if (left[t] == 0) {
            left[t] = 1 + rng_below(r, 60000);
            put_transfer(t, body, count, left[t]);
            note(sent, &sent_bytes, FRAME_EVENT_BEGIN, t, body, count);
        } else {
            count = 1 + rng_below(r, WIRE_MAX_CHUNK_BYTES);
            if (count > left[t]) count = left[t];
            random_body(r, body, count);
            put_chunk(t, body, count);
            // byte by byte, because the decoder may cut a chunk anywhere
            for (size_t i = 0; i < count; i++) note(sent, &sent_bytes, FRAME_EVENT_PAYLOAD, t, body + i, 1);
            left[t] -= count;
            if (left[t] == 0) note(sent, &sent_bytes, FRAME_EVENT_END, t, NULL, 0);
        }
    }
}

static void take(const frame_event *e) {
    if (e->kind != FRAME_EVENT_PAYLOAD) {
        note(received, &received_bytes, (uint8_t)e->kind, e->transfer, e->bytes, e->count);
        return;
    }
    for (size_t i = 0; i < e->count; i++) {
        note(received, &received_bytes, FRAME_EVENT_PAYLOAD, e->transfer, e->bytes + i, 1);
    }
}

static void test_slices_do_not_change_events(void **state) {
    (void)state;
    rng r = seeded_rng("slices", 31);
    for (int round = 0; round < 24; round++) {
        start(true);
        build_random_stream(&r);
        received_bytes = 0;
        uint64_t longest = (uint64_t)1 << (1 + round % 16);
        for (size_t at = 0; at < stream_bytes;) {
            size_t count = 1 + rng_below(&r, longest);
            if (count > stream_bytes - at) count = stream_bytes - at;
            uint8_t *slice = malloc(count);  // a separate allocation, so that a sanitizer sees its ends
            assert_non_null(slice);
            memcpy(slice, stream + at, count);
            frame_event e = {.kind = FRAME_EVENT_MESSAGE};
            for (size_t used = 0; e.kind != FRAME_EVENT_NONE;) {
                used += frame_decode(&decoder, slice + used, count - used, &e);
                assert_true(used <= count);
                assert_int_not_equal(e.kind, FRAME_EVENT_ERROR);
                if (e.kind != FRAME_EVENT_NONE) take(&e);
                if (e.kind == FRAME_EVENT_NONE) assert_int_equal(used, count);
            }
            free(slice);
            at += count;
        }
        assert_int_equal(received_bytes, sent_bytes);
        assert_memory_equal(received, sent, sent_bytes);
    }
}

// --- protocol violations

static void put_raw(uint32_t size, uint8_t kind, uint8_t transfer, uint8_t zero) {
    uint8_t h[FRAME_HEADER_BYTES] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16),
                                     (uint8_t)(size >> 24), kind, transfer, zero, 0};
    put(h, sizeof h, NULL, 0);
}

static void assert_error(const char *sentence) {
    frame_event e;
    size_t at = 0;
    do {
        e = next(&at);
    } while (e.kind != FRAME_EVENT_NONE && e.kind != FRAME_EVENT_ERROR);
    assert_int_equal(e.kind, FRAME_EVENT_ERROR);
    assert_string_equal(e.error, sentence);
    // and no further input is accepted
    assert_int_equal(frame_decode(&decoder, stream, stream_bytes, &e), 0);
    assert_int_equal(e.kind, FRAME_EVENT_ERROR);
    assert_string_equal(e.error, sentence);
}

static void expect_header_error(bool open, uint32_t size, uint8_t kind, uint8_t transfer, const char *sentence) {
    start(open);
    put_raw(size, kind, transfer, 0);
    assert_error(sentence);
}

static void test_bad_headers_are_refused(void **state) {
    (void)state;
    expect_header_error(true, 1, FRAME_NONE, 0, "a frame of an unknown kind");
    expect_header_error(true, 1, FRAME_KINDS, 0, "a frame of an unknown kind");
    expect_header_error(true, 1, FRAME_MESSAGE, 1, "a transfer number on a frame that has none");
    expect_header_error(true, 0, FRAME_MESSAGE, 0, "a message of a length that is not allowed");
    expect_header_error(true, WIRE_MAX_CONTROL_BYTES + 1, FRAME_MESSAGE, 0, "a message of a length that is not allowed");
    expect_header_error(true, UINT32_MAX, FRAME_MESSAGE, 0, "a message of a length that is not allowed");
    expect_header_error(true, 9, FRAME_HELLO, 0, "a greeting after the handshake");
    expect_header_error(false, 9, FRAME_MESSAGE, 0, "a message before the handshake");
    expect_header_error(false, 9, FRAME_TRANSFER, 0, "a payload before the handshake");
    expect_header_error(false, 9, FRAME_CHUNK, 0, "a payload before the handshake");
    expect_header_error(true, 8, FRAME_TRANSFER, 0, "a payload without its message");
    expect_header_error(true, WIRE_MAX_CONTROL_BYTES + 9, FRAME_TRANSFER, 0, "a message longer than is allowed");
    expect_header_error(true, 9, FRAME_TRANSFER, WIRE_MAX_TRANSFERS, "more payloads at once than are allowed");
    expect_header_error(true, 9, FRAME_CHUNK, WIRE_MAX_TRANSFERS, "more payloads at once than are allowed");
    expect_header_error(true, 9, FRAME_CHUNK, 0, "bytes of a payload that was not announced");
    start(true);
    put_raw(1, FRAME_MESSAGE, 0, 1);
    assert_error("a frame that sets bits which have no meaning");
}

static void test_bad_payloads_are_refused(void **state) {
    (void)state;
    const uint8_t *body = (const uint8_t *)"0123456789";
    start(true);
    put_transfer(0, body, 1, 5);
    put_transfer(0, body, 1, 5);
    assert_error("a payload under the number of one that is not complete");
    start(true);
    put_transfer(0, body, 1, 5);
    put_chunk(0, body, 3);
    put_chunk(0, body, 3);
    assert_error("a payload longer than was announced");
    start(true);
    put_transfer(0, body, 1, 5);
    put_raw(0, FRAME_CHUNK, 0, 0);
    assert_error("a piece of a length that is not allowed");
    start(true);
    put_transfer(0, body, 1, 1 << 20);
    put_raw(WIRE_MAX_CHUNK_BYTES + 1, FRAME_CHUNK, 0, 0);
    assert_error("a piece of a length that is not allowed");
    start(true);
    put_transfer(0, body, 1, 3);
    put_chunk(0, body, 3);
    put_chunk(0, body, 1);
    assert_error("bytes of a payload that was not announced");
}

// The receiver's own limit applies besides the protocol's.
static void test_payload_cap(void **state) {
    (void)state;
    const char *sentence = "a payload of a length that is not allowed";
    start(true);
    frame_decoder_open(&decoder, 1000);
    put_transfer(0, (const uint8_t *)"m", 1, 1001);
    assert_error(sentence);
    start(true);
    frame_decoder_open(&decoder, UINT64_MAX);
    put_transfer(0, (const uint8_t *)"m", 1, 1);
    for (size_t i = 0; i < 8; i++) stream[FRAME_HEADER_BYTES + i] = 0xff;
    assert_error(sentence);
    start(true);
    put_transfer(0, (const uint8_t *)"m", 1, 1);
    stream[FRAME_HEADER_BYTES] = 0;
    assert_error(sentence);
}

static void test_the_sender_enforces_the_limits(void **state) {
    (void)state;
    uint8_t p[FRAME_MAX_PREFIX_BYTES];
    assert_int_equal(frame_control(FRAME_MESSAGE, WIRE_MAX_CONTROL_BYTES, p), FRAME_HEADER_BYTES);
    assert_int_equal(frame_control(FRAME_MESSAGE, WIRE_MAX_CONTROL_BYTES + 1, p), 0);
    assert_int_equal(frame_control(FRAME_MESSAGE, 0, p), 0);
    assert_int_equal(frame_control(FRAME_TRANSFER, 9, p), 0);
    assert_int_equal(frame_control(FRAME_NONE, 9, p), 0);
    assert_int_equal(frame_transfer(0, 1, WIRE_MAX_PAYLOAD_BYTES, p), FRAME_MAX_PREFIX_BYTES);
    assert_int_equal(frame_transfer(0, 1, (uint64_t)WIRE_MAX_PAYLOAD_BYTES + 1, p), 0);
    assert_int_equal(frame_transfer(0, 1, 0, p), 0);
    assert_int_equal(frame_transfer(0, 0, 1, p), 0);
    assert_int_equal(frame_transfer(0, WIRE_MAX_CONTROL_BYTES + 1, 1, p), 0);
    assert_int_equal(frame_transfer(WIRE_MAX_TRANSFERS, 1, 1, p), 0);
    assert_int_equal(frame_chunk(0, WIRE_MAX_CHUNK_BYTES, p), FRAME_HEADER_BYTES);
    assert_int_equal(frame_chunk(0, WIRE_MAX_CHUNK_BYTES + 1, p), 0);
    assert_int_equal(frame_chunk(0, 0, p), 0);
    assert_int_equal(frame_chunk(WIRE_MAX_TRANSFERS, 1, p), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_valid_conversation),
        cmocka_unit_test(test_slices_do_not_change_events),
        cmocka_unit_test(test_bad_headers_are_refused),
        cmocka_unit_test(test_bad_payloads_are_refused),
        cmocka_unit_test(test_payload_cap),
        cmocka_unit_test(test_the_sender_enforces_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
