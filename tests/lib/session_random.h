// Random well-formed messages of src/session. Bytes that an encoding does not carry are zero, so that
// two messages can be compared by memcmp.
#ifndef BRAID_TEST_SESSION_RANDOM_H
#define BRAID_TEST_SESSION_RANDOM_H

#include "seed.h"
#include "session/message.h"

#include <string.h>

// `small`: numbers and names from a small range, as in a small swarm, so that messages concern each
// other.
typedef struct session_random {
    rng *r;
    bool small;
} session_random;

static inline uint64_t session_random_below(session_random *w, uint64_t end) { return rng_below(w->r, end); }
static inline uint32_t session_random_u32(session_random *w) {
    return w->small ? (uint32_t)session_random_below(w, 4) : (uint32_t)rng_next(w->r);
}
static inline uint64_t session_random_u64(session_random *w) {
    return w->small ? session_random_below(w, 4) : rng_next(w->r);
}
static inline uint32_t session_random_tokens(session_random *w) {
    return (uint32_t)session_random_below(w, w->small ? 40 : SESSION_MAX_TOKENS / 2);
}
static inline bool session_random_bool(session_random *w) { return session_random_below(w, 2) == 1; }

static inline braid_id session_random_id(session_random *w) {
    braid_id id = {{0}};
    if (w->small)
        id.bytes[0] = (uint8_t)(1 + session_random_below(w, 4));
    else
        random_bytes(w->r, id.bytes, sizeof id.bytes);
    return id;
}

static inline braid_hash session_random_hash(session_random *w) {
    braid_hash hash = {{0}};
    if (!w->small) random_bytes(w->r, hash.bytes, sizeof hash.bytes);
    return hash;
}

static inline session_id session_random_session(session_random *w) {
    return (session_id){.incarnation = w->small ? 1 + session_random_below(w, 2) : rng_next(w->r),
                        .number = session_random_u64(w)};
}

static inline void session_random_address(session_random *w, char *text) {
    size_t length = session_random_below(w, w->small ? 4 : WIRE_MAX_ADDRESS);
    for (size_t i = 0; i < length; i++) text[i] = (char)(' ' + session_random_below(w, '~' - ' ' + 1));
}

static inline void session_random_layers(session_random *w, uint16_t *begin, uint16_t *end) {
    uint64_t most = w->small ? 4 : SESSION_MAX_LAYERS;
    *begin = (uint16_t)session_random_below(w, most);
    *end = (uint16_t)(*begin + 1 + session_random_below(w, most - *begin));
}

static inline void session_random_card(session_random *w, session_card *card) {
    card->id = session_random_id(w);
    card->incarnation = session_random_u64(w);
    card->version = session_random_u64(w);
    session_random_address(w, card->address);
    card->serves = session_random_bool(w);
    card->draining = session_random_bool(w);
    if (card->serves) {
        card->model = session_random_hash(w);
        card->kernels = session_random_hash(w);
        session_random_layers(w, &card->layer_begin, &card->layer_end);
        card->layers = w->small ? 4 : SESSION_MAX_LAYERS;
        card->cache_tokens = 1000 + session_random_u32(w) / 2;
        card->free_tokens = card->cache_tokens - session_random_u32(w) % 1000;
        card->layer_ns = session_random_u32(w);
        card->waiting_layers = session_random_u32(w);
        card->upload_kib_s = session_random_u32(w);
        card->adapters = (uint16_t)session_random_below(w, SESSION_MAX_ADAPTERS + 1);
        for (uint32_t i = 0; i < card->adapters; i++) card->adapter[i] = session_random_u64(w);
    }
    card->hops = (uint16_t)session_random_below(w, SESSION_MAX_CARD_HOPS + 1);
    for (uint32_t i = 0; i < card->hops; i++) {
        card->hop[i].to = session_random_u64(w);
        card->hop[i].one_way_us = (uint32_t)session_random_below(w, WIRE_MAX_LINK_COST);
    }
}

static inline void session_random_cuts(session_random *w, session_cuts *cuts) {
    cuts->known_from = (uint32_t)session_random_below(w, 3);
    cuts->count = (uint16_t)session_random_below(w, SESSION_CUTS + 1);
    cuts->now = cuts->known_from;
    for (uint32_t i = 0, at = 0; i < cuts->count; i++) {
        cuts->now += 1 + (uint32_t)session_random_below(w, 3);
        cuts->entry[i].cut = cuts->now;
        cuts->entry[i].at = at += 1 + (uint32_t)session_random_below(w, 5);
    }
}

// `id`: the session of every kind but CARDS, HELD and KEPT.
static inline void session_random_control(session_random *w, session_id id, session_message *m) {
    switch (m->kind) {
    case SESSION_MESSAGE_OPENED:
        m->opened = (session_message_opened){.session = id,
                                             .epoch = session_random_u32(w),
                                             .have = session_random_tokens(w),
                                             .fetching = session_random_bool(w)};
        break;
    case SESSION_MESSAGE_REFUSE:
        m->refuse.session = id;
        m->refuse.epoch = session_random_u32(w);
        m->refuse.reason = (uint8_t)session_random_below(w, SESSION_REFUSALS);
        m->refuse.free_tokens = session_random_u32(w);
        break;
    case SESSION_MESSAGE_READY:
        m->ready.session = id;
        m->ready.epoch = session_random_u32(w);
        m->ready.to_origin = session_random_bool(w);
        break;
    case SESSION_MESSAGE_LOST:
        m->lost.session = id;
        m->lost.epoch = session_random_u32(w);
        m->lost.peer = session_random_id(w);
        break;
    case SESSION_MESSAGE_CLOSE: m->close.session = id; break;
    case SESSION_MESSAGE_PROBE:
        m->probe.session = id;
        m->probe.epoch = session_random_u32(w);
        break;
    case SESSION_MESSAGE_STATUS:
        m->status.session = id;
        m->status.epoch = session_random_u32(w);
        m->status.have = session_random_tokens(w);
        m->status.next = session_random_tokens(w);
        m->status.sent = session_random_tokens(w);
        m->status.running = session_random_bool(w);
        m->status.fetching = session_random_bool(w);
        m->status.running_ms = session_random_u32(w);
        break;
    default: break;
    }
}

static inline void session_random_rows(session_random *w, session_id id, session_message *m) {
    uint32_t count = (uint32_t)session_random_below(w, w->small ? 9 : SESSION_MAX_ROWS + 1);
    switch (m->kind) {
    case SESSION_MESSAGE_WANT:
        m->want.session = id;
        m->want.epoch = session_random_u32(w);
        m->want.ask = session_random_u32(w);
        m->want.incarnation = session_random_u64(w);
        m->want.cut = session_random_u32(w);
        m->want.from = session_random_tokens(w);
        m->want.limit = m->want.from + session_random_tokens(w);
        m->want.to_origin = session_random_bool(w);
        break;
    case SESSION_MESSAGE_ROWS:
        m->rows.session = id;
        m->rows.epoch = session_random_u32(w);
        m->rows.cut = session_random_u32(w);
        m->rows.position = session_random_tokens(w);
        m->rows.count = count;
        m->rows.home = session_random_tokens(w);
        m->rows.to_origin = session_random_bool(w);
        break;
    case SESSION_MESSAGE_GET_CACHE:
        m->get_cache.session = id;
        m->get_cache.position = session_random_tokens(w);
        m->get_cache.count = count;
        break;
    case SESSION_MESSAGE_CACHE:
        m->cache.session = id;
        session_random_layers(w, &m->cache.layer_begin, &m->cache.layer_end);
        session_random_cuts(w, &m->cache.cuts);
        m->cache.home = session_random_tokens(w);
        m->cache.position = session_random_tokens(w);
        m->cache.count = count;
        m->cache.total = session_random_tokens(w);
        break;
    default: break;
    }
}

static inline void session_random_open(session_random *w, session_id id, session_message_open *open) {
    open->session = id;
    open->epoch = 1 + session_random_u32(w) / 2;
    open->model = session_random_hash(w);
    open->kernels = session_random_hash(w);
    session_random_layers(w, &open->layer_begin, &open->layer_end);
    open->room = session_random_tokens(w);
    open->tokens = session_random_tokens(w);
    open->last = session_random_bool(w);
    open->upstream = session_random_id(w);
    open->downstream = session_random_id(w);
    session_random_address(w, open->upstream_address);
    session_random_address(w, open->downstream_address);
    open->has_donor = session_random_bool(w);
    if (open->has_donor) open->donor = session_random_id(w);
    open->adapter = w->small ? 0 : session_random_u64(w);
    open->cut = session_random_u32(w);
    open->keys = (uint16_t)session_random_below(w, w->small ? 5 : SESSION_MAX_KEYS + 1);
    for (uint32_t i = 0; i < open->keys; i++) open->key[i].bytes[0] = (uint8_t)session_random_u32(w);
}

static inline void session_random_message(session_random *w, session_message_kind kind, session_message *m) {
    memset(m, 0, sizeof *m);
    m->kind = kind;
    session_id id = session_random_session(w);
    if (kind == SESSION_MESSAGE_CARDS) {
        m->cards.sent_ns = session_random_u64(w);
        m->cards.echo_ns = session_random_u64(w);
        m->cards.held_ns = session_random_u64(w);
        m->cards.count = (uint16_t)(1 + session_random_below(w, SESSION_MAX_CARDS));
        for (uint32_t i = 0; i < m->cards.count; i++) session_random_card(w, &m->cards.card[i]);
    } else if (kind == SESSION_MESSAGE_OPEN) {
        session_random_open(w, id, &m->open);
    } else if (kind == SESSION_MESSAGE_GET_PIECE) {
        m->get_piece.part = session_random_hash(w);
        m->get_piece.offset = session_random_u64(w);
        m->get_piece.count = 1 + (uint32_t)session_random_below(w, SESSION_MAX_PIECE);
    } else if (kind == SESSION_MESSAGE_PIECE) {
        m->piece.part = session_random_hash(w);
        m->piece.offset = session_random_tokens(w);
        m->piece.count = (uint32_t)session_random_below(w, SESSION_MAX_PIECE + 1);
        m->piece.total = m->piece.offset + m->piece.count + session_random_tokens(w);
    } else if (kind == SESSION_MESSAGE_NAMES) {
        m->names = (session_message_names){.session = id,
                                           .cut = session_random_u32(w),
                                           .first = session_random_tokens(w),
                                           .count = (uint16_t)(1 + session_random_below(w, SESSION_MAX_NAMES))};
        for (uint32_t i = 0; i < m->names.count; i++) m->names.key[i].bytes[15] = (uint8_t)session_random_u32(w);
    } else if (kind == SESSION_MESSAGE_HELD || kind == SESSION_MESSAGE_KEPT) {
        uint16_t count = (uint16_t)session_random_below(w, SESSION_MAX_HELD + 1);
        m->held.count = count;  // KEPT begins with the same fields
        for (uint32_t i = 0; i < count; i++) m->held.session[i] = session_random_session(w);
        for (uint32_t i = 0; kind == SESSION_MESSAGE_KEPT && i < count; i++) m->kept.keep[i] = session_random_bool(w);
    }
    session_random_control(w, id, m);
    session_random_rows(w, id, m);
}

#endif
