#include "format/utf8.h"

#include <stdbool.h>

size_t utf8_bytes(const char *text, size_t length) {
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0x80) return 1;
    size_t bytes = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || bytes > length) return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((b[i] & 0xc0) != 0x80) return 0;
    }
    bool overlong = (b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xf0 && b[1] < 0x90);
    bool outside = (b[0] == 0xed && b[1] >= 0xa0) || (b[0] == 0xf4 && b[1] >= 0x90);  // surrogates, above U+10FFFF
    return overlong || outside ? 0 : bytes;
}
