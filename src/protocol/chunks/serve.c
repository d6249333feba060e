// The server of GET: parts of the sum, results, state and content hashes, with admission control
// and a rate limit.
#include "protocol/chunks/chunks.h"

// For smaller tensors the time to ACCEPT measures the delay of the link and not its rate.
enum { TELLING_BYTES = 256 << 10 };

static const uint64_t UNMEASURED_RATE = 1000 * 1000;  // bytes a second

// `wait_ns`: when it may be asked again; 0: it does not have the chunks.
static void refuse_get(peer *p, uint32_t to, const message_get *get, uint64_t wait_ns) {
    message_deny_get *deny = &peer_compose(p, MESSAGE_DENY_GET)->u.deny_get;
    uint64_t wait_ms = (wait_ns + TIMING_MS - 1) / TIMING_MS;
    deny->what = get->what;
    deny->stage = get->stage;
    deny->first = get->first;
    deny->reason = wait_ms > 0 ? GET_LATER : GET_MISSING;
    deny->wait_ms = wait_ms < UINT32_MAX ? (uint32_t)wait_ms : UINT32_MAX;
    peer_send(p, to, 0);
}

// The digest names the contribution set, so the part may be served before BEGIN arrives here:
// served jobs run before new weight gradients.
static bool serves_part(const peer *p, const message_get *get) {
    return get->stage == p->stage && get->version == p->state.iteration && (get->set_digest == message_set_digest(&p->microbatch->k) || peer_breaks(p, PEER_MUTANT_SAME_NAME)) && !inflight_weights_pending(p);
}

static bool serves_result(const peer *p, const message_get *get) {
    const chunk_aggregation *a = &p->chunks->aggregation;
    if (get->stage != p->stage || get->version != a->results || get->close_index != reduce_close(p)) return false;
    if (!p->run.reproducible && get->round != reduce_round(p)) return false;
    for (uint32_t b = get->first; b < get->first + get->count; b++)
        if (a->segment[b / PEER_SEGMENT_BLOCKS].state != SEGMENT_DONE) return false;
    return true;
}

// True if all requested blocks can be served. They must have one version; a checkpoint's reader
// names it.
static bool serves_state(const peer *p, const message_get *get) {
    if (get->stage != p->stage) return stored_is_start(p) && p->state.iteration == p->state.start_version;
    for (uint32_t b = get->first; b < get->first + get->count; b++)
        if (p->chunks->block_version[b] == UINT64_MAX || p->chunks->block_version[b] != p->chunks->block_version[get->first]) return false;
    return get->version == UINT64_MAX || p->chunks->block_version[get->first] == get->version;
}

// True if this peer has the content hashes. Before the first FINAL a holder of the start checkpoint
// serves every stage.
static bool serves_names(peer *p, const message_get *get) {
    if (get->stage != p->stage) return stored_is_start(p) && p->state.iteration == p->state.start_version && get->version == p->state.iteration;
    if (!p->ready || get->version != p->version) return false;
    p->chunks->root_wanted = !p->chunks->state_known;
    return p->chunks->state_known;
}

// Best observed rate in bytes a second; 0: nothing was sent yet.
static uint64_t line_rate(const peer *p) {
    uint64_t most = route_uplink_rate(p);
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        uint64_t accept_ns = p->cluster->contacts[i].used ? p->cluster->contacts[i].timing.accept_ns : 0;
        uint64_t rate = accept_ns == 0 ? 0 : p->run.activation_bytes * (TIMING_S / 1000) / (accept_ns / 1000 + 1);
        if (rate > most) most = rate;
    }
    return p->run.activation_bytes < TELLING_BYTES && most < UNMEASURED_RATE ? UNMEASURED_RATE : most;
}

// True if most of this stage's capacity waits for its state. Then state transfer has no rate limit
// (rule J8).
static bool stage_lacks_state(const peer *p) {
    uint64_t here = p->config.capacity, coming = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->stage != p->stage || m->contact == NO_CONTACT || !member_answers(p, m->id)) continue;
        if (p->cluster->contacts[m->contact].beat.ready != 0) here += m->capacity;
        else coming += m->capacity;
    }
    return coming > here;
}

// True if the iteration needs the link: for tensors, relayed ones included, or for an aggregation.
static bool link_is_needed(const peer *p) {
    if (p->state.has_close || p->now < p->microbatch->carried_until_ns) return true;
    EACH_INFLIGHT(p, m) {
        if (send_first_hop(&p->microbatch->inflight[m].on) != 0 || send_first_hop(&p->microbatch->inflight[m].back) != 0) return true;
        if (p->stage == 0 && send_first_hop(&p->microbatch->owned[m].back) != 0) return true;
    }
    return false;
}

// Rate limit of state transfer: a share of the link while the iteration needs it. A checkpoint's
// reader has no limit, because FINAL waits for it. Returns how long to wait; 0: the chunks may go,
// and are booked. The rate is read anew each time, because it may have been measured since.
static uint64_t upload_wait(peer *p, uint32_t from, const message_get *get) {
    const cluster_member *to = member_find(p, p->cluster->contacts[from].member);
    bool capped = p->config.upload_percent > 0 && p->config.upload_percent < 100 && p->state.started;
    if (!capped || to == NULL || to->keeps != p->stage || get->stage != p->stage || stage_lacks_state(p)) return 0;
    if (!link_is_needed(p)) return 0;
    uint64_t rate = line_rate(p) * p->config.upload_percent / 100;
    uint64_t gone_ns = p->chunks->upload.ns + (rate == 0 ? 0 : (uint64_t)((double)p->chunks->upload.bytes / (double)rate * (double)TIMING_S));
    if (p->now < gone_ns) return gone_ns - p->now;
    p->chunks->upload.ns = p->now;
    p->chunks->upload.bytes = p->run.state_bytes[p->stage] / p->chunks->blocks * get->count;
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

// Backpressure (rule J9): true if the contact sends GETs faster than its link takes the answers.
static bool exceeds_backlog(const peer *p, uint32_t from) {
    uint32_t asked = 0;
    for (uint32_t i = 0; i < p->core.task_count; i++) {
        const core_job *t = &p->core.tasks[(p->core.task_first + i) % PEER_MAX_TASKS];
        asked += t->contact == from && t->get.count > 0;
    }
    return asked > PEER_MOST_ASKED || p->core.waiting_bytes > (uint64_t)PEER_MOST_SERVED_MIB << 20;
}

void on_get(peer *p, uint32_t from, const message *msg) {
    const message_get *get = &msg->u.get;
    job_kind kind = serves(p, get);
    uint64_t wait_ns = exceeds_backlog(p, from) ? TIMING_REPEAT_NS : kind == JOB_STATE_GET ? upload_wait(p, from, get) : 0;
    // leave room for this peer's own jobs
    bool can = kind != JOB_NONE && wait_ns == 0 && p->core.task_count <= PEER_MAX_TASKS / 2;
    core_job *t = can ? jobs_add(p, kind) : NULL;
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
    if (get->what == GET_STATE) t->work.version = get->stage == p->stage ? p->chunks->block_version[get->first] : p->state.start_version;
}

void serve_done(peer *p, const core_job *t, const job_result *r) {
    blob_id out = r->out;
    if (r->failed || out == 0) {
        if (t->work.stage != p->stage) stored_unreadable(p);
        refuse_get(p, t->contact, &t->get, 0);
        peer_release(p, &out);
        return;
    }
    bool carried = multipath_send(p, t, out);
    message_data *data = &peer_compose(p, MESSAGE_DATA)->u.data;
    data->get = t->get;
    if (!carried) data->get.by = data->get.serial = 0;
    data->get.version = t->work.kind == JOB_STATE_GET ? r->version : t->work.version;  // the version may have changed meanwhile
    data->hash = r->hash64;
    peer_send(p, t->contact, carried ? 0 : out);
    peer_release(p, &out);
}
