// Compute threads and their stacks: a product packs its operands on the stack, 1.8 MB (cpu/gemm.c).
#ifndef BRAID_TENSOR_THREAD_H
#define BRAID_TENSOR_THREAD_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

// Starts a thread with a large enough stack, whatever the system's default (ulimit -s; 128 KB in
// some C libraries). False: the system refuses.
bool tensor_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
// For the first thread of the process: grows its stack now. Otherwise the stack grows on use and
// the process ends where it cannot.
braid_err tensor_stack_reserve(braid_error *error);

#endif
