// Multipath fetch of parts and results (docs/protocol.md, Aggregation). The puller spreads its GETs
// over its own link and over forwarders. DATA comes directly and names the hash; the bytes come by
// the forwarder. The source and the forwarder keep no state of it: after any failure the puller
// asks again, directly.
#include "routing/schedule/forwarding.h"
#include "protocol/chunks/chunks.h"

#include <string.h>

enum {
    OF_ONE_WAY = 4,        // GETs under way on the fastest path from one member
    MOST_OF_ONE_WAY = 12,  // ... where a round trip is long beside a chunk
    EXPECTED_PERCENT = 66,            // percent; these three as for tensors (route_linkstate.c)
    USELESS_PERCENT = 95,
    MOST_PERCENT = 180,
    TIMEOUT_FACTOR = 6,      // times the expected time, and TIMING_FORWARD_NS: then a forwarded chunk is taken for lost
    BLOCK_BYTES = 4 << 16,  // about
};

// ---- which way ----------------------------------------------------------------------------------

static multipath_rest *rest_of(peer *p, member_id by) {
    for (uint32_t i = 0; i < CHUNK_RESTING_FORWARDERS; i++)
        if (p->chunks->multipath.rest[i].by == by) return &p->chunks->multipath.rest[i];
    return NULL;
}

static void let_rest(peer *p, member_id by, uint64_t for_ns) {
    multipath_rest *r = rest_of(p, by);
    if (r == NULL) r = &p->chunks->multipath.rest[p->chunks->multipath.next_rest++ % CHUNK_RESTING_FORWARDERS];
    *r = (multipath_rest){by, p->now + for_ns};
}

static bool may_forward(peer *p, member_id by) {
    const multipath_rest *r = rest_of(p, by);
    return (r == NULL || p->now >= r->until_ns) && member_answers(p, by);
}

static multipath_paths *ways_known(peer *p, member_id from) {
    for (uint32_t i = 0; i < CHUNK_KNOWN_PATHS; i++)
        if (p->chunks->multipath.known[i].from == from) return &p->chunks->multipath.known[i];
    return NULL;
}

static void ways_look(peer *p, multipath_paths *w) {
    const multipath_paths before = *w;
    route_forwarding found[CHUNK_MAX_PATHS];
    int64_t direct_us = 0;
    uint32_t count = route_paths_from(p, w->from, &direct_us, found, CHUNK_MAX_PATHS);
    w->until_ns = p->now + TIMING_PATHS_NS;
    w->count = 1;
    w->way[0] = (multipath_path){.us = (uint64_t)direct_us};
    for (uint32_t i = 0; i < count; i++) {
        multipath_path *way = &w->way[w->count++];
        *way = (multipath_path){.by = found[i].by, .us = (uint64_t)found[i].us};
        for (uint32_t k = 1; k < before.count; k++)
            if (before.way[k].by == way->by)
                *way = (multipath_path){way->by, way->us, before.way[k].percent, before.way[k].came_ns};
    }
}

static multipath_paths *ways_of(peer *p, member_id from) {
    multipath_paths *w = ways_known(p, from);
    if (w == NULL) {
        w = &p->chunks->multipath.known[p->chunks->multipath.next_known++ % CHUNK_KNOWN_PATHS];
        *w = (multipath_paths){.from = from};
    }
    if (p->now >= w->until_ns) ways_look(p, w);
    return w;
}

// Time of `bytes` on a path where a whole tensor takes `us`.
static uint64_t bytes_ns(const peer *p, uint64_t us, uint64_t bytes) {
    double tensor = (double)(p->run.activation_bytes > 0 ? p->run.activation_bytes : 1);
    return (uint64_t)((double)us * 1000 * (double)bytes / tensor);
}

static uint64_t blocks_ns(const peer *p, uint64_t us, uint32_t blocks) {
    return bytes_ns(p, us, (uint64_t)blocks * BLOCK_BYTES);
}

// How many GETs may be under way on a path: fewer on slower ones, so that none holds up the end;
// more where a round trip takes longer than a chunk.
static uint32_t most_on(const peer *p, const multipath_paths *w, const multipath_path *way, uint64_t quickest_us) {
    if (w->count == 1 || way->us == 0) return OF_ONE_WAY;
    uint64_t share = (OF_ONE_WAY * quickest_us + way->us - 1) / way->us;
    if (way->by != 0) share += 2 * route_round_trip(p, w->from) / (blocks_ns(p, way->us, PEER_SEGMENT_BLOCKS) + 1);
    return share < MOST_OF_ONE_WAY ? (uint32_t)share : MOST_OF_ONE_WAY;
}

static void count_open(const peer *p, const multipath_paths *w, uint32_t open[1 + CHUNK_MAX_PATHS]) {
    memset(open, 0, (1 + CHUNK_MAX_PATHS) * sizeof *open);
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        const chunk_pull *q = &p->chunks->pulls[i];
        if (!q->used || q->from != w->from || (q->what != GET_PART && q->what != GET_RESULT)) continue;
        uint32_t k = w->count - 1;
        while (k > 0 && w->way[k].by != q->by) k--;  // on none of these paths: counts as direct
        open[k]++;
    }
}

bool multipath_choose(peer *p, member_id from, bool straight, multipath_choice *out) {
    const multipath_paths *w = ways_of(p, from);
    uint64_t quickest_us = w->way[0].us, least = UINT64_MAX;
    uint32_t ways = straight || p->standby ? 1 : w->count, open[1 + CHUNK_MAX_PATHS];
    count_open(p, w, open);
    for (uint32_t i = 1; i < ways; i++)
        if (w->way[i].us < quickest_us) quickest_us = w->way[i].us;
    for (uint32_t i = 0; i < ways; i++) {
        const multipath_path *way = &w->way[i];
        uint64_t until = (open[i] + 1) * (way->us > 0 ? way->us : 1);
        if (open[i] >= most_on(p, w, way, quickest_us) || until >= least || (way->by != 0 && !may_forward(p, way->by)))
            continue;
        least = until;
        *out = (multipath_choice){way->by, until};
    }
    if (least == UINT64_MAX) return false;
    bool forced = !straight && p->faults.carried_percent != 0 && rng_below(&p->random, 100) < p->faults.carried_percent;
    if (forced) *out = (multipath_choice){.by = forward_random(p, from)};
    return true;
}

void multipath_take(peer *p, chunk_pull *q, const multipath_choice *way) {
    if (way->by == 0) return;
    q->by = way->by;
    q->serial = (uint32_t)rng_next(&p->random) | 1;
    q->timeout_ns = TIMING_FORWARD_NS + TIMEOUT_FACTOR * blocks_ns(p, way->us, q->count);
}

// ---- the source ---------------------------------------------------------------------------------

bool multipath_send(peer *p, const core_job *t, blob_id out) {
    const message_get *get = &t->get;
    const cluster_member *by = get->by == 0 || get->by == p->me ? NULL : member_find(p, get->by);
    member_id to = p->cluster->contacts[t->contact].member;
    if (by == NULL || to == 0 || to == by->id || member_is_standby(by) || !member_answers(p, by->id)) return false;
    peer_compose(p, MESSAGE_CARRY_CHUNKS)->u.carry_chunks = (message_carry_chunks){.origin = p->me,
                                                                                   .to = to,
                                                                                   .serial = get->serial,
                                                                                   .what = get->what,
                                                                                   .stage = get->stage,
                                                                                   .count = (uint16_t)get->count};
    return peer_send_member(p, by->id, out);
}

// ---- the puller ---------------------------------------------------------------------------------

static chunk_pull *pull_of(peer *p, member_id from, member_id by, uint32_t serial) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        chunk_pull *q = &p->chunks->pulls[i];
        if (q->used && q->by != 0 && q->by == by && q->serial == serial && (from == 0 || q->from == from)) return q;
    }
    return NULL;
}

static void failed(peer *p, chunk_pull *q) {
    let_rest(p, q->by, TIMING_FORWARDER_REST_NS);
    q->client->again(p, q);
}

static void join_if_whole(peer *p, chunk_pull *q) {
    if (!q->announced || q->piece == 0) return;
    core_job *t = jobs_add(p, JOB_JOIN);
    if (t == NULL) return;  // multipath_goes_on tries again
    t->work.m = (uint32_t)(q - p->chunks->pulls);
    t->work.first = q->first;
    t->work.count = q->count;
    t->serial = q->serial;
    t->get = (message_get){.what = q->what,
                           .stage = q->stage,
                           .round = q->round,
                           .version = q->version,
                           .first = q->first,
                           .count = q->count,
                           .set_digest = q->set_digest,
                           .close_index = q->close_index};
    t->work.input[t->work.inputs++] = q->piece;
    q->piece = 0;
    q->joining = true;
}

void multipath_piece(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry_chunks *piece = &msg->u.carry_chunks;
    chunk_pull *q = pull_of(p, piece->origin, msg->sender, piece->serial);
    bool fits = bytes <= (uint64_t)piece->count * WIRE_CARRIED_BLOCK_BYTES;
    if (q == NULL || q->piece != 0 || q->joining || q->count != piece->count || !fits) {
        peer_release(p, &blob);
        return;
    }
    q->piece = blob;
    q->bytes = bytes;
    join_if_whole(p, q);
}

void multipath_announced(peer *p, const message *msg) {
    const message_get *get = &msg->u.data.get;
    chunk_pull *q = pull_of(p, msg->sender, get->by, get->serial);
    bool same = q != NULL && !q->announced && q->what == get->what && q->stage == get->stage &&
                q->first == get->first && q->count == get->count && q->version == get->version &&
                q->round == get->round && q->set_digest == get->set_digest && q->close_index == get->close_index;
    if (!same) return;
    q->announced = true;
    q->hash = msg->u.data.hash;
    join_if_whole(p, q);
}

void multipath_refused(peer *p, member_id by, uint32_t serial) {
    chunk_pull *q = pull_of(p, 0, by, serial);
    if (q != NULL) failed(p, q);
}

// A link fell: what it had not delivered is lost. No forwarder is blamed for being slow.
void multipath_link_lost(peer *p, chunk_pull *q, member_id to) {
    bool here = q->piece != 0 || q->joining;
    if ((to == q->by && !here) || (to == q->from && !q->announced)) q->client->again(p, q);
}

// True if the pull is not needed any more: the state may have reached that version by another path.
static bool is_over(const peer *p, const chunk_pull *q) {
    return q->what == GET_RESULT && q->version < p->state.iteration && q->version < p->oldest_block;
}

bool multipath_goes_on(peer *p, chunk_pull *q) {
    if (is_over(p, q)) q->client->needless(p, q);
    if (!q->used || q->joining) return false;
    if (q->deadline_ns <= p->now || (q->piece == 0 && !member_answers(p, q->by))) {
        if (!q->announced && member_answers(p, q->by))
            q->client->again(p, q);  // the source has not answered: the forwarder is not to blame
        else
            failed(p, q);
        return false;
    }
    join_if_whole(p, q);
    return !q->joining;
}

// Measures a path by the time of this chunk, in percent of the most that it may need: the direct
// time, or half as much again as expected where the path is no faster. Paths may share a bottleneck
// and all be slow. So one of them rests, and later chunks show whether the others are fast enough
// without it.
static void note_came(peer *p, const chunk_pull *q) {
    multipath_paths *w = ways_known(p, q->from);
    for (uint32_t i = 1; w != NULL && i < w->count; i++) {
        multipath_path *way = &w->way[i];
        if (way->by != q->by) continue;
        uint64_t since = way->came_ns > q->asked_ns ? way->came_ns : q->asked_ns;
        uint64_t most_us = forwarding_pays((int64_t)way->us, (int64_t)w->way[0].us, true) ? w->way[0].us
                                                                                      : way->us + way->us / 2;
        uint64_t most_ns = bytes_ns(p, most_us, q->bytes) + 2 * route_round_trip(p, q->from);
        uint64_t percent = (p->now - since) / (most_ns / 100 + 1);
        way->came_ns = p->now;
        if (q->asked_ns < w->fewer_ns) return;
        way->percent = (3 * (way->percent == 0 ? EXPECTED_PERCENT : way->percent) +
                        (uint32_t)(percent < MOST_PERCENT ? percent : MOST_PERCENT)) /
                       4;
        if (way->percent < USELESS_PERCENT) return;
        let_rest(p, q->by, TIMING_FORWARDER_SLOW_NS);
        w->fewer_ns = p->now;
        for (uint32_t k = 1; k < w->count; k++) w->way[k].percent = 0;
        return;
    }
}

void multipath_joined(peer *p, const core_job *t, const job_result *r) {
    chunk_pull *q = &p->chunks->pulls[t->work.m];
    blob_id out = r->out, piece = t->work.input[0];
    peer_release(p, &piece);
    if (!q->used || !q->joining || q->serial != t->serial) {
        peer_release(p, &out);
        return;
    }
    q->joining = false;
    if (out == 0 || r->failed || r->hash64 != q->hash) {
        peer_release(p, &out);
        failed(p, q);
        return;
    }
    note_came(p, q);
    message *msg = &p->core.received;
    *msg = (message){
        .kind = MESSAGE_DATA, .iteration = p->state.iteration, .sender = q->from, .u.data = {.get = t->get, .hash = q->hash}};
    q->client->data(p, msg, out);
}

// Passes chunks on for their origin. One forwarder is enough.
static void pass_on(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry_chunks *piece = &msg->u.carry_chunks;
    if (msg->sender != piece->origin) return;
    peer_compose(p, MESSAGE_CARRY_CHUNKS)->u.carry_chunks = *piece;
    if (forward_pass_on(p, piece->to, blob, bytes)) return;
    peer_compose(p, MESSAGE_UNCARRIED_CHUNKS)->u.uncarried_chunks.serial = piece->serial;
    peer_send_member(p, piece->to, 0);
}

void on_carry_chunks(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry_chunks *piece = &msg->u.carry_chunks;
    if (piece->to == p->me) {
        multipath_piece(p, msg, blob, bytes);
        return;
    }
    if (member_live(p, piece->origin) && bytes <= (uint64_t)piece->count * WIRE_CARRIED_BLOCK_BYTES) pass_on(p, msg, blob, bytes);
    peer_release(p, &blob);
}
