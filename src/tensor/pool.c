#include "tensor/pool.h"

#include "tensor/sizes.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// A waiting thread spins for SPIN_NS before it sleeps, because waking costs about as much. It never
// spins longer, because the thread that it waits for may have no core. When a wait exceeded
// LOST_NS, the machine is oversubscribed: for some loops workers then sleep at once. Reason: a
// thread that has slept gets the core sooner from another process, while a thread that has spun
// loses it in the middle of a task.
enum { POOL_MAX_THREADS = 1024, SPIN_NS = 50000, SPINS_PER_CLOCK = 16, LOST_NS = 1000000, OVERSUBSCRIBED_LOOPS = 256 };

struct tensor_pool {
    unsigned threads;
    unsigned started;  // workers that were started
    pthread_t *workers;
    const tensor_watch *watch;
    pthread_mutex_t lock;
    pthread_cond_t wake;  // signals: a loop is open, or the pool closes
    pthread_cond_t idle;  // signals: the last worker left the loop
    // written under lock
    bool closing;
    atomic_bool open;
    atomic_uint active;   // workers inside the open loop
    atomic_uint oversubscribed;  // number of further loops for which workers do not spin
    // set while no worker is active, read by active workers
    size_t count;
    tensor_task_fn task;
    void *context;
    atomic_size_t next;
};

static _Thread_local unsigned pool_slot;

typedef struct pool_start {
    tensor_pool *pool;
    unsigned slot;
} pool_start;

unsigned tensor_pool_slot(void) { return pool_slot; }

unsigned tensor_pool_threads(const tensor_pool *pool) { return pool->threads; }

void tensor_pool_watch(tensor_pool *pool, const tensor_watch *watch) { pool->watch = watch; }

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

typedef bool (*pool_condition)(tensor_pool *pool);

static bool is_open(tensor_pool *pool) { return atomic_load_explicit(&pool->open, memory_order_acquire); }

static bool is_quiet(tensor_pool *pool) { return atomic_load_explicit(&pool->active, memory_order_acquire) == 0; }

// Spins until the condition holds; false after SPIN_NS.
static bool pool_spin(tensor_pool *pool, pool_condition condition) {
    for (uint64_t end = now_ns() + SPIN_NS; now_ns() < end;)
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (condition(pool)) return true;
            pause_briefly();
        }
    return false;
}

static void pool_claim(tensor_pool *pool) {
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) return;
        pool->task(pool->context, index);
    }
}

static void *pool_work(void *argument) {
    pool_start *start = argument;
    tensor_pool *pool = start->pool;
    pool_slot = start->slot;
    free(start);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->closing && !is_open(pool)) pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->closing) break;
        pool->active++;
        pthread_mutex_unlock(&pool->lock);
        pool_claim(pool);
        pthread_mutex_lock(&pool->lock);
        pool->open = false;  // all indices are claimed, so a late worker has no work
        if (--pool->active == 0) pthread_cond_signal(&pool->idle);
        pthread_mutex_unlock(&pool->lock);
        if (atomic_load_explicit(&pool->oversubscribed, memory_order_relaxed) == 0) pool_spin(pool, is_open);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool pool_start_worker(tensor_pool *pool, unsigned slot) {
    pool_start *start = malloc(sizeof *start);
    if (!start) return false;
    *start = (pool_start){pool, slot};
    if (!tensor_thread_start(&pool->workers[slot - 1], pool_work, start)) {
        free(start);
        return false;
    }
    pool->started++;
    return true;
}

bool tensor_pool_refused(const tensor_pool *pool, unsigned wanted, char text[TENSOR_POOL_NOTE]) {
    if (pool->threads >= wanted) return false;
    snprintf(text, TENSOR_POOL_NOTE, "the system gives %u of %u compute threads: this process computes with %u; for more, raise the limits on memory and processes (ulimit -v, "
             "ulimit -u, pids.max)", pool->threads, wanted, pool->threads);
    return true;
}

braid_err tensor_pool_new(unsigned threads, tensor_pool **out, braid_error *error) {
    *out = NULL;
    if (threads < 1 || threads > POOL_MAX_THREADS)
        return braid_fail(error, BRAID_ARGUMENT, "%u compute threads asked for: give 1 to %d", threads,
                          POOL_MAX_THREADS);
    tensor_pool *pool = calloc(1, sizeof *pool);
    pthread_t *workers = calloc(threads, sizeof *workers);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        return braid_fail(error, BRAID_MEMORY, "no memory for a pool of %u compute threads", threads);
    }
    pool->threads = threads;
    pool->workers = workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    atomic_init(&pool->next, 0);
    atomic_init(&pool->open, false);
    atomic_init(&pool->active, 0);
    atomic_init(&pool->oversubscribed, 0);
    for (unsigned slot = 1; slot < threads && pool_start_worker(pool, slot);) slot++;
    pool->threads = pool->started + 1;
    *out = pool;
    return BRAID_OK;
}

void tensor_pool_free(tensor_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++) pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

// Waits until the last worker has left the loop.
static void pool_wait(tensor_pool *pool) {
    unsigned oversubscribed = atomic_load_explicit(&pool->oversubscribed, memory_order_relaxed);
    if (oversubscribed > 0) atomic_store_explicit(&pool->oversubscribed, oversubscribed - 1, memory_order_relaxed);
    if (pool_spin(pool, is_quiet)) return;
    uint64_t start = now_ns();
    pthread_mutex_lock(&pool->lock);
    while (!is_quiet(pool)) pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    if (now_ns() - start > LOST_NS) atomic_store_explicit(&pool->oversubscribed, OVERSUBSCRIBED_LOOPS, memory_order_relaxed);
}

static void pool_loop(tensor_pool *pool, size_t count, tensor_task_fn task, void *context) {
    if (pool->threads == 1 || count < 2) {
        for (size_t i = 0; i < count; i++) task(context, i);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->count = count;
    pool->task = task;
    pool->context = context;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->open = true;
    // waking more workers than there are indices would only cost context switches
    if (count >= pool->threads)
        pthread_cond_broadcast(&pool->wake);
    else
        for (size_t i = 1; i < count; i++) pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    pool_claim(pool);
    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    pthread_mutex_unlock(&pool->lock);
    pool_wait(pool);
}

void tensor_pool_run_for(const char *function, tensor_pool *pool, size_t count, tensor_task_fn task, void *context) {
    uint64_t start = pool->watch ? now_ns() : 0;
    pool_loop(pool, count, task, context);
    if (pool->watch) pool->watch->loop(pool->watch->context, function, now_ns() - start);
}

typedef struct range_job {
    size_t count, chunk;
    tensor_range_fn task;
    const void *context;
} range_job;

static void range_task(void *context, size_t index) {
    const range_job *job = context;
    size_t begin = index * job->chunk, end = begin + job->chunk;
    job->task(job->context, begin, size_least(end, job->count));
}

void tensor_pool_ranges_for(const char *function, tensor_pool *pool, size_t count, size_t chunk, tensor_range_fn task,
                            const void *context) {
    range_job job = {count, chunk, task, context};
    tensor_pool_run_for(function, pool, size_pieces(count, chunk), range_task, &job);
}
