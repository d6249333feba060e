// A session at a span: its place in the path, rows in, rows out.
//
// The rows of a session are a function of its text, whatever path computed them. So a span that
// changes its neighbours goes on with the cache that it has, and asks the new upstream neighbour
// for what comes next.
#include "session/inside.h"

#include <string.h>

uint32_t slot_find(const session_peer *p, session_id id) {
    for (uint32_t i = 0; i < p->config.slots; i++) {
        if (p->slots[i].used && !p->slots[i].closing && session_id_equal(p->slots[i].id, id)) return i;
    }
    return p->config.slots;
}

void slot_mark(session_peer *p, uint32_t i) { bitset_add(p->slot_dirty, i); }

uint64_t slots_room_used(const session_peer *p) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < p->config.slots; i++) {
        const slot *s = &p->slots[i];
        if (s->used) used += (uint64_t)s->room * (s->layer_end - s->layer_begin);
    }
    return used;
}

uint64_t slots_waiting_layers(const session_peer *p) {
    uint64_t waiting = 0;
    for (uint32_t i = 0; i < p->config.slots; i++) {
        const slot *s = &p->slots[i];
        if (!s->used || s->closing) continue;
        uint64_t rows = s->running && !s->importing && !s->begins.adopting ? s->run_count : 0;
        for (uint32_t q = 0; q < s->in.queued; q++) rows += s->in.queue[q].count;
        waiting += rows * (s->layer_end - s->layer_begin);
    }
    return waiting;
}

uint64_t slots_kept_rows(const session_peer *p) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < p->config.slots; i++) {
        if (p->slots[i].used) rows += p->slots[i].have - p->slots[i].kept_from;
    }
    return rows;
}

// ---- open

static void refuse(session_peer *p, const braid_id *to, session_id id, uint32_t epoch, session_refusal reason) {
    session_message_refuse *refusal = &message_new(p, SESSION_MESSAGE_REFUSE)->refuse;
    *refusal = (session_message_refuse){
        .session = id, .epoch = epoch, .reason = (uint8_t)reason, .free_tokens = p->known[0].card.free_tokens};
    message_send(p, to);
    p->totals.refused++;
}

static bool fits(const session_peer *p, const session_message_open *open, const slot *old) {
    const session_span *span = &p->config.span;
    uint64_t layers = (uint64_t)open->layer_end - open->layer_begin, used = slots_room_used(p);
    if (old) used -= (uint64_t)old->room * (old->layer_end - old->layer_begin);
    if (peer_mutates(p, SESSION_MUTANT_OVERFILLS)) return true;
    return used + open->room * layers <= (uint64_t)span->cache_tokens * (span->layer_end - span->layer_begin);
}

static bool has_adapter(const session_span *span, uint64_t adapter) {
    bool found = adapter == 0;
    for (uint32_t i = 0; i < span->adapters; i++) found |= span->adapter[i] == adapter;
    return found;
}

static bool held_here(const session_peer *p, const session_message_open *open) {
    const session_span *span = &p->config.span;
    return p->config.serves && hash_equal(&span->model, &open->model) && hash_equal(&span->kernels, &open->kernels) &&
           open->layer_begin >= span->layer_begin && open->layer_end <= span->layer_end &&
           has_adapter(span, open->adapter);
}

static uint32_t free_slot(const session_peer *p) {
    for (uint32_t i = 0; i < p->config.slots; i++) {
        if (!p->slots[i].used) return i;
    }
    return p->config.slots;
}

// Another place in the path: what was computed stays.
static void enter_epoch(session_peer *p, uint32_t i, const session_message_open *open) {
    slot *s = &p->slots[i];
    s->epoch = open->epoch;
    s->up = open->upstream;
    s->down = open->downstream;
    s->last = open->last;
    s->out.active = false;
    s->in.rewinding = false;
    s->in.want_new = true;
    s->send_ready = true;
    s->lost_up = s->lost_down = false;
    if (s->fetching && (!open->has_donor || !id_equal(&s->donor, &open->donor))) donor_end(p, i);
    if (!s->fetching && open->has_donor && s->in.next == 0 && !s->running) donor_begin(p, i, open);
}

void slot_open(session_peer *p, const braid_id *from, const session_message_open *open) {
    uint32_t i = slot_find(p, open->session);
    slot *old = i < p->config.slots ? &p->slots[i] : NULL;
    if (old && (!id_equal(&old->origin, from) || open->epoch < old->epoch)) return;
    if (!held_here(p, open)) {
        refuse(p, from, open->session, open->epoch, SESSION_NOT_HERE);
        return;
    }
    if (p->draining && !old) {
        refuse(p, from, open->session, open->epoch, SESSION_DRAINING);
        return;
    }
    bool same = old && ((old->layer_begin == open->layer_begin && old->layer_end == open->layer_end) ||
                        peer_mutates(p, SESSION_MUTANT_OTHER_LAYERS));
    if (same) {
        old->layer_begin = open->layer_begin;
        old->layer_end = open->layer_end;
    }
    uint32_t room = same && old->room > open->room ? old->room : open->room;
    if ((room > (same ? old->room : 0) && !fits(p, open, same ? old : NULL)) ||
        (!same && free_slot(p) == p->config.slots)) {
        refuse(p, from, open->session, open->epoch, SESSION_FULL);
        return;
    }
    if (!same) {
        if (old) slot_close(p, i);
        i = free_slot(p);
        p->slots[i] = (slot){.used = true,
                             .id = open->session,
                             .origin = *from,
                             .begins.adapter = open->adapter,
                             .layer_begin = open->layer_begin,
                             .layer_end = open->layer_end};
    }
    slot *s = &p->slots[i];
    s->room = room;
    s->confirmed_ns = p->now_ns;
    contact_add(p, &open->upstream, open->upstream_address);
    contact_add(p, &open->downstream, open->downstream_address);
    if (open->epoch > s->epoch) enter_epoch(p, i, open);
    if (!same && !s->fetching && open->keys > 0) donor_adopt(p, i, open);
    if (s->in.overflowed) s->in.want_new = true;
    s->send_opened = true;
    slot_mark(p, i);
}

// ---- close

static void drop_queue(session_peer *p, slot *s, uint32_t from) {
    while (s->in.queued > 0) {
        queued_rows *q = &s->in.queue[s->in.queued - 1];
        if (q->position + q->count <= from) return;
        if (q->position < from) {
            q->count = from - q->position;
            return;
        }
        // the first one's blob may be the running job's
        if (q->blob != s->run_blob || !s->running) effect_release(p, q->blob);
        s->in.queued--;
    }
}

void slot_close(session_peer *p, uint32_t i) {
    p->slots[i].closing = true;
    slot_mark(p, i);
}

void slot_give_up(session_peer *p, uint32_t i, session_refusal reason) {
    p->slots[i].refused = true;
    p->slots[i].refusal = (uint8_t)reason;
    slot_close(p, i);
}

// The host may free all kept rows of the slot.
static void forget_all(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    if (s->kept_from >= s->have) return;
    session_effect *e = effect_add(p, SESSION_EFFECT_FORGET);
    e->slot = i;
    e->position = s->kept_from = s->have;
}

static void finish_close(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    if (s->refused) refuse(p, &s->origin, s->id, s->epoch, s->refusal);
    s->refused = false;
    drop_queue(p, s, 0);
    forget_all(p, i);
    if (s->running) return;
    effect_add(p, SESSION_EFFECT_FREE)->slot = i;
    memset(s, 0, sizeof *s);
}

void slot_close_message(session_peer *p, const braid_id *from, const session_message_close *close) {
    uint32_t i = slot_find(p, close->session);
    if (i < p->config.slots && id_equal(&p->slots[i].origin, from)) slot_close(p, i);
}

void slot_kept(session_peer *p, const braid_id *from, const session_message_kept *kept) {
    for (uint32_t k = 0; k < kept->count; k++) {
        uint32_t i = slot_find(p, kept->session[k]);
        if (i == p->config.slots || !id_equal(&p->slots[i].origin, from)) continue;
        if (kept->keep[k])
            p->slots[i].confirmed_ns = p->now_ns;
        else
            slot_close(p, i);
    }
}

// ---- rows in

void slot_truncate(session_peer *p, uint32_t i, uint32_t t, bool history) {
    slot *s = &p->slots[i];
    if (history) sender_cut(&s->out, t);
    if (t >= s->in.next) return;
    drop_queue(p, s, t);
    s->in.next = t;
    s->in.rewinding = false;
    if (s->running && s->run_valid > t) s->run_valid = t;
    if (s->kept_from >= t) forget_all(p, i);
    if (s->have > t) s->have = t;
    if (s->kept_from > s->have) s->kept_from = s->have;
}

// Rows are missing before those that came. Those that were dropped for want of room are asked for
// once there is room.
static void rewind_upstream(slot *s) {
    if (s->in.rewinding || s->in.overflowed) return;
    s->in.rewinding = true;
    s->in.want_new = true;
}

// True if the truncation of the sender is known now, and its rows may be taken.
static bool take_cut(session_peer *p, uint32_t i, const session_message_rows *rows) {
    slot *s = &p->slots[i];
    if (rows->cut < s->cuts.now) return peer_mutates(p, SESSION_MUTANT_ANY_CUT);
    if (rows->cut > s->cuts.now) {
        if (rows->position > s->in.next) {
            rewind_upstream(s);
            return false;
        }
        if (!peer_mutates(p, SESSION_MUTANT_KEEPS_REJECTED)) slot_truncate(p, i, rows->position, true);
        cuts_add(&s->cuts, rows->cut, rows->position);
    }
    s->home = rows->home;
    return true;
}

// True if the blob is in the queue now.
static bool take_rows(session_peer *p, uint32_t i, const session_message_rows *rows, session_blob blob) {
    slot *s = &p->slots[i];
    uint32_t position = rows->position, end = rows->position + rows->count;
    if (position > s->in.next && !peer_mutates(p, SESSION_MUTANT_SKIPS_GAPS)) {
        rewind_upstream(s);
        return false;
    }
    if (position > s->in.next) position = s->in.next;
    if (peer_mutates(p, SESSION_MUTANT_APPENDS_TWICE) && end <= s->in.next) {
        position = s->in.next;
        end = position + rows->count;
    }
    s->in.rewinding = false;
    if (end <= s->in.next) return false;
    if (s->in.queued == SESSION_QUEUE || end > s->room) {
        s->in.overflowed = true;
        return false;
    }
    uint32_t skip = s->in.next - position, count = rows->count - skip;
    s->in.queue[s->in.queued++] =
        (queued_rows){.position = s->in.next, .count = count, .first_row = skip, .blob = blob};
    s->in.next += count;
    if (s->in.limit < s->in.next + p->config.window_rows / 2) s->in.want_more = true;
    return true;
}

void slot_rows(session_peer *p, const braid_id *from, const session_message_rows *rows, session_blob blob) {
    uint32_t i = slot_find(p, rows->session);
    bool taken = false;
    if (i < p->config.slots) {
        slot *s = &p->slots[i];
        bool mine = (id_equal(&s->up, from) && rows->epoch == s->epoch) || peer_mutates(p, SESSION_MUTANT_ANY_EPOCH);
        if (mine && !s->fetching && !s->begins.adopting && take_cut(p, i, rows) && rows->count > 0 && blob != 0)
            taken = take_rows(p, i, rows, blob);
        slot_mark(p, i);
    }
    if (!taken) effect_release(p, blob);
}

// ---- rows out

void slot_want(session_peer *p, const braid_id *from, const session_message_want *want) {
    uint32_t i = slot_find(p, want->session);
    if (i == p->config.slots || !id_equal(&p->slots[i].down, from) || want->epoch != p->slots[i].epoch) return;
    slot *s = &p->slots[i];
    sender_want(&s->out, want);
    if (peer_mutates(p, SESSION_MUTANT_NO_REWIND) && s->out.sent < s->have) s->out.sent = s->have;
    slot_mark(p, i);
}

void slot_ready(session_peer *p, const braid_id *from, const session_message_ready *ready) {
    uint32_t i = slot_find(p, ready->session);
    if (i == p->config.slots || !id_equal(&p->slots[i].up, from) || ready->epoch != p->slots[i].epoch) return;
    p->slots[i].in.want_more = true;
    slot_mark(p, i);
}

// The outputs that are wanted were dropped: compute them again, with inputs from upstream.
static void recompute(session_peer *p, uint32_t i, uint32_t from) {
    slot *s = &p->slots[i];
    p->totals.recomputed_rows += s->have - from;
    slot_truncate(p, i, from, false);
    s->in.want_new = true;
}

// The origin has what was sent to it; the last rows are kept for a link that falls.
static void forget_delivered(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    uint32_t chunk = p->config.chunk_rows;
    if (!s->last || s->out.sent < s->kept_from + 2 * chunk || s->out.sent > s->have) return;
    s->kept_from = s->out.sent - chunk;
    session_effect *e = effect_add(p, SESSION_EFFECT_FORGET);
    e->slot = i;
    e->position = s->kept_from;
}

static void send_rows(session_peer *p, uint32_t i, uint32_t position, uint32_t count) {
    slot *s = &p->slots[i];
    session_message_rows *rows = &message_new(p, SESSION_MESSAGE_ROWS)->rows;
    *rows = (session_message_rows){.session = s->id,
                                   .epoch = s->epoch,
                                   .cut = s->cuts.now,
                                   .position = position,
                                   .count = count,
                                   .home = s->home,
                                   .to_origin = s->last};
    session_effect *e = message_send(p, &s->down);
    s->out.owes = false;
    if (!e || count == 0) return;
    e->source = SESSION_SOURCE_KEPT;
    e->slot = i;
    e->position = position;
    e->count = count;
    if (s->out.top > position)
        p->totals.replayed_rows += (s->out.top < position + count ? s->out.top : position + count) - position;
    s->out.sent = position + count;
    p->check_kept = true;
    if (s->out.top < s->out.sent) s->out.top = s->out.sent;
    forget_delivered(p, i);
    slot_mark(p, i);
}

uint32_t slot_next_sent(const slot *s) { return s->last && s->out.sent < s->home ? s->home : s->out.sent; }

static void pump_rows(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    // while a cache is fetched, the newest truncation is not known
    if (s->fetching || s->begins.adopting || !sender_open(&s->out, &s->cuts) || !contact_reach(p, &s->down)) return;
    uint32_t start = slot_next_sent(s), end = s->have;
    if (end > s->out.limit) end = s->out.limit;
    if (start < end && start < s->kept_from && !peer_mutates(p, SESSION_MUTANT_SENDS_DROPPED)) {
        recompute(p, i, start);
        return;
    }
    if (start < end) {
        send_rows(p, i, start, end - start < p->config.chunk_rows ? end - start : p->config.chunk_rows);
    } else if (s->out.owes && !s->last) {
        send_rows(p, i, s->out.sent, 0);
    }
}

static void pump_want(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    if ((!s->in.want_new && !s->in.want_more) || s->fetching || s->begins.adopting || !contact_reach(p, &s->up)) return;
    if (s->in.want_new) {
        s->in.ask++;
        s->in.overflowed = false;
    }
    s->in.want_new = s->in.want_more = false;
    s->in.limit = s->in.next + p->config.window_rows;
    session_message_want *want = &message_new(p, SESSION_MESSAGE_WANT)->want;
    *want = (session_message_want){
        .session = s->id, .epoch = s->epoch, .ask = s->in.ask, .incarnation = p->config.incarnation};
    want->cut = s->cuts.now;
    want->from = s->in.next;
    want->limit = s->in.limit;
    want->to_origin = s->layer_begin == 0;
    message_send(p, &s->up);
}

static void pump_answers(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    if (s->send_opened && !s->begins.adopting && contact_reach(p, &s->origin)) {
        s->send_opened = false;
        session_message_opened *opened = &message_new(p, SESSION_MESSAGE_OPENED)->opened;
        *opened =
            (session_message_opened){.session = s->id, .epoch = s->epoch, .have = s->in.next, .fetching = s->fetching};
        message_send(p, &s->origin);
    }
    if (s->send_ready && contact_reach(p, &s->down)) {
        s->send_ready = false;
        message_new(p, SESSION_MESSAGE_READY)->ready =
            (session_message_ready){.session = s->id, .epoch = s->epoch, .to_origin = s->last};
        message_send(p, &s->down);
    }
}

static bool neighbour_lost(const session_peer *p, const braid_id *id) {
    uint32_t k = contact_find(p, id);
    if (k == SESSION_MAX_PEERS) return true;
    if (k == 0 || p->known[k].linked) return false;
    return p->contact[k].refused || p->now_ns - p->contact[k].down_ns > p->config.dead_ns / 2;
}

static void report_lost(session_peer *p, slot *s, const braid_id *id, bool *reported) {
    if (*reported || !neighbour_lost(p, id) || !contact_linked(p, &s->origin)) return;
    *reported = true;
    message_new(p, SESSION_MESSAGE_LOST)->lost =
        (session_message_lost){.session = s->id, .epoch = s->epoch, .peer = *id};
    message_send(p, &s->origin);
}

void slot_pump(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    if (!s->used) return;
    if (s->closing) {
        finish_close(p, i);
        return;
    }
    pump_answers(p, i);
    report_lost(p, s, &s->up, &s->lost_up);
    report_lost(p, s, &s->down, &s->lost_down);
    donor_pump(p, i);
    jobs_start(p, i);
    pump_rows(p, i);
    pump_want(p, i);
}

void slot_probe(session_peer *p, const braid_id *from, const session_message_probe *probe) {
    session_message_status *status = &message_new(p, SESSION_MESSAGE_STATUS)->status;
    status->session = probe->session;
    uint32_t i = slot_find(p, probe->session);
    if (i < p->config.slots) {
        const slot *s = &p->slots[i];
        status->epoch = s->epoch;
        status->have = s->have;
        status->next = s->in.next;
        status->sent = s->out.sent;
        status->running = s->running;
        status->fetching = s->fetching;
        uint64_t ms = s->running ? (p->now_ns - s->since_ns) / 1000000 : 0;
        status->running_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    }
    message_send(p, from);
}

// ---- links and time

void slots_link(session_peer *p, const braid_id *id, bool up) {
    for (uint32_t i = 0; i < p->config.slots; i++) {
        slot *s = &p->slots[i];
        if (!s->used || s->closing) continue;
        if (id_equal(&s->up, id)) s->in.want_new = true;
        if (id_equal(&s->down, id)) {
            s->send_ready = true;
            s->out.active = false;
        }
        if (up && id_equal(&s->up, id)) s->lost_up = false;
        if (up && id_equal(&s->down, id)) s->lost_down = false;
        if (s->fetching && id_equal(&s->donor, id)) s->fetch_sent = false;
        slot_mark(p, i);
    }
}

// HELD for one origin, with all sessions of that origin that are due.
static void ask_origin(session_peer *p, const braid_id *origin) {
    session_message_held *held = &message_new(p, SESSION_MESSAGE_HELD)->held;
    for (uint32_t i = 0; i < p->config.slots && held->count < SESSION_MAX_HELD; i++) {
        slot *s = &p->slots[i];
        if (!s->used || s->closing || !id_equal(&s->origin, origin) || p->now_ns - s->asked_ns < p->config.lease_ns / 4)
            continue;
        s->asked_ns = p->now_ns;
        held->session[held->count++] = s->id;
    }
    message_send(p, origin);
}

void slots_beat(session_peer *p) {
    uint32_t asked = 0;
    for (uint32_t i = 0; i < p->config.slots; i++) {
        slot *s = &p->slots[i];
        if (!s->used || s->closing) continue;
        slot_mark(p, i);
        donor_beat(p, i);
        if (p->now_ns - s->confirmed_ns > p->config.lease_ns && !peer_mutates(p, SESSION_MUTANT_NO_LEASE)) {
            slot_close(p, i);
            continue;
        }
        if (p->now_ns - s->confirmed_ns < p->config.lease_ns / 4 || p->now_ns - s->asked_ns < p->config.lease_ns / 4)
            continue;
        if (asked++ < SESSION_MAX_CARDS && contact_linked(p, &s->origin)) ask_origin(p, &s->origin);
    }
}
