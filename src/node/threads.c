#include "node/threads.h"

#include <stdlib.h>

enum { POOL_THREADS = 4, POOL_MOST = 1024, POOL_STACK_BYTES = 8 << 20 };  // as libuv has them

static unsigned pool_size(void) {
    const char *wanted = getenv("UV_THREADPOOL_SIZE");
    long size = wanted ? strtol(wanted, NULL, 10) : POOL_THREADS;
    return size < 1 ? 1 : size > POOL_MOST ? POOL_MOST : (unsigned)size;
}

static void wait_for_others(void *gate) {
    uv_mutex_lock(gate);
    uv_mutex_unlock(gate);
}

// How many of them can be at once.
static unsigned threads_try(unsigned wanted, uv_thread_t *thread) {
    const uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = POOL_STACK_BYTES};
    uv_mutex_t gate;
    unsigned count = 0;
    if (uv_mutex_init(&gate) != 0) return 0;
    uv_mutex_lock(&gate);
    while (count < wanted && uv_thread_create_ex(&thread[count], &options, wait_for_others, &gate) == 0) count++;
    uv_mutex_unlock(&gate);
    for (unsigned i = 0; i < count; i++) uv_thread_join(&thread[i]);
    uv_mutex_destroy(&gate);
    return count;
}

static void no_work(uv_work_t *work) { (void)work; }

braid_err threads_begin(uv_loop_t *loop, uv_work_t *work, braid_error *error) {
    unsigned wanted = pool_size();
    uv_thread_t *thread = calloc(wanted, sizeof *thread);
    unsigned got = thread ? threads_try(wanted, thread) : 0;
    free(thread);
    // it takes them now, before what was tried goes to something else
    if (got == wanted && uv_queue_work(loop, work, no_work, NULL) == 0) return BRAID_OK;
    return braid_fail(error, BRAID_MEMORY, "the system gives %u of %u threads, of %d MiB each, to write the log with; raise the limits on memory and processes (ulimit -v, ulimit -u)",
                      got, wanted, POOL_STACK_BYTES >> 20);
}
