#include "http/metrics.h"

#include "base/machine.h"
#include "http/inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Upper bounds in microseconds.
static const uint64_t bounds[METRICS_BUCKETS] = {5000,   10000,   25000,   50000,    100000,   250000,
                                                 500000, 1000000, 2500000, 10000000, 60000000, 600000000};

void histogram_add(histogram *h, uint64_t ns) {
    uint64_t us = ns / 1000;
    uint32_t i = 0;
    while (i < METRICS_BUCKETS && us > bounds[i]) i++;
    atomic_fetch_add(&h->count[i], 1);
    atomic_fetch_add(&h->sum_us, us);
}

void metrics_request(metrics *m, exchange *x) {
    pthread_mutex_lock(&x->lock);
    unsigned status = x->status;
    bool left = x->complete && !x->ended && !x->overflowed, slow = x->overflowed;
    pthread_mutex_unlock(&x->lock);
    uint32_t number = x->route ? (uint32_t)(x->route - x->server->routes.at) : METRICS_ROUTES - 1;
    if (status >= 100 && status < 600) atomic_fetch_add(&m->requests[number][status / 100], 1);
    if (left) atomic_fetch_add(&m->left, 1);
    if (slow) atomic_fetch_add(&m->slow, 1);
    if (x->route && x->route->text) histogram_add(&m->whole, http_now_ns() - x->arrived_ns);
}

typedef struct page {
    char *text;
    size_t length, capacity;
    bool failed;
} page;

__attribute__((format(printf, 2, 3))) static void put(page *p, const char *format, ...) {
    char line[1024];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n <= 0 || (size_t)n >= sizeof line || p->failed) return;
    if (p->length + (size_t)n + 1 > p->capacity) {
        size_t capacity = 2 * (p->length + (size_t)n) + 4096;
        char *larger = realloc(p->text, capacity);
        p->failed = !larger;
        if (!larger) return;
        p->text = larger;
        p->capacity = capacity;
    }
    memcpy(p->text + p->length, line, (size_t)n + 1);
    p->length += (size_t)n;
}

static void put_number(page *p, const char *name, const char *kind, const char *help, double value) {
    put(p, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind, name, value);
}

static void put_histogram(page *p, const char *name, const char *help, histogram *h) {
    uint64_t sum = 0;
    put(p, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (uint32_t i = 0; i <= METRICS_BUCKETS; i++) {
        sum += atomic_load(&h->count[i]);
        if (i < METRICS_BUCKETS)
            put(p, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)bounds[i] / 1e6, sum);
        else
            put(p, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
    }
    put(p, "%s_sum %.17g\n%s_count %" PRIu64 "\n", name, (double)atomic_load(&h->sum_us) / 1e6, name, sum);
}

// Routes with the same name are counted together.
static void put_requests(page *p, metrics *m, const route_table *routes) {
    uint32_t count = routes->count;
    put(p, "# HELP braid_http_requests_total Requests by endpoint and class of the status.\n"
           "# TYPE braid_http_requests_total counter\n");
    for (uint32_t i = 0; i <= count; i++) {
        const char *name = i < count ? routes->at[i].name : "other";
        bool again = i > 0 && i < count && strcmp(name, routes->at[i - 1].name) == 0;
        for (uint32_t k = 1; k < 6 && !again; k++) {
            uint64_t n = i < count ? 0 : atomic_load(&m->requests[METRICS_ROUTES - 1][k]);
            for (uint32_t j = i; j < count && strcmp(routes->at[j].name, name) == 0; j++)
                n += atomic_load(&m->requests[j][k]);
            if (n > 0) put(p, "braid_http_requests_total{endpoint=\"%s\",status=\"%uxx\"} %" PRIu64 "\n", name, k, n);
        }
    }
}

static void put_service(page *p, service *of) {
    service_status s = {0};
    service_status_of(of, &s);
    put_number(p, "braid_ready", "gauge", "1 if a token has gone through all layers since the last change.", s.ready);
    put_number(p, "braid_texts_running", "gauge", "Texts that are read or written now.", s.running);
    put_number(p, "braid_queue_depth", "gauge", "Texts that wait for a place.", s.queued);
    put_number(p, "braid_queue_limit", "gauge", "Texts that may wait.", s.queue_limit);
    put_number(p, "braid_texts_total", "counter", "Texts that have ended.", (double)s.texts);
    put_number(p, "braid_texts_failed_total", "counter", "Texts that ended with an error.", (double)s.failed);
    put_number(p, "braid_prompt_tokens_total", "counter", "Tokens of prompts.", (double)s.prompt_tokens);
    put_number(p, "braid_prompt_cached_tokens_total", "counter", "Tokens of prompts that were in the cache.",
               (double)s.cached_tokens);
    put_number(p, "braid_generated_tokens_total", "counter", "Tokens that were drawn.", (double)s.drawn_tokens);
    put_number(p, "braid_tokens_per_second", "gauge", "Tokens drawn per second over the last ten.",
               s.tokens_per_second);
    put_number(p, "braid_cache_bytes", "gauge", "Keys and values in use.", (double)s.cache_bytes);
    put_number(p, "braid_cache_limit_bytes", "gauge", "The most that keys and values may use.", (double)s.cache_limit);
    put_number(p, "braid_memory_limit_bytes", "gauge", "The most memory that the service may use.",
               (double)s.memory_limit);
}

static double number_of(const json *doc, const char *key) {
    double value = 0;
    json_double(json_member(doc, json_root(doc), key), &value);
    return value;
}

static void put_peers(page *p, const json *doc) {
    uint32_t serving = 0, others = 0;
    const json_value *list = json_member(doc, json_root(doc), "peers");
    for (const json_value *v = list ? json_first(doc, list) : NULL; v; v = json_next(doc, v)) {
        const char *state = json_string(json_member(doc, v, "state"));
        bool api = state && strcmp(state, "api") == 0;
        serving += state && strcmp(state, "serving") == 0;
        others += state && !api && strcmp(state, "serving") != 0;
    }
    put(p,
        "# HELP braid_swarm_peers Peers that hold layers of the model, and others.\n# TYPE braid_swarm_peers gauge\n"
        "braid_swarm_peers{state=\"serving\"} %u\nbraid_swarm_peers{state=\"other\"} %u\n",
        serving, others);
}

// For a model with its layers on peers.
static void put_swarm(page *p, char *text) {
    json *doc = NULL;
    braid_error error;
    if (text && json_parse(text, strlen(text), &doc, &error) == BRAID_OK) {
        double repairs = number_of(doc, "repairs");
        put_peers(p, doc);
        put_number(p, "braid_swarm_free_tokens", "gauge",
                   "Tokens for which there is room, of the layer with the least.", number_of(doc, "free_tokens"));
        put_number(p, "braid_swarm_reroutes_total", "counter", "Spans of texts that were replaced.", repairs);
        put_number(p, "braid_swarm_replayed_rows_total", "counter", "Rows that were sent again to substitutes.",
                   number_of(doc, "replayed_rows"));
        put(p,
            "# HELP braid_swarm_recovery_seconds Time from noticing a loss to the next output.\n"
            "# TYPE braid_swarm_recovery_seconds summary\nbraid_swarm_recovery_seconds_sum %.17g\n"
            "braid_swarm_recovery_seconds_count %.17g\n",
            number_of(doc, "mean_repair_ms") * repairs * 1e-3, repairs);
        put(p,
            "# HELP braid_swarm_sent_bytes_total Bytes sent to other peers, by kind.\n"
            "# TYPE braid_swarm_sent_bytes_total counter\nbraid_swarm_sent_bytes_total{kind=\"tensors\"} %.17g\n"
            "braid_swarm_sent_bytes_total{kind=\"messages\"} %.17g\n",
            number_of(doc, "sent_tensor_bytes"), number_of(doc, "sent_message_bytes"));
    }
    json_free(doc);
    free(text);
}

static void put_run(page *p, const http_run *run) {
    char *text = run->metrics(run->context), *rest = text;
    p->failed |= !text;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line) put(p, "%s\n", line);
    free(text);
}

static void put_texts(page *p, metrics *m) {
    put_histogram(p, "braid_time_to_first_token_seconds", "Time from a request to its first token.", &m->first_token);
    put_histogram(p, "braid_request_seconds", "Time from a request for a text to the end of its answer.", &m->whole);
}

void handle_metrics(exchange *x) {
    metrics *m = &x->server->metrics;
    page p = {0};
    service *served = x->server->service;
    if (served) {
        put_service(&p, served);
        put_swarm(&p, service_swarm(served));
        put_number(&p, "braid_memory_bytes", "gauge", "Resident memory of this process.",
                   (double)machine_resident_bytes());
    } else {
        put_run(&p, &x->server->run);
    }
    put_requests(&p, m, &x->server->routes);
    put_number(&p, "braid_http_clients_left_total", "counter", "Clients that left before the end of their answer.",
               (double)atomic_load(&m->left));
    put_number(&p, "braid_http_slow_readers_total", "counter", "Streams that were cut because they were not read.",
               (double)atomic_load(&m->slow));
    if (served) put_texts(&p, m);
    exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", p.failed ? NULL : p.text, p.length);
    if (p.failed) free(p.text);
}
