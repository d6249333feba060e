#include "net/inside.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

bool link_is_open(const link *l) { return !l->fallen; }
const char *link_name(const link *l) { return l->dialed ? l->address : l->peer.endpoint; }

// --- birth

static uint32_t *state_counter(link *l, link_state state) {
    if (state == LINK_UP) return &l->net->up;
    if (state == LINK_DEAD) return NULL;
    if (!l->dialed) return &l->net->accepted;
    return state == LINK_LEAVING ? NULL : &l->net->dials;
}

void link_set_state(link *l, link_state state) {
    uint32_t *from = state_counter(l, l->state), *to = state_counter(l, state);
    if (from != NULL) (*from)--;
    if (to != NULL) (*to)++;
    l->state = state;
}

link *link_new(net *n, bool dialed) {
    link *l = calloc(1, sizeof *l);
    if (l == NULL) return NULL;
    l->net = n;
    l->dialed = dialed;
    l->peer.dialed = dialed;
    l->opened_event = ++n->events;
    l->dial.all_refused = true;
    l->state = LINK_DEAD;
    link_set_state(l, LINK_DIALING);
    uv_timer_init(n->loop, &l->timer);
    l->timer.data = l;
    l->handles = 1;
    l->next = n->all;
    if (n->all != NULL) n->all->previous = l;
    n->all = l;
    n->connections++;
    return l;
}

// --- death

static void list_remove(link *l) {
    net *n = l->net;
    if (l->next != NULL) l->next->previous = l->previous;
    if (l->previous != NULL) {
        l->previous->next = l->next;
    } else {
        n->all = l->next;
    }
    n->connections--;
}

void link_release(link *l) {
    if (l->state != LINK_DEAD || l->handles > 0 || l->unsettled || l->dirty) return;
    net *n = l->net;
    list_remove(l);
    uv_freeaddrinfo(l->dial.addresses);
    tls_free(l->tls);
    tls_give_back(n->tls, l->writing);
    outbox_close(&l->out);
    free(l->decoder);
    free(l);
    net_free_if_closed(n);
}

static void on_handle_closed(uv_handle_t *handle) {
    link *l = handle->data;
    l->handles--;
    link_release(l);
}

static void link_close(link *l) {
    if (l->state == LINK_DEAD) return;
    link_set_state(l, LINK_DEAD);
    if (l->dial.resolving) uv_cancel((uv_req_t *)&l->dial.resolve);
    if (l->tcp_open && !uv_is_closing((uv_handle_t *)&l->tcp)) uv_close((uv_handle_t *)&l->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&l->timer, on_handle_closed);
}

static void fall(link *l, const char *format, va_list arguments) {
    if (l->fallen) return;
    net *n = l->net;
    l->fallen = true;
    if (vsnprintf(l->reason, sizeof l->reason, format, arguments) < 0) l->reason[0] = '\0';
    if (l->state == LINK_UP) net_table_remove(n, l);
    outbox_drop_payloads(&l->out);
    l->unsettled = true;
    l->fallen_next = n->fallen;
    n->fallen = l;
}

void link_fall(link *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fall(l, format, arguments);
    va_end(arguments);
    link_close(l);
}

void link_fall_unreported(link *l) {
    l->end_unreported = true;
    link_fall(l, "not needed");
}

void link_abandon(link *l) {
    link_fall(l, "%s was closed for newer connections, because its handshake was not complete", link_name(l));
}

void link_leave(link *l, const char *format, ...) {
    if (l->fallen) return;
    va_list arguments;
    va_start(arguments, format);
    fall(l, format, arguments);
    va_end(arguments);
    if (l->state == LINK_DIALING) {
        link_close(l);
        return;
    }
    link_set_state(l, LINK_LEAVING);
    link_set_timer(l, NET_CLOSE_MS);
    link_set_dirty(l);
}

static void on_timer(uv_timer_t *timer) {
    link *l = timer->data;
    switch (l->state) {
    case LINK_DIALING: connect_timed_out(l); break;
    case LINK_SECURING:
    case LINK_GREETING:
    case LINK_HELD:
        link_fall(l, "%s did not finish its handshake within %u ms", link_name(l), l->net->config.handshake_ms);
        break;
    case LINK_LEAVING: link_close(l); break;
    case LINK_UP:
    case LINK_DEAD: break;
    }
}

void link_set_timer(link *l, uint64_t milliseconds) { uv_timer_start(&l->timer, on_timer, milliseconds, 0); }

// --- writing

void link_set_dirty(link *l) {
    if (l->dirty) return;
    l->dirty = true;
    l->dirty_next = l->net->dirty;
    l->net->dirty = l;
}

bool link_queue(link *l, frame_kind kind, const uint8_t *bytes, size_t count) {
    if (!outbox_add(&l->out, kind, bytes, count)) {
        link_fall(l, "no memory for a message to %s", link_name(l));
        return false;
    }
    link_set_dirty(l);
    return true;
}

static void on_shutdown(uv_shutdown_t *request, int status) {
    (void)request, (void)status;  // closed by the end of the other side's stream, or by the timer
}

static void on_write(uv_write_t *request, int status) {
    link *l = request->data;
    tls_give_back(l->net->tls, l->writing);
    l->writing = NULL;
    if (status == UV_ECANCELED) return;
    if (status < 0 && l->fallen) {
        link_close(l);
    } else if (status < 0) {
        link_fall(l, "the connection to %s broke: %s", link_name(l), uv_strerror(status));
    } else {
        link_set_dirty(l);
    }
}

static void encrypt(link *l) {
    while (tls_waiting(l->tls) < NET_BATCH_BYTES) {
        const uint8_t *bytes = NULL;
        size_t count = outbox_next(&l->out, l->net->scratch, &bytes);
        if (count == 0 && !outbox_is_empty(&l->out)) link_fall(l, "no memory for a message to %s", link_name(l));
        if (count == 0) return;
        if (tls_write(l->tls, bytes, count) != TLS_OK) {
            link_fall(l, "%s: %s", link_name(l), tls_reason(l->tls));
            return;
        }
    }
}

// Returns true when the kernel took the whole batch at once. That costs one system call: a write through the loop
// costs an epoll_ctl and one more turn of the loop even then (libuv 1.44).
static bool write_batch(link *l, size_t count, bool at_once) {
    uv_stream_t *stream = (uv_stream_t *)&l->tcp;
    uv_buf_t buffer = uv_buf_init((char *)l->writing, (unsigned)count);
    int taken = at_once ? uv_try_write(stream, &buffer, 1) : 0;
    if (taken < 0) taken = 0;  // uv_write reports an error that stays
    int status = 0;
    if ((size_t)taken < count) {
        buffer = uv_buf_init((char *)l->writing + taken, (unsigned)(count - (size_t)taken));
        l->write.data = l;
        status = uv_write(&l->write, stream, &buffer, 1, on_write);
        if (status == 0) return false;
    }
    tls_give_back(l->net->tls, l->writing);
    l->writing = NULL;
    if (status == 0) return true;
    if (!l->fallen) link_fall(l, "the connection to %s broke: %s", link_name(l), uv_strerror(status));
    link_close(l);
    return false;
}

// Returns false when the queue is empty, or on its way.
static bool pump_batch(link *l, bool at_once) {
    encrypt(l);
    if (l->state == LINK_LEAVING && outbox_is_empty(&l->out) && !l->close_sent) {
        l->close_sent = true;
        tls_shutdown(l->tls);
    }
    if (l->state == LINK_DEAD) return false;
    size_t count = 0;
    l->writing = tls_take_output(l->tls, &count);
    if (l->writing != NULL) return write_batch(l, count, at_once);
    if (l->close_sent && !l->shut) {
        l->shut = true;
        if (uv_shutdown(&l->shutdown, (uv_stream_t *)&l->tcp, on_shutdown) != 0) link_close(l);
    }
    return false;
}

// After NET_PUMP_BATCHES the loop reads and serves other links before it goes on.
void link_pump(link *l) {
    if (l->writing != NULL || l->state == LINK_DEAD || l->tls == NULL) return;
    for (unsigned batch = 0; pump_batch(l, batch < NET_PUMP_BATCHES); batch++) continue;
}

// --- reading

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)suggested;
    link *l = handle->data;
    *buffer = uv_buf_init((char *)l->net->input, sizeof l->net->input);
}

static void decode(link *l, const uint8_t *bytes, size_t count) {
    while (link_is_open(l)) {
        frame_event event;
        size_t used = frame_decode(l->decoder, bytes, count, &event);
        bytes += used;
        count -= used;
        switch (event.kind) {
        case FRAME_EVENT_NONE: return;
        case FRAME_EVENT_ERROR: link_leave(l, "%s sent %s", link_name(l), event.error); return;
        case FRAME_EVENT_HANDSHAKE: greeting_receive(l, &event); break;
        default: receive_event(l, &event);
        }
    }
}

// False when no more can be read now.
static bool decrypt(link *l) {
    net *n = l->net;
    size_t count = 0;
    switch (tls_read(l->tls, n->plain, sizeof n->plain, &count)) {
    case TLS_OK:
        decode(l, n->plain, count);
        if (n->config.cleanse) explicit_bzero(n->plain, count);
        return true;
    case TLS_AGAIN: return false;
    case TLS_CLOSED: link_fall(l, "%s closed the link", link_name(l)); return false;
    default: link_leave(l, "%s: %s", link_name(l), tls_reason(l->tls)); return false;
    }
}

static void take_input(link *l) {
    if (l->state == LINK_SECURING) {
        switch (tls_handshake(l->tls)) {
        case TLS_OK: greeting_secured(l); break;
        case TLS_AGAIN: break;
        default: link_leave(l, "%s: %s", link_name(l), tls_reason(l->tls));
        }
    }
    if (l->state == LINK_SECURING) return;
    while (link_is_open(l) && decrypt(l)) continue;
}

static void input_ended(link *l, ssize_t status) {
    if (l->state == LINK_LEAVING) {
        link_close(l);
    } else if (status != UV_EOF) {
        link_fall(l, "the connection to %s broke: %s", link_name(l), uv_strerror((int)status));
    } else if (l->state == LINK_UP) {
        link_fall(l, "the connection to %s ended without a shutdown message: that peer died, or lost its network",
                  link_name(l));
    } else {
        link_fall(l, "%s closed the connection during the handshake", link_name(l));
    }
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    link *l = stream->data;
    if (l->state == LINK_DEAD || count == 0) return;
    if (count < 0) {
        input_ended(l, count);
        return;
    }
    if (l->state == LINK_LEAVING) return;
    l->received_ms = uv_now(l->net->loop);
    tls_feed(l->tls, (const uint8_t *)buffer->base, (size_t)count);
    take_input(l);
    if (tls_waiting(l->tls) > 0) link_set_dirty(l);
}

// --- the TCP connection is established

static void endpoint_name(link *l) {
    struct sockaddr_storage s = {0};
    int length = sizeof s;
    char host[INET6_ADDRSTRLEN] = "?";
    if (uv_tcp_getpeername(&l->tcp, (struct sockaddr *)&s, &length) == 0)
        uv_ip_name((const struct sockaddr *)&s, host, sizeof host);
    const char *form = strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u";
    snprintf(l->peer.endpoint, sizeof l->peer.endpoint, form, host, connect_port_of(&s));
}

// These options are optional, so a kernel without them is no error.
static void socket_tune(link *l) {
    uv_os_fd_t fd = -1;
    uv_tcp_nodelay(&l->tcp, 1);
    int unsent = NET_UNSENT_BYTES;
    unsigned lost_ms = NET_LOST_MS;
    if (uv_fileno((uv_handle_t *)&l->tcp, &fd) != 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof lost_ms);
}

void link_connected(link *l) {
    endpoint_name(l);
    socket_tune(l);
    l->tls = tls_new(l->net->tls, l->dialed ? &l->id : NULL);
    l->decoder = malloc(sizeof *l->decoder);
    if (l->tls == NULL || l->decoder == NULL || uv_read_start((uv_stream_t *)&l->tcp, on_room, on_read) != 0) {
        link_fall(l, "no memory for the link to %s", link_name(l));
        return;
    }
    frame_decoder_init(l->decoder);
    link_set_state(l, LINK_SECURING);
    link_set_timer(l, l->net->config.handshake_ms);
    if (!l->dialed) return;
    if (tls_handshake(l->tls) == TLS_FAILED) link_leave(l, "%s: %s", link_name(l), tls_reason(l->tls));
    link_set_dirty(l);
}
