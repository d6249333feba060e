// Files that must be whole or not be there. Messages name the file and what the system said. BRAID_FULL: no space, or no
// quota, is left.
#ifndef BRAID_TRAIN_FILES_H
#define BRAID_TRAIN_FILES_H

#include "base/err.h"
#include "base/id.h"

#include <stddef.h>
#include <stdint.h>

enum { FILES_MAX_PATH = 4096 };

// Joins two parts with '/'; BRAID_LIMIT when the path is too long.
braid_err files_join(const char *directory, const char *name, char out[FILES_MAX_PATH], braid_error *error);
// The whole of a small file, 0-terminated; the caller frees it. More than `most` bytes: BRAID_LIMIT.
braid_err files_read(const char *path, size_t most, char **text, size_t *length, braid_error *error);
braid_err files_read_opened(int fd, const char *path, size_t most, char **text, size_t *length, braid_error *error);
braid_err files_hash(const char *path, braid_hash *hash, uint64_t *bytes, braid_error *error);
braid_err files_hash_opened(int fd, const char *path, braid_hash *hash, uint64_t *bytes, braid_error *error);
// Takes the space of a file that will have so many bytes, so that a full disk is noticed before they are written. A file
// system that cannot reserve space is no error.
braid_err files_reserve(int fd, const char *path, uint64_t bytes, braid_error *error);
// At an offset, in full. `path` only names the file.
braid_err files_write_at(int fd, const char *path, const void *data, size_t bytes, uint64_t offset, braid_error *error);
braid_err files_read_at(int fd, const char *path, void *data, size_t bytes, uint64_t offset, braid_error *error);
// A new small file, on the disk when it returns; none when it fails.
braid_err files_write(const char *path, const void *data, size_t bytes, braid_error *error);
// Makes a directory's entries (created, renamed) survive a power cut.
braid_err files_sync_directory(const char *path, braid_error *error);
// Removes a directory of plain files; what is not there or cannot be removed is left.
void files_remove_directory(const char *path);

#endif
