// The bytes of one part of a model, in memory or in a file of a state directory.
#ifndef BRAID_SPAN_STORED_H
#define BRAID_SPAN_STORED_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct stored {
    uint8_t *at;  // mapped; NULL: none
    uint64_t bytes;
    char path[4096];  // "": in memory
} stored;

// Room for so many bytes, which stored_keep makes permanent. `directory` NULL: in memory.
braid_err stored_new(stored *s, const char *directory, const braid_hash *part, uint64_t bytes, braid_error *error);
// Maps the file that an earlier process kept under that name; false: there is none. The caller checks
// the content.
bool stored_find(stored *s, const char *directory, const braid_hash *part);
// The content is complete and right.
braid_err stored_keep(stored *s, const char *directory, const braid_hash *part, braid_error *error);
// Frees the memory; a file that was not kept is removed.
void stored_close(stored *s);
// The content is wrong: a kept file is removed, too.
void stored_discard(stored *s);

#endif
