#include "text/json_scan.h"

#include "text/unicode.h"

#include <stdio.h>

static void skip_space(json_scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) s->at++;
}

bool json_scan_take(json_scan *s, char c) {
    skip_space(s);
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

char json_scan_peek(json_scan *s) {
    skip_space(s);
    return s->at < s->end ? *s->at : 0;
}

// After the opening quote.
static bool skip_string(json_scan *s) {
    while (s->at < s->end && *s->at != '"') {
        if (*s->at == '\\' && ++s->at == s->end) return false;
        s->at++;
    }
    if (s->at == s->end) return false;
    s->at++;
    return true;
}

bool json_scan_value(json_scan *s, json_span *value) {
    char open[JSON_SCAN_MAX_DEPTH];
    unsigned depth = 0;
    skip_space(s);
    value->at = s->at;
    do {
        char c = json_scan_peek(s);
        if (!c) return false;
        s->at++;
        if (c == '"') {
            if (!skip_string(s)) return false;
        } else if (c == '{' || c == '[') {
            if (depth == JSON_SCAN_MAX_DEPTH) return false;
            open[depth++] = c;
        } else if (c == '}' || c == ']') {
            if (depth == 0 || open[--depth] != (c == '}' ? '{' : '[')) return false;
        } else if (depth == 0) {
            while (s->at < s->end && !strchr(",]}: \n\r\t", *s->at)) s->at++;
        }
    } while (depth > 0);
    value->length = (size_t)(s->at - value->at);
    return true;
}

static bool hex4(json_scan *s, uint32_t *code) {
    if (s->end - s->at < 4) return false;
    *code = 0;
    for (int i = 0; i < 4; i++) {
        char c = *s->at++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        *code = *code << 4 | (uint32_t)digit;
    }
    return true;
}

static bool take_escape(json_scan *s, buffer *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (s->at == s->end) return false;
    char c = *s->at++;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) return buffer_byte(out, values[name - names]), true;
    uint32_t code, low;
    if (c != 'u' || !hex4(s, &code) || (code >= 0xdc00 && code < 0xe000)) return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u') return false;
        s->at += 2;
        if (!hex4(s, &low) || low < 0xdc00 || low > 0xdfff) return false;
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    buffer_char(out, code);
    return true;
}

bool json_scan_string(json_scan *s, buffer *out, const char **text, size_t *length) {
    if (!json_scan_take(s, '"')) return false;
    const char *from = s->at;
    while (s->at < s->end && *s->at != '"' && *s->at != '\\' && (uint8_t)*s->at >= 0x20) s->at++;
    if (s->at < s->end && *s->at == '"') {
        *text = from;
        *length = (size_t)(s->at++ - from);
        return utf8_valid(*text, *length) == *length;
    }
    out->count = 0;
    buffer_add(out, from, (size_t)(s->at - from));
    while (s->at < s->end && *s->at != '"') {
        const char *run = s->at;
        while (s->at < s->end && *s->at != '"' && *s->at != '\\' && (uint8_t)*s->at >= 0x20) s->at++;
        buffer_add(out, run, (size_t)(s->at - run));
        if (s->at == s->end || *s->at == '"') continue;
        if (*s->at++ != '\\') return false;
        if (!take_escape(s, out)) return false;
    }
    *text = out->at;
    *length = out->count;
    return !out->failed && json_scan_take(s, '"') && utf8_valid(*text, *length) == *length;
}

bool json_scan_u32(json_scan *s, uint32_t *number) {
    skip_space(s);
    uint64_t n = 0;
    const char *from = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9' && n <= UINT32_MAX) n = n * 10 + (uint64_t)(*s->at++ - '0');
    if (s->at == from || n > UINT32_MAX) return false;
    *number = (uint32_t)n;
    return true;
}

bool json_scan_double(json_scan *s, double *number) {
    json_span span;
    char text[64], *end;
    if (!json_scan_value(s, &span) || span.length == 0 || span.length >= sizeof text) return false;
    if (!strchr("-0123456789", *span.at)) return false;
    memcpy(text, span.at, span.length);
    text[span.length] = 0;
    *number = strtod(text, &end);
    return end == text + span.length && *number - *number == 0;
}

static double power_of_ten(int64_t n) {
    char text[16];
    snprintf(text, sizeof text, "1e%d", (int)n);
    return strtod(text, NULL);
}

enum { MOST_POWER = 308 };  // of ten, in a double

static bool scale_decimal(double significand, int64_t exponent, double *number) {
    *number = significand;
    while (exponent < -MOST_POWER && *number != 0) {
        *number /= power_of_ten(MOST_POWER);
        exponent += MOST_POWER;
    }
    if (*number == 0) return true;
    if (exponent > MOST_POWER) return false;
    if (exponent < 0)
        *number /= power_of_ten(-exponent);
    else
        *number *= power_of_ten(exponent);
    return *number - *number == 0;
}

// Reads digits into 64 bits. Digits after an overflow are left out; the count of those in front of
// the point goes into the exponent.
static const char *take_digits(const char *at, bool fraction, uint64_t *significand, int64_t *exponent, bool *full) {
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        *full = *full || *significand > (UINT64_MAX - digit) / 10;
        if (*full) {
            *exponent += !fraction;
            continue;
        }
        *significand = *significand * 10 + digit;
        *exponent -= fraction;
    }
    return at;
}

// Far beyond the range of a double in both directions, so a larger one changes nothing.
static int64_t exponent_of(const char *text) {
    const long most = 100000;
    long n = strtol(text, NULL, 10);
    return n > most ? most : n < -most ? -most : n;
}

bool json_scan_decimal(json_scan *s, double *number) {
    json_scan again = *s;
    json_span span;
    char text[64];
    if (!json_scan_double(s, number) || !json_scan_value(&again, &span)) return false;
    memcpy(text, span.at, span.length);  // json_scan_double has limited the length
    text[span.length] = 0;
    bool minus = *text == '-', full = false;
    uint64_t significand = 0;
    int64_t exponent = 0;
    const char *at = take_digits(text + minus, false, &significand, &exponent, &full);
    bool whole = *at == 0 && !full;
    if (*at == '.') at = take_digits(at + 1, true, &significand, &exponent, &full);
    if (*at == 'e' || *at == 'E') exponent += exponent_of(at + 1);
    if (whole) return true;
    bool finite = scale_decimal((double)significand, exponent, number);
    if (minus) *number = -*number;
    return finite;
}

bool json_scan_more(json_scan *s, char close, bool *first, bool *fine) {
    *fine = true;
    if (json_scan_take(s, close)) return false;
    if (!*first && !json_scan_take(s, ',')) return *fine = false;
    *first = false;
    return true;
}
