// Stop strings in a text that arrives in pieces. Bytes that may be the beginning of a stop string are held
// back until the next ones decide.
#ifndef BRAID_INFER_STOP_H
#define BRAID_INFER_STOP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STOP_MAX_STRINGS = 64, STOP_MAX_BYTES = 4096 };

typedef struct stop_filter stop_filter;

// Copies the strings. Refuses an empty one, one longer than STOP_MAX_BYTES and more than STOP_MAX_STRINGS
// (BRAID_CONFIG). Free with stop_filter_free.
braid_err stop_filter_new(const char *const *strings, uint32_t count, stop_filter **out, braid_error *error);
void stop_filter_free(stop_filter *f);
// Adds a piece of the text. text[length] is what may be shown now, borrowed until the next call. *stopped: the
// text ended before a stop string, of several the one that is complete first, and of those the one that begins
// first. No further pieces are added then.
braid_err stop_filter_add(stop_filter *f, const char *piece, size_t piece_length, const char **text, size_t *length,
                          bool *stopped, braid_error *error);
// The text ends here: the bytes that are still held back.
void stop_filter_end(stop_filter *f, const char **text, size_t *length);

#endif
