// Tensors on lines. Each pair sends one tensor at a time in each direction, in order. All of them
// share the lines of the machines that they leave and enter by max-min fairness: the most loaded
// line is divided equally, the rest of the other lines likewise among the remaining tensors, and so
// on. Rates are computed again whenever a tensor starts or ends.
#include "sim/swarm/inside.h"

#include <stdlib.h>

static const uint64_t NO_LIMIT = UINT64_MAX;

static swarm_machine *sender_of(const swarm *w, const swarm_arc *arc) { return &w->machine[w->peer[arc->from].s->machine]; }
static swarm_machine *receiver_of(const swarm *w, const swarm_arc *arc) { return &w->machine[w->peer[arc->to].s->machine]; }

static bool limited(const swarm *w, const swarm_arc *arc) {
    return arc->link.bps || (!arc->local && (sender_of(w, arc)->up_bps || receiver_of(w, arc)->down_bps)) || w->s->partitions;
}

static bool cut(const swarm *w, const swarm_arc *arc) {
    return w->s->partitions && scenario_cut(w->s, w->peer[arc->from].index, w->peer[arc->to].index, w->core->now - SWARM_BEGIN_NS);
}

// The most that this transfer gets when its lines are divided among the unsettled transfers.
static uint64_t share(const swarm *w, const swarm_arc *arc) {
    uint64_t least = arc->link.bps ? arc->link.bps : NO_LIMIT;
    if (arc->local) return least;
    const swarm_machine *a = sender_of(w, arc), *b = receiver_of(w, arc);
    if (a->up_bps && a->up_left / a->up_flows < least) least = a->up_left / a->up_flows;
    if (b->down_bps && b->down_left / b->down_flows < least) least = b->down_left / b->down_flows;
    return least;
}

static void settle(const swarm *w, swarm_arc *arc, uint64_t rate) {
    arc->settled = true;
    arc->rate = rate > 0 ? rate : 1;
    if (arc->local) return;
    swarm_machine *a = sender_of(w, arc), *b = receiver_of(w, arc);
    a->up_left -= a->up_bps ? rate : 0;
    a->up_flows--;
    b->down_left -= b->down_bps ? rate : 0;
    b->down_flows--;
}

static void lines_open(swarm *w) {
    for (uint32_t i = 0; i < w->shares; i++) {
        swarm_machine *a = sender_of(w, w->share[i]), *b = receiver_of(w, w->share[i]);
        a->up_left = a->up_bps;
        b->down_left = b->down_bps;
        a->up_flows = b->down_flows = 0;
    }
    for (uint32_t i = 0; i < w->shares; i++) {
        swarm_arc *arc = w->share[i];
        arc->settled = cut(w, arc);
        if (arc->settled) arc->rate = 0;
        if (arc->settled || arc->local) continue;
        sender_of(w, arc)->up_flows++;
        receiver_of(w, arc)->down_flows++;
    }
}

static void rates(swarm *w) {
    lines_open(w);
    for (;;) {
        uint64_t least = NO_LIMIT;
        bool any = false;
        for (uint32_t i = 0; i < w->shares; i++) {
            if (w->share[i]->settled) continue;
            uint64_t mine = share(w, w->share[i]);
            least = mine < least ? mine : least;
            any = true;
        }
        if (!any) return;
        // all transfers with the least share are limited by the same full line
        for (uint32_t i = 0; i < w->shares; i++)
            if (!w->share[i]->settled && share(w, w->share[i]) <= least) settle(w, w->share[i], least);
    }
}

// ---- transfers with new rates: those that share a line with a tensor that started or ended,
// directly or through other transfers; the rest keep their rates

static void *grown(void *array, uint32_t *room, uint32_t wanted, size_t size) {
    if (wanted <= *room) return array;
    *room = 2 * wanted + 64;
    void *larger = realloc(array, *room * size);
    BRAID_ALLOCATED(larger, *room * size);
    return larger;
}

static void line_touch(swarm *w, swarm_line *line) {
    if (line->touched) return;
    line->touched = true;
    w->touched = grown(w->touched, &w->touch_room, w->touches + 1, sizeof(swarm_line *));
    w->touched[w->touches++] = line;
}

static void share_add(swarm *w, swarm_arc *arc) {
    if (arc->seen == w->looks) return;
    arc->seen = w->looks;
    w->share = grown(w->share, &w->share_room, w->shares + 1, sizeof(swarm_arc *));
    w->share[w->shares++] = arc;
}

static void line_visit(swarm *w, swarm_line *line) {
    if (line->seen == w->looks) return;
    line->seen = w->looks;
    for (uint32_t i = 0; i < line->arcs; i++) share_add(w, line->arc[i]);
}

static int by_order(const void *a, const void *b) {
    uint64_t x = (*(swarm_arc *const *)a)->order, y = (*(swarm_arc *const *)b)->order;
    return x < y ? -1 : x > y;
}

static void find_shares(swarm *w) {
    w->looks++;
    w->shares = 0;
    bool all = w->all_touched || w->s->partitions > 0;
    for (uint32_t i = 0; all && i < w->flows; i++) share_add(w, w->flow[i]);
    for (uint32_t i = 0; i < w->touches; i++) {
        w->touched[i]->touched = false;
        if (!all) line_visit(w, w->touched[i]);
    }
    for (uint32_t i = 0; !all && i < w->shares; i++) {
        line_visit(w, &sender_of(w, w->share[i])->up);
        line_visit(w, &receiver_of(w, w->share[i])->down);
    }
    w->touches = 0;
    w->all_touched = false;
    qsort(w->share, w->shares, sizeof(swarm_arc *), by_order);
}

static void arc_advance(swarm_arc *arc, uint64_t now_ns) {
    uint64_t passed = now_ns - arc->at_ns;
    arc->at_ns = now_ns;
    unsigned __int128 through = (unsigned __int128)passed * arc->rate;
    arc->left = through < arc->left ? arc->left - (uint64_t)through : 0;
}

static void arc_plan(swarm *w, swarm_arc *arc) {
    arc->serial++;
    if (arc->rate == 0) return;
    swarm_item *item = swarm_item_new(SWARM_FLOW, arc->from, 0);
    item->other = arc->to;
    item->serial = arc->serial;
    uint64_t wait = arc->rate == NO_LIMIT ? 0 : arc->left / arc->rate + (arc->left % arc->rate != 0);
    swarm_put(w, w->core->now + wait, item);
}

void swarm_flow_all(swarm *w) {
    w->lines_planned = false;
    find_shares(w);
    for (uint32_t i = 0; i < w->shares; i++) {
        arc_advance(w->share[i], w->core->now);
        w->share[i]->rate_before = w->share[i]->rate;
    }
    rates(w);
    for (uint32_t i = 0; i < w->shares; i++)
        if (w->share[i]->rate != w->share[i]->rate_before) arc_plan(w, w->share[i]);
}

// Changes of one time are handled together, when all of them are known.
static void lines_plan(swarm *w) {
    if (w->lines_planned) return;
    w->lines_planned = true;
    swarm_put(w, w->core->now, swarm_item_new(SWARM_LINES, 0, 0));
}

static void busy_both(swarm *w, const swarm_arc *arc, void (*change)(swarm_busy *b, uint64_t now_ns)) {
    change(&w->peer[arc->from].sending, w->core->now);
    change(&w->peer[arc->to].receiving, w->core->now);
}

static void line_add(swarm *w, swarm_line *line, swarm_arc *arc) {
    line->arc = grown(line->arc, &line->room, line->arcs + 1, sizeof(swarm_arc *));
    line->arc[line->arcs++] = arc;
    line_touch(w, line);
}

static void line_remove(swarm *w, swarm_line *line, const swarm_arc *arc) {
    uint32_t at = 0;
    while (line->arc[at] != arc) at++;
    line->arc[at] = line->arc[--line->arcs];
    line_touch(w, line);
}

static void arc_begin(swarm *w, swarm_arc *arc) {
    w->flow = grown(w->flow, &w->flow_room, w->flows + 1, sizeof(swarm_arc *));
    arc->place = w->flows;
    w->flow[w->flows++] = arc;
    arc->order = ++w->set_out;
    if (!arc->local) {
        line_add(w, &sender_of(w, arc)->up, arc);
        line_add(w, &receiver_of(w, arc)->down, arc);
    } else {
        w->all_touched = true;
    }
    arc->flowing = true;
    arc->left = arc->waiting.first->wire_bytes * 8 * 1000000000u;
    arc->rate = 0;
    arc->at_ns = arc->set_out_ns = w->core->now;
    busy_both(w, arc, swarm_busy_add);
    timeline_flow(w, arc, arc->waiting.first, true);
    lines_plan(w);
}

static void arc_end(swarm *w, swarm_arc *arc) {
    w->flow[arc->place] = w->flow[--w->flows];
    w->flow[arc->place]->place = arc->place;
    if (!arc->local) {
        line_remove(w, &sender_of(w, arc)->up, arc);
        line_remove(w, &receiver_of(w, arc)->down, arc);
    }
    arc->flowing = false;
    arc->serial++;
    if (arc->waiting.first->tensor) w->now.transfer_ns += w->core->now - arc->set_out_ns;
    busy_both(w, arc, swarm_busy_remove);
    timeline_flow(w, arc, arc->waiting.first, false);
    lines_plan(w);
}

static void transfer_done(swarm *w, swarm_arc *arc, swarm_item *item) {
    w->peer[arc->from].bytes_up += item->wire_bytes;
    swarm_arrive_at(w, arc, item, w->core->now);
}

void swarm_flow_add(swarm *w, swarm_arc *arc, swarm_item *item) {
    if (!limited(w, arc)) {
        transfer_done(w, arc, item);
        return;
    }
    swarm_list_add(&arc->waiting, item);
    if (!arc->flowing) arc_begin(w, arc);
}

void swarm_flow_clear(swarm *w, swarm_arc *arc) {
    if (arc->flowing) arc_end(w, arc);
    swarm_list_clear(&arc->waiting);
}

void swarm_flow_done(swarm *w, const swarm_item *item) {
    swarm_arc *arc = w->arc[(size_t)item->peer * w->peers + item->other];
    if (!arc || !arc->flowing || item->serial != arc->serial) return;
    arc_end(w, arc);
    transfer_done(w, arc, swarm_list_take(&arc->waiting));
    if (arc->waiting.first) arc_begin(w, arc);
}
