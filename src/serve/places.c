// The queue and the places. The queue is ordered by submission, so a text that lost its place comes
// before the texts that never had one.
#include "serve/inside.h"

#include <string.h>

enum { LOST_PLACE_PAGES = 4 };

void places_enqueue(scheduler *s, service_job *job) {
    service_job **at = &s->queue;
    while (*at && (*at)->order < job->order) at = &(*at)->next;
    job->state = JOB_QUEUED;
    job->next = *at;
    *at = job;
}

service_job *places_find(const scheduler *s, uint64_t session) {
    for (uint32_t i = 0; i < s->running_count; i++)
        if (s->running[i]->session == session) return s->running[i];
    return NULL;
}

void places_remove(scheduler *s, const service_job *job) {
    uint32_t i = 0;
    while (i < s->running_count && s->running[i] != job) i++;
    if (i == s->running_count) return;
    s->running_count--;
    memmove(&s->running[i], &s->running[i + 1], (s->running_count - i) * sizeof *s->running);
}

void places_give_up(scheduler *s, service_job *job, bool close) {
    if (close) executor_close(s->executor, job->session);
    places_remove(s, job);
    places_enqueue(s, job);
    job->lost_place = true;
    pthread_mutex_lock(&s->lock);
    s->waiting++;
    pthread_mutex_unlock(&s->lock);
}

void places_preempt(scheduler *s, service_job *job) {
    if (s->running_count == 1)
        job->state = JOB_BLOCKED;
    else
        places_give_up(s, s->running[s->running_count - 1], true);
}

// Number of tokens that may come from the prefix cache. Rows that are still to be used must be
// computed, and so must the last one, which gives the next token.
static uint32_t reusable(const service_job *job, uint32_t tokens) {
    if (job->used < job_rows_wanted(job)) return job->used;
    return job->prompt_only ? tokens : tokens - 1;
}

static uint64_t in_pages(uint64_t tokens, uint32_t page) { return (tokens + page - 1) / page * page; }

// Whether the whole text can be read, and each text with a place can be written for another page. A
// text that lost its place waits for more room, because losing it again would cost all its tokens.
static bool has_room(const scheduler *s, const service_job *job) {
    executor_room room;
    if (s->running_count == 0) return true;
    executor_room_of(s->executor, &room);
    uint64_t page = room.page_tokens * (job->lost_place ? LOST_PLACE_PAGES : 1);
    uint64_t needed = in_pages(job_tokens(job), room.page_tokens) + page;
    for (uint32_t i = 0; i < s->running_count; i++) {
        const service_job *other = s->running[i];
        needed += in_pages(job_tokens(other) - other->read, room.page_tokens) + page;
    }
    return needed <= room.free_tokens;
}

void places_admit(scheduler *s) {
    while (!s->hold && s->queue && s->running_count < s->parallel && has_room(s, s->queue)) {
        service_job *job = s->queue;
        size_t count;
        const uint32_t *tokens = generation_tokens(job->text, &count);
        s->queue = job->next;
        pthread_mutex_lock(&s->lock);
        s->waiting--;
        pthread_mutex_unlock(&s->lock);
        job->state = JOB_BEGINNING;
        job->session = ++s->sessions;
        job->read = 0;
        s->running[s->running_count++] = job;
        executor_begin(s->executor, job->session, adapter_version_of(job->adapter), tokens,
                       reusable(job, (uint32_t)count));
    }
}
