// JSON read from the left without a tree: for the members of a tokenizer.json that hold hundreds of thousands of values.
#ifndef BRAID_TEXT_JSON_SCAN_H
#define BRAID_TEXT_JSON_SCAN_H

#include "text/buffer.h"
#include "base/err.h"

enum { JSON_SCAN_MAX_DEPTH = 64 };

typedef struct json_scan {
    const char *at, *end;
} json_scan;

typedef struct json_span {
    const char *at;
    size_t length;
} json_span;

// An absent span (NULL) scans as empty text: adding to a null pointer is undefined.
static inline json_scan json_scan_of(json_span span) {
    const char *at = span.at ? span.at : "";
    return (json_scan){at, at + span.length};
}

// Takes one character that is no space; false: another stands there.
bool json_scan_take(json_scan *s, char c);
// The next character that is no space; 0: the end.
char json_scan_peek(json_scan *s);
// Steps over a value of any kind. Only its brackets and quotes are checked.
bool json_scan_value(json_scan *s, json_span *value);
// A string, decoded: it lies in the text itself, or else in `out`. False: malformed, not UTF-8 or half a surrogate pair.
bool json_scan_string(json_scan *s, buffer *out, const char **text, size_t *length);
bool json_scan_u32(json_scan *s, uint32_t *number);
bool json_scan_double(json_scan *s, double *number);
// The same, rounded as serde_json 1 does without its feature float_roundtrip: the digits as a 64-bit
// number, then one multiplication or division by a power of ten. tokenizers 0.23.3 reads scores so.
bool json_scan_decimal(json_scan *s, double *number);
// The next member of an object or item of an array. `first` begins as true. False: the end or a mistake, which *fine tells.
bool json_scan_more(json_scan *s, char close, bool *first, bool *fine);

#endif
