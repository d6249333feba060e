#include "bench/training/pipeline.h"

#include <stdlib.h>
#include <string.h>

enum { NO_MICROBATCH = UINT32_MAX };

typedef enum doing { WAITS_FOR_PEER, COMPUTES, WAITS_FOR_LINK, IS_SENT, IS_DONE } doing;

// A microbatch is in one place at a time. Its visits: forward at path[0 .. length - 2], the loss at
// path[length - 1], then backward at path[length - 2 .. 0].
typedef struct microbatch {
    doing doing;
    uint32_t visit;
    int64_t since;  // begin of its wait
    int64_t until;  // end of its computation or transfer; INT64_MAX: it waits
    int64_t lands;  // end of its use of the link, before `until` by the latency
} microbatch;

struct pipeline_state {
    const pipeline *p;
    microbatch *batch;
    int64_t now;
    bool *computing;     // [peers]
    bool *gone;          // [peers]
    uint32_t *held;      // [peers]
    int64_t *link_free;  // [links]: end of the current transfer
    uint32_t *first;     // [peers or links]: the next microbatch in turn; NO_MICROBATCH between two uses
    int64_t *busy_ns;    // the caller's, or NULL
    uint32_t left;       // microbatches not done
};

typedef pipeline_state state;

static size_t place_at(const state *s, uint32_t m, uint32_t visit) {
    uint32_t last = s->p->length - 1;
    return (size_t)m * s->p->length + (visit <= last ? visit : 2 * last - visit);
}

static bool is_backward(const state *s, uint32_t visit) { return visit > s->p->length - 1; }

static uint32_t peer_at(const state *s, uint32_t m, uint32_t visit) {
    const uint32_t *path = is_backward(s, visit) && s->p->back != NULL ? s->p->back : s->p->path;
    return path[place_at(s, m, visit)];
}

static bool is_forward(const state *s, uint32_t visit) { return visit < s->p->length - 1; }

static int64_t compute_ns(const state *s, uint32_t m) {
    uint32_t visit = s->batch[m].visit;
    const pipeline_peer *peer = &s->p->peer[peer_at(s, m, visit)];
    if (is_forward(s, visit)) return peer->forward_ns;
    return visit == s->p->length - 1 ? peer->home_ns : peer->backward_ns;
}

static uint32_t link_of(const state *s, uint32_t m) {
    uint32_t from = peer_at(s, m, s->batch[m].visit);
    if (s->p->link == PIPELINE_PEER) return from;
    return from * s->p->peers + peer_at(s, m, s->batch[m].visit + 1);
}

static bool stands_in(const state *s, uint32_t m, uint32_t visit) {
    return is_backward(s, visit) && peer_at(s, m, visit) != s->p->path[place_at(s, m, visit)];
}

// A relay's activation stash is in use from the first visit; the data peer needs none for its own
// microbatches.
static bool takes_room(const state *s, uint32_t m) {
    uint32_t visit = s->batch[m].visit;
    return visit > 0 && (is_forward(s, visit) || stands_in(s, m, visit));
}

static bool has_room(const state *s, uint32_t m) {
    uint32_t peer = peer_at(s, m, s->batch[m].visit), capacity = s->p->peer[peer].capacity;
    return !takes_room(s, m) || capacity == 0 || s->held[peer] < capacity;
}

static bool served_before(const state *s, uint32_t a, uint32_t b, bool at_peer) {
    const microbatch *x = &s->batch[a], *y = &s->batch[b];
    if (at_peer && is_forward(s, x->visit) != is_forward(s, y->visit)) return !is_forward(s, x->visit);
    return x->since != y->since ? x->since < y->since : a < b;
}

// --- ends at `now`

static void wait_for(state *s, uint32_t m, doing what) {
    s->batch[m].doing = what;
    s->batch[m].since = s->now;
    s->batch[m].until = INT64_MAX;
}

static void end_computing(state *s, uint32_t m) {
    microbatch *b = &s->batch[m];
    uint32_t peer = peer_at(s, m, b->visit), last = 2 * (s->p->length - 1);
    s->computing[peer] = false;
    if (is_backward(s, b->visit) && b->visit < last) s->held[s->p->path[place_at(s, m, b->visit)]]--;
    if (stands_in(s, m, b->visit)) s->held[peer]--;
    wait_for(s, m, WAITS_FOR_LINK);
    if (b->visit < last) return;
    b->doing = IS_DONE;
    s->left--;
}

static void end_all(state *s) {
    for (uint32_t m = 0; m < s->p->microbatches; m++) {
        if (s->batch[m].until != s->now) continue;
        if (s->batch[m].doing == COMPUTES) {
            end_computing(s, m);
        } else {
            s->batch[m].visit++;
            wait_for(s, m, WAITS_FOR_PEER);
        }
    }
}

// --- begins at `now`

static void begin_computing(state *s, uint32_t m) {
    microbatch *b = &s->batch[m];
    uint32_t peer = peer_at(s, m, b->visit);
    int64_t ns = compute_ns(s, m);
    if (takes_room(s, m)) s->held[peer]++;
    s->computing[peer] = true;
    if (s->busy_ns != NULL) s->busy_ns[peer] += ns;
    b->doing = COMPUTES;
    b->until = s->now + ns;
}

static void begin_sending(state *s, uint32_t m) {
    microbatch *b = &s->batch[m];
    size_t pair = (size_t)peer_at(s, m, b->visit) * s->p->peers + peer_at(s, m, b->visit + 1);
    s->link_free[link_of(s, m)] = s->now + s->p->transfer_ns[pair];
    b->doing = IS_SENT;
    b->lands = s->link_free[link_of(s, m)];
    b->until = b->lands + s->p->latency_ns[pair];
    if (s->p->passed_ns != NULL) s->p->passed_ns[(size_t)m * 2 * s->p->length + b->visit] = b->lands;
}

static int64_t receiver_from(const state *s, uint32_t m) {
    uint32_t receiver = peer_at(s, m, s->batch[m].visit + 1);
    return s->gone[receiver] ? INT64_MAX : s->p->peer[receiver].from_ns;
}

// Begins the first waiting microbatch of each peer (or link) that is free and has room.
static bool begin_all(state *s, doing waiting) {
    bool at_peer = waiting == WAITS_FOR_PEER, begun = false;
    for (uint32_t m = 0; m < s->p->microbatches; m++) {
        if (s->batch[m].doing != waiting) continue;
        uint32_t at = at_peer ? peer_at(s, m, s->batch[m].visit) : link_of(s, m);
        if (at_peer ? s->computing[at] || !has_room(s, m) : s->link_free[at] > s->now || receiver_from(s, m) > s->now) continue;
        if (s->first[at] == NO_MICROBATCH || served_before(s, m, s->first[at], at_peer)) s->first[at] = m;
    }
    for (uint32_t m = 0; m < s->p->microbatches; m++) {
        if (s->batch[m].doing != waiting) continue;
        uint32_t at = at_peer ? peer_at(s, m, s->batch[m].visit) : link_of(s, m);
        if (s->first[at] != m) continue;
        s->first[at] = NO_MICROBATCH;
        begun = true;
        if (at_peer)
            begin_computing(s, m);
        else
            begin_sending(s, m);
    }
    return begun;
}

// The next event. Besides ends of computations these are links that become free, before the
// transfer has arrived, and peers that arrive.
static int64_t next_moment(const state *s) {
    int64_t next = INT64_MAX;
    for (uint32_t m = 0; m < s->p->microbatches; m++) {
        const microbatch *b = &s->batch[m];
        if (b->until < next) next = b->until;
        if (b->doing == IS_SENT && b->lands > s->now && b->lands < next) next = b->lands;
        if (b->doing == WAITS_FOR_LINK && receiver_from(s, m) > s->now && receiver_from(s, m) < next) next = receiver_from(s, m);
    }
    return next;
}

int64_t pipeline_play(pipeline_state *s, int64_t until_ns) {
    while (s->left > 0 && s->now < until_ns) {
        while (begin_all(s, WAITS_FOR_PEER) || begin_all(s, WAITS_FOR_LINK)) continue;
        int64_t next = next_moment(s);
        BRAID_ASSERT(next != INT64_MAX || s->p->back != NULL);
        s->now = next < until_ns ? next : until_ns;
        if (next < until_ns) end_all(s);
    }
    return s->now;
}

// --- deaths

static bool is_on_line(const state *s, uint32_t m) { return s->batch[m].doing == IS_SENT && s->batch[m].lands > s->now; }

static bool is_lost_with(const state *s, uint32_t m, uint32_t peer) {
    uint32_t visit = s->batch[m].visit;
    if (s->batch[m].doing == IS_DONE) return false;
    if (s->batch[m].doing != IS_SENT) return peer_at(s, m, visit) == peer;
    return peer_at(s, m, visit + 1) == peer || (peer_at(s, m, visit) == peer && is_on_line(s, m));
}

// --- checks

static braid_err check_times(const pipeline *p, braid_error *error) {
    for (uint32_t i = 0; i < p->peers; i++) {
        const pipeline_peer *q = &p->peer[i];
        int64_t times[] = {q->forward_ns, q->backward_ns, q->home_ns};
        for (uint32_t t = 0; t < 3; t++)
            if (times[t] < 0 || times[t] > PIPELINE_MAX_NS)
                return braid_fail(error, BRAID_ARGUMENT, "peer %u computes for %lld ns", i, (long long)times[t]);
    }
    for (size_t l = 0; l < (size_t)p->peers * p->peers; l++)
        if (p->latency_ns[l] < 0 || p->transfer_ns[l] < 0 || p->latency_ns[l] > PIPELINE_MAX_NS ||
            p->transfer_ns[l] > PIPELINE_MAX_NS)
            return braid_fail(error, BRAID_ARGUMENT, "the link from peer %zu to %zu takes %lld ns and %lld ns",
                              l / p->peers, l % p->peers, (long long)p->latency_ns[l], (long long)p->transfer_ns[l]);
    return BRAID_OK;
}

// Capacity causes no deadlock only if every relay is in one stage of all paths.
static braid_err check_stages(const pipeline *p, const uint32_t *path, braid_error *error) {
    uint32_t *stage = calloc(p->peers + 1, sizeof *stage);
    if (stage == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for %u peers", p->peers);
    braid_err err = BRAID_OK;
    for (uint32_t m = 0; m < p->microbatches && !err; m++)
        for (uint32_t i = 1; i + 1 < p->length && !err; i++) {
            uint32_t peer = path[(size_t)m * p->length + i];
            if (stage[peer] != 0 && stage[peer] != i)
                err = braid_fail(error, BRAID_ARGUMENT, "peer %u is in stage %u and, for microbatch %u, in stage %u",
                                 peer, stage[peer], m, i);
            stage[peer] = i;
        }
    free(stage);
    return err;
}

static braid_err check_paths(const pipeline *p, const uint32_t *paths, braid_error *error) {
    for (uint32_t m = 0; m < p->microbatches; m++) {
        const uint32_t *path = paths + (size_t)m * p->length;
        for (uint32_t i = 0; i < p->length; i++)
            if (path[i] >= p->peers)
                return braid_fail(error, BRAID_ARGUMENT, "microbatch %u goes to peer %u of %u", m, path[i], p->peers);
        if (path[0] != path[p->length - 1])
            return braid_fail(error, BRAID_ARGUMENT, "microbatch %u leaves peer %u and ends at %u", m, path[0],
                              path[p->length - 1]);
    }
    return check_stages(p, paths, error);
}

static braid_err check(const pipeline *p, braid_error *error) {
    if (p->peers > PIPELINE_MAX_PEERS || p->microbatches > PIPELINE_MAX_MICROBATCHES || p->length < 2 ||
        p->length > PIPELINE_MAX_LENGTH)
        return braid_fail(error, BRAID_LIMIT,
                          "%u peers, %u microbatches, %u peers on a path; at most %d, %d and 2 to %d are simulated",
                          p->peers, p->microbatches, p->length, PIPELINE_MAX_PEERS, PIPELINE_MAX_MICROBATCHES,
                          PIPELINE_MAX_LENGTH);
    braid_err err = check_paths(p, p->path, error);
    if (!err && p->back != NULL) err = check_paths(p, p->back, error);
    return err ? err : check_times(p, error);
}

void pipeline_close(pipeline_state *s) {
    if (s == NULL) return;
    free(s->batch);
    free(s->computing);
    free(s->gone);
    free(s->held);
    free(s->link_free);
    free(s->first);
    free(s);
}

static size_t links_of(const pipeline *p) { return (size_t)p->peers * p->peers; }

static bool allocate(state *s) {
    const pipeline *p = s->p;
    s->batch = calloc(p->microbatches + 1, sizeof *s->batch);
    s->computing = calloc(p->peers + 1, sizeof *s->computing);
    s->gone = calloc(p->peers + 1, sizeof *s->gone);
    s->held = calloc(p->peers + 1, sizeof *s->held);
    s->link_free = calloc(links_of(p) + 1, sizeof *s->link_free);
    s->first = malloc((links_of(p) + 1) * sizeof *s->first);
    return s->batch != NULL && s->computing != NULL && s->gone != NULL && s->held != NULL && s->link_free != NULL && s->first != NULL;
}

braid_err pipeline_open(const pipeline *p, pipeline_state **out, braid_error *error) {
    braid_err err = check(p, error);
    *out = NULL;
    if (err) return err;
    state *s = calloc(1, sizeof *s);
    if (s != NULL) s->p = p;
    if (s == NULL || !allocate(s)) {
        pipeline_close(s);
        return braid_fail(error, BRAID_MEMORY, "no memory for a pipeline of %u peers", p->peers);
    }
    for (size_t l = 0; l < links_of(p); l++) s->first[l] = NO_MICROBATCH;
    for (uint32_t m = 0; m < p->microbatches; m++) wait_for(s, m, WAITS_FOR_PEER);
    s->left = p->microbatches;
    *out = s;
    return BRAID_OK;
}

void pipeline_copy(pipeline_state *to, const pipeline_state *from) {
    const pipeline *p = from->p;
    BRAID_ASSERT(to->p == p);
    memcpy(to->batch, from->batch, p->microbatches * sizeof *to->batch);
    memcpy(to->computing, from->computing, p->peers * sizeof *to->computing);
    memcpy(to->gone, from->gone, p->peers * sizeof *to->gone);
    memcpy(to->held, from->held, p->peers * sizeof *to->held);
    memcpy(to->link_free, from->link_free, links_of(p) * sizeof *to->link_free);
    to->now = from->now;
    to->left = from->left;
}

bool pipeline_is_done(const pipeline_state *s) { return s->left == 0; }

int64_t pipeline_done_ns(const pipeline_state *s, uint32_t m) { return s->batch[m].since; }

bool pipeline_is_settled(const pipeline_state *s, uint32_t m, uint32_t visit) {
    const microbatch *b = &s->batch[m];
    return visit <= b->visit + (b->doing == IS_SENT);
}

// The visit that an activation waits for or is on its way to; 0: none.
static uint32_t waits_for_visit(const state *s, uint32_t m) {
    const microbatch *b = &s->batch[m];
    uint32_t visit = b->visit + (b->doing == IS_SENT);
    bool waits = b->doing == WAITS_FOR_PEER || b->doing == IS_SENT;
    return waits && is_forward(s, visit) ? visit : 0;
}

uint32_t pipeline_recallable(const pipeline_state *s, uint32_t m) {
    uint32_t visit = waits_for_visit(s, m);
    return visit > 0 && !s->gone[peer_at(s, m, visit - 1)] ? visit : 0;
}

void pipeline_recall(pipeline_state *s, uint32_t m) {
    uint32_t visit = pipeline_recallable(s, m);
    BRAID_ASSERT(visit > 0);
    s->batch[m].visit = visit - 1;
    wait_for(s, m, WAITS_FOR_LINK);
}

void pipeline_lose(pipeline_state *s, uint32_t peer) {
    s->gone[peer] = true;
    for (uint32_t m = 0; m < s->p->microbatches; m++) {
        microbatch *b = &s->batch[m];
        if (!is_lost_with(s, m, peer)) continue;
        while (s->gone[peer_at(s, m, b->visit)]) b->visit--;
        wait_for(s, m, WAITS_FOR_LINK);
    }
}

braid_err pipeline_run(const pipeline *p, int64_t *iteration_ns, int64_t *done_ns, int64_t *busy_ns,
                       braid_error *error) {
    pipeline_state *s;
    braid_err err = pipeline_open(p, &s, error);
    *iteration_ns = 0;
    if (err) return err;
    for (uint32_t i = 0; busy_ns != NULL && i < p->peers; i++) busy_ns[i] = 0;
    s->busy_ns = busy_ns;
    *iteration_ns = pipeline_play(s, INT64_MAX);
    for (uint32_t m = 0; done_ns != NULL && m < p->microbatches; m++) done_ns[m] = pipeline_done_ns(s, m);
    pipeline_close(s);
    return BRAID_OK;
}
