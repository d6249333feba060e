// Pages of keys and values that earlier texts left in the prefix caches of spans.
//
// A new slot begins with the pages that its host has. It asks its upstream neighbour for the row after
// them, as a span that has changed its place does. A span that has more of them than its downstream
// neighbour has no outputs to send: it drops the surplus and computes it again. So a session begins with
// the fewest tokens of its path, and no rule of repair knows of prefixes.
#include "session/inside.h"

#include <string.h>

// ---- at a span

static const session_key *copy_keys(session_peer *p, const session_key *keys, uint32_t count) {
    effect_queue *q = &p->queue;
    size_t bytes = count * sizeof *keys;
    if (bytes > sizeof q->bytes - q->used) return NULL;
    void *to = memcpy(q->bytes + q->used, keys, bytes);
    q->used += bytes;
    return to;
}

void prefix_adopt(session_peer *p, uint32_t i, const session_message_open *open) {
    slot *s = &p->slots[i];
    const session_key *keys = copy_keys(p, open->key, open->keys);
    if (!keys) return;
    s->running = s->adopting = true;
    s->ticket = ++p->ticket;
    s->since_ns = p->now_ns;
    s->run_position = s->run_count = s->run_valid = 0;
    s->run_blob = 0;
    s->adopted_cut = open->cut;
    session_effect *e = effect_add(p, SESSION_EFFECT_ADOPT);
    e->slot = i;
    e->ticket = s->ticket;
    e->layer_begin = s->layer_begin;
    e->layer_end = s->layer_end;
    e->adapter = s->adapter;
    e->keys = keys;
    e->count = open->keys;
    e->limit = s->room;
}

void prefix_adopted(session_peer *p, uint32_t i, const session_event *e) {
    slot *s = &p->slots[i];
    s->adopting = false;
    s->in.want_new = true;
    slot_mark(p, i);
    if (s->closing || e->failed || e->count == 0 || e->count > s->room) return;
    s->have = s->in.next = s->kept_from = s->home = e->count;
    if (peer_mutates(p, SESSION_MUTANT_ADOPTS_ROWS)) s->kept_from = 0;
    // no truncation until then was before the end of these pages
    if (s->adopted_cut > 0) cuts_add(&s->cuts, s->adopted_cut, e->count);
    p->totals.adopted += e->count;
}

void prefix_names(session_peer *p, const braid_id *from, const session_message_names *names) {
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

// ---- at the origin

void prefix_send_names(session_peer *p, const session_event *e) {
    uint32_t i = own_find(p, e->number);
    if (i == p->config.own || e->key_count == 0 || e->key_count > SESSION_MAX_NAMES || e->position > SESSION_MAX_TOKENS)
        return;
    const own *o = &p->owns[i];
    for (uint32_t h = 0; h < o->path.count; h++) {
        session_message_names *names = &message_new(p, SESSION_MESSAGE_NAMES)->names;
        *names = (session_message_names){
            .session = own_id(p, o), .cut = o->cuts.now, .first = e->position, .count = e->key_count};
        memcpy(names->key, e->keys, e->key_count * sizeof *e->keys);
        message_send(p, &o->path.hop[h].id);
    }
}

void prefix_check_began(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    uint32_t least = UINT32_MAX;
    for (uint32_t h = 0; h < o->path.count; h++) {
        if (!o->hop[h].opened) return;
        if (o->hop[h].have < least) least = o->hop[h].have;
    }
    o->began = true;
    session_tell *tell = effect_tell(p, SESSION_TELL_BEGAN);
    tell->number = o->number;
    tell->tokens = least;
}

static warm_path *find_warm(session_peer *p, const session_key *first) {
    for (uint32_t k = 0; k < WARM; k++)
        if (p->warm[k].path.count > 0 && memcmp(&p->warm[k].first, first, sizeof *first) == 0) return &p->warm[k];
    return NULL;
}

void prefix_note_path(session_peer *p, const own *o) {
    if (o->open.key_count == 0 || o->path.count == 0 || o->waiting) return;
    warm_path *w = find_warm(p, &o->key[0]);
    if (!w) w = &p->warm[p->warm_next++ % WARM];
    w->first = o->key[0];
    w->path = o->path;
}

const session_path *prefix_warm_path(session_peer *p, const own *o) {
    if (o->open.key_count == 0 || o->length > 0) return NULL;
    const warm_path *w = find_warm(p, &o->key[0]);
    return w ? &w->path : NULL;
}
