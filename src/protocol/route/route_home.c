// Cost to the owner (*home*), and the choice by it on slow links (docs/protocol.md, Slow links, S2
// and S5).
//
// Units of flow describe a steady state. If a transfer takes much longer than a relay's
// computation, few microbatches are under way, and an iteration ends before routers settle after a
// crash. There a peer sends to the member with the earliest expected return to the owner: pending
// transfers on the link, the link itself, and the cheapest path from there.
#include "protocol/route/routing.h"

enum { HOME_BAND = 16 };  // relative changes below 1/16 are not advertised

static int64_t home_from_here(const peer *p, uint32_t k) {
    const peer_routing *r = p->routing;
    int64_t least = 0;
    for (uint32_t i = 0; i < r->links; i++) {
        const route_link *l = &r->link[i];
        if (!l->up || !route_is_next(p, l->member)) continue;
        int64_t there = 0;
        if (p->stage + 1 == p->run.stages) {
            if (l->member != r->source[k]) continue;
        } else {
            there = l->home[k];
            if (there == 0) continue;
        }
        int64_t whole = route_hop_cost(l) + there;
        if (least == 0 || whole < least) least = whole;
    }
    return least;
}

static bool cost_changed(int64_t now, int64_t said) {
    if (now == 0 || said == 0) return now != said;
    int64_t apart = now > said ? now - said : said - now;
    return apart > said / HOME_BAND;
}

void route_home_advertise(peer *p) {
    peer_routing *r = p->routing;
    if (p->stage == 0 || p->run.routing != ROUTER_MINCOST || !route_worth_probing(&p->run)) return;
    int64_t home[ROUTER_MAX_SOURCES];
    for (uint32_t k = 0; k < r->sources; k++) home[k] = home_from_here(p, k);
    for (uint32_t i = 0; i < r->links; i++) {
        route_link *l = &r->link[i];
        if (!l->up || l->broken || !route_is_previous(p, l->member)) continue;
        message_route *frame = NULL;
        for (uint32_t k = 0; k < r->sources; k++) {
            if (!cost_changed(home[k], l->home_sent[k])) continue;
            if (frame == NULL) frame = route_frame_begin(p, l);
            frame->part[frame->parts++] = (route_part){.kind = ROUTE_HOME, .source = r->source[k], .cost = home[k]};
            l->home_sent[k] = home[k];
        }
        if (frame != NULL) route_frame_send(p, l);
    }
}

void route_home_heard(peer *p, route_link *l, const route_part *part) {
    const peer_routing *r = p->routing;
    if (part->cost < 0) return;
    for (uint32_t k = 0; k < r->sources; k++)
        if (r->source[k] == part->source) l->home[k] = part->cost;
}

// True on slow links: a transfer on the fastest link to the next stage takes longer than its
// receiver needs to compute as many microbatches as it has slots.
bool route_by_time(const peer *p) {
    const peer_routing *r = p->routing;
    if (p->run.routing != ROUTER_MINCOST || !route_worth_probing(&p->run)) return false;
    bool has_link = false;
    for (uint32_t i = 0; i < r->links; i++) {
        const route_link *l = &r->link[i];
        const cluster_member *m = l->up && route_is_next(p, l->member) ? member_find(p, l->member) : NULL;
        if (m == NULL || l->measured.cost == 0) continue;
        if (l->measured.cost < (int64_t)(route_time_at(p, m) * m->capacity / MEASURE_UNIT_NS)) return false;
        has_link = true;
    }
    return has_link;
}

// Time until the tensors that were sent on this link and are not accepted yet are through, in
// microseconds.
static int64_t link_wait(const peer *p, const route_link *l) {
    int64_t waiting = 0, since = (int64_t)l->taken_ns;
    uint64_t first = UINT64_MAX;
    EACH_INFLIGHT(p, m) {
        const tensor_sending *s = &p->microbatch->inflight[m].on;
        if (s->state != SEND_SENT || s->to != l->member) continue;
        waiting++;
        if (s->sent_ns < first) first = s->sent_ns;
    }
    if (waiting == 0) return 0;
    if ((int64_t)first > since) since = (int64_t)first;
    int64_t left = waiting * route_hop_cost(l) - ((int64_t)p->now - since) / MEASURE_UNIT_NS;
    return left > 0 ? left : 0;
}

// Expected time until the microbatch is back at its owner by this link, in microseconds. The link
// has advertised its cost to the owner.
int64_t route_time_by(const peer *p, const route_link *l, uint32_t source) { return link_wait(p, l) + route_hop_cost(l) + l->home[source]; }

member_id route_pick_by_time(const peer *p, uint32_t m, uint32_t source, int64_t *time) {
    const peer_routing *r = p->routing;
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    member_id best = 0;
    for (uint32_t i = 0; i < r->links; i++) {
        const route_link *l = &r->link[i];
        const pick_peer *f = l->up && l->home[source] != 0 && route_is_next(p, l->member) ? pick_known(&p->microbatch->flow, l->member) : NULL;
        if (f == NULL || !pick_is_usable(f, h->on.tried, h->on.tried_count)) continue;
        int64_t by = route_time_by(p, l, source);
        if (best != 0 && (by > *time || (by == *time && l->member > best))) continue;
        best = l->member;
        *time = by;
    }
    return best;
}
