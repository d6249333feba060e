// The directory of caches, and locks in it.
#ifndef BRAID_DATA_PLACE_H
#define BRAID_DATA_PLACE_H

#include "base/err.h"

#include <stdbool.h>

enum { PLACE_MAX_PATH = 4096 };

// `given`, else $XDG_CACHE_HOME/braid, else ~/.cache/braid. Makes it if it does not exist.
braid_err place_directory(const char *given, char out[PLACE_MAX_PATH], braid_error *error);
// The host of a long operation.
typedef struct place_host {
    void *context;
    void (*note)(void *context, const char *text);  // progress; NULL: none
    bool (*stopped)(void *context);                 // the user wants it to end; NULL: never
} place_host;

// Locks PATH.lock for this process; while another one has it, waits. *fd is for close().
// BRAID_STATE: stopped.
braid_err place_lock(const char *path, const place_host *host, int *fd, braid_error *error);
bool place_stopped(const place_host *host);

#endif
