// Keys and values that a slot did not compute.
//
// A draining span hands its cache to its substitute, which asks for it piece by piece (GET CACHE).
// A substitute that gets no further goes on with what it has: the rest is replayed from upstream.
//
// A new slot begins with the pages of earlier texts that its host has. It asks its upstream neighbour for
// the row after them, as a span that has changed its place does. A span that has more of them than its
// downstream neighbour has no outputs to send: it drops the surplus and computes it again. So a session
// begins with the fewest tokens of its path, and no rule of repair knows of prefixes.
#include "session/inside.h"

#include <string.h>

enum { USUAL_KIB_S = 12500 };  // 100 Mbit/s, where a rate is not known

// Compares the times of transferring the cache and of replaying the rows; their computation comes
// on top.
static bool cheaper(const session_peer *p, const session_message_open *open) {
    const session_span *span = &p->config.span;
    uint32_t donor = contact_find(p, &open->donor), up = contact_find(p, &open->upstream);
    uint64_t layers = (uint64_t)open->layer_end - open->layer_begin;
    uint64_t donor_rate = donor < p->count ? p->known[donor].card.upload_kib_s : 0,
             up_rate = up < p->count ? p->known[up].card.upload_kib_s : 0;
    if (donor_rate == 0) donor_rate = USUAL_KIB_S;
    if (up_rate == 0) up_rate = USUAL_KIB_S;
    // nanoseconds a token; 1 KiB at 1 KiB/s is 10^9 ns
    uint64_t fetch = layers * span->token_layer_bytes * 976563 / donor_rate;
    uint64_t replay = (uint64_t)span->row_bytes * 976563 / up_rate + layers * span->layer_ns;
    return fetch < replay;
}

void donor_begin(session_peer *p, uint32_t i, const session_message_open *open) {
    if (!cheaper(p, open)) return;
    slot *s = &p->slots[i];
    s->fetching = true;
    s->fetch_sent = false;
    s->donor = open->donor;
    s->fetch_total = 0;
    s->fetch_ns = p->now_ns;
}

void donor_end(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    s->fetching = false;
    s->in.want_new = true;
    s->send_opened = true;
    slot_mark(p, i);
}

void donor_pump(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    if (!s->fetching || s->running || s->fetch_sent || !contact_reach(p, &s->donor)) return;
    s->fetch_sent = true;
    session_message_get_cache *get = &message_new(p, SESSION_MESSAGE_GET_CACHE)->get_cache;
    *get = (session_message_get_cache){.session = s->id, .position = s->have, .count = p->config.cache_chunk};
    message_send(p, &s->donor);
}

void donor_get_cache(session_peer *p, const braid_id *from, const session_message_get_cache *get) {
    session_message_cache *cache = &message_new(p, SESSION_MESSAGE_CACHE)->cache;
    *cache = (session_message_cache){
        .session = get->session, .position = get->position, .total = SESSION_MAX_TOKENS, .layer_end = 1};
    uint32_t i = slot_find(p, get->session);
    if (i < p->config.slots && !p->slots[i].fetching) {
        const slot *s = &p->slots[i];
        cache->layer_begin = s->layer_begin;
        cache->layer_end = s->layer_end;
        cache->cuts = s->cuts;
        cache->home = s->home;
        cache->total = s->have;
        if (get->position < s->have) cache->count = s->have - get->position;
        if (cache->count > get->count) cache->count = get->count;
    }
    session_message_cache sent = *cache;
    session_effect *e = message_send(p, from);
    if (!e || sent.count == 0) return;
    e->source = SESSION_SOURCE_CACHE;
    e->slot = i;
    e->layer_begin = sent.layer_begin;
    e->layer_end = sent.layer_end;
    e->position = sent.position;
    e->count = sent.count;
}

// True if the blob is being imported.
static bool import(session_peer *p, uint32_t i, const session_message_cache *cache, session_blob blob) {
    slot *s = &p->slots[i];
    // A truncation may reach the donor meanwhile. Then the pieces are told apart by none: all count as
    // old as the first, and the upstream neighbour truncates them.
    if (s->have == 0) s->cuts = cache->cuts;
    if (blob == 0 || cache->count == 0 || cache->position != s->have || cache->position + cache->count > s->room)
        return false;
    s->home = cache->home;
    s->fetch_total = cache->total;
    s->running = s->importing = true;
    s->ticket = ++p->ticket;
    s->since_ns = p->now_ns;
    s->run_position = s->have;
    s->run_count = cache->count;
    s->run_valid = s->have + cache->count;
    s->run_blob = blob;
    s->in.next = s->run_valid;
    session_effect *e = effect_add(p, SESSION_EFFECT_IMPORT);
    e->slot = i;
    e->ticket = s->ticket;
    e->layer_begin = s->layer_begin;
    e->layer_end = s->layer_end;
    e->adapter = s->begins.adapter;
    e->position = s->have;
    e->count = cache->count;
    e->blob = blob;
    return true;
}

void donor_cache(session_peer *p, const braid_id *from, const session_message_cache *cache, session_blob blob) {
    uint32_t i = slot_find(p, cache->session);
    bool taken = false;
    if (i < p->config.slots) {
        slot *s = &p->slots[i];
        bool mine = s->fetching && !s->running && s->fetch_sent && id_equal(&s->donor, from);
        if (mine) {
            s->fetch_ns = p->now_ns;
            bool same = cache->layer_begin == s->layer_begin && cache->layer_end == s->layer_end;
            taken = same && import(p, i, cache, blob);
            if (!taken) donor_end(p, i);
        }
    }
    if (!taken) effect_release(p, blob);
}

void donor_imported(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    s->kept_from = s->have;
    s->importing = false;
    s->fetch_sent = false;
    if (s->fetching && s->have >= s->fetch_total) donor_end(p, i);
    slot_mark(p, i);
}

void donor_beat(session_peer *p, uint32_t i) {
    const slot *s = &p->slots[i];
    if (!s->fetching || s->running) return;
    uint32_t donor = contact_find(p, &s->donor);
    bool gone = donor == SESSION_MAX_PEERS || contact_gone(p, donor);
    if (gone || p->now_ns - s->fetch_ns > p->config.stall_ns) donor_end(p, i);
}

// ---- pages of earlier texts

static const session_key *copy_keys(session_peer *p, const session_key *keys, uint32_t count) {
    effect_queue *q = &p->queue;
    size_t bytes = count * sizeof *keys;
    if (bytes > sizeof q->bytes - q->used) return NULL;
    void *to = memcpy(q->bytes + q->used, keys, bytes);
    q->used += bytes;
    return to;
}

void donor_adopt(session_peer *p, uint32_t i, const session_message_open *open) {
    slot *s = &p->slots[i];
    const session_key *keys = copy_keys(p, open->key, open->keys);
    if (!keys) return;
    s->running = s->begins.adopting = true;
    s->ticket = ++p->ticket;
    s->since_ns = p->now_ns;
    s->run_position = s->run_count = s->run_valid = 0;
    s->run_blob = 0;
    s->begins.cut = open->cut;
    session_effect *e = effect_add(p, SESSION_EFFECT_ADOPT);
    e->slot = i;
    e->ticket = s->ticket;
    e->layer_begin = s->layer_begin;
    e->layer_end = s->layer_end;
    e->adapter = s->begins.adapter;
    e->keys = keys;
    e->count = open->keys;
    e->limit = s->room;
}

void donor_adopted(session_peer *p, uint32_t i, const session_event *e) {
    slot *s = &p->slots[i];
    s->begins.adopting = false;
    s->in.want_new = true;
    slot_mark(p, i);
    if (s->closing || e->failed || e->count == 0 || e->count > s->room) return;
    s->have = s->in.next = s->kept_from = s->home = e->count;
    if (peer_mutates(p, SESSION_MUTANT_ADOPTS_ROWS)) s->kept_from = 0;
    // no truncation until then was before the end of these pages
    if (s->begins.cut > 0) cuts_add(&s->cuts, s->begins.cut, e->count);
    p->totals.adopted += e->count;
}

void donor_names(session_peer *p, const braid_id *from, const session_message_names *names) {
    uint32_t i = slot_find(p, names->session);
    if (i == p->config.slots || !id_equal(&p->slots[i].origin, from)) return;
    const slot *s = &p->slots[i];
    // rows of a refused draft are void, and this span may not know it yet
    bool current = names->cut == s->cuts.now || peer_mutates(p, SESSION_MUTANT_NAMES_ANY_CUT);
    const session_key *keys = current && s->have > 0 ? copy_keys(p, names->key, names->count) : NULL;
    if (!keys) return;
    session_effect *e = effect_add(p, SESSION_EFFECT_NAME);
    e->slot = i;
    e->layer_begin = s->layer_begin;
    e->layer_end = s->layer_end;
    e->keys = keys;
    e->position = names->first;
    e->count = names->count;
    e->limit = s->have;
}
