// The step of a peer; its memory; read-only views.
#include "base/err.h"
#include "session/inside.h"

#include <stdio.h>
#include <string.h>

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t session_peer_bytes(const session_config *config) {
    return aligned(sizeof(session_peer)) + aligned(config->slots * sizeof(slot)) + aligned(config->own * sizeof(own));
}

static uint64_t or_usual(uint64_t value, uint64_t usual) { return value > 0 ? value : usual; }

static void fill_in(session_config *c) {
    c->chunk_rows = (uint32_t)or_usual(c->chunk_rows, 256);
    if (c->chunk_rows > SESSION_MAX_ROWS) c->chunk_rows = SESSION_MAX_ROWS;
    c->window_rows = (uint32_t)or_usual(c->window_rows, 4 * (uint64_t)c->chunk_rows);
    c->cache_chunk = (uint32_t)or_usual(c->cache_chunk, 64);
    if (c->cache_chunk > SESSION_MAX_ROWS) c->cache_chunk = SESSION_MAX_ROWS;
    c->heartbeat_ns = or_usual(c->heartbeat_ns, 250000000);
    c->dead_ns = or_usual(c->dead_ns, 1000000000);
    c->stall_ns = or_usual(c->stall_ns, 2000000000);
    c->slow_ns = or_usual(c->slow_ns, 20000000000);
    c->lease_ns = or_usual(c->lease_ns, 30000000000);
    c->avoid_ns = or_usual(c->avoid_ns, 5000000000);
}

session_peer *session_peer_init(void *memory, const session_config *config, uint64_t now_ns) {
    BRAID_ASSERT(config->slots <= SESSION_MAX_SLOTS && config->own <= SESSION_MAX_OWN && config->incarnation != 0);
    session_peer *p = memory;
    p->config = *config;
    fill_in(&p->config);
    p->slots = (slot *)((char *)memory + aligned(sizeof *p));
    p->owns = (own *)((char *)p->slots + aligned(config->slots * sizeof(slot)));
    p->random.state = config->random_seed;
    p->now_ns = p->beat_ns = now_ns;
    p->count = 1;
    session_card *card = &p->known[0].card;
    card->id = config->self;
    card->incarnation = config->incarnation;
    card->version = config->version;
    memcpy(card->address, config->address, sizeof card->address);
    p->known[0].linked = true;
    contacts_own_card(p);
    return p;
}

// ---- the step

// When the origin holds a span of its own session, ROWS from its only span to itself as origin and
// ROWS from itself as origin to that span have the same sender; `to_origin` tells them apart.
static void route_rows(session_peer *p, const session_event *e) {
    const session_message_rows *rows = &e->msg->rows;
    if (rows->to_origin)
        own_rows(p, &e->id, rows, e->blob);
    else
        slot_rows(p, &e->id, rows, e->blob);
}

static void on_message(session_peer *p, const session_event *e) {
    const session_message *m = e->msg;
    contacts_heard(p, &e->id);
    switch (m->kind) {
    case SESSION_MESSAGE_CARDS: contacts_cards(p, &e->id, &m->cards); break;
    case SESSION_MESSAGE_OPEN: slot_open(p, &e->id, &m->open); break;
    case SESSION_MESSAGE_OPENED: own_opened(p, &e->id, &m->opened); break;
    case SESSION_MESSAGE_REFUSE: own_refuse(p, &e->id, &m->refuse); break;
    case SESSION_MESSAGE_READY:
        if (m->ready.to_origin)
            own_ready(p, &e->id, &m->ready);
        else
            slot_ready(p, &e->id, &m->ready);
        break;
    case SESSION_MESSAGE_WANT:
        if (m->want.to_origin)
            own_want(p, &e->id, &m->want);
        else
            slot_want(p, &e->id, &m->want);
        break;
    case SESSION_MESSAGE_LOST: own_lost(p, &e->id, &m->lost); break;
    case SESSION_MESSAGE_CLOSE: slot_close_message(p, &e->id, &m->close); break;
    case SESSION_MESSAGE_HELD: own_held(p, &e->id, &m->held); break;
    case SESSION_MESSAGE_KEPT: slot_kept(p, &e->id, &m->kept); break;
    case SESSION_MESSAGE_PROBE: slot_probe(p, &e->id, &m->probe); break;
    case SESSION_MESSAGE_STATUS: watch_status(p, &e->id, &m->status); break;
    case SESSION_MESSAGE_NAMES: donor_names(p, &e->id, &m->names); break;
    case SESSION_MESSAGE_GET_CACHE: donor_get_cache(p, &e->id, &m->get_cache); break;
    default: break;
    }
    if (m->kind == SESSION_MESSAGE_CACHE)
        donor_cache(p, &e->id, &m->cache, e->blob);
    else if (m->kind == SESSION_MESSAGE_ROWS)
        route_rows(p, e);
    else
        effect_release(p, e->blob);
}

static void change_span(session_peer *p, const session_span *span) {
    for (uint32_t i = 0; i < p->config.slots; i++) {
        if (p->slots[i].used && !p->slots[i].closing) slot_give_up(p, i, SESSION_NOT_HERE);
    }
    p->config.serves = span != NULL;
    if (span) p->config.span = *span;
    contacts_own_card(p);
    p->beat_ns = p->now_ns;
}

static void on_join(session_peer *p, const session_event *e) {
    uint32_t i = contact_add(p, &e->id, e->address);
    if (i < p->count && i > 0) contact_reach(p, &e->id);
}

// The process was paused: others were not silent meanwhile.
static void compensate_pause(session_peer *p, uint64_t late) {
    for (uint32_t i = 1; i < p->count; i++) {
        contact *c = &p->contact[i];
        c->heard_ns += late;
        c->fresh_ns += late;
        c->down_ns += late;
    }
    for (uint32_t i = 0; i < p->config.slots; i++) {
        p->slots[i].confirmed_ns += late;
        p->slots[i].fetch_ns += late;
        p->slots[i].since_ns += late;
    }
    for (uint32_t i = 0; i < p->config.own; i++) {
        p->owns[i].progress_ns += late;
        if (p->owns[i].probe_ns > 0) p->owns[i].probe_ns += late;
    }
}

static void beat(session_peer *p) {
    if (p->now_ns > p->beat_ns + p->config.heartbeat_ns) compensate_pause(p, p->now_ns - p->beat_ns);
    p->beat_ns = p->now_ns + p->config.heartbeat_ns;
    p->beats++;
    contacts_beat(p);
    slots_beat(p);
    watch_beat(p);
}

void session_step(session_peer *p, uint64_t now_ns, const session_event *e) {
    p->now_ns = now_ns;
    if (now_ns >= p->beat_ns) beat(p);
    uint32_t i;
    switch (e->kind) {
    case SESSION_EVENT_LINK_UP: contacts_link_up(p, &e->id); break;
    case SESSION_EVENT_LINK_DOWN: contacts_link_down(p, &e->id, e->refused); break;
    case SESSION_EVENT_MESSAGE: on_message(p, e); break;
    case SESSION_EVENT_DONE: jobs_done(p, e); break;
    case SESSION_EVENT_JOIN: on_join(p, e); break;
    case SESSION_EVENT_SPAN: change_span(p, e->span); break;
    case SESSION_EVENT_DRAIN:
        p->draining = true;
        p->beat_ns = now_ns;
        break;
    case SESSION_EVENT_OPEN: own_open(p, e->number, e->open); break;
    case SESSION_EVENT_STEP: own_step(p, e); break;
    case SESSION_EVENT_END: own_end(p, e->number); break;
    case SESSION_EVENT_NAME: watch_send_names(p, e); break;
    case SESSION_EVENT_REROUTE:
        i = own_find(p, e->number);
        if (i < p->config.own) own_repair(p, i, &p->config.self, SESSION_REASON_BETTER);
        break;
    default: break;
    }
}

uint64_t session_deadline(const session_peer *p) { return p->beat_ns; }

// ---- views

uint32_t session_own_room(const session_peer *p) {
    uint32_t room = 0;
    for (uint32_t i = 0; i < p->config.own; i++) room += !p->owns[i].used;
    return room;
}

void session_peer_view(const session_peer *p, session_view *out) {
    *out = (session_view){.count = p->count, .peer = p->known};
}

void session_look_own(const session_peer *p, uint64_t number, session_own_view *out) {
    *out = (session_own_view){0};
    uint32_t i = own_find(p, number);
    if (i == p->config.own) return;
    const own *o = &p->owns[i];
    *out = (session_own_view){.exists = true,
                              .epoch = o->epoch,
                              .length = o->length,
                              .need = o->need,
                              .waiting = o->waiting,
                              .path = &o->path};
}

void session_look_slot(const session_peer *p, uint32_t i, session_slot_view *out) {
    *out = (session_slot_view){0};
    if (i >= p->config.slots || !p->slots[i].used) return;
    const slot *s = &p->slots[i];
    *out = (session_slot_view){.exists = true,
                               .session = s->id,
                               .origin = s->origin,
                               .epoch = s->epoch,
                               .have = s->have,
                               .kept_from = s->kept_from,
                               .sent = s->out.sent,
                               .layer_begin = s->layer_begin,
                               .layer_end = s->layer_end,
                               .room = s->room,
                               .running = s->running,
                               .closing = s->closing};
}

void session_look(const session_peer *p, session_totals *out) {
    *out = p->totals;
    out->known = p->count;
    for (uint32_t i = 1; i < p->count; i++) out->linked += p->known[i].linked;
    for (uint32_t i = 0; i < p->config.slots; i++) out->held += p->slots[i].used;
    for (uint32_t i = 0; i < p->config.own; i++) out->own += p->owns[i].used;
    out->kept_rows = slots_kept_rows(p);
    out->kept_bytes = out->kept_rows * p->config.span.row_bytes;
    out->room_used = slots_room_used(p);
    out->room = p->config.serves
                    ? (uint64_t)p->config.span.cache_tokens * (p->config.span.layer_end - p->config.span.layer_begin)
                    : 0;
}

const char *session_reason_name(uint8_t reason) {
    static const char *const names[] = {"dead", "silent", "slow", "refused", "cut off", "draining", "a better path"};
    return reason < SESSION_REASONS ? names[reason] : "unknown";
}

const char *session_tell_name(session_tell_kind kind) {
    static const char *const names[] = {"path",  "waiting",  "full",    "replaced",
                                        "began", "repaired", "peer up", "peer down"};
    return (unsigned)kind < SESSION_TELLS ? names[kind] : "unknown";
}
