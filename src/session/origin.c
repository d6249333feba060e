// A session at its origin: the only peer that chooses its path and numbers its epochs and
// truncations.
//
// The origin is the sender of the first span and the receiver of the last one. It can always send
// every row, because its host has the tokens.
#include "session/inside.h"

#include <stdio.h>
#include <string.h>

enum {
    GIVE_WAY = 4,         // times dead_ns that a session waits for room before it gives up its parts of a path
    GIVE_WAY_BEATS = 16,  // heartbeats until it tries again, at most
};

uint32_t own_find(const session_peer *p, uint64_t number) {
    for (uint32_t i = 0; i < p->config.own; i++) {
        if (p->owns[i].used && !p->owns[i].ending && p->owns[i].number == number) return i;
    }
    return p->config.own;
}

uint32_t own_of(const session_peer *p, session_id id) {
    return id.incarnation == p->config.incarnation ? own_find(p, id.number) : p->config.own;
}

void own_mark(session_peer *p, uint32_t i) { bitset_add(p->own_dirty, i); }

session_id own_id(const session_peer *p, const own *o) {
    return (session_id){.incarnation = p->config.incarnation, .number = o->number};
}

uint32_t own_hop_of(const own *o, const braid_id *id) {
    for (uint32_t h = 0; h < o->path.count; h++) {
        if (id_equal(&o->path.hop[h].id, id)) return h;
    }
    return SESSION_MAX_HOPS;
}

// The span that receives the origin's rows, or sends to it.
static bool is_first(const own *o, const braid_id *id) { return o->path.count > 0 && id_equal(&o->path.hop[0].id, id); }
static bool is_last(const own *o, const braid_id *id) {
    return o->path.count > 0 && id_equal(&o->path.hop[o->path.count - 1].id, id);
}

// ---- the host's events

void own_open(session_peer *p, uint64_t number, const session_open *open) {
    if (own_find(p, number) < p->config.own || open->layers == 0 || open->layers > SESSION_MAX_LAYERS) return;
    for (uint32_t i = 0; i < p->config.own; i++) {
        own *o = &p->owns[i];
        if (o->used) continue;
        memset(o, 0, sizeof *o);
        o->used = true;
        o->number = number;
        o->open = *open;
        if (o->open.key_count > SESSION_MAX_KEYS) o->open.key_count = SESSION_MAX_KEYS;
        if (o->open.key_count > 0) memcpy(o->key, open->keys, o->open.key_count * sizeof *o->key);
        o->open.keys = NULL;
        o->began = o->open.key_count == 0;
        if (o->open.room > SESSION_MAX_TOKENS) o->open.room = SESSION_MAX_TOKENS;
        o->progress_ns = p->now_ns;
        o->waiting = true;
        own_mark(p, i);
        return;
    }
}

void own_step(session_peer *p, const session_event *e) {
    uint32_t i = own_find(p, e->number);
    if (i == p->config.own || e->count == 0 || e->count > SESSION_MAX_TOKENS - e->position) return;
    own *o = &p->owns[i];
    uint32_t first = o->need < e->position ? o->need : e->position;
    if (e->position > o->length || e->home < first || e->home >= e->position + e->count) return;
    o->need = e->home;
    if (e->position < o->length) {
        cuts_add(&o->cuts, o->cuts.now + 1, e->position);
        sender_cut(&o->out, peer_mutates(p, SESSION_MUTANT_FORGETS_CUTS) ? UINT32_MAX : e->position);
    }
    o->length = e->position + e->count;
    if (o->length > o->open.room) {
        o->open.room = o->length;
        for (uint32_t h = 0; h < o->path.count; h++) o->hop[h].open_due = true;
    }
    o->progress_ns = p->now_ns;
    o->probe_ns = 0;
    own_mark(p, i);
}

void own_end(session_peer *p, uint64_t number) {
    uint32_t i = own_find(p, number);
    if (i == p->config.own) return;
    p->owns[i].ending = true;
    own_mark(p, i);
}

static void send_close(session_peer *p, const own *o, const braid_id *to) {
    message_new(p, SESSION_MESSAGE_CLOSE)->close.session = own_id(p, o);
    message_send(p, to);
}

// A span that cannot be reached asks later (HELD).
static void finish_end(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    prefix_note_path(p, o);
    for (uint32_t h = 0; h < o->path.count; h++) {
        send_close(p, o, &o->path.hop[h].id);
        if (o->hop[h].has_donor) send_close(p, o, &o->hop[h].donor);
    }
    memset(o, 0, sizeof *o);
}

// ---- paths

void own_exclude(session_peer *p, uint32_t i, const braid_id *id, uint64_t for_ns) {
    own *o = &p->owns[i];
    uint32_t oldest = 0;
    for (uint32_t k = 0; k < EXCLUDED; k++) {
        if (id_equal(&o->out_of[k].id, id)) {
            oldest = k;
            break;
        }
        if (o->out_of[k].until_ns < o->out_of[oldest].until_ns) oldest = k;
    }
    o->out_of[oldest] = (excluded){.id = *id, .until_ns = p->now_ns + for_ns};
}

static void avoid_peers(const session_peer *p, const own *o, uint64_t *avoid) {
    for (uint32_t k = 0; k < p->count; k++) {
        const contact *c = &p->contact[k];
        const braid_id *id = &p->known[k].card.id;
        bool held = own_hop_of(o, id) < SESSION_MAX_HOPS;
        bool bad = contact_gone(p, k) || c->avoid_ns > p->now_ns || (c->full_ns > p->now_ns && !held);
        for (uint32_t x = 0; x < EXCLUDED; x++)
            bad |= o->out_of[x].until_ns > p->now_ns && id_equal(&o->out_of[x].id, id);
        if (bad) bitset_add(avoid, k);
    }
}

static bool covers(const session_peer *p, const own *o, const session_path *path) {
    if (path->count == 0 || path->count > SESSION_MAX_HOPS) return false;
    uint16_t layer = 0;
    for (uint32_t h = 0; h < path->count; h++) {
        const session_hop *hop = &path->hop[h];
        if (hop->layer_begin != layer || hop->layer_end <= layer || contact_find(p, &hop->id) == SESSION_MAX_PEERS)
            return false;
        for (uint32_t k = 0; k < h; k++) {
            if (id_equal(&path->hop[k].id, &hop->id)) return false;
        }
        layer = hop->layer_end;
    }
    return layer == o->open.layers;
}

static bool find_path(session_peer *p, const own *o, uint32_t room, session_path *path, uint16_t *missing) {
    uint64_t avoid[BITSET_WORDS(SESSION_MAX_PEERS)] = {0};
    avoid_peers(p, o, avoid);
    session_route_query query = {.model = o->open.model,
                                 .kernels = o->open.kernels,
                                 .layers = o->open.layers,
                                 .room = room,
                                 .tokens = o->length > o->open.prompt ? o->length : o->open.prompt,
                                 .adapter = o->open.adapter,
                                 .warm = prefix_warm_path(p, o),
                                 .old = &o->path,
                                 .avoid = avoid,
                                 .cut_off = contacts_are_cut_off,
                                 .cut_off_context = p};
    session_view view;
    session_peer_view(p, &view);
    session_route route = p->config.route ? p->config.route : session_route_shortest;
    *missing = 0;
    return route(p->config.route_context, &view, &query, path, missing) && covers(p, o, path);
}

static bool same_path(const session_path *a, const session_path *b) {
    if (a->count != b->count) return false;
    for (uint32_t h = 0; h < a->count; h++) {
        const session_hop *x = &a->hop[h], *y = &b->hop[h];
        if (!id_equal(&x->id, &y->id) || x->layer_begin != y->layer_begin || x->layer_end != y->layer_end) return false;
    }
    return true;
}

// A living peer of the old path that has the cache of this hop and does not take part any more.
static bool find_donor(const session_peer *p, const own *o, const session_path *path, uint32_t h, braid_id *donor) {
    const session_hop *hop = &path->hop[h];
    for (uint32_t k = 0; k < o->path.count; k++) {
        const session_hop *old = &o->path.hop[k];
        if (old->layer_begin != hop->layer_begin || old->layer_end != hop->layer_end || id_equal(&old->id, &hop->id))
            continue;
        uint32_t c = contact_find(p, &old->id);
        bool alive = c < p->count && p->known[c].linked && !contact_gone(p, c);
        for (uint32_t n = 0; n < path->count; n++) alive &= !id_equal(&path->hop[n].id, &old->id);
        *donor = o->hop[k].has_donor ? o->hop[k].donor : old->id;
        return alive && o->repair_reason >= SESSION_REASON_DRAINING;
    }
    return false;
}

static bool in_path(const session_path *path, const own_hop *hops, const braid_id *id) {
    for (uint32_t h = 0; h < path->count; h++) {
        if (id_equal(&path->hop[h].id, id) || (hops[h].has_donor && id_equal(&hops[h].donor, id))) return true;
    }
    return false;
}

static void adopt_path(session_peer *p, uint32_t i, const session_path *path) {
    own *o = &p->owns[i];
    own_hop hops[SESSION_MAX_HOPS] = {0};
    for (uint32_t h = 0; h < path->count; h++) {
        hops[h].open_due = true;
        uint32_t old = own_hop_of(o, &path->hop[h].id);
        if (old < SESSION_MAX_HOPS && o->hop[old].has_donor) {  // not fetched yet
            hops[h].has_donor = true;
            hops[h].donor = o->hop[old].donor;
        } else if (old == SESSION_MAX_HOPS) {
            hops[h].has_donor = o->length > 0 && find_donor(p, o, path, h, &hops[h].donor);
        }
    }
    for (uint32_t k = 0; k < o->path.count; k++) {
        if (!in_path(path, hops, &o->path.hop[k].id)) send_close(p, o, &o->path.hop[k].id);
        if (o->hop[k].has_donor && !in_path(path, hops, &o->hop[k].donor)) send_close(p, o, &o->hop[k].donor);
    }
    o->path = *path;
    memcpy(o->hop, hops, sizeof hops);
    o->epoch++;
    o->out.active = false;
    o->want_new = true;
    o->rewinding = false;
    o->waiting = o->told_waiting = false;
    o->progress_ns = p->now_ns;
    o->probe_ns = 0;
    session_tell *tell = effect_tell(p, SESSION_TELL_PATH);
    tell->number = o->number;
    tell->epoch = o->epoch;
    tell->path = &o->path;
}

static void wait_for_path(session_peer *p, uint32_t i, uint16_t missing, bool full) {
    own *o = &p->owns[i];
    o->waiting = true;
    o->retry_ns = p->now_ns + p->config.heartbeat_ns;
    if (o->told_waiting) return;
    o->told_waiting = true;
    session_tell *tell = effect_tell(p, full ? SESSION_TELL_FULL : SESSION_TELL_WAITING);
    tell->number = o->number;
    tell->layer = missing;
}

// The path as it is remains usable while a better one is looked for.
static bool may_stay(const own *o) {
    return o->repair_due && o->repair_reason >= SESSION_REASON_DRAINING && !o->waiting;
}

// Sessions that wait for room while they hold parts of their paths can block each other for ever.
// One that has waited long gives up its parts, so that another one gets a whole path, and tries again
// at a random time.
static bool gives_way(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    session_path path = {0};
    uint16_t missing;
    uint64_t since_ns = o->gave_way_ns > o->broken_ns ? o->gave_way_ns : o->broken_ns;
    if (!o->broken || o->path.count == 0 || p->now_ns - since_ns < GIVE_WAY * p->config.dead_ns) return false;
    if (!find_path(p, o, 0, &path, &missing)) return false;  // layers are missing, not room
    for (uint32_t k = 0; k < o->path.count; k++) {
        send_close(p, o, &o->path.hop[k].id);
        if (o->hop[k].has_donor) send_close(p, o, &o->hop[k].donor);
    }
    memset(o->hop, 0, sizeof o->hop);
    o->path.count = 0;
    o->out.active = false;
    o->gave_way_ns = p->now_ns;
    o->waiting = true;
    o->retry_ns = p->now_ns + (1 + rng_below(&p->random, GIVE_WAY_BEATS)) * p->config.heartbeat_ns;
    return true;
}

void own_try_path(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    bool stay = may_stay(o);
    o->repair_due = false;
    session_path path = {0};
    uint16_t missing;
    if (!stay && gives_way(p, i)) {
        own_mark(p, i);
        return;
    }
    if (find_path(p, o, o->open.room, &path, &missing)) {
        if (stay && same_path(&path, &o->path)) return;
        if (o->path.count > 0 && !o->waiting) {
            p->totals.repairs++;
            session_tell *tell = effect_tell(p, SESSION_TELL_REPLACED);
            tell->number = o->number;
            tell->id = o->repair_id;
            tell->reason = o->repair_reason;
        }
        adopt_path(p, i, &path);
    } else if (!stay) {
        uint16_t unused;
        bool full = find_path(p, o, 0, &path, &unused);
        wait_for_path(p, i, missing, full);
    }
    own_mark(p, i);
}

void own_repair(session_peer *p, uint32_t i, const braid_id *id, session_reason reason) {
    own *o = &p->owns[i];
    if (peer_mutates(p, SESSION_MUTANT_NO_REPAIR) && reason < SESSION_REASON_DRAINING) return;
    if (o->repair_due && o->repair_reason < SESSION_REASON_DRAINING) return;
    o->repair_due = true;
    o->repair_reason = (uint8_t)reason;
    o->repair_id = *id;
    if (reason < SESSION_REASON_DRAINING && !o->broken) {
        o->broken = true;
        o->broken_ns = p->now_ns;
    }
    own_mark(p, i);
}

// ---- messages

void own_opened(session_peer *p, const braid_id *from, const session_message_opened *opened) {
    uint32_t i = own_of(p, opened->session);
    if (i == p->config.own || opened->epoch != p->owns[i].epoch) return;
    own *o = &p->owns[i];
    uint32_t h = own_hop_of(o, from);
    if (h == SESSION_MAX_HOPS) return;
    if (!o->hop[h].opened) o->progress_ns = p->now_ns;
    o->hop[h].opened = true;
    o->hop[h].have = opened->have;
    if (!o->began) watch_check_began(p, i);
    if (opened->fetching || !o->hop[h].has_donor) return;
    o->hop[h].has_donor = false;
    if (own_hop_of(o, &o->hop[h].donor) == SESSION_MAX_HOPS) send_close(p, o, &o->hop[h].donor);
}

void own_refuse(session_peer *p, const braid_id *from, const session_message_refuse *refuse) {
    uint32_t i = own_of(p, refuse->session);
    if (i == p->config.own || refuse->epoch != p->owns[i].epoch || own_hop_of(&p->owns[i], from) == SESSION_MAX_HOPS)
        return;
    uint32_t k = contact_find(p, from);
    if (k < p->count && refuse->reason == SESSION_FULL) {
        p->contact[k].full_ns = p->now_ns + 2 * p->config.heartbeat_ns;
        if (refuse->free_tokens < p->known[k].card.free_tokens && k > 0)
            p->known[k].card.free_tokens = refuse->free_tokens;
    }
    own_exclude(p, i, from, refuse->reason == SESSION_FULL ? 2 * p->config.heartbeat_ns : p->config.dead_ns);
    own_repair(p, i, from, SESSION_REASON_REFUSED);
}

void own_want(session_peer *p, const braid_id *from, const session_message_want *want) {
    uint32_t i = own_of(p, want->session);
    if (i == p->config.own || want->epoch != p->owns[i].epoch || !is_first(&p->owns[i], from)) return;
    sender_want(&p->owns[i].out, want);
    own_mark(p, i);
}

void own_ready(session_peer *p, const braid_id *from, const session_message_ready *ready) {
    uint32_t i = own_of(p, ready->session);
    if (i == p->config.own || ready->epoch != p->owns[i].epoch || !is_last(&p->owns[i], from)) return;
    p->owns[i].want_more = true;
    own_mark(p, i);
}

// Outputs of the last span; true if the blob is the host's now.
static bool take_output(session_peer *p, uint32_t i, const session_message_rows *rows, session_blob blob) {
    own *o = &p->owns[i];
    uint32_t end = rows->position + rows->count;
    if (rows->cut != o->cuts.now && !peer_mutates(p, SESSION_MUTANT_ANY_CUT)) return false;
    if (rows->position > o->need) {
        if (!o->rewinding) o->want_new = o->rewinding = true;
        return false;
    }
    o->rewinding = false;
    if (end <= o->need || end > o->length || blob == 0) return false;
    session_effect *e = effect_add(p, SESSION_EFFECT_OUTPUT);
    e->number = o->number;
    e->position = o->need;
    e->count = end - o->need;
    e->first_row = o->need - rows->position;
    e->blob = blob;
    o->need = end;
    o->progress_ns = p->now_ns;
    o->probe_ns = 0;
    o->resyncs = 0;
    if (o->broken && !o->repair_due) {
        o->broken = false;
        session_tell *tell = effect_tell(p, SESSION_TELL_REPAIRED);
        tell->number = o->number;
        tell->ns = p->now_ns - o->broken_ns;
    }
    return true;
}

void own_rows(session_peer *p, const braid_id *from, const session_message_rows *rows, session_blob blob) {
    uint32_t i = own_of(p, rows->session);
    bool taken = false;
    if (i < p->config.own) {
        const own *o = &p->owns[i];
        bool mine = (rows->epoch == o->epoch && is_last(o, from)) || peer_mutates(p, SESSION_MUTANT_ANY_EPOCH);
        taken = mine && take_output(p, i, rows, blob);
        own_mark(p, i);
    }
    if (!taken) effect_release(p, blob);
}

void own_lost(session_peer *p, const braid_id *from, const session_message_lost *lost) {
    uint32_t i = own_of(p, lost->session);
    if (i == p->config.own || lost->epoch != p->owns[i].epoch || own_hop_of(&p->owns[i], from) == SESSION_MAX_HOPS)
        return;
    uint32_t k = contact_find(p, &lost->peer);
    bool gone = k == SESSION_MAX_PEERS || contact_gone(p, k);
    if (!gone) contacts_cut_off(p, from, &lost->peer);
    own_repair(p, i, &lost->peer, gone ? SESSION_REASON_SILENT : SESSION_REASON_CUT_OFF);
}

void own_held(session_peer *p, const braid_id *from, const session_message_held *held) {
    session_message_kept kept = {.count = held->count};
    for (uint32_t k = 0; k < held->count; k++) {
        kept.session[k] = held->session[k];
        uint32_t i = own_of(p, held->session[k]);
        kept.keep[k] = i < p->config.own && in_path(&p->owns[i].path, p->owns[i].hop, from);
    }
    message_new(p, SESSION_MESSAGE_KEPT)->kept = kept;
    message_send(p, from);
}

// ---- what is due

static const char *address_of(const session_peer *p, const braid_id *id) {
    uint32_t k = contact_find(p, id);
    return k < p->count ? p->known[k].card.address : "";
}

static void send_open(session_peer *p, const own *o, uint32_t h) {
    const session_hop *hop = &o->path.hop[h];
    bool last = h + 1 == o->path.count;
    session_message_open *open = &message_new(p, SESSION_MESSAGE_OPEN)->open;
    *open = (session_message_open){.session = own_id(p, o),
                                   .epoch = o->epoch,
                                   .model = o->open.model,
                                   .kernels = o->open.kernels,
                                   .adapter = o->open.adapter,
                                   .layer_begin = hop->layer_begin,
                                   .layer_end = hop->layer_end,
                                   .room = o->open.room,
                                   .tokens = o->length,
                                   .last = last,
                                   .has_donor = o->hop[h].has_donor,
                                   .donor = o->hop[h].donor,
                                   .cut = o->cuts.now,
                                   .keys = o->open.key_count};
    memcpy(open->key, o->key, o->open.key_count * sizeof *o->key);
    open->upstream = h == 0 ? p->config.self : o->path.hop[h - 1].id;
    open->downstream = last ? p->config.self : o->path.hop[h + 1].id;
    snprintf(open->upstream_address, WIRE_MAX_ADDRESS, "%s", address_of(p, &open->upstream));
    snprintf(open->downstream_address, WIRE_MAX_ADDRESS, "%s", address_of(p, &open->downstream));
    message_send(p, &hop->id);
}

static void pump_opens(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    uint32_t made = 0;
    for (uint32_t h = 0; h < o->path.count; h++) {
        if (!o->hop[h].open_due || !contact_reach(p, &o->path.hop[h].id)) continue;
        if (made++ == OPENS) {  // their keys would not fit into the queue
            own_mark(p, i);
            return;
        }
        o->hop[h].open_due = false;
        send_open(p, o, h);
    }
}

static void pump_probe(session_peer *p, own *o) {
    if (!o->probe_due) return;
    o->probe_due = false;
    for (uint32_t h = 0; h < o->path.count; h++) {
        o->hop[h].status = false;
        message_new(p, SESSION_MESSAGE_PROBE)->probe =
            (session_message_probe){.session = own_id(p, o), .epoch = o->epoch};
        message_send(p, &o->path.hop[h].id);
    }
}

static void pump_want(session_peer *p, own *o) {
    const braid_id *last = &o->path.hop[o->path.count - 1].id;
    if ((!o->want_new && !o->want_more) || !contact_reach(p, last)) return;
    o->ask += o->want_new;
    o->want_new = o->want_more = false;
    session_message_want *want = &message_new(p, SESSION_MESSAGE_WANT)->want;
    *want = (session_message_want){
        .session = own_id(p, o), .epoch = o->epoch, .ask = o->ask, .incarnation = p->config.incarnation};
    want->cut = o->cuts.now;
    want->from = o->need;
    want->limit = UINT32_MAX;
    message_send(p, last);
}

static void pump_rows(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    const braid_id *first = &o->path.hop[0].id;
    if (!sender_open(&o->out, &o->cuts) || !contact_reach(p, first)) return;
    uint32_t start = o->out.sent, end = o->length < o->out.limit ? o->length : o->out.limit;
    if (start >= end && !o->out.owes) return;
    uint32_t count = start < end ? end - start : 0;
    if (count > p->config.chunk_rows) count = p->config.chunk_rows;
    session_message_rows *rows = &message_new(p, SESSION_MESSAGE_ROWS)->rows;
    *rows = (session_message_rows){.session = own_id(p, o),
                                   .epoch = o->epoch,
                                   .cut = o->cuts.now,
                                   .position = start,
                                   .count = count,
                                   .home = o->need};
    session_effect *e = message_send(p, first);
    o->out.owes = false;
    if (!e || count == 0) return;
    e->source = SESSION_SOURCE_TOKENS;
    e->number = o->number;
    e->position = start;
    e->count = count;
    if (o->out.top > start)
        p->totals.replayed_rows += (o->out.top < start + count ? o->out.top : start + count) - start;
    o->out.sent = start + count;
    if (o->out.top < o->out.sent) o->out.top = o->out.sent;
    own_mark(p, i);
}

void own_pump(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    if (!o->used) return;
    if (o->ending) {
        finish_end(p, i);
        return;
    }
    if (o->repair_due || (o->waiting && p->now_ns >= o->retry_ns)) {
        own_try_path(p, i);
        return;
    }
    if (o->waiting || o->path.count == 0) return;
    pump_opens(p, i);
    pump_probe(p, o);
    pump_rows(p, i);
    pump_want(p, o);
}
