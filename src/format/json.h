// A strict JSON parser (RFC 8259) for configurations, safetensors headers and manifests. Input is
// untrusted: depth, length and the number of values are bounded, keys of an object are distinct,
// and text is UTF-8 without zero bytes.
#ifndef BRAID_FORMAT_JSON_H
#define BRAID_FORMAT_JSON_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_MAX_BYTES = 64 << 20, JSON_MAX_VALUES = 1 << 20, JSON_MAX_DEPTH = 64 };

typedef enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind;

// Owned by the document; read-only.
typedef struct json_value {
    json_kind kind;
    uint32_t count;    // number of members or elements
    uint32_t first;    // index of the first child, 0: none
    uint32_t next;     // index of the next sibling, 0: none
    uint32_t length;   // of text
    const char *key;   // in an object, 0-terminated; else NULL
    const char *text;  // a decoded and 0-terminated string; a number as written
} json_value;

typedef struct json json;

// Errors name line and column. Free with json_free.
braid_err json_parse(const char *text, size_t length, json **out, braid_error *error);
void json_free(json *document);
const json_value *json_root(const json *document);
// NULL: none.
const json_value *json_first(const json *document, const json_value *of);
const json_value *json_next(const json *document, const json_value *after);
const json_value *json_member(const json *document, const json_value *object, const char *key);

// Converts a value to a C type; false when it is NULL (absent), of another kind or out of range.
bool json_u64(const json_value *value, uint64_t *out);
bool json_double(const json_value *value, double *out);
bool json_bool(const json_value *value, bool *out);
const char *json_string(const json_value *value);  // NULL unless the value is a string

// A writer of JSON text. `key` is NULL in arrays. If memory runs out, json_out_take fails.
typedef struct json_out {
    char *text;
    size_t length, capacity;
    uint32_t depth;
    bool pretty;  // writes one member per line
    bool comma, failed;
} json_out;

void json_out_open(json_out *o, const char *key, char bracket);  // '{' or '['
void json_out_close(json_out *o, char bracket);                  // '}' or ']'
void json_out_string(json_out *o, const char *key, const char *text);
// Any bytes: those that are no UTF-8 become U+FFFD, one for each byte.
void json_out_text(json_out *o, const char *key, const char *text, size_t length);
// A value of another document, as it was written there.
void json_out_value(json_out *o, const char *key, const json *document, const json_value *value);
void json_out_u64(json_out *o, const char *key, uint64_t number);
void json_out_double(json_out *o, const char *key,
                     double number);  // reads back as the same double; null if not finite
// reads back as the same float; null if not finite
void json_out_float(json_out *o, const char *key, float number);
void json_out_number(json_out *o, const char *key, const char *number);  // as written
void json_out_bool(json_out *o, const char *key, bool truth);
void json_out_null(json_out *o, const char *key);
// Returns the text (0-terminated, the caller frees it), or NULL when memory ran out.
char *json_out_take(json_out *o, size_t *length);

#endif
