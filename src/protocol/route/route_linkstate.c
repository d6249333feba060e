// Link bandwidth where tensors are large (docs/protocol.md, Slow links, S1 and S3, and Relayed
// transfers, C1). Links are probed before tensors cross them. In a small swarm every peer
// advertises the state of its links (LINES), so that each peer can compute which forwarder is
// faster than its direct link.
//
// A bandwidth probe is a packet train (SOUND): the spacing of its messages at the receiver gives
// the bandwidth.
#include "routing/schedule/forwarding.h"
#include "protocol/route/routing.h"

#include <string.h>

enum {
    SHORT_TRAIN = 8, SHORT_BYTES = 8 << 10,   // the first probe: it occupies a link of 1 Mb/s for half a second
    LONG_TRAIN = 32, LONG_BYTES = 16 << 10,   // the second probe, for links that delivered the first one quickly
    FIRST_PROBES = 3,
    TENSORS_SHARE = 32,                       // links are probed if a tensor is at least this many short trains
    EXPECTED_PERCENT = 66, USELESS_PERCENT = 95, MOST_PERCENT = 180,
    LINKSTATE_BAND = 16,                          // smaller relative changes are not advertised
    PIECE_BYTES = 512 << 10,                  // least size of a piece
    SLOWEST_PATH = 3,                          // slower paths, in direct times, are not used
};
static const uint64_t unknown_link_cost = (uint64_t)1 << 28;

struct route_linkstate {
    link_bandwidth bandwidth[ROUTE_MAX_LINKS];
    struct {
        member_id member;  // 0: unused
        message_lines lines;
    } advertised[SCHEDULE_MAX_PEERS];
    // Transfer times by identity, so that they outlive a membership: the leader places a returning
    // peer by them.
    struct {
        braid_id id;
        bool used;
    } known[SCHEDULE_MAX_PEERS];
    uint32_t way[SCHEDULE_MAX_PEERS][SCHEDULE_MAX_PEERS];  // microseconds, 0: not known
    message_lines told;    // this peer's own, as last advertised
    uint64_t told_ns, told_to;  // told_to: hash of the members
};

bool route_worth_probing(const peer_run *run) { return run->activation_bytes >= (uint64_t)TENSORS_SHARE * SHORT_TRAIN * SHORT_BYTES; }

size_t route_linkstate_bytes(const peer_run *run) {
    return run->routing < ROUTER_ALGORITHMS && run->stages > 1 && route_worth_probing(run) ? sizeof(route_linkstate) : 0;
}

static bool swarm_is_small(const peer *p) { return p->cluster->member_count <= SCHEDULE_MAX_PEERS; }

// ---- links of this peer -------------------------------------------------------------------------

static link_bandwidth *bandwidth_find(const peer *p, member_id id) {
    route_linkstate *r = p->routing->linkstate;
    for (uint32_t i = 0; r != NULL && i < ROUTE_MAX_LINKS; i++)
        if (r->bandwidth[i].member == id) return &r->bandwidth[i];
    return NULL;
}

static link_bandwidth *bandwidth_entry(peer *p, member_id id) {
    route_linkstate *r = p->routing->linkstate;
    link_bandwidth *l = bandwidth_find(p, id);
    for (uint32_t i = 0; l == NULL && r != NULL && i < ROUTE_MAX_LINKS; i++)
        if (r->bandwidth[i].member == 0 || member_find(p, r->bandwidth[i].member) == NULL) {
            l = &r->bandwidth[i];
            *l = (link_bandwidth){.member = id};
        }
    return l;
}

static bool link_is_up(const peer *p, const cluster_member *m) { return m->contact != NO_CONTACT && p->cluster->contacts[m->contact].link == LINK_UP; }

// Rule S1: the best of the first probes counts, since other traffic or a busy machine may disturb
// one; later a moving mean.
static void record_rate(link_bandwidth *l, uint64_t bytes, int64_t ns) {
    int64_t rate = (int64_t)((double)bytes * 1e9 / (double)(ns < 1 ? 1 : ns));
    l->probes++;
    if (l->probes > FIRST_PROBES) l->rate = (l->rate + rate) / 2;
    else if (rate > l->rate) l->rate = rate;
    if (l->rate < 1) l->rate = 1;
}

// ---- bandwidth probes (rule S1) -----------------------------------------------------------------

static void send_train(peer *p, link_bandwidth *l, uint16_t count, uint16_t bytes) {
    l->train = (uint32_t)rng_next(&p->random) | 1;
    l->train_long = count == LONG_TRAIN;
    l->probed_ns = p->now;
    p->routing->probe_until_ns = p->now + TIMING_BANDWIDTH_LOST_NS;
    for (uint16_t i = 0; i < count; i++) {
        peer_compose(p, MESSAGE_SOUND)->u.sound = (message_sound){.train = l->train, .index = i, .count = count, .padding = bytes};
        if (!peer_send_member(p, l->member, 0)) return;
    }
}

// Links to the next stage are probed first; others only where forwarding may help.
static link_bandwidth *link_to_probe(peer *p, bool next_stage) {
    uint64_t many = p->cluster->member_count * TIMING_BANDWIDTH_RENEW_EACH_NS, renew = many > TIMING_BANDWIDTH_RENEW_NS ? many : TIMING_BANDWIDTH_RENEW_NS;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (member_is_standby(m) || !link_is_up(p, m) || route_is_next(p, m->id) != next_stage) continue;
        link_bandwidth *l = bandwidth_entry(p, m->id);
        if (l == NULL || (l->probed_ns != 0 && p->now < l->probed_ns + (l->probes < FIRST_PROBES ? TIMING_BANDWIDTH_AGAIN_NS : renew))) continue;
        return l;
    }
    return NULL;
}

// One probe at a time, so that trains do not delay each other.
void route_probe_tick(peer *p) {
    if (p->routing->linkstate == NULL || p->now < p->routing->probe_until_ns) return;
    link_bandwidth *l = link_to_probe(p, true);
    if (l == NULL && swarm_is_small(p) && route_by_time(p)) l = link_to_probe(p, false);
    if (l != NULL) send_train(p, l, SHORT_TRAIN, SHORT_BYTES);
}

void on_sound(peer *p, const message *msg) {
    const message_sound *s = &msg->u.sound;
    link_bandwidth *l = bandwidth_entry(p, msg->sender);
    if (l == NULL) return;
    if (s->index == 0) {
        l->heard_train = s->train;
        l->heard_index = 0;
        l->heard_bytes = 0;
        l->heard_since_ns = p->now;
        return;
    }
    if (s->train != l->heard_train || s->index != l->heard_index + 1) return;
    l->heard_index++;
    l->heard_bytes += s->padding;  // the first message only marks the beginning
    if (s->index + 1 < s->count) return;
    message_sounded *answer = &peer_compose(p, MESSAGE_SOUNDED)->u.sounded;
    *answer = (message_sounded){.train = s->train, .bytes = l->heard_bytes, .ns = p->now - l->heard_since_ns};
    l->heard_train = 0;
    peer_send_member(p, msg->sender, 0);
}

void on_sounded(peer *p, const message *msg) {
    const message_sounded *s = &msg->u.sounded;
    link_bandwidth *l = bandwidth_find(p, msg->sender);
    if (l == NULL || l->train == 0 || s->train != l->train) return;
    bool whole = s->bytes == (l->train_long ? (LONG_TRAIN - 1) * LONG_BYTES : (SHORT_TRAIN - 1) * SHORT_BYTES);
    uint64_t took = p->now - l->probed_ns;
    l->train = 0;
    p->routing->probe_until_ns = p->now;
    if (!whole) return;
    if (s->ns < took) l->round_trip_ns = (int64_t)(took - s->ns);
    if (!l->train_long && s->ns < TIMING_BANDWIDTH_QUICK_NS) {
        send_train(p, l, LONG_TRAIN, LONG_BYTES);
        return;
    }
    int64_t ns = s->ns > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)s->ns;
    route_link *link = route_find(p, msg->sender);
    record_rate(l, s->bytes, ns);
    if (link != NULL) measure_transfer(&link->measured, MEASURE_TO, s->bytes, ns, false);
    route_probe_tick(p);
}

// ---- link-state advertisements (rule S3) --------------------------------------------------------

static uint32_t capped_cost(int64_t us) { return us < WIRE_MAX_LINK_COST ? (uint32_t)us : WIRE_MAX_LINK_COST; }

static void own_linkstate(peer *p, message_lines *lines) {
    lines->count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count && lines->count < WIRE_MAX_LINES; i++) {
        const cluster_member *m = &p->cluster->members[i];
        const link_bandwidth *known = link_is_up(p, m) ? bandwidth_find(p, m->id) : NULL;
        const route_link *l = route_is_next(p, m->id) ? route_find(p, m->id) : NULL;
        if (known == NULL || known->rate == 0) continue;
        bool costs = l != NULL && l->up && l->measured.cost != 0;
        int64_t way = known->round_trip_ns / 2 / MEASURE_UNIT_NS + (int64_t)(p->run.activation_bytes * 1000000 / (uint64_t)known->rate);
        lines->line[lines->count].member = (uint32_t)m->id;
        lines->line[lines->count].cost = costs ? capped_cost(route_hop_cost(l)) : 0;
        lines->line[lines->count++].way = capped_cost(way);
    }
}

static bool cost_changed(uint32_t a, uint32_t b) {
    uint32_t apart = a > b ? a - b : b - a;
    return apart > (a < b ? a : b) / LINKSTATE_BAND;
}

static bool linkstate_changed(const message_lines *a, const message_lines *b) {
    if (a->count != b->count) return true;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->line[i].member != b->line[i].member || cost_changed(a->line[i].cost, b->line[i].cost) || cost_changed(a->line[i].way, b->line[i].way)) return true;
    return false;
}

// ---- transfer times by identity -----------------------------------------------------------------

static uint32_t known_find(const route_linkstate *r, const braid_id *id) {
    uint32_t at = 0;
    while (at < SCHEDULE_MAX_PEERS && !(r->known[at].used && id_equal(&r->known[at].id, id))) at++;
    return at;
}

static bool is_member_now(const peer *p, const braid_id *id) {
    uint32_t at = contact_find(p, id);
    return id_equal(id, &p->config.self) || (at != NO_CONTACT && p->cluster->contacts[at].member != 0);
}

// A place for the identity: unused, or that of a peer that is no member any more.
static uint32_t known_add(peer *p, const braid_id *id) {
    route_linkstate *r = p->routing->linkstate;
    uint32_t at = known_find(r, id);
    if (at < SCHEDULE_MAX_PEERS) return at;
    for (at = 0; at < SCHEDULE_MAX_PEERS && r->known[at].used;) at++;
    if (at == SCHEDULE_MAX_PEERS)
        for (at = 0; at < SCHEDULE_MAX_PEERS && is_member_now(p, &r->known[at].id);) at++;
    if (at == SCHEDULE_MAX_PEERS) return at;
    r->known[at].id = *id;
    r->known[at].used = true;
    for (uint32_t i = 0; i < SCHEDULE_MAX_PEERS; i++) r->way[at][i] = r->way[i][at] = 0;
    return at;
}

static const braid_id *identity_of(const peer *p, member_id who) {
    const cluster_member *m = member_find(p, who);
    if (who == p->me) return &p->config.self;
    return m == NULL || m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact].id;
}

static void remember_lines(peer *p, member_id from, const message_lines *lines) {
    const braid_id *sender = identity_of(p, from);
    uint32_t a = sender == NULL ? SCHEDULE_MAX_PEERS : known_add(p, sender);
    if (a == SCHEDULE_MAX_PEERS) return;
    for (uint32_t i = 0; i < lines->count; i++) {
        const braid_id *other = lines->line[i].way == 0 ? NULL : identity_of(p, lines->line[i].member);
        uint32_t b = other == NULL ? SCHEDULE_MAX_PEERS : known_add(p, other);
        if (b != SCHEDULE_MAX_PEERS) p->routing->linkstate->way[a][b] = lines->line[i].way;
    }
}

int64_t route_way_between(const peer *p, const braid_id *from, const braid_id *to) {
    const route_linkstate *r = p->routing->linkstate;
    if (r == NULL) return 0;
    uint32_t a = known_find(r, from), b = known_find(r, to);
    return a == SCHEDULE_MAX_PEERS || b == SCHEDULE_MAX_PEERS ? 0 : r->way[a][b];
}

void route_linkstate_advertise(peer *p) {
    route_linkstate *r = p->routing->linkstate;
    message_lines lines;
    if (r == NULL || !swarm_is_small(p) || p->run.stages > SCHEDULE_MAX_STAGES || !route_by_time(p)) return;
    own_linkstate(p, &lines);
    uint64_t members_hash = 1;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) members_hash = rng_seed(members_hash, p->cluster->members[i].id);
    if (!linkstate_changed(&lines, &r->told) && members_hash == r->told_to && p->now < r->told_ns + TIMING_LINKSTATE_NS) return;
    r->told = lines;
    if (p->config.kind == MEMBER_DATA) remember_lines(p, p->me, &lines);
    r->told_to = members_hash;
    r->told_ns = p->now;
    for (uint32_t i = 0; i < lines.count && p->config.carries_nothing; i++) lines.line[i].way = 0;  // a peer that advertises no bandwidth is not asked to forward
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        if (!link_is_up(p, &p->cluster->members[i])) continue;
        peer_compose(p, MESSAGE_LINES)->u.lines = lines;
        peer_send(p, p->cluster->members[i].contact, 0);
    }
}

void on_lines(peer *p, const message *msg) {
    route_linkstate *r = p->routing->linkstate;
    uint32_t at = 0;
    if (r == NULL) return;
    while (at < SCHEDULE_MAX_PEERS && r->advertised[at].member != msg->sender) at++;
    if (at == SCHEDULE_MAX_PEERS)  // an unused place, or that of a removed member
        for (at = 0; at < SCHEDULE_MAX_PEERS && member_find(p, r->advertised[at].member) != NULL;) at++;
    if (at == SCHEDULE_MAX_PEERS) return;
    r->advertised[at].member = msg->sender;
    r->advertised[at].lines = msg->u.lines;
    if (p->config.kind == MEMBER_DATA) remember_lines(p, msg->sender, &msg->u.lines);
}

const message_lines *route_linkstate_of(const peer *p, member_id of) {
    const route_linkstate *r = p->routing->linkstate;
    if (r == NULL) return NULL;
    if (of == p->me) return &r->told;
    for (uint32_t i = 0; i < SCHEDULE_MAX_PEERS; i++)
        if (r->advertised[i].member == of) return &r->advertised[i].lines;
    return NULL;
}

uint64_t route_linkstate_cost(const peer *p, member_id from, member_id to) {
    const message_lines *advertised = route_linkstate_of(p, from);
    for (uint32_t i = 0; advertised != NULL && i < advertised->count; i++)
        if (advertised->line[i].member == to && advertised->line[i].cost != 0) return advertised->line[i].cost;
    return unknown_link_cost;
}

// ---- choice of a forwarder (rules C1, A5) -------------------------------------------------------

static int64_t transfer_time(const message_lines *advertised, member_id to) {
    for (uint32_t i = 0; advertised != NULL && i < advertised->count; i++)
        if (advertised->line[i].member == to) return advertised->line[i].way;
    return 0;
}

uint16_t route_pieces(const peer *p) {
    uint64_t pieces = p->run.activation_bytes / PIECE_BYTES;
    return (uint16_t)(pieces < 2 ? 2 : pieces > WIRE_MAX_PIECES ? WIRE_MAX_PIECES : pieces);
}

int64_t route_queued_on_link(const peer *p, member_id to) {
    int64_t count = 0;
    EACH_INFLIGHT(p, m) {
        count += send_first_hop(&p->microbatch->inflight[m].on) == to;
        count += send_first_hop(&p->microbatch->inflight[m].back) == to;
        if (p->stage == 0) count += send_first_hop(&p->microbatch->owned[m].back) == to;
    }
    return count;
}

// The least transfer time between two members in microseconds, and the forwarder of that path (0:
// direct). With `busy` the queues on this peer's own links count as well. A free path with the
// bandwidth of the direct link does not qualify, because both may share one bottleneck.
static int64_t quickest_transfer(const peer *p, member_id from, member_id to, bool busy, member_id but, member_id *forwarder) {
    const message_lines *first = route_linkstate_of(p, from);
    int64_t direct = transfer_time(first, to);
    *forwarder = 0;
    if (direct == 0) return 0;
    int64_t before = busy ? route_queued_on_link(p, to) : 0, best = direct * (1 + before);
    for (uint32_t i = 0; i < first->count; i++) {
        member_id by = first->line[i].member;
        int64_t there = first->line[i].way;
        const cluster_member *m = by == from || by == to || by == p->me || by == but || there >= direct ? NULL : member_find(p, by);
        if (m == NULL || member_is_standby(m) || !member_answers(p, by) || (from == p->me && !link_is_up(p, m))) continue;
        int64_t on = transfer_time(route_linkstate_of(p, by), to), time = forwarding_time(there, on, route_pieces(p));
        if (on == 0 || !forwarding_pays(time, direct, before > 0)) continue;
        if (busy) time = forwarding_time(there * (1 + route_queued_on_link(p, by)), on, route_pieces(p));
        if (time >= best) continue;
        best = time;
        *forwarder = by;
    }
    return best;
}

route_forwarding route_forwarder(const peer *p, member_id to, member_id but) {
    route_forwarding d = {0};
    const link_bandwidth *l = bandwidth_find(p, to);
    if (l == NULL || p->now < l->direct_until_ns || !swarm_is_small(p)) return d;
    d.us = quickest_transfer(p, p->me, to, true, but, &d.by);
    d.direct_us = transfer_time(route_linkstate_of(p, p->me), to) * (1 + route_queued_on_link(p, to));
    return d;
}

// Transfer time on the fastest known link out of the sender or into this peer, whichever is slower.
static int64_t quickest_uplink(const peer *p, const message_lines *first) {
    int64_t out = INT64_MAX, in = INT64_MAX;
    for (uint32_t i = 0; i < first->count; i++) {
        int64_t there = first->line[i].way, on = transfer_time(route_linkstate_of(p, first->line[i].member), p->me);
        if (there != 0 && there < out) out = there;
        if (on != 0 && on < in) in = on;
    }
    return out > in ? out : in;
}

// Rule A5. Chunks follow each other, so both links of a path are busy all the time and the slower
// one decides. A path that is no faster than the direct link may share its bottleneck. Such a path
// is used only while all paths together stay below the rate of the fastest known link out of the
// sender and into this peer.
uint32_t route_paths_from(const peer *p, member_id from, int64_t *direct_us, route_forwarding *path, uint32_t capacity) {
    const message_lines *first = swarm_is_small(p) ? route_linkstate_of(p, from) : NULL;
    route_forwarding found[ROUTE_MAX_PATHS];
    uint32_t count = 0, kept = 0;
    int64_t direct = *direct_us = transfer_time(first, p->me);
    for (uint32_t i = 0; direct > 0 && i < first->count; i++) {
        member_id by = first->line[i].member;
        int64_t there = first->line[i].way, on = there == 0 || by == p->me ? 0 : transfer_time(route_linkstate_of(p, by), p->me), time = there > on ? there : on;
        const cluster_member *m = on == 0 || time > SLOWEST_PATH * direct ? NULL : member_find(p, by);
        if (m == NULL || member_is_standby(m) || !member_answers(p, by)) continue;
        uint32_t at = count < ROUTE_MAX_PATHS ? count++ : ROUTE_MAX_PATHS;
        while (at > 0 && found[at - 1].us > time) {
            if (at < ROUTE_MAX_PATHS) found[at] = found[at - 1];
            at--;
        }
        if (at < ROUTE_MAX_PATHS) found[at] = (route_forwarding){by, time, direct};
    }
    if (count == 0) return 0;
    double seen = 1 / (double)quickest_uplink(p, first), used = 1 / (double)direct;
    for (uint32_t i = 0; i < count && kept < capacity; i++) {
        double rate = 1 / (double)found[i].us;
        if (!forwarding_pays(found[i].us, direct, true) && used + rate > seen) continue;
        used += rate;
        path[kept++] = found[i];
    }
    return kept;
}

uint64_t route_round_trip(const peer *p, member_id to) {
    const link_bandwidth *l = bandwidth_find(p, to);
    return l == NULL ? 0 : (uint64_t)l->round_trip_ns;
}

bool route_forwarder_planned(const peer *p, member_id to, member_id by, route_forwarding *d) {
    const link_bandwidth *l = bandwidth_find(p, to);
    const message_lines *mine = route_linkstate_of(p, p->me);
    *d = (route_forwarding){0};
    if (by == to) return true;
    const cluster_member *m = by == 0 || by == p->me || l == NULL || p->now < l->direct_until_ns ? NULL : member_find(p, by);
    int64_t there = transfer_time(mine, by), on = m == NULL ? 0 : transfer_time(route_linkstate_of(p, by), to);
    if (there == 0 || on == 0 || !swarm_is_small(p) || member_is_standby(m) || !member_answers(p, by) || !link_is_up(p, m)) return false;
    d->by = by;
    d->us = forwarding_time(there * (1 + route_queued_on_link(p, by)), on, route_pieces(p));
    d->direct_us = transfer_time(mine, to) * (1 + route_queued_on_link(p, to));
    return true;
}

// Rule C1: if relayed transfers take about as long as direct ones, the links share a bottleneck (an
// access link, a machine), and none is relayed for a while.
void route_forwarded(peer *p, member_id to, uint64_t took_ns, uint64_t expected_ns) {
    link_bandwidth *l = bandwidth_find(p, to);
    if (l == NULL) return;
    uint64_t percent = took_ns / (expected_ns / 100 + 1);
    if (percent > MOST_PERCENT) percent = MOST_PERCENT;
    if (l->percent == 0) l->percent = EXPECTED_PERCENT;  // the mean starts there, so that one slow transfer does not decide
    l->percent = (3 * l->percent + (uint32_t)percent) / 4;
    if (l->percent < USELESS_PERCENT) return;
    l->percent = 0;
    l->direct_until_ns = p->now + TIMING_FORWARDER_SLOW_NS;
}

int64_t route_best_hop(const peer *p, const route_link *link) {
    member_id other = link->member, forwarder;
    const link_bandwidth *l = bandwidth_find(p, other);
    int64_t cost = route_cost_of(link);
    if (l == NULL || p->now < l->direct_until_ns || !swarm_is_small(p)) return cost;
    int64_t there = quickest_transfer(p, p->me, other, false, 0, &forwarder), back = quickest_transfer(p, other, p->me, false, 0, &forwarder);
    int64_t saved = transfer_time(route_linkstate_of(p, p->me), other) - there + transfer_time(route_linkstate_of(p, other), p->me) - back;
    int64_t best = cost - saved / 2, least = (there + back) / 2;  // the measurements of the two ends may differ
    if (best < least) best = least;
    return best < cost ? best : cost;
}
