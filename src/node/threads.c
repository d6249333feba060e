#include "node/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { POOL_THREADS = 4, POOL_MOST = 1024, POOL_STACK_BYTES = 8 << 20, CLEARANCE_NS = 20000000 };  // the first three as libuv has them

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

// A thread that has ended counts against pids.max until the system has cleared it away.
static void wait_for_clearance(void) { nanosleep(&(struct timespec){.tv_nsec = CLEARANCE_NS}, NULL); }

// One is left for the thread that computes.
static unsigned share_of(unsigned got, unsigned wanted) { return got >= wanted ? wanted : got - 1; }

braid_err threads_begin(uv_loop_t *loop, uv_work_t *work, char note[THREADS_NOTE], braid_error *error) {
    unsigned wanted = pool_size();
    char size[16];
    uv_thread_t *thread = calloc(wanted, sizeof *thread);
    unsigned got = thread ? threads_try(wanted, thread) : 0;
    free(thread);
    note[0] = 0;
    if (got < 2 && got < wanted)
        return braid_fail(error, BRAID_MEMORY, "the system gives %u of the 2 threads, of %d MiB each, that computing and writing the log need; raise the limits on memory and processes (ulimit -v, ulimit -u, pids.max)",
                          got, POOL_STACK_BYTES >> 20);
    if (got < wanted) {
        snprintf(size, sizeof size, "%u", share_of(got, wanted));
        setenv("UV_THREADPOOL_SIZE", size, 1);
        snprintf(note, THREADS_NOTE, "the system gives %u of %u threads to write the log and look names up with; for more, raise the limits on memory and processes (ulimit -v, ulimit -u, pids.max)",
                 share_of(got, wanted), wanted);
        wait_for_clearance();
    }
    // it takes them now, before what was tried goes to something else
    if (uv_queue_work(loop, work, no_work, NULL) == 0) return BRAID_OK;
    return braid_fail(error, BRAID_MEMORY, "no memory for the threads that write the log");
}
