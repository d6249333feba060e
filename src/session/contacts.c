// This peer's knowledge of others: cards, links, silence.
//
// Each peer raises its card's version with each heartbeat. A card reaches linked peers directly and
// others by gossip; the higher version wins. So after changes have ended, all peers of a connected
// graph of links have the same cards, in about log2 N gossip rounds.
#include "session/inside.h"

#include <stdio.h>
#include <string.h>

uint32_t contact_find(const session_peer *p, const braid_id *id) {
    for (uint32_t i = 0; i < p->count; i++) {
        if (id_equal(&p->known[i].card.id, id)) return i;
    }
    return SESSION_MAX_PEERS;
}

uint32_t contact_add(session_peer *p, const braid_id *id, const char *address) {
    uint32_t i = contact_find(p, id);
    if (i == SESSION_MAX_PEERS) {
        if (p->count == SESSION_MAX_PEERS) return i;
        i = p->count++;
        memset(&p->known[i], 0, sizeof p->known[i]);
        memset(&p->contact[i], 0, sizeof p->contact[i]);
        p->known[i].card.id = *id;
        p->contact[i].fresh_ns = p->now_ns;
        p->contact[i].down_ns = p->now_ns;
        bitset_remove(p->contact_dirty, i);
    }
    if (p->known[i].card.address[0] == '\0' && address && i > 0) {
        snprintf(p->known[i].card.address, sizeof p->known[i].card.address, "%s", address);
    }
    return i;
}

static void forget(session_peer *p, uint32_t i) {
    uint32_t last = --p->count;
    p->known[i] = p->known[last];
    p->contact[i] = p->contact[last];
    if (bitset_has(p->contact_dirty, last)) bitset_add(p->contact_dirty, i);
    bitset_remove(p->contact_dirty, last);
}

bool contact_linked(const session_peer *p, const braid_id *id) {
    uint32_t i = contact_find(p, id);
    return i < p->count && p->known[i].linked;
}

static void dial(session_peer *p, uint32_t i) {
    contact *c = &p->contact[i];
    if (i == 0 || p->known[i].linked || c->dialing || p->now_ns < c->dial_ns || p->known[i].card.address[0] == '\0')
        return;
    c->dialing = true;
    session_effect *e = effect_add(p, SESSION_EFFECT_DIAL);
    e->id = p->known[i].card.id;
    e->address = p->known[i].card.address;
}

bool contact_reach(session_peer *p, const braid_id *id) {
    uint32_t i = contact_find(p, id);
    if (i == SESSION_MAX_PEERS) return false;
    if (p->known[i].linked) return true;
    p->contact[i].wanted = true;
    dial(p, i);
    return false;
}

bool contact_gone(const session_peer *p, uint32_t i) { return i > 0 && p->known[i].suspected; }

static void suspect(session_peer *p, uint32_t i, session_reason reason) {
    if (p->known[i].suspected) return;
    p->known[i].suspected = true;
    session_tell *tell = effect_tell(p, SESSION_TELL_PEER_DOWN);
    tell->id = p->known[i].card.id;
    tell->reason = (uint8_t)reason;
    watch_gone(p, &p->known[i].card.id, reason);
}

static void trust(session_peer *p, uint32_t i) {
    if (!p->known[i].suspected) return;
    p->known[i].suspected = false;
    p->view_changed = true;
    effect_tell(p, SESSION_TELL_PEER_UP)->id = p->known[i].card.id;
}

void contacts_link_up(session_peer *p, const braid_id *id) {
    uint32_t i = contact_add(p, id, NULL);
    if (i == SESSION_MAX_PEERS || i == 0) return;
    contact *c = &p->contact[i];
    p->known[i].linked = true;
    c->dialing = c->wanted = c->refused = false;
    c->failures = 0;
    c->heard_ns = c->fresh_ns = p->now_ns;
    c->stamp = 0;
    c->beat = c->gossip = true;
    bitset_add(p->contact_dirty, i);
    trust(p, i);
    slots_link(p, id, true);
    watch_link(p, id, true);
}

void contacts_link_down(session_peer *p, const braid_id *id, bool refused) {
    uint32_t i = contact_find(p, id);
    if (i == SESSION_MAX_PEERS || i == 0) return;
    contact *c = &p->contact[i];
    bool was = p->known[i].linked;
    p->known[i].linked = false;
    c->dialing = c->wanted = false;
    c->refused = refused;
    if (was) {
        c->down_ns = c->dial_ns = p->now_ns;
        c->failures = 0;
        dial(p, i);
        slots_link(p, id, false);
        watch_link(p, id, false);
    } else {
        if (c->failures < 6) c->failures++;
        c->dial_ns = p->now_ns + ((uint64_t)50000000 << c->failures) + rng_below(&p->random, 50000000);
    }
    if (refused) suspect(p, i, SESSION_REASON_DEAD);
}

void contacts_heard(session_peer *p, const braid_id *id) {
    uint32_t i = contact_find(p, id);
    if (i == SESSION_MAX_PEERS || i == 0) return;
    p->contact[i].heard_ns = p->now_ns;
    if (p->known[i].linked) trust(p, i);
}

// ---- cards

static void measure(session_peer *p, uint32_t i, const session_message_cards *cards) {
    contact *c = &p->contact[i];
    c->stamp = cards->sent_ns;
    c->stamp_ns = p->now_ns;
    if (cards->echo_ns == 0 || cards->echo_ns > p->now_ns || p->now_ns - cards->echo_ns < cards->held_ns) return;
    uint64_t us = (p->now_ns - cards->echo_ns - cards->held_ns) / 2000 + 1;
    if (us > WIRE_MAX_LINK_COST) return;
    uint32_t *mean = &p->known[i].one_way_us;
    *mean = *mean == 0 ? (uint32_t)us : (uint32_t)((7 * (uint64_t)*mean + us) / 8);
}

static void adopt(session_peer *p, const session_card *card) {
    uint32_t i = contact_add(p, &card->id, card->address);
    if (i == SESSION_MAX_PEERS) return;
    session_card *old = &p->known[i].card;
    if (card->version <= old->version) return;
    if (i == 0) {  // of an earlier incarnation with a clock that was ahead
        old->version = card->version + 1;
        return;
    }
    bool drains = card->draining && !old->draining;
    p->view_changed |= old->serves != card->serves || old->layer_begin != card->layer_begin ||
                       old->layer_end != card->layer_end || old->free_tokens < card->free_tokens;
    *old = *card;
    p->contact[i].fresh_ns = p->now_ns;
    if (!p->known[i].linked && !p->contact[i].refused && p->contact[i].failures == 0) trust(p, i);
    if (drains) watch_draining(p, &card->id);
}

// Sessions of an earlier incarnation of their origin are lost.
static void end_older_sessions(session_peer *p, const session_card *card) {
    for (uint32_t s = 0; s < p->config.slots; s++) {
        const slot *o = &p->slots[s];
        if (o->used && !o->closing && id_equal(&o->origin, &card->id) && o->id.incarnation != card->incarnation)
            slot_close(p, s);
    }
}

void contacts_cards(session_peer *p, const braid_id *from, const session_message_cards *cards) {
    if (!id_equal(&cards->card[0].id, from)) return;
    for (uint32_t k = 0; k < cards->count; k++) adopt(p, &cards->card[k]);
    uint32_t i = contact_find(p, from);
    if (i == SESSION_MAX_PEERS || i == 0) return;
    measure(p, i, cards);
    end_older_sessions(p, &cards->card[0]);
}

// Of the last heartbeats, the newest with the weight of a quarter.
static uint32_t mean_queue(uint32_t before, uint64_t now) {
    uint64_t mean = (3 * (uint64_t)before + now) / 4;
    return mean < UINT32_MAX ? (uint32_t)mean : UINT32_MAX;
}

void contacts_own_card(session_peer *p) {
    session_card *card = &p->known[0].card;
    const session_span *span = &p->config.span;
    card->serves = p->config.serves;
    card->draining = p->draining;
    if (card->serves) {
        card->model = span->model;
        card->kernels = span->kernels;
        card->layer_begin = span->layer_begin;
        card->layer_end = span->layer_end;
        card->layers = span->layers;
        card->cache_tokens = span->cache_tokens;
        uint64_t layers = (uint64_t)span->layer_end - span->layer_begin, used = slots_room_used(p);
        uint64_t all = span->cache_tokens * layers;
        card->free_tokens = used >= all ? 0 : (uint32_t)((all - used) / layers);
        card->layer_ns = span->layer_ns;
        card->waiting_layers = mean_queue(card->waiting_layers, slots_waiting_layers(p));
        card->upload_kib_s = span->upload_kib_s;
        card->adapters = span->adapters < SESSION_MAX_ADAPTERS ? span->adapters : SESSION_MAX_ADAPTERS;
        memcpy(card->adapter, span->adapter, sizeof card->adapter);
    }
    card->hops = 0;
    for (uint32_t n = 1, i = 1 + p->beats % p->count; n < p->count && card->hops < SESSION_MAX_CARD_HOPS; n++, i++) {
        const session_known *k = &p->known[i < p->count ? i : 1 + (i - p->count)];
        if (!k->linked || k->one_way_us == 0) continue;
        card->hop[card->hops++] = (session_card_hop){.to = peer_short(&k->card.id), .one_way_us = k->one_way_us};
    }
    card->version++;
}

void contacts_pump(session_peer *p, uint32_t i) {
    contact *c = &p->contact[i];
    if (!c->beat || i == 0 || !p->known[i].linked) return;
    session_message_cards *cards = &message_new(p, SESSION_MESSAGE_CARDS)->cards;
    cards->sent_ns = p->now_ns;
    cards->echo_ns = c->stamp;
    cards->held_ns = c->stamp == 0 ? 0 : p->now_ns - c->stamp_ns;
    cards->card[cards->count++] = p->known[0].card;
    uint32_t first = (uint32_t)rng_below(&p->random, p->count);
    for (uint32_t n = 0; c->gossip && n < p->count && cards->count < SESSION_MAX_CARDS; n++) {
        uint32_t k = (first + n) % p->count;
        if (k == 0 || k == i || p->known[k].suspected || p->known[k].card.version == 0) continue;
        cards->card[cards->count++] = p->known[k].card;
    }
    c->beat = c->gossip = false;
    message_send(p, &p->known[i].card.id);
}

static void check_silence(session_peer *p, uint32_t i) {
    const contact *c = &p->contact[i];
    uint64_t dead = p->config.dead_ns;
    if (p->known[i].linked) {
        if (p->now_ns - c->heard_ns > dead) suspect(p, i, SESSION_REASON_SILENT);
        return;
    }
    bool unreachable = c->failures > 0 && p->now_ns - c->down_ns > dead;
    if (unreachable || p->now_ns - c->fresh_ns > 4 * dead) suspect(p, i, SESSION_REASON_SILENT);
}

void contacts_beat(session_peer *p) {
    contacts_own_card(p);
    uint32_t links = 0, dials = 0;
    for (uint32_t i = 1; i < p->count; i++) links += p->known[i].linked;
    for (uint32_t i = p->count; i-- > 1;) {
        contact *c = &p->contact[i];
        check_silence(p, i);
        if (p->known[i].linked) {
            c->beat = true;
            c->gossip |= (p->beats + i) % GOSSIP_BEATS == 0;
            bitset_add(p->contact_dirty, i);
            continue;
        }
        if ((c->wanted || p->count <= FEW_PEERS || links < SOME_LINKS) && dials++ < FEW_PEERS) dial(p, i);
        if (p->now_ns - c->fresh_ns > FORGET_BEATS * p->config.heartbeat_ns && !c->dialing) forget(p, i);
    }
}

// ---- pairs that cannot reach each other

void contacts_cut_off(session_peer *p, const braid_id *a, const braid_id *b) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < CUT_PAIRS; i++) {
        if (p->pair[i].until_ns < p->pair[oldest].until_ns) oldest = i;
    }
    p->pair[oldest] = (cut_pair){.a = peer_short(a), .b = peer_short(b), .until_ns = p->now_ns + p->config.avoid_ns};
}

bool contacts_are_cut_off(const void *context, uint32_t a, uint32_t b) {
    const session_peer *p = context;
    uint64_t x = peer_short(&p->known[a].card.id), y = peer_short(&p->known[b].card.id);
    for (uint32_t i = 0; i < CUT_PAIRS; i++) {
        const cut_pair *pair = &p->pair[i];
        if (pair->until_ns <= p->now_ns) continue;
        if ((pair->a == x && pair->b == y) || (pair->a == y && pair->b == x)) return true;
    }
    return false;
}
