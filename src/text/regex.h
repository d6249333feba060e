// Regular expressions in Oniguruma's (Ruby's) syntax, as tokenizer.json has them, run by PCRE2 with its compiler to machine code.
// What the two read differently is refused by name.
#ifndef BRAID_TEXT_REGEX_H
#define BRAID_TEXT_REGEX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { REGEX_MAX_BYTES = 1 << 14 };  // of a pattern

typedef struct regex regex;
typedef struct regex_scratch regex_scratch;  // of one thread

braid_err regex_new(const char *pattern, size_t length, regex **out, braid_error *error);
void regex_free(regex *r);
regex_scratch *regex_scratch_new(void);  // NULL: no memory
void regex_scratch_free(regex_scratch *s);

// Where the search for the next match goes on. Begins as {0}.
typedef struct regex_place {
    size_t at, last_end;
    bool matched;
} regex_place;

// The next match in `text`, which is valid UTF-8. No empty match directly behind a match, as in the crate onig. False: none left,
// or *err says why not.
bool regex_next(const regex *r, regex_scratch *s, const char *text, size_t length, regex_place *place, size_t *start,
                size_t *end, braid_error *error, braid_err *err);

#endif
