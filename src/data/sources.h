// The files that a list of paths means: files, directories and patterns.
#ifndef BRAID_DATA_SOURCES_H
#define BRAID_DATA_SOURCES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DATA_MAX_FILES = 1 << 20,
    DATA_MAX_DEPTH = 32,  // of directories, so that a loop of links ends
    DATA_MAX_PATH = 4096,
};

// Size and time of change tell whether a file is the same as at an earlier start.
typedef struct data_file {
    char *path;
    uint64_t bytes;
    int64_t changed_s, changed_ns;
} data_file;

typedef struct data_files {
    data_file *file;
    size_t count, capacity;
    uint64_t bytes;  // of all files, as they are stored
} data_files;

// A directory means all files below it. A pattern has * ? [ ] inside a name, and ** for any number
// of directories. The order is that of the paths, then by name, byte by byte, so it is the same on
// every machine. Names that begin with a dot are left out. BRAID_CONFIG: a path means no file. Free
// with data_files_free, also after an error.
braid_err data_files_find(const char *const *paths, uint32_t count, data_files *out, braid_error *error);
void data_files_free(data_files *files);

#endif
