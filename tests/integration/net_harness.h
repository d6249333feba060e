// The peers of one test: each has a net and an identity, all on one loop, with a record of their
// callbacks.
#ifndef BRAID_TESTS_NET_HARNESS_H
#define BRAID_TESTS_NET_HARNESS_H

#include "net/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { HARNESS_LIMIT_MS = 60000, HARNESS_MAX_ALLOCS = 8 };

typedef struct tester {
    uv_loop_t *loop;
    identity *identity;
    braid_id id;
    net *net;
    // counts of callbacks
    unsigned ups, downs, refusals, messages, payloads, allocs, drops, sents, descriptions, turned_away;
    bool linked;               // the last one of up and down
    uint64_t payload_bytes;    // of complete payloads
    uint64_t bulk_at_message;  // bulk bytes that had arrived at the last message without payload
    bool refuse_payloads;
    net_peer peer;  // from the last link_up
    braid_id last_id;
    uint64_t last_token;
    char reason[512], away[512], text[256];
    uint8_t last[256];
    size_t last_bytes;
    uint8_t sum;  // of all payload bytes
    void (*on_message)(struct tester *t, const braid_id *id, const uint8_t *bytes, size_t count);
    void (*on_up)(struct tester *t, const braid_id *id);
    void *extra;
} tester;

static inline void tester_up(void *context, const braid_id *id, const net_peer *peer) {
    tester *t = context;
    t->ups++;
    uv_stop(t->loop);
    t->linked = true;
    t->peer = *peer;
    t->last_id = *id;
    if (t->on_up != NULL) t->on_up(t, id);
}

static inline void tester_down(void *context, const braid_id *id, bool refused, const char *reason) {
    tester *t = context;
    t->downs++;
    uv_stop(t->loop);
    t->refusals += refused;
    t->linked = false;
    t->last_id = *id;
    snprintf(t->reason, sizeof t->reason, "%s", reason);
}

static inline void tester_message(void *context, const braid_id *id, const uint8_t *bytes, size_t count, void *payload,
                                  uint64_t payload_bytes, uint64_t token) {
    tester *t = context;
    t->messages++;
    uv_stop(t->loop);
    t->last_bytes = count < sizeof t->last ? count : sizeof t->last;
    memcpy(t->last, bytes, t->last_bytes);
    t->last_token = token;
    if (payload != NULL) {
        t->payloads++;
        t->payload_bytes += payload_bytes;
        const uint8_t *p = payload;
        for (uint64_t i = 0; i < payload_bytes; i += 4093) t->sum = (uint8_t)(t->sum + p[i]);
        free(payload);
    } else {
        net_stats stats;
        if (net_link_stats(t->net, id, &stats)) t->bulk_at_message = stats.bulk_in;
    }
    if (t->on_message != NULL) t->on_message(t, id, bytes, count);
}

static inline void *tester_alloc(void *context, const braid_id *id, const uint8_t *bytes, size_t count,
                                 uint64_t payload_bytes, uint64_t *token) {
    tester *t = context;
    (void)id, (void)bytes, (void)count;
    t->allocs++;
    uv_stop(t->loop);
    *token = 1000 + t->allocs;
    return t->refuse_payloads ? NULL : malloc(payload_bytes);
}

static inline void tester_drop(void *context, void *payload, uint64_t token) {
    tester *t = context;
    assert_true(token > 1000);
    t->drops++;
    uv_stop(t->loop);
    free(payload);
}

static inline void tester_sent(void *context, uint64_t token) {
    tester *t = context;
    t->sents++;
    uv_stop(t->loop);
    t->last_token = token;
}

static inline void tester_description(void *context, const braid_id *id, const net_run *run) {
    tester *t = context;
    t->descriptions++;
    uv_stop(t->loop);
    t->last_id = *id;
    snprintf(t->text, sizeof t->text, "%.*s", (int)run->description_bytes, run->description);
}

static inline void tester_turned_away(void *context, const char *endpoint, const char *reason) {
    tester *t = context;
    (void)endpoint;
    t->turned_away++;
    uv_stop(t->loop);
    snprintf(t->away, sizeof t->away, "%s", reason);
}

static inline net_config tester_config(tester *t) {
    return (net_config){.callbacks = {.context = t,
                                      .link_up = tester_up,
                                      .link_down = tester_down,
                                      .message = tester_message,
                                      .payload_alloc = tester_alloc,
                                      .payload_drop = tester_drop,
                                      .payload_sent = tester_sent,
                                      .description = tester_description,
                                      .turned_away = tester_turned_away},
                        .kind = 1,
                        .software = "braid test"};
}

static inline net_run tester_run(uint8_t which) {
    net_run run = {.leader_address = "127.0.0.1:1", .description = "the run", .description_bytes = 7};
    memset(run.hash.bytes, which, sizeof run.hash.bytes);
    memset(run.kernels.bytes, 5, sizeof run.kernels.bytes);
    return run;
}

// Listening on an ephemeral port of 127.0.0.1, in run 7.
static inline void tester_start_with(tester *t, uv_loop_t *loop, const net_config *config) {
    braid_error error = {0};
    t->loop = loop;
    assert_int_equal(identity_new(&t->identity, &error), BRAID_OK);
    t->id = identity_id(t->identity);
    assert_int_equal(net_new(loop, t->identity, config, &t->net, &error), BRAID_OK);
    net_run run = tester_run(7);
    assert_int_equal(net_set_run(t->net, &run, &error), BRAID_OK);
    assert_int_equal(net_listen(t->net, "127.0.0.1", 0, &error), BRAID_OK);
}

static inline void tester_start(tester *t, uv_loop_t *loop) {
    memset(t, 0, sizeof *t);
    net_config config = tester_config(t);
    tester_start_with(t, loop, &config);
}

// Sorted by id: the first has the lower one.
static inline void tester_order(tester **lower, tester **higher) {
    if (memcmp(&(*lower)->id, &(*higher)->id, sizeof(braid_id)) < 0) return;
    tester *t = *lower;
    *lower = *higher;
    *higher = t;
}

static inline const char *tester_address(const tester *t, char text[64]) {
    snprintf(text, 64, "127.0.0.1:%u", net_port(t->net));
    return text;
}

static inline void tester_dial(tester *from, const tester *to) {
    char address[64];
    braid_error error = {0};
    assert_int_equal(net_dial(from->net, &to->id, tester_address(to, address), &error), BRAID_OK);
}

static inline void tester_say(tester *from, const tester *to, const char *text) {
    assert_int_equal(net_send(from->net, &to->id, (const uint8_t *)text, strlen(text), NULL, 0, 0), BRAID_OK);
}

typedef struct harness_limit {
    uv_timer_t timer;
    bool late, closed;
} harness_limit;

static inline void harness_too_late(uv_timer_t *timer) {
    ((harness_limit *)timer->data)->late = true;
    uv_stop(timer->loop);
}

static inline void harness_limit_closed(uv_handle_t *timer) { ((harness_limit *)timer->data)->closed = true; }

// Runs the loop until `*what` reaches `enough` (every callback above stops it); fails the test
// after HARNESS_LIMIT_MS.
static inline void harness_until(uv_loop_t *loop, const unsigned *what, unsigned enough) {
    harness_limit limit = {0};
    uv_timer_init(loop, &limit.timer);
    limit.timer.data = &limit;
    uv_timer_start(&limit.timer, harness_too_late, HARNESS_LIMIT_MS, 0);
    while (*what < enough && !limit.late) uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&limit.timer, harness_limit_closed);
    while (!limit.closed) uv_run(loop, UV_RUN_NOWAIT);
    if (*what < enough) fail_msg("only %u of %u after %d ms", *what, enough, HARNESS_LIMIT_MS);
}

static inline void harness_link(tester *from, tester *to) {
    unsigned ups_from = from->ups, ups_to = to->ups;
    tester_dial(from, to);
    harness_until(from->loop, &from->ups, ups_from + 1);
    harness_until(from->loop, &to->ups, ups_to + 1);
}

static inline void tester_stop(tester *t) {
    net_free(t->net);
    t->net = NULL;
}

static inline void harness_finish(uv_loop_t *loop) {
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
}

static inline void tester_end(tester *t) {
    identity_free(t->identity);
    t->identity = NULL;
}

#endif
