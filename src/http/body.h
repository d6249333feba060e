// The fields of a request's JSON body. The first mistake is kept and named; a field that is null
// counts as absent, as clients send it.
#ifndef BRAID_HTTP_BODY_H
#define BRAID_HTTP_BODY_H

#include "http/inside.h"

typedef struct body {
    json *doc;
    const json_value *root;
    braid_error error;  // code BRAID_OK: no mistake so far
    char param[64];     // field of the mistake
} body;

// Parses an object. False: *b has the mistake. Free with body_free in both cases.
bool body_parse(body *b, const char *text, size_t length);
// The same for the body of a request, which is answered with 400 after a mistake.
bool body_read(exchange *x, body *b);
void body_free(body *b);
// Answers with the mistake, if there is one.
bool body_refused(exchange *x, const body *b);
void body_mistake(body *b, const char *field, const char *format, ...) __attribute__((format(printf, 3, 4)));

// A member that is not null, or NULL.
const json_value *body_member(const body *b, const json_value *object, const char *field);
// False: absent or a mistake, and *out is unchanged.
bool body_u64(body *b, const json_value *object, const char *field, uint64_t least, uint64_t most, uint64_t *out);
bool body_u32(body *b, const json_value *object, const char *field, uint32_t least, uint32_t most, uint32_t *out);
bool body_double(body *b, const json_value *object, const char *field, double least, double most, double *out);
bool body_bool(body *b, const json_value *object, const char *field, bool *out);
// NULL: absent or a mistake.
const char *body_string(body *b, const json_value *object, const char *field);
const json_value *body_array(body *b, const json_value *object, const char *field);
const json_value *body_object(body *b, const json_value *object, const char *field);

#endif
