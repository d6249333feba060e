// The names of notifications in traces.
#include "braid/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Given all kinds of notifications, when traces name them, then no two have the same name.
static void test_notification_names_are_unique(void **state) {
    (void)state;
    for (int kind = 0; kind < TELL_KINDS; kind++) {
        assert_non_null(tell_name((tell_kind)kind));
        for (int other = 0; other < kind; other++) assert_string_not_equal(tell_name((tell_kind)kind), tell_name((tell_kind)other));
    }
    assert_string_equal(tell_name(TELL_KINDS), "unknown");
    assert_string_equal(tell_name(TELL_ROLLED_BACK), "rolled-back");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_notification_names_are_unique)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
