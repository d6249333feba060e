// The order in which a link's bytes are sent: frames without payload first, then payloads one after
// another.
#include "net/outbox.h"

#include "base/rng.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static uint8_t scratch[OUTBOX_RECORD_BYTES];

static frame_kind kind_of(const uint8_t *record) { return (frame_kind)record[4]; }

static void test_control_overtakes_a_payload(void **state) {
    (void)state;
    static uint8_t payload[5 * WIRE_MAX_CHUNK_BYTES];
    outbox o = {0};
    const uint8_t *record = NULL;
    uint64_t token = 0;
    assert_true(outbox_add_payload(&o, (const uint8_t *)"big", 3, payload, sizeof payload, 9));
    assert_int_equal(outbox_next(&o, scratch, &record), FRAME_MAX_PREFIX_BYTES + 3);
    assert_int_equal(kind_of(record), FRAME_TRANSFER);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(outbox_next(&o, scratch, &record), OUTBOX_RECORD_BYTES);
        assert_int_equal(kind_of(record), FRAME_CHUNK);
        assert_true(outbox_add(&o, FRAME_MESSAGE, (const uint8_t *)"now", 3));
        assert_int_equal(outbox_pop_done(&o, &token), i == 4);
        assert_int_equal(outbox_next(&o, scratch, &record), FRAME_HEADER_BYTES + 3);
        assert_int_equal(kind_of(record), FRAME_MESSAGE);
    }
    assert_int_equal(token, 9);
    assert_true(outbox_is_empty(&o));
    assert_int_equal(outbox_next(&o, scratch, &record), 0);
    outbox_close(&o);
}

static void test_payloads_go_in_order(void **state) {
    (void)state;
    static uint8_t payload[40000];
    outbox o = {0};
    const uint8_t *record = NULL;
    uint64_t token = 0, order = 0;
    for (uint64_t i = 1; i <= 4; i++)
        assert_true(outbox_add_payload(&o, (const uint8_t *)"m", 1, payload, 10000 * i, i));
    assert_int_equal(o.payload_bytes, 100000);
    assert_int_equal(o.payloads, 4);
    while (outbox_next(&o, scratch, &record) > 0) {
        while (outbox_pop_done(&o, &token)) order = order * 10 + token;
    }
    assert_int_equal(order, 1234);
    assert_int_equal(o.payload_bytes, 0);
    assert_int_equal(o.bulk_out, 100000);
    outbox_close(&o);
}

static void test_dropped_payloads_come_back_once(void **state) {
    (void)state;
    static uint8_t payload[40000];
    outbox o = {0};
    const uint8_t *record = NULL;
    uint64_t token = 0;
    for (uint64_t i = 0; i < 3; i++)
        assert_true(outbox_add_payload(&o, (const uint8_t *)"m", 1, payload, sizeof payload, i));
    outbox_next(&o, scratch, &record);
    outbox_next(&o, scratch, &record);
    assert_true(outbox_add(&o, FRAME_MESSAGE, (const uint8_t *)"stays", 5));
    outbox_drop_payloads(&o);
    unsigned seen = 0;
    while (outbox_pop_done(&o, &token)) seen |= 1u << token;
    assert_int_equal(seen, 7);
    assert_int_equal(o.payload_bytes, 0);
    assert_int_equal(outbox_control_waiting(&o), FRAME_HEADER_BYTES + 5);
    outbox_close(&o);
}

static void test_limits(void **state) {
    (void)state;
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES + 1];
    outbox o = {0};
    uint64_t token = 0;
    assert_false(outbox_add(&o, FRAME_MESSAGE, bytes, 0));
    assert_false(outbox_add(&o, FRAME_MESSAGE, bytes, sizeof bytes));
    assert_false(outbox_add_payload(&o, bytes, 0, bytes, 1, 1));
    assert_false(outbox_add_payload(&o, bytes, 1, bytes, (uint64_t)WIRE_MAX_PAYLOAD_BYTES + 1, 1));
    assert_true(outbox_is_empty(&o));
    // an empty payload is sent as a plain message
    assert_true(outbox_add_payload(&o, bytes, 1, bytes, 0, 42));
    assert_true(outbox_pop_done(&o, &token));
    assert_int_equal(token, 42);
    outbox_close(&o);
}

// Random calls of the outbox: the decoder at the other end gets everything that was queued.
static void test_decoder_reads_the_outbox(void **state) {
    (void)state;
    static frame_decoder d;
    static uint8_t payload[100000], message[5000];
    rng r = seeded_rng("outbox", 1);
    outbox o = {0};
    uint64_t sent = 0, begun = 0, ended = 0, payloads = 0, received = 0, token = 0, bulk = 0, bulk_received = 0;
    frame_decoder_init(&d);
    frame_decoder_open(&d, WIRE_MAX_PAYLOAD_BYTES);
    for (int step = 0; step < 20000 || !outbox_is_empty(&o); step++) {
        if (step < 20000 && rng_below(&r, 3) == 0) {
            size_t count = 1 + rng_below(&r, sizeof message);
            if (rng_below(&r, 4) == 0) {
                size_t bytes = 1 + rng_below(&r, sizeof payload);
                assert_true(outbox_add_payload(&o, message, count, payload, bytes, payloads++));
                bulk += bytes;
            } else {
                assert_true(outbox_add(&o, FRAME_MESSAGE, message, count));
                sent++;
            }
        }
        const uint8_t *record = scratch;
        size_t left = outbox_next(&o, scratch, &record);
        while (outbox_pop_done(&o, &token)) continue;
        for (frame_event e = {.kind = FRAME_EVENT_MESSAGE}; e.kind != FRAME_EVENT_NONE;) {
            size_t used = frame_decode(&d, record, left, &e);
            record += used;
            left -= used;
            assert_int_not_equal(e.kind, FRAME_EVENT_ERROR);
            received += e.kind == FRAME_EVENT_MESSAGE;
            begun += e.kind == FRAME_EVENT_BEGIN;
            ended += e.kind == FRAME_EVENT_END;
            if (e.kind == FRAME_EVENT_PAYLOAD) bulk_received += e.count;
        }
    }
    assert_int_equal(received, sent);
    assert_int_equal(begun, payloads);
    assert_int_equal(ended, payloads);
    assert_int_equal(bulk_received, bulk);
    outbox_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_overtakes_a_payload),     cmocka_unit_test(test_payloads_go_in_order),
        cmocka_unit_test(test_dropped_payloads_come_back_once), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_decoder_reads_the_outbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
