#include "format/json.h"

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

static void put_quoted(json_out *o, const char *text) {
    put_text(o, "\"");
    for (; *text; text++) {
        char escaped[8];
        uint8_t c = (uint8_t)*text;
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", *text);
        else if (c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else
            snprintf(escaped, sizeof escaped, "%c", *text);
        put_text(o, escaped);
    }
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
