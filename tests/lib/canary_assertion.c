// Must fail: a cmocka assertion that does not hold (CMakeLists.txt, WILL_FAIL).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_one_is_two(void **state) {
    (void)state;
    assert_int_equal(1, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_is_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
