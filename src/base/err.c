#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

const char *braid_err_text(braid_err code) {
    switch (code) {
#define X(name, value, text) \
    case BRAID_##name: return text;
        BRAID_ERRORS(X)
#undef X
    }
    return "an unknown error";
}

braid_err braid_fail(braid_error *error, braid_err code, const char *format, ...) {
    if (error == NULL) return code;
    va_list arguments;
    va_start(arguments, format);
    // An argument may point into error->text (a wrapped cause), so the new text is built in a
    // separate buffer.
    braid_error fresh = {.code = code};
    if (vsnprintf(fresh.text, sizeof fresh.text, format, arguments) < 0) fresh.text[0] = '\0';
    va_end(arguments);
    *error = fresh;
    return code;
}

_Noreturn void braid_memory_is_short(size_t bytes) {
    fprintf(stderr, "braid: out of memory: %zu bytes more were wanted; make some free, raise the limit (ulimit -v), or ask for something smaller\n", bytes);
    _Exit(1);
}

_Noreturn void braid_assert_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "braid: a bug: (%s) does not hold at %s:%d\n", condition, file, line);
    fflush(stderr);
    abort();
}
