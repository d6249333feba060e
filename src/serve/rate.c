// Clocks, and the rate of tokens of the last seconds.
#include "serve/inside.h"

time_t scheduler_second(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

uint64_t scheduler_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// Forgets what is older than the time of the rate. Under lock.
static void advance_rate(scheduler *s) {
    time_t now = scheduler_second();
    if (now - s->rate.second > RATE_SECONDS) s->rate.second = now - RATE_SECONDS - 1;
    while (s->rate.second < now) s->rate.drawn[++s->rate.second % (RATE_SECONDS + 1)] = 0;
}

void scheduler_note_drawn(scheduler *s, uint32_t tokens) {
    pthread_mutex_lock(&s->lock);
    advance_rate(s);
    s->rate.drawn[s->rate.second % (RATE_SECONDS + 1)] += tokens;
    s->status.drawn_tokens += tokens;
    pthread_mutex_unlock(&s->lock);
}

double scheduler_rate(scheduler *s) {
    uint64_t sum = 0;
    advance_rate(s);
    for (int i = 0; i <= RATE_SECONDS; i++) sum += s->rate.drawn[i];
    sum -= s->rate.drawn[s->rate.second % (RATE_SECONDS + 1)];
    return (double)sum / RATE_SECONDS;
}
