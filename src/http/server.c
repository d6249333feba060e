#include "http/constraint.h"
#include "http/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- requests

static exchange *begin_request(http_server *s, struct MHD_Connection *c, const char *url, const char *method) {
    exchange *x = exchange_new(s, c);
    if (!x) return NULL;
    snprintf(x->method, sizeof x->method, "%s", method);
    size_t n = 0;
    for (; *url && n < sizeof x->path - 1; url++)
        if (*url != '/' || n == 0 || x->path[n - 1] != '/') x->path[n++] = *url;
    x->path[*url ? 0 : n] = 0;  // too long: no path
    return x;
}

static enum MHD_Result take_body(exchange *x, const char *bytes, size_t length) {
    http_server *s = x->server;
    if (x->body_dropped || x->body_length + length > s->max_body_bytes) {
        x->body_dropped += length;
        return x->body_dropped > HTTP_DROPPED_BODIES * s->max_body_bytes ? MHD_NO : MHD_YES;
    }
    if (x->body_length + length + 1 > x->body_capacity) {
        size_t capacity = 2 * (x->body_length + length) + 1;
        char *larger = realloc(x->body, capacity);
        if (!larger) return MHD_NO;
        x->body = larger;
        x->body_capacity = capacity;
    }
    memcpy(x->body + x->body_length, bytes, length);
    x->body_length += length;
    x->body[x->body_length] = 0;
    return MHD_YES;
}

static void too_large(exchange *x) {
    reply_error(x, 413, NULL, "request_too_large", "the body is larger than the %llu bytes that this server accepts",
                (unsigned long long)x->server->max_body_bytes);
}

// A client that waits for "100 Continue" gets its error at once; the others send some of the body
// first, since they read no answer before.
static bool refuse_early(exchange *x, struct MHD_Connection *c) {
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *expect = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT);
    uint64_t bytes = length ? strtoull(length, NULL, 10) : 0, most = x->server->max_body_bytes;
    if (bytes <= most || (!expect && bytes <= HTTP_DROPPED_BODIES * most)) return false;
    endpoint_find(x);
    too_large(x);
    return true;
}

static void dispatch(exchange *x) {
    x->complete = true;
    client_answering(x->server, x->connection, true);
    if (!endpoint_find(x) || !access_allows(x)) return;
    if (!x->server->service && !x->route->always) {
        reply_error(x, 404, NULL, "no_model", "this process shows a training run and serves no model");
        return;
    }
    if (x->body_dropped) {
        too_large(x);
        return;
    }
    if (x->route->quick)
        x->route->handle(x);
    else if (!server_enqueue(x->server, x, HTTP_MAX_QUEUED)) {
        exchange_header_set(x, "Retry-After", "1");
        reply_error(x, 429, NULL, "queue_full", "too many requests wait; try again in a second");
    }
}

static enum MHD_Result on_request(void *server, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **context) {
    (void)version;
    exchange *x = *context;
    if (server_is_stopping(server)) return MHD_NO;
    if (!x) {
        if (!(x = begin_request(server, c, url, method))) return MHD_NO;
        *context = x;
        return refuse_early(x, c) ? exchange_proceed(x) : MHD_YES;
    }
    if (*upload_bytes > 0) {
        enum MHD_Result result = take_body(x, upload, *upload_bytes);
        *upload_bytes = 0;
        return result;
    }
    if (!x->complete) dispatch(x);
    return exchange_proceed(x);
}

static void on_closed(void *server, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode code) {
    (void)code;
    http_server *s = server;
    exchange *x = *context;
    if (!x) return;
    client_answering(s, c, false);
    metrics_request(&s->metrics, x);
    *context = NULL;
    exchange_closed(x);
}

// libmicrohttpd's own messages are about clients that closed a connection; metrics count those.
static void no_log(void *context, const char *format, va_list list) { (void)context, (void)format, (void)list; }

// ---- start and stop

static braid_err start_daemon(http_server *s, const http_settings *settings, int listener, braid_error *error) {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (s->certificate) {
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, s->certificate};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, s->private_key};
    }
    unsigned connections = settings->max_connections ? settings->max_connections : HTTP_CONNECTIONS;
    long files = sysconf(_SC_OPEN_MAX);
    if (files > 128 && connections > (unsigned long)files - 64) connections = (unsigned)(files - 64);
    s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, no_log, NULL,
                                 MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listener, MHD_OPTION_CONNECTION_LIMIT,
                                 connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_CONNECTION_SECONDS,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_MEMORY,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_closed, s, MHD_OPTION_NOTIFY_CONNECTION,
                                 clients_notify, s, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (s->daemon) return BRAID_OK;
    close(listener);
    return braid_fail(error, s->certificate ? BRAID_CONFIG : BRAID_IO,
                      s->certificate ? "the HTTP server cannot start: check that the TLS certificate %s and its key "
                                       "belong together"
                                     : "the HTTP server cannot start on %s",
                      s->certificate ? settings->certificate : s->address);
}

static braid_err start_threads(http_server *s, braid_error *error) {
    for (; s->workers < HTTP_WORKERS; s->workers++)
        if (pthread_create(&s->worker[s->workers], NULL, worker_main, s) != 0)
            return braid_fail(error, BRAID_MEMORY, "no thread for the HTTP server");
    if (pthread_create(&s->watch, NULL, watch_main, s) != 0)
        return braid_fail(error, BRAID_MEMORY, "no thread for the HTTP server");
    s->watching = true;
    return BRAID_OK;
}

static http_server *server_alloc(void) {
    http_server *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->trie_lock, NULL);
    pthread_mutex_init(&s->clients.lock, NULL);
    pthread_cond_init(&s->work, &clock);
    pthread_cond_init(&s->dropped, &clock);
    pthread_cond_init(&s->stopped, &clock);
    pthread_condattr_destroy(&clock);
    s->created = (uint64_t)time(NULL);
    return s;
}

braid_err http_server_new(const http_settings *settings, http_server **out, braid_error *error) {
    *out = NULL;
    http_server *s = server_alloc();
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for the HTTP server");
    int listener = -1;
    s->routes = endpoint_routes();
    braid_err err = settings_apply(s, settings, error);
    if (!err) err = settings_listen(settings, s, &listener, error);
    if (!err) err = start_threads(s, error);
    if (err && listener >= 0) close(listener);
    if (!err) err = start_daemon(s, settings, listener, error);
    if (err)
        http_server_free(s);
    else
        *out = s;
    return err;
}

uint16_t http_server_port(const http_server *s) { return s->port; }

const char *http_server_address(const http_server *s) { return s->address; }

// One exchange that was not told yet, with a reference; NULL: none is left.
static exchange *next_present(http_server *s) {
    pthread_mutex_lock(&s->lock);
    exchange *found = NULL;
    for (exchange *x = s->exchanges; x && !found; x = x->next) {
        pthread_mutex_lock(&x->lock);
        if (!x->gone) found = exchange_keep(x);
        pthread_mutex_unlock(&x->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

// Under the lock: whether a text or a worker still uses an exchange, or one is being freed.
static bool in_use(http_server *s) {
    bool used = s->releasing > 0;
    for (exchange *x = s->exchanges; x && !used; x = x->next) {
        pthread_mutex_lock(&x->lock);
        used = atomic_load(&x->references) > (x->connection ? 1u : 0u);
        pthread_mutex_unlock(&x->lock);
    }
    return used;
}

static void stop_requests(http_server *s) {
    for (exchange *x; (x = next_present(s));) {
        exchange_leave(x);
        exchange_drop(x);
    }
    pthread_mutex_lock(&s->lock);
    while (in_use(s)) pthread_cond_wait(&s->dropped, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void http_server_free(http_server *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->work);
    pthread_cond_broadcast(&s->stopped);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->workers; i++) pthread_join(s->worker[i], NULL);
    if (s->watching) pthread_join(s->watch, NULL);
    stop_requests(s);
    if (s->daemon) MHD_stop_daemon(s->daemon);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->dropped);
    pthread_cond_destroy(&s->stopped);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->trie_lock);
    pthread_mutex_destroy(&s->clients.lock);
    constraint_vocabulary_free(s);
    settings_free(s);
    free(s);
}
