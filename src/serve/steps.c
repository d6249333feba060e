// The tokens of an iteration: first one of each text that is being written, in the order of their
// places, then prompts. The rows of prompts are bounded while texts are written, so that these keep
// their rate.
#include "serve/inside.h"

#include <string.h>

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t unread(const service_job *job) { return job_tokens(job) - job->read; }

static bool is_writing(const service_job *job) { return job->drawn && unread(job) == 1; }

// Rows of the result: those that the listener's log-probabilities or the mean need, or the last one
// of the text for the next token.
static uint32_t rows_of(const service_job *job, uint32_t count) {
    uint32_t end = job->read + count, wanted = job_rows_wanted(job);
    if (job->used < wanted && end > job->used) {
        uint32_t first = job->used > job->read ? job->used : job->read;
        return end - first;
    }
    return end == job_tokens(job) && !job->prompt_only;
}

typedef struct iteration {
    scheduler *s;
    uint32_t steps, rows;
} iteration;

// The embeddings follow those of the steps before.
static void add_step(iteration *it, service_job *job, uint32_t count) {
    scheduler *s = it->s;
    size_t all, dim = s->model->config->dim;
    const uint32_t *tokens = generation_tokens(job->text, &all) + job->read;
    float *x = s->x + it->rows * dim;
    braid_error error = {0};
    if (engine_embed_at(s->ends, job->read, tokens, count, x, &error)) {
        scheduler_finish(s, job, SERVICE_FAILED, &error);
        return;
    }
    job->state = JOB_READING;
    job->step_count = count;
    job->step_rows = rows_of(job, count);
    s->steps[it->steps++] = (executor_step){
        .session = job->session, .first = job->read, .count = count, .rows = job->step_rows, .tokens = tokens, .x = x};
    it->rows += count;
}

static void add_written(iteration *it) {
    scheduler *s = it->s;
    for (uint32_t i = 0; i < s->running_count && it->rows < EXECUTOR_MAX_TOKENS; i++)
        if (s->running[i]->state == JOB_READY && is_writing(s->running[i])) add_step(it, s->running[i], 1);
}

static service_job *shortest_prompt(const scheduler *s) {
    service_job *found = NULL;
    for (uint32_t i = 0; i < s->running_count; i++) {
        service_job *job = s->running[i];
        if (job->state == JOB_READY && !is_writing(job) && (!found || unread(job) < unread(found))) found = job;
    }
    return found;
}

static service_job *oldest_prompt(const scheduler *s) {
    for (uint32_t i = 0; i < s->running_count; i++)
        if (s->running[i]->state == JOB_READY && !is_writing(s->running[i])) return s->running[i];
    return NULL;
}

// Half of the rows are for the oldest prompt, so that it makes progress. The others go to the
// shortest ones, because their first tokens come soonest.
static void add_prompts(iteration *it, uint32_t most) {
    scheduler *s = it->s;
    uint32_t end = it->rows + most;
    service_job *job = oldest_prompt(s);
    if (!job || most == 0) return;
    bool alone = job == shortest_prompt(s);
    add_step(it, job, least(unread(job), alone ? most : (most + 1) / 2));
    while (it->rows < end && (job = shortest_prompt(s)) != NULL) add_step(it, job, least(unread(job), end - it->rows));
}

void steps_submit(scheduler *s) {
    iteration it = {.s = s};
    add_written(&it);
    uint32_t left = EXECUTOR_MAX_TOKENS - it.rows;
    add_prompts(&it, it.steps > 0 ? least(left, s->prompt_rows) : left);
    if (it.steps > 0) executor_read(s->executor, s->steps, it.steps);
}
