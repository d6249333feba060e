// Bytes in a test's source as hex with spaces between the fields.
#ifndef BRAID_TEST_HEX_H
#define BRAID_TEST_HEX_H

#include "base/id.h"

#include <stddef.h>
#include <stdint.h>

// Returns the number of bytes, 0 when the text is not hex or does not fit.
static inline size_t hex_bytes(const char *text, uint8_t *out, size_t capacity) {
    size_t count = 0;
    while (*text != '\0') {
        if (*text == ' ') {
            text++;
            continue;
        }
        if (count == capacity || !id_unhex(text, 1, out + count)) return 0;
        count++;
        text += 2;
    }
    return count;
}

#endif
