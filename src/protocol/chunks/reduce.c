// All-reduce at a member (docs/protocol.md, Aggregation), as reduce-scatter and all-gather by
// pulls. The owner of a range of blocks pulls every part of it, adds them up and announces the
// result; other members pull results from any member that has them. Blocks move in groups.
#include "protocol/chunks/chunks.h"

#include <string.h>

uint32_t chunk_group_first(uint32_t segment_index) { return segment_index * PEER_SEGMENT_BLOCKS; }

uint32_t chunk_group_count(const peer *p, uint32_t segment_index) {
    uint32_t left = p->chunks->blocks - chunk_group_first(segment_index);
    return left < PEER_SEGMENT_BLOCKS ? left : PEER_SEGMENT_BLOCKS;
}

static void segment_drop(peer *p, uint32_t index) {
    chunk_aggregation *a = &p->chunks->aggregation;
    for (uint64_t left = a->segment[index].arrived; left != 0; left &= left - 1) peer_release(p, &a->part[index][__builtin_ctzll(left)]);
    a->segment[index].arrived = 0;
}

static void drop_results(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    for (uint32_t i = 0; i < p->chunks->segments; i++) {
        segment_drop(p, i);
        a->segment[i] = (chunk_group){0};
    }
    a->done = 0;
    a->normed = a->norm_asked = false;
}

void reduce_reset(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    drop_results(p);
    pulls_drop(p, GET_PART);
    pulls_drop(p, GET_RESULT);
    chunk_group *segments = a->segment;
    blob_id(*parts)[WIRE_MAX_STAGE_MEMBERS] = a->part;
    memset(a, 0, sizeof *a);
    a->segment = segments;
    a->part = parts;
    a->results = UINT64_MAX;
}

// This peer's membership has ended. Complete results stay: FINAL may confirm that they bring the
// cached state forward.
void reduce_leave(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (versions_results_left(p) == 0) {
        reduce_reset(p);
        return;
    }
    pulls_drop(p, GET_PART);
    pulls_drop(p, GET_RESULT);
    for (uint32_t i = 0; i < p->chunks->segments; i++) a->segment[i] = (chunk_group){.state = SEGMENT_DONE};
    *a = (chunk_aggregation){.results = a->results, .normed = true, .done = a->done, .reduced = a->reduced, .segment = a->segment, .part = a->part};
}

// Resets the aggregation at the start of a new membership.
void reduce_enter(peer *p) {
    const chunk_aggregation *a = &p->chunks->aggregation;
    const log_final *final = &p->state.final.u.final;
    bool wanted = versions_results_left(p) != 0 && p->state.has_final && a->results == final->iteration && p->state.iteration == final->iteration + 1;
    if (!wanted || !hash_equal(&a->reduced.root, &final->result_root[p->stage])) reduce_reset(p);
}

// FINAL: no part is added up any more. Results may still be needed, unless the iteration is
// skipped.
void reduce_final(peer *p, const log_final *final) {
    const chunk_aggregation *a = &p->chunks->aggregation;
    pulls_drop(p, GET_PART);
    for (uint32_t i = 0; i < p->chunks->segments; i++) segment_drop(p, i);
    if (p->run.reproducible || a->results != final->iteration || a->begin.round == final->round[p->stage]) return;
    if (a->normed && hash_equal(&a->reduced.root, &final->result_root[p->stage])) return;
    drop_results(p);  // of an older attempt: results of two attempts must not be mixed
    pulls_drop(p, GET_RESULT);
}

// Results of `iteration` are collected from now on.
void reduce_want(peer *p, uint64_t iteration) {
    if (p->chunks->aggregation.results == iteration) return;
    reduce_reset(p);
    p->chunks->aggregation.results = iteration;
}

uint64_t reduce_close(const peer *p) {
    uint64_t results = p->chunks->aggregation.results;
    if (results == p->state.iteration) return p->state.has_close ? p->state.close_index : 0;
    return p->state.has_final && results == p->state.final.u.final.iteration ? p->state.final.u.final.close_index : 0;
}

// The attempt that the results are of: the one named by FINAL, once it is known.
uint64_t reduce_round(const peer *p) {
    const chunk_aggregation *a = &p->chunks->aggregation;
    bool decided = p->state.has_final && a->results == p->state.final.u.final.iteration;
    return decided ? p->state.final.u.final.round[p->stage] : a->begin.round;
}

static void pull_failed(peer *p, const chunk_pull *was);
static void pull_again(peer *p, chunk_pull *q);
static void pull_needless(peer *p, chunk_pull *q);
static void pull_data(peer *p, const message *msg, blob_id blob);

// Client of pulls: parts of the sum, and results.
static const chunk_client result_pulls = {.failed = pull_failed, .data = pull_data, .again = pull_again, .needless = pull_needless};

// ---- rounds -------------------------------------------------------------------------------------

// False while results of the iteration before are still being fetched: the message is repeated
// later.
static bool results_begin(peer *p, uint64_t iteration) {
    const chunk_aggregation *a = &p->chunks->aggregation;
    if (a->results != iteration && a->results + 1 == iteration && versions_are_behind(p, a->results) && !a->given_up) return false;
    reduce_want(p, iteration);
    return true;
}

void on_begin(peer *p, const message *msg) {
    const message_begin *body = &msg->u.begin;
    chunk_aggregation *a = &p->chunks->aggregation;
    if (body->stage != p->stage || msg->iteration != p->state.iteration || p->me == 0) return;
    if (p->state.has_close && body->close_index < p->state.close_index) return;  // rests on an older CLOSE
    if (!results_begin(p, msg->iteration)) return;
    bool newer = !a->begun || body->term > a->begin.term || (body->term == a->begin.term && body->round > a->begin.round);
    if (!newer) {
        if (body->round == a->begin.round) a->reduced_ns = 0;  // the leader asks again
        return;
    }
    bool other_close = a->begun && a->begin.close_index != body->close_index;
    if ((!p->run.reproducible && !peer_breaks(p, PEER_MUTANT_OLD_RESULTS)) || other_close) {  // fp32 sums depend on the order of the parts
        drop_results(p);
        pulls_drop(p, GET_RESULT);
    }
    a->begin = *body;
    a->begun = true;
    a->begun_ns = p->now;
    a->adopted = false;
    pulls_drop(p, GET_PART);
    for (uint32_t i = 0; i < p->chunks->segments; i++) {
        chunk_group *g = &a->segment[i];
        g->mine = false;
        if (g->state == SEGMENT_DONE || g->state == SEGMENT_WORKING) continue;
        segment_drop(p, i);
        g->state = SEGMENT_MISSING;
    }
}

void reduce_open(peer *p) {
    p->chunks->aggregation.adopted = false;
    p->chunks->aggregation.mismatch_ns = p->now;
}

static const message_part *my_part(const peer *p) {
    const message_begin *b = &p->chunks->aggregation.begin;
    for (uint16_t i = 0; i < b->parts; i++)
        if (b->part[i].member == p->me) return &b->part[i];
    return NULL;
}

static void send_mismatch(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (p->now < a->mismatch_ns + TIMING_REPEAT_NS && a->mismatch_ns != 0) return;
    a->mismatch_ns = p->now;
    message_mismatch *body = &peer_compose(p, MESSAGE_MISMATCH)->u.mismatch;
    body->stage = p->stage;
    body->term = a->begin.term;
    body->round = a->begin.round;
    body->set = p->microbatch->k;
    peer_send_leader(p);
}

static void announce(peer *p, uint32_t g) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *to = &p->cluster->members[i];
        if (to->keeps != p->stage || to->contact == NO_CONTACT) continue;
        message_result *body = &peer_compose(p, MESSAGE_RESULT)->u.result;
        body->stage = p->stage;
        body->term = p->chunks->aggregation.begin.term;
        body->round = p->chunks->aggregation.begin.round;
        body->first = chunk_group_first(g);
        body->count = chunk_group_count(p, g);
        peer_send(p, to->contact, 0);
    }
}

// Freezes this peer's part when it is exactly what the manifest says. CLOSE must be applied first.
static void adopt(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    bool read = p->state.position >= a->begin.close_index || peer_breaks(p, PEER_MUTANT_ROUND_BEFORE_CLOSE);
    if (!a->begun || a->adopted || !read || a->results != p->state.iteration) return;
    const message_part *part = my_part(p);
    message_set none = {{0}};
    const message_set *set = part == NULL ? &none : &part->set;
    if (inflight_weights_pending(p) || memcmp(set, &p->microbatch->k, sizeof *set) != 0) {
        send_mismatch(p);
        return;
    }
    a->adopted = true;
    for (uint16_t i = 0; i < a->begin.owners; i++) {
        const message_block_owner *o = &a->begin.owner[i];
        for (uint32_t g = 0; g < p->chunks->segments; g++) {
            if (chunk_group_first(g) < o->first || chunk_group_first(g) >= o->first + o->count) continue;
            a->segment[g].mine = o->member == p->me;
            if (a->segment[g].mine && a->segment[g].state == SEGMENT_DONE) announce(p, g);
        }
    }
}

// ---- segments that I add up ---------------------------------------------------------------------

static bool part_pull_under_way(const peer *p, uint32_t first, uint32_t part) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        const chunk_pull *q = &p->chunks->pulls[i];
        if (q->used && q->what == GET_PART && q->first == first && q->part == part) return true;
    }
    return false;
}

static void start_reduce(peer *p, uint32_t g) {
    chunk_aggregation *a = &p->chunks->aggregation;
    core_job *t = jobs_add(p, JOB_REDUCE);
    if (t == NULL) return;
    t->work.first = chunk_group_first(g);
    t->work.count = chunk_group_count(p, g);
    t->work.tokens = a->begin.tokens;
    t->work.version = a->begin.round;
    t->close = reduce_close(p);
    for (uint16_t i = 0; i < a->begin.parts; i++) {
        t->work.input[t->work.inputs++] = a->begin.part[i].member == p->me ? JOB_OWN_SUM : a->part[g][i];
        a->part[g][i] = 0;  // owned by the job now
    }
    a->segment[g].state = SEGMENT_WORKING;
}

// The cached result of member_answers for one member, because consecutive chunk groups often have
// the same holder.
static bool answers(peer *p, member_id id) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (id == 0) return false;
    if (id == a->asked_of) return a->it_answers;
    uint64_t until = member_answers_until(p, id);
    if (until < a->idle_until_ns) a->idle_until_ns = until;
    a->asked_of = id;
    a->it_answers = member_answers(p, id);
    return a->it_answers;
}

// Starts a pull by the fastest path. NULL: enough are under way. Reason for the limit: all at once
// they would share the link and all be late, and the holders of the first ranges would be the only
// sources in use.
static chunk_pull *pull_segment(peer *p, uint8_t what, member_id from, uint32_t g, uint64_t version) {
    chunk_aggregation *a = &p->chunks->aggregation;
    bool straight = a->segment[g].straight;
    multipath_choice way;
    if (a->full == from) return NULL;
    if (!multipath_choose(p, from, straight, &way)) {
        if (!straight) a->full = from;
        return NULL;
    }
    chunk_pull *q = pull_start(p, &result_pulls, what, p->stage, from, chunk_group_first(g), chunk_group_count(p, g), version);
    if (q != NULL) multipath_take(p, q, &way);
    return q;
}

static void collect_parts(peer *p, uint32_t g) {
    chunk_aggregation *a = &p->chunks->aggregation;
    bool all = true;
    for (uint16_t i = 0; i < a->begin.parts; i++) {
        const message_part *part = &a->begin.part[i];
        if (part->member == p->me || ((a->segment[g].arrived >> i) & 1)) continue;
        all = false;
        if (part_pull_under_way(p, chunk_group_first(g), i)) continue;
        if (!answers(p, part->member)) {  // a paused member would answer every GET when it resumes
            peer_wake_at(p, p->now + TIMING_RETRY_NS);
            reduce_invalidate(p);
            continue;
        }
        chunk_pull *q = pull_segment(p, GET_PART, part->member, g, p->state.iteration);
        if (q == NULL) return;
        reduce_invalidate(p);
        q->part = i;
        q->round = a->begin.round;
        q->set_digest = message_set_digest(&part->set);
        pull_send(p, q);
    }
    if (!all) return;
    reduce_invalidate(p);
    start_reduce(p, g);
}

// ---- segments that others add up ----------------------------------------------------------------

void on_result(peer *p, const message *msg) {
    const message_result *body = &msg->u.result;
    chunk_aggregation *a = &p->chunks->aggregation;
    const cluster_member *from = member_find(p, msg->sender);
    if (p->me == 0 || from == NULL || body->stage != p->stage || from->stage != p->stage || body->first % PEER_SEGMENT_BLOCKS != 0) return;
    uint32_t g = body->first / PEER_SEGMENT_BLOCKS;
    if (g >= p->chunks->segments || body->count != chunk_group_count(p, g)) return;
    // the sender may have had BEGIN first, and announces only once
    if (a->results != msg->iteration && (msg->iteration != p->state.iteration || !results_begin(p, msg->iteration))) return;
    bool any_round = p->run.reproducible || peer_breaks(p, PEER_MUTANT_OLD_RESULTS);
    if (!any_round && body->round != reduce_round(p)) return;
    a->segment[g].holder = msg->sender;
}

static bool askable(const peer *p, const cluster_member *m) {
    return m->contact != NO_CONTACT && p->cluster->contacts[m->contact].link == LINK_UP && member_answers(p, m->id);
}

static void list_candidates(peer *p, bool standbys) {
    chunk_aggregation *a = &p->chunks->aggregation;
    for (uint32_t i = 0; i < p->cluster->member_count && a->candidates < WIRE_MAX_STAGE_MEMBERS; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if ((standbys ? m->keeps : m->stage) == p->stage && askable(p, m)) a->candidate[a->candidates++] = m->id;
    }
}

// The member to ask when no live member has announced it: members of the stage in turn, or its
// standbys if all of them died.
static member_id some_member(peer *p, chunk_group *g) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (!a->candidates_known) {
        a->candidates = 0;
        list_candidates(p, false);
        if (a->candidates == 0) list_candidates(p, true);
    }
    a->candidates_known = true;
    return a->candidates == 0 ? 0 : a->candidate[g->asked++ % a->candidates];
}

static void fetch_result(peer *p, uint32_t index) {
    chunk_aggregation *a = &p->chunks->aggregation;
    chunk_group *g = &a->segment[index];
    bool decided = p->state.has_final && p->state.final.u.final.iteration == a->results;
    member_id from = g->holder;
    if (!answers(p, from)) {
        // before FINAL most members announce by themselves
        uint64_t since = g->asked_ns > a->begun_ns ? g->asked_ns : a->begun_ns;
        uint64_t due = since + (decided ? TIMING_RETRY_NS : TIMING_ANNOUNCED_NS);
        if (p->now < due) {
            peer_wake_at(p, due);
            return;
        }
        reduce_invalidate(p);
        g->asked_ns = p->now;
        from = some_member(p, g);
    }
    if (from == 0) return;
    chunk_pull *q = pull_segment(p, GET_RESULT, from, index, a->results);
    if (q == NULL) return;
    reduce_invalidate(p);
    q->round = reduce_round(p);
    q->close_index = reduce_close(p);
    g->state = SEGMENT_PULLING;
    pull_send(p, q);
}

static void pull_again(peer *p, chunk_pull *q) {
    chunk_group *g = &p->chunks->aggregation.segment[q->first / PEER_SEGMENT_BLOCKS];
    g->straight = true;
    if (q->what == GET_RESULT && g->state == SEGMENT_PULLING) g->state = SEGMENT_MISSING;
    pull_end(p, q);
    reduce_invalidate(p);
    peer_wake_at(p, p->now);
}

// Ends a pull of a part or of results that this member no longer needs. If an older state arrives
// later, the results are requested again.
static void pull_needless(peer *p, chunk_pull *q) {
    chunk_aggregation *a = &p->chunks->aggregation;
    chunk_group *g = &a->segment[q->first / PEER_SEGMENT_BLOCKS];
    if (q->version == a->results && g->state == SEGMENT_PULLING) g->state = SEGMENT_MISSING;
    pull_end(p, q);
    reduce_invalidate(p);
}

static void pull_failed(peer *p, const chunk_pull *was) {
    chunk_group *g = &p->chunks->aggregation.segment[was->first / PEER_SEGMENT_BLOCKS];
    if (was->what == GET_PART) {
        g->asked_ns = p->now;
        return;
    }
    if (g->state == SEGMENT_PULLING) g->state = SEGMENT_MISSING;
    if (g->holder == was->from) g->holder = 0;  // another member may have announced it meanwhile
    bool decided = p->state.has_final && p->state.final.u.final.iteration == p->chunks->aggregation.results;
    if (decided && ++p->chunks->aggregation.refusals > 4 * p->chunks->segments + 2 * member_count_stage(p, p->stage)) p->chunks->aggregation.given_up = true;
}

static void pull_data(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    chunk_aggregation *a = &p->chunks->aggregation;
    uint32_t index = get->first / PEER_SEGMENT_BLOCKS;
    chunk_group *g = &a->segment[index];
    chunk_pull *q = NULL;
    for (uint32_t i = 0; i < PEER_MAX_PULLS && q == NULL; i++) {
        chunk_pull *c = &p->chunks->pulls[i];
        if (c->used && c->what == get->what && c->from == msg->sender && c->first == get->first && c->count == get->count && c->version == get->version && c->round == get->round) q = c;
    }
    if (q == NULL || q->set_digest != get->set_digest || q->close_index != get->close_index || get->version != a->results) {
        peer_release(p, &blob);
        return;
    }
    uint32_t part = q->part;
    pull_end(p, q);
    if (get->what == GET_PART) {
        if (g->state == SEGMENT_DONE || g->state == SEGMENT_WORKING || (g->arrived >> part) & 1) {
            peer_release(p, &blob);
            return;
        }
        a->part[index][part] = blob;
        g->arrived |= (uint64_t)1 << part;
        return;
    }
    core_job *t = g->state == SEGMENT_PULLING ? jobs_add(p, JOB_RESULT_PUT) : NULL;
    if (t == NULL) {
        peer_release(p, &blob);
        if (g->state == SEGMENT_PULLING) g->state = SEGMENT_MISSING;
        return;
    }
    t->work.first = get->first;
    t->work.count = get->count;
    t->work.in = blob;
    t->work.iteration = a->results;
    t->work.version = reduce_round(p);
    t->close = reduce_close(p);
    g->state = SEGMENT_WORKING;
}

// ---- done ---------------------------------------------------------------------------------------

static void reduce_job_failed(peer *p, const core_job *t) {
    uint32_t index = t->work.first / PEER_SEGMENT_BLOCKS;
    chunk_group *g = &p->chunks->aggregation.segment[index];
    segment_drop(p, index);
    g->state = SEGMENT_MISSING;
    g->holder = 0;
}

bool reduce_counts(const peer *p, const core_job *t) { return p->chunks->aggregation.results == t->work.iteration && t->close == reduce_close(p); }

static void segment_finished(peer *p, const core_job *t, const job_result *r) {
    chunk_aggregation *a = &p->chunks->aggregation;
    blob_id in = t->work.in, out = r->out;
    peer_release(p, &in);
    peer_release(p, &out);
    for (uint32_t i = 0; i < t->work.inputs; i++) {
        blob_id part = t->work.input[i];
        peer_release(p, &part);
    }
    uint32_t index = t->work.first / PEER_SEGMENT_BLOCKS;
    if (p->me == 0 || index >= p->chunks->segments || !reduce_counts(p, t)) return;
    chunk_group *g = &a->segment[index];
    bool other_round = !p->run.reproducible && t->work.version != reduce_round(p);
    if (g->state != SEGMENT_WORKING) return;
    if (r->failed || other_round) {
        reduce_job_failed(p, t);
        return;
    }
    segment_drop(p, index);
    g->state = SEGMENT_DONE;
    a->done++;
    if (t->work.kind == JOB_REDUCE) announce(p, index);
}

static void norm_finished(peer *p, const core_job *t, const job_result *r) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (p->me == 0 || a->results != t->work.iteration || !versions_results_complete(p)) return;
    a->norm_asked = false;
    a->normed = true;
    a->reduced_ns = 0;
    a->reduced.stage = p->stage;
    a->reduced.overflow = r->overflow;
    a->reduced.root = r->hash;
    a->reduced.tensors = r->norms < WIRE_MAX_STAGE_TENSORS ? r->norms : WIRE_MAX_STAGE_TENSORS;
    memcpy(a->reduced.norm2, r->norm2, a->reduced.tensors * sizeof(double));
    bool decided = p->state.has_final && p->state.final.u.final.iteration == a->results;
    if (decided && !hash_equal(&r->hash, &p->state.final.u.final.result_root[p->stage])) {
        drop_results(p);  // differs from the agreed results: fetch them again
        return;
    }
    reduce_apply(p);
}

static void applied(peer *p, const core_job *t) {
    p->chunks->applying = false;
    for (uint32_t b = 0; b < p->chunks->blocks; b++)
        if (p->chunks->block_version[b] == t->work.iteration || peer_breaks(p, PEER_MUTANT_FORWARDS_ANYTHING)) p->chunks->block_version[b] = t->work.iteration + 1;
    versions_changed(p);
    reduce_apply(p);  // the next FINAL may have come meanwhile
    versions_check_ready(p);
}

void reduce_job_done(peer *p, const core_job *t, const job_result *r) {
    if (t->work.kind == JOB_APPLY) {
        if (p->me != 0) applied(p, t);
    } else if (t->work.kind == JOB_NORM) norm_finished(p, t, r);
    else segment_finished(p, t, r);
}

void reduce_apply(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (!p->state.has_final || p->chunks->applying || p->me == 0) return;
    const log_final *final = &p->state.final.u.final;
    if (final->iteration + 1 != p->state.iteration || !versions_are_behind(p, final->iteration)) return;
    if (!final->skip) {
        reduce_want(p, final->iteration);
        if (!a->normed || a->results != final->iteration) return;
        if (!hash_equal(&a->reduced.root, &final->result_root[p->stage])) {
            drop_results(p);
            return;
        }
    }
    core_job *t = jobs_add(p, JOB_APPLY);
    if (t == NULL) return;
    t->work.iteration = final->iteration;
    t->work.skip = final->skip;
    t->work.clip = final->clip;
    t->work.learning_rate = final->learning_rate;
    t->work.bias1 = final->bias1;
    t->work.bias2 = final->bias2;
    p->chunks->applying = true;
}

static void send_reduced(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (a->results != p->state.iteration || !a->normed || !a->begun) return;
    if (a->reduced_ns != 0 && p->now < a->reduced_ns + TIMING_REPEAT_NS) {
        peer_wake_at(p, a->reduced_ns + TIMING_REPEAT_NS);
        return;
    }
    reduce_invalidate(p);
    a->reduced_ns = p->now;
    message *msg = peer_compose(p, MESSAGE_REDUCED);
    msg->u.reduced = a->reduced;
    msg->u.reduced.term = a->begin.term;
    msg->u.reduced.round = a->begin.round;
    peer_send_leader(p);
}

static void collect_when_due(peer *p, uint32_t index) {
    const chunk_group *g = &p->chunks->aggregation.segment[index];
    uint64_t due = g->asked_ns == 0 ? 0 : g->asked_ns + TIMING_RETRY_NS;
    if (p->now >= due) collect_parts(p, index);
    else peer_wake_at(p, due);
}

// How many groups are collected at once. Parts of fast members wait here for those of the slowest
// one, and more groups would not make it faster. The limit is above what a link can have under way.
static uint32_t collected_at_once(const peer *p) {
    uint32_t parts = p->chunks->aggregation.begin.parts, share = parts == 0 ? 0 : PEER_WAITING_PARTS / parts;
    return share > PEER_LEAST_COLLECTED ? share : PEER_LEAST_COLLECTED;
}

static void segments_tick(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    uint32_t collecting = 0, most = collected_at_once(p);
    for (uint32_t i = 0; i < p->chunks->segments; i++) {
        chunk_group *g = &a->segment[i];
        if (g->state != SEGMENT_MISSING) continue;
        bool mine = g->mine && a->adopted && a->results == p->state.iteration;
        if (!mine) fetch_result(p, i);
        else if (collecting < most) collect_when_due(p, i);
        collecting += mine && g->state == SEGMENT_MISSING;
    }
}

// False: the next step may decide otherwise even if no message comes.
static bool reduce(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (a->begun && !a->adopted && a->results == p->state.iteration) {
        adopt(p);
        if (!a->adopted) {
            peer_wake_at(p, p->now + TIMING_REPEAT_NS);
            return false;
        }
    }
    bool decided = p->state.has_final && a->results == p->state.final.u.final.iteration && a->results + 1 == p->state.iteration;
    bool wanted = (a->adopted && a->results == p->state.iteration) || (decided && versions_are_behind(p, a->results) && !a->given_up);
    if (!wanted) return true;
    if (!versions_results_complete(p)) segments_tick(p);
    bool norm = versions_results_complete(p) && !a->normed && !a->norm_asked;
    core_job *t = norm ? jobs_add(p, JOB_NORM) : NULL;
    if (t != NULL) {
        t->work.iteration = a->results;
        a->norm_asked = true;
    }
    send_reduced(p);
    return !norm;
}

// Checks nothing before idle_until_ns. Reason: most steps do not concern the aggregation, and a
// stage has many chunk groups.
void reduce_tick(peer *p) {
    chunk_aggregation *a = &p->chunks->aggregation;
    if (p->me == 0) return;
    if (p->now >= a->idle_until_ns) {
        uint64_t deadline = p->core.deadline;
        p->core.deadline = a->idle_until_ns = UINT64_MAX;
        a->asked_of = a->full = 0;
        a->candidates_known = false;
        if (!reduce(p)) reduce_invalidate(p);
        a->idle_wake_ns = p->core.deadline;
        if (a->idle_wake_ns < a->idle_until_ns) a->idle_until_ns = a->idle_wake_ns;
        p->core.deadline = deadline;
    }
    peer_wake_at(p, a->idle_wake_ns);
}
