// Files that are either complete or absent. Errors name the file and the system's reason.
// BRAID_FULL: no space or no quota is left.
#ifndef BRAID_TRAIN_FILES_H
#define BRAID_TRAIN_FILES_H

#include "base/err.h"
#include "base/id.h"

#include <stddef.h>
#include <stdint.h>

enum { FILES_MAX_PATH = 4096 };

enum { FILES_MAX_NAME = 64 };

// A small file in memory; `text` is from malloc.
typedef struct files_text {
    char name[FILES_MAX_NAME];
    char *text;
    size_t length;
} files_text;

// Joins two parts with '/'; BRAID_LIMIT when the path is too long.
braid_err files_join(const char *directory, const char *name, char out[FILES_MAX_PATH], braid_error *error);
// Reads a whole small file, 0-terminated; the caller frees it. More than `most` bytes: BRAID_LIMIT.
braid_err files_read(const char *path, size_t most, char **text, size_t *length, braid_error *error);
braid_err files_read_opened(int fd, const char *path, size_t most, char **text, size_t *length, braid_error *error);
braid_err files_hash(const char *path, braid_hash *hash, uint64_t *bytes, braid_error *error);
braid_err files_hash_opened(int fd, const char *path, braid_hash *hash, uint64_t *bytes, braid_error *error);
// Reserves the space of a file of this size, so that a full disk is noticed before the write. A
// file system that cannot reserve space is no error.
braid_err files_reserve(int fd, const char *path, uint64_t bytes, braid_error *error);
// Writes all bytes at an offset. `path` is used in errors only.
braid_err files_write_at(int fd, const char *path, const void *data, size_t bytes, uint64_t offset, braid_error *error);
braid_err files_read_at(int fd, const char *path, void *data, size_t bytes, uint64_t offset, braid_error *error);
// Creates a small file and syncs it; on failure the file does not exist.
braid_err files_write(const char *path, const void *data, size_t bytes, braid_error *error);
// Syncs a directory, so that its entries (created, renamed) survive a power failure.
braid_err files_sync_directory(const char *path, braid_error *error);
// Removes a directory of plain files; entries that are missing or cannot be removed are ignored.
void files_remove_directory(const char *path);

#endif
