#include "tensor/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum {
    STACK_BYTES = 1900 << 10,        // the frames of the products and of their callers
    OTHERS_BYTES = 96 << 10,         // the environment and the arguments share this stack
    THREAD_STACK_BYTES = 4 << 20,
    // a joined thread may count against pids.max for a moment longer
    THREAD_TRIES = 5,
    THREAD_PAUSE_NS = 1000000,
};

bool tensor_thread_start(pthread_t *thread, void *(*run)(void *context), void *context) {
    pthread_attr_t how;
    size_t bytes = 0;
    if (pthread_attr_init(&how) != 0) return false;
    pthread_attr_getstacksize(&how, &bytes);
    if (bytes < THREAD_STACK_BYTES) pthread_attr_setstacksize(&how, THREAD_STACK_BYTES);
    int code = pthread_create(thread, &how, run, context);
    for (int i = 0; i < THREAD_TRIES && code == EAGAIN; i++) {
        nanosleep(&(struct timespec){.tv_nsec = THREAD_PAUSE_NS}, NULL);
        code = pthread_create(thread, &how, run, context);
    }
    pthread_attr_destroy(&how);
    return code == 0;
}

__attribute__((noinline)) static void stack_grow(void) {
    volatile char deep[STACK_BYTES];
    deep[0] = 0;
    (void)deep[0];
}

braid_err tensor_stack_reserve(braid_error *error) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_BYTES + OTHERS_BYTES) {
        limit.rlim_cur = limit.rlim_max < THREAD_STACK_BYTES ? limit.rlim_max : THREAD_STACK_BYTES;
        if (limit.rlim_cur < STACK_BYTES + OTHERS_BYTES || setrlimit(RLIMIT_STACK, &limit) != 0)
            return braid_fail(error, BRAID_LIMIT, "a stack may have %llu KiB here, and %d are needed; raise the limit (ulimit -s)", (unsigned long long)limit.rlim_max >> 10,
                              (STACK_BYTES + OTHERS_BYTES) >> 10);
    }
    void *room = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return braid_fail(error, BRAID_MEMORY, "no memory for a stack of %d KiB: %s; raise the limit (ulimit -v)", STACK_BYTES >> 10, strerror(errno));
    munmap(room, STACK_BYTES);
    stack_grow();
    return BRAID_OK;
}
