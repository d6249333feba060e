// Works of the compute threads, for the protocol's effects.
#include "span/inside.h"

#include <stdlib.h>
#include <string.h>

static void out_of_memory(span_peer *p) { span_fail(p, &(braid_error){BRAID_MEMORY, "no memory for rows of a text"}); }

static span_job *job_new(span_peer *p, const session_effect *e, work_kind kind) {
    span_job *task = calloc(1, sizeof *task);
    if (!task) {
        out_of_memory(p);
        return NULL;
    }
    *task = (span_job){.peer = p, .slot = e->slot, .ticket = e->ticket};
    task->work = (work){.kind = kind,
                        .session = e->slot,
                        .first = e->position,
                        .rows = e->count,
                        .begin = e->layer_begin,
                        .end = e->layer_end,
                        .adapter = e->adapter,
                        .limit = e->limit};
    return task;
}

static void job_free(span_job *task) {
    free(task->work.keys);
    free(task->work.x);
    free(task);
}

void span_run(span_peer *p, const session_effect *e) {
    size_t dim = p->model.dim, bytes = e->count * dim * sizeof(float);
    uint64_t held = 0;
    const char *rows = blobs_data(p->blobs, e->blob, &held);
    span_job *task = job_new(p, e, WORK_LAYERS);
    if (!task) return;
    BRAID_ASSERT(rows && (e->first_row + (uint64_t)e->count) * dim * sizeof(float) <= held);
    task->work.x = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!task->work.x) {
        job_free(task);
        out_of_memory(p);
        return;
    }
    memcpy(task->work.x, rows + e->first_row * dim * sizeof(float), bytes);
    span_worker_post(p->layers.worker, &task->work);
}

void span_import(span_peer *p, const session_effect *e) {
    span_job *task = job_new(p, e, WORK_IMPORT);
    if (!task) return;
    session_slot_view slot;
    session_look_slot(p->core, e->slot, &slot);
    task->work.begin = slot.layer_begin;
    task->work.end = slot.layer_end;
    task->work.bytes = blobs_data(p->blobs, e->blob, NULL);
    span_worker_post(p->layers.worker, &task->work);
}

// ADOPT or NAME.
void span_pages(span_peer *p, const session_effect *e) {
    span_job *task = job_new(p, e, e->kind == SESSION_EFFECT_ADOPT ? WORK_ADOPT : WORK_NAME);
    if (!task) return;
    task->work.rows = 0;
    task->work.keys = malloc(e->count * sizeof *e->keys);
    if (!task->work.keys) {
        job_free(task);
        out_of_memory(p);
        return;
    }
    memcpy(task->work.keys, e->keys, e->count * sizeof *e->keys);
    task->work.key_count = e->count;
    span_worker_post(p->layers.worker, &task->work);
}

void span_slot_free(span_peer *p, uint32_t slot) {
    kept_free(&p->kept[slot]);
    span_job *task = job_new(p, &(session_effect){.slot = slot}, WORK_FORGET);
    if (task) span_worker_post(p->layers.worker, &task->work);
}

// --- payloads

static span_own *own_of(span_peer *p, uint64_t number) {
    for (uint32_t i = 0; i < SPAN_OWN && p->own; i++)
        if (p->own[i].exists && p->own[i].number == number) return &p->own[i];
    return NULL;
}

static bool fill_cache(span_peer *p, const session_effect *e, span_parcel *parcel) {
    span_job *task = job_new(p, e, WORK_EXPORT);
    if (!task) return false;
    parcel->ready = false;
    task->parcel = parcel;
    task->work.bytes = blobs_data(p->blobs, parcel->payload, NULL);
    span_worker_post(p->layers.worker, &task->work);
    return true;
}

static uint64_t source_bytes(const span_peer *p, const session_effect *e) {
    if (e->source == SESSION_SOURCE_NONE || e->count == 0) return 0;
    if (e->source != SESSION_SOURCE_CACHE) return e->count * (uint64_t)span_row_bytes(p);
    return e->count * (uint64_t)(e->layer_end - e->layer_begin) * sequence_layer_bytes(p->layers.engine);
}

static const float *rows_of(span_peer *p, const session_effect *e) {
    const span_own *own = e->source == SESSION_SOURCE_TOKENS ? own_of(p, e->number) : NULL;
    const kept *from = e->source == SESSION_SOURCE_TOKENS ? (own ? &own->rows : NULL) : &p->kept[e->slot];
    return from ? kept_at(from, p->model.dim, e->position, e->count) : NULL;
}

static bool fill_rows(span_peer *p, const session_effect *e, float *to) {
    const float *x = rows_of(p, e);
    BRAID_ASSERT(x != NULL);
    memcpy(to, x, e->count * span_row_bytes(p));
    return true;
}

bool span_fill(span_peer *p, const session_effect *e, span_parcel *parcel) {
    uint64_t bytes = source_bytes(p, e);
    if (bytes == 0) return true;
    void *payload = blobs_add(p->blobs, bytes, &parcel->payload);
    bool good = payload != NULL;
    if (good) good = e->source == SESSION_SOURCE_CACHE ? fill_cache(p, e, parcel) : fill_rows(p, e, payload);
    if (good) return true;
    if (payload) blobs_release(p->blobs, parcel->payload);
    free(parcel);
    out_of_memory(p);
    return false;
}

void span_output(span_peer *p, const session_effect *e) {
    const float *rows = blobs_data(p->blobs, e->blob, NULL);
    p->told.outputs++;
    if (p->callbacks.output)
        p->callbacks.output(p->callbacks.context, e->number, e->position, e->count,
                            rows + e->first_row * (size_t)p->model.dim);
    blobs_release(p->blobs, e->blob);
}

// --- answers

static void layers_done(span_peer *p, const span_job *task) {
    const work *w = &task->work;
    bool failed = w->err != BRAID_OK;
    if (failed) span_note(p, "a text's rows were not computed: %s", w->error.text);
    bool keeps = !failed && w->kind == WORK_LAYERS;
    if (keeps && !kept_put(&p->kept[task->slot], p->model.dim, w->first, w->rows, w->x)) {
        out_of_memory(p);
        return;
    }
    span_feed(p, &(session_event){.kind = SESSION_EVENT_DONE,
                                  .slot = task->slot,
                                  .ticket = task->ticket,
                                  .failed = failed,
                                  .count = w->kind == WORK_ADOPT ? w->rows : 0,
                                  .cost_ns = w->cost_ns});
}

// Without the bytes the receiver would wait for the next message; it asks again, or computes them.
static void export_done(span_peer *p, const span_job *task) {
    if (task->work.err) span_note(p, "a text was not handed over: %s", task->work.error.text);
    span_parcel_ready(p, task->parcel);
}

void span_work_done(void *context, work *w) {
    span_peer *p = context;
    span_job *task = (span_job *)w;
    switch (w->kind) {
    case WORK_LAYERS:
    case WORK_ADOPT:
    case WORK_IMPORT: layers_done(p, task); break;
    case WORK_EXPORT: export_done(p, task); break;
    case WORK_NAME:
    case WORK_FORGET: break;
    }
    job_free(task);
}

void span_work_drop(void *context, work *w) {
    (void)context;
    job_free((span_job *)w);
}

// --- own sessions

bool span_peer_open(span_peer *p, uint64_t number, const span_text *text) {
    span_own *own = NULL;
    if (p->phase != SPAN_RUNNING || session_own_room(p->core) == 0) return false;
    for (uint32_t i = 0; i < SPAN_OWN && !own; i++)
        if (!p->own[i].exists) own = &p->own[i];
    if (!own) return false;
    *own = (span_own){.exists = true, .number = number};
    const session_open open = {.model = p->hash,
                               .kernels = p->kernels,
                               .layers = (uint16_t)p->model.layers,
                               .room = text->room,
                               .prompt = text->prompt,
                               .adapter = text->adapter,
                               .keys = text->keys,
                               .key_count = text->key_count};
    span_feed(p, &(session_event){.kind = SESSION_EVENT_OPEN, .number = number, .open = &open});
    return true;
}

bool span_peer_step(span_peer *p, uint64_t number, uint32_t position, const float *x, uint32_t count, uint32_t home) {
    span_own *own = own_of(p, number);
    bool joined = own && (position == 0 || (position >= own->rows.from && position <= own->rows.end));
    if (!joined || !kept_put(&own->rows, p->model.dim, position, count, x)) return false;
    uint32_t from = position < own->given ? position : own->given;
    own->given = position + count;
    span_feed(
        p,
        &(session_event){
            .kind = SESSION_EVENT_STEP, .number = number, .position = from, .count = own->given - from, .home = home});
    return true;
}

bool span_peer_supply(span_peer *p, uint64_t number, uint32_t position, const float *x, uint32_t count) {
    span_own *own = own_of(p, number);
    return own && own->rows.end == position && kept_put(&own->rows, p->model.dim, position, count, x);
}

void span_peer_name(span_peer *p, uint64_t number, uint32_t page, const session_key *keys, uint32_t count) {
    for (uint32_t at = 0; at < count; at += SESSION_MAX_NAMES) {
        uint32_t some = count - at < SESSION_MAX_NAMES ? count - at : SESSION_MAX_NAMES;
        span_feed(p, &(session_event){.kind = SESSION_EVENT_NAME,
                                      .number = number,
                                      .position = page + at,
                                      .keys = keys + at,
                                      .key_count = (uint16_t)some});
    }
}

void span_peer_end(span_peer *p, uint64_t number) {
    span_own *own = own_of(p, number);
    if (!own) return;
    span_feed(p, &(session_event){.kind = SESSION_EVENT_END, .number = number});
    kept_free(&own->rows);
    *own = (span_own){0};
}
