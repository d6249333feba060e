// The jobs of a slot, and the bound of kept rows.
#include "session/inside.h"

void jobs_start(session_peer *p, uint32_t i) {
    slot *s = &p->slots[i];
    if (s->running || s->fetching || s->in.queued == 0) return;
    // back-pressure: rows wait here rather than as outputs
    if (s->out.active && s->have > slot_next_sent(s) && s->have - slot_next_sent(s) >= p->config.window_rows) return;
    queued_rows *q = &s->in.queue[0];
    uint32_t count = q->count < p->config.chunk_rows ? q->count : p->config.chunk_rows;
    s->running = true;
    s->importing = false;
    s->ticket = ++p->ticket;
    s->since_ns = p->now_ns;
    s->run_position = s->have;
    s->run_count = count;
    s->run_valid = s->have + count;
    session_effect *e = effect_add(p, SESSION_EFFECT_RUN);
    e->slot = i;
    e->ticket = s->ticket;
    e->layer_begin = s->layer_begin;
    e->layer_end = s->layer_end;
    e->position = s->have;
    e->count = count;
    e->adapter = s->begins.adapter;
    e->blob = s->run_blob = q->blob;
    e->first_row = q->first_row;
    q->position += count;
    q->first_row += count;
    q->count -= count;
    if (q->count > 0) return;
    s->in.queued--;
    for (uint32_t k = 0; k < s->in.queued; k++) s->in.queue[k] = s->in.queue[k + 1];
    if (s->in.overflowed) s->in.want_new = true;
}

// The blob of a finished job, unless more of its rows are in the queue.
static void release_run(session_peer *p, slot *s) {
    bool more = s->in.queued > 0 && s->in.queue[0].blob == s->run_blob;
    if (!more) effect_release(p, s->run_blob);
    s->run_blob = 0;
}

void jobs_done(session_peer *p, const session_event *e) {
    if (e->slot >= p->config.slots) return;
    slot *s = &p->slots[e->slot];
    if (!s->used || !s->running || s->ticket != e->ticket) return;
    s->running = false;
    if (s->begins.adopting) {
        donor_adopted(p, e->slot, e);
        return;
    }
    p->check_kept = true;
    release_run(p, s);
    slot_mark(p, e->slot);
    if (s->closing) return;
    if (e->failed) {
        slot_give_up(p, e->slot, SESSION_FULL);
        return;
    }
    uint32_t valid = s->run_valid;
    if (peer_mutates(p, SESSION_MUTANT_KEEPS_VOID_RUN)) {
        valid = s->run_position + s->run_count;
        if (s->in.next < valid) s->in.next = valid;
        s->have = s->run_position;
    }
    // a truncation may have overtaken the job
    if (s->have == s->run_position && valid > s->have) s->have = valid;
    if (s->importing) donor_imported(p, e->slot);
}

// Rows that may be dropped: those that the next span has received. As a last resort (`all`) also
// those of a span that waits for a replay; it computes them again, as many at a time as its window
// allows.
static uint32_t droppable(const session_peer *p, const slot *s, bool all) {
    if (!s->used || s->closing || s->have <= s->kept_from) return 0;
    uint32_t next = s->out.active ? slot_next_sent(s) : 0, until = next < s->have ? next : s->have;
    if (all && (!s->out.active || s->have - until > p->config.window_rows + p->config.chunk_rows)) until = s->have;
    return until > s->kept_from ? until - s->kept_from : 0;
}

void jobs_bound_kept(session_peer *p) {
    if (!p->check_kept || peer_mutates(p, SESSION_MUTANT_NO_BOUND) || p->config.span.row_bytes == 0) return;
    uint64_t most = p->config.kept_bytes / p->config.span.row_bytes;
    uint64_t rows = slots_kept_rows(p);
    p->check_kept = rows > most;
    for (uint32_t pass = 0; pass < 2; pass++) {
        while (rows > most && p->queue.count < EFFECTS / 2) {
            uint32_t best = 0;
            for (uint32_t i = 1; i < p->config.slots; i++) {
                if (droppable(p, &p->slots[i], pass > 0) > droppable(p, &p->slots[best], pass > 0)) best = i;
            }
            uint32_t drop = p->config.slots > 0 ? droppable(p, &p->slots[best], pass > 0) : 0;
            if (drop == 0) break;
            p->slots[best].kept_from += drop;
            rows -= drop;
            session_effect *e = effect_add(p, SESSION_EFFECT_FORGET);
            e->slot = best;
            e->position = p->slots[best].kept_from;
        }
    }
}
