// The tokens of an iteration: first one of each text that is being written, in the order of their
// places, then prompts. The rows of prompts are bounded while texts are written, so that these keep
// their rate.
#include "serve/inside.h"

#include <string.h>

enum { PROBE_TOKENS = 64, PROBE_DRAFTS = 2 };

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
    draft_plan plan;
} iteration;

// The next `count` tokens of a text, then `drafts` guesses. The embeddings follow those of the steps
// before.
static void add_step(iteration *it, service_job *job, uint32_t count, uint32_t drafts) {
    scheduler *s = it->s;
    size_t all, dim = s->model->config->dim;
    uint32_t *tokens = s->drafting.tokens + it->rows, rows = rows_of(job, count) + drafts;
    memcpy(tokens, generation_tokens(job->text, &all) + job->read, count * sizeof *tokens);
    memcpy(tokens + count, job->draft, drafts * sizeof *tokens);
    count += drafts;
    float *x = s->x + it->rows * dim;
    braid_error error = {0};
    if (engine_embed_at(s->ends, job->read, tokens, count, x, &error)) {
        scheduler_finish(s, job, SERVICE_FAILED, &error);
        return;
    }
    job->state = JOB_READING;
    job->step_count = count;
    job->step_rows = rows;
    job->step_drafts = drafts;
    job->sent_ns = 0;
    s->steps[it->steps++] = (executor_step){
        .session = job->session, .first = job->read, .count = count, .rows = rows, .tokens = tokens, .x = x};
    it->rows += count;
}

// The draft model is asked for as many tokens as pay with its own time; now and then for a few more, to
// learn whether they would be accepted.
static uint32_t drafts_by_model(iteration *it, service_job *job, uint32_t most) {
    scheduler *s = it->s;
    size_t count;
    const uint32_t *tokens = generation_tokens(job->text, &count);
    draft_plan plan = it->plan;
    plan.row += drafter_seconds(s->drafting.model);
    uint32_t wanted = s->drafting.mode == SCHEDULER_DRAFT_ALWAYS ? most : draft_window(&plan, job->accepted, most);
    if (wanted == 0 && ++job->undrafted >= PROBE_TOKENS) wanted = least(most, PROBE_DRAFTS);
    if (wanted == 0) return 0;
    job->undrafted = 0;
    it->plan.step = plan.step;
    it->plan.tokens = plan.tokens;
    job->draft_count = drafter_guess(s->drafting.model, &job->guessing, tokens, (uint32_t)count,
                                     s->model->config->vocab, job->draft, wanted);
    return job->draft_count;
}

// Guesses what follows a text that is being written. They are compared with what is drawn even if no
// step reads them.
static uint32_t drafts_of(iteration *it, service_job *job, uint32_t most) {
    size_t count;
    const uint32_t *tokens = generation_tokens(job->text, &count);
    uint32_t left = generation_left(job->text);
    bool plain = job->plain;
    job->plain = false;
    job->draft_count = 0;
    if (!it->s->drafting.mode || left <= 1) return 0;
    if (it->s->drafting.model) return plain ? 0 : drafts_by_model(it, job, least(least(left - 1, DRAFT_MOST), most));
    job->draft_count = draft_lookup(tokens, (uint32_t)count, job->draft, least(left - 1, DRAFT_MOST));
    most = least(job->draft_count, most);
    if (it->s->drafting.mode == SCHEDULER_DRAFT_ALWAYS && !plain) return most;
    return plain ? 0 : draft_window(&it->plan, job->accepted, most);
}

static uint32_t writing(const scheduler *s) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->running_count; i++)
        count += s->running[i]->state == JOB_READY && is_writing(s->running[i]);
    return least(count, EXECUTOR_MAX_TOKENS);
}

static void add_written(iteration *it) {
    scheduler *s = it->s;
    uint32_t left = writing(s);
    it->plan.tokens = left;
    draft_cost_of(&s->drafting.cost, left, &it->plan.step, &it->plan.row);
    for (uint32_t i = 0; i < s->running_count && left > 0; i++) {
        service_job *job = s->running[i];
        if (job->state != JOB_READY || !is_writing(job)) continue;
        add_step(it, job, 1, drafts_of(it, job, EXECUTOR_MAX_TOKENS - it->rows - left));
        left--;
    }
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
    add_step(it, job, least(unread(job), alone ? most : (most + 1) / 2), 0);
    while (it->rows < end && (job = shortest_prompt(s)) != NULL)
        add_step(it, job, least(unread(job), end - it->rows), 0);
}

// The time of a step depends on the rows of all steps that are computed with it.
static void note_sent(const iteration *it) {
    scheduler *s = it->s;
    uint64_t now = scheduler_now_ns();
    for (uint32_t i = 0; i < s->running_count; i++) {
        service_job *job = s->running[i];
        if (job->state != JOB_READING || job->sent_ns > 0) continue;
        job->sent_ns = now;
        job->sent_rows = it->rows;
    }
}

void steps_submit(scheduler *s) {
    iteration it = {.s = s};
    add_written(&it);
    uint32_t left = EXECUTOR_MAX_TOKENS - it.rows;
    add_prompts(&it, it.steps > 0 ? least(left, s->prompt_rows) : left);
    note_sent(&it);
    if (it.steps > 0) executor_read(s->executor, s->steps, it.steps);
}
