// The replicated log of a run with one voter: a synced file.
//
// "BRAIDLOG", a version, the run's name; then records of (length, first eight bytes of SHA-256, entry). A crash can
// leave a torn last record: it was never acknowledged, so it is cut when the file is opened again.
// Not thread-safe: one user at a time (node/log_writer.h has the thread).
#ifndef BRAID_NODE_LOG_FILE_H
#define BRAID_NODE_LOG_FILE_H

#include "base/err.h"
#include "base/id.h"
#include "wire/message.h"

#include <stdint.h>

typedef struct log_file log_file;
typedef void (*log_file_entry_fn)(void *context, const log_entry *entry);

typedef struct log_file_found {
    uint64_t entries, last_index;
    uint64_t cut_bytes;  // of a torn tail
} log_file_found;

// Opens or creates the log of `run` at `path` for appending and locks it, so that two leaders cannot share it. Hands
// every whole entry to `each` (may be NULL), then cuts what follows the last whole one. A file of another run, or one
// that is damaged before its end, is refused and left as it is.
braid_err log_file_open(const char *path, const braid_hash *run, log_file_entry_fn each, void *context,
                        log_file **out, log_file_found *found, braid_error *error);
// Begins a log for a new leader of `run`. A log that is there already is kept beside it as `path`.old (refused, like
// above, when it is in use or no log of this run).
braid_err log_file_begin(const char *path, const braid_hash *run, log_file **out, braid_error *error);
// The log of a leader that keeps no directory: a nameless temporary file.
braid_err log_file_open_temporary(const braid_hash *run, log_file **out, braid_error *error);
void log_file_close(log_file *log);

// Writes; durable after log_file_sync. After an error the file is as it was at the last sync.
braid_err log_file_append(log_file *log, const log_entry *entry, braid_error *error);
braid_err log_file_sync(log_file *log, braid_error *error);

#endif
