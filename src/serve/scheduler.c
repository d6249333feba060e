#include "serve/inside.h"

#include "tensor/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static scheduler *of(service *base) { return (scheduler *)base; }

// --- texts

static void job_release(service_job *job) {
    if (atomic_fetch_sub(&job->references, 1) > 1) return;
    generation_free(job->text);
    adapter_version_give_back(job->adapter);
    free(job->sum);
    free(job);
}

static void release_constraint(const service_constraint *c) {
    if (c->release) c->release(c->context);
}

static void note_end(scheduler *s, const service_job *job, bool failed) {
    pthread_mutex_lock(&s->lock);
    s->status.texts++;
    s->status.failed += failed;
    s->waiting -= job->state == JOB_QUEUED;
    pthread_mutex_unlock(&s->lock);
}

// Before `ended` is called: its caller may look at the status.
static void note_running(scheduler *s) {
    pthread_mutex_lock(&s->lock);
    s->status.running = s->running_count;
    pthread_mutex_unlock(&s->lock);
}

static void unqueue(scheduler *s, const service_job *job) {
    service_job **at = &s->queue;
    while (*at && *at != job) at = &(*at)->next;
    if (*at) *at = job->next;
}

// There may be room now.
static void unblock(scheduler *s) {
    s->hold = false;
    for (uint32_t i = 0; i < s->running_count; i++)
        if (s->running[i]->state == JOB_BLOCKED) s->running[i]->state = JOB_READY;
}

void scheduler_finish(scheduler *s, service_job *job, service_end end, const braid_error *error) {
    note_end(s, job, end == SERVICE_FAILED);
    if (job->state == JOB_QUEUED) {
        unqueue(s, job);
    } else {
        executor_close(s->executor, job->session);
        places_remove(s, job);
        note_running(s);
    }
    unblock(s);
    drafter_text_end(&job->guessing);
    if (job->listener.ended) job->listener.ended(job->listener.context, end, error);
    release_constraint(&job->constraint);
    job->constraint = (service_constraint){0};
    job_release(job);
}

static void cancel_marked(scheduler *s) {
    for (uint32_t i = s->running_count; i-- > 0;)
        if (atomic_load(&s->running[i]->cancelled)) scheduler_finish(s, s->running[i], SERVICE_CANCELLED, NULL);
    for (service_job *job = s->queue, *next; job; job = next) {
        next = job->next;
        if (atomic_load(&job->cancelled)) scheduler_finish(s, job, SERVICE_CANCELLED, NULL);
    }
}

static void cancel_all(scheduler *s) {
    while (s->running_count > 0) scheduler_finish(s, s->running[0], SERVICE_CANCELLED, NULL);
    while (s->queue) scheduler_finish(s, s->queue, SERVICE_CANCELLED, NULL);
}

// --- the thread

typedef struct taken {
    service_job *incoming;
    mail *mail;
    bool closing, unblock, cancel, lost;
} taken;

static taken take(scheduler *s) {
    taken t = {s->incoming, s->mail, s->closing, s->unblock, s->cancel, s->lost};
    s->incoming = s->incoming_last = NULL;
    s->mail = s->mail_last = NULL;
    s->unblock = s->cancel = s->lost = false;
    return t;
}

// The room of the executor is asked for on its thread alone.
static void note_room(scheduler *s) {
    executor_room room;
    executor_room_of(s->executor, &room);
    pthread_mutex_lock(&s->lock);
    if (room.ready)
        s->seen.unready_since = 0;
    else if (s->seen.unready_since == 0)
        s->seen.unready_since = scheduler_second();
    if (room.ready &&
        (room.session_tokens >= s->seen.longest || scheduler_second() - s->seen.longest_at > LESS_ROOM_SECONDS)) {
        s->seen.longest = room.session_tokens;
        s->seen.longest_at = scheduler_second();
    }
    s->status.ready = room.ready;
    snprintf(s->status.blocker, sizeof s->status.blocker, "%s", room.blocker);
    s->status.cache_bytes = room.cache_bytes;
    s->status.cache_limit = room.cache_limit;
    s->status.running = s->running_count;
    pthread_mutex_unlock(&s->lock);
}

// All texts that wait for a result: one of them waits in vain.
static void begin_again(scheduler *s) {
    for (uint32_t i = s->running_count; i-- > 0;) {
        service_job *job = s->running[i];
        if (job->state == JOB_BEGINNING || job->state == JOB_READING) places_give_up(s, job, true);
    }
}

// True if the executor never has room for so many tokens of one text.
static bool too_long(const scheduler *s, size_t tokens, braid_error *error) {
    if (s->seen.longest == 0 || tokens <= s->seen.longest) return false;
    braid_fail(error, BRAID_LIMIT,
               "a text of %zu tokens is too long: the peers' memory has room for %u tokens of one text; give a shorter "
               "prompt, or the peers more memory (--max-memory)",
               tokens, s->seen.longest);
    return true;
}

// Texts that came before the executor was ready, or that were longer than it has room for now.
static void end_too_long(scheduler *s) {
    braid_error error;
    while (s->queue && too_long(s, job_tokens(s->queue), &error)) scheduler_finish(s, s->queue, SERVICE_FAILED, &error);
}

static void iterate(scheduler *s, const taken *t) {
    for (service_job *job = t->incoming, *next; job; job = next) {
        next = job->next;
        places_enqueue(s, job);
    }
    if (t->unblock) unblock(s);
    results_use(s, t->mail);
    if (t->lost) begin_again(s);
    if (t->cancel) cancel_marked(s);
    if (t->closing) cancel_all(s);
    end_too_long(s);
    places_admit(s);
    steps_submit(s);
    note_room(s);
}

static void *run(void *context) {
    scheduler *s = context;
    pthread_mutex_lock(&s->lock);
    for (bool ended = false; !ended;) {
        uint64_t seen = s->news;
        taken t = take(s);
        pthread_mutex_unlock(&s->lock);
        iterate(s, &t);
        ended = t.closing;
        pthread_mutex_lock(&s->lock);
        while (!ended && s->news == seen) pthread_cond_wait(&s->wake, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void wake(scheduler *s) {
    s->news++;
    pthread_cond_signal(&s->wake);
}

// --- the executor's listener

static mail *copy_result(const scheduler *s, const executor_result *r) {
    size_t floats = r->outcome == EXECUTOR_READ ? r->rows * (size_t)s->model->config->dim : 0;
    mail *m = malloc(sizeof *m + floats * sizeof *m->x);
    if (!m) return NULL;
    m->next = NULL;
    m->result = *r;
    m->result.x = m->x;
    m->error = r->error ? *r->error : (braid_error){0};
    if (floats) memcpy(m->x, r->x, floats * sizeof *m->x);
    return m;
}

static void on_result(void *context, const executor_result *r) {
    scheduler *s = context;
    mail *m = copy_result(s, r);
    pthread_mutex_lock(&s->lock);
    if (m) {
        *(s->mail_last ? &s->mail_last->next : &s->mail) = m;
        s->mail_last = m;
    }
    s->lost |= m == NULL;
    wake(s);
    pthread_mutex_unlock(&s->lock);
}

static void on_changed(void *context) {
    scheduler *s = context;
    pthread_mutex_lock(&s->lock);
    s->unblock = true;
    wake(s);
    pthread_mutex_unlock(&s->lock);
}

// --- submission

static braid_err check_tokens(scheduler *s, const service_text *t, braid_error *error) {
    uint32_t vocab = s->model->config->vocab;
    if (t->count == 0) return braid_fail(error, BRAID_ARGUMENT, "the prompt is empty: give at least one token");
    if (t->count > s->model->context)
        return braid_fail(error, BRAID_LIMIT,
                          "the prompt has %zu tokens, this service has room for %u: give a shorter prompt", t->count,
                          s->model->context);
    pthread_mutex_lock(&s->lock);
    bool refused = too_long(s, t->count, error);
    pthread_mutex_unlock(&s->lock);
    if (refused) return error->code;
    for (size_t i = 0; i < t->count; i++)
        if (t->tokens[i] >= vocab)
            return braid_fail(error, BRAID_ARGUMENT, "token %u is not in the model's vocabulary of %u tokens",
                              t->tokens[i], vocab);
    return BRAID_OK;
}

static braid_err check_text(scheduler *s, const service_text *t, braid_error *error) {
    if (t->settings.shift)
        return braid_fail(error, BRAID_CONFIG, "a service ends a text when the context is full; it cannot shift it");
    return check_tokens(s, t, error);
}

// The adapter that the text names, as it is now.
static braid_err take_adapter(const scheduler *s, const char *name, adapter_version **out, braid_error *error) {
    if (!name || strcmp(name, s->model->name) == 0) return BRAID_OK;
    *out = s->model->adapters ? adapter_set_take(s->model->adapters, name) : NULL;
    if (*out) return BRAID_OK;
    return braid_fail(error, BRAID_NOT_FOUND, "there is no model '%.64s' here; this service has '%.64s'%s", name,
                      s->model->name, s->model->adapters ? " and its adapters" : "");
}

// A text ends where the executor has no more room for it, as at the end of the context.
static uint32_t context_now(scheduler *s) {
    pthread_mutex_lock(&s->lock);
    uint32_t longest = s->seen.longest;
    pthread_mutex_unlock(&s->lock);
    return longest > 0 && longest < s->model->context ? longest : s->model->context;
}

static braid_err job_new(scheduler *s, const service_text *t, const service_listener *listener, service_job **out,
                         braid_error *error) {
    const service_model *m = s->model;
    service_job *job = calloc(1, sizeof *job);
    *out = NULL;
    if (!job) return braid_fail(error, BRAID_MEMORY, "no memory for a text");
    atomic_init(&job->references, 2);
    job->listener = *listener;
    job->constraint = t->constraint;
    job->prompt = t->count;
    job->embed = t->embed;
    job->prompt_logprobs = t->prompt_logprobs;
    job->prompt_only = t->prompt_only || t->embed;
    job->accepted = draft_rate_first();
    job->top_logprobs = t->settings.top_logprobs;
    braid_err err = take_adapter(s, t->model, &job->adapter, error);
    if (!err)
        err = generation_new_apart(m->config->vocab, context_now(s), m->tokenizer, &t->settings, &job->text, error);
    if (!err) err = generation_prompt(job->text, t->tokens, t->count, error);
    if (!err && t->embed && !(job->sum = calloc(m->config->dim, sizeof *job->sum)))
        err = braid_fail(error, BRAID_MEMORY, "no memory for a text");
    if (err) {
        atomic_store(&job->references, 1);
        job_release(job);
        return err;
    }
    *out = job;
    return BRAID_OK;
}

// Under lock. A short interruption delays new texts; a longer one refuses them.
static braid_err check_queue(const scheduler *s, braid_error *error) {
    if (s->seen.unready_since > 0 && scheduler_second() - s->seen.unready_since > UNREADY_SECONDS)
        return braid_fail(error, BRAID_NETWORK, "%s", s->status.blocker);
    if (s->draining || s->closing) return braid_fail(error, BRAID_BUSY, "this service is ending");
    if (s->waiting >= s->queue_limit)
        return braid_fail(error, BRAID_BUSY, "%u texts are waiting already: try again later", s->waiting);
    return BRAID_OK;
}

static braid_err enqueue(scheduler *s, service_job *job, braid_error *error) {
    pthread_mutex_lock(&s->lock);
    braid_err err = check_queue(s, error);
    if (!err) {
        job->order = s->orders++;
        *(s->incoming_last ? &s->incoming_last->next : &s->incoming) = job;
        s->incoming_last = job;
        s->waiting++;
        wake(s);
    }
    pthread_mutex_unlock(&s->lock);
    return err;
}

static braid_err submit(service *base, const service_text *text, const service_listener *listener, service_job **out,
                        braid_error *error) {
    scheduler *s = of(base);
    service_job *job = NULL;
    *out = NULL;
    pthread_mutex_lock(&s->lock);
    braid_err err = check_queue(s, error);
    pthread_mutex_unlock(&s->lock);
    if (!err) err = check_text(s, text, error);
    if (!err) err = job_new(s, text, listener, &job, error);
    if (!err && (err = enqueue(s, job, error))) {
        atomic_store(&job->references, 1);
        job_release(job);
    }
    if (err)
        release_constraint(&text->constraint);
    else
        *out = job;
    return err;
}

// --- other calls

static const service_model *model(service *base) { return of(base)->model; }

static void cancel(service *base, service_job *job) {
    scheduler *s = of(base);
    atomic_store(&job->cancelled, true);
    pthread_mutex_lock(&s->lock);
    s->cancel = true;
    wake(s);
    pthread_mutex_unlock(&s->lock);
}

static void release(service *base, service_job *job) {
    (void)base;
    job_release(job);
}

static void status(service *base, service_status *out) {
    scheduler *s = of(base);
    pthread_mutex_lock(&s->lock);
    *out = s->status;
    out->queued = s->waiting;
    out->queue_limit = s->queue_limit;
    out->memory_limit = s->memory_limit;
    out->tokens_per_second = scheduler_rate(s);
    pthread_mutex_unlock(&s->lock);
}

static char *swarm(service *base) { return executor_swarm(of(base)->executor); }

static void drain(service *base) {
    scheduler *s = of(base);
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
}

static void free_service(service *base) {
    scheduler *s = of(base);
    if (s->has_thread) {
        pthread_mutex_lock(&s->lock);
        s->closing = true;
        wake(s);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    executor_free(s->executor);
    for (mail *m = s->mail, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s->running);
    free(s->steps);
    free(s->drafting.tokens);
    free(s->x);
    free(s->logits);
    free(s->drawn);
    drafter_free(s->drafting.model);
    if (s->released) s->released(s->released_context);
    free(s);
}

static braid_err reload(service *base, braid_error *error) {
    adapter_set *adapters = of(base)->model->adapters;
    return adapters ? adapter_set_reload(adapters, error) : BRAID_OK;
}

static const service_calls scheduler_calls = {
    .model = model,
    .submit = submit,
    .cancel = cancel,
    .release = release,
    .status = status,
    .swarm = swarm,
    .free = free_service,
    .drain = drain,
    .reload = reload,
};

// --- start

static uint32_t or_default(uint32_t given, uint32_t fallback) { return given ? given : fallback; }

size_t scheduler_bytes(const model_config *c, uint32_t parallel) {
    // a sampler has 24 bytes a token of the vocabulary, log-probabilities need another copy of the logits
    size_t places = sizeof(service_job *) + sizeof(executor_step) + sizeof(service_job) + 28 * (size_t)c->vocab;
    return (EXECUTOR_MAX_TOKENS * ((size_t)c->dim + 1) + HEAD_ROWS * (size_t)c->vocab) * sizeof(float) +
           HEAD_ROWS * sizeof(generation_step) + or_default(parallel, SCHEDULER_PARALLEL) * places;
}

static braid_err check_settings(const scheduler_settings *p, braid_error *error) {
    if (p->parallel > SCHEDULER_MOST_PARALLEL)
        return braid_fail(error, BRAID_CONFIG, "%u texts at once are too many: give at most %d", p->parallel,
                          SCHEDULER_MOST_PARALLEL);
    if (p->queue > SCHEDULER_MOST_QUEUE)
        return braid_fail(error, BRAID_CONFIG, "a queue of %u texts is too long: give at most %d", p->queue,
                          SCHEDULER_MOST_QUEUE);
    return BRAID_OK;
}

static bool allocate(scheduler *s, const scheduler_settings *settings) {
    const model_config *c = s->model->config;
    s->running = calloc(s->parallel, sizeof *s->running);
    s->steps = calloc(s->parallel, sizeof *s->steps);
    s->drafting.tokens = malloc(EXECUTOR_MAX_TOKENS * sizeof *s->drafting.tokens);
    s->x = malloc(EXECUTOR_MAX_TOKENS * (size_t)c->dim * sizeof *s->x);
    s->logits = malloc(HEAD_ROWS * (size_t)c->vocab * sizeof *s->logits);
    s->drawn = malloc(HEAD_ROWS * sizeof *s->drawn);
    if (settings->draft_model && !(s->drafting.model = drafter_new(settings->draft_model))) return false;
    return s->running && s->steps && s->drafting.tokens && s->x && s->logits && s->drawn;
}

braid_err scheduler_new(const scheduler_settings *p, service **out, braid_error *error) {
    *out = NULL;
    scheduler *s = calloc(1, sizeof *s);
    if (!s) {
        executor_free(p->executor);
        if (p->released) p->released(p->context);
        return braid_fail(error, BRAID_MEMORY, "no memory for a service");
    }
    s->base.calls = &scheduler_calls;
    s->executor = p->executor;
    s->ends = p->ends;
    s->model = p->model;
    s->parallel = or_default(p->parallel, SCHEDULER_PARALLEL);
    s->queue_limit = or_default(p->queue, SCHEDULER_QUEUE);
    s->prompt_rows = or_default(p->prompt_rows, SCHEDULER_PROMPT_ROWS);
    s->drafting.mode = p->draft;
    s->memory_limit = p->memory_limit;
    s->released = p->released;
    s->released_context = p->context;
    s->rate.second = scheduler_second();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    executor_listen(s->executor, &(executor_listener){s, on_result, on_changed});
    braid_err err = check_settings(p, error);
    if (!err && !allocate(s, p)) err = braid_fail(error, BRAID_MEMORY, "no memory for a service");
    if (!err) note_room(s);
    if (!err && !(s->has_thread = tensor_thread_start(&s->thread, run, s)))
        err = braid_fail(error, BRAID_MEMORY, "the system starts no thread for the service");
    if (err)
        free_service(&s->base);
    else
        *out = &s->base;
    return err;
}
