// The end of a node, and its notes.
#include "node/internal.h"
#include "node/log_file.h"
#include "node/log_thread.h"

#include <stdarg.h>
#include <stdio.h>

void node_note(node *n, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n->callbacks.note) n->callbacks.note(n->callbacks.context, text);
}

void node_fail(node *n, const braid_error *error) {
    if (!n->error.code) n->error = *error;
    node_end(n);
}

static void stop_passed(uv_timer_t *timer) { node_stop_now(timer->data); }

// Sends the last messages, then stops. Callable from anywhere: a timer runs what must not happen
// inside a link's callback.
void node_end(node *n) {
    if (n->phase >= NODE_STOPPING) return;
    n->phase = NODE_STOPPING;
    n->ending.end_wanted = false;
    for (uint32_t i = 0; i < n->links.count; i++) net_close(n->net, &n->links.id[i], "this peer has left");
    uv_timer_start(&n->deadline, stop_passed, n->links.count ? NODE_STOP_MS : 0, 0);
}

static void close_handle(uv_handle_t *handle, void *unused) {
    (void)unused;
    if (!uv_is_closing(handle) && handle->data) uv_close(handle, NULL);
}

// The run was stopped in order while this peer was away, so its log lacks the end. Started again by
// that log, it would only hear once more that the run is over. Without it, --continue begins from
// the newest checkpoint.
static void set_log_aside(node *n) {
    braid_error why;
    if (!n->ending.log_is_over || !n->config.continues || !n->config.log_path) return;
    if (log_file_retire(n->config.log_path, &why))
        node_note(n, "%s", why.text);
    else
        node_note(n,
                  "the run of the log %s was stopped while this peer was away; the log is kept as %s.old, and the next "
                  "start continues from the newest checkpoint",
                  n->config.log_path, n->config.log_path);
}

// Must not be called inside a link's callback.
void node_stop_now(node *n) {
    if (n->phase == NODE_STOPPED) return;
    n->phase = NODE_STOPPED;
    net_free(n->net);
    n->net = NULL;
    compute_close(n->compute);
    n->compute = NULL;
    log_writer_close(n->log);
    n->log = NULL;
    log_thread_end(&n->loop);
    log_file_close(n->start.log_file);
    n->start.log_file = NULL;
    set_log_aside(n);
    uv_handle_t *own[] = {(uv_handle_t *)&n->deadline, (uv_handle_t *)&n->ticking, (uv_handle_t *)&n->retry,
                          (uv_handle_t *)&n->signals, (uv_handle_t *)&n->command.pipe};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) close_handle(own[i], NULL);
}
