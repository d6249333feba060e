// The HTTP server over a run instead of a service: state, events, metrics, and what it refuses.
#define _GNU_SOURCE
#include "http/server.h"

#include "http_client.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const http_key key = {"secret", "alice", 0, 0};

// A run with a history of `entries` entries.
typedef struct fake_run {
    pthread_mutex_t lock;
    uint64_t entries, asked_from;
    bool trains;
} fake_run;

static char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *text_of(const char *format, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, format);
    int n = vasprintf(&text, format, list);
    va_end(list);
    return n < 0 ? NULL : text;
}

static char *fake_state(void *context) {
    fake_run *r = context;
    pthread_mutex_lock(&r->lock);
    uint64_t entries = r->entries;
    pthread_mutex_unlock(&r->lock);
    return text_of("{\"state\":\"training\",\"iteration\":%llu}", (unsigned long long)entries);
}

static char *fake_history(void *context, uint64_t from, uint64_t *next) {
    fake_run *r = context;
    pthread_mutex_lock(&r->lock);
    r->asked_from = from;
    *next = r->entries;
    pthread_mutex_unlock(&r->lock);
    return text_of("{\"from\":%llu}", (unsigned long long)from);
}

static char *fake_metrics(void *context) {
    (void)context;
    return text_of("# TYPE braid_run_iteration gauge\nbraid_run_iteration 5\n");
}

static bool fake_ready(void *context, char blocker[128]) {
    fake_run *r = context;
    strcpy(blocker, "stage 2 has no peer");
    return r->trains;
}

typedef struct world {
    fake_run run;
    http_server *server;
    uint16_t port;
} world;

static void begin(world *w, const http_key *keys) {
    const http_run run = {w, fake_state, fake_history, fake_metrics, fake_ready};
    const http_settings settings = {.run = &run, .page = true, .keys = keys, .key_count = keys ? 1 : 0};
    braid_error error = {0};
    *w = (world){.run = {.lock = PTHREAD_MUTEX_INITIALIZER, .entries = 3, .trains = true}};
    if (http_server_new(&settings, &w->server, &error) != BRAID_OK) fail_msg("%s", error.text);
    w->port = http_server_port(w->server);
}

static void check_get(uint16_t port, const char *path, int status, const char *part) {
    http_answer a = http_get(port, path);
    if (a.status != status || !a.body || !strstr(a.body, part))
        fail_msg("%s: status %d, not %d, or no '%s' in: %s", path, a.status, status, part, a.body ? a.body : "");
    http_answer_free(&a);
}

static void add_entry(world *w) {
    pthread_mutex_lock(&w->run.lock);
    w->run.entries++;
    pthread_mutex_unlock(&w->run.lock);
}

// Reads until `part` has come; the caller frees the text.
static char *read_until(int fd, const char *part) {
    size_t length = 0, room = 1 << 16;
    char *text = calloc(1, room);
    assert_non_null(text);
    while (!strstr(text, part)) {
        ssize_t n = recv(fd, text + length, room - 1 - length, 0);
        if (n <= 0) fail_msg("the stream ended without '%s': %s", part, text);
        length += (size_t)n;
    }
    return text;
}

static int open_events(uint16_t port, const char *headers) {
    int fd = http_connect(port);
    assert_true(http_send_request(fd, "GET", "/events", headers, ""));
    return fd;
}

static void test_documents(void **state) {
    (void)state;
    world w;
    begin(&w, NULL);
    check_get(w.port, "/v1/swarm", 200,
              "\"model\":null,\"service\":null,\"swarm\":null,\"run\":{\"state\":\"training\"");
    check_get(w.port, "/metrics", 200, "braid_run_iteration 5\n");
    check_get(w.port, "/metrics", 200, "braid_http_requests_total{endpoint=\"swarm\",status=\"2xx\"} 1\n");
    check_get(w.port, "/ready", 200, "\"ready\"");
    w.run.trains = false;
    check_get(w.port, "/ready", 503, "stage 2 has no peer");
    check_get(w.port, "/", 200, "<title>braid</title>");
    check_get(w.port, "/page/run.js", 200, "function showRun");
    check_get(w.port, "/v1/models", 404, "shows a training run");
    check_get(w.port, "/tokenizer_info", 404, "shows a training run");
    http_answer a = http_post(w.port, "/v1/completions", "{\"prompt\":\"a\"}");
    assert_int_equal(a.status, 404);
    http_answer_free(&a);
    http_server_free(w.server);
}

// The first events have all; later ones only what is new; a client that returns goes on.
static void test_events(void **state) {
    (void)state;
    world w;
    char id[64], headers[128];
    begin(&w, NULL);
    int fd = open_events(w.port, "");
    char *text = read_until(fd, "\"iteration\":3}}\n\n");
    assert_non_null(strstr(text, "Content-Type: text/event-stream"));
    assert_non_null(strstr(text, "event: history\nid: "));
    assert_non_null(strstr(text, "data: {\"from\":0}\n\n"));
    assert_non_null(strstr(text, "event: state\nid: "));
    free(text);
    add_entry(&w);
    text = read_until(fd, "\"iteration\":4}}\n\n");
    assert_non_null(strstr(text, "data: {\"from\":3}\n\n"));
    assert_int_equal(sscanf(strstr(text, "id: "), "id: %60s", id), 1);
    free(text);
    close(fd);
    add_entry(&w);
    snprintf(headers, sizeof headers, "Last-Event-ID: %s\r\n", id);
    fd = open_events(w.port, headers);
    text = read_until(fd, "\"iteration\":5}}\n\n");
    assert_non_null(strstr(text, "data: {\"from\":4}\n\n"));
    free(text);
    close(fd);
    fd = open_events(w.port, "Last-Event-ID: 0123456789abcdef-4\r\n");  // of another server
    text = read_until(fd, "\"iteration\":5}}\n\n");
    assert_non_null(strstr(text, "data: {\"from\":0}\n\n"));
    free(text);
    close(fd);
    http_server_free(w.server);
}

static void test_keys(void **state) {
    (void)state;
    world w;
    begin(&w, &key);
    check_get(w.port, "/events", 401, "invalid_api_key");
    check_get(w.port, "/v1/swarm", 401, "invalid_api_key");
    check_get(w.port, "/", 200, "<title>braid</title>");
    int fd = open_events(w.port, "Authorization: Bearer secret\r\n");
    free(read_until(fd, "event: state\n"));
    close(fd);
    http_server_free(w.server);
}

enum { WATCHERS = 64 };

// Streams are limited, and one that ends makes room.
static void test_limit(void **state) {
    (void)state;
    world w;
    int fd[WATCHERS];
    begin(&w, NULL);
    for (int i = 0; i < WATCHERS; i++) fd[i] = open_events(w.port, "");
    for (int i = 0; i < WATCHERS; i++) free(read_until(fd[i], "event: state\n"));
    check_get(w.port, "/events", 429, "pages watch already");
    close(fd[0]);
    int again = -1;
    char head[16] = "";
    while (strncmp(head, "HTTP/1.1 200", 12) != 0) {
        if (again >= 0) close(again);
        again = open_events(w.port, "");
        assert_true(recv(again, head, sizeof head - 1, MSG_WAITALL) > 0);
    }
    close(again);
    for (int i = 1; i < WATCHERS; i++) close(fd[i]);
    http_server_free(w.server);
}

// The server ends while pages watch.
static void test_end(void **state) {
    (void)state;
    world w;
    char rest[65536];
    begin(&w, NULL);
    int fd = open_events(w.port, "");
    free(read_until(fd, "event: state\n"));
    http_server_free(w.server);
    while (recv(fd, rest, sizeof rest, 0) > 0) continue;
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents), cmocka_unit_test(test_events), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_limit),     cmocka_unit_test(test_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
