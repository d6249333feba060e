// The bytes of a file, decompressed if it is gzip (RFC 1952) or zstd (RFC 8878). The first bytes
// decide, not the name.
#ifndef BRAID_DATA_STREAM_H
#define BRAID_DATA_STREAM_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct data_stream data_stream;

// `path` is borrowed until data_stream_close. Only regular files.
braid_err data_stream_open(const char *path, data_stream **out, braid_error *error);
void data_stream_close(data_stream *s);  // NULL is allowed
// Reads up to `capacity` bytes; fewer only at the end, where *count may be 0. A file may consist of
// several compressed parts in sequence. BRAID_FORMAT: damaged or truncated.
braid_err data_stream_read(data_stream *s, void *to, size_t capacity, size_t *count, braid_error *error);

#endif
