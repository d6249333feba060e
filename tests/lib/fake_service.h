// A service without a model, for tests of the HTTP server: tokens are bytes, and every text goes on
// with the same reply, one byte at a time, on a thread of its own.
#ifndef BRAID_TEST_FAKE_SERVICE_H
#define BRAID_TEST_FAKE_SERVICE_H

#include "format/utf8.h"
#include "infer/stop.h"
#include "serve/service.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAKE_VOCAB = 256, FAKE_DIM = 4 };

struct service_job {
    service_job *next;
    service_text text;
    uint32_t *tokens;
    service_listener listener;
    stop_filter *stops;
    char pending[8];  // of a character under way
    size_t pending_length, drawn;
    bool begun, cancelled, ended, released;
};

typedef struct fake_service {
    service base;
    service_model model;
    model_config config;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    service_job *jobs;
    // set by a test, under the lock
    char *reply;
    size_t reply_length;
    bool held;         // no text starts or goes on
    braid_err refuse;  // of submit
    braid_err fail;    // of each text, after `fail_after` tokens
    size_t fail_after, queue_limit, running;
    unsigned step_us;  // pause before each token
    bool stopping;
    size_t submitted, cancelled;
    sampler_settings last_sampler;
    size_t last_prompt;
} fake_service;

static void fake_end(fake_service *f, service_job *j, service_end end, braid_err code) {
    braid_error error = {0};
    if (code) braid_fail(&error, code, "the fake service fails");
    if (j->text.constraint.release) j->text.constraint.release(j->text.constraint.context);
    f->cancelled += end == SERVICE_CANCELLED;
    f->running--;
    j->ended = true;
    pthread_mutex_unlock(&f->lock);
    j->listener.ended(j->listener.context, end, code ? &error : NULL);
    pthread_mutex_lock(&f->lock);
}

static uint32_t fake_choose(const service_job *j, uint32_t wanted) {
    float logits[FAKE_VOCAB] = {0};
    logits[wanted] = 1;
    uint32_t best = 0;
    if (j->text.constraint.mask) j->text.constraint.mask(j->text.constraint.context, logits, FAKE_VOCAB);
    for (uint32_t i = 1; i < FAKE_VOCAB; i++)
        if (logits[i] > logits[best]) best = i;
    if (j->text.constraint.accept) j->text.constraint.accept(j->text.constraint.context, best);
    return best;
}

static uint32_t fake_top(uint32_t token, uint32_t count, sampler_top *top) {
    for (uint32_t i = 0; i < count; i++) top[i] = (sampler_top){(token + i) % FAKE_VOCAB, -0.5f - (float)i};
    return count;
}

static void fake_begin(fake_service *f, service_job *j) {
    j->begun = true;
    pthread_mutex_unlock(&f->lock);
    const service_listener *l = &j->listener;
    l->started(l->context, j->text.count, j->text.count / 2);
    for (size_t i = 0; j->text.prompt_logprobs && i < j->text.count; i++) {
        sampler_top top[SAMPLER_MAX_TOP];
        uint32_t n = i ? fake_top(j->tokens[i], j->text.settings.top_logprobs, top) : 0;
        service_prompt_token t = {j->tokens[i], n ? -0.5f : 0, n, top};
        l->prompt(l->context, &t);
    }
    float mean[FAKE_DIM] = {(float)j->text.count, (float)j->tokens[0], 0.5f, -1};
    if (j->text.embed) l->embedding(l->context, mean, FAKE_DIM);
    pthread_mutex_lock(&f->lock);
    if (j->text.prompt_only || j->text.embed) fake_end(f, j, SERVICE_MAX_TOKENS, BRAID_OK);
}

// Whole characters only, as a generation gives them.
static size_t fake_piece(service_job *j, uint32_t token, char out[8]) {
    j->pending[j->pending_length++] = (char)token;
    size_t n = j->pending_length;
    if (utf8_bytes(j->pending, n) != n && n < 4) return 0;
    memcpy(out, j->pending, n);
    j->pending_length = 0;
    return n;
}

static void fake_step(fake_service *f, service_job *j) {
    uint32_t wanted = (unsigned char)f->reply[j->drawn % (f->reply_length + 1)];
    generation_step *step = calloc(1, sizeof *step);
    char piece[8];
    bool stopped = false;
    const char *shown = "";
    size_t shown_length = 0;
    bool last = !j->text.constraint.mask && j->drawn == f->reply_length;
    step->token = fake_choose(j, wanted);
    j->drawn++;
    if (!last) {
        size_t n = fake_piece(j, step->token, piece);
        stop_filter_add(j->stops, piece, n, &shown, &shown_length, &stopped, NULL);
    }
    bool full = j->drawn == j->text.settings.max_tokens;
    step->end = stopped ? GENERATION_STOP_STRING
                : last  ? GENERATION_STOP_ID
                : full  ? GENERATION_MAX_TOKENS
                        : GENERATION_GOES_ON;
    char *text = malloc(shown_length + 64), *more = text;
    memcpy(text, shown, shown_length);
    if (step->end && !stopped) {
        const char *held = "";
        size_t held_length = 0;
        stop_filter_end(j->stops, &held, &held_length);
        if (held_length < 64) memcpy(more + shown_length, held, held_length), shown_length += held_length;
    }
    step->text = text;
    step->length = shown_length;
    step->logprob = -0.5f;
    step->top_count = fake_top(step->token, j->text.settings.top_logprobs, step->top);
    pthread_mutex_unlock(&f->lock);
    if (f->step_us) usleep(f->step_us);
    j->listener.step(j->listener.context, step);
    pthread_mutex_lock(&f->lock);
    if (step->end) fake_end(f, j, full && !stopped && !last ? SERVICE_MAX_TOKENS : SERVICE_STOP, BRAID_OK);
    free(text);
    free(step);
}

static void fake_job_free(service_job *j) {
    stop_filter_free(j->stops);
    free(j->tokens);
    free(j);
}

static void fake_advance(fake_service *f, service_job *j) {
    if (j->cancelled)
        fake_end(f, j, SERVICE_CANCELLED, BRAID_OK);
    else if (f->held)
        return;
    else if (!j->begun)
        fake_begin(f, j);
    else if (f->fail && j->drawn >= f->fail_after)
        fake_end(f, j, SERVICE_FAILED, f->fail);
    else
        fake_step(f, j);
}

// Whether a job can advance; frees those that are done.
static bool fake_work(fake_service *f) {
    bool work = false;
    for (service_job **at = &f->jobs; *at;) {
        service_job *j = *at;
        if (j->ended && j->released) {
            *at = j->next;
            fake_job_free(j);
            continue;
        }
        if (!j->ended && (j->cancelled || !f->held)) {
            fake_advance(f, j);
            work = true;
        }
        at = &j->next;
    }
    return work;
}

static void *fake_main(void *context) {
    fake_service *f = context;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        for (service_job *j = f->jobs; j && f->stopping; j = j->next) j->cancelled = true;
        if (fake_work(f)) continue;
        if (f->stopping) break;
        pthread_cond_wait(&f->changed, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static const service_model *fake_model(service *s) { return &((fake_service *)s)->model; }

static braid_err fake_submit(service *s, const service_text *text, const service_listener *listener, service_job **out,
                             braid_error *error) {
    fake_service *f = (fake_service *)s;
    braid_err refuse = f->refuse;
    pthread_mutex_lock(&f->lock);
    if (text->model) refuse = BRAID_NOT_FOUND;
    if (f->running >= f->queue_limit) refuse = BRAID_BUSY;
    if (text->count >= f->model.context) refuse = BRAID_LIMIT;
    service_job *j = refuse ? NULL : calloc(1, sizeof *j);
    if (!j) {
        pthread_mutex_unlock(&f->lock);
        if (text->constraint.release) text->constraint.release(text->constraint.context);
        return braid_fail(error, refuse, "the fake service refuses");
    }
    j->text = *text;
    j->listener = *listener;
    j->tokens = malloc(text->count * sizeof *j->tokens);
    memcpy(j->tokens, text->tokens, text->count * sizeof *j->tokens);
    stop_filter_new(text->settings.stops, text->settings.stop_count, &j->stops, NULL);
    f->last_sampler = text->settings.sampler;
    f->last_prompt = text->count;
    f->submitted++;
    f->running++;
    service_job **at = &f->jobs;
    while (*at) at = &(*at)->next;
    *at = j;
    *out = j;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return BRAID_OK;
}

static void fake_cancel(service *s, service_job *job) {
    fake_service *f = (fake_service *)s;
    pthread_mutex_lock(&f->lock);
    job->cancelled = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void fake_release(service *s, service_job *job) {
    fake_service *f = (fake_service *)s;
    pthread_mutex_lock(&f->lock);
    job->released = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void fake_status(service *s, service_status *out) {
    fake_service *f = (fake_service *)s;
    pthread_mutex_lock(&f->lock);
    *out =
        (service_status){.ready = !f->held, .running = (uint32_t)f->running, .queue_limit = (uint32_t)f->queue_limit};
    if (f->held) strcpy(out->blocker, "the fake service is held");
    out->texts = f->submitted;
    pthread_mutex_unlock(&f->lock);
}

static char *fake_swarm(service *s) {
    (void)s;
    return NULL;
}

static void fake_free(service *s) {
    fake_service *f = (fake_service *)s;
    pthread_mutex_lock(&f->lock);
    f->stopping = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    for (service_job *j = f->jobs, *next; j; j = next) {
        next = j->next;
        fake_job_free(j);
    }
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    free(f->reply);
    free(f);
}

static void fake_drain(service *s) { (void)s; }

static const service_calls fake_calls = {.model = fake_model,
                                         .submit = fake_submit,
                                         .cancel = fake_cancel,
                                         .release = fake_release,
                                         .status = fake_status,
                                         .drain = fake_drain,
                                         .swarm = fake_swarm,
                                         .free = fake_free};

static inline void fake_set_reply(fake_service *f, const char *reply) {
    pthread_mutex_lock(&f->lock);
    free(f->reply);
    f->reply = strdup(reply);
    f->reply_length = strlen(reply);
    pthread_mutex_unlock(&f->lock);
}

// Holds all texts, or lets them go on.
static inline void fake_hold(fake_service *f, bool held) {
    pthread_mutex_lock(&f->lock);
    f->held = held;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static inline size_t fake_count(fake_service *f, const size_t *of) {
    pthread_mutex_lock(&f->lock);
    size_t n = *of;
    pthread_mutex_unlock(&f->lock);
    return n;
}

static inline fake_service *fake_service_new(const char *reply, const char *chat_template) {
    fake_service *f = calloc(1, sizeof *f);
    if (!f) abort();
    f->base.calls = &fake_calls;
    f->config = (model_config){.vocab = FAKE_VOCAB, .dim = FAKE_DIM, .context = 4096};
    f->model = (service_model){.name = "fake/model:1",
                               .config = &f->config,
                               .chat_template = chat_template,
                               .context = 4096,
                               .created = 1700000000};
    f->queue_limit = 1000;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    fake_set_reply(f, reply);
    if (pthread_create(&f->thread, NULL, fake_main, f) != 0) abort();
    return f;
}

#endif
