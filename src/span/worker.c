#include "span/worker.h"

#include "node/clock.h"
#include "span/caches.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct work_list {
    work *first, **last;
} work_list;

struct worker {
    uv_async_t answered;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t posted;
    // under `lock`
    work_list waiting, done;
    uint64_t cache_bytes;
    bool ending;
    // of the loop's thread
    work_list answering;
    uint32_t open;
    bool closed;
    worker_settings settings;
    // of the compute thread
    caches caches;
    engine_part *parts;
    float *rows;
    size_t part_room, row_room;
};

static void list_open(work_list *l) { *l = (work_list){.first = NULL, .last = &l->first}; }

static void list_add(work_list *l, work *one) {
    one->next = NULL;
    *l->last = one;
    l->last = &one->next;
}

static work *list_take(work_list *l, work **at) {
    work *one = *at;
    *at = one->next;
    if (l->last == &one->next) l->last = at;
    one->next = NULL;
    return one;
}

// --- the choice of a batch

static bool has_session(const work *list, const work *until, uint64_t session) {
    for (const work *w = list; w && w != until; w = w->next)
        if (w->session == session) return true;
    return false;
}

// An earlier work of the same session must be done first.
static bool comes_first(const worker *w, const work *one) { return !has_session(w->waiting.first, one, one->session); }

static bool joins(const work *one, const work_list *batch, uint32_t rows) {
    const work *first = batch->first;
    if (!first) return true;
    bool alike = one->kind == first->kind && one->begin == first->begin && one->end == first->end;
    return alike && one->kind == WORK_LAYERS && rows + one->rows <= WORKER_BATCH_ROWS &&
           !has_session(first, NULL, one->session);
}

static uint32_t take_some(worker *w, work_list *batch, uint32_t rows, uint32_t most) {
    for (work **at = &w->waiting.first; *at;) {
        work *one = *at;
        if (one->rows > most || !joins(one, batch, rows) || !comes_first(w, one)) {
            at = &one->next;
            continue;
        }
        rows += one->rows;
        list_add(batch, list_take(&w->waiting, at));
    }
    return rows;
}

// Short works, which are single tokens, go first; long ones fill the rest. The oldest work is in
// the second batch at the latest, so that short ones cannot hold it up.
static void choose_batch(worker *w, work_list *batch) {
    work *oldest = w->waiting.first;
    uint32_t rows = 0;
    list_open(batch);
    if (oldest->rows <= WORKER_SHORT_ROWS || oldest->batch > 0) {
        rows = oldest->rows;
        list_add(batch, list_take(&w->waiting, &w->waiting.first));
    }
    rows = take_some(w, batch, rows, WORKER_SHORT_ROWS);
    take_some(w, batch, rows, UINT32_MAX);
    if (w->waiting.first) w->waiting.first->batch = 1;
}

static bool wait_for_batch(worker *w, work_list *batch) {
    pthread_mutex_lock(&w->lock);
    while (!w->waiting.first && !w->ending) pthread_cond_wait(&w->posted, &w->lock);
    bool goes_on = !w->ending;
    if (goes_on) choose_batch(w, batch);
    pthread_mutex_unlock(&w->lock);
    return goes_on;
}

// --- computing

static bool reach(float **at, size_t *room, size_t count) {
    if (count <= *room) return true;
    float *more = aligned_alloc(64, (count * sizeof *more + 63) / 64 * 64);
    if (!more) return false;
    free(*at);
    *at = more;
    *room = count;
    return true;
}

static bool reach_parts(worker *w, uint32_t count) {
    if (count <= w->part_room) return true;
    engine_part *more = realloc(w->parts, count * sizeof *more);
    if (!more) return false;
    w->parts = more;
    w->part_room = count;
    return true;
}

// Rows of the works without an error, in order, between their own memory and the batch's.
static void gather(worker *w, const work_list *batch) {
    size_t dim = engine_config(w->settings.engine)->dim, rows = 0;
    for (const work *one = batch->first; one; one = one->next) {
        if (one->err) continue;
        memcpy(w->rows + rows * dim, one->x, one->rows * dim * sizeof *one->x);
        rows += one->rows;
    }
}

static size_t rows_of(const work_list *batch) {
    size_t rows = 0;
    for (const work *one = batch->first; one; one = one->next) rows += one->rows;
    return rows;
}

static void fail_all(work_list *batch, const braid_error *error) {
    for (work *one = batch->first; one; one = one->next) {
        if (one->err) continue;
        one->err = error->code;
        one->error = *error;
    }
}

// A work with a cache becomes a part; the others get their error.
static uint32_t prepare_parts(worker *w, work_list *batch) {
    uint32_t count = 0;
    for (work *one = batch->first; one; one = one->next) {
        sequence *s = NULL;
        one->err = caches_prepare(&w->caches, one, &s, &one->error);
        if (!one->err) w->parts[count++] = (engine_part){s, one->rows, NULL};
    }
    return count;
}

static void run_layers(worker *w, work_list *batch) {
    size_t dim = engine_config(w->settings.engine)->dim, row = 0;
    braid_error error = {0};
    uint32_t parts = prepare_parts(w, batch);
    gather(w, batch);
    if (parts == 0) return;
    if (engine_layers(w->settings.engine, w->parts, parts, w->rows, &error)) {
        for (work *one = batch->first; one; one = one->next)
            if (!one->err) caches_cut(&w->caches, one->session, one->first);
        fail_all(batch, &error);
        return;
    }
    for (work *one = batch->first; one; one = one->next) {
        if (one->err) continue;
        memcpy(one->x, w->rows + row * dim, one->rows * dim * sizeof *one->x);
        row += one->rows;
    }
}

static void run_batch(worker *w, work_list *batch, uint32_t count) {
    work *first = batch->first;
    size_t rows = rows_of(batch), dim = engine_config(w->settings.engine)->dim;
    if (first->kind == WORK_LAYERS && (!reach_parts(w, count) || !reach(&w->rows, &w->row_room, rows * dim))) {
        braid_error error;
        braid_fail(&error, BRAID_MEMORY, "no memory for a batch of %zu rows", rows);
        fail_all(batch, &error);
        return;
    }
    switch (first->kind) {
    case WORK_LAYERS: run_layers(w, batch); break;
    case WORK_FORGET: caches_forget(&w->caches, first->session); break;
    case WORK_EXPORT: first->err = caches_export(&w->caches, first, &first->error); break;
    case WORK_IMPORT: first->err = caches_import(&w->caches, first, &first->error); break;
    case WORK_ADOPT: first->err = caches_adopt(&w->caches, first, &first->error); break;
    case WORK_NAME: caches_name(&w->caches, first); break;
    }
}

static void run_and_time(worker *w, work_list *batch) {
    uint64_t start = clock_now_ns();
    uint32_t count = 0;
    for (const work *one = batch->first; one; one = one->next) count++;
    run_batch(w, batch, count);
    uint64_t end = clock_now_ns();
    for (work *one = batch->first; one; one = one->next) {
        one->waited_ns = start - one->posted_ns;
        one->cost_ns = end - start;
        one->batch = count;
    }
}

static void *span_worker_main(void *argument) {
    worker *w = argument;
    work_list batch;
    while (wait_for_batch(w, &batch)) {
        run_and_time(w, &batch);
        pthread_mutex_lock(&w->lock);
        while (batch.first) list_add(&w->done, list_take(&batch, &batch.first));
        w->cache_bytes = engine_cache_bytes(w->settings.engine);
        pthread_mutex_unlock(&w->lock);
        uv_async_send(&w->answered);
    }
    return NULL;
}

// --- the loop's side

static void on_answered(uv_async_t *handle) {
    worker *w = handle->data;
    if (w->closed) return;
    pthread_mutex_lock(&w->lock);
    while (w->done.first) list_add(&w->answering, list_take(&w->done, &w->done.first));
    pthread_mutex_unlock(&w->lock);
    while (w->answering.first) {
        work *one = list_take(&w->answering, &w->answering.first);
        w->open--;
        w->settings.done(w->settings.context, one);
    }
}

braid_err span_worker_new(uv_loop_t *loop, const worker_settings *settings, worker **out, braid_error *error) {
    *out = NULL;
    worker *w = calloc(1, sizeof *w);
    if (!w) return braid_fail(error, BRAID_MEMORY, "no memory for the compute thread");
    w->settings = *settings;
    list_open(&w->waiting);
    list_open(&w->done);
    list_open(&w->answering);
    caches_open(&w->caches, settings);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->posted, NULL);
    bool handle = uv_async_init(loop, &w->answered, on_answered) == 0;
    w->answered.data = w;
    if (handle && tensor_thread_start(&w->thread, span_worker_main, w)) {
        *out = w;
        return BRAID_OK;
    }
    if (handle)
        uv_close((uv_handle_t *)&w->answered, (uv_close_cb)free);
    else
        free(w);
    return braid_fail(error, BRAID_STATE,
                      "cannot start a compute thread; raise the limits on memory and processes (ulimit -v, ulimit -u)");
}

void span_worker_post(worker *w, work *one) {
    one->err = BRAID_OK;
    one->batch = 0;
    one->posted_ns = clock_now_ns();
    w->open++;
    pthread_mutex_lock(&w->lock);
    list_add(&w->waiting, one);
    pthread_cond_signal(&w->posted);
    pthread_mutex_unlock(&w->lock);
}

uint64_t span_worker_cache_bytes(worker *w) {
    pthread_mutex_lock(&w->lock);
    uint64_t bytes = w->cache_bytes;
    pthread_mutex_unlock(&w->lock);
    return bytes;
}

uint32_t span_worker_waiting(const worker *w) { return w->open; }

static void on_closed(uv_handle_t *handle) {
    worker *w = handle->data;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->posted);
    free(w->parts);
    free(w->rows);
    free(w);
}

void span_worker_close(worker *w, void (*drop)(void *context, work *w)) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_signal(&w->posted);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    w->closed = true;
    while (w->waiting.first) drop(w->settings.context, list_take(&w->waiting, &w->waiting.first));
    while (w->done.first) drop(w->settings.context, list_take(&w->done, &w->done.first));
    while (w->answering.first) drop(w->settings.context, list_take(&w->answering, &w->answering.first));
    caches_close(&w->caches);
    uv_close((uv_handle_t *)&w->answered, on_closed);
}
