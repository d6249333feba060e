#include "base/id.h"

#include <stddef.h>

void id_hex(const uint8_t *bytes, size_t count, char *text) {
    static const char digits[16] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool id_unhex(const char *text, size_t count, uint8_t *bytes) {
    for (size_t i = 0; i < count; i++) {
        int high = digit_value(text[2 * i]);
        if (high < 0) return false;  // the end of a short text is no digit either, so nothing behind it is read
        int low = digit_value(text[2 * i + 1]);
        if (low < 0) return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
