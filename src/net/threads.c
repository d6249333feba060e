#include "net/threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

// the first three are libuv's
enum { POOL_THREADS = 4, POOL_MOST = 1024, POOL_STACK_BYTES = 8 << 20, CLEARANCE_NS = 20000000 };

static unsigned pool_size(void) {
    const char *wanted = getenv("UV_THREADPOOL_SIZE");
    long size = wanted ? strtol(wanted, NULL, 10) : POOL_THREADS;
    return size < 1 ? 1 : size > POOL_MOST ? POOL_MOST : (unsigned)size;
}

static void wait_for_others(void *gate) {
    uv_mutex_lock(gate);
    uv_mutex_unlock(gate);
}

// The largest number of threads that can exist now.
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

// A finished thread counts against pids.max until the system has released it.
static void wait_for_clearance(void) { nanosleep(&(struct timespec){.tv_nsec = CLEARANCE_NS}, NULL); }

static void make_smaller(unsigned size) {
    char text[16];
    snprintf(text, sizeof text, "%u", size);
    setenv("UV_THREADPOOL_SIZE", text, 1);
    wait_for_clearance();
}

braid_err threads_ready(braid_error *error) {
    static atomic_bool ready;  // libuv has one pool per process
    if (atomic_load(&ready)) return BRAID_OK;
    unsigned wanted = pool_size();
    uv_thread_t *thread = calloc(wanted, sizeof *thread);
    unsigned got = thread ? threads_try(wanted, thread) : 0;
    free(thread);
    if (got == 0) return braid_fail(error, BRAID_MEMORY, "cannot start a thread that looks names up; raise the limits on memory and processes (ulimit -v, ulimit -u, pids.max), or give addresses as numbers");
    if (got < wanted) make_smaller(got);
    atomic_store(&ready, true);
    return BRAID_OK;
}
