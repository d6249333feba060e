// The file in which a voter stores the replicated log.
//
// Layout: "BRAIDLOG", a version, the names of the run, of its start and of the store, then records.
// A record is (length, first eight bytes of SHA-256, entry). peer_recall defines what the entries
// mean.
//
// A crash can leave three kinds of damage:
//  - part of the records since the last sync,
//  - later records of a sync without earlier ones (each but the first is marked),
//  - part of the state after a LOG_BASE.
// None of these was acknowledged, so all are cut when the file is opened.
//
// Not thread-safe: one user at a time (node/log_writer.h has the thread).
#ifndef BRAID_NODE_LOG_FILE_H
#define BRAID_NODE_LOG_FILE_H

#include "base/err.h"
#include "base/id.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct log_file log_file;
// Receives one entry. Returns false to stop.
typedef bool (*log_file_entry_fn)(void *context, const log_entry *entry);

typedef struct log_file_found {
    uint64_t store;      // name of the log store
    uint64_t entries, last_index;
    uint64_t cut_bytes;  // bytes of a torn tail that were removed
} log_file_found;

// Opens or creates the log of this start of `run` at `path` for appending. Locks it, so that two
// peers cannot share it, and cuts everything after the last intact record. The log of another start
// is kept as `path`.old, and a new one is begun. A file of another run, or one damaged before its
// end, is refused and left unchanged.
braid_err log_file_open(const char *path, const braid_hash *run, uint64_t start, log_file **out, log_file_found *found, braid_error *error);
// Whether a log exists at `path`, and for which start of `run`. Changes nothing; refuses a file of
// another run.
braid_err log_file_look(const char *path, const braid_hash *run, bool *there, uint64_t *start, braid_error *error);
// Renames the log at `path`, which is not open, to `path`.old.
braid_err log_file_retire(const char *path, braid_error *error);
// Passes on the entries that the file held when it was opened: those from the last LOG_BASE on, and
// the votes before it.
void log_file_recall(log_file *log, log_file_entry_fn each, void *context);
// The log of a peer without --log: without a file, so nothing is written, synced or recalled. A
// temporary file would be useless: no process could find it after a crash, and the next incarnation
// is another voter.
braid_err log_file_open_unkept(log_file **out, log_file_found *found, braid_error *error);
bool log_file_is_kept(const log_file *log);
void log_file_close(log_file *log);

// Appends an entry, which log_file_sync makes durable. An error restores the file of the last sync.
// Once a LOG_BASE and its state are synced, everything before it is obsolete except the last vote.
// If that is much, a shorter file replaces this one.
braid_err log_file_append(log_file *log, const log_entry *entry, braid_error *error);
braid_err log_file_sync(log_file *log, braid_error *error);

#endif
