// Moving blocks: GET and DATA, served and asked for. State needs no snapshot: every block carries its version, and a joiner
// brings it forward with the results of the iterations between (docs/protocol.md, Members and state).
#include "peer/internal.h"

#include <string.h>

enum { STATE_PULLS = 4 };

// ---- serving ------------------------------------------------------------------------------------------------------

static void refuse_get(peer *p, uint32_t to, const message_get *get) {
    message_deny *deny = &peer_compose(p, MESSAGE_DENY)->u.deny;
    deny->subject = (message_subject){.m = get->what, .stage = get->stage, .attempt = get->first};
    deny->phase = PHASE_GET;
    deny->reason = DENY_MISSING;
    peer_send(p, to, 0);
}

// The digest names what is wanted, so it may be given before BEGIN has come here: jobs that were asked for run before W.
static bool serves_part(const peer *p, const message_get *get) {
    return get->stage == p->stage && get->version == p->iteration && (get->digest == set_digest(&p->k) || peer_breaks(p, PEER_MUTANT_SAME_NAME)) && !weights_pending(p);
}

static bool serves_result(const peer *p, const message_get *get) {
    const aggregation *a = &p->aggregation;
    if (get->stage != p->stage || get->version != a->results) return false;
    if (!p->run.reproducible && get->version == p->iteration && get->round != a->begin.round) return false;
    for (uint32_t b = get->first; b < get->first + get->count; b++)
        if (a->segment[b / PEER_SEGMENT_BLOCKS].state != SEGMENT_DONE) return false;
    return true;
}

// All blocks of the request at one version; the checkpoint's reader wants a certain one.
static bool serves_state(const peer *p, const message_get *get) {
    if (get->stage != p->stage) return p->config.leader && p->iteration == p->run.start_version;
    for (uint32_t b = get->first; b < get->first + get->count; b++)
        if (p->block_version[b] == UINT64_MAX || p->block_version[b] != p->block_version[get->first]) return false;
    return get->version == UINT64_MAX || p->block_version[get->first] == get->version;
}

void on_get(peer *p, uint32_t from, const message *msg) {
    const message_get *get = &msg->u.get;
    uint32_t blocks = get->stage < p->run.stages ? p->run.blocks[get->stage] : 0;
    bool in_range = p->me != 0 && get->count >= 1 && get->count <= PEER_SEGMENT_BLOCKS && get->first < blocks && get->count <= blocks - get->first;
    job_kind kind = JOB_NONE;
    if (in_range && get->what == GET_PART && serves_part(p, get)) kind = JOB_PACK;
    if (in_range && get->what == GET_RESULT && serves_result(p, get)) kind = JOB_RESULT_GET;
    if (in_range && get->what == GET_STATE && serves_state(p, get)) kind = JOB_STATE_GET;
    // leave room for my own
    task *t = kind == JOB_NONE || p->task_count > PEER_MAX_TASKS / 2 ? NULL : task_add(p, kind);
    if (t == NULL) {
        refuse_get(p, from, get);
        return;
    }
    t->contact = from;
    t->get = *get;
    t->work.stage = get->stage;
    t->work.first = get->first;
    t->work.count = get->count;
    t->work.version = get->version;
    if (get->what == GET_STATE) t->work.version = get->stage == p->stage ? p->block_version[get->first] : p->run.start_version;
}

void serve_done(peer *p, const task *t, const job_result *r) {
    blob_id out = r->out;
    if (t->contact == NO_CONTACT) {
        save_job_done(p, t, r);
        return;
    }
    if (r->failed || out == 0) {
        refuse_get(p, t->contact, &t->get);
        peer_release(p, &out);
        return;
    }
    message_data *data = &peer_compose(p, MESSAGE_DATA)->u.data;
    data->get = t->get;
    data->get.version = t->work.version;  // at which it really stands
    data->hash = r->hash64;
    peer_send(p, t->contact, out);
    peer_release(p, &out);
}

// ---- asking -------------------------------------------------------------------------------------------------------

pull *pull_start(peer *p, uint8_t what, uint16_t stage, member_id from, uint32_t first, uint32_t count, uint64_t version) {
    if (!shadow_may_pull(p)) return NULL;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (q->used) continue;
        *q = (pull){.used = true, .what = what, .stage = stage, .from = from, .first = first, .count = count, .version = version};
        return q;
    }
    return NULL;
}

void pull_send(peer *p, pull *q) {
    message_get *get = &peer_compose(p, MESSAGE_GET)->u.get;
    get->what = q->what;
    get->stage = q->stage;
    get->term = p->leader.term;
    get->round = q->round;
    get->version = q->version;
    get->first = q->first;
    get->count = q->count;
    get->digest = q->digest;
    const member *m = member_find(p, q->from);
    const timing_link none = {0};
    q->asked_ns = p->now;
    q->deadline_ns = p->now + timing_get_limit(m == NULL || m->contact == NO_CONTACT ? &none : &p->contacts[m->contact].timing);
    if (!peer_send_member(p, q->from, 0)) q->deadline_ns = p->now + TIMING_REPEAT_NS / 10;
    peer_wake_at(p, q->deadline_ns);
}

void pulls_drop(peer *p, uint8_t what) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++)
        if (p->pulls[i].what == what) p->pulls[i].used = false;
}

// What a link had not delivered when it fell is lost: nothing is waited for, and nobody was slow.
void pulls_link_lost(peer *p, member_id from) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (!q->used || q->from != from) continue;
        q->asked_ns = q->deadline_ns = p->now;
        peer_wake_at(p, p->now);
    }
}

// Who answers heartbeats and not a GET has a slow line.
static void pull_overdue(peer *p, const pull *q) {
    const member *m = member_find(p, q->from);
    if (m != NULL && m->contact != NO_CONTACT && member_answers(p, q->from))
        timing_get_overdue(&p->contacts[m->contact].timing, p->now - q->asked_ns);
}

static void pull_timed(peer *p, const message *msg) {
    const message_get *get = &msg->u.data.get;
    const member *m = member_find(p, msg->sender);
    for (uint32_t i = 0; i < PEER_MAX_PULLS && m != NULL && m->contact != NO_CONTACT; i++) {
        const pull *q = &p->pulls[i];
        bool mine = q->used && q->what == get->what && q->from == msg->sender && q->stage == get->stage && q->first == get->first;
        if (!mine) continue;
        timing_got(&p->contacts[m->contact].timing, p->now - q->asked_ns);
        shadow_pulled(p, p->now - q->asked_ns);
    }
}

void pulls_tick(peer *p) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (!q->used) continue;
        if (q->deadline_ns <= p->now) pull_overdue(p, q);
        if (q->deadline_ns <= p->now || !member_answers(p, q->from)) reduce_denied(p, q);
        else peer_wake_at(p, q->deadline_ns);
    }
}

static bool stage_pulls(const peer *p, uint32_t first) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        const pull *q = &p->pulls[i];
        if (q->used && q->what == GET_STATE && q->stage == p->stage && q->first == first) return true;
    }
    return false;
}

// A member of my stage that has its whole state, in turn; the leader while nothing was applied yet.
static member_id donor(peer *p) {
    for (uint32_t tries = 0; tries < p->member_count; tries++) {
        const member *m = &p->members[p->donor++ % p->member_count];
        if (m->keeps != p->stage || m->contact == NO_CONTACT) continue;
        const contact *c = &p->contacts[m->contact];
        if (c->link == LINK_UP && c->beat.ready != 0 && member_answers(p, m->id)) return m->id;
    }
    uint32_t first = contact_find(p, &p->config.leader_id);
    if (p->iteration == p->run.start_version && !p->config.leader && first != NO_CONTACT) return p->contacts[first].member;
    return 0;
}

// A block that the results at hand, or under way, will bring forward need not be fetched again.
static bool block_missing(const peer *p, uint32_t b) {
    uint64_t version = p->block_version[b];
    if (version == p->iteration) return false;
    bool next = p->has_final && version == p->final.u.final.iteration && version + 1 == p->iteration;
    return !next || (p->aggregation.given_up && p->aggregation.results == version);
}

static bool segment_missing(const peer *p, uint32_t g) {
    for (uint32_t b = segment_first(g); b < segment_first(g) + segment_count(p, g); b++)
        if (block_missing(p, b)) return true;
    return false;
}

static bool is_put(const task *t, uint32_t first) { return t->work.kind == JOB_STATE_PUT && t->work.first == first; }

// The segment has come and is about to be stored.
static bool put_waits(const peer *p, uint32_t first) {
    if (p->running.work.id != 0 && is_put(&p->running, first)) return true;
    for (uint32_t i = 0; i < p->task_count; i++)
        if (is_put(&p->tasks[(p->task_first + i) % PEER_MAX_TASKS], first)) return true;
    return false;
}

static void fetch(peer *p) {
    uint32_t under_way = 0;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) under_way += p->pulls[i].used && p->pulls[i].what == GET_STATE;
    for (uint32_t g = 0; g < p->segments && under_way < STATE_PULLS; g++) {
        if (!segment_missing(p, g) || stage_pulls(p, segment_first(g)) || put_waits(p, segment_first(g))) continue;
        member_id from = donor(p);
        if (from == 0) {
            peer_wake_at(p, p->now + TIMING_REPEAT_NS / 10);
            return;
        }
        pull *q = pull_start(p, GET_STATE, p->stage, from, segment_first(g), segment_count(p, g), UINT64_MAX);
        if (q == NULL) return;
        pull_send(p, q);
        under_way++;
    }
}

static void initialise(peer *p) {
    p->initialised = true;
    bool fresh = !p->has_final && (p->run.start_version == 0 || p->config.leader);
    if (!fresh) return;
    task *t = task_add(p, JOB_STATE_INIT);
    BRAID_ASSERT(t != NULL);
    t->work.version = p->run.start_version;
    p->applying = true;  // nothing else touches the state before it is there
}

void transfer_tick(peer *p) {
    if (p->me == 0) return;
    if (!p->initialised) initialise(p);
    if (!p->ready && !p->applying) fetch(p);
    if (p->state_known && p->ready && (p->state_sent_ns == 0 || p->now >= p->state_sent_ns + 2 * TIMING_REPEAT_NS)) {
        p->state_sent_ns = p->now;
        message_state *state = &peer_compose(p, MESSAGE_STATE)->u.state;
        state->stage = p->stage;
        state->version = p->version;
        state->state_root = p->state_root;
        peer_send_leader(p);
    }
}

static void put_done(peer *p, const task *t, const job_result *r) {
    blob_id in = t->work.in;
    peer_release(p, &in);
    if (p->me == 0 || r->failed || t->work.stage != p->stage) return;
    uint32_t there = 0;
    for (uint32_t b = t->work.first; b < t->work.first + t->work.count; b++) p->block_version[b] = r->version;
    for (uint32_t b = 0; b < p->blocks; b++) there += p->block_version[b] != UINT64_MAX;
    tell say = {.kind = TELL_TRANSFER, .stage = p->stage, .done = there, .total = p->blocks, .iteration = p->iteration};
    peer_tell(p, &say);
    reduce_apply(p);
    transfer_check_ready(p);
}

void transfer_put_done(peer *p, const task *t, const job_result *r) {
    if (t->work.kind == JOB_STATE_PUT) {
        put_done(p, t, r);
        return;
    }
    p->applying = false;
    if (p->me == 0) return;
    for (uint32_t b = 0; b < p->blocks; b++) p->block_version[b] = r->version;
    reduce_apply(p);  // FINAL may have come meanwhile
    transfer_check_ready(p);
}

void transfer_check_ready(peer *p) {
    if (p->me == 0 || p->ready) return;
    for (uint32_t b = 0; b < p->blocks; b++)
        if (p->block_version[b] != p->iteration) return;
    p->ready = true;
    p->version = p->iteration;
    p->state_asked = p->state_known = false;
    can_take_update(p, false);
    // the others learn from the next heartbeat whom they may ask; let it come at once
    for (uint32_t i = 0; i < p->contact_high; i++) p->contacts[i].sent_ns = 0;
    contacts_touch(p);
    own_launch(p);
}

void on_data(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    if (!member_live(p, msg->sender) || blob == 0 || p->me == 0) {
        peer_release(p, &blob);
        return;
    }
    pull_timed(p, msg);
    if (get->what == GET_STATE && get->stage != p->stage) {
        save_data(p, msg, blob);
        return;
    }
    bool mine = get->stage == p->stage && get->count >= 1 && get->count <= PEER_SEGMENT_BLOCKS && get->first < p->blocks && get->count <= p->blocks - get->first;
    if (mine && get->what != GET_STATE) {
        reduce_data(p, msg, blob);
        return;
    }
    for (uint32_t i = 0; mine && i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (!q->used || q->what != GET_STATE || q->from != msg->sender || q->first != get->first || q->count != get->count) continue;
        q->used = false;
        // brought forward meanwhile, or a donor that is behind
        bool older = false;
        for (uint32_t b = get->first; b < get->first + get->count; b++) older |= p->block_version[b] != UINT64_MAX && p->block_version[b] >= get->version;
        task *t = p->ready || older || put_waits(p, get->first) ? NULL : task_add(p, JOB_STATE_PUT);
        if (t == NULL) break;
        t->work.first = get->first;
        t->work.count = get->count;
        t->work.in = blob;
        t->work.expected = msg->u.data.hash;
        return;
    }
    peer_release(p, &blob);
}
