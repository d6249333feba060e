// The threads that libuv looks names up with. It ends the process where the system gives it none, so
// they are tried before it asks, and its pool is made as small as the system wants it.
#ifndef BRAID_NET_THREADS_H
#define BRAID_NET_THREADS_H

#include "base/err.h"

// Before each look-up on a loop: BRAID_OK when libuv has its threads, or can have them now.
braid_err threads_ready(braid_error *error);

#endif
