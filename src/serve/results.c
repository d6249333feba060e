// The results of an iteration: log-probabilities of prompts, means of hidden states, next tokens.
#include "serve/inside.h"

#include <stdlib.h>
#include <string.h>

enum { COST_ROWS = 64 };  // steps with more rows are not measured: they have another cost a row

// Texts that draw their next tokens together. Each has the row of its next token and one for each
// draft that its step read; `at` is the row that is drawn from.
typedef struct draws {
    service_job *job[HEAD_ROWS];  // NULL: it draws no more
    const float *row[HEAD_ROWS];
    uint32_t first[HEAD_ROWS], at[HEAD_ROWS];  // of the logits; the first is counted from 0 for all texts
    braid_err err[HEAD_ROWS];
    braid_error error[HEAD_ROWS];
    uint32_t count, rows;
    scheduler *s;
} draws;

// --- rows of prompts

static void tell_prompt_token(scheduler *s, service_job *job, uint32_t index, const float *logits) {
    size_t count;
    const uint32_t *tokens = generation_tokens(job->text, &count);
    sampler_top top[SAMPLER_MAX_TOP];
    service_prompt_token told = {.token = tokens[index], .top = top};
    uint32_t vocab = s->model->config->vocab;
    if (logits) {
        told.logprob = sampler_logprob(logits, vocab, told.token);
        told.top_count = sampler_likeliest(logits, vocab, job->top_logprobs, top);
    }
    if (job->listener.prompt) job->listener.prompt(job->listener.context, &told);
}

// Row `first + i` gives the log-probability of token first + i + 1.
static braid_err use_prompt_rows(scheduler *s, service_job *job, uint32_t first, const float *x, uint32_t rows,
                                 braid_error *error) {
    size_t dim = s->model->config->dim, vocab = s->model->config->vocab;
    for (uint32_t done = 0; done < rows;) {
        uint32_t some = rows - done < HEAD_ROWS ? rows - done : HEAD_ROWS;
        braid_err err = engine_logits(s->ends, x + done * dim, some, s->logits, error);
        if (err) return err;
        for (uint32_t i = 0; i < some; i++) tell_prompt_token(s, job, first + done + i + 1, s->logits + i * vocab);
        done += some;
    }
    return BRAID_OK;
}

// The sum has one order, whatever the prompt was cut into.
static braid_err use_embedded_rows(scheduler *s, service_job *job, float *x, uint32_t rows, braid_error *error) {
    size_t dim = s->model->config->dim;
    braid_err err = engine_final_norm(s->ends, x, rows, error);
    for (uint32_t r = 0; r < rows && !err; r++)
        for (size_t i = 0; i < dim; i++) job->sum[i] += (double)x[r * dim + i];
    return err;
}

static void tell_embedding(scheduler *s, service_job *job) {
    uint32_t dim = s->model->config->dim;
    for (uint32_t i = 0; i < dim; i++) s->x[i] = (float)(job->sum[i] / (double)job->prompt);
    if (job->listener.embedding) job->listener.embedding(job->listener.context, s->x, dim);
}

// The rows of a step that belong to the prompt, of which the last may be the row of the next token.
static braid_err use_rows(scheduler *s, service_job *job, mail *m, braid_error *error) {
    uint32_t wanted = job_rows_wanted(job), first = job->read - m->result.rows, rows = m->result.rows;
    if (job->used >= wanted || rows == 0) return BRAID_OK;
    if (first + rows > wanted) rows = wanted - first;
    BRAID_ASSERT(first == job->used);
    job->used += rows;
    return job->embed ? use_embedded_rows(s, job, m->x, rows, error)
                      : use_prompt_rows(s, job, first, m->x, rows, error);
}

// --- next tokens

static float *logits_of(const draws *d, size_t i) {
    return d->s->logits + (d->first[i] + d->at[i]) * (size_t)d->s->model->config->vocab;
}

static void draw(void *context, size_t i) {
    draws *d = context;
    if (d->job[i]) d->err[i] = generation_draw(d->job[i]->text, logits_of(d, i), &d->s->drawn[i], &d->error[i]);
}

// The tokens that the executor read beyond the text are taken back.
static void end_draws(scheduler *s, service_job *job) {
    uint32_t read = job_tokens(job) - 1;
    if (job->read > read) executor_truncate(s->executor, job->session, read);
    job->read = read;
    job->state = JOB_READY;
    if (job->sent_rows <= COST_ROWS)
        draft_cost_add(&s->drafting.cost, job->sent_rows, (double)(scheduler_now_ns() - job->sent_ns) * 1e-9);
}

// True if the token equals the draft that the next row was computed from.
static bool after_draw(scheduler *s, service_job *job, uint32_t at, const generation_step *step) {
    static const service_end ends[] = {[GENERATION_STOP_ID] = SERVICE_STOP,
                                       [GENERATION_STOP_STRING] = SERVICE_STOP,
                                       [GENERATION_MAX_TOKENS] = SERVICE_MAX_TOKENS,
                                       [GENERATION_CONTEXT] = SERVICE_CONTEXT};
    bool guessed = at < job->draft_count && step->token == job->draft[at];
    if (at < job->draft_count) draft_rate_add(&job->accepted, guessed);
    job->drawn = true;
    if (job->constraint.accept) job->constraint.accept(job->constraint.context, step->token);
    if (job->listener.step) job->listener.step(job->listener.context, step);
    if (step->end)
        scheduler_finish(s, job, ends[step->end], NULL);
    else if (!guessed || at >= job->step_drafts)
        end_draws(s, job);
    else
        return true;
    return false;
}

static void mask(const draws *d, uint32_t i) {
    const service_constraint *c = &d->job[i]->constraint;
    if (c->mask) c->mask(c->context, logits_of(d, i), d->s->model->config->vocab);
}

// One token of each text that still draws: on all threads, then the listeners one after the other.
// Returns how many texts draw again.
static uint32_t draw_round(draws *d) {
    scheduler *s = d->s;
    uint32_t drawn = 0, left = 0;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->job[i]) mask(d, i);
    tensor_pool_run(engine_pool(s->ends), d->count, draw, d);
    for (uint32_t i = 0; i < d->count; i++) drawn += d->job[i] && !d->err[i];
    scheduler_note_drawn(s, drawn);
    for (uint32_t i = 0; i < d->count; i++) {
        service_job *job = d->job[i];
        if (!job) continue;
        bool again = false;
        if (d->err[i])
            scheduler_finish(s, job, SERVICE_FAILED, &d->error[i]);
        else
            again = after_draw(s, job, d->at[i]++, &s->drawn[i]);
        if (!again) d->job[i] = NULL;
        left += again;
    }
    return left;
}

// Logits of all rows in one product.
static void draw_all(draws *d) {
    scheduler *s = d->s;
    size_t dim = s->model->config->dim;
    braid_error error = {0};
    if (d->count == 0) return;
    for (uint32_t i = 0; i < d->count; i++) {
        size_t rows = 1 + d->job[i]->step_drafts;
        memcpy(s->x + d->first[i] * dim, d->row[i], rows * dim * sizeof *s->x);
    }
    if (engine_logits(s->ends, s->x, d->rows, s->logits, &error)) {
        for (uint32_t i = 0; i < d->count; i++) scheduler_finish(s, d->job[i], SERVICE_FAILED, &error);
    } else {
        while (draw_round(d) > 0) continue;
    }
    d->count = d->rows = 0;
}

static void add_draw(draws *d, service_job *job, const mail *m) {
    uint32_t rows = 1 + job->step_drafts;
    if (d->rows + rows > HEAD_ROWS) draw_all(d);
    d->job[d->count] = job;
    d->row[d->count] = m->x + (m->result.rows - rows) * (size_t)d->s->model->config->dim;
    d->first[d->count] = d->rows;
    d->at[d->count] = 0;
    d->rows += rows;
    d->count++;
}

// --- results

static void end_prompt(scheduler *s, service_job *job) {
    if (job->embed) tell_embedding(s, job);
    scheduler_finish(s, job, SERVICE_MAX_TOKENS, NULL);
}

// False: the text has ended.
static bool supply_cached(scheduler *s, service_job *job, uint32_t cached) {
    size_t count;
    const uint32_t *tokens = generation_tokens(job->text, &count);
    if (!executor_wants_cached(s->executor)) return true;
    for (uint32_t at = 0; at < cached;) {
        uint32_t some = cached - at < EXECUTOR_MAX_TOKENS ? cached - at : EXECUTOR_MAX_TOKENS;
        braid_error error = {0};
        if (engine_embed_at(s->ends, at, tokens + at, some, s->x, &error)) {
            scheduler_finish(s, job, SERVICE_FAILED, &error);
            return false;
        }
        executor_supply(s->executor, job->session, at, s->x, some);
        at += some;
    }
    return true;
}

static void use_began(scheduler *s, service_job *job, uint32_t cached) {
    if (!supply_cached(s, job, cached)) return;
    job->read = cached;
    job->state = JOB_READY;
    pthread_mutex_lock(&s->lock);
    if (!job->started) {
        s->status.prompt_tokens += job->prompt;
        s->status.cached_tokens += cached;
    }
    pthread_mutex_unlock(&s->lock);
    if (!job->started && job->listener.started) job->listener.started(job->listener.context, job->prompt, cached);
    if (!job->started && job->prompt_logprobs && !job->embed) tell_prompt_token(s, job, 0, NULL);
    job->started = true;
    if (job->prompt_only && job->read == job_tokens(job)) end_prompt(s, job);
}

static void use_read(draws *d, service_job *job, mail *m) {
    scheduler *s = d->s;
    braid_error error = {0};
    job->read += job->step_count;
    job->state = JOB_READY;
    if (m->result.rows != job->step_rows || use_rows(s, job, m, &error)) {
        if (!error.code)
            braid_fail(&error, BRAID_STATE, "the layers gave %u rows, not %u", m->result.rows, job->step_rows);
        scheduler_finish(s, job, SERVICE_FAILED, &error);
        return;
    }
    if (job->read < job_tokens(job)) return;
    if (job->prompt_only)
        end_prompt(s, job);
    else
        add_draw(d, job, m);
}

static void use_full(scheduler *s, service_job *job) {
    if (job->state == JOB_BEGINNING) {
        s->hold = true;
        places_give_up(s, job, false);
    } else {
        job->state = JOB_READY;
        job->plain = job->step_drafts > 0;
        if (!job->plain) places_preempt(s, job);
    }
}

static void use(draws *d, mail *m) {
    scheduler *s = d->s;
    if (m->result.outcome == EXECUTOR_LOST || m->result.outcome == EXECUTOR_FAILED) draw_all(d);
    service_job *job = places_find(s, m->result.session);
    if (!job) return;
    switch (m->result.outcome) {
    case EXECUTOR_BEGAN: use_began(s, job, m->result.cached); break;
    case EXECUTOR_READ: use_read(d, job, m); break;
    case EXECUTOR_LOST: places_give_up(s, job, false); break;
    case EXECUTOR_FAILED: scheduler_finish(s, job, SERVICE_FAILED, &m->error); break;
    case EXECUTOR_FULL: use_full(s, job); break;
    }
}

static void free_list(mail *list) {
    for (mail *next; list; list = next) {
        next = list->next;
        free(list);
    }
}

// Results without room come last: they may take the place of a text that has a result in the list.
void results_use(scheduler *s, mail *list) {
    draws d = {.s = s};
    for (mail *m = list; m; m = m->next) {
        if (m->result.outcome != EXECUTOR_FULL) use(&d, m);
    }
    draw_all(&d);
    for (mail *m = list; m; m = m->next)
        if (m->result.outcome == EXECUTOR_FULL) use(&d, m);
    free_list(list);
}
