// The exchanges of a server, and those that wait for a worker.
#include "http/inside.h"

void server_add(http_server *s, exchange *x) {
    pthread_mutex_lock(&s->lock);
    x->next = s->exchanges;
    if (x->next) x->next->previous = x;
    s->exchanges = x;
    pthread_mutex_unlock(&s->lock);
}

bool server_drop(http_server *s, exchange *x) {
    pthread_mutex_lock(&s->lock);
    bool last = atomic_fetch_sub(&x->references, 1) == 1;
    if (last) {
        if (x->next) x->next->previous = x->previous;
        if (x->previous) x->previous->next = x->next;
        if (s->exchanges == x) s->exchanges = x->next;
        access_done(x);
        s->releasing++;
    }
    pthread_cond_broadcast(&s->dropped);
    pthread_mutex_unlock(&s->lock);
    return last;
}

void server_released(http_server *s) {
    pthread_mutex_lock(&s->lock);
    s->releasing--;
    pthread_cond_broadcast(&s->dropped);
    pthread_mutex_unlock(&s->lock);
}

// SplitMix64 of a seed from the start; not for secrets.
uint64_t server_random(http_server *s) {
    pthread_mutex_lock(&s->lock);
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;
    pthread_mutex_unlock(&s->lock);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

bool server_is_stopping(http_server *s) {
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

// ---- the workers

bool server_enqueue(http_server *s, exchange *x, uint32_t most) {
    pthread_mutex_lock(&s->lock);
    bool fits = !s->stopping && s->queued < most;
    if (fits) {
        exchange_keep(x);
        x->queued = NULL;
        if (s->last)
            s->last->queued = x;
        else
            s->first = x;
        s->last = x;
        s->queued++;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    return fits;
}

void server_continue(exchange *x) { server_enqueue(x->server, x, UINT32_MAX); }

// NULL: the server stops.
static exchange *dequeue(http_server *s) {
    pthread_mutex_lock(&s->lock);
    while (!s->first && !s->stopping) pthread_cond_wait(&s->work, &s->lock);
    exchange *x = s->first;
    if (x) {
        s->first = x->queued;
        if (!s->first) s->last = NULL;
        s->queued--;
    }
    pthread_mutex_unlock(&s->lock);
    return x;
}

void *worker_main(void *server) {
    for (exchange *x; (x = dequeue(server));) {
        pthread_mutex_lock(&x->lock);
        bool gone = x->gone;
        pthread_mutex_unlock(&x->lock);
        if (!gone && !server_is_stopping(x->server)) (x->go_on ? x->go_on : x->route->handle)(x);
        exchange_drop(x);
    }
    return NULL;
}
