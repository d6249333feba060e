// Files that appear complete or not at all: they are written under a temporary name beside their
// own and renamed at the end.
#ifndef BRAID_WEIGHTS_OUTPUT_H
#define BRAID_WEIGHTS_OUTPUT_H

#include "base/err.h"
#include "weights/mapped.h"

#include <stdbool.h>

// Called with the bytes that were written so far, of all files, and with their total.
typedef struct output_progress {
    void (*tell)(void *context, uint64_t done, uint64_t total);  // NULL: none
    void *context;
    uint64_t done, total;
} output_progress;

// A buffered file that is written from its start.
typedef struct output {
    int fd;
    char path[MAPPED_MAX_PATH];
    uint8_t *buffer;
    size_t held;
    uint64_t at;                // bytes so far
    output_progress *progress;  // borrowed; NULL: none
} output;

// BRAID_STATE: something of that name exists. Nothing is created.
braid_err output_check_free(const char *path, braid_error *error);
// "PATH.tmp-PROCESS", which is not there.
braid_err output_temporary(const char *path, char out[MAPPED_MAX_PATH], braid_error *error);
// Renames, unless something of the name `to` exists by now (BRAID_STATE).
braid_err output_rename(const char *from, const char *to, braid_error *error);

// Creates a new file.
braid_err output_open(output *o, const char *path, output_progress *progress, braid_error *error);
braid_err output_put(output *o, const void *data, size_t bytes, braid_error *error);
// Zeros up to a multiple of `alignment`.
braid_err output_pad(output *o, size_t alignment, braid_error *error);
// Writes what is held and syncs the file. The output is closed in any case.
braid_err output_finish(output *o, braid_error *error);
// Closes and removes the file.
void output_abandon(output *o);
// A whole small file.
braid_err output_file(const char *directory, const char *name, const void *data, size_t bytes, braid_error *error);

typedef struct output_piece {
    const void *at;
    size_t bytes;
} output_piece;

// Replaces the file DIRECTORY/NAME, if there is one, by these pieces.
braid_err output_replace(const char *directory, const char *name, const output_piece *pieces, uint32_t count,
                         braid_error *error);

#endif
