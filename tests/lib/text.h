// Texts of files with one change, and assertions on messages about them.
#ifndef BRAID_TEST_TEXT_H
#define BRAID_TEST_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

// `text` with its first `old` replaced; valid until the next call.
static inline const char *text_changed(const char *text, const char *old, const char *new) {
    static char changed[4096];
    const char *at = strstr(text, old);
    assert_non_null(at);
    int length = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_in_range(length, 0, sizeof changed - 1);
    return changed;
}

static inline void assert_text_holds(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("'%s' does not hold '%s'", text, part);
}

#endif
