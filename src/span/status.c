// The state of the swarm, for the scheduler and for people.
#include "format/json.h"
#include "node/clock.h"
#include "span/inside.h"

#include <stdio.h>
#include <string.h>

static bool is_usable(const span_peer *p, const session_known *k) {
    const session_card *c = &k->card;
    return c->serves && !c->draining && !k->suspected && hash_equal(&c->model, &p->hash);
}

typedef struct layer_room {
    uint32_t all, free, largest;  // largest: of one peer
} layer_room;

static uint32_t add_to(uint32_t sum, uint32_t more) { return sum > UINT32_MAX - more ? UINT32_MAX : sum + more; }

static void add_rooms(const span_peer *p, const session_view *view, layer_room *rooms, span_room *out) {
    for (uint32_t i = 0; i < view->count; i++) {
        const session_card *c = &view->peer[i].card;
        if (!is_usable(p, &view->peer[i])) continue;
        if (!hash_equal(&c->kernels, &p->kernels)) {
            out->other_kernels++;
            continue;
        }
        out->peers++;
        for (uint32_t l = c->layer_begin; l < c->layer_end && l < p->model.layers; l++) {
            rooms[l].all = add_to(rooms[l].all, c->cache_tokens);
            rooms[l].free = add_to(rooms[l].free, c->free_tokens);
            if (c->cache_tokens > rooms[l].largest) rooms[l].largest = c->cache_tokens;
        }
    }
}

void span_peer_room(span_peer *p, span_room *out) {
    layer_room rooms[SPAN_MAX_LAYERS] = {{0}};
    session_view view = {.count = 0};
    uint32_t layers = p->model.layers;
    *out = (span_room){.lacks_begin = 0, .lacks_end = layers, .longest_repair_ns = p->told.longest_repair_ns};
    if (p->phase != SPAN_RUNNING) return;
    session_peer_view(p->core, &view);
    add_rooms(p, &view, rooms, out);
    uint32_t first = 0;
    while (first < layers && rooms[first].all > 0) first++;
    out->lacks_begin = out->lacks_end = first;
    while (out->lacks_end < layers && rooms[out->lacks_end].all == 0) out->lacks_end++;
    if (first < layers) return;
    out->tokens = out->free_tokens = out->longest = UINT32_MAX;
    for (uint32_t l = 0; l < layers; l++) {
        if (rooms[l].all < out->tokens) out->tokens = rooms[l].all;
        if (rooms[l].free < out->free_tokens) out->free_tokens = rooms[l].free;
        if (rooms[l].largest < out->longest) out->longest = rooms[l].largest;
    }
}

void span_peer_blocker(const span_room *room, char text[SPAN_MAX_NOTE]) {
    uint32_t count = room->lacks_end - room->lacks_begin, others = room->other_kernels;
    size_t used = 0;
    text[0] = 0;
    if (count == 0) return;
    if (count == 1)
        used = (size_t)snprintf(text, SPAN_MAX_NOTE, "layer %u is on no peer", room->lacks_begin);
    else
        used = (size_t)snprintf(text, SPAN_MAX_NOTE, "layers %u to %u are on no peer", room->lacks_begin,
                                room->lacks_end - 1);
    if (others > 0)
        snprintf(text + used, SPAN_MAX_NOTE - used, " with the kernels of this one; %u compute%s other bits", others,
                 others == 1 ? "s" : "");
}

static void put_blocker(span_peer *p, json_out *o) {
    span_room room;
    char blocker[SPAN_MAX_NOTE];
    span_peer_room(p, &room);
    span_peer_blocker(&room, blocker);
    uint64_t now = clock_now_ns();
    if (!*blocker)
        p->state.lacks_ns = 0;
    else if (!p->state.lacks_ns)
        p->state.lacks_ns = now;
    json_out_bool(o, "ready", !*blocker);
    if (*blocker) {
        char ticket_text[TICKET_MAX_TEXT], next[TICKET_MAX_TEXT + 64], waits[64];
        span_peer_ticket(p, ticket_text);
        snprintf(next, sizeof next, "braid node --join %s", ticket_text);
        snprintf(waits, sizeof waits, "a peer with layers %u to %u", room.lacks_begin, room.lacks_end - 1);
        json_out_string(o, "blocker", blocker);
        json_out_string(o, "waiting_for", waits);
        json_out_double(o, "since_s", (double)(now - p->state.lacks_ns) * 1e-9);
        json_out_string(o, "next_step", next);
    }
    json_out_u64(o, "cache_tokens", room.tokens);
    json_out_u64(o, "free_tokens", room.free_tokens);
}

static void put_totals(span_peer *p, json_out *o) {
    session_totals totals = {0};
    session_look(p->core, &totals);
    json_out_u64(o, "sessions", totals.own);
    json_out_u64(o, "repairs", p->told.repairs);
    json_out_double(o, "mean_repair_ms",
                    p->told.repairs ? (double)p->told.repair_ns * 1e-6 / (double)p->told.repairs : 0);
    json_out_double(o, "longest_repair_ms", (double)p->told.longest_repair_ns * 1e-6);
    json_out_u64(o, "replayed_rows", totals.replayed_rows);
    net_totals sent = {0};
    if (p->net) net_look(p->net, &sent);
    json_out_u64(o, "sent_tensor_bytes", sent.bytes.bulk_out);
    json_out_u64(o, "sent_message_bytes", sent.bytes.control_out);
    if (*p->told.event) json_out_string(o, "last_event", p->told.event);
}

char *span_peer_status(span_peer *p) {
    char hash[2 * BRAID_ID_BYTES + 1];
    session_view view = {.count = 0};
    json_out o = {0};
    if (p->phase != SPAN_RUNNING) return NULL;
    id_hex(p->hash.bytes, BRAID_ID_BYTES, hash);
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "model", p->model.name);
    json_out_string(&o, "hash", hash);
    json_out_u64(&o, "layers", p->model.layers);
    put_blocker(p, &o);
    put_totals(p, &o);
    session_peer_view(p->core, &view);
    span_records_put(p->state.records, &view, &o, clock_now_ns());
    json_out_close(&o, '}');
    return json_out_take(&o, NULL);
}
