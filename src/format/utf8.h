// UTF-8 (RFC 3629).
#ifndef BRAID_FORMAT_UTF8_H
#define BRAID_FORMAT_UTF8_H

#include <stddef.h>

// Length of the character at `text`, 1 to 4 bytes; 0 when the bytes are no character. length > 0.
size_t utf8_bytes(const char *text, size_t length);

#endif
