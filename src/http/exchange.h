// One request and its answer, between libmicrohttpd's thread and the threads that answer.
//
// 1. The connection holds a reference until the client has the answer or has left.
// 2. Each text under way holds one, too; the last reference frees the exchange.
// 3. While an answer has no bytes to send its connection is suspended, and libmicrohttpd does not
//    look at its socket. The watch (watch.c) looks for clients that left.
// 4. `lock` is the innermost lock: no function of a service is called while it is held.
#ifndef BRAID_HTTP_EXCHANGE_H
#define BRAID_HTTP_EXCHANGE_H

#include "base/err.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXCHANGE_MAX_UNSENT = 1 << 20,  // bytes of a stream that a slow reader may leave
    EXCHANGE_MAX_PATH = 1024,
    EXCHANGE_MAX_HEADERS = 4,
};

typedef struct http_server http_server;
typedef struct exchange exchange;
typedef struct route route;

typedef struct exchange_header {
    const char *name;
    char value[256];
} exchange_header;

struct exchange {
    http_server *server;
    exchange *next, *previous;   // of the server, under its lock
    exchange *queued;            // behind this one in the queue of the workers
    void (*go_on)(exchange *x);  // NULL: the route's handler is next
    atomic_uint references;

    // the request, fixed once it is complete
    char method[12];
    char path[EXCHANGE_MAX_PATH];  // decoded
    const route *route;
    char *body;  // 0-terminated
    size_t body_length, body_capacity, body_dropped;
    bool complete;
    int key;              // index of its bearer key, -1: none
    bool counted;         // occupies a place of its key
    uint64_t arrived_ns;  // monotonic
    bool first_token;     // was seen, for the metric

    pthread_mutex_t lock;               // for all below
    struct MHD_Connection *connection;  // NULL: the client has its answer or has left
    bool suspended;
    bool gone;         // nothing more is sent
    unsigned status;   // 0: there is no answer yet
    const char *type;  // content type, static
    exchange_header header[EXCHANGE_MAX_HEADERS];
    uint32_t headers;
    bool stream;      // sent in pieces
    bool ended;       // all of the answer is in `out`
    bool overflowed;  // the reader is too slow
    char *out;
    size_t out_at, out_length, out_capacity;
    uint64_t written_ns;
    // The client has left, or the server ends. Called without the lock, maybe more than once, while
    // the exchange is referenced.
    void (*leave)(void *context);
    // Nothing was written for `idle_ns`; 0: for the server's keep_alive_ns.
    void (*idle)(void *context);
    uint64_t idle_ns;
    void (*release)(void *context);  // once, with the last reference
    void *context;
};

uint64_t http_now_ns(void);

exchange *exchange_new(http_server *server, struct MHD_Connection *connection);  // NULL: no memory
exchange *exchange_keep(exchange *x);
void exchange_drop(exchange *x);

// Adds a header to the answer that is to come.
void exchange_header_set(exchange *x, const char *name, const char *value);
// The whole answer. Takes `body`, which is memory of malloc; NULL: out of memory, which is answered
// with 500. The first answer counts, later ones are ignored.
void exchange_reply(exchange *x, unsigned status, const char *type, char *body, size_t length);
// Begins an answer in pieces, unless it has begun.
void exchange_begin(exchange *x, const char *type);
// Appends to it; false: the client has left or does not read, and the text should be cancelled.
bool exchange_write(exchange *x, const char *bytes, size_t length);
void exchange_end(exchange *x);
bool exchange_begun(exchange *x);
void exchange_listen(exchange *x, void (*leave)(void *), void (*idle)(void *), void (*release)(void *), void *context);
// Calls `idle` soon, then whenever nothing was written for `idle_ns`.
void exchange_watch(exchange *x, void (*idle)(void *), void (*release)(void *), void *context, uint64_t idle_ns);

// Of libmicrohttpd's thread: sends the answer, or suspends the connection until there is one.
enum MHD_Result exchange_proceed(exchange *x);
// The connection has ended.
void exchange_closed(exchange *x);
// Marks the client as gone and cancels its texts.
void exchange_leave(exchange *x);

#endif
