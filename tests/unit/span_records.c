// State records of a serving swarm: states with their times, peers that are lost or leave.
#include "span/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

enum { PEERS = 3 };

typedef struct world {
    session_known peer[PEERS];  // the first one is the API
    session_view view;
    records_own own;
    span_records *records;
    uint64_t now;
} world;

static void look(world *w, uint64_t seconds) {
    w->now += seconds * SECOND;
    span_records_look(w->records, &w->view, &w->own, w->now);
}

static void begin(world *w) {
    *w = (world){.own = {.origin = true}, .now = 100 * SECOND};
    w->own.model.bytes[0] = 1;
    w->own.kernels.bytes[0] = 2;
    for (int i = 0; i < PEERS; i++) {
        session_card *c = &w->peer[i].card;
        w->peer[i].linked = i > 0;
        c->id.bytes[0] = (uint8_t)(0xa0 + i);
        c->serves = i > 0;
        c->layer_end = 4;
        c->model = w->own.model;
        c->kernels = w->own.kernels;
    }
    w->view = (session_view){.count = PEERS, .peer = w->peer};
    w->records = span_records_new();
    assert_non_null(w->records);
    look(w, 0);
}

static char *text_of(const world *w) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    span_records_put(w->records, &w->view, &o, w->now);
    json_out_close(&o, '}');
    return json_out_take(&o, NULL);
}

static void expect(const world *w, const char *part, bool present) {
    char *text = text_of(w);
    assert_non_null(text);
    if ((strstr(text, part) != NULL) != present) fail_msg("'%s' %s in: %s", part, present ? "is not" : "is", text);
    free(text);
}

static void test_states(void **state) {
    (void)state;
    world w;
    begin(&w);
    look(&w, 5);
    expect(&w, "\"state\":\"api\",\"since_s\":5", true);
    expect(&w, "\"state\":\"serving\",\"since_s\":5", true);
    w.peer[1].card.draining = true;
    w.peer[2].card.kernels.bytes[0] = 9;
    look(&w, 1);
    look(&w, 2);
    expect(&w,
           "\"state\":\"draining\",\"blocker\":\"it leaves in order\",\"waiting_for\":\"the end of its "
           "texts\",\"since_s\":2",
           true);
    expect(&w, "\"state\":\"other kernels\"", true);
    expect(&w, "\"state\":\"serving\"", false);
    w.peer[1].card.draining = false;
    w.peer[1].card.serves = false;
    w.peer[2].card.model.bytes[0] = 9;
    look(&w, 1);
    expect(&w, "\"state\":\"without layers\"", true);
    expect(&w, "\"state\":\"other model\"", true);
    w.peer[1].card.serves = true;
    w.peer[1].linked = false;
    look(&w, 1);
    expect(&w, "\"state\":\"not linked\"", true);
    expect(&w, "\"gone\":[]", true);
    span_records_free(w.records);
}

// The first reason counts: later ones are about attempts to reach it again.
static void test_lost(void **state) {
    (void)state;
    world w;
    begin(&w);
    span_records_fell(w.records, &w.peer[1].card.id, "the connection was reset");
    span_records_fell(w.records, &w.peer[1].card.id, "refused");
    w.peer[1].suspected = true;
    w.peer[1].linked = false;
    look(&w, 1);
    look(&w, 3);
    expect(&w, "\"state\":\"lost\",\"blocker\":\"the connection was reset\",\"since_s\":3", true);
    expect(&w, "\"first_layer\":0,\"last_layer\":3}]", true);
    char *text = text_of(&w);
    assert_null(strstr(strstr(text, "\"id\":\"a1"), "\"state\":\"serving\""));  // only among the former ones
    free(text);
    w.peer[1].suspected = false;
    w.peer[1].linked = true;
    look(&w, 1);
    expect(&w, "\"state\":\"serving\",\"since_s\":0", true);
    span_records_free(w.records);
}

static void test_left_and_forgotten(void **state) {
    (void)state;
    world w;
    begin(&w);
    w.peer[2].card.draining = true;
    look(&w, 1);
    w.view.count = 2;
    look(&w, 1);
    expect(&w, "\"state\":\"left\",\"blocker\":\"it left in order\"", true);
    w.view.count = 1;
    look(&w, 1);
    expect(&w, "\"state\":\"lost\",\"blocker\":\"it does not answer\"", true);
    span_records_free(w.records);
}

static void test_bound(void **state) {
    (void)state;
    world w;
    begin(&w);
    for (int i = 0; i < 3 * RECORDS_MAX_GONE; i++) {
        w.peer[1].card.id.bytes[1] = (uint8_t)i;
        look(&w, 1);
    }
    char *text = text_of(&w);
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, "\"lost\"")); at++) count++;
    assert_int_equal(count, RECORDS_MAX_GONE);
    free(text);
    span_records_free(w.records);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_left_and_forgotten),
        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
