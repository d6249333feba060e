#include "http/texts.h"

#include <stdlib.h>
#include <string.h>

// ---- collected results

static void fail_memory(texts *t) {
    if (!t->error.code) braid_fail(&t->error, BRAID_MEMORY, "no memory for the answer");
    t->cancelled = true;
}

static void add_text(text_choice *c, const char *text, size_t length) {
    if (c->length + length > c->capacity) {
        size_t capacity = 2 * (c->length + length) + 64;
        char *larger = realloc(c->text, capacity);
        if (!larger) {
            fail_memory(c->all);
            return;
        }
        c->text = larger;
        c->capacity = capacity;
    }
    if (length > 0) memcpy(c->text + c->length, text, length);
    c->length += length;
}

static void add_entry(text_choice *c, uint32_t token, float logprob, uint32_t top_count, const sampler_top *top) {
    if (c->entries == c->entry_capacity) {
        size_t capacity = 2 * c->entry_capacity + 16;
        text_entry *larger = realloc(c->entry, capacity * sizeof *larger);
        if (!larger) {
            fail_memory(c->all);
            return;
        }
        c->entry = larger;
        c->entry_capacity = capacity;
    }
    text_entry *e = &c->entry[c->entries];
    *e = (text_entry){.token = token, .logprob = logprob, .absent = top_count == 0, .top_count = top_count};
    if (top_count > 0 && !(e->top = malloc(top_count * sizeof *e->top))) {
        fail_memory(c->all);
        return;
    }
    if (top_count > 0) memcpy(e->top, top, top_count * sizeof *top);
    c->entries++;
}

void texts_usage(const texts *t, size_t *prompt, size_t *cached, size_t *drawn) {
    *prompt = *cached = *drawn = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        *drawn += t->choice[i].drawn;
        if (i % t->n) continue;
        *prompt += t->prompt[i / t->n].count;
        *cached += t->choice[i].cached;
    }
}

// ---- the listener

static void cancel_jobs(texts *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        pthread_mutex_lock(&t->lock);
        service_job *job = t->choice[i].ended ? NULL : t->choice[i].job;
        pthread_mutex_unlock(&t->lock);
        if (job) service_cancel(t->x->server->service, job);
    }
}

void texts_cancel(texts *t) { t->cancelled = true; }

// Ends a call of a listener: unlocks, and cancels what an error or a reader made useless.
static void leave_call(texts *t, bool was_cancelled) {
    bool cancel = t->cancelled && !was_cancelled;
    pthread_mutex_unlock(&t->lock);
    if (cancel) cancel_jobs(t);
}

static void on_started(void *context, size_t prompt, size_t cached) {
    text_choice *c = context;
    texts *t = c->all;
    pthread_mutex_lock(&t->lock);
    bool was = t->cancelled;
    c->prompt = prompt;
    c->cached = cached;
    if (t->calls->started && !was) t->calls->started(t, c);
    leave_call(t, was);
}

static void on_prompt(void *context, const service_prompt_token *token) {
    text_choice *c = context;
    texts *t = c->all;
    pthread_mutex_lock(&t->lock);
    bool was = t->cancelled;
    if (!was) add_entry(c, token->token, token->logprob, token->top_count, token->top);
    leave_call(t, was);
}

static void on_embedding(void *context, const float *mean, uint32_t dim) {
    text_choice *c = context;
    texts *t = c->all;
    pthread_mutex_lock(&t->lock);
    bool was = t->cancelled;
    if (t->calls->embedding && !was) t->calls->embedding(t, c, mean, dim);
    leave_call(t, was);
}

static void note_first_token(exchange *x) {
    if (x->first_token) return;
    x->first_token = true;
    histogram_add(&x->server->metrics.first_token, http_now_ns() - x->arrived_ns);
}

static void on_step(void *context, const generation_step *step) {
    text_choice *c = context;
    texts *t = c->all;
    pthread_mutex_lock(&t->lock);
    bool was = t->cancelled;
    note_first_token(t->x);
    c->drawn++;
    c->stop_string = step->end == GENERATION_STOP_STRING;
    if (!was) {
        add_text(c, step->text, step->length);
        if (t->log_probabilities) add_entry(c, step->token, step->logprob, step->top_count, step->top);
        if (t->calls->step) t->calls->step(t, c, step->text, step->length);
    }
    leave_call(t, was);
}

// Under the lock, after a text ended or could not be submitted.
static void finish_if_done(texts *t) {
    bool none_left = t->ended == t->submitted && (t->submitted == t->count || t->cancelled || t->error.code);
    if (!none_left || t->finished) return;
    t->finished = true;
    t->calls->finish(t);
}

static void on_ended(void *context, service_end end, const braid_error *error) {
    text_choice *c = context;
    texts *t = c->all;
    exchange *x = t->x;
    pthread_mutex_lock(&t->lock);
    bool was = t->cancelled;
    c->ended = true;
    c->end = end;
    if (end == SERVICE_FAILED && !t->error.code) {
        t->error = *error;
        t->late = true;
        t->cancelled = true;
    } else if (!t->cancelled && t->calls->ended) {
        t->calls->ended(t, c);
    }
    t->ended++;
    bool more = t->waiting && !t->cancelled;
    if (more) t->waiting = false;
    finish_if_done(t);
    leave_call(t, was);
    if (more) server_continue(x);
    exchange_drop(x);
}

// ---- submission

static const service_listener listener = {
    .started = on_started, .prompt = on_prompt, .embedding = on_embedding, .step = on_step, .ended = on_ended};

static braid_err submit(texts *t, text_choice *c, braid_error *error) {
    service_text text = t->text;
    text.tokens = t->prompt[c->index / t->n].tokens;
    text.count = t->prompt[c->index / t->n].count;
    text.settings.sampler.seed += c->index % t->n;
    service_listener to = listener;
    to.context = c;
    braid_err err = t->calls->constrain ? t->calls->constrain(t, c, &text.constraint, error) : BRAID_OK;
    if (err) return err;
    exchange_keep(t->x);
    service_job *job = NULL;
    err = service_submit(t->x->server->service, &text, &to, &job, error);
    if (err) exchange_drop(t->x);
    pthread_mutex_lock(&t->lock);
    if (!err) c->job = job;
    bool cancel = !err && t->cancelled;
    pthread_mutex_unlock(&t->lock);
    if (cancel) service_cancel(t->x->server->service, job);
    return err;
}

// Under the lock: the text with number `submitted` was refused. True: it waits for the end of another one.
static bool wait_or_fail(texts *t, const braid_error *error) {
    t->submitted--;
    if (error->code == BRAID_BUSY && t->ended < t->submitted) {
        t->waiting = true;
        return true;
    }
    if (!t->error.code) t->error = *error;
    t->cancelled = true;
    finish_if_done(t);
    return false;
}

// A service that is not ready may still refuse the text, so that the status of the answer stays open.
static void tell_accepted(texts *t, const text_choice *c) {
    service_status status = {0};
    if (c->index > 0 || !t->calls->accepted) return;
    service_status_of(t->x->server->service, &status);
    pthread_mutex_lock(&t->lock);
    bool was = t->cancelled;
    if (status.ready && !was && !t->finished) t->calls->accepted(t);
    leave_call(t, was);
}

static void submit_all(texts *t) {
    for (;;) {
        braid_error error = {0};
        pthread_mutex_lock(&t->lock);
        bool more = !t->cancelled && t->submitted < t->count;
        text_choice *c = more ? &t->choice[t->submitted++] : NULL;
        if (!more) finish_if_done(t);
        pthread_mutex_unlock(&t->lock);
        if (!more) return;
        if (submit(t, c, &error) == BRAID_OK) {
            tell_accepted(t, c);
            continue;
        }
        pthread_mutex_lock(&t->lock);
        wait_or_fail(t, &error);
        bool cancelled = t->cancelled;
        pthread_mutex_unlock(&t->lock);
        if (cancelled) cancel_jobs(t);
        return;
    }
}

static void go_on(exchange *x) { submit_all(x->context); }

static void on_leave(void *context) {
    texts *t = context;
    pthread_mutex_lock(&t->lock);
    t->cancelled = true;
    pthread_mutex_unlock(&t->lock);
    cancel_jobs(t);
}

static void on_idle(void *context) {
    texts *t = context;
    pthread_mutex_lock(&t->lock);
    bool was = t->cancelled;
    if (!was && !t->finished) t->calls->keep_alive(t);
    leave_call(t, was);
}

static void on_release(void *context) {
    texts *t = context;
    t->calls->release(t);
}

void texts_run(texts *t) {
    exchange *x = t->x;
    pthread_mutex_init(&t->lock, NULL);
    t->count = t->prompts * t->n;
    t->choice = calloc(t->count + 1u, sizeof *t->choice);
    if (!t->choice) {
        t->count = 0;
        fail_memory(t);
    }
    for (uint32_t i = 0; i < t->count; i++) t->choice[i] = (text_choice){.all = t, .index = i};
    x->go_on = go_on;
    exchange_listen(x, on_leave, t->calls->keep_alive ? on_idle : NULL, on_release, t);
    submit_all(t);
}

void texts_close(texts *t) {
    for (uint32_t i = 0; i < t->count && t->choice; i++) {
        text_choice *c = &t->choice[i];
        if (c->job) service_release(t->x->server->service, c->job);
        for (size_t k = 0; k < c->entries; k++) free(c->entry[k].top);
        free(c->entry);
        free(c->text);
        free(c->state);
    }
    for (uint32_t i = 0; i < t->prompts; i++) {
        free(t->prompt[i].tokens);
        free(t->prompt[i].echo);
    }
    free(t->prompt);
    free(t->choice);
    pthread_mutex_destroy(&t->lock);
}

const char *texts_model(const texts *t) { return t->text.model ? t->text.model : t->x->server->model->name; }
