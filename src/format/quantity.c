#include "format/quantity.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct quantity_unit {
    const char *name;
    double scale;
} quantity_unit;

// clang-format off
static const quantity_unit size_units[] = {
    {"", 1},          {"B", 1},          {"K", 0x1p10},    {"KB", 0x1p10}, {"KiB", 0x1p10}, {"M", 0x1p20},  {"MB", 0x1p20},
    {"MiB", 0x1p20},  {"G", 0x1p30},     {"GB", 0x1p30},   {"GiB", 0x1p30}, {"T", 0x1p40},  {"TB", 0x1p40}, {"TiB", 0x1p40},
};
// clang-format on
static const quantity_unit duration_units[] = {
    {"", 1e9}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 6e10}, {"min", 6e10}, {"h", 3.6e12},
};

// Length of a plain decimal at the start of `text`. Signs, hexadecimal, inf and nan, which strtod
// accepts, are refused.
static bool quantity_plain(const char *text) {
    return (text[0] >= '0' && text[0] <= '9') || (text[0] == '.' && text[1] >= '0' && text[1] <= '9');
}

static bool quantity_read(const char *text, const quantity_unit *units, size_t count, uint64_t *out) {
    if (!quantity_plain(text) || text[strspn(text, "0123456789.")] == 'x') return false;
    char *end = NULL;
    double number = strtod(text, &end);
    while (*end == ' ') end++;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(end, units[i].name) != 0) continue;
        double value = number * units[i].scale;
        if (!(value < 0x1p63)) return false;
        *out = (uint64_t)llround(value);
        return true;
    }
    return false;
}

braid_err quantity_read_size(const char *text, uint64_t *bytes, braid_error *error) {
    if (quantity_read(text, size_units, sizeof size_units / sizeof *size_units, bytes)) return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT,
                      "'%.64s' is not a size: write bytes, or a number with K, M, G or T, like 512M", text);
}

braid_err quantity_read_duration(const char *text, uint64_t *nanoseconds, braid_error *error) {
    if (quantity_read(text, duration_units, sizeof duration_units / sizeof *duration_units, nanoseconds))
        return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT,
                      "'%.64s' is not a duration: write seconds, or a number with ms, s, m or h, like 250ms", text);
}

braid_err quantity_read_count(const char *text, uint64_t *value, braid_error *error) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != 0) return braid_fail(error, BRAID_ARGUMENT, "'%.64s' is not a whole number", text);
    if (errno == ERANGE) return braid_fail(error, BRAID_ARGUMENT, "%.64s is too large", text);
    *value = number;
    return BRAID_OK;
}

braid_err quantity_read_real(const char *text, double *value, braid_error *error) {
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    char *end = NULL;
    double number = quantity_plain(digits) && digits[1] != 'x' && digits[1] != 'X' ? strtod(text, &end) : 0;
    if (end == NULL || *end != 0) return braid_fail(error, BRAID_ARGUMENT, "'%.64s' is not a number", text);
    if (!isfinite(number)) return braid_fail(error, BRAID_ARGUMENT, "%.64s is too large", text);
    *value = number;
    return BRAID_OK;
}

const char *quantity_size_text(uint64_t bytes, char text[QUANTITY_TEXT]) {
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof names / sizeof *names; unit++) value /= 1024;
    snprintf(text, QUANTITY_TEXT, "%.*f %s", unit == 0 || value >= 99.95 || value == floor(value) ? 0 : 1, value,
             names[unit]);
    return text;
}

const char *quantity_duration_text(double seconds, char text[QUANTITY_TEXT]) {
    if (!(seconds >= 0 && seconds < 1e9)) {
        snprintf(text, QUANTITY_TEXT, "?");
        return text;
    }
    long whole = lround(seconds);
    if (seconds < 1)
        snprintf(text, QUANTITY_TEXT, "%.0f ms", seconds * 1e3);
    else if (whole < 60)
        snprintf(text, QUANTITY_TEXT, "%ld s", whole);
    else if (whole < 3600)
        snprintf(text, QUANTITY_TEXT, "%ld min %ld s", whole / 60, whole % 60);
    else
        snprintf(text, QUANTITY_TEXT, "%ld h %ld min", whole / 3600, whole / 60 % 60);
    return text;
}

const char *quantity_count_text(double count, char text[QUANTITY_TEXT]) {
    static const char *const names[] = {"", " k", " M", " G", " T"};
    size_t unit = 0;
    for (; count >= 999.5 && unit + 1 < sizeof names / sizeof *names; unit++) count /= 1000;
    snprintf(text, QUANTITY_TEXT, "%.*f%s",
             unit == 0       ? 0
             : count < 9.995 ? 2
             : count < 99.95 ? 1
                             : 0,
             count, names[unit]);
    return text;
}
