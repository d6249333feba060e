// "Did you mean": the nearest of some known names.
#ifndef BRAID_FORMAT_SUGGEST_H
#define BRAID_FORMAT_SUGGEST_H

#include <stddef.h>

enum { SUGGEST_MAX_NAME = 64 };

// The name that is few enough edits (a letter added, left out, changed, or two swapped) away from `text` to be a slip
// of the finger, NULL when none is. `-` and `_` count as the same.
const char *suggest_name(const char *text, const char *const *names, size_t count);

#endif
