// "Did you mean": the nearest of some known names.
#ifndef BRAID_FORMAT_SUGGEST_H
#define BRAID_FORMAT_SUGGEST_H

#include <stddef.h>

enum { SUGGEST_MAX_NAME = 64 };

// The name that is few enough edits (a letter added, left out, changed, or two swapped) away from `text` to be a slip
// of the finger; else the only one of which `text` is the beginning or some of the words, or the other way round ("latency" of
// "latency_ms"); NULL when none is. `-` and `_` count as the same.
const char *suggest_name(const char *text, const char *const *names, size_t count);

#endif
