#include "http/exchange.h"

#include "http/inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

exchange *exchange_new(http_server *server, struct MHD_Connection *connection) {
    exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->server = server;
    x->connection = connection;
    x->key = -1;
    x->arrived_ns = x->written_ns = http_now_ns();
    atomic_init(&x->references, 1);
    pthread_mutex_init(&x->lock, NULL);
    server_add(server, x);
    return x;
}

exchange *exchange_keep(exchange *x) {
    atomic_fetch_add(&x->references, 1);
    return x;
}

void exchange_drop(exchange *x) {
    http_server *server = x->server;
    if (!server_drop(server, x)) return;
    if (x->release) x->release(x->context);
    pthread_mutex_destroy(&x->lock);
    free(x->body);
    free(x->out);
    free(x);
    server_released(server);
}

// ---- the answer

// Under the lock. The connection continues on libmicrohttpd's thread.
static void resume(exchange *x) {
    if (!x->suspended) return;
    x->suspended = false;
    MHD_resume_connection(x->connection);
}

void exchange_header_set(exchange *x, const char *name, const char *value) {
    pthread_mutex_lock(&x->lock);
    if (x->headers < EXCHANGE_MAX_HEADERS) {
        exchange_header *h = &x->header[x->headers++];
        h->name = name;
        strncat(h->value, value, sizeof h->value - 1);
    }
    pthread_mutex_unlock(&x->lock);
}

void exchange_reply(exchange *x, unsigned status, const char *type, char *body, size_t length) {
    static const char short_of_memory[] =
        "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    access_release(x);
    pthread_mutex_lock(&x->lock);
    if (x->status) {
        free(body);
    } else {
        x->status = body ? status : 500;
        x->type = body ? type : "application/json";
        x->out = body ? body : strdup(short_of_memory);
        x->out_length = body ? length : x->out ? sizeof short_of_memory - 1 : 0;
        x->ended = true;
        resume(x);
    }
    pthread_mutex_unlock(&x->lock);
}

void exchange_begin(exchange *x, const char *type) {
    pthread_mutex_lock(&x->lock);
    if (!x->status) {
        x->status = 200;
        x->type = type;
        x->stream = true;
        x->written_ns = http_now_ns();
        resume(x);
    }
    pthread_mutex_unlock(&x->lock);
}

static bool append(exchange *x, const char *bytes, size_t length) {
    if (x->out_at == x->out_length) x->out_at = x->out_length = 0;
    if (x->out_length - x->out_at + length > EXCHANGE_MAX_UNSENT) return false;
    if (x->out_length + length > x->out_capacity && x->out_at > 0) {
        memmove(x->out, x->out + x->out_at, x->out_length - x->out_at);
        x->out_length -= x->out_at;
        x->out_at = 0;
    }
    if (x->out_length + length > x->out_capacity) {
        size_t capacity = 2 * (x->out_length + length) + 256;
        char *larger = realloc(x->out, capacity);
        if (!larger) return false;
        x->out = larger;
        x->out_capacity = capacity;
    }
    memcpy(x->out + x->out_length, bytes, length);
    x->out_length += length;
    return true;
}

bool exchange_write(exchange *x, const char *bytes, size_t length) {
    pthread_mutex_lock(&x->lock);
    bool open = !x->gone && !x->overflowed && !x->ended;
    if (open && length > 0) {
        x->overflowed = !append(x, bytes, length);
        open = !x->overflowed;
        x->written_ns = http_now_ns();
        resume(x);
    }
    pthread_mutex_unlock(&x->lock);
    return open;
}

void exchange_end(exchange *x) {
    access_release(x);
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    resume(x);
    pthread_mutex_unlock(&x->lock);
}

bool exchange_begun(exchange *x) {
    pthread_mutex_lock(&x->lock);
    bool begun = x->status != 0;
    pthread_mutex_unlock(&x->lock);
    return begun;
}

void exchange_listen(exchange *x, void (*leave)(void *), void (*idle)(void *), void (*release)(void *), void *context) {
    pthread_mutex_lock(&x->lock);
    x->leave = leave;
    x->idle = idle;
    x->release = release;
    x->context = context;
    bool gone = x->gone;
    pthread_mutex_unlock(&x->lock);
    if (gone && leave) leave(context);
}

void exchange_watch(exchange *x, void (*idle)(void *), void (*release)(void *), void *context, uint64_t idle_ns) {
    pthread_mutex_lock(&x->lock);
    x->idle = idle;
    x->release = release;
    x->context = context;
    x->idle_ns = idle_ns;
    x->written_ns = 0;
    pthread_mutex_unlock(&x->lock);
}

// ---- libmicrohttpd's thread

// libmicrohttpd 0.9.75 closes a connection after an error of its reader only when no other connection
// is older. After the end of a stream it writes, which fails on a socket that is shut down, and then
// the connection closes at once.
static ssize_t cut(const exchange *x) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info) return MHD_CONTENT_READER_END_WITH_ERROR;
    shutdown(info->connect_fd, SHUT_RDWR);  // fails after a reset, as the write will
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static ssize_t next_bytes(void *context, uint64_t at, char *to, size_t room) {
    (void)at;
    exchange *x = context;
    ssize_t result = 0;
    pthread_mutex_lock(&x->lock);
    size_t waiting = x->out_length - x->out_at;
    if (x->gone || x->overflowed) {
        result = cut(x);
    } else if (waiting > 0) {
        size_t n = waiting < room ? waiting : room;
        memcpy(to, x->out + x->out_at, n);
        x->out_at += n;
        result = (ssize_t)n;
    } else if (x->ended) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return result;
}

// Under the lock.
static struct MHD_Response *make_response(exchange *x) {
    struct MHD_Response *r;
    if (x->stream) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, next_bytes, x, NULL);
    } else {
        r = MHD_create_response_from_buffer(x->out_length, x->out, MHD_RESPMEM_MUST_FREE);
        if (r) x->out = NULL;
    }
    if (!r) return NULL;
    if (x->type) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, x->type);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    for (uint32_t i = 0; i < x->headers; i++) MHD_add_response_header(r, x->header[i].name, x->header[i].value);
    if (x->stream) MHD_add_response_header(r, "X-Accel-Buffering", "no");  // of nginx as a proxy
    return r;
}

enum MHD_Result exchange_proceed(exchange *x) {
    struct MHD_Response *r = NULL;
    pthread_mutex_lock(&x->lock);
    bool refused = x->gone, answered = !refused && x->status != 0;
    if (answered) {
        r = make_response(x);
    } else if (!refused) {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
    }
    unsigned status = x->status;
    pthread_mutex_unlock(&x->lock);
    // without the lock: the reader of a response takes it under libmicrohttpd's lock of the response
    enum MHD_Result result = r ? MHD_queue_response(x->connection, status, r) : MHD_NO;
    if (r) MHD_destroy_response(r);
    return refused || answered ? result : MHD_YES;
}

void exchange_leave(exchange *x) {
    pthread_mutex_lock(&x->lock);
    x->gone = true;
    void (*leave)(void *) = x->leave;
    void *context = x->context;
    resume(x);
    pthread_mutex_unlock(&x->lock);
    if (leave) leave(context);
}

void exchange_closed(exchange *x) {
    pthread_mutex_lock(&x->lock);
    x->connection = NULL;
    x->suspended = false;
    bool early = !x->ended;
    pthread_mutex_unlock(&x->lock);
    // a client that closes at "[DONE]" has all of its answer
    if (early) exchange_leave(x);
    exchange_drop(x);
}
