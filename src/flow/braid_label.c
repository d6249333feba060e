// braid's labels: what the cheapest residual walk from each of my halves costs, and the negative cycle that shows when a
// neighbour's walk comes back to me.
#include "flow/braid.h"

// A walk that goes on from one of my halves over a link: its cost from there, and the far label it continues with.
typedef struct walk {
    int64_t cost;
    int64_t rank;  // among equals the least: -1 for the choice of last time, else the length
    const braid_label *far;
    router_peer over;
} walk;

typedef struct search {
    const braid *b;
    int64_t best;  // cost of the most negative cycle so far
    router_half *cycle;
    uint32_t length;
} search;

static int find_half(const braid_label *label, router_half half) {
    for (uint32_t i = 0; i < label->length; i++) {
        if (label->half[i] == half) return (int)i;
    }
    return -1;
}

static void offer(walk *best, int64_t cost, const braid_label *far, router_peer over, bool was_choice) {
    int64_t rank = was_choice ? -1 : (int64_t)far->length;
    if (cost > best->cost || (cost == best->cost && rank >= best->rank)) return;
    *best = (walk){cost, rank, far, over};
}

// A cycle: perhaps `start` (0: none), then `half`, then the far path up to where it is closed.
static void found_cycle(search *s, int64_t cost, router_half start, router_half half, const braid_label *far,
                        int upto) {
    if (cost >= s->best) return;
    s->best = cost;
    s->length = 0;
    if (start != 0) s->cycle[s->length++] = start;
    s->cycle[s->length++] = half;
    for (int i = 0; i <= upto; i++) s->cycle[s->length++] = far->half[i];
}

// One residual arc from `here` to a far half. `direct` gathers walks from `here`, `through` those that my other half, with
// the inner arc of cost `inner` (BRAID_NOWHERE: shut), may put itself before.
static void consider(search *s, router_half here, router_half other, int64_t inner, int64_t link,
                     const braid_label *far, router_peer over, bool was_choice, walk *direct, walk *through) {
    int64_t cost = link + far->cost + slack_of(s->b);
    int at = find_half(far, here);
    if (at == 1) return;  // forth and back over one link: a gain only while its two ends price it differently
    if (at >= 0) {
        found_cycle(s, cost - far->at[at], 0, here, far, at);
        return;
    }
    offer(direct, cost, far, over, was_choice);
    int closes = find_half(far, other);
    if (closes < 0)
        offer(through, cost, far, over, was_choice);
    else if (inner < BRAID_NOWHERE)
        found_cycle(s, inner + cost - far->at[closes], other, here, far, closes);
}

// `halves` with their costs `at`, then the walk's far path. A walk that gains nothing or grows too long is the empty one.
static void set_label(braid_label *label, uint32_t limit, const walk *w, const router_half *halves, const int64_t *at,
                      uint32_t count) {
    uint32_t far = w->far == NULL ? 0 : w->far->length;
    label->cost = 0;
    label->length = 0;
    if (at[0] >= 0 || far + count > limit) return;
    label->cost = at[0];
    label->length = count + far;
    for (uint32_t i = 0; i < count; i++) {
        label->half[i] = halves[i];
        label->at[i] = at[i];
    }
    for (uint32_t i = 0; i < far; i++) {
        label->half[count + i] = w->far->half[i];
        label->at[count + i] = w->far->at[i];
    }
}

// The label of one half: its own best walk, or, over the inner arc, the other half's (which may be empty: a data peer
// gains by one more unit before anybody knows its way).
static void choose_label(braid_label *label, uint32_t limit, router_half here, router_half other, const walk *direct,
                         const walk *through, int64_t inner) {
    set_label(label, limit, direct, &here, &direct->cost, 1);
    if (inner >= BRAID_NOWHERE || inner + through->cost >= label->cost) return;
    router_half halves[2] = {here, other};
    int64_t at[2] = {inner + through->cost, through->cost};
    set_label(label, limit, through, halves, at, 2);
}

uint64_t braid_label_hash(const braid_label *label) {
    if (label->length == 0) return 0;
    uint64_t hash = rng_seed(label->length, (uint64_t)label->cost);
    for (uint32_t i = 0; i < label->length; i++)
        hash = rng_seed(rng_seed(hash, label->half[i]), (uint64_t)label->at[i]);
    return hash | 1;
}

uint32_t braid_labels(braid *b, uint32_t k, router_half cycle[ROUTER_MAX_CYCLE]) {
    braid_commodity *c = &b->commodity[k];
    router_half in = router_in(b->r.config.self), out = router_out(b->r.config.self);
    int64_t minus = b->r.is_source ? worth_of_unit(b) : 0, plus = -minus;
    if (braid_room(b) < 1 || (b->r.is_source && !braid_wants_detour(b))) plus = BRAID_NOWHERE;
    search s = {b, 0, cycle, 0};
    walk out_direct = {0}, out_through = {0}, in_direct = {0}, in_through = {0};
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, slot) {
        router_peer peer = b->r.slot[ROUTER_NEXT][slot].peer;
        consider(&s, out, in, plus, cost_of_more(b, slot), &down_of(b, k, slot)->label, peer,
                 peer == c->out_choice, &out_direct, &out_through);
    }
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, slot) {
        if (braid_free_in(b, k, slot) <= 0) continue;
        router_peer peer = b->r.slot[ROUTER_PREVIOUS][slot].peer;
        consider(&s, in, out, minus, -cost_of_less(b, ROUTER_PREVIOUS, slot), &up_of(b, k, slot)->label, peer,
                 peer == c->in_choice, &in_direct, &in_through);
    }
    c->out_choice = out_direct.over;
    c->in_choice = in_direct.over;
    // A walk from O over O -> I continues with I's own walk, and the other way round.
    choose_label(&c->out, b->r.config.path_limit, out, in, &out_direct, &in_through, minus);
    choose_label(&c->in, b->r.config.path_limit, in, out, &in_direct, &out_through, plus);
    c->out_hash = braid_label_hash(&c->out);
    c->in_hash = braid_label_hash(&c->in);
    return s.length;
}
