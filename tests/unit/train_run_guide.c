// The user guide names every key of a description.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/run_fields.h"

#include <stdio.h>
#include <string.h>

static void test_every_key_is_explained(void **state) {
    (void)state;
    static char guide[1 << 17];
    FILE *file = fopen(BRAID_TEST_FIXTURES "/../docs/user-guide.md", "r");
    assert_non_null(file);
    size_t length = fread(guide, 1, sizeof guide - 1, file);
    fclose(file);
    assert_true(length > 1000 && length < sizeof guide - 1);
    guide[length] = 0;
    for (size_t i = 0; i < run_field_count; i++) {
        char row[128];
        const run_field *f = &run_fields[i];
        snprintf(row, sizeof row, "\n| `%s%s%s` |", f->section, *f->section ? "." : "", f->key);
        if (strstr(guide, row) == NULL) fail_msg("docs/user-guide.md does not explain %s.%s", f->section, f->key);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_key_is_explained)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
