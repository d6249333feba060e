// The limits of keys: texts at once, requests in a minute.
#include "http/inside.h"

#define MINUTE_NS 60000000000u

unsigned key_take_place(exchange *x) {
    http_server *s = x->server;
    key_state *k = &s->keys[x->key];
    unsigned wait = 0;
    uint64_t now = http_now_ns();
    pthread_mutex_lock(&s->lock);
    if (now - k->window_ns >= MINUTE_NS) {
        k->window_ns = now;
        k->in_window = 0;
    }
    if (k->key.concurrent && k->active >= k->key.concurrent)
        wait = 1;
    else if (k->key.per_minute && k->in_window >= k->key.per_minute)
        wait = 1 + (unsigned)((k->window_ns + MINUTE_NS - now) / 1000000000u);
    if (!wait) {
        k->active++;
        k->in_window++;
        x->counted = true;
    }
    pthread_mutex_unlock(&s->lock);
    return wait;
}

void access_done(exchange *x) {
    if (x->counted) x->server->keys[x->key].active--;
    x->counted = false;
}

void access_release(exchange *x) {
    pthread_mutex_lock(&x->server->lock);
    access_done(x);
    pthread_mutex_unlock(&x->server->lock);
}
