#include "span/peer.h"

#include "base/machine.h"
#include "node/clock.h"
#include "node/stop.h"
#include "span/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MILLISECOND = 1000000;

void span_note(span_peer *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(p->told.event, sizeof p->told.event, format, list);
    va_end(list);
    if (p->callbacks.note) p->callbacks.note(p->callbacks.context, p->told.event);
}

size_t span_row_bytes(const span_peer *p) { return p->model.dim * sizeof(float); }

bool span_holds(const span_peer *p) { return p->config.layer_begin < p->config.layer_end; }

// --- the end

static void close_handle(uv_handle_t *handle) {
    if (handle->loop && !uv_is_closing(handle)) uv_close(handle, NULL);
}

static void drop_parcels(span_peer *p, span_parcel **list) {
    while (*list) {
        span_parcel *gone = *list;
        *list = gone->next;
        if (gone->payload) blobs_release(p->blobs, gone->payload);
        free(gone);
    }
}

// The loop is empty afterwards. Payloads of the net return to the blobs meanwhile.
static void stop_now(span_peer *p) {
    if (p->phase == SPAN_STOPPED) return;
    p->phase = SPAN_STOPPED;
    if (p->config.guest) p->config.guest->close(p);
    net_free(p->net);
    p->net = NULL;
    span_worker_close(p->layers.worker, span_work_drop);
    p->layers.worker = NULL;
    uv_handle_t *handles[] = {(uv_handle_t *)&p->deadline, (uv_handle_t *)&p->tick,    (uv_handle_t *)&p->retry,
                              (uv_handle_t *)&p->woken,    (uv_handle_t *)&p->signals, (uv_handle_t *)&p->input};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) close_handle(handles[i]);
}

static void on_leaving(uv_timer_t *timer) {
    span_peer *p = timer->data;
    if (net_leaving(p->net) > 0)
        uv_timer_start(timer, on_leaving, SPAN_LEAVING_MS, 0);
    else
        stop_now(p);
}

// Closes every link after its last messages. May be called inside an effect.
void span_leave(span_peer *p) {
    if (p->phase >= SPAN_LEAVING) return;
    bool runs = p->phase == SPAN_RUNNING;
    p->phase = SPAN_LEAVING;
    session_view view = {.count = 0};
    if (runs) session_peer_view(p->core, &view);
    for (uint32_t i = 1; i < view.count; i++)
        if (view.peer[i].linked) net_close(p->net, &view.peer[i].card.id, "this peer leaves the swarm");
    uv_timer_start(&p->retry, on_leaving, SPAN_LEAVING_MS, 0);
}

void span_fail(span_peer *p, const braid_error *error) {
    if (!p->error.code) p->error = *error;
    span_leave(p);
}

static void drain(span_peer *p) {
    if (p->state.draining || p->phase >= SPAN_LEAVING) return;
    p->state.draining = true;
    p->state.since_ns = clock_now_ns();
    if (p->phase != SPAN_RUNNING || p->config.origin || !p->layers.loaded) {
        span_leave(p);
        return;
    }
    span_feed(p, &(session_event){.kind = SESSION_EVENT_DRAIN});
}

// --- timers and requests

static void on_deadline(uv_timer_t *timer) { span_feed(timer->data, &(session_event){.kind = SESSION_EVENT_TICK}); }

static void on_retry(uv_timer_t *timer) { span_enquire(timer->data); }

// Updates the state records of the peers.
static void look_at_peers(span_peer *p) {
    const records_own own = {.origin = p->config.origin, .model = p->hash, .kernels = p->kernels};
    session_view view = {.count = 0};
    if (p->phase != SPAN_RUNNING) return;
    session_peer_view(p->core, &view);
    span_records_look(p->state.records, &view, &own, clock_now_ns());
}

static void on_tick(uv_timer_t *timer) {
    span_peer *p = timer->data;
    if (p->state.draining && clock_now_ns() - p->state.since_ns > SPAN_DRAIN_MS * MILLISECOND) span_leave(p);
    span_join_tick(p);
    look_at_peers(p);
    if (p->phase == SPAN_RUNNING && p->callbacks.tick) p->callbacks.tick(p->callbacks.context);
}

static void on_woken(uv_async_t *handle) {
    span_peer *p = handle->data;
    if (__atomic_load_n(&p->stop_asked, __ATOMIC_ACQUIRE)) drain(p);
    if (p->phase == SPAN_RUNNING && p->callbacks.wake) p->callbacks.wake(p->callbacks.context);
}

void span_peer_wake(span_peer *p) { uv_async_send(&p->woken); }

void span_peer_stop(span_peer *p) {
    __atomic_store_n(&p->stop_asked, true, __ATOMIC_RELEASE);
    uv_async_send(&p->woken);
}

static void on_signals(uv_poll_t *handle, int status, int events) {
    span_peer *p = handle->data;
    (void)status, (void)events;
    stop_clear();
    stop_take_save();
    if (stop_at_once())
        span_leave(p);
    else if (stop_requested())
        drain(p);
}

// The parent's end closes standard input: a child without a parent leaves at once.
static void on_input_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room) {
    span_peer *p = handle->data;
    (void)wanted;
    *room = uv_buf_init(p->input_byte, sizeof p->input_byte);
}

static void on_input(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    (void)bytes;
    if (count < 0) span_leave(stream->data);
}

static braid_err open_handles(span_peer *p, braid_error *error) {
    uv_timer_t *timers[] = {&p->deadline, &p->tick, &p->retry};
    uv_timer_cb callbacks[] = {on_deadline, on_tick, on_retry};
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) {
        uv_timer_init(&p->loop, timers[i]);
        timers[i]->data = p;
        timers[i]->timer_cb = callbacks[i];
    }
    uv_timer_start(&p->tick, on_tick, SPAN_TICK_MS, SPAN_TICK_MS);
    p->woken.data = p->signals.data = p->input.data = p;
    bool good = uv_async_init(&p->loop, &p->woken, on_woken) == 0;
    if (good && p->config.signals) {
        good = uv_poll_init(&p->loop, &p->signals, stop_descriptor()) == 0;
        if (good) uv_poll_start(&p->signals, UV_READABLE, on_signals);
    }
    if (good && p->config.supervised) {
        uv_pipe_init(&p->loop, &p->input, 0);
        good = uv_pipe_open(&p->input, 0) == 0;
        if (good) uv_read_start((uv_stream_t *)&p->input, on_input_room, on_input);
    }
    return good ? BRAID_OK
                : braid_fail(error, BRAID_STATE,
                             "cannot watch signals and timers; raise the limit on open files (ulimit -n)");
}

// --- the beginning

static braid_err describe(span_peer *p, braid_error *error) {
    p->model = p->config.model;
    p->hash = span_model_hash(&p->model);
    p->description = span_model_describe(&p->model, &p->description_bytes);
    return p->description ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the description of the model");
}

braid_err span_begin(span_peer *p, braid_error *error) {
    braid_id self = identity_id(p->config.identity);
    const net_run run = {.hash = p->hash,
                         .generation = 1,
                         .leader = p->config.origin ? self : p->config.join.leader,
                         .leader_address = p->config.origin ? p->address : p->config.join.address,
                         .description = p->description,
                         .description_bytes = p->description_bytes};
    braid_err err = net_set_run(p->net, &run, error);
    if (!err) err = span_core_new(p, error);
    if (err) return err;
    p->phase = SPAN_RUNNING;
    span_feed(p, &(session_event){.kind = SESSION_EVENT_TICK});
    if (p->callbacks.tick) p->callbacks.tick(p->callbacks.context);
    return BRAID_OK;
}

static braid_err open_memory(span_peer *p, braid_error *error) {
    p->own = p->config.origin ? calloc(SPAN_OWN, sizeof *p->own) : NULL;
    p->kept = calloc(SPAN_SLOTS, sizeof *p->kept);
    p->state.records = span_records_new();
    if (!p->kept || !p->state.records || (p->config.origin && !p->own))
        return braid_fail(error, BRAID_MEMORY, "no memory for a peer");
    braid_err err = blobs_new(0, SPAN_RECYCLE_BYTES, &p->blobs, error);
    return err ? err : tensor_pool_new(p->config.threads, &p->pool, error);
}

static braid_err open_links(span_peer *p, braid_error *error) {
    net_config config = {.software = "braid " BRAID_VERSION, .cleanse = p->config.guest != NULL};
    span_net_callbacks(p, &config.callbacks);
    braid_err err = net_new(&p->loop, p->config.identity, &config, &p->net, error);
    return err ? err : span_listen(p, error);
}

static braid_err open_all(span_peer *p, braid_error *error) {
    braid_err err = open_handles(p, error);
    if (!err) err = open_memory(p, error);
    if (!err) err = open_links(p, error);
    if (err || !p->config.origin) return err;
    err = span_kernels(p->config.file, &p->config.model, p->pool, &p->kernels, error);
    return err ? err : describe(p, error);
}

braid_err span_peer_new(const span_config *config, span_peer **out, braid_error *error) {
    *out = NULL;
    span_peer *p = calloc(1, sizeof *p);
    if (!p) return braid_fail(error, BRAID_MEMORY, "no memory for a peer");
    p->config = *config;
    p->callbacks = config->callbacks;
    p->here.last = &p->here.first;
    p->away.last = &p->away.first;
    p->state.retry_ms = SPAN_RETRY_FIRST_MS;
    if (uv_loop_init(&p->loop) != 0) {
        free(p);
        return braid_fail(error, BRAID_STATE, "cannot create an event loop; raise the limit on open files (ulimit -n)");
    }
    braid_err err = open_all(p, error);
    if (err)
        span_peer_free(p);
    else
        *out = p;
    return err;
}

braid_err span_peer_run(span_peer *p, braid_error *error) {
    braid_id self = identity_id(p->config.identity);
    p->state.begun_ns = clock_now_ns();
    if (p->callbacks.listening) p->callbacks.listening(p->callbacks.context, &self, p->address);
    braid_error why = {0};
    if (!p->config.origin)
        span_enquire(p);
    else if (span_begin(p, &why))
        span_fail(p, &why);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    return p->error.code ? braid_fail(error, p->error.code, "%s", p->error.text) : BRAID_OK;
}

void span_peer_free(span_peer *p) {
    if (!p) return;
    stop_now(p);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    uv_loop_close(&p->loop);
    if (p->config.guest) p->config.guest->free(p);
    drop_parcels(p, &p->here.first);
    drop_parcels(p, &p->away.first);
    for (uint32_t i = 0; i < SPAN_SLOTS && p->kept; i++) kept_free(&p->kept[i]);
    for (uint32_t i = 0; i < SPAN_OWN && p->own; i++) kept_free(&p->own[i].rows);
    span_layers_free(&p->layers);
    span_fetch_free(p->layers.fetch);
    tensor_pool_free(p->pool);
    blobs_free(p->blobs);
    span_records_free(p->state.records);
    free(p->kept);
    free(p->own);
    free(p->memory);
    free(p->description);
    free(p);
}

void span_peer_ticket(const span_peer *p, char text[TICKET_MAX_TEXT]) {
    ticket own = {.leader = identity_id(p->config.identity), .serves = true};
    strcpy(own.address, p->address);
    ticket_format(&own, text);
}
