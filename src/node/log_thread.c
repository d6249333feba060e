#include "node/log_thread.h"

#include "tensor/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct log_thread {
    uv_loop_t *loop;
    uv_async_t answered;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t posted;
    bool waiting, ending, done;  // under `lock`
    bool busy, closing;          // used by the loop's thread only
    uv_work_t *work;
    uv_work_cb run;
    uv_after_work_cb finish;
} log_thread;

static bool wait_for_work(log_thread *t) {
    pthread_mutex_lock(&t->lock);
    while (!t->waiting && !t->ending) pthread_cond_wait(&t->posted, &t->lock);
    bool go = t->waiting;
    t->waiting = false;
    pthread_mutex_unlock(&t->lock);
    return go;
}

static void *thread_main(void *argument) {
    log_thread *t = argument;
    while (wait_for_work(t)) {
        t->run(t->work);
        pthread_mutex_lock(&t->lock);
        t->done = true;
        pthread_mutex_unlock(&t->lock);
        uv_async_send(&t->answered);
    }
    return NULL;
}

static void thread_gone(uv_handle_t *handle) {
    log_thread *t = handle->data;
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->posted);
    free(t);
}

// Call it only while no work is queued.
static void thread_close(log_thread *t) {
    pthread_mutex_lock(&t->lock);
    t->ending = true;
    pthread_cond_signal(&t->posted);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    t->loop->data = NULL;
    uv_close((uv_handle_t *)&t->answered, thread_gone);
}

static void on_answer(uv_async_t *handle) {
    log_thread *t = handle->data;
    pthread_mutex_lock(&t->lock);
    bool done = t->done;
    t->done = false;
    pthread_mutex_unlock(&t->lock);
    if (!done) return;
    t->busy = false;
    t->finish(t->work, 0);  // may queue the next one
    if (t->closing && !t->busy) thread_close(t);
}

braid_err log_thread_begin(uv_loop_t *loop, braid_error *error) {
    log_thread *t = calloc(1, sizeof *t);
    if (!t) return braid_fail(error, BRAID_MEMORY, "no memory for the thread that writes the log");
    t->loop = loop;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->posted, NULL);
    bool handle = uv_async_init(loop, &t->answered, on_answer) == 0;
    t->answered.data = t;
    if (handle && tensor_thread_start(&t->thread, thread_main, t)) {
        loop->data = t;
        return BRAID_OK;
    }
    if (handle) uv_close((uv_handle_t *)&t->answered, thread_gone);
    else thread_gone((uv_handle_t *)&t->answered);
    return braid_fail(error, BRAID_MEMORY, "cannot start the thread that writes the log; raise the limits on memory and processes (ulimit -v, ulimit -u, pids.max)");
}

int log_thread_queue(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb done) {
    log_thread *t = loop->data;
    if (!t) return uv_queue_work(loop, work, run, done);
    BRAID_ASSERT(!t->busy);
    t->busy = true;
    t->work = work;
    t->run = run;
    t->finish = done;
    pthread_mutex_lock(&t->lock);
    t->waiting = true;
    pthread_cond_signal(&t->posted);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

void log_thread_end(uv_loop_t *loop) {
    log_thread *t = loop->data;
    if (!t || t->closing) return;
    t->closing = true;
    if (!t->busy) thread_close(t);
}
