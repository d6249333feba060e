// Errors: a code for the program, a sentence for the user (what, where, and how to fix it).
#ifndef BRAID_BASE_ERR_H
#define BRAID_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define BRAID_ERRORS(X)                              \
    X(OK, 0, "no error")                             \
    X(MEMORY, -1, "out of memory")                   \
    X(ARGUMENT, -2, "a bad argument")                \
    X(CONFIG, -3, "a mistake in the configuration")  \
    X(IO, -4, "a file could not be read or written") \
    X(FORMAT, -5, "malformed data")                  \
    X(LIMIT, -6, "a limit was exceeded")             \
    X(NETWORK, -7, "a network error")                \
    X(IDENTITY, -8, "an identity does not match")    \
    X(STATE, -9, "not possible in this state")       \
    X(NUMERIC, -10, "a number is not finite")            \
    X(FULL, -11, "no room is left on the disk")          \
    X(BUSY, -12, "too much is waiting")                  \
    X(NOT_FOUND, -13, "there is no such thing")

typedef enum braid_err {
#define X(name, value, text) BRAID_##name = value,
    BRAID_ERRORS(X)
#undef X
} braid_err;

typedef struct braid_error {
    braid_err code;
    char text[512];
} braid_error;

// The fixed text of a code.
const char *braid_err_text(braid_err code);

// Writes the message (truncated to fit) and returns `code`, so that callers can write `return
// braid_fail(...)`. `error` may be NULL.
braid_err braid_fail(braid_error *error, braid_err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Ends the process with a message when `condition` is false. For braid's own bugs only, in every
// build; bytes from a peer or a file never reach an assertion.
#define BRAID_ASSERT(condition) ((condition) ? (void)0 : braid_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void braid_assert_failed(const char *condition, const char *file, int line);

// Ends the process with code 1 after a failed allocation that cannot be handled, as in the
// simulators. `text` names the allocation.
#define BRAID_ALLOCATED(condition, bytes) ((condition) ? (void)0 : braid_memory_is_short(bytes))
_Noreturn void braid_memory_is_short(size_t bytes);

#endif
