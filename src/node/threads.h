// The threads that libuv writes the log with and looks names up with. It ends the process where the system gives it none, so they are
// tried before it asks, and its pool is made as small as the system wants it.
#ifndef BRAID_NODE_THREADS_H
#define BRAID_NODE_THREADS_H

#include "base/err.h"

#include <uv.h>

enum { THREADS_NOTE = 256 };
// `work` is in use until the loop has run. `note`: what to tell the user where the system gives
// fewer threads than libuv would take; else "". An error where they are too few to run at all.
braid_err threads_begin(uv_loop_t *loop, uv_work_t *work, char note[THREADS_NOTE], braid_error *error);

#endif
