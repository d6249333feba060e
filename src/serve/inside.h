// Shared by the files of the scheduler. Except where a field is named as shared, everything belongs
// to the thread of the scheduler.
#ifndef BRAID_SERVE_INSIDE_H
#define BRAID_SERVE_INSIDE_H

#include "serve/drafter.h"
#include "serve/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum {
    HEAD_ROWS = 32,          // logits in memory at once are those of so many rows
    RATE_SECONDS = 10,       // of service_status.tokens_per_second
    UNREADY_SECONDS = 5,     // without a ready executor, until new texts are refused
    LESS_ROOM_SECONDS = 60,  // until texts that are longer than the room of the executor are refused
};

typedef enum job_state {
    JOB_QUEUED,
    JOB_BEGINNING,  // executor_begin is unanswered
    JOB_READY,      // has tokens to read
    JOB_READING,    // executor_read is unanswered
    JOB_BLOCKED,    // no room, and no other text to take it from: until executor_listener.changed
} job_state;

struct service_job {
    atomic_uint references;  // the scheduler's and the caller's
    atomic_bool cancelled;   // shared
    service_listener listener;
    service_constraint constraint;
    generation *text;
    adapter_version *adapter;  // NULL: none
    size_t prompt;             // tokens
    bool prompt_logprobs, prompt_only, embed;
    uint32_t top_logprobs;
    job_state state;
    uint64_t order;    // of submission
    uint64_t session;  // number in the executor
    uint32_t read;     // tokens in the executor's session
    uint32_t step_count, step_rows;
    uint32_t draft[DRAFT_MOST];
    uint32_t draft_count, step_drafts;  // guesses, and those of them that the step reads: its last tokens
    draft_rate accepted;
    drafter_text guessing;
    uint32_t undrafted;  // tokens in a row for which the draft model was not asked
    bool plain;          // no drafts in the next step
    uint64_t sent_ns;    // when the step was submitted, 0: it is being put together
    uint32_t sent_rows;  // of all steps of that iteration
    uint32_t used;       // prompt_logprobs, embed: rows that were used, each once
    double *sum;         // [dim], embed
    bool started, drawn, lost_place;
    service_job *next;  // in the queue
};

// A result of the executor, copied.
typedef struct mail {
    struct mail *next;
    executor_result result;
    braid_error error;
    float x[];
} mail;

typedef struct scheduler {
    service base;
    executor *executor;
    engine *ends;
    const service_model *model;
    uint32_t parallel, queue_limit, prompt_rows;
    uint64_t memory_limit;
    void (*released)(void *context);
    void *released_context;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    // shared, under lock
    uint64_t news;  // changes since the start
    bool closing, draining, unblock, cancel;
    bool lost;  // a result, for want of memory
    service_job *incoming, *incoming_last;
    mail *mail, *mail_last;
    uint32_t waiting;  // texts without a place: incoming and queue
    uint64_t orders;
    service_status status;  // the counters
    // As the thread saw it. `longest`: the most tokens of one text for which the executor had room within
    // LESS_ROOM_SECONDS, because a peer that restarts brings its room back; 0: it was never ready.
    struct {
        time_t unready_since;  // 0: the executor is ready
        uint32_t longest;
        time_t longest_at;
    } seen;
    struct {
        uint64_t drawn[RATE_SECONDS + 1];
        time_t second;  // of the last element that was written
    } rate;

    // of the thread
    service_job *queue;     // by order
    service_job **running;  // [running_count], by the time of their place
    uint32_t running_count;
    uint64_t sessions;
    bool hold;  // no text gets a place until something has changed
    struct {
        scheduler_draft mode;
        drafter *model;  // NULL: prompt lookup
        draft_cost cost;
        uint32_t *tokens;  // [EXECUTOR_MAX_TOKENS] of the steps of an iteration, with drafts
    } drafting;
    // of an iteration
    executor_step *steps;
    float *x, *logits;       // [EXECUTOR_MAX_TOKENS, dim], [HEAD_ROWS, vocab]
    generation_step *drawn;  // [HEAD_ROWS]
} scheduler;

// --- scheduler.c
// Takes a text out of its place or of the queue, calls `ended` and forgets it.
void scheduler_finish(scheduler *s, service_job *job, service_end end, const braid_error *error);

// --- rate.c
time_t scheduler_second(void);
uint64_t scheduler_now_ns(void);
void scheduler_note_drawn(scheduler *s, uint32_t tokens);
// Tokens a second in the last RATE_SECONDS whole seconds. Under lock.
double scheduler_rate(scheduler *s);

// --- places.c
void places_enqueue(scheduler *s, service_job *job);
// Gives places to the first texts of the queue, as far as there is room.
void places_admit(scheduler *s);
// `job` has no room: takes the place of the text that got one last, which goes back into the queue.
// If there is no other text, `job` is blocked.
void places_preempt(scheduler *s, service_job *job);
// Back into the queue. `close`: the executor still has its session.
void places_give_up(scheduler *s, service_job *job, bool close);
service_job *places_find(const scheduler *s, uint64_t session);
void places_remove(scheduler *s, const service_job *job);

// --- steps.c
// Submits the next tokens of texts that are ready.
void steps_submit(scheduler *s);

// --- results.c
// Uses and frees a list of results.
void results_use(scheduler *s, mail *list);

static inline uint32_t job_tokens(const service_job *job) {
    size_t count;
    generation_tokens(job->text, &count);
    return (uint32_t)count;
}

// Number of rows of the prompt that are used: its log-probabilities need the row before each token.
static inline uint32_t job_rows_wanted(const service_job *job) {
    if (job->embed) return (uint32_t)job->prompt;
    return job->prompt_logprobs ? (uint32_t)job->prompt - 1 : 0;
}

#endif
