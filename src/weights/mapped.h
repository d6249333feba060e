// A file mapped for reading. Its pages are read when they are touched.
#ifndef BRAID_WEIGHTS_MAPPED_H
#define BRAID_WEIGHTS_MAPPED_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { MAPPED_MAX_PATH = 4096 };

typedef struct mapped {
    char path[MAPPED_MAX_PATH];
    const uint8_t *at;  // NULL: an empty file
    size_t bytes;
} mapped;

// Another process that truncates the file while it is mapped kills this one (SIGBUS), as with any
// mapping.
braid_err mapped_open(const char *path, mapped *out, braid_error *error);
void mapped_close(mapped *m);

#endif
