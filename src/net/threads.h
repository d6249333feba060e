// The threads that libuv uses for name lookups. libuv ends the process where the system refuses a
// thread. So this module tries them first, and makes libuv's pool as small as the system allows.
#ifndef BRAID_NET_THREADS_H
#define BRAID_NET_THREADS_H

#include "base/err.h"

// Call before each lookup on a loop: BRAID_OK when libuv has its threads or can start them now.
braid_err threads_ready(braid_error *error);

#endif
