// Appends to a log file on another thread, so that a slow disk never blocks the loop. Entries that
// accumulate during a write share one sync.
#ifndef BRAID_NODE_LOG_WRITER_H
#define BRAID_NODE_LOG_WRITER_H

#include "base/err.h"
#include "node/log_file.h"

#include <uv.h>

enum { LOG_WRITER_MAX_PENDING = 4096 };

typedef struct log_writer log_writer;

// Called on the loop's thread, once per entry and in order: `entry` is on stable storage.
typedef void (*log_writer_committed_fn)(void *context, const log_entry *entry);
// Called on the loop's thread, at most once: the disk failed, and nothing more is written.
typedef void (*log_writer_failed_fn)(void *context, const braid_error *error);

// Takes ownership of `file`.
braid_err log_writer_new(uv_loop_t *loop, log_file *file, log_writer_committed_fn committed, log_writer_failed_fn failed,
                         void *context, log_writer **out, braid_error *error);
// Copies `entry`. `more`: the next entry belongs to the same batch and is synced with it.
void log_writer_append(log_writer *w, const log_entry *entry, bool more);
// Reports the entries of a log without a file, including those appended meanwhile. Must not be
// called inside a step of the core. A log with a file reports its entries by itself.
void log_writer_deliver(log_writer *w);
// No callback follows this call. The loop must run until the current write is done; then the file
// is closed.
void log_writer_close(log_writer *w);

#endif
