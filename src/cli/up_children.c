// Child processes of `braid up`: start, output, commands, end.
#include "cli/up_swarm.h"
#include "train/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room) {
    child *c = handle->data;
    (void)wanted;
    *room = uv_buf_init(c->output.input, sizeof c->output.input);
}

static void on_line(child *c) {
    unsigned long long version;
    report_event news;
    if (c->swarm->settings.measure && measure_line(c)) return;
    if (sscanf(c->output.line, "{\"event\":\"advanced\",\"version\":%llu}", &version) == 1) {
        c->swarm->hooks.advanced(c->swarm, c, version);
        return;
    }
    if (c->swarm->hooks.voters(c->swarm, c, c->output.line)) return;
    if (report_from_json(c->output.line, c->output.bytes, &news, NULL) == BRAID_OK) c->swarm->hooks.event(c->swarm, c, &news);
}

// A child is gone once it has exited and its output is read to the end: the output may report a
// regular end.
static void mourn(child *c) {
    if (!c->exited || !c->heard_out) return;
    c->swarm->alive--;
    c->swarm->hooks.gone(c->swarm, c, c->status, c->signal_number);
}

static void on_events(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    child *c = stream->data;
    if (count < 0) {
        uv_read_stop(stream);
        c->heard_out = true;
        mourn(c);
        return;
    }
    for (ssize_t i = 0; i < count; i++) {
        if (bytes->base[i] != '\n') {
            if (c->output.bytes + 1 < sizeof c->output.line) c->output.line[c->output.bytes++] = bytes->base[i];
            continue;
        }
        c->output.line[c->output.bytes] = 0;
        on_line(c);
        c->output.bytes = 0;
    }
}

// Keeps the last line with content.
static void on_complaints(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    child *c = stream->data;
    if (count < 0) uv_read_stop(stream);
    for (ssize_t i = 0; i < count; i++) {
        char letter = bytes->base[i];
        if (letter == '\n') {
            c->output.complaint_bytes = 0;
            continue;
        }
        if (c->output.complaint_bytes + 1 >= sizeof c->output.complaint) continue;
        c->output.complaint[c->output.complaint_bytes++] = letter;
        c->output.complaint[c->output.complaint_bytes] = 0;
    }
}

static void on_handle_closed(uv_handle_t *handle) {
    child *c = handle->data;
    c->open_handles--;
}

static void child_close_handles(child *c) {
    uv_handle_t *own[] = {(uv_handle_t *)&c->process, (uv_handle_t *)&c->commands, (uv_handle_t *)&c->events, (uv_handle_t *)&c->complaints};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (own[i]->data && !uv_is_closing(own[i])) uv_close(own[i], on_handle_closed);
}

static void on_ended(uv_process_t *process, int64_t status, int signal_number) {
    child *c = process->data;
    c->alive = false;
    c->exited = true;
    c->status = status;
    c->signal_number = signal_number;
    mourn(c);
}

// Children get all flags from here: the user's environment and configuration file apply to `up`
// only.
static char **environment_make(void) {
    size_t count = 0;
    while (environ[count]) count++;
    char **own = calloc(count + 2, sizeof *own);
    if (!own) return NULL;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "BRAID_", 6) != 0) own[kept++] = environ[i];
    own[kept] = "BRAID_CONFIG=/dev/null";
    return own;
}

typedef struct child_arguments {
    char *list[UP_MAX_ARGUMENTS];
    char numbers[UP_MAX_ARGUMENTS / 2][UP_MAX_NUMBER];
    char trace[1024], log[UP_MAX_KEY_PATH + 64], key[UP_MAX_KEY_PATH + 32];
    uint32_t count, number_count;
} child_arguments;

static void argument_add(child_arguments *a, const char *text) {
    BRAID_ASSERT(a->count + 1 < UP_MAX_ARGUMENTS);
    a->list[a->count++] = (char *)(uintptr_t)text;
}

static void argument_text(child_arguments *a, const char *flag, const char *value) {
    if (!value) return;
    argument_add(a, flag);
    argument_add(a, value);
}

static void argument_number(child_arguments *a, const char *flag, uint64_t value) {
    if (!value) return;
    char *text = a->numbers[a->number_count++];
    snprintf(text, UP_MAX_NUMBER, "%llu", (unsigned long long)value);
    argument_text(a, flag, text);
}

static void key_path(const swarm *s, uint32_t share, char path[UP_MAX_KEY_PATH + 32]) {
    snprintf(path, UP_MAX_KEY_PATH + 32, "%s/share%u.key", s->keys.path, share);
}

// A restarted peer must find its log store, or it is another voter. This includes the first leader
// after it has lost the leadership.
static void argument_log(const swarm *s, const child *c, child_arguments *a) {
    bool kept = !s->settings.log && s->keys.path[0] && !swarm_has_one_voter(s);
    if (!s->settings.log && !kept) return;
    size_t room = sizeof a->log;
    int written = kept ? snprintf(a->log, room, "%s/log", s->keys.path) : snprintf(a->log, room, "%s", s->settings.log);
    if (c->number != 1 && (size_t)written < room) snprintf(a->log + written, room - (size_t)written, ".data%u", c->number);
    argument_text(a, "--log", a->log);
}

// The ticket for a joining peer: the leader's, else that of a peer with knowledge of the voters.
static const char *ticket_for_joiner(const swarm *s) {
    const child *best = NULL;
    for (uint32_t i = 0; i < s->child_count && !s->progress.leading; i++) {
        const child *c = s->children[i];
        bool better = !best || (best->role == CHILD_RELAY && c->role != CHILD_RELAY);
        if (c->alive && c->joined && *c->ticket && better) best = c;
    }
    return best ? best->ticket : s->progress.ticket;
}

static void arguments_fill(const swarm *s, const child *c, child_arguments *a) {
    child_role role = c->role;
    argument_add(a, s->settings.program);
    argument_add(a, "node");
    argument_add(a, "--supervised");
    argument_add(a, "--json");
    if (s->settings.measure) argument_add(a, "--measure");
    argument_text(a, "--listen", "127.0.0.1:0");
    argument_number(a, "--voters", s->settings.voters);
    argument_number(a, "--threads", s->settings.threads);
    if (c->whole) argument_add(a, "--whole");
    if (c->whole) argument_text(a, "--state-dir", s->settings.state_directory);
    if (s->settings.shadows > 0 && !c->whole) argument_add(a, "--shadow");
    if (role != CHILD_RELAY) argument_number(a, "--shadows", s->settings.shadows);
    argument_number(a, "--capacity", s->settings.capacity);
    argument_number(a, "--max-memory", s->settings.max_memory);
    argument_number(a, "--carried", s->settings.carried);
    if (s->settings.trace) {
        snprintf(a->trace, sizeof a->trace, "%s/%s", s->settings.trace, c->name);
        argument_text(a, "--trace", a->trace);
    }
    if (role != CHILD_RELAY) argument_text(a, "--run", s->settings.run_path);
    if (role == CHILD_DATA) argument_add(a, "--data");
    if (role != CHILD_RELAY && s->settings.private_data) {
        argument_number(a, "--share", c->number);
        key_path(s, c->number, a->key);
        argument_text(a, "--identity", a->key);
    }
    if (role != CHILD_RELAY) argument_log(s, c, a);
    // a relay on this machine need not fetch the model's weights
    const swarm_settings *set = &s->settings;
    bool fetches = role == CHILD_RELAY && !set->resume && run_has_model(set->run);
    argument_text(a, "--resume", fetches ? set->model : set->resume);
    if (role != CHILD_RELAY) argument_text(a, "--from", set->from);
    else if (set->run->recipe.adapter.rank > 0) argument_text(a, "--from", set->model);
    if (s->settings.continues && role != CHILD_RELAY) argument_add(a, "--continue");
    if (role != CHILD_LEADER) {
        argument_text(a, "--join", ticket_for_joiner(s));
        return;
    }
    argument_add(a, "--lead");
    argument_add(a, "--anew");
    if (!s->settings.anew) argument_add(a, "--no-set-aside");
    argument_number(a, "--wait-data-peers", s->settings.data_peers);
    argument_number(a, "--wait-relays", s->settings.relays + s->settings.wholes * (s->settings.stages - 1));
}

static void pipe_open(swarm *s, child *c, uv_pipe_t *pipe, uv_stdio_container_t *end, int flags) {
    uv_pipe_init(&s->loop, pipe, 0);
    pipe->data = c;
    c->open_handles++;
    end->flags = (uv_stdio_flags)(UV_CREATE_PIPE | flags);
    end->data.stream = (uv_stream_t *)pipe;
}

static int child_start(swarm *s, child *c) {
    child_arguments arguments = {.count = 0};
    arguments_fill(s, c, &arguments);
    char **environment = environment_make();
    if (!environment) return UV_ENOMEM;
    uv_stdio_container_t ends[3];
    pipe_open(s, c, &c->commands, &ends[0], UV_READABLE_PIPE);
    pipe_open(s, c, &c->events, &ends[1], UV_WRITABLE_PIPE);
    pipe_open(s, c, &c->complaints, &ends[2], UV_WRITABLE_PIPE);
    // A separate session: this process forwards Ctrl-C of the terminal.
    uv_process_options_t options = {
        .file = s->settings.program, .args = arguments.list, .env = environment, .exit_cb = on_ended, .stdio = ends, .stdio_count = 3,
        .flags = UV_PROCESS_DETACHED,
    };
    c->process.data = c;
    c->open_handles++;
    int code = uv_spawn(&s->loop, &c->process, &options);
    free(environment);
    if (code) return code;
    c->began_ms = uv_now(&s->loop);
    c->began_at = s->progress.furthest;
    c->alive = true;
    c->pid = uv_process_get_pid(&c->process);
    s->alive++;
    uv_read_start((uv_stream_t *)&c->events, on_room, on_events);
    uv_read_start((uv_stream_t *)&c->complaints, on_room, on_complaints);
    if (c->role == CHILD_RELAY) setpriority(PRIO_PROCESS, (id_t)c->pid, UP_RELAY_NICE);
    return 0;
}

static void child_name(child *c) {
    const char *kind = c->whole ? "whole" : c->role == CHILD_DATA ? "data" : "relay";
    if (c->role == CHILD_LEADER) strcpy(c->name, "leader");
    else snprintf(c->name, sizeof c->name, "%s%u", kind, c->number);
}

static braid_err spawn(swarm *s, child_role role, uint32_t number, bool whole, braid_error *error) {
    if (s->child_count == UP_MAX_CHILDREN) return braid_fail(error, BRAID_LIMIT, "more than %d processes; start fewer relays", UP_MAX_CHILDREN);
    child *c = calloc(1, sizeof *c);
    if (!c) return braid_fail(error, BRAID_MEMORY, "no memory for another child process");
    c->swarm = s;
    c->role = role;
    c->generation = s->progress.generation;
    c->idle = 1;
    s->children[s->child_count++] = c;
    c->number = number;
    c->whole = whole;
    child_name(c);
    int code = child_start(s, c);
    if (code) {
        child_close_handles(c);
        return braid_fail(error, BRAID_STATE, "cannot start %s: %s", s->settings.program, uv_strerror(code));
    }
    report_event news = {.kind = REPORT_SPAWNED, .process = (uint64_t)c->pid};
    snprintf(news.role, sizeof news.role, "%s", c->name);
    report_tell(s->report, &news);
    return BRAID_OK;
}

braid_err swarm_spawn(swarm *s, child_role role, braid_error *error) {
    bool whole = s->settings.whole_only && role != CHILD_RELAY;
    return spawn(s, role, role == CHILD_RELAY ? ++s->relay_count : s->child_count + 1, whole, error);
}

braid_err swarm_spawn_whole(swarm *s, braid_error *error) { return spawn(s, CHILD_DATA, s->child_count + 1, true, error); }

braid_err swarm_spawn_again(swarm *s, const child *gone, braid_error *error) { return spawn(s, CHILD_DATA, gone->number, gone->whole, error); }

static void on_written(uv_write_t *request, int status) {
    (void)status;  // a child that is gone needs no commands
    free(request);
}

void child_command(child *c, const char *text) {
    if (!c->alive) return;
    size_t length = strlen(text);
    uv_write_t *request = malloc(sizeof *request + length);
    if (!request) return;
    char *copy = (char *)(request + 1);
    memcpy(copy, text, length);
    uv_buf_t bytes = uv_buf_init(copy, (unsigned)length);
    if (uv_write(request, (uv_stream_t *)&c->commands, &bytes, 1, on_written) != 0) free(request);
}

void child_kill(child *c) {
    if (!c->alive) return;
    c->killed = true;
    uv_process_kill(&c->process, SIGKILL);
}

void swarm_free_children(swarm *s) {
    for (uint32_t i = 0; i < s->child_count; i++) child_close_handles(s->children[i]);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    for (uint32_t i = 0; i < s->child_count; i++) free(s->children[i]);
    s->child_count = 0;
}
