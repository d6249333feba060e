// Signals, and the supervisor's commands on standard input.
#include "node/internal.h"
#include "node/stop.h"

#include <string.h>
#include <unistd.h>

static void on_signal(uv_poll_t *handle, int status, int events) {
    (void)status, (void)events;
    stop_clear();
    node_request(handle->data);
}

static void command_do(node *n, const char *text) {
    braid_error error;
    if (strcmp(text, "drain") == 0) node_drain(n);
    else if (strcmp(text, "stop") == 0) n->parent_stops = true;
    else if (strcmp(text, "end") == 0) node_end_run(n, false);
    else if (strcmp(text, "drop") == 0) node_end_run(n, true);
    else if (strcmp(text, "save") == 0) node_save(n, true);
    else if (strcmp(text, "live") == 0) n->die_at = (fault){0};
    else if (strncmp(text, "die-at ", 7) != 0) node_note(n, "the command \"%s\" is unknown", text);
    else if (fault_parse(text + 7, &n->die_at, &error)) node_note(n, "%s", error.text);
}

static void command_take(node *n, const char *bytes, size_t count) {
    for (size_t i = 0; i < count && n->phase != NODE_STOPPED; i++) {
        if (bytes[i] != '\n') {
            if (n->command_bytes + 1 < sizeof n->command) n->command[n->command_bytes++] = bytes[i];
            continue;
        }
        n->command[n->command_bytes] = 0;
        n->command_bytes = 0;
        command_do(n, n->command);
    }
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room) {
    node *n = handle->data;
    (void)wanted;
    *room = uv_buf_init(n->command_input, sizeof n->command_input);
}

static void on_command(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    node *n = stream->data;
    if (count > 0) command_take(n, bytes->base, (size_t)count);
    if (count >= 0) return;
    uv_read_stop(stream);
    node_orphan(n);
}

static bool watch_signals(node *n) {
    if (!n->config.signals) return true;
    if (uv_poll_init(&n->loop, &n->signals, stop_descriptor()) != 0) return false;
    n->signals.data = n;
    return uv_poll_start(&n->signals, UV_READABLE, on_signal) == 0;
}

static bool watch_supervisor(node *n) {
    if (uv_pipe_init(&n->loop, &n->commands, 0) != 0) return false;
    n->commands.data = n;
    return uv_pipe_open(&n->commands, STDIN_FILENO) == 0 && uv_read_start((uv_stream_t *)&n->commands, on_room, on_command) == 0;
}

braid_err node_watch(node *n, braid_error *error) {
    bool good = watch_signals(n) && (!n->config.supervised || watch_supervisor(n));
    return good ? BRAID_OK : braid_fail(error, BRAID_STATE, "cannot watch for signals and commands");
}
