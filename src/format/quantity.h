// Sizes and durations in the notation of users.
#ifndef BRAID_FORMAT_QUANTITY_H
#define BRAID_FORMAT_QUANTITY_H

#include "base/err.h"

#include <stdint.h>

enum { QUANTITY_TEXT = 32 };

// "4096", "512K", "512M", "1.5G", "512MiB", "512MB" -> bytes; units are powers of 1024. On failure
// BRAID_ARGUMENT, with the text in the message.
braid_err quantity_read_size(const char *text, uint64_t *bytes, braid_error *error);
// "250ms", "2s", "5m", "1h", "10" (seconds) -> nanoseconds.
braid_err quantity_read_duration(const char *text, uint64_t *nanoseconds, braid_error *error);
// A decimal integer; the whole text must match.
braid_err quantity_read_count(const char *text, uint64_t *value, braid_error *error);
// A finite decimal number; the whole text must match.
braid_err quantity_read_real(const char *text, double *value, braid_error *error);

// "1.5 GiB", "4 KiB", "17 bytes"; returns `text`.
const char *quantity_size_text(uint64_t bytes, char text[QUANTITY_TEXT]);
// "850 ms", "12 s", "3 min 20 s", "2 h 5 min"; returns `text`.
const char *quantity_duration_text(double seconds, char text[QUANTITY_TEXT]);
// 12345678 -> "12.3 M"; returns `text`.
const char *quantity_count_text(double count, char text[QUANTITY_TEXT]);

#endif
