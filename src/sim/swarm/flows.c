// Tensors on lines. Each pair sends one tensor at a time in each direction, in order. All of them
// share the lines of the machines that they leave and enter by max-min fairness: the most loaded
// line is divided equally, the rest of the other lines likewise among the remaining tensors, and so
// on. Rates are computed again whenever a tensor starts or ends.
#include "sim/swarm/inside.h"

#include <stdlib.h>

static const uint64_t NO_LIMIT = UINT64_MAX;

static swarm_machine *sender_of(const swarm *w, const swarm_way *way) { return &w->machine[w->peer[way->from].s->machine]; }
static swarm_machine *receiver_of(const swarm *w, const swarm_way *way) { return &w->machine[w->peer[way->to].s->machine]; }

static bool limited(const swarm *w, const swarm_way *way) {
    return way->link.bps || (!way->local && (sender_of(w, way)->up_bps || receiver_of(w, way)->down_bps)) || w->s->partitions;
}

static bool cut(const swarm *w, const swarm_way *way) {
    return w->s->partitions && scenario_cut(w->s, w->peer[way->from].index, w->peer[way->to].index, w->core->now - SWARM_BEGIN_NS);
}

// The most that this transfer gets when its lines are divided among the unsettled transfers.
static uint64_t share(const swarm *w, const swarm_way *way) {
    uint64_t least = way->link.bps ? way->link.bps : NO_LIMIT;
    if (way->local) return least;
    const swarm_machine *a = sender_of(w, way), *b = receiver_of(w, way);
    if (a->up_bps && a->up_left / a->up_flows < least) least = a->up_left / a->up_flows;
    if (b->down_bps && b->down_left / b->down_flows < least) least = b->down_left / b->down_flows;
    return least;
}

static void settle(const swarm *w, swarm_way *way, uint64_t rate) {
    way->settled = true;
    way->rate = rate > 0 ? rate : 1;
    if (way->local) return;
    swarm_machine *a = sender_of(w, way), *b = receiver_of(w, way);
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
        swarm_way *way = w->share[i];
        way->settled = cut(w, way);
        if (way->settled) way->rate = 0;
        if (way->settled || way->local) continue;
        sender_of(w, way)->up_flows++;
        receiver_of(w, way)->down_flows++;
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

static void share_add(swarm *w, swarm_way *way) {
    if (way->seen == w->looks) return;
    way->seen = w->looks;
    w->share = grown(w->share, &w->share_room, w->shares + 1, sizeof(swarm_way *));
    w->share[w->shares++] = way;
}

static void line_visit(swarm *w, swarm_line *line) {
    if (line->seen == w->looks) return;
    line->seen = w->looks;
    for (uint32_t i = 0; i < line->ways; i++) share_add(w, line->way[i]);
}

static int by_order(const void *a, const void *b) {
    uint64_t x = (*(swarm_way *const *)a)->order, y = (*(swarm_way *const *)b)->order;
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
    qsort(w->share, w->shares, sizeof(swarm_way *), by_order);
}

static void way_advance(swarm_way *way, uint64_t now_ns) {
    uint64_t passed = now_ns - way->at_ns;
    way->at_ns = now_ns;
    unsigned __int128 through = (unsigned __int128)passed * way->rate;
    way->left = through < way->left ? way->left - (uint64_t)through : 0;
}

static void way_plan(swarm *w, swarm_way *way) {
    way->serial++;
    if (way->rate == 0) return;
    swarm_item *item = swarm_item_new(SWARM_FLOW, way->from, 0);
    item->other = way->to;
    item->serial = way->serial;
    uint64_t wait = way->rate == NO_LIMIT ? 0 : way->left / way->rate + (way->left % way->rate != 0);
    swarm_put(w, w->core->now + wait, item);
}

void swarm_flow_all(swarm *w) {
    w->lines_planned = false;
    find_shares(w);
    for (uint32_t i = 0; i < w->shares; i++) {
        way_advance(w->share[i], w->core->now);
        w->share[i]->rate_before = w->share[i]->rate;
    }
    rates(w);
    for (uint32_t i = 0; i < w->shares; i++)
        if (w->share[i]->rate != w->share[i]->rate_before) way_plan(w, w->share[i]);
}

// Changes of one time are handled together, when all of them are known.
static void lines_plan(swarm *w) {
    if (w->lines_planned) return;
    w->lines_planned = true;
    swarm_put(w, w->core->now, swarm_item_new(SWARM_LINES, 0, 0));
}

static void busy_both(swarm *w, const swarm_way *way, void (*change)(swarm_busy *b, uint64_t now_ns)) {
    change(&w->peer[way->from].sending, w->core->now);
    change(&w->peer[way->to].receiving, w->core->now);
}

static void line_add(swarm *w, swarm_line *line, swarm_way *way) {
    line->way = grown(line->way, &line->room, line->ways + 1, sizeof(swarm_way *));
    line->way[line->ways++] = way;
    line_touch(w, line);
}

static void line_remove(swarm *w, swarm_line *line, const swarm_way *way) {
    uint32_t at = 0;
    while (line->way[at] != way) at++;
    line->way[at] = line->way[--line->ways];
    line_touch(w, line);
}

static void way_begin(swarm *w, swarm_way *way) {
    w->flow = grown(w->flow, &w->flow_room, w->flows + 1, sizeof(swarm_way *));
    way->place = w->flows;
    w->flow[w->flows++] = way;
    way->order = ++w->set_out;
    if (!way->local) {
        line_add(w, &sender_of(w, way)->up, way);
        line_add(w, &receiver_of(w, way)->down, way);
    } else {
        w->all_touched = true;
    }
    way->flowing = true;
    way->left = way->waiting.first->wire_bytes * 8 * 1000000000u;
    way->rate = 0;
    way->at_ns = way->set_out_ns = w->core->now;
    busy_both(w, way, swarm_busy_add);
    timeline_flow(w, way, way->waiting.first, true);
    lines_plan(w);
}

static void way_end(swarm *w, swarm_way *way) {
    w->flow[way->place] = w->flow[--w->flows];
    w->flow[way->place]->place = way->place;
    if (!way->local) {
        line_remove(w, &sender_of(w, way)->up, way);
        line_remove(w, &receiver_of(w, way)->down, way);
    }
    way->flowing = false;
    way->serial++;
    if (way->waiting.first->tensor) w->now.transfer_ns += w->core->now - way->set_out_ns;
    busy_both(w, way, swarm_busy_remove);
    timeline_flow(w, way, way->waiting.first, false);
    lines_plan(w);
}

static void pass_on(swarm *w, swarm_way *way, swarm_item *item) {
    w->peer[way->from].bytes_up += item->wire_bytes;
    swarm_arrive_at(w, way, item, w->core->now);
}

void swarm_flow_add(swarm *w, swarm_way *way, swarm_item *item) {
    if (!limited(w, way)) {
        pass_on(w, way, item);
        return;
    }
    swarm_list_add(&way->waiting, item);
    if (!way->flowing) way_begin(w, way);
}

void swarm_flow_clear(swarm *w, swarm_way *way) {
    if (way->flowing) way_end(w, way);
    swarm_list_clear(&way->waiting);
}

void swarm_flow_done(swarm *w, const swarm_item *item) {
    swarm_way *way = w->way[(size_t)item->peer * w->peers + item->other];
    if (!way || !way->flowing || item->serial != way->serial) return;
    way_end(w, way);
    pass_on(w, way, swarm_list_take(&way->waiting));
    if (way->waiting.first) way_begin(w, way);
}
