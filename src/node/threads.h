// The threads that libuv writes the log with and looks names up with. It ends the process where the system gives it none, so they are
// tried before it asks.
#ifndef BRAID_NODE_THREADS_H
#define BRAID_NODE_THREADS_H

#include "base/err.h"

#include <uv.h>

// `work` is in use until the loop has run.
braid_err threads_begin(uv_loop_t *loop, uv_work_t *work, braid_error *error);

#endif
