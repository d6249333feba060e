#include "net/inside.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// --- tables

// Ids are hashes, so any of their bytes can select a bucket.
static link **bucket_of(const net *n, const braid_id *id) { return (link **)&n->bucket[id->bytes[0] % NET_BUCKETS]; }

link *net_find(const net *n, const braid_id *id) {
    link *l = *bucket_of(n, id);
    while (l != NULL && !id_equal(&l->id, id)) l = l->bucket_next;
    return l;
}

link *net_find_dial(const net *n, const braid_id *id, bool enquiry) {
    for (link *l = n->dials > 0 ? n->all : NULL; l != NULL; l = l->next) {
        if (l->dialed && l->state < LINK_UP && !l->fallen && l->enquiry == enquiry && id_equal(&l->id, id)) return l;
    }
    return NULL;
}

link *net_find_held(const net *n, const braid_id *id) {
    for (link *l = n->accepted > 0 ? n->all : NULL; l != NULL; l = l->next) {
        if (l->state == LINK_HELD && id_equal(&l->id, id)) return l;
    }
    return NULL;
}

void net_table_add(net *n, link *l) {
    link **at = bucket_of(n, &l->id);
    l->bucket_next = *at;
    *at = l;
}

void net_table_remove(net *n, link *l) {
    link **at = bucket_of(n, &l->id);
    while (*at != l) at = &(*at)->bucket_next;
    *at = l->bucket_next;
}

// --- callbacks

static void return_payloads(link *l) {
    const net_callbacks *c = &l->net->callbacks;
    uint64_t token = 0;
    while (outbox_pop_done(&l->out, &token)) c->payload_sent(c->context, token);
}

static void add_stats(net_stats *sum, const net_stats *s) {
    sum->control_in += s->control_in;
    sum->control_out += s->control_out;
    sum->bulk_in += s->bulk_in;
    sum->bulk_out += s->bulk_out;
    sum->messages_in += s->messages_in;
    sum->messages_out += s->messages_out;
}

static void stats_of(const link *l, net_stats *out) {
    *out = l->stats;
    out->control_out = l->out.control_out;
    out->bulk_out = l->out.bulk_out;
    out->control_queued = outbox_control_waiting(&l->out);
    out->bulk_queued = l->out.payload_bytes;
}

// After a failed dial, a HELLO from the other direction that was held for it is answered.
static bool answer_held_hello(link *dial) {
    link *held = net_find_held(dial->net, &dial->id);
    if (held != NULL) greeting_release(held);
    return net_find(dial->net, &dial->id) != NULL;
}

static void dial_begin(link *l, const braid_id *id, bool enquiry, const char *first, const char *rest);

// A failed dial continues with the remaining addresses of its list, on a new connection.
static bool dial_other_addresses(const link *l) {
    net *n = l->net;
    char first[WIRE_MAX_ADDRESS], rest[WIRE_MAX_ADDRESS];
    if (!l->dialed || l->up_reported || l->end_unreported || l->reached || *l->dial.other_addresses == '\0' || net_find(n, &l->id) != NULL) return false;
    if (net_find_dial(n, &l->id, l->enquiry) != NULL) return true;
    link *next = connect_split_list(l->dial.other_addresses, first, rest) ? link_new(n, true) : NULL;
    if (next == NULL) return false;
    next->dial.all_refused = l->dial.all_refused && l->tls == NULL;  // another program answered
    next->dial.some_refused = l->dial.some_refused;
    dial_begin(next, &l->id, l->enquiry, first, rest);
    return true;
}

static void report_end(link *l) {
    net *n = l->net;
    const net_callbacks *c = &n->callbacks;
    if (dial_other_addresses(l)) return;
    if (l->up_reported) {
        c->link_down(c->context, &l->id, false, l->reason);
        return;
    }
    // the peer that gave up its own dial for the other direction closes without a reason
    bool crossed = !l->dialed && l->known && (net_find(n, &l->id) != NULL || net_find_dial(n, &l->id, false) != NULL);
    if (l->end_unreported || crossed) return;
    n->totals.failed++;
    if (!l->dialed) {
        if (c->turned_away != NULL) c->turned_away(c->context, l->peer.endpoint, l->reason);
    } else if (l->enquiry ? net_find(n, &l->id) == NULL : !answer_held_hello(l)) {
        if (!n->freed) c->link_down(c->context, &l->id, l->refused, l->reason);
    }
}

static void settle_link(link *l) {
    net *n = l->net;
    net_stats stats;
    stats_of(l, &stats);
    add_stats(&n->totals.bytes, &stats);
    return_payloads(l);
    receive_drop(l);
    if (!n->freed) report_end(l);
    l->unsettled = false;
    link_release(l);
}

void net_settle(net *n) {
    while (n->fallen != NULL) {
        link *l = n->fallen;
        n->fallen = l->fallen_next;
        settle_link(l);
    }
}

static void flush_dirty(net *n) {
    while (n->dirty != NULL) {
        link *l = n->dirty;
        n->dirty = l->dirty_next;
        l->dirty = false;
        link_pump(l);
        if (link_is_open(l)) return_payloads(l);  // otherwise net_settle does
        link_release(l);
    }
}

// Runs before the loop sleeps: writes everything queued since, and reports all fallen links.
static void on_prepare(uv_prepare_t *prepare) {
    net *n = prepare->data;
    while (!n->freed && (n->dirty != NULL || n->fallen != NULL)) {
        flush_dirty(n);
        net_settle(n);
    }
}

// --- life

// Writing to a closed socket must return an error, not end the process.
static void ignore_broken_pipes(void) {
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

static void set_limits(net_config *c) {
    if (c->max_links == 0) c->max_links = NET_MAX_LINKS;
    if (c->max_handshakes == 0) c->max_handshakes = NET_MAX_HANDSHAKES;
    if (c->max_payload == 0 || c->max_payload > WIRE_MAX_PAYLOAD_BYTES) c->max_payload = WIRE_MAX_PAYLOAD_BYTES;
    if (c->max_control_queue == 0) c->max_control_queue = NET_MAX_CONTROL_QUEUE;
    if (c->handshake_ms == 0) c->handshake_ms = NET_HANDSHAKE_MS;
    if (c->alive_ms == 0) c->alive_ms = NET_ALIVE_MS;
}

// Handshakes carry printable ASCII only (wire/handshake.h).
static bool is_plain(const char *text, size_t capacity) {
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~') return false;
    }
    return length < capacity;
}

static braid_err copy_plain(char *to, size_t capacity, const char *from, const char *what, braid_error *error) {
    if (from == NULL) from = "";
    if (!is_plain(from, capacity)) {
        return braid_fail(error, BRAID_ARGUMENT, "the %s must be plain ASCII of fewer than %zu characters", what,
                          capacity);
    }
    memcpy(to, from, strlen(from) + 1);
    return BRAID_OK;
}

static void on_prepare_closed(uv_handle_t *handle) {
    net *n = handle->data;
    n->handles--;
    net_free_if_closed(n);
}

braid_err net_new(uv_loop_t *loop, const identity *id, const net_config *config, net **out, braid_error *error) {
    net *n = calloc(1, sizeof *n);
    if (n == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for the network");
    n->loop = loop;
    n->config = *config;
    n->callbacks = config->callbacks;
    n->self = identity_id(id);
    set_limits(&n->config);
    braid_err e = copy_plain(n->software, sizeof n->software, config->software, "name of the program", error);
    if (e == BRAID_OK) e = tls_context_new(id, &n->tls, error);
    if (e == BRAID_OK && config->cleanse) tls_context_cleanse(n->tls);
    if (e != BRAID_OK) {
        free(n);
        return e;
    }
    ignore_broken_pipes();
    uv_prepare_init(loop, &n->prepare);
    n->prepare.data = n;
    n->handles = 1;
    uv_prepare_start(&n->prepare, on_prepare);
    uv_unref((uv_handle_t *)&n->prepare);
    *out = n;
    return BRAID_OK;
}

void net_free_if_closed(net *n) {
    if (!n->freed || n->handles > 0 || n->connections > 0) return;
    tls_context_free(n->tls);
    free(n->description);
    free(n);
}

void net_free(net *n) {
    if (n == NULL || n->freed) return;
    n->freed = true;
    connect_close_listener(n);
    uv_close((uv_handle_t *)&n->prepare, on_prepare_closed);
    for (link *l = n->all; l != NULL; l = l->next) link_fall(l, "this peer closed its network");
    net_settle(n);
    while (n->dirty != NULL) {
        link *l = n->dirty;
        n->dirty = l->dirty_next;
        l->dirty = false;
        link_release(l);
    }
}

// --- the run

braid_err net_set_run(net *n, const net_run *run, braid_error *error) {
    char address[WIRE_MAX_ADDRESS];
    braid_err e = copy_plain(address, sizeof address, run->leader_address, "leader's address", error);
    if (e != BRAID_OK) return e;
    if (run->description_bytes > WIRE_MAX_DESCRIPTION_BYTES) {
        return braid_fail(error, BRAID_LIMIT, "the run's description has %zu bytes, %d are allowed",
                          run->description_bytes, WIRE_MAX_DESCRIPTION_BYTES);
    }
    char *description = NULL;
    if (run->description != NULL) {
        description = malloc(run->description_bytes + 1);
        if (description == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for the run's description");
        memcpy(description, run->description, run->description_bytes);
    }
    free(n->description);
    n->description = description;
    memcpy(n->leader_address, address, sizeof address);
    n->run = *run;
    n->run.leader_address = n->leader_address;
    n->run.description = description;
    n->has_run = true;
    return BRAID_OK;
}

braid_err net_advertise(net *n, const char *address, braid_error *error) {
    char first[WIRE_MAX_ADDRESS], rest[WIRE_MAX_ADDRESS];
    if (address != NULL && *address != '\0' && !connect_split_list(address, first, rest)) {
        return braid_fail(error, BRAID_ARGUMENT, "\"%s\" is not host:port or [v6]:port", address);
    }
    return copy_plain(n->address, sizeof n->address, address, "address", error);
}

braid_err net_listen(net *n, const char *host, uint16_t port, braid_error *error) {
    if (n->listener != NULL) return braid_fail(error, BRAID_STATE, "it listens on port %u already", n->port);
    return connect_listen(n, host, port, error);
}

uint16_t net_port(const net *n) { return n->port; }

// --- links

static void dial_begin(link *l, const braid_id *id, bool enquiry, const char *first, const char *rest) {
    l->id = *id;
    l->known = true;
    l->enquiry = enquiry;
    strcpy(l->address, first);
    strcpy(l->dial.other_addresses, rest);
    connect_begin(l);
}

static braid_err dial(net *n, const braid_id *id, const char *address, bool enquiry, braid_error *error) {
    char first[WIRE_MAX_ADDRESS], rest[WIRE_MAX_ADDRESS];
    if (id_equal(id, &n->self)) return braid_fail(error, BRAID_ARGUMENT, "a peer does not dial itself");
    if (!connect_split_list(address, first, rest)) {
        return braid_fail(error, BRAID_ARGUMENT, "\"%s\" is not an address: host:port or [v6]:port", address);
    }
    if (n->up + n->dials >= n->config.max_links) {
        return braid_fail(error, BRAID_LIMIT, "this peer has reached its limit of %u links", n->up + n->dials);
    }
    link *l = link_new(n, true);
    if (l == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for a link");
    dial_begin(l, id, enquiry, first, rest);
    return BRAID_OK;
}

braid_err net_dial(net *n, const braid_id *id, const char *address, braid_error *error) {
    if (!n->has_run) return braid_fail(error, BRAID_STATE, "the run is not known yet, so no peer can be dialed");
    if (net_find(n, id) != NULL || net_find_dial(n, id, false) != NULL) return BRAID_OK;
    return dial(n, id, address, false, error);
}

braid_err net_enquire(net *n, const braid_id *id, const char *address, braid_error *error) {
    if (net_find_dial(n, id, true) != NULL) return BRAID_OK;
    return dial(n, id, address, true, error);
}

// The queue exceeds its limit: the other side has stopped reading.
static bool queue_is_full(const link *l, size_t more) {
    return outbox_control_waiting(&l->out) + more > l->net->config.max_control_queue ||
           l->out.payloads >= NET_MAX_PAYLOAD_QUEUE;
}

braid_err net_send(net *n, const braid_id *id, const uint8_t *bytes, size_t count, const void *payload,
                   uint64_t payload_bytes, uint64_t token) {
    link *l = net_find(n, id);
    if (l == NULL) return BRAID_STATE;
    if (count == 0 || count > WIRE_MAX_CONTROL_BYTES || payload_bytes > n->config.max_payload) return BRAID_LIMIT;
    if (queue_is_full(l, count + FRAME_MAX_PREFIX_BYTES)) {
        link_fall(l, "%s has stalled: %zu bytes of messages and %u payloads are queued for it", link_name(l),
                  outbox_control_waiting(&l->out), l->out.payloads);
        return BRAID_LIMIT;
    }
    bool queued = payload == NULL ? outbox_add(&l->out, FRAME_MESSAGE, bytes, count)
                                  : outbox_add_payload(&l->out, bytes, count, payload, payload_bytes, token);
    if (!queued) {
        link_fall(l, "no memory for a message to %s", link_name(l));
        return BRAID_MEMORY;
    }
    l->stats.messages_out++;
    link_set_dirty(l);
    return BRAID_OK;
}

void net_close(net *n, const braid_id *id, const char *reason) {
    link *up = net_find(n, id), *dialed = net_find_dial(n, id, false), *held = net_find_held(n, id);
    if (reason == NULL) reason = "closed";
    if (held != NULL) link_fall_unreported(held);
    if (dialed != NULL) dialed->dial.other_addresses[0] = '\0';
    if (dialed != NULL) link_fall(dialed, "this peer cancelled the dial: %s", reason);
    if (up != NULL) link_leave(up, "this peer closed the link: %s", reason);
}

uint32_t net_leaving(const net *n) {
    uint32_t count = 0;
    for (const link *l = n->all; l != NULL; l = l->next) count += l->state == LINK_LEAVING && l->up_reported && !l->shut;
    return count;
}

bool net_linked(const net *n, const braid_id *id) { return net_find(n, id) != NULL; }
uint32_t net_links(const net *n) { return n->up; }

// --- measurements

static uint64_t rtt_ns(const link *l) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    uv_os_fd_t fd = -1;
    if (uv_fileno((const uv_handle_t *)&l->tcp, &fd) != 0) return 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
    return (uint64_t)info.tcpi_rtt * 1000;
}

bool net_link_stats(const net *n, const braid_id *id, net_stats *out) {
    const link *l = net_find(n, id);
    if (l == NULL) return false;
    stats_of(l, out);
    out->rtt_ns = rtt_ns(l);
    return true;
}

void net_look(const net *n, net_totals *out) {
    *out = n->totals;
    for (const link *l = n->all; l != NULL; l = l->next) {
        net_stats stats;
        if (l->fallen) continue;  // counted already when it was settled, or later
        stats_of(l, &stats);
        add_stats(&out->bytes, &stats);
        out->bytes.control_queued += stats.control_queued;
        out->bytes.bulk_queued += stats.bulk_queued;
    }
}
