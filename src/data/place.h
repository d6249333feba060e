// The directory of caches, and locks in it.
#ifndef BRAID_DATA_PLACE_H
#define BRAID_DATA_PLACE_H

#include "base/err.h"

enum { PLACE_MAX_PATH = 4096 };

// `given`, else $XDG_CACHE_HOME/braid, else ~/.cache/braid. Makes it if it does not exist.
braid_err place_directory(const char *given, char out[PLACE_MAX_PATH], braid_error *error);
// Locks PATH.lock for this process; `note` is called before it waits for another one. *fd is for
// close().
braid_err place_lock(const char *path, void (*note)(void *context, const char *text), void *context, int *fd,
                     braid_error *error);

#endif
