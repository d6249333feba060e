// Kept rows, the layers that a joiner takes, and the words for missing ones.
#include "span/choose.h"
#include "span/kept.h"
#include "span/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 3, MOST = 400 };

static float value_at(uint32_t position, uint32_t i) { return (float)(position * 10 + i); }

static void put(kept *k, uint32_t position, uint32_t count) {
    float x[MOST * DIM];
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t i = 0; i < DIM; i++) x[r * DIM + i] = value_at(position + r, i);
    assert_true(kept_put(k, DIM, position, count, x));
}

static void expect_rows(const kept *k, uint32_t from, uint32_t end) {
    assert_int_equal(k->from, from);
    assert_int_equal(k->end, end);
    const float *x = kept_at(k, DIM, from, end - from);
    assert_non_null(x);
    for (uint32_t r = from; r < end; r++)
        for (uint32_t i = 0; i < DIM; i++) assert_true(x[(r - from) * DIM + i] == value_at(r, i));
    assert_null(kept_at(k, DIM, from, end - from + 1));
    if (from > 0) assert_null(kept_at(k, DIM, from - 1, 1));
}

static void rows_are_kept_by_position(void **state) {
    (void)state;
    kept k = {0};
    put(&k, 0, 70);
    expect_rows(&k, 0, 70);
    put(&k, 70, 1);
    kept_forget(&k, 20);
    expect_rows(&k, 20, 71);
    put(&k, 71, 200);  // moves rows to the front
    expect_rows(&k, 20, 271);
    put(&k, 50, 10);  // later rows are void
    expect_rows(&k, 20, 60);
    kept_forget(&k, 10);
    expect_rows(&k, 20, 60);
    kept_forget(&k, 1000);
    expect_rows(&k, 60, 60);
    put(&k, 60, 5);
    expect_rows(&k, 60, 65);
    kept_free(&k);
}

static void rows_that_do_not_touch_replace_all(void **state) {
    (void)state;
    kept k = {0};
    put(&k, 10, 5);
    expect_rows(&k, 10, 15);
    put(&k, 3, 4);  // recomputed, because they were dropped
    expect_rows(&k, 3, 7);
    put(&k, 9, 2);
    expect_rows(&k, 9, 11);
    kept_free(&k);
}

enum { LAYERS = 10 };

static session_known peer(uint16_t begin, uint16_t end, uint32_t layer_ns) {
    session_known k = {
        .card = {.serves = true, .layers = LAYERS, .layer_begin = begin, .layer_end = end, .layer_ns = layer_ns}};
    return k;
}

static uint16_t choice(const session_known *list, uint32_t count, uint16_t layers) {
    session_view view = {count, list};
    braid_hash model = {{0}};
    uint16_t begin = 99;
    choose_layers(&view, &model, LAYERS, layers, &begin);
    return begin;
}

static void a_joiner_takes_what_is_missing_then_what_is_slow(void **state) {
    (void)state;
    session_known list[5] = {{.suspected = false}, peer(0, 4, 100), peer(6, 10, 100)};
    assert_int_equal(choice(list, 3, 2), 4);
    assert_int_equal(choice(list, 3, 4), 2);  // of the windows with both, the first
    assert_int_equal(choice(list, 3, LAYERS), 0);
    list[3] = peer(4, 6, 10000);
    assert_int_equal(choice(list, 4, 2), 4);  // slowest
    list[3] = peer(4, 6, 10);
    list[2] = peer(6, 10, 1000);
    assert_int_equal(choice(list, 4, 3), 6);
    list[2].suspected = true;  // as if it were not there
    assert_int_equal(choice(list, 4, 4), 6);
    assert_int_equal(choice(list, 1, 3), 0);
    list[1].card.model.bytes[0] = 1;  // of another model
    assert_int_equal(choice(list, 4, 4), 0);
}

static void expect_blocker(span_room room, const char *expected) {
    char text[SPAN_MAX_NOTE];
    span_peer_blocker(&room, text);
    assert_string_equal(text, expected);
}

static void missing_layers_are_named(void **state) {
    (void)state;
    expect_blocker((span_room){.lacks_begin = 3, .lacks_end = 3, .other_kernels = 2}, "");
    expect_blocker((span_room){.lacks_begin = 3, .lacks_end = 4}, "layer 3 is on no peer");
    expect_blocker((span_room){.lacks_begin = 3, .lacks_end = 6}, "layers 3 to 5 are on no peer");
    expect_blocker((span_room){.lacks_begin = 3, .lacks_end = 6, .other_kernels = 1},
                   "layers 3 to 5 are on no peer with the kernels of this one; 1 computes other bits");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_kept_by_position),
        cmocka_unit_test(rows_that_do_not_touch_replace_all),
        cmocka_unit_test(missing_layers_are_named),
        cmocka_unit_test(a_joiner_takes_what_is_missing_then_what_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
