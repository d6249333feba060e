#include "node/compute.h"

#include "node/clock.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <stdlib.h>

struct compute {
    uv_async_t answered;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t posted;
    bool waiting, ending;  // under `lock`: a job is queued; no more jobs follow
    bool done;             // under `lock`: an answer is ready for the loop
    bool busy, closed;     // used by the loop's thread only
    job work;
    job_result result;
    compute_run_fn run;
    compute_done_fn finish;
    void *context;
};

static bool compute_wait(compute *c) {
    pthread_mutex_lock(&c->lock);
    while (!c->waiting && !c->ending) pthread_cond_wait(&c->posted, &c->lock);
    bool go = c->waiting && !c->ending;
    c->waiting = false;
    pthread_mutex_unlock(&c->lock);
    return go;
}

static void *compute_main(void *argument) {
    compute *c = argument;
    while (compute_wait(c)) {
        c->result = (job_result){.id = c->work.id, .kind = c->work.kind};
        uint64_t start = clock_now_ns();
        c->run(c->context, &c->work, &c->result);
        c->result.id = c->work.id;
        c->result.kind = c->work.kind;
        c->result.cost_ns = clock_now_ns() - start;
        pthread_mutex_lock(&c->lock);
        c->done = true;
        pthread_mutex_unlock(&c->lock);
        uv_async_send(&c->answered);
    }
    return NULL;
}

static void compute_answered(uv_async_t *handle) {
    compute *c = handle->data;
    pthread_mutex_lock(&c->lock);
    bool done = c->done;
    c->done = false;
    pthread_mutex_unlock(&c->lock);
    if (!done || c->closed) return;
    // The callback may post the next job, which overwrites these fields.
    job work = c->work;
    job_result result = c->result;
    c->busy = false;
    c->finish(c->context, &work, &result);
}

braid_err compute_new(uv_loop_t *loop, compute_run_fn run, compute_done_fn done, void *context, compute **out, braid_error *error) {
    compute *c = calloc(1, sizeof *c);
    if (!c) return braid_fail(error, BRAID_MEMORY, "no memory for the compute thread");
    *c = (compute){.run = run, .finish = done, .context = context};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->posted, NULL);
    bool handle = uv_async_init(loop, &c->answered, compute_answered) == 0;
    c->answered.data = c;
    if (handle && tensor_thread_start(&c->thread, compute_main, c)) {
        *out = c;
        return BRAID_OK;
    }
    if (handle) uv_close((uv_handle_t *)&c->answered, (uv_close_cb)free);
    else free(c);
    return braid_fail(error, BRAID_STATE, "cannot start a compute thread; raise the limits on memory and processes (ulimit -v, ulimit -u)");
}

void compute_post(compute *c, const job *work) {
    BRAID_ASSERT(!c->busy);
    c->busy = true;
    c->work = *work;
    pthread_mutex_lock(&c->lock);
    c->waiting = true;
    pthread_cond_signal(&c->posted);
    pthread_mutex_unlock(&c->lock);
}

bool compute_busy(const compute *c) { return c->busy; }

static void compute_closed(uv_handle_t *handle) {
    compute *c = handle->data;
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->posted);
    free(c);
}

void compute_close(compute *c) {
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_signal(&c->posted);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    c->closed = true;
    uv_close((uv_handle_t *)&c->answered, compute_closed);
}
