// Texts of a service, recorded: all calls of a listener, and the wait for the last one.
#ifndef BRAID_TEST_SERVICE_TEXTS_H
#define BRAID_TEST_SERVICE_TEXTS_H

#include "serve/service.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 1024, TEXT_DIM = 64, TEXT_TOP = 3 };

typedef struct recorded {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t prompt, cached;
    uint32_t starts, count, prompt_count, ends;
    uint32_t tokens[TEXT_MOST], prompt_tokens[TEXT_MOST];
    float logprobs[TEXT_MOST], prompt_logprobs[TEXT_MOST];
    sampler_top top[TEXT_MOST][TEXT_TOP], prompt_top[TEXT_MOST][TEXT_TOP];
    uint32_t dim;
    float mean[TEXT_DIM];
    service_end end;
    braid_error error;
    service *cancel_in;  // cancels itself after `cancel_after` tokens
    service_job *job;
    uint32_t cancel_after;
} recorded;

static void record_started(void *context, size_t prompt, size_t cached) {
    recorded *r = context;
    pthread_mutex_lock(&r->lock);
    r->starts++;
    r->prompt = prompt;
    r->cached = cached;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void record_prompt(void *context, const service_prompt_token *token) {
    recorded *r = context;
    if (r->prompt_count == TEXT_MOST || r->count > 0) abort();
    r->prompt_tokens[r->prompt_count] = token->token;
    r->prompt_logprobs[r->prompt_count] = token->logprob;
    for (uint32_t i = 0; i < token->top_count && i < TEXT_TOP; i++) r->prompt_top[r->prompt_count][i] = token->top[i];
    r->prompt_count++;
}

static void record_embedding(void *context, const float *mean, uint32_t dim) {
    recorded *r = context;
    if (dim > TEXT_DIM) abort();
    r->dim = dim;
    memcpy(r->mean, mean, dim * sizeof *mean);
}

static void record_step(void *context, const generation_step *step) {
    recorded *r = context;
    if (r->count == TEXT_MOST || r->ends > 0) abort();
    r->tokens[r->count] = step->token;
    r->logprobs[r->count] = step->top_count ? step->logprob : 0;
    for (uint32_t i = 0; i < step->top_count && i < TEXT_TOP; i++) r->top[r->count][i] = step->top[i];
    pthread_mutex_lock(&r->lock);
    r->count++;
    if (r->cancel_in && r->job && r->count >= r->cancel_after) service_cancel(r->cancel_in, r->job);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void record_ended(void *context, service_end end, const braid_error *error) {
    recorded *r = context;
    pthread_mutex_lock(&r->lock);
    r->ends++;
    r->end = end;
    if (error) r->error = *error;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static inline recorded *recorded_new(void) {
    recorded *r = calloc(1, sizeof *r);
    if (!r || pthread_mutex_init(&r->lock, NULL) || pthread_cond_init(&r->changed, NULL)) abort();
    return r;
}

static inline void recorded_free(recorded *r) {
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static inline service_listener recorded_listener(recorded *r) {
    return (service_listener){.context = r,
                              .started = record_started,
                              .prompt = record_prompt,
                              .embedding = record_embedding,
                              .step = record_step,
                              .ended = record_ended};
}

// Waits for so many tokens, or the end.
static inline void recorded_wait_count(recorded *r, uint32_t count) {
    pthread_mutex_lock(&r->lock);
    while (r->count < count && r->ends == 0) pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static inline void recorded_wait(recorded *r) { recorded_wait_count(r, UINT32_MAX); }

#endif
