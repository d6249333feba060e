// "Did you mean": the nearest known name.
#ifndef BRAID_FORMAT_SUGGEST_H
#define BRAID_FORMAT_SUGGEST_H

#include <stddef.h>

enum { SUGGEST_MAX_NAME = 64 };

// The known name for a misspelt `text`. A name matches if few enough edits lead to it (a letter
// added, left out or changed, or two swapped). Otherwise the only name of which `text` is the
// beginning or some of the words, or the reverse ("latency" of "latency_ms"). NULL when no name
// matches. `-` and `_` are equivalent.
const char *suggest_name(const char *text, const char *const *names, size_t count);

#endif
