// The HTTP server: OpenAI's API, Ollama's calls, metrics and the page, over a service, or the page and
// metrics of a training run. docs/api.md is the reference of the endpoints.
//
// Threads: one of libmicrohttpd for sockets, a few that read requests (JSON, templates, tokens), one
// timer. No request waits for another one's text.
#ifndef BRAID_HTTP_SERVER_H
#define BRAID_HTTP_SERVER_H

#include "serve/service.h"

typedef struct http_server http_server;

enum {
    HTTP_MAX_KEYS = 1024,
    HTTP_MAX_SECRET_BYTES = 256,
    HTTP_MAX_LABEL_BYTES = 64,
    HTTP_MAX_ORIGINS = 64,
    HTTP_BODY_BYTES = 8 << 20,  // default of max_body_bytes
    HTTP_CONNECTIONS = 16384,   // default of max_connections
};

// A bearer key. Requests over its limits are refused with 429.
typedef struct http_key {
    const char *secret;   // printable ASCII without spaces
    const char *label;    // its name in the log and in messages
    uint32_t concurrent;  // texts at once, 0: no limit
    uint32_t per_minute;  // requests in a minute, 0: no limit
} http_key;

// A training run that the page shows. Any thread of the server calls, also several at once. Texts
// are memory of malloc; NULL: out of memory.
typedef struct http_run {
    void *context;
    // A JSON object: `run` in /v1/swarm.
    char *(*state)(void *context);
    // The history as a JSON object, from the entry with the number `from` on. *next: the number after
    // the last entry.
    char *(*history)(void *context, uint64_t from, uint64_t *next);
    // Lines for /metrics in Prometheus' text form.
    char *(*metrics)(void *context);
    // Whether it trains; otherwise `blocker` says why not.
    bool (*ready)(void *context, char blocker[128]);
} http_run;

typedef struct http_settings {
    const char *host;  // a name or an address to listen on, NULL: 127.0.0.1
    uint16_t port;     // 0: any free one
    service *service;  // borrowed until http_server_free, which must come before service_free
    // Copied; its functions are called until http_server_free. Exactly one of `service` and `run` is
    // set.
    const http_run *run;
    const http_key *keys;  // [key_count], copied; none: every request is allowed
    size_t key_count;
    bool without_key;                       // allows another host than loopback without a key
    const char *certificate, *private_key;  // PEM files for TLS, both or neither
    bool page;                              // serves the page at /
    uint64_t max_body_bytes;                // 0: HTTP_BODY_BYTES
    uint32_t max_connections;               // 0: HTTP_CONNECTIONS, at most the limit of open files
    // Web pages of other origins ("https://example.org") that may call the API from a browser;
    // copied. "*": all.
    const char *const *origins;
    size_t origin_count;
    uint64_t keep_alive_ns;     // a stream without a token gets an empty one after this; 0: 15 s
    const char *chat_template;  // Jinja, instead of the model's; NULL: the model's
} http_settings;

// Listens from now on. BRAID_CONFIG: unsuited settings, or a certificate that cannot be used.
// BRAID_IO: a file, or the address is in use. BRAID_FORMAT: the chat template. Free with
// http_server_free.
braid_err http_server_new(const http_settings *settings, http_server **out, braid_error *error);
// The port it listens on.
uint16_t http_server_port(const http_server *s);
// "http://127.0.0.1:8080", valid until http_server_free.
const char *http_server_address(const http_server *s);
// Ends all requests, cancels their texts and waits for them.
void http_server_free(http_server *s);

typedef struct http_keys {
    http_key *at;
    size_t count;
    char *owned;
} http_keys;

// Reads a file of keys, one a line: LABEL SECRET [concurrent=N] [per-minute=N]; '#' begins a comment.
// BRAID_CONFIG names the line of a mistake, BRAID_IO: the file. Free with http_keys_free.
braid_err http_keys_read(const char *path, http_keys *out, braid_error *error);
braid_err http_keys_parse(const char *text, size_t length, const char *name, http_keys *out, braid_error *error);
void http_keys_free(http_keys *keys);

#endif
