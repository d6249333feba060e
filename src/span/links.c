// The net's callbacks, and messages in order.
#include "node/address.h"
#include "node/clock.h"
#include "node/own_address.h"
#include "span/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t UNWANTED = UINT64_MAX;  // stands for a blob where the payload is dropped

// --- sending. The net lets messages without payload overtake those with one, and the protocol
// wants their order. So every message but CARDS has a payload, of one byte if it needs none.

span_parcel *span_parcel_new(const session_effect *e) {
    span_parcel *parcel = malloc(sizeof *parcel + e->byte_count);
    if (!parcel) return NULL;
    *parcel = (span_parcel){
        .to = e->id, .ready = true, .overtakes = e->message_kind == SESSION_MESSAGE_CARDS, .count = e->byte_count};
    memcpy(parcel->bytes, e->bytes, e->byte_count);
    return parcel;
}

static void parcel_free(span_peer *p, span_parcel *parcel) {
    if (parcel->payload) blobs_release(p->blobs, parcel->payload);
    free(parcel);
}

static bool needs_a_byte(span_peer *p, span_parcel *parcel) {
    if (parcel->payload || parcel->overtakes) return true;
    uint8_t *byte = blobs_add(p->blobs, 1, &parcel->payload);
    if (byte) *byte = 0;
    return byte != NULL;
}

// A message for a link that fell is lost, as the protocol expects.
static void deliver(span_peer *p, span_parcel *parcel) {
    uint64_t bytes = 0;
    const void *payload = needs_a_byte(p, parcel) && parcel->payload ? blobs_data(p->blobs, parcel->payload, &bytes)
                                                                     : NULL;
    bool sent = (payload || parcel->overtakes) && net_send(p->net, &parcel->to, parcel->bytes, parcel->count, payload,
                                                           bytes, parcel->payload) == BRAID_OK;
    if (sent) parcel->payload = 0;  // until payload_sent
    parcel_free(p, parcel);
}

static bool waits_for(const span_peer *p, const braid_id *to) {
    for (const span_parcel *at = p->away.first; at; at = at->next)
        if (id_equal(&at->to, to)) return true;
    return false;
}

void span_send(span_peer *p, span_parcel *parcel) {
    braid_id self = identity_id(p->config.identity);
    bool here = id_equal(&parcel->to, &self);
    if (!here && parcel->ready && (parcel->overtakes || !waits_for(p, &parcel->to))) {
        deliver(p, parcel);
        return;
    }
    parcel->next = NULL;
    if (here) {
        *p->here.last = parcel;
        p->here.last = &parcel->next;
    } else {
        *p->away.last = parcel;
        p->away.last = &parcel->next;
    }
}

void span_send_message(span_peer *p, const braid_id *to, const session_message *msg, blob_id payload) {
    uint8_t bytes[SESSION_MAX_MESSAGE_BYTES];
    const session_effect e = {.id = *to,
                              .bytes = bytes,
                              .byte_count = session_message_encode(msg, bytes, sizeof bytes),
                              .message_kind = (uint8_t)msg->kind};
    span_parcel *parcel = e.byte_count > 0 ? span_parcel_new(&e) : NULL;
    if (parcel) {
        parcel->payload = payload;
        span_send(p, parcel);
    } else if (payload) {
        blobs_release(p->blobs, payload);
    }
}

// Sends those of `to` up to the first that is not ready.
static void flush(span_peer *p, braid_id to) {
    for (span_parcel **at = &p->away.first; *at;) {
        span_parcel *parcel = *at;
        if (!id_equal(&parcel->to, &to)) {
            at = &parcel->next;
            continue;
        }
        if (!parcel->ready) return;
        *at = parcel->next;
        if (p->away.last == &parcel->next) p->away.last = at;
        deliver(p, parcel);
    }
}

void span_parcel_ready(span_peer *p, span_parcel *parcel) {
    parcel->ready = true;
    flush(p, parcel->to);
    if (!p->stepping) span_feed(p, &(session_event){.kind = SESSION_EVENT_TICK});  // one to itself
}

// --- receiving

uint64_t span_payload_bytes(const span_peer *p, const session_message *msg) {
    const session_message_cache *c = &msg->cache;
    if (msg->kind == SESSION_MESSAGE_PIECE) return msg->piece.count;
    if (msg->kind == SESSION_MESSAGE_ROWS) return msg->rows.count * (uint64_t)span_row_bytes(p);
    if (msg->kind != SESSION_MESSAGE_CACHE || !p->layers.engine || c->layer_end < c->layer_begin) return 0;
    return (uint64_t)c->count * (uint64_t)(c->layer_end - c->layer_begin) * sequence_layer_bytes(p->layers.engine);
}

static void *on_payload_alloc(void *context, const braid_id *id, const uint8_t *bytes, size_t count,
                              uint64_t payload_bytes, uint64_t *token) {
    span_peer *p = context;
    const span_guest *guest = p->config.guest;
    if (guest && guest->is_its(bytes, count)) return guest->alloc(p, id, bytes, count, payload_bytes, token);
    bool good = p->phase == SPAN_RUNNING && session_message_decode(bytes, count, &p->msg);
    uint64_t wanted = good ? span_payload_bytes(p, &p->msg) : 0;
    if (good && payload_bytes == (wanted ? wanted : 1)) return blobs_add(p->blobs, payload_bytes, token);
    *token = UNWANTED;
    return NULL;
}

static void on_payload_drop(void *context, void *payload, uint64_t token) {
    span_peer *p = context;
    (void)payload;
    blobs_release(p->blobs, token);
}

static void on_payload_sent(void *context, uint64_t token) {
    span_peer *p = context;
    if (token) blobs_release(p->blobs, token);
}

static const char *fault_of(span_peer *p, const uint8_t *bytes, size_t count, const void *payload, uint64_t token) {
    if (!session_message_decode(bytes, count, &p->msg)) return "it sent a malformed message";
    if (!payload && token == UNWANTED) return "it sent rows of another size than the model's";
    if (!payload && p->msg.kind != SESSION_MESSAGE_CARDS) return "no memory for what it sent";
    return NULL;
}

// Messages about parts of the model do not concern the protocol.
static bool of_hosts(span_peer *p, const braid_id *from, const void *payload) {
    session_message answer;
    if (p->msg.kind == SESSION_MESSAGE_PIECE) {
        span_fetch_piece(p, from, &p->msg.piece, payload);
    } else if (p->msg.kind == SESSION_MESSAGE_GET_PIECE) {
        blob_id bytes = span_fetch_answer(p, &p->msg.get_piece, &answer);
        span_send_message(p, from, &answer, bytes);
    }
    return p->msg.kind == SESSION_MESSAGE_PIECE || p->msg.kind == SESSION_MESSAGE_GET_PIECE;
}

static void on_message(void *context, const braid_id *id, const uint8_t *bytes, size_t count, void *payload,
                       uint64_t payload_bytes, uint64_t token) {
    span_peer *p = context;
    (void)payload_bytes;
    const span_guest *guest = p->config.guest;
    if (guest && guest->is_its(bytes, count)) {
        const char *fault = guest->receive(p, id, bytes, count, payload, payload_bytes, token);
        if (fault) net_close(p->net, id, fault);
        return;
    }
    const char *wrong = fault_of(p, bytes, count, payload, token);
    bool rows = !wrong && payload && span_payload_bytes(p, &p->msg) > 0;
    if (!wrong && p->phase == SPAN_RUNNING && of_hosts(p, id, rows ? payload : NULL)) {
        if (payload) blobs_release(p->blobs, token);
        return;
    }
    if (payload && (!rows || p->phase != SPAN_RUNNING)) blobs_release(p->blobs, token);
    if (wrong) net_close(p->net, id, wrong);
    if (wrong || p->phase != SPAN_RUNNING) return;
    span_feed(p, &(session_event){.kind = SESSION_EVENT_MESSAGE, .id = *id, .msg = &p->msg, .blob = rows ? token : 0});
}

static bool is_named(const span_peer *p, const braid_id *id) { return id_equal(id, &p->config.join.leader); }

static void on_link_up(void *context, const braid_id *id, const net_peer *other) {
    span_peer *p = context;
    (void)other;
    if (!p->state.linked) {
        p->state.linked = true;
        p->state.linked_ns = clock_now_ns();
    }
    span_feed(p, &(session_event){.kind = SESSION_EVENT_LINK_UP, .id = *id});
}

static void on_link_down(void *context, const braid_id *id, bool refused, const char *reason) {
    span_peer *p = context;
    if (is_named(p, id)) snprintf(p->state.lost, sizeof p->state.lost, "%s", reason);
    span_records_fell(p->state.records, id, reason);
    if (p->config.guest) p->config.guest->link_down(p, id);
    if (p->phase == SPAN_ENQUIRING && is_named(p, id)) {
        uv_timer_start(&p->retry, p->retry.timer_cb, p->state.retry_ms, 0);
        p->state.retry_ms = p->state.retry_ms * 2 < SPAN_RETRY_MOST_MS ? p->state.retry_ms * 2 : SPAN_RETRY_MOST_MS;
        return;
    }
    span_feed(p, &(session_event){.kind = SESSION_EVENT_LINK_DOWN, .id = *id, .refused = refused});
}

static void on_description(void *context, const braid_id *id, const net_run *run) {
    (void)id;
    span_described(context, run);
}

static void on_turned_away(void *context, const char *endpoint, const char *reason) {
    span_peer *p = context;
    if (strstr(reason, "refused")) span_note(p, "%s", reason);
    (void)endpoint;
}

void span_net_callbacks(span_peer *p, net_callbacks *out) {
    *out = (net_callbacks){.context = p,
                           .link_up = on_link_up,
                           .link_down = on_link_down,
                           .message = on_message,
                           .payload_alloc = on_payload_alloc,
                           .payload_drop = on_payload_drop,
                           .payload_sent = on_payload_sent,
                           .description = on_description,
                           .turned_away = on_turned_away};
}

// --- the own address

static void find_address(span_peer *p, const char *host) {
    own_hosts hosts = {.count = 0};
    bool local = !p->config.origin && address_list_is_local(p->config.join.address);
    if (!address_is_wildcard(host)) {
        address_list_add(p->address, host, net_port(p->net));
        return;
    }
    if (!local) own_hosts_find(p->config.origin ? NULL : p->config.join.address, address_is_wildcard_v4(host), &hosts);
    for (uint32_t i = 0; i < hosts.count; i++) address_list_add(p->address, hosts.host[i], net_port(p->net));
    if (!p->address[0]) address_list_add(p->address, "127.0.0.1", net_port(p->net));
}

braid_err span_listen(span_peer *p, braid_error *error) {
    char host[WIRE_MAX_ADDRESS] = "*";
    uint16_t port = 0;
    if (p->config.listen && !address_split_listen(p->config.listen, host, &port, error)) return BRAID_ARGUMENT;
    braid_err err = net_listen(p->net, host, port, error);
    if (err) return err;
    if (p->config.public_address) {
        if (!address_split_public(p->config.public_address, host, &port, error)) return BRAID_ARGUMENT;
        address_list_add(p->address, host, port ? port : net_port(p->net));
    } else {
        find_address(p, host);
    }
    return net_advertise(p->net, p->address, error);
}
