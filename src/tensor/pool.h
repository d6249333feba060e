// A few threads that share loops. The split of a loop is fixed by its length alone, never by the
// number of threads, so results do not depend on it.
#ifndef BRAID_TENSOR_POOL_H
#define BRAID_TENSOR_POOL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tensor_pool tensor_pool;
typedef void (*tensor_task_fn)(void *context, size_t index);
typedef void (*tensor_range_fn)(const void *context, size_t begin, size_t end);

// Creates a pool of threads >= 1, including the caller. Idle workers sleep: a spinning barrier
// would let one busy core stall the others. If the system starts fewer threads, the pool has those;
// results do not depend on their number.
braid_err tensor_pool_new(unsigned threads, tensor_pool **out, braid_error *error);
void tensor_pool_free(tensor_pool *pool);
unsigned tensor_pool_threads(const tensor_pool *pool);
enum { TENSOR_POOL_NOTE = 256 };
// True if the system started fewer threads than `wanted`; describes it in `text`.
bool tensor_pool_refused(const tensor_pool *pool, unsigned wanted, char text[TENSOR_POOL_NOTE]);
// Called on the calling thread at the end of every loop, with the function that ran it and its
// duration.
typedef struct tensor_watch {
    void *context;
    void (*loop)(void *context, const char *function, uint64_t nanoseconds);
} tensor_watch;

// Borrowed; NULL: no watch.
void tensor_pool_watch(tensor_pool *pool, const tensor_watch *watch);

// Calls task(context, 0 .. count - 1), each once, in any order, and returns when all are done. Not
// re-entrant.
#define tensor_pool_run(pool, count, task, context) tensor_pool_run_for(__func__, pool, count, task, context)
void tensor_pool_run_for(const char *function, tensor_pool *pool, size_t count, tensor_task_fn task, void *context);
// The same for the ranges [0, chunk), [chunk, 2 chunk), ... of 0 .. count - 1. `chunk` > 0 must
// depend on shapes alone.
#define tensor_pool_ranges(pool, count, chunk, task, context) \
    tensor_pool_ranges_for(__func__, pool, count, chunk, task, context)
void tensor_pool_ranges_for(const char *function, tensor_pool *pool, size_t count, size_t chunk, tensor_range_fn task,
                            const void *context);
// Inside a task: the index of the current thread, 0 .. threads - 1, which selects its scratch
// memory.
unsigned tensor_pool_slot(void);

#endif
