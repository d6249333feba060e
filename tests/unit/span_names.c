// Names of pages: a chain over all tokens, of one model and adapter.
#include "span/names.h"

#include "infer/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = ENGINE_PAGE_TOKENS, TOKENS = 3 * PAGE + 5, MOST = 8 };

static uint32_t tokens[TOKENS];
static session_key keys[MOST], others[MOST];

static bool same(uint32_t i) { return memcmp(&keys[i], &others[i], sizeof keys[i]) == 0; }

static void a_name_covers_all_tokens_before(void **state) {
    (void)state;
    const braid_hash model = {{1}}, adapter = {{2}};
    names a, b, c;
    for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = i;
    names_open(&a, &model, NULL);
    names_open(&b, &model, NULL);
    names_open(&c, &model, &adapter);
    assert_true(names_put(&a, tokens, 0, TOKENS) && names_put(&c, tokens, 0, TOKENS));
    assert_int_equal(names_keys(&a, TOKENS, 0, keys, MOST), 3);
    assert_int_equal(names_keys(&c, TOKENS, 0, others, MOST), 3);
    for (uint32_t i = 0; i < 3; i++) assert_false(same(i));
    // in pieces, of which the last one is taken back
    assert_true(names_put(&b, tokens, 0, 100) && names_put(&b, tokens + 100, 100, 40));
    assert_int_equal(names_keys(&b, 140, 0, others, MOST), 2);
    assert_true(names_put(&b, tokens, 90, 30));
    assert_int_equal(names_keys(&b, TOKENS, 0, others, MOST), 1);
    assert_true(same(0));
    assert_true(names_put(&b, tokens + 90, 90, TOKENS - 90));
    assert_int_equal(names_keys(&b, TOKENS, 0, others, MOST), 3);
    for (uint32_t i = 0; i < 3; i++) assert_true(same(i));
    // a token of the first page changes all names
    tokens[3]++;
    assert_true(names_put(&b, tokens, 0, TOKENS));
    assert_int_equal(names_keys(&b, TOKENS, 0, others, MOST), 3);
    for (uint32_t i = 0; i < 3; i++) assert_false(same(i));
    // parts
    assert_int_equal(names_keys(&b, 2 * PAGE - 1, 0, others, MOST), 1);
    assert_int_equal(names_keys(&b, TOKENS, 2, others, MOST), 1);
    assert_int_equal(names_keys(&b, TOKENS, 0, others, 2), 2);
    assert_false(names_put(&b, tokens, TOKENS + 1, 1));  // a gap
    names_close(&a);
    names_close(&b);
    names_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_name_covers_all_tokens_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
