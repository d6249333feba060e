#include "cli/terminal_text.h"

#include <stdio.h>

void terminal_put_text(const char *text, size_t length, bool terminal) {
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i], next = i + 1 < length ? (unsigned char)text[i + 1] : 0;
        bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        bool wide = c == 0xc2 && next >= 0x80 && next < 0xa0;  // the C1 control characters have two bytes in UTF-8
        putchar(terminal && (control || wide) ? '?' : c);
        i += terminal && wide;
    }
    fflush(stdout);
}
