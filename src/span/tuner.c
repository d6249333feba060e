#include "span/tuner.h"

#include "node/clock.h"
#include "span/inside.h"
#include "span/tuner_inside.h"
#include "tensor/thread.h"
#include "train/kernel_class.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 100 };  // between two questions whether the call is to end

static const uint64_t MILLISECOND = 1000000;

// --- calls of the caller's thread

static void wait_a_moment(tuner *t) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(LOOK_MS * MILLISECOND);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&t->answered, &t->lock, &until);
}

// Until the loop's thread has done the request, or has ended.
static braid_err call(tuner *t, const tuner_request *request, braid_error *error) {
    pthread_mutex_lock(&t->lock);
    t->request = *request;
    t->request.state = TUNER_ASKED;
    span_peer_wake(t->peer);
    while (t->request.state != TUNER_DONE && !t->ended) {
        wait_a_moment(t);
        bool stops = !t->request.stops && t->config.stops && t->config.stops(t->config.context);
        if (!stops) continue;
        if (t->request.state == TUNER_ASKED) {  // the swarm has not answered yet
            braid_fail(&t->request.error, BRAID_STATE, "tuning was stopped");
            t->request.state = TUNER_DONE;
        }
        t->request.stops = true;
        span_peer_wake(t->peer);
    }
    const braid_error *why = t->request.state == TUNER_DONE ? &t->request.error : &t->failed;
    braid_err err = why->code;
    if (err) braid_fail(error, err, "%s", why->text);
    t->request.state = TUNER_IDLE;
    pthread_mutex_unlock(&t->lock);
    return err;
}

static braid_err reserve(tuner *t, braid_error *error) {
    size_t rows = t->rows * t->dim;
    t->scratch = calloc(t->layer_parameters * t->layers + 1, sizeof *t->scratch);
    t->dy = malloc(rows * sizeof *t->dy);
    return t->scratch && t->dy ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for a microbatch");
}

static braid_err on_open(void *context, const adapter_config *settings, uint32_t sequences, uint32_t tokens,
                         size_t layer_parameters, braid_error *error) {
    tuner *t = context;
    uint64_t rows = (uint64_t)sequences * tokens, parameters = layer_parameters * t->layers;
    uint64_t payload = (rows * (t->dim + 1) + parameters) * sizeof(float);
    if (rows > TUNING_MAX_ROWS || parameters > TUNING_MAX_PARAMETERS || payload > WIRE_MAX_PAYLOAD_BYTES)
        return braid_fail(error, BRAID_LIMIT,
                          "this microbatch or this adapter is too large for messages of a swarm; give a shorter "
                          "--sequence, fewer --targets or a lower --rank");
    t->adapter = *settings;
    t->sequences = sequences;
    t->tokens = tokens;
    t->rows = rows;
    t->layer_parameters = layer_parameters;
    return reserve(t, error);
}

static void on_begin(void *context, const float *parameters) {
    tuner *t = context;
    t->parameters = parameters;
}

static braid_err on_forward(void *context, const uint32_t *documents, const float *x, bool keep, float *y,
                            braid_error *error) {
    tuner *t = context;
    t->documents = documents;
    t->x = x;
    return call(t, &(tuner_request){.kind = TUNER_FORWARD, .keep = keep, .out = y}, error);
}

static braid_err on_backward(void *context, const float *dy, float *gradient, braid_error *error) {
    tuner *t = context;
    braid_err err = call(t, &(tuner_request){.kind = TUNER_BACKWARD, .keep = true, .dy = dy}, error);
    for (size_t i = 0; i < t->layer_parameters * t->layers && !err; i++) gradient[i] += t->scratch[i];
    return err;
}

static void on_end(void *context) {
    tuner *t = context;
    braid_error ignored;
    (void)call(t, &(tuner_request){.kind = TUNER_END}, &ignored);
    t->parameters = NULL;
}

// --- the loop's thread

static void take_request(tuner *t) {
    pthread_mutex_lock(&t->lock);
    bool asked = t->request.state == TUNER_ASKED, stops = t->request.stops;
    if (asked) t->request.state = TUNER_TAKEN;
    pthread_mutex_unlock(&t->lock);
    if (asked) tuner_begin(t);
    if (stops) tuner_stop(t);
}

static void on_wake(void *context) { take_request(context); }

static void on_tick(void *context) {
    take_request(context);
    tuner_tick(context);
}

void tuner_done(tuner *t, const braid_error *error) {
    pthread_mutex_lock(&t->lock);
    t->request.error = error ? *error : (braid_error){0};
    t->request.state = TUNER_DONE;
    pthread_cond_signal(&t->answered);
    pthread_mutex_unlock(&t->lock);
}

static void on_note(void *context, const char *text) {
    tuner *t = context;
    if (t->config.note) t->config.note(t->config.context, text);
}

static void *tuner_main(void *argument) {
    tuner *t = argument;
    braid_error error = {0};
    if (span_peer_run(t->peer, &error) == BRAID_OK) braid_fail(&error, BRAID_STATE, "the link to the swarm has ended");
    pthread_mutex_lock(&t->lock);
    t->failed = error;
    t->ended = true;
    pthread_cond_signal(&t->answered);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

// --- start and end

static void tuner_delete(tuner *t) {
    span_peer_free(t->peer);
    for (uint32_t i = 0; i < TUNER_MAX_HOPS; i++) free(t->hop[i].x);
    free(t->scratch);
    free(t->dy);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->answered);
    free(t);
}

static braid_err start(tuner *t, const span_config *config, braid_error *error) {
    braid_err err = kernel_class_of(model_file_config(config->file), false, &t->kernels, error);
    if (!err) err = span_peer_new(config, &t->peer, error);
    if (!err && !tensor_thread_start(&t->thread, tuner_main, t))
        err = braid_fail(error, BRAID_STATE,
                         "cannot start a thread for the swarm; raise the limits on memory and processes (ulimit -v, "
                         "ulimit -u)");
    return err;
}

braid_err tuner_new(const tuner_config *config, tuner **out, braid_error *error) {
    *out = NULL;
    tuner *t = calloc(1, sizeof *t);
    if (!t) return braid_fail(error, BRAID_MEMORY, "no memory for tuning over a swarm");
    t->config = *config;
    if (!t->config.wait_ns) t->config.wait_ns = TUNER_WAIT_MS * MILLISECOND;
    t->layers = model_file_config(config->file)->layers;
    t->dim = model_file_config(config->file)->dim;
    t->remote = (tune_remote){t, on_open, on_begin, on_forward, on_backward, on_end};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->answered, NULL);
    const span_config peer = {.identity = config->identity,
                              .listen = address_list_is_local(config->join.address) ? "127.0.0.1:0" : NULL,
                              .path = config->path,
                              .file = config->file,
                              .join = config->join,
                              .guest = &span_lending,
                              .tuner = t,
                              .threads = 1,
                              .patience_ns = t->config.wait_ns,
                              .callbacks = {.context = t, .note = on_note, .wake = on_wake, .tick = on_tick}};
    braid_err err = start(t, &peer, error);
    if (err)
        tuner_delete(t);
    else
        *out = t;
    return err;
}

void tuner_free(tuner *t) {
    if (!t) return;
    span_peer_stop(t->peer);
    pthread_join(t->thread, NULL);
    tuner_delete(t);
}

const tune_remote *tuner_remote(const tuner *t) { return &t->remote; }

void tuner_look(tuner *t, tuner_counts *out) {
    pthread_mutex_lock(&t->lock);
    *out = t->counts;
    pthread_mutex_unlock(&t->lock);
}
