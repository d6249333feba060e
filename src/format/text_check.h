// Detects plain text, one byte per token. Compressed files, office documents, UTF-16 and other
// binary data are refused before hours are spent on them.
#ifndef BRAID_FORMAT_TEXT_CHECK_H
#define BRAID_FORMAT_TEXT_CHECK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_SAMPLE_BYTES = 1 << 16, TEXT_WHY = 320 };

// Examines the start of a file (at most TEXT_SAMPLE_BYTES are needed). False: `why` names the
// format and the way to convert it, as in "is gzip-compressed; decompress it: gunzip words.gz".
bool text_check_bytes(const uint8_t *bytes, size_t count, const char *path, char why[TEXT_WHY]);
// The same for bytes from anywhere inside a file: only binary data is refused.
bool text_check_inside(const uint8_t *bytes, size_t count, uint64_t at, const char *path, char why[TEXT_WHY]);
// The same as text_check_bytes for an existing file; also checks that it is a regular file, readable and not empty.
bool text_check_file(const char *path, char why[TEXT_WHY]);
// True if a file begins with the UTF-8 byte order mark, which is trained on like all other bytes.
bool text_check_marked(const char *path);

#endif
