// Signals, and the supervisor's commands on standard input.
#include "node/internal.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void on_signal(uv_signal_t *handle, int number) {
    (void)number;
    node_drain(handle->data);
}

static void command_do(node *n, const char *text) {
    braid_error error;
    if (strcmp(text, "drain") == 0) node_drain(n);
    else if (strcmp(text, "end") == 0) node_feed(n, &(event){.kind = EVENT_DRAIN, .whole = true});
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
    // The supervisor is gone, and with it everybody who cares for this process.
    braid_fail(&n->error, BRAID_STATE, "the supervisor ended");
    node_stop_now(n);
}

static bool watch_signal(node *n, uv_signal_t *handle, int number) {
    if (uv_signal_init(&n->loop, handle) != 0) return false;
    handle->data = n;
    return uv_signal_start(handle, on_signal, number) == 0;
}

// A terminal that goes takes its leave for him who sat there; but not with nohup.
static bool watch_hangup(node *n) {
    struct sigaction now;
    if (sigaction(SIGHUP, NULL, &now) != 0) return false;
    return now.sa_handler == SIG_IGN || watch_signal(n, &n->hangup, SIGHUP);
}

static bool watch_supervisor(node *n) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (uv_pipe_init(&n->loop, &n->commands, 0) != 0) return false;
    n->commands.data = n;
    return uv_pipe_open(&n->commands, STDIN_FILENO) == 0 && uv_read_start((uv_stream_t *)&n->commands, on_room, on_command) == 0;
}

braid_err node_watch(node *n, braid_error *error) {
    bool good = watch_signal(n, &n->interrupt, SIGINT) && watch_signal(n, &n->terminate, SIGTERM) && watch_hangup(n);
    if (good && n->config.supervised) good = watch_supervisor(n);
    return good ? BRAID_OK : braid_fail(error, BRAID_STATE, "cannot listen to signals and commands");
}
