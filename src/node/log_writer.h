// Appends to a log file on another thread, so that a slow disk never stops the loop. Entries that pile up meanwhile
// share one sync.
#ifndef BRAID_NODE_LOG_WRITER_H
#define BRAID_NODE_LOG_WRITER_H

#include "base/err.h"
#include "node/log_file.h"

#include <uv.h>

enum { LOG_WRITER_MAX_PENDING = 4096 };

typedef struct log_writer log_writer;

// On the loop's thread, in order, once each: `entry` is on stable storage.
typedef void (*log_writer_committed_fn)(void *context, const log_entry *entry);
// On the loop's thread, at most once: the disk refused; nothing is written any more.
typedef void (*log_writer_failed_fn)(void *context, const braid_error *error);

// Takes `file`.
braid_err log_writer_new(uv_loop_t *loop, log_file *file, log_writer_committed_fn committed, log_writer_failed_fn failed,
                         void *context, log_writer **out, braid_error *error);
// Copies `entry`. `more`: what is appended next belongs to it, and is synced with it.
void log_writer_append(log_writer *w, const log_entry *entry, bool more);
// Reports the entries of a log without a file, which wait for no disk, with those that are appended meanwhile. Not from inside a
// step of the peer. A log with a file reports its entries by itself.
void log_writer_deliver(log_writer *w);
// No call back after this one. The loop must run until the write under way is through; then the file is closed.
void log_writer_close(log_writer *w);

#endif
