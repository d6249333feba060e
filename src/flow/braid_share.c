// braid with several data peers: each unit takes the way that is cheapest at the relays' prices (braid_price.c).
//
// Two labels travel upstream, all data peers' in one frame: `in`, what one more unit would cost from here home, and `stay`,
// what the dearest unit that passes here costs now; both with the relays they pass. A peer compares them: a unit that
// could go on cheaper by another next hop, up to where the two ways meet again, is a cycle, forwards on the new way and
// backwards on the old one. A token tries it as it tries any other, so a stale label costs messages and nothing else.
// The walks that these labels know are fewer than with one data peer, and so are the messages.
#include "flow/braid.h"

enum {
    WATCHED_ENTER = 1,  // ways that I am told of at every change: the first ones
    WATCHED_LEAVE = 4,
    ASK = 4  // delays until who was asked has answered
};

static bool known(const braid *b, const braid_label *label, uint32_t slot, uint32_t k) {
    return label->length > 0 || b->r.slot[ROUTER_NEXT][slot].peer == b->r.source[k];
}

bool braid_share_open(const braid *b, uint32_t k, uint32_t slot) {
    const braid_down *d = down_of(b, k, slot);
    return d->owed == 0 && known(b, &d->label, slot, k);
}

// `own` from my half, then the way of `far`, as much of it as there is room for.
static void follow(const braid *b, braid_label *label, int64_t own, int64_t link, const braid_label *far) {
    label->cost = own + link + far->cost;
    label->length = 1;
    label->half[0] = router_in(b->r.config.self);
    label->at[0] = label->cost;
    for (uint32_t i = 0; i < far->length && label->length < b->label_limit; i++, label->length++) {
        label->half[label->length] = far->half[i];
        label->at[label->length] = far->at[i];
    }
}

static void find_labels(braid *b, uint32_t k) {
    braid_commodity *c = &b->commodity[k];
    if (b->r.is_source) return;
    int64_t least_cost = BRAID_NOWHERE, most_cost = -1, price = braid_one_more(b, 0);
    c->in.length = c->out.length = 0;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        const braid_down *d = down_of(b, k, s);
        int64_t more = cost_of_more(b, s), less = cost_of_less(b, ROUTER_NEXT, s);
        if (price < BRAID_NOWHERE && braid_share_open(b, k, s) && more + d->label.cost < least_cost) {
            least_cost = more + d->label.cost;
            follow(b, &c->in, price, more, &d->label);
        }
        if (d->out > 0 && known(b, &d->stay, s, k) && less + d->stay.cost > most_cost) {
            most_cost = less + d->stay.cost;
            follow(b, &c->out, -braid_one_less(b, 0), less, &d->stay);
        }
    }
    c->in_hash = braid_label_hash(&c->in);
    c->out_hash = braid_label_hash(&c->out);
}

static void watch(braid *b, uint32_t k, uint32_t slot, bool wanted) {
    down_of(b, k, slot)->watched = wanted;
    outgoing *o = router_post(&b->r, b->r.slot[ROUTER_NEXT][slot].peer, ROUTER_QUERY);
    o->k = (uint8_t)k;
    o->why = wanted ? BRAID_WATCH : BRAID_UNWATCH;
}

// Only those whose ways come first need to tell me of every change; from the others' words I know at least how cheap
// they once were.
void braid_share_watch(braid *b, uint32_t k) {
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        braid_down *d = down_of(b, k, s);
        if (b->r.slot[ROUTER_NEXT][s].peer == b->r.source[k]) continue;
        int64_t cost = cost_of_more(b, s) + d->label.cost;
        uint32_t better = 0;
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, t) {
            const braid_down *e = down_of(b, k, t);
            better += t != s && known(b, &e->label, t, k) && cost_of_more(b, t) + e->label.cost < cost;
        }
        bool wanted = known(b, &d->label, s, k) && better < (d->watched ? WATCHED_LEAVE : WATCHED_ENTER);
        bool considered = b->commodity[k].shift_at != BRAID_NEVER_SINCE;
        if (wanted != d->watched && !(d->watched && considered)) watch(b, k, s, wanted);
    }
}

// --- Cycles ------------------------------------------------------------------------------------------------------------

// A unit leaves the way over `from` and goes on over `to`; the two meet at place `old_steps` of the one's label and
// `new_steps` of the other's, or at home when these are the labels' lengths.
typedef struct detour {
    uint32_t from, to, old_steps, new_steps;
    int64_t gain;
} detour;

static bool fits(uint32_t old_steps, uint32_t new_steps) { return 2 * (old_steps + new_steps) + 3 <= ROUTER_MAX_CYCLE; }

static void compare(const braid *b, uint32_t k, uint32_t from, uint32_t to, detour *best) {
    const braid_label *old = &down_of(b, k, from)->stay, *new = &down_of(b, k, to)->label;
    int64_t all = cost_of_less(b, ROUTER_NEXT, from) + old->cost - cost_of_more(b, to) - new->cost;
    uint32_t both = old->length < new->length ? old->length : new->length, meet = 0;
    while (meet < both && old->half[meet] != new->half[meet]) meet++;
    // With the objective worst no token takes a link twice: what lies behind the first place where both ways meet is for others.
    if (!(b->worst && meet < both) && all > best->gain && fits(old->length, new->length))
        *best = (detour){from, to, old->length, new->length, all};
    for (uint32_t i = meet; i < both && !(b->worst && i > meet); i++) {
        int64_t here = all - old->at[i] + new->at[i];
        if (old->half[i] != new->half[i] || here <= best->gain || !fits(i, i)) continue;
        *best = (detour){from, to, i, i, here};
    }
}

static detour best_detour(const braid *b, uint32_t k) {
    detour best = {0};
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, i) {
        if (braid_free_out(b, k, i) <= 0 || !known(b, &down_of(b, k, i)->stay, i, k)) continue;
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, j) {
            if (i != j && braid_share_open(b, k, j)) compare(b, k, i, j, &best);
        }
    }
    return best;
}

static uint32_t write_cycle(const braid *b, uint32_t k, const detour *d, router_half *cycle) {
    const braid_label *old = &down_of(b, k, d->from)->stay, *new = &down_of(b, k, d->to)->label;
    uint32_t n = 0;
    cycle[n++] = router_out(b->r.config.self);
    for (uint32_t i = 0; i < d->new_steps; i++) {
        cycle[n++] = new->half[i];
        cycle[n++] = router_out(router_owner(new->half[i]));
    }
    cycle[n++] = d->new_steps < new->length ? new->half[d->new_steps] : router_in(b->r.source[k]);
    for (uint32_t i = d->old_steps; i > 0; i--) {
        cycle[n++] = router_out(router_owner(old->half[i - 1]));
        cycle[n++] = old->half[i - 1];
    }
    cycle[n++] = router_out(b->r.config.self);
    return n;
}

uint32_t braid_share(braid *b, uint32_t k, router_half cycle[ROUTER_MAX_CYCLE]) {
    find_labels(b, k);
    braid_commodity *c = &b->commodity[k];
    detour d = best_detour(b, k);
    int64_t delay = b->r.config.delay, links = 2 + (int64_t)(d.old_steps + d.new_steps);
    if (d.gain <= b->r.config.slack * links * 2 / 5) {
        c->shift_at = BRAID_NEVER_SINCE;
        return 0;
    }
    if (c->shift_at == BRAID_NEVER_SINCE) {  // who gains most goes first
        int64_t grain = braid_grain(b);
        c->shift_at = b->r.now + BRAID_SHIFT_WAIT * delay * grain / (grain + d.gain) +
                      (int64_t)rng_below(&b->r.random, (uint64_t)(2 * delay));
    }
    if (!down_of(b, k, d.to)->watched && b->r.slot[ROUTER_NEXT][d.to].peer != b->r.source[k]) {
        watch(b, k, d.to, true);  // what I know of it may be old
        if (c->shift_at < b->r.now + ASK * delay) c->shift_at = b->r.now + ASK * delay;
    }
    if (b->r.now < c->shift_at) {
        router_want(&b->r, c->shift_at);
        return 0;
    }
    return write_cycle(b, k, &d, cycle);
}
