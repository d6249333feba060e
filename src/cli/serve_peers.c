#include "cli/serve_peers.h"

#include "cli/up_restart.h"
#include "serve/adapters.h"
#include "session/limits.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

extern char **environ;

enum { HEALTHY_MS = 2000 };  // a peer that served for so long begins with the shortest pause again

enum {
    MAX_LINE = 1024,
    MAX_ARGUMENTS = 24 + 2 * SESSION_MAX_ADAPTERS,
    MAX_NUMBER = 24,
    MAX_PATH = 4096,
    STOP_MS = 3000
};

typedef struct line_reader {
    uv_pipe_t pipe;
    char line[MAX_LINE], input[MAX_LINE];
    size_t length;
    bool open;
} line_reader;

typedef struct serving_child {
    serve_peers *of;
    uint32_t number;  // from 1
    uint32_t begin, end;
    uv_process_t process;
    uv_pipe_t commands;
    uv_timer_t pause;
    line_reader events, complaints;
    bool alive, serving;
    int handles;  // of the last process, not closed yet
    bool ended;   // and it is to be restarted once they are
    uint64_t began_ms;
    restart_record deaths;
} serving_child;

struct serve_peers {
    uv_loop_t loop;
    uv_async_t stopping;
    uv_timer_t limit;
    pthread_t thread;
    bool stops;
    char program[MAX_PATH], *ticket, *model;
    char *adapter[SESSION_MAX_ADAPTERS];  // NAME=DIRECTORY
    serve_peers_config config;
    serving_child child[SERVE_MAX_PEERS];
};

void serve_peers_share(uint32_t peers, uint32_t copies, uint32_t layers, uint32_t index, uint32_t *begin,
                       uint32_t *end) {
    uint32_t spans = peers / (copies ? copies : 1);
    if (spans > layers) spans = layers;
    if (spans == 0) spans = 1;
    uint32_t span = index % spans;
    *begin = (uint32_t)((uint64_t)layers * span / spans);
    *end = (uint32_t)((uint64_t)layers * (span + 1) / spans);
}

static void note(serve_peers *p, const char *text) {
    if (p->config.note) p->config.note(p->config.context, text);
}

// --- output of a child, line by line

static void on_line(serving_child *c, const char *line) {
    char text[MAX_LINE + 64];
    if (strstr(line, "\"event\":\"serving\"")) {
        c->serving = true;
        snprintf(text, sizeof text, "peer %u serves layers %u to %u, process %d", c->number, c->begin, c->end - 1,
                 (int)uv_process_get_pid(&c->process));
        note(c->of, text);
    }
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room) {
    line_reader *r = (line_reader *)handle;
    (void)wanted;
    *room = uv_buf_init(r->input, sizeof r->input);
}

// A longer line loses its end. Returns at each end of a line.
static size_t take_line(line_reader *r, const char *bytes, size_t count, bool *ended) {
    size_t i = 0;
    *ended = false;
    while (i < count && !*ended) {
        char letter = bytes[i++];
        if (letter == '\n')
            *ended = true;
        else if (r->length + 1 < sizeof r->line)
            r->line[r->length++] = letter;
    }
    r->line[r->length] = 0;
    return i;
}

static void on_events(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    line_reader *r = (line_reader *)stream;
    serving_child *c = stream->data;
    if (count < 0) uv_read_stop(stream);
    for (size_t at = 0; count > 0 && at < (size_t)count;) {
        bool ended;
        at += take_line(r, bytes->base + at, (size_t)count - at, &ended);
        if (!ended) continue;
        on_line(c, r->line);
        r->length = 0;
    }
}

// Keeps the last line.
static void on_complaints(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    line_reader *r = (line_reader *)stream;
    if (count < 0) uv_read_stop(stream);
    for (size_t at = 0; count > 0 && at < (size_t)count;) {
        bool ended;
        at += take_line(r, bytes->base + at, (size_t)count - at, &ended);
        if (ended && at < (size_t)count) r->length = 0;
    }
}

// --- start and end of a child

static void child_start(serving_child *c);

static void on_pause(uv_timer_t *timer) { child_start(timer->data); }

static void restart(serving_child *c) {
    uint64_t now = uv_now(&c->of->loop), pause;
    char text[MAX_LINE + 160];
    if (c->serving && now - c->began_ms >= HEALTHY_MS) c->deaths = (restart_record){.losses = 0};
    restart_note_death(&c->deaths, now, now - c->began_ms, c->serving);
    pause = restart_note_loss(&c->deaths);
    if (restart_is_hopeless(&c->deaths)) {
        snprintf(text, sizeof text, "peer %u ended %d times in a row, and is not started again: %s", c->number,
                 RESTART_MOST, c->complaints.line);
        note(c->of, text);
        return;
    }
    snprintf(text, sizeof text, "peer %u with layers %u to %u ended; starting it again in %.3g s%s%s", c->number,
             c->begin, c->end - 1, (double)pause * 1e-3, c->complaints.line[0] ? ": " : "", c->complaints.line);
    note(c->of, text);
    uv_timer_start(&c->pause, on_pause, pause, 0);
}

static void on_closed(uv_handle_t *handle) {
    serving_child *c = handle->data;
    if (--c->handles > 0 || !c->ended) return;
    c->ended = false;
    if (!c->of->stops) restart(c);
}

static void close_one(serving_child *c, uv_handle_t *handle) {
    handle->data = c;
    if (!uv_is_closing(handle)) uv_close(handle, on_closed);
}

static void child_close(serving_child *c) {
    c->ended = true;
    close_one(c, (uv_handle_t *)&c->process);
    close_one(c, (uv_handle_t *)&c->commands);
    close_one(c, (uv_handle_t *)&c->events.pipe);
    close_one(c, (uv_handle_t *)&c->complaints.pipe);
}

static void stop_timers(serve_peers *p) {
    for (uint32_t i = 0; i < p->config.peers; i++)
        if (p->child[i].alive) return;
    for (uint32_t i = 0; i < p->config.peers; i++)
        if (!uv_is_closing((uv_handle_t *)&p->child[i].pause)) uv_close((uv_handle_t *)&p->child[i].pause, NULL);
    if (!uv_is_closing((uv_handle_t *)&p->limit)) uv_close((uv_handle_t *)&p->limit, NULL);
    if (!uv_is_closing((uv_handle_t *)&p->stopping)) uv_close((uv_handle_t *)&p->stopping, NULL);
}

static void on_exit_of_child(uv_process_t *process, int64_t status, int signal_number) {
    serving_child *c = process->data;
    (void)status, (void)signal_number;
    c->alive = false;
    child_close(c);
    if (c->of->stops) stop_timers(c->of);
}

// The user's environment and configuration apply to `serve` only.
static char **environment_make(void) {
    static char no_file[] = "BRAID_CONFIG=/dev/null";
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    char **own = calloc(count + 2, sizeof *own);
    for (size_t i = 0; own && i < count; i++)
        if (strncmp(environ[i], "BRAID_", 6) != 0) own[kept++] = environ[i];
    if (own) own[kept] = no_file;
    return own;
}

typedef struct arguments {
    char *list[MAX_ARGUMENTS];
    char number[4][MAX_NUMBER];
    uint32_t count, numbers;
} arguments;

static void add(arguments *a, const char *flag, const char *value) {
    a->list[a->count++] = (char *)(uintptr_t)flag;
    if (value) a->list[a->count++] = (char *)(uintptr_t)value;
}

static void add_number(arguments *a, const char *flag, uint64_t value, const char *unit) {
    if (value == 0) return;
    snprintf(a->number[a->numbers], MAX_NUMBER, "%llu%s", (unsigned long long)value, unit);
    add(a, flag, a->number[a->numbers++]);
}

static void fill_arguments(const serving_child *c, arguments *a) {
    const serve_peers *p = c->of;
    *a = (arguments){.count = 0};
    add(a, p->program, "node");
    add(a, "--json", "--supervised");
    add(a, "--listen", "127.0.0.1:0");
    add(a, "--join", p->ticket);
    add(a, "--model", p->model);
    snprintf(a->number[a->numbers], MAX_NUMBER, "%u:%u", c->begin, c->end);
    add(a, "--layers", a->number[a->numbers++]);
    add_number(a, "--threads", p->config.threads, "");
    add_number(a, "--max-memory", p->config.max_memory, "");
    add_number(a, "--dead-after", p->config.dead_ns / 1000000, "ms");
    for (uint32_t i = 0; i < p->config.adapter_count; i++) add(a, "--adapter", p->adapter[i]);
}

static void open_pipe(serving_child *c, uv_pipe_t *pipe, uv_stdio_container_t *end, int flags) {
    uv_pipe_init(&c->of->loop, pipe, 0);
    pipe->data = c;
    end->flags = (uv_stdio_flags)(UV_CREATE_PIPE | flags);
    end->data.stream = (uv_stream_t *)pipe;
}

static void child_start(serving_child *c) {
    serve_peers *p = c->of;
    arguments a;
    char **environment = environment_make();
    uv_stdio_container_t ends[3];
    if (!environment) {
        note(p, "no memory to start a peer");
        return;
    }
    fill_arguments(c, &a);
    open_pipe(c, &c->commands, &ends[0], UV_READABLE_PIPE);
    open_pipe(c, &c->events.pipe, &ends[1], UV_WRITABLE_PIPE);
    open_pipe(c, &c->complaints.pipe, &ends[2], UV_WRITABLE_PIPE);
    c->events.length = c->complaints.length = 0;
    c->complaints.line[0] = 0;
    // a group of its own: this process forwards Ctrl-C of the terminal
    const uv_process_options_t options = {.file = p->program,
                                          .args = a.list,
                                          .env = environment,
                                          .exit_cb = on_exit_of_child,
                                          .stdio = ends,
                                          .stdio_count = 3,
                                          .flags = UV_PROCESS_DETACHED};
    c->process.data = c;
    c->handles = 4;
    c->serving = false;
    c->began_ms = uv_now(&p->loop);
    int code = uv_spawn(&p->loop, &c->process, &options);
    free(environment);
    if (code) {
        snprintf(c->complaints.line, sizeof c->complaints.line, "cannot start %.200s: %s", p->program,
                 uv_strerror(code));
        child_close(c);
        return;
    }
    c->alive = true;
    uv_read_start((uv_stream_t *)&c->events.pipe, on_room, on_events);
    uv_read_start((uv_stream_t *)&c->complaints.pipe, on_room, on_complaints);
}

// --- the thread

static void on_limit(uv_timer_t *timer) {
    serve_peers *p = timer->data;
    for (uint32_t i = 0; i < p->config.peers; i++)
        if (p->child[i].alive) uv_process_kill(&p->child[i].process, SIGKILL);
}

// The API node is gone, so the peers have no sessions to hand over.
static void on_stopping(uv_async_t *handle) {
    serve_peers *p = handle->data;
    if (p->stops) return;
    p->stops = true;
    for (uint32_t i = 0; i < p->config.peers; i++)
        if (p->child[i].alive) uv_process_kill(&p->child[i].process, SIGTERM);
    uv_timer_start(&p->limit, on_limit, STOP_MS, 0);
    stop_timers(p);
}

static void *peers_main(void *argument) {
    serve_peers *p = argument;
    for (uint32_t i = 0; i < p->config.peers; i++) child_start(&p->child[i]);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    return NULL;
}

static bool copy_adapters(serve_peers *p) {
    BRAID_ASSERT(p->config.adapter_count <= SESSION_MAX_ADAPTERS);
    for (uint32_t i = 0; i < p->config.adapter_count; i++) {
        const adapter_place *at = &p->config.adapters[i];
        size_t bytes = strlen(at->name) + strlen(at->directory) + 2;
        p->adapter[i] = malloc(bytes);
        if (!p->adapter[i]) return false;
        snprintf(p->adapter[i], bytes, "%s=%s", at->name, at->directory);
    }
    return true;
}

static void fill(serve_peers *p) {
    for (uint32_t i = 0; i < p->config.peers; i++) {
        serving_child *c = &p->child[i];
        *c = (serving_child){.of = p, .number = i + 1};
        uint32_t first = p->config.first_layer;
        serve_peers_share(p->config.peers, p->config.copies, p->config.layers - first, i, &c->begin, &c->end);
        c->begin += first;
        c->end += first;
        uv_timer_init(&p->loop, &c->pause);
        c->pause.data = c;
    }
    uv_timer_init(&p->loop, &p->limit);
    uv_async_init(&p->loop, &p->stopping, on_stopping);
    p->limit.data = p->stopping.data = p;
}

static void peers_free(serve_peers *p) {
    for (uint32_t i = 0; i < SESSION_MAX_ADAPTERS; i++) free(p->adapter[i]);
    free(p->ticket);
    free(p->model);
    free(p);
}

braid_err serve_peers_start(const serve_peers_config *config, serve_peers **out, braid_error *error) {
    *out = NULL;
    if (config->peers < 1 || config->peers > SERVE_MAX_PEERS || config->copies > config->peers)
        return braid_fail(error, BRAID_CONFIG, "%u copies need at least as many peers; raise --peers or lower --copies",
                          config->copies);
    serve_peers *p = calloc(1, sizeof *p);
    if (!p) return braid_fail(error, BRAID_MEMORY, "no memory for the peers");
    size_t size = sizeof p->program;
    p->config = *config;
    p->ticket = strdup(config->ticket);
    p->model = strdup(config->model);
    if (config->program) snprintf(p->program, sizeof p->program, "%s", config->program);
    if (!p->ticket || !p->model || !copy_adapters(p) || (!config->program && uv_exepath(p->program, &size) != 0) ||
        uv_loop_init(&p->loop) != 0) {
        peers_free(p);
        return braid_fail(
            error, BRAID_STATE,
            "cannot start the peers: is /proc mounted, and may this process open more files (ulimit -n)?");
    }
    fill(p);
    if (!tensor_thread_start(&p->thread, peers_main, p)) {
        p->config.peers = 0;
        peers_free(p);
        return braid_fail(error, BRAID_STATE,
                          "cannot start a thread for the peers; raise the limit on processes (ulimit -u)");
    }
    *out = p;
    return BRAID_OK;
}

void serve_peers_stop(serve_peers *p) {
    if (!p) return;
    uv_async_send(&p->stopping);
    pthread_join(p->thread, NULL);
    uv_loop_close(&p->loop);
    peers_free(p);
}
