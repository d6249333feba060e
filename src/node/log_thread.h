// The thread that writes a loop's log. libuv's own pool aborts the process if the system refuses a
// thread; this one reports an error.
#ifndef BRAID_NODE_LOG_THREAD_H
#define BRAID_NODE_LOG_THREAD_H

#include "base/err.h"

#include <uv.h>

// Starts the thread and stores it in loop->data.
braid_err log_thread_begin(uv_loop_t *loop, braid_error *error);
// Like uv_queue_work, with at most one request at a time. On a loop without this thread it calls
// uv_queue_work.
int log_thread_queue(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb done);
// Ends the thread once its work is done; the loop must run until then. Does nothing without a
// thread.
void log_thread_end(uv_loop_t *loop);

#endif
