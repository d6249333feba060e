#include "format/json.h"

#include "format/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(json_out *o, const char *text, size_t length) {
    if (o->failed) return;
    if (length >= o->capacity - o->length) {
        size_t capacity = (o->capacity + length + 1) * 2;
        char *larger = realloc(o->text, capacity);
        if (!larger) {
            o->failed = true;
            return;
        }
        o->text = larger;
        o->capacity = capacity;
    }
    memcpy(o->text + o->length, text, length);
    o->length += length;
    o->text[o->length] = 0;
}

static void put_text(json_out *o, const char *text) { put(o, text, strlen(text)); }

static void put_line(json_out *o) {
    if (!o->pretty) return;
    put_text(o, "\n");
    for (uint32_t i = 0; i < o->depth; i++) put_text(o, "  ");
}

static bool is_plain(char c) { return (uint8_t)c >= 0x20 && c != '"' && c != '\\'; }

static void put_escaped(json_out *o, const char *text, size_t length) {
    for (size_t i = 0; i < length;) {
        size_t start = i;
        while (i < length && is_plain(text[i])) i++;
        put(o, text + start, i - start);
        if (i == length) return;
        char escaped[8];
        uint8_t c = (uint8_t)text[i++];
        snprintf(escaped, sizeof escaped, c < 0x20 ? "\\u%04x" : "\\%c", c);
        put_text(o, escaped);
    }
}

static void put_quoted(json_out *o, const char *text) {
    put_text(o, "\"");
    put_escaped(o, text, strlen(text));
    put_text(o, "\"");
}

static void put_key(json_out *o, const char *key) {
    if (o->comma) put_text(o, ",");
    if (o->depth > 0) put_line(o);
    if (key) {
        put_quoted(o, key);
        put_text(o, o->pretty ? ": " : ":");
    }
    o->comma = true;
}

void json_out_open(json_out *o, const char *key, char bracket) {
    put_key(o, key);
    put(o, &bracket, 1);
    o->depth++;
    o->comma = false;
}

void json_out_close(json_out *o, char bracket) {
    o->depth--;
    if (o->comma) put_line(o);
    put(o, &bracket, 1);
    o->comma = true;
    if (o->depth == 0 && o->pretty) put_text(o, "\n");
}

void json_out_string(json_out *o, const char *key, const char *text) {
    put_key(o, key);
    put_quoted(o, text);
}

void json_out_text(json_out *o, const char *key, const char *text, size_t length) {
    put_key(o, key);
    put_text(o, "\"");
    for (size_t i = 0; i < length;) {
        size_t start = i, bytes = 1;
        while (i < length && (bytes = utf8_bytes(text + i, length - i)) > 0) i += bytes;
        put_escaped(o, text + start, i - start);
        if (i == length) break;
        put_text(o, "\xef\xbf\xbd");
        i++;
    }
    put_text(o, "\"");
}

void json_out_value(json_out *o, const char *key, const json *document, const json_value *value) {
    switch (value->kind) {
    case JSON_NULL: json_out_null(o, key); break;
    case JSON_FALSE:
    case JSON_TRUE: json_out_bool(o, key, value->kind == JSON_TRUE); break;
    case JSON_NUMBER: json_out_number(o, key, value->text); break;
    case JSON_STRING: json_out_string(o, key, value->text); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        json_out_open(o, key, value->kind == JSON_ARRAY ? '[' : '{');
        for (const json_value *v = json_first(document, value); v; v = json_next(document, v))
            json_out_value(o, v->key, document, v);
        json_out_close(o, value->kind == JSON_ARRAY ? ']' : '}');
        break;
    }
}

void json_out_u64(json_out *o, const char *key, uint64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    put_key(o, key);
    put_text(o, text);
}

// Writes the fewest digits that read back as the same number, and not as a whole number where a
// reader distinguishes 1.0 from 1.
static void put_number(json_out *o, const char *key, double number, int digits, bool single) {
    char text[40] = "null";
    for (int i = 1; i <= digits && isfinite(number); i++) {
        snprintf(text, sizeof text, "%.*g", i, number);
        double back = single ? (double)strtof(text, NULL) : strtod(text, NULL);
        if (back >= number && back <= number) break;
    }
    if (isfinite(number) && !strpbrk(text, ".e")) strcat(text, ".0");
    put_key(o, key);
    put_text(o, text);
}

void json_out_double(json_out *o, const char *key, double number) { put_number(o, key, number, 17, false); }
void json_out_float(json_out *o, const char *key, float number) { put_number(o, key, (double)number, 9, true); }

void json_out_number(json_out *o, const char *key, const char *number) {
    put_key(o, key);
    put_text(o, number);
}

void json_out_bool(json_out *o, const char *key, bool truth) {
    put_key(o, key);
    put_text(o, truth ? "true" : "false");
}

void json_out_null(json_out *o, const char *key) {
    put_key(o, key);
    put_text(o, "null");
}

char *json_out_take(json_out *o, size_t *length) {
    char *text = o->failed ? NULL : o->text;
    if (o->failed) free(o->text);
    if (length) *length = o->length;
    *o = (json_out){0};
    return text;
}
