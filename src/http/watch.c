// libmicrohttpd does not look at the socket of a suspended connection. This thread does, so that the
// text of a client that left is cancelled. It writes signs of life into quiet streams, and it closes
// connections that ended in the middle of a request.
#include "http/inside.h"

#include <poll.h>
#include <time.h>

enum {
    WATCH_INTERVAL_MS = 200,
    WATCH_CLIENTS = 2,  // intervals between looks at connections without a request
};

// Under the lock of the exchange. A client that shuts down its sending side counts as gone.
static bool has_left(const exchange *x) {
    if (!x->suspended || x->gone) return false;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info) return false;
    struct pollfd p = {.fd = info->connect_fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

typedef struct found {
    exchange *x;
    bool left;
    void (*idle)(void *);
    void *context;
} found;

// Under the lock of the server: the next exchange from `x` on that needs a call, with a reference.
static found find_from(exchange *x, uint64_t now) {
    for (; x; x = x->next) {
        pthread_mutex_lock(&x->lock);
        found f = {.left = has_left(x), .context = x->context};
        uint64_t limit = x->idle_ns ? x->idle_ns : x->server->keep_alive_ns;
        if (x->idle && !x->gone && !x->ended && now - x->written_ns >= limit) f.idle = x->idle;
        if (f.idle) x->written_ns = now;  // the next one is due after the same time
        if (f.left || f.idle) f.x = exchange_keep(x);
        pthread_mutex_unlock(&x->lock);
        if (f.x) return f;
    }
    return (found){0};
}

static void look(http_server *s) {
    uint64_t now = http_now_ns();
    pthread_mutex_lock(&s->lock);
    found f = find_from(s->exchanges, now);
    pthread_mutex_unlock(&s->lock);
    while (f.x) {
        if (f.left)
            exchange_leave(f.x);
        else
            f.idle(f.context);
        exchange *x = f.x;
        pthread_mutex_lock(&s->lock);
        f = find_from(x->next, now);
        pthread_mutex_unlock(&s->lock);
        exchange_drop(x);
    }
}

void *watch_main(void *server) {
    http_server *s = server;
    struct timespec until;
    unsigned looks = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WATCH_INTERVAL_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&s->stopped, &s->lock, &until);
        if (s->stopping) break;
        pthread_mutex_unlock(&s->lock);
        look(s);
        if (++looks % WATCH_CLIENTS == 0) clients_look(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
