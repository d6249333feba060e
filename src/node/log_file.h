// Where a voter keeps the replicated log: a synced file.
//
// "BRAIDLOG", a version, the run's name, the start of it that this is the log of, the store's own name; then records of
// (length, first eight bytes of SHA-256, entry). What they mean: peer_recall in peer/peer.h. A crash can leave part of what waited for
// the last sync, records that come later without earlier ones too (each but the first says that it is one of several), or part of the state
// behind a LOG_BASE: none of that was acknowledged, so it is cut when the file is opened again.
// Not thread-safe: one user at a time (node/log_writer.h has the thread).
#ifndef BRAID_NODE_LOG_FILE_H
#define BRAID_NODE_LOG_FILE_H

#include "base/err.h"
#include "base/id.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct log_file log_file;
// False: no more of them.
typedef bool (*log_file_entry_fn)(void *context, const log_entry *entry);

typedef struct log_file_found {
    uint64_t store;      // names this file
    uint64_t entries, last_index;
    uint64_t cut_bytes;  // of a torn tail
} log_file_found;

// Opens or creates the log of this start of `run` at `path` for appending and locks it, so that two peers cannot share it. Cuts
// what follows the last whole record. A log of another start of the run is kept beside it as `path`.old, and a new one begun. A
// file of another run, or one that is damaged before its end, is refused and left as it is.
braid_err log_file_open(const char *path, const braid_hash *run, uint64_t start, log_file **out, log_file_found *found, braid_error *error);
// Whether a log lies at `path`, and of which start of `run`. Nothing is changed; a file of another run is refused.
braid_err log_file_look(const char *path, const braid_hash *run, bool *there, uint64_t *start, braid_error *error);
// What it held when it was opened and is still of use: everything from the last LOG_BASE on, and the votes before it.
void log_file_recall(log_file *log, log_file_entry_fn each, void *context);
// The log of a peer that is not asked to keep one: it has no file, so nothing is written, synced or recalled. A temporary
// file would be of no use: after a crash no process could find it, and the next incarnation is another voter.
braid_err log_file_open_unkept(log_file **out, log_file_found *found, braid_error *error);
bool log_file_is_kept(const log_file *log);
void log_file_close(log_file *log);

// Writes; durable after log_file_sync. After an error the file is as it was at the last sync. When a LOG_BASE and its state are
// synced, what lies before it goes (but the last vote), once it is worth the trouble: a new file takes the old one's place.
braid_err log_file_append(log_file *log, const log_entry *entry, braid_error *error);
braid_err log_file_sync(log_file *log, braid_error *error);

#endif
