// Threads that compute, and their stacks: a product packs its operands there, 1.8 MB (cpu/gemm.c).
#ifndef BRAID_TENSOR_THREAD_H
#define BRAID_TENSOR_THREAD_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

// Its stack is large enough, whatever the system's default (ulimit -s; 128 KB in some C libraries). False: the system gives none.
bool tensor_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
// For the process's first thread, whose stack grows as it is used, or ends the process where it cannot: lets it grow now.
braid_err tensor_stack_reserve(braid_error *error);

#endif
