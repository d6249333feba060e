// /events: the document of /v1/swarm and the history of a run, by server-sent events (HTML standard,
// section 9.2). The watch calls events_look every HTTP_EVENTS_NS.
//
// The id of an event is SERVER-NUMBER: the server's start, and the number of the next entry of the
// history. A client that returns with it in Last-Event-ID gets only the entries from there on; after
// a restart of the server it gets all of them.
#include "http/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_SAME = 4 };  // looks without a change until the state is sent all the same

typedef struct watcher {
    exchange *x;
    uint64_t next;  // of the history
    uint64_t hash;  // of the state that was sent
    uint32_t same;  // looks since then
} watcher;

// FNV-1a
static uint64_t hash_of(const char *text, size_t length) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h;
}

// In one piece, which small events keep as one chunk.
static void write_event(watcher *w, const char *name, const char *data, size_t length) {
    size_t room = length + 128;
    char *text = malloc(room);
    if (!text) return;
    int n = snprintf(text, room, "event: %s\nid: %016" PRIx64 "-%" PRIu64 "\ndata: %s\n\n", name,
                     w->x->server->events.id, w->next, data);
    exchange_write(w->x, text, (size_t)n);
    free(text);
}

static void send_state(watcher *w) {
    size_t length = 0;
    char *text = swarm_document(w->x->server, &length);
    uint64_t hash = text ? hash_of(text, length) : w->hash;
    if (text && (hash != w->hash || ++w->same >= EVENTS_SAME)) {
        w->hash = hash;
        w->same = 0;
        write_event(w, "state", text, length);
    }
    free(text);
}

static void send_history(watcher *w) {
    const http_run *run = &w->x->server->run;
    uint64_t from = w->next;
    if (!run->history) return;
    char *text = run->history(run->context, from, &w->next);
    if (text && w->next > from) write_event(w, "history", text, strlen(text));
    if (!text) w->next = from;
    free(text);
}

static void events_look(void *context) {
    watcher *w = context;
    send_history(w);
    send_state(w);
}

static void events_release(void *context) {
    watcher *w = context;
    atomic_fetch_sub(&w->x->server->events.watchers, 1);
    free(w);
}

// The number in a Last-Event-ID of this server, else 0.
static uint64_t resumed_at(const exchange *x) {
    const char *id = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Last-Event-ID");
    uint64_t server = 0, number = 0;
    if (!id || strlen(id) > 40 || sscanf(id, "%16" SCNx64 "-%20" SCNu64, &server, &number) != 2) return 0;
    return server == x->server->events.id ? number : 0;
}

// On libmicrohttpd's thread, which has the headers.
void handle_events(exchange *x) {
    http_server *s = x->server;
    watcher *w = calloc(1, sizeof *w);
    if (!w || atomic_fetch_add(&s->events.watchers, 1) >= HTTP_MAX_WATCHERS) {
        if (w) atomic_fetch_sub(&s->events.watchers, 1);
        free(w);
        exchange_header_set(x, "Retry-After", "5");
        reply_error(x, 429, NULL, "queue_full", "%d pages watch already; close one", HTTP_MAX_WATCHERS);
        return;
    }
    *w = (watcher){.x = x, .next = resumed_at(x), .same = EVENTS_SAME};
    exchange_header_set(x, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    exchange_begin(x, "text/event-stream");
    exchange_watch(x, events_look, events_release, w, HTTP_EVENTS_NS);
}
