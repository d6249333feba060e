#include "http/body.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool body_parse(body *b, const char *text, size_t length) {
    *b = (body){0};
    if (json_parse(text ? text : "", length, &b->doc, &b->error) != BRAID_OK) return false;
    b->root = json_root(b->doc);
    if (b->root->kind == JSON_OBJECT) return true;
    braid_fail(&b->error, BRAID_FORMAT, "the body is no JSON object");
    return false;
}

bool body_refused(exchange *x, const body *b) {
    if (!b->error.code) return false;
    reply_error(x,
                b->error.code == BRAID_MEMORY      ? 500
                : b->error.code == BRAID_NOT_FOUND ? 404
                                                   : 400,
                b->param[0] ? b->param : NULL, b->error.code == BRAID_NOT_FOUND ? "model_not_found" : NULL, "%s",
                b->error.text);
    return true;
}

bool body_read(exchange *x, body *b) {
    if (body_parse(b, x->body, x->body_length)) return true;
    body_refused(x, b);
    return false;
}

void body_free(body *b) { json_free(b->doc); }

void body_mistake(body *b, const char *field, const char *format, ...) {
    if (b->error.code) return;
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    braid_fail(&b->error, BRAID_ARGUMENT, "%s", text);
    snprintf(b->param, sizeof b->param, "%s", field);
}

const json_value *body_member(const body *b, const json_value *object, const char *field) {
    const json_value *v = json_member(b->doc, object, field);
    return v && v->kind != JSON_NULL ? v : NULL;
}

bool body_u64(body *b, const json_value *object, const char *field, uint64_t least, uint64_t most, uint64_t *out) {
    const json_value *v = body_member(b, object, field);
    uint64_t n;
    if (!v) return false;
    double real;
    bool whole = json_u64(v, &n);
    // JavaScript writes 1e3, and some clients 16.0
    if (!whole && json_double(v, &real) && real >= 0 && real < 9e15 && real <= (double)(uint64_t)real) {
        n = (uint64_t)real;
        whole = true;
    }
    if (!whole || n < least || n > most) {
        body_mistake(b, field, "'%s' must be a whole number from %llu to %llu", field, (unsigned long long)least,
                     (unsigned long long)most);
        return false;
    }
    *out = n;
    return true;
}

bool body_u32(body *b, const json_value *object, const char *field, uint32_t least, uint32_t most, uint32_t *out) {
    uint64_t n;
    if (!body_u64(b, object, field, least, most, &n)) return false;
    *out = (uint32_t)n;
    return true;
}

bool body_double(body *b, const json_value *object, const char *field, double least, double most, double *out) {
    const json_value *v = body_member(b, object, field);
    double n;
    if (!v) return false;
    if (!json_double(v, &n) || n < least || n > most) {
        body_mistake(b, field, "'%s' must be a number from %g to %g", field, least, most);
        return false;
    }
    *out = n;
    return true;
}

bool body_bool(body *b, const json_value *object, const char *field, bool *out) {
    const json_value *v = body_member(b, object, field);
    if (!v) return false;
    if (json_bool(v, out)) return true;
    body_mistake(b, field, "'%s' must be true or false", field);
    return false;
}

const char *body_string(body *b, const json_value *object, const char *field) {
    const json_value *v = body_member(b, object, field);
    if (v && v->kind != JSON_STRING) body_mistake(b, field, "'%s' must be a string", field);
    return json_string(v);
}

static const json_value *of_kind(body *b, const json_value *object, const char *field, json_kind kind,
                                 const char *name) {
    const json_value *v = body_member(b, object, field);
    if (!v || v->kind == kind) return v;
    body_mistake(b, field, "'%s' must be %s", field, name);
    return NULL;
}

const json_value *body_array(body *b, const json_value *object, const char *field) {
    return of_kind(b, object, field, JSON_ARRAY, "a list");
}

const json_value *body_object(body *b, const json_value *object, const char *field) {
    return of_kind(b, object, field, JSON_OBJECT, "an object");
}
