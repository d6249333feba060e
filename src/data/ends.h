// The tokens around a document.
#ifndef BRAID_DATA_ENDS_H
#define BRAID_DATA_ENDS_H

#include "text/tokenizer.h"

typedef struct data_ends {
    uint32_t begin;  // TOKENIZER_NO_ID: none
    uint32_t end;
} data_ends;

// The end is the token named `end`, else the tokenizer's end token, else one with a usual name.
// Begin is the tokenizer's beginning token if it puts that in front of a text. Without a tokenizer
// the zero byte ends a document. BRAID_CONFIG: none.
braid_err data_ends_find(const tokenizer *t, const char *end, data_ends *out, braid_error *error);

#endif
