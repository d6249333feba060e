// The parts of the server that its files share.
#ifndef BRAID_HTTP_INSIDE_H
#define BRAID_HTTP_INSIDE_H

#include "chat/template.h"
#include "format/json.h"
#include "http/exchange.h"
#include "http/metrics.h"
#include "http/server.h"

enum {
    HTTP_WORKERS = 2,
    HTTP_CONNECTION_SECONDS = 120,      // of a client that neither sends nor reads
    HTTP_CONNECTION_MEMORY = 16 << 10,  // of libmicrohttpd for one connection: its headers
    HTTP_MAX_QUEUED = 4096,             // requests that wait for a worker
    HTTP_DROPPED_BODIES = 4,            // so many times the maximum is read and dropped before 413
    HTTP_MAX_WATCHERS = 64,             // streams of /events at once
};
#define HTTP_KEEP_ALIVE_NS 15000000000u
#define HTTP_EVENTS_NS     500000000u  // between two looks for changes, for /events

typedef struct key_state {
    http_key key;  // texts in http_server.owned_keys
    uint32_t active;
    uint64_t window_ns;  // start of the minute that is counted
    uint32_t in_window;
} key_state;

struct trie;
typedef struct client client;

typedef struct route_table {
    const route *at;
    uint32_t count;
} route_table;

struct http_server {
    service *service;            // NULL: the server shows a run
    const service_model *model;  // NULL: the same
    http_run run;                // functions NULL: it has a service
    uint64_t created;            // Unix time of the start
    uint64_t max_body_bytes, keep_alive_ns;
    bool page, loopback;
    char host[256], address[320];
    uint16_t port;

    key_state *keys;
    size_t key_count;
    char **origins;
    size_t origin_count;
    char *certificate, *private_key;  // PEM

    struct {
        chat_template *template;  // NULL: the model has none
        char *source, *bos, *eos;
    } chat;

    pthread_mutex_t lock;  // for the lists, the keys' states, `random` and `stopping`
    pthread_cond_t work, dropped, stopped;
    exchange *exchanges;
    exchange *first, *last;  // the queue of the workers
    uint32_t queued, releasing;
    bool stopping;
    uint64_t random;

    struct MHD_Daemon *daemon;
    pthread_t worker[HTTP_WORKERS], watch;
    uint32_t workers;
    bool watching;

    struct {
        pthread_mutex_t lock;
        client *first;  // of the open connections
    } clients;

    pthread_mutex_t trie_lock;
    struct trie *trie;  // of the vocabulary, made for the first constrained text

    route_table routes;  // so that the endpoints need not know each other
    metrics metrics;
    struct {
        uint64_t id;           // of this start
        atomic_uint watchers;  // streams
    } events;
};

// ---- queue.c
void server_add(http_server *s, exchange *x);
// Gives back a reference; true: it was the last one, and the exchange is in no list. Then the caller
// frees it and calls server_released; the server and its service exist until then.
bool server_drop(http_server *s, exchange *x);
void server_released(http_server *s);
uint64_t server_random(http_server *s);
// Calls x->go_on on a worker. The exchange is in the queue at most once.
void server_continue(exchange *x);
// False: the server stops, or `most` exchanges wait.
bool server_enqueue(http_server *s, exchange *x, uint32_t most);
bool server_is_stopping(http_server *s);
void *worker_main(void *server);

// ---- clients.c
// For each connection that begins or ends.
void clients_notify(void *server, struct MHD_Connection *connection, void **context,
                    enum MHD_ConnectionNotificationCode code);
// Whether the connection has a whole request without the end of its answer.
void client_answering(http_server *s, struct MHD_Connection *connection, bool answering);
// Closes connections that ended in the middle of a request.
void clients_look(http_server *s);

// ---- watch.c
void *watch_main(void *server);

// ---- settings.c
braid_err settings_apply(http_server *s, const http_settings *settings, braid_error *error);
void settings_free(http_server *s);
braid_err settings_listen(const http_settings *settings, http_server *s, int *out, braid_error *error);

// ---- route.c
typedef enum route_access { ROUTE_OPEN, ROUTE_KEY, ROUTE_METRICS } route_access;
struct route {
    const char *method, *path;  // a path that ends with '*' is a prefix
    const char *name;           // in metrics
    void (*handle)(exchange *x);
    route_access access;
    bool quick;   // answered on libmicrohttpd's thread
    bool ollama;  // errors in Ollama's shape
    bool text;    // counts for the limits of a key
    bool always;  // works without a service, too
};
// Sets x->route, or answers with an error.
bool endpoint_find(exchange *x);
route_table endpoint_routes(void);

// ---- access.c: keys and origins
// Whether the request may be handled; otherwise it was answered. `x->complete` is set.
bool access_allows(exchange *x);
// ---- places.c: limits of keys
// Seconds until the key may be used again; 0: now, and its place is taken.
unsigned key_take_place(exchange *x);
// Gives back the place of its key: before the end of the answer is sent, so that the client's next
// request finds it free.
void access_release(exchange *x);
void access_done(exchange *x);  // the same under http_server.lock

// ---- reply.c
// Answers with the document and frees it.
void reply_json(exchange *x, unsigned status, json_out *o);
void reply_text(exchange *x, unsigned status, const char *type, const char *text);
// `param` and `code` may be NULL.
void reply_error(exchange *x, unsigned status, const char *param, const char *code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// The answer to an error of braid. `late`: of a text that was accepted.
void reply_failure(exchange *x, const braid_error *error, const char *param, bool late);
unsigned failure_status(braid_err code, bool late);
// {"message": ..., "type": ..., "param": ..., "code": ...}
void put_error(json_out *o, const char *key, unsigned status, const char *param, const char *code, const char *message);
// "PREFIX-0123456789abcdef01234567"
void make_id(http_server *s, const char *prefix, char out[64]);

// ---- the endpoints
void handle_health(exchange *x);
void handle_ready(exchange *x);
void handle_metrics(exchange *x);
void handle_models(exchange *x);
void handle_model(exchange *x);
void handle_swarm(exchange *x);
void handle_tokenizer_info(exchange *x);
void handle_tokenize(exchange *x);
void handle_detokenize(exchange *x);
void handle_completions(exchange *x);
void handle_chat(exchange *x);
void handle_responses(exchange *x);
void handle_embeddings(exchange *x);  // of OpenAI and of Ollama
void handle_ollama_chat(exchange *x);
void handle_ollama_generate(exchange *x);
void handle_ollama_tags(exchange *x);
void handle_ollama_version(exchange *x);
void handle_ollama_show(exchange *x);
void handle_page(exchange *x);
void handle_events(exchange *x);

// ---- models.c
// The document of /v1/swarm, memory of malloc; NULL: out of memory.
char *swarm_document(http_server *s, size_t *length);

#endif
