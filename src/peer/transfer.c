// Moving blocks: GET and DATA, served and asked for (docs/protocol.md, Members and state). What a joiner asks for: fetch.c.
#include "peer/internal.h"

#include <string.h>

// Of a smaller tensor the time to its ACCEPT is the line's delay rather than its rate.
enum { TELLING_BYTES = 256 << 10 };
static const uint64_t UNMEASURED_RATE = 1000 * 1000;  // bytes a second

// ---- serving ------------------------------------------------------------------------------------------------------

// `wait_ns`: it may be asked again then; 0: it does not have it.
static void refuse_get(peer *p, uint32_t to, const message_get *get, uint64_t wait_ns) {
    message_deny *deny = &peer_compose(p, MESSAGE_DENY)->u.deny;
    deny->subject = (message_subject){.m = get->what, .stage = get->stage, .owner_term = get->first};
    deny->phase = PHASE_GET;
    deny->reason = wait_ns > 0 ? DENY_FULL : DENY_MISSING;
    deny->rev = (wait_ns + TIMING_MS - 1) / TIMING_MS;
    peer_send(p, to, 0);
}

// The digest names what is wanted, so it may be given before BEGIN has come here: jobs that were asked for run before W.
static bool serves_part(const peer *p, const message_get *get) {
    return get->stage == p->stage && get->version == p->iteration && (get->digest == set_digest(&p->k) || peer_breaks(p, PEER_MUTANT_SAME_NAME)) && !weights_pending(p);
}

static bool serves_result(const peer *p, const message_get *get) {
    const aggregation *a = &p->aggregation;
    if (get->stage != p->stage || get->version != a->results || get->digest != reduce_close(p)) return false;
    if (!p->run.reproducible && get->round != reduce_round(p)) return false;
    for (uint32_t b = get->first; b < get->first + get->count; b++)
        if (a->segment[b / PEER_SEGMENT_BLOCKS].state != SEGMENT_DONE) return false;
    return true;
}

// All blocks of the request at one version; the checkpoint's reader wants a certain one.
static bool serves_state(const peer *p, const message_get *get) {
    if (get->stage != p->stage) return rollback_holds(p) && p->iteration == p->run.start_version;
    for (uint32_t b = get->first; b < get->first + get->count; b++)
        if (p->block_version[b] == UINT64_MAX || p->block_version[b] != p->block_version[get->first]) return false;
    return get->version == UINT64_MAX || p->block_version[get->first] == get->version;
}

// At the start somebody has those of every stage, from the checkpoint that the run goes on from.
static bool serves_names(peer *p, const message_get *get) {
    if (get->stage != p->stage) return rollback_holds(p) && p->iteration == p->run.start_version && get->version == p->iteration;
    if (!p->ready || get->version != p->version) return false;
    p->root_wanted = !p->state_known;
    return p->state_known;
}

// Bytes a second, the best that was seen; 0: nothing was sent yet.
static uint64_t line_rate(const peer *p) {
    uint64_t most = route_line_rate(p);
    for (uint32_t i = 0; i < p->contact_high; i++) {
        uint64_t accept_ns = p->contacts[i].used ? p->contacts[i].timing.accept_ns : 0;
        uint64_t rate = accept_ns == 0 ? 0 : p->run.activation_bytes * (TIMING_S / 1000) / (accept_ns / 1000 + 1);
        if (rate > most) most = rate;
    }
    return p->run.activation_bytes < TELLING_BYTES && most < UNMEASURED_RATE ? UNMEASURED_RATE : most;
}

// Most of what my stage could do waits for its state: the sooner that is there, the better for all.
static bool stage_is_short(const peer *p) {
    uint64_t here = p->config.capacity, coming = 0;
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *m = &p->members[i];
        if (m->stage != p->stage || m->contact == NO_CONTACT || !member_answers(p, m->id)) continue;
        if (p->contacts[m->contact].beat.ready != 0) here += m->capacity;
        else coming += m->capacity;
    }
    return coming > here;
}

// For the iteration: by tensors, those that it carries for others among them, or by a reduction.
static bool line_is_wanted(const peer *p) {
    if (p->has_close || p->now < p->carried_until_ns) return true;
    EACH_HELD(p, m) {
        if (send_line(&p->held[m].on) != 0 || send_line(&p->held[m].back) != 0) return true;
        if (p->stage == 0 && send_line(&p->owned[m].back) != 0) return true;
    }
    return false;
}

// Those who fetch get a share of the line while the iteration wants it, so that it is not held up by them. A checkpoint's reader
// gets all of it: FINAL waits for him. Returns how long to wait; 0: the bytes may go, and are booked where there is a share.
// How long the last ones take is asked anew each time: a line that was silent when they went may carry again.
static uint64_t upload_wait(peer *p, uint32_t from, const message_get *get) {
    const member *to = member_find(p, p->contacts[from].member);
    bool capped = p->config.upload_percent > 0 && p->config.upload_percent < 100 && p->run_started;
    if (!capped || to == NULL || to->keeps != p->stage || get->stage != p->stage || stage_is_short(p)) return 0;
    if (!line_is_wanted(p)) return 0;
    uint64_t rate = line_rate(p) * p->config.upload_percent / 100;
    uint64_t gone_ns = p->upload.ns + (rate == 0 ? 0 : (uint64_t)((double)p->upload.bytes / (double)rate * (double)TIMING_S));
    if (p->now < gone_ns) return gone_ns - p->now;
    p->upload.ns = p->now;
    p->upload.bytes = p->run.state_bytes[p->stage] / p->blocks * get->count;
    return 0;
}

static job_kind serves(peer *p, const message_get *get) {
    uint32_t blocks = get->stage < p->run.stages ? p->run.blocks[get->stage] : 0;
    if (p->me == 0 || blocks == 0) return JOB_NONE;
    if (get->what == GET_NAMES) return get->first == 0 && get->count == blocks && serves_names(p, get) ? JOB_NAMES_GET : JOB_NONE;
    bool in_range = get->count >= 1 && get->count <= PEER_SEGMENT_BLOCKS && get->first < blocks && get->count <= blocks - get->first;
    if (!in_range) return JOB_NONE;
    if (get->what == GET_PART && serves_part(p, get)) return JOB_PACK;
    if (get->what == GET_RESULT && serves_result(p, get)) return JOB_RESULT_GET;
    return get->what == GET_STATE && serves_state(p, get) ? JOB_STATE_GET : JOB_NONE;
}

// Its line is slower than it asks, or it does not read.
static bool is_clogged(const peer *p, uint32_t from) {
    uint32_t asked = 0;
    for (uint32_t i = 0; i < p->task_count; i++) {
        const task *t = &p->tasks[(p->task_first + i) % PEER_MAX_TASKS];
        asked += t->contact == from && t->get.count > 0;
    }
    return asked > PEER_MOST_ASKED || p->waiting_bytes > (uint64_t)PEER_MOST_SERVED_MIB << 20;
}

void on_get(peer *p, uint32_t from, const message *msg) {
    const message_get *get = &msg->u.get;
    job_kind kind = serves(p, get);
    uint64_t wait_ns = is_clogged(p, from) ? TIMING_REPEAT_NS : kind == JOB_STATE_GET ? upload_wait(p, from, get) : 0;
    // leave room for my own
    bool can = kind != JOB_NONE && wait_ns == 0 && p->task_count <= PEER_MAX_TASKS / 2;
    task *t = can ? task_add(p, kind) : NULL;
    if (t == NULL) {
        refuse_get(p, from, get, wait_ns);
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
        (t->work.kind == JOB_NAMES_GET ? fetch_own_names : save_job_done)(p, t, r);
        return;
    }
    if (r->failed || out == 0) {
        if (t->work.stage != p->stage) rollback_unreadable(p);
        refuse_get(p, t->contact, &t->get, 0);
        peer_release(p, &out);
        return;
    }
    bool carried = bypass_send(p, t, out);
    message_data *data = &peer_compose(p, MESSAGE_DATA)->u.data;
    data->get = t->get;
    if (!carried) data->get.by = data->get.serial = 0;
    data->get.version = t->work.kind == JOB_STATE_GET ? r->version : t->work.version;  // it may have moved on meanwhile
    data->hash = r->hash64;
    peer_send(p, t->contact, carried ? 0 : out);
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

bool pull_overlaps(const pull *q, uint8_t what, uint16_t stage, uint32_t first, uint32_t count) {
    return q->used && q->what == what && q->stage == stage && first < q->first + q->count && q->first < first + count;
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
    get->by = q->by;
    get->serial = q->serial;
    const member *m = member_find(p, q->from);
    const timing_link none = {0};
    q->asked_ns = p->now;
    q->deadline_ns = p->now + timing_get_limit(m == NULL || m->contact == NO_CONTACT ? &none : &p->contacts[m->contact].timing);
    if (q->by != 0) q->deadline_ns = p->now + q->patience_ns;
    if (!peer_send_member(p, q->from, 0)) q->deadline_ns = p->now + TIMING_REPEAT_NS / 10;
    peer_wake_at(p, q->deadline_ns);
}

void pulls_drop(peer *p, uint8_t what) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++)
        if (p->pulls[i].what == what) pull_end(p, &p->pulls[i]);
}

void pull_end(peer *p, pull *q) {
    peer_release(p, &q->piece);
    q->used = false;
}

static bool waits_for_the_dead(const peer *p, const pull *q) { return peer_breaks(p, PEER_MUTANT_WAITS_FOR_THE_DEAD) && q->what == GET_STATE; }

// What a link had not delivered when it fell is lost: nothing is waited for, and nobody was slow.
void pulls_link_lost(peer *p, member_id from) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (q->used && q->by != 0) bypass_link_lost(p, q, from);
        if (!q->used || q->by != 0 || q->from != from || waits_for_the_dead(p, q)) continue;
        q->asked_ns = q->deadline_ns = p->now;
        peer_wake_at(p, p->now);
    }
}

// Who answers heartbeats and not a GET has a slow line.
static void pull_overdue(peer *p, const pull *q) {
    const member *m = member_find(p, q->from);
    if (m != NULL && m->contact != NO_CONTACT && member_answers(p, q->from))
        timing_get_overdue(&p->contacts[m->contact].timing, p->now - q->asked_ns);
    fetch_overdue(p, q);
}

static void pull_timed(peer *p, const message *msg) {
    const message_get *get = &msg->u.data.get;
    const member *m = member_find(p, msg->sender);
    for (uint32_t i = 0; i < PEER_MAX_PULLS && m != NULL && m->contact != NO_CONTACT; i++) {
        const pull *q = &p->pulls[i];
        bool mine = q->used && q->by == 0 && q->what == get->what && q->from == msg->sender && q->stage == get->stage && q->first == get->first;
        if (!mine) continue;
        timing_got(&p->contacts[m->contact].timing, p->now - q->asked_ns);
        shadow_pulled(p, p->now - q->asked_ns);
    }
}

void pulls_tick(peer *p) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (!q->used || waits_for_the_dead(p, q)) continue;
        if (q->by != 0 && !bypass_goes_on(p, q)) continue;
        if (q->deadline_ns <= p->now) pull_overdue(p, q);
        if (q->deadline_ns <= p->now || !member_answers(p, q->from)) {
            reduce_denied(p, q);
            peer_wake_at(p, p->now);  // another member can be asked
        } else {
            peer_wake_at(p, q->deadline_ns);
        }
    }
}

static void initialise(peer *p) {
    p->initialised = true;
    bool fresh = !p->has_final && (p->run.start_version == 0 || rollback_holds(p));
    if (!fresh) return;
    task *t = task_add(p, JOB_STATE_INIT);
    BRAID_ASSERT(t != NULL);
    t->work.version = p->run.start_version;
    p->applying = true;  // nothing else touches the state before it is there
}

void transfer_tick(peer *p) {
    if (p->me == 0) return;
    if (!p->initialised) initialise(p);
    if (!p->ready && !p->applying) fetch_tick(p);
    if (p->state_known && p->ready && (p->state_sent_ns == 0 || p->now >= p->state_sent_ns + 2 * TIMING_REPEAT_NS)) {
        p->state_sent_ns = p->now;
        message_state *state = &peer_compose(p, MESSAGE_STATE)->u.state;
        state->stage = p->stage;
        state->version = p->version;
        state->state_root = p->state_root;
        peer_send_leader(p);
    }
}

static void begin_at(peer *p, uint64_t version) {
    for (uint32_t b = 0; b < p->blocks; b++) p->block_version[b] = version;
    reduce_blocks_changed(p);
    p->state_lies = 1u + p->stage;
    reduce_apply(p);  // FINAL may have come meanwhile
    transfer_check_ready(p);
}

void transfer_init_done(peer *p, const job_result *r) {
    braid_hash root;
    p->applying = false;
    if (p->me == 0) return;
    if (r->failed) {  // others may have it
        rollback_unreadable(p);
        return;
    }
    if (!rollback_compares(p, r->version, &root)) {
        begin_at(p, r->version);
        return;
    }
    task *compare = task_add(p, JOB_STATE_ROOT);
    BRAID_ASSERT(compare != NULL);
    compare->work.version = r->version;
    compare->of_start = true;
    p->applying = true;
}

// What the log says was saved is what lies here, or it is of no use.
void transfer_start_compared(peer *p, uint64_t version, const braid_hash *root) {
    braid_hash said;
    p->applying = false;
    if (p->me == 0) return;
    if (rollback_compares(p, version, &said) && hash_equal(&said, root)) {
        begin_at(p, version);
        return;
    }
    tell t = {.kind = TELL_SPOILT, .iteration = version, .stage = p->stage};
    peer_tell(p, &t);
    rollback_unreadable(p);
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
        if (blob == 0 && p->me != 0) bypass_announced(p, msg);
        peer_release(p, &blob);
        return;
    }
    pull_timed(p, msg);
    bool state = get->what == GET_STATE || get->what == GET_NAMES;
    if (state && get->stage != p->stage) {
        save_data(p, msg, blob);
        return;
    }
    bool mine = get->stage == p->stage && get->first < p->blocks && get->count >= 1 && get->count <= p->blocks - get->first;
    if (mine && state) fetch_data(p, msg, blob);
    else if (mine && get->count <= PEER_SEGMENT_BLOCKS) reduce_data(p, msg, blob);
    else peer_release(p, &blob);
}
