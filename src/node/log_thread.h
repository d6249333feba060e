// The thread that a loop's log is written on. libuv's own pool ends the process where the system gives
// it no thread; this one is refused with a sentence.
#ifndef BRAID_NODE_LOG_THREAD_H
#define BRAID_NODE_LOG_THREAD_H

#include "base/err.h"

#include <uv.h>

// Starts it; kept in loop->data.
braid_err log_thread_begin(uv_loop_t *loop, braid_error *error);
// As uv_queue_work, one work at a time; by uv_queue_work itself on a loop without such a thread.
int log_thread_queue(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb done);
// Ends it as soon as its work, if any, is done; the loop must run until then. Without one: nothing.
void log_thread_end(uv_loop_t *loop);

#endif
