// The step: events in, effects out.
#include "peer/internal.h"

#include <string.h>

enum { PEER_MOST_PASSES = 8 };  // in one step; what is not settled then continues a millisecond later

static size_t aligned(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

// Hands out pieces of the peer's one block of memory; with base == NULL it only counts.
typedef struct carver {
    uint8_t *base;
    size_t used;
} carver;

static void *carve(carver *c, size_t count, size_t size) {
    void *piece = c->base == NULL ? NULL : c->base + c->used;
    c->used += aligned(count * size);
    return piece;
}

static void carve_leader(carver *c, const peer_run *run, peer *p, uint32_t microbatches) {
    settled *all = carve(c, microbatches, sizeof(settled));
    stage_round *rounds = carve(c, run->stages, sizeof(stage_round));
    if (p != NULL) {
        p->leader.settled = all;
        p->leader.round = rounds;
    }
    for (uint16_t s = 0; s < run->stages; s++) {
        double *norm2 = carve(c, run->tensors[s], sizeof(double));
        if (p != NULL) rounds[s].norm2 = norm2;
    }
}

static void carve_owner(carver *c, const peer_run *run, peer *p, uint32_t microbatches) {
    owned *all = carve(c, microbatches, sizeof(owned));
    owned_stage *stages = carve(c, (size_t)microbatches * run->stages, sizeof(owned_stage));
    member_id *answers = carve(c, WIRE_MAX_MEMBERS, sizeof(member_id));
    if (p == NULL) return;
    p->takeover.answer = answers;
    p->owned = all;
    for (uint32_t m = 0; m < microbatches; m++) all[m].stage = stages + (size_t)m * run->stages;
}

static size_t carve_all(uint8_t *memory, const peer_run *run, const peer_config *config) {
    carver c = {memory, 0};
    uint32_t microbatches = run->microbatches + run->eval_microbatches, blocks = 1;
    for (uint16_t s = 0; s < run->stages; s++)
        if (run->blocks[s] > blocks) blocks = run->blocks[s];
    peer *p = carve(&c, 1, sizeof(peer));
    effect *effects = carve(&c, PEER_MAX_EFFECTS, sizeof(effect));
    uint8_t *outbox = carve(&c, PEER_OUTBOX_BYTES, 1);
    contact *contacts = carve(&c, PEER_MAX_CONTACTS, sizeof(contact));
    member *members = carve(&c, WIRE_MAX_MEMBERS, sizeof(member));
    uint64_t *versions = carve(&c, blocks, sizeof(uint64_t));
    segment *segments = carve(&c, blocks / PEER_SEGMENT_BLOCKS + 1, sizeof(segment));
    void *parts = carve(&c, blocks / PEER_SEGMENT_BLOCKS + 1, WIRE_MAX_STAGE_MEMBERS * sizeof(blob_id));
    held *all = carve(&c, microbatches, sizeof(held));
    uint8_t *slots = carve(&c, config->capacity, 1);
    task *tasks = carve(&c, PEER_MAX_TASKS, sizeof(task));
    log_ring *ring = carve(&c, 1, sizeof(log_ring));
    void *router_memory = carve(&c, 1, route_bytes(run, config));
    size_t view_bytes = route_view_bytes(run, config);
    void *view_memory = carve(&c, 1, view_bytes);
    size_t plan_bytes = route_plan_bytes(run, config);
    void *plan_memory = carve(&c, 1, plan_bytes);
    size_t lines_bytes = route_lines_bytes(run);
    void *lines_memory = carve(&c, 1, lines_bytes);
    route_known *known = carve(&c, view_bytes > 0 ? ROUTE_MAX_KNOWN : 0, sizeof(route_known));
    if (p != NULL) {
        p->effects = effects;
        p->outbox = outbox;
        p->contacts = contacts;
        p->members = members;
        p->block_version = versions;
        p->aggregation.segment = segments;
        p->aggregation.part = parts;
        p->held = all;
        p->slot_taken = slots;
        p->tasks = tasks;
        p->routing.memory = router_memory;
        p->ring = ring;
        p->routing.view_memory = view_memory;
        p->routing.plan = plan_bytes > 0 ? plan_memory : NULL;
        p->routing.lines = lines_bytes > 0 ? lines_memory : NULL;
        p->routing.known = known;
    }
    if (config->kind == MEMBER_DATA) carve_owner(&c, run, p, microbatches);
    carve_leader(&c, run, p, microbatches);
    return c.used;
}

size_t peer_bytes(const peer_run *run, const peer_config *config) { return carve_all(NULL, run, config); }

peer *peer_init(void *memory, const peer_run *run, const peer_config *config, uint64_t now_ns) {
    BRAID_ASSERT(run->stages >= 1 && run->stages <= WIRE_MAX_STAGES);
    BRAID_ASSERT(run->microbatches + run->eval_microbatches <= WIRE_MAX_MICROBATCHES);
    BRAID_ASSERT(run->slots >= 1 && run->slots <= WIRE_MAX_SLOTS && run->shares <= run->slots && config->capacity >= 1);
    carve_all(memory, run, config);
    peer *p = memory;
    p->run = *run;
    p->config = *config;
    p->now = now_ns;
    p->random.state = config->random_seed;
    p->microbatches = run->microbatches + run->eval_microbatches;
    p->iteration = run->start_version;
    p->iteration_ns = now_ns;
    reduce_blocks_changed(p);
    rollback_open(p);
    p->lead.heard = true;
    p->lead.term = 1;
    p->lead.id = config->leader_id;
    contacts_add_named(p);
    log_open(p);
    p->deadline = now_ns;
    return p;
}

bool peer_is_leader(const peer *p) { return p->leader.active; }

bool peer_breaks(const peer *p, peer_mutant rule) { return (p->config.mutants >> rule & 1) != 0; }

// ---- effects ------------------------------------------------------------------------------------------------------

effect *peer_effect(peer *p, effect_kind kind) {
    if (p->effect_count == PEER_MAX_EFFECTS) return NULL;
    effect *e = &p->effects[p->effect_count++];
    memset(e, 0, sizeof *e);
    e->kind = kind;
    return e;
}

// Sends are the only effects that may be lost, so they leave room for the others.
static effect *send_effect(peer *p) {
    if (p->effect_count >= PEER_MAX_EFFECTS / 2) return NULL;
    return peer_effect(p, EFFECT_SEND);
}

void peer_release(peer *p, blob_id *blob) {
    if (*blob == 0) return;
    effect *e = peer_effect(p, EFFECT_RELEASE);
    BRAID_ASSERT(e != NULL && p->blobs_held > 0);
    e->blob = *blob;
    *blob = 0;
    p->blobs_held--;
}

void peer_tell(peer *p, const tell *what) {
    effect *e = peer_effect(p, EFFECT_TELL);
    if (e != NULL) e->tell = *what;
}

void peer_wake_at(peer *p, uint64_t when_ns) {
    if (when_ns < p->deadline) p->deadline = when_ns;
}

message *peer_compose(peer *p, message_kind kind) {
    memset(&p->scratch, 0, offsetof(message, u) + message_body_bytes((uint8_t)kind));
    p->scratch.kind = (uint8_t)kind;
    return &p->scratch;
}

// Encodes p->scratch into the outbox; 0: no room left in this step.
static size_t encode(peer *p, const uint8_t **bytes) {
    p->scratch.iteration = p->iteration;
    p->scratch.sender = p->me;
    p->scratch.log_position = p->log_position;
    size_t room = PEER_OUTBOX_BYTES - p->outbox_bytes;
    size_t count = message_encode(&p->scratch, p->outbox + p->outbox_bytes, room);
    *bytes = p->outbox + p->outbox_bytes;
    p->outbox_bytes += count;
    BRAID_ASSERT(count != 0 || room < WIRE_MAX_CONTROL_BYTES);
    if (count == 0) p->dropped_sends++;
    return count;
}

static bool send_local(peer *p, blob_id blob) {
    BRAID_ASSERT(blob == 0);  // tensors to oneself are handed over directly
    const uint8_t *bytes;
    uint32_t room = sizeof p->local / sizeof p->local[0];
    if (p->local_count == room) return false;
    size_t count = encode(p, &bytes);
    if (count == 0) return false;
    local_message *l = &p->local[(p->local_first + p->local_count++) % room];
    l->offset = (size_t)(bytes - p->outbox);
    l->bytes = count;
    return true;
}

static bool send_part(peer *p, uint32_t contact_index, blob_id blob, uint64_t offset, uint64_t part) {
    if (contact_index == NO_CONTACT) return send_local(p, blob);
    contact *c = &p->contacts[contact_index];
    if (c->link != LINK_UP) return false;
    const uint8_t *bytes;
    size_t count = encode(p, &bytes);
    effect *e = count == 0 ? NULL : send_effect(p);
    if (e == NULL) return false;
    e->id = c->id;
    e->bytes = bytes;
    e->byte_count = count;
    e->message_kind = p->scratch.kind;
    e->blob = blob;
    e->blob_offset = offset;
    e->blob_bytes = part;
    c->sent_ns = p->now;
    contact_touch(p, contact_index);
    return true;
}

bool peer_send(peer *p, uint32_t contact_index, blob_id blob) { return send_part(p, contact_index, blob, 0, 0); }

bool peer_send_part(peer *p, member_id to, blob_id blob, uint64_t offset, uint64_t bytes) {
    const member *m = member_find(p, to);
    return m != NULL && send_part(p, m->contact, blob, offset, bytes);
}

bool peer_send_member(peer *p, member_id to, blob_id blob) {
    const member *m = member_find(p, to);
    return m != NULL && peer_send(p, m->contact, blob);
}

bool peer_send_leader(peer *p) {
    if (peer_is_leader(p)) return send_local(p, 0);
    uint32_t index = contact_find(p, &p->lead.id);
    return index != NO_CONTACT && peer_send(p, index, 0);
}

// ---- dispatch -----------------------------------------------------------------------------------------------------

// Words about one microbatch of one iteration: of another iteration they mean nothing any more.
static bool speaks_of_microbatch(uint8_t kind) {
    switch (kind) {
    case MESSAGE_ACCEPT: case MESSAGE_COMPLETE: case MESSAGE_DENY: case MESSAGE_TRACE: case MESSAGE_CANCEL:
    case MESSAGE_PROBE: case MESSAGE_STATUS: case MESSAGE_RESUME: case MESSAGE_COMMIT: case MESSAGE_COUNTED:
    case MESSAGE_SETTLED:
        return true;
    default:
        return false;
    }
}

static const message_subject *subject_of(const message *msg) {
    // every such body begins with its subject, but for SUSPECT's
    return &msg->u.cancel.subject;
}

// Orders that only the owner of a microbatch gives.
static bool is_order(uint8_t kind) {
    return kind == MESSAGE_CANCEL || kind == MESSAGE_PROBE || kind == MESSAGE_RESUME || kind == MESSAGE_COMMIT;
}

static bool obeys_anybody(const peer *p, uint8_t kind) { return kind == MESSAGE_COMMIT && peer_breaks(p, PEER_MUTANT_OBEYS_OLDER_OWNER); }

static void dispatch_microbatch(peer *p, const message *msg) {
    // DENY of a block that was asked for has no microbatch
    bool about_get = msg->kind == MESSAGE_DENY && msg->u.deny.phase == PHASE_GET;
    if (!about_get && subject_of(msg)->m >= p->microbatches) return;
    if (!about_get && msg->iteration != p->iteration) return;
    if (is_order(msg->kind) && p->owner[subject_of(msg)->m % p->run.slots] != msg->sender && !obeys_anybody(p, msg->kind)) return;
    switch (msg->kind) {
    case MESSAGE_ACCEPT: on_accept(p, msg); break;
    case MESSAGE_COMPLETE: on_complete(p, msg); break;
    case MESSAGE_DENY: on_deny(p, msg); break;
    case MESSAGE_TRACE: on_trace(p, msg); break;
    case MESSAGE_CANCEL: on_cancel(p, msg); break;
    case MESSAGE_PROBE: on_probe(p, msg); break;
    case MESSAGE_STATUS: on_status(p, msg); break;
    case MESSAGE_RESUME: on_resume(p, msg); break;
    case MESSAGE_COMMIT: on_commit(p, msg); break;
    case MESSAGE_COUNTED: on_counted(p, msg); break;
    default: on_settled(p, msg); break;
    }
}

// The messages that only a live member may send, so that nobody acts on the word of an expelled one.
static bool needs_member(uint8_t kind) {
    return kind != MESSAGE_JOIN && kind != MESSAGE_LOG && kind != MESSAGE_GET_LOG && kind != MESSAGE_LEAVE &&
           kind != MESSAGE_HEARTBEAT && kind < MESSAGE_VOTE;
}

static bool sender_speaks_for_itself(const peer *p, uint32_t from, const message *msg) {
    const member *m = member_find(p, msg->sender);
    return m != NULL && m->contact == from;
}

// Who leads and has taken its leave, or waits to be let in again, is no member, and says how to end the iteration all the same.
static bool sender_speaks_as_leader(const peer *p, uint32_t from, const message *msg) {
    bool leads = msg->kind == MESSAGE_BEGIN_AGGREGATION || msg->kind == MESSAGE_STATE;
    return leads && msg->sender == 0 && from != NO_CONTACT && id_equal(&p->contacts[from].id, &p->lead.id);
}

// A carrier that has not read of its own membership gives back what it does not know.
static bool sender_gives_back(const peer *p, uint32_t from, const message *msg) {
    return msg->kind == MESSAGE_UNCARRIED && msg->sender == 0 && from != NO_CONTACT && p->contacts[from].member != 0;
}

static bool may_speak(const peer *p, uint32_t from, const message *msg) {
    return !needs_member(msg->kind) || sender_speaks_for_itself(p, from, msg) || sender_speaks_as_leader(p, from, msg) || sender_gives_back(p, from, msg) || obeys_anybody(p, msg->kind);
}

// Not those of an election, which name the receiver's store: a voter whose log lags must hear who else votes now.
static bool leads_others(uint8_t kind) { return kind == MESSAGE_LOG || kind == MESSAGE_LEADER; }

// Words about who is there, which no reduction waits for.
static bool is_trifle(uint8_t kind) {
    return kind == MESSAGE_HEARTBEAT || kind == MESSAGE_ROUTE || kind == MESSAGE_VIEW || (kind >= MESSAGE_LINES && kind <= MESSAGE_UNCARRIED);
}

static void dispatch(peer *p, uint32_t from, const message *msg, blob_id blob, uint64_t bytes) {
    if (!is_trifle(msg->kind)) reduce_stir(p);
    if (blob != 0) p->blobs_held++;
    if (rollback_outdates(p, msg)) {
        peer_release(p, &blob);
        return;
    }
    if (!may_speak(p, from, msg)) {
        peer_release(p, &blob);
        return;
    }
    if (leads_others(msg->kind) && !lead_may_come_from(p, from)) {
        peer_release(p, &blob);
        lead_strange(p);
        return;
    }
    if (speaks_of_microbatch(msg->kind)) {
        peer_release(p, &blob);
        dispatch_microbatch(p, msg);
        return;
    }
    switch (msg->kind) {
    case MESSAGE_FORWARD: on_forward(p, msg, blob, bytes); return;
    case MESSAGE_BACKWARD: on_backward(p, msg, blob, bytes); return;
    case MESSAGE_DATA: on_data(p, msg, blob); return;
    case MESSAGE_CARRY: on_carry(p, msg, blob, bytes); return;
    default: break;
    }
    peer_release(p, &blob);
    switch (msg->kind) {
    case MESSAGE_SUSPECT: on_suspect(p, msg); break;
    case MESSAGE_BEGIN_AGGREGATION: on_begin(p, msg); break;
    case MESSAGE_MISMATCH: on_mismatch(p, msg); break;
    case MESSAGE_RESULT: on_result(p, msg); break;
    case MESSAGE_REDUCED: on_reduced(p, msg); break;
    case MESSAGE_STATE: on_state(p, from, msg); break;
    case MESSAGE_GET: on_get(p, from, msg); break;
    case MESSAGE_HEARTBEAT: on_heartbeat(p, from, msg); break;
    case MESSAGE_CAN_TAKE: on_can_take(p, msg); break;
    case MESSAGE_ROUTE: on_route(p, msg); break;
    case MESSAGE_VIEW: on_view(p, msg); break;
    case MESSAGE_LINES: on_lines(p, msg); break;
    case MESSAGE_SOUND: on_sound(p, msg); break;
    case MESSAGE_SOUNDED: on_sounded(p, msg); break;
    case MESSAGE_UNCARRIED: on_uncarried(p, from, msg); break;
    case MESSAGE_SURVEY: on_survey(p, msg); break;
    case MESSAGE_HOLDINGS: on_holdings(p, msg); break;
    case MESSAGE_GET_LOG: on_get_log(p, from, msg); break;
    case MESSAGE_LOG: on_log(p, from, msg); break;  // it holds, whichever of them says it
    case MESSAGE_JOIN: on_join(p, from, msg); break;
    case MESSAGE_LEAVE: on_leave(p, from, msg); break;
    case MESSAGE_LEADER: on_leader(p, from, msg); break;
    case MESSAGE_VOTE: case MESSAGE_VOTED: case MESSAGE_APPEND: case MESSAGE_APPENDED: case MESSAGE_HAND_OVER:
        log_vote_message(p, from, msg);
        break;
    default: break;
    }
}

static void deliver_remote(peer *p, const event *e) {
    uint32_t from = contact_find(p, &e->id);
    blob_id blob = e->blob;
    if (from == NO_CONTACT || p->contacts[from].link != LINK_UP) {
        if (blob != 0) p->blobs_held++;
        peer_release(p, &blob);
        return;
    }
    contact *c = &p->contacts[from];
    uint64_t sure_ns = timing_sure_until(&c->timing);
    timing_heard(&c->timing, p->now);
    if (timing_sure_until(&c->timing) < sure_ns) reduce_stir(p);
    c->log_position = e->msg->log_position;
    c->log_known = true;
    c->itself |= c->member != 0 && e->msg->sender == c->member;
    dispatch(p, from, e->msg, blob, e->blob_bytes);
}

// False: there was no message.
static bool deliver_local(peer *p) {
    bool any = p->local_count > 0;
    uint32_t room = sizeof p->local / sizeof p->local[0];
    while (p->local_count > 0) {
        local_message l = p->local[p->local_first];
        p->local_first = (p->local_first + 1) % room;
        p->local_count--;
        bool good = message_decode(p->outbox + l.offset, l.bytes, &p->received);
        BRAID_ASSERT(good);
        dispatch(p, NO_CONTACT, &p->received, 0, 0);
    }
    return any;
}

// The whole run: by who leads, when its host says so, or when it began the run.
static void drain(peer *p, const event *e) {
    bool whole = e->whole;
    // whose vote is the only one will lead, or nobody ever does: what its user says now holds then
    bool will_lead = p->config.leader && p->config.voters <= 1 && p->raft.voters.count == 1 && raft_votes(&p->raft);
    if ((peer_is_leader(p) || will_lead) && (whole || p->config.leader)) {
        if (p->leader.drain_ns == 0) p->leader.drain_ns = p->now;
        p->leader.drop |= e->drop;
        p->leader.unlogged |= e->unlogged;
        // later results count nowhere, and the state must be read
        p->disabled |= e->drop;
        return;
    }
    if (whole) return;
    leave_when_free(p);
}

static void handle(peer *p, const event *e) {
    if (e->kind != EVENT_TICK && e->kind != EVENT_MESSAGE) reduce_stir(p);
    switch (e->kind) {
    case EVENT_LINK_UP: contact_up(p, &e->id); break;
    case EVENT_LINK_DOWN: contact_down(p, &e->id, e->refused); break;
    case EVENT_MESSAGE: deliver_remote(p, e); break;
    case EVENT_JOB_DONE: work_done(p, e->result); break;
    case EVENT_STORED: log_stored(p, e->entry); break;
    case EVENT_DRAIN: drain(p, e); break;
    case EVENT_SAVE: p->leader.save_wanted = peer_is_leader(p) && p->run.save; break;
    default: break;
    }
}

// A step that comes much later than it was due says that I stood still, not that the others fell silent, nor that they did not come.
static void wake(peer *p, uint64_t late_ns) {
    contacts_forgive(p, late_ns);
    rollback_forgive(p, late_ns);
    private_forgive(p, late_ns);
    raft_forgive(&p->raft, p->now, late_ns);
    p->woke_ns = p->now;
    log_progress(p);
}

// One pass over everything that the peer may decide. True: a later part gave an earlier one an input (a message to itself), or
// asked to continue at once (peer_wake_at with a time that is not in the future).
static bool decide_all(peer *p) {
    contacts_tick(p);
    lead_tick(p);
    log_progress(p);
    join_tick(p);
    log_tick(p);
    leader_tick(p);
    route_tick(p);
    rollback_tick(p);
    transfer_tick(p);
    reduce_tick(p);
    takeover_tick(p);
    private_tick(p);
    parcels_tick(p);
    own_tick(p);
    hold_tick(p);
    sends_tick(p);
    pulls_tick(p);
    bool again = deliver_local(p);
    work_next(p);
    again |= deliver_local(p);
    return again || p->deadline <= p->now;
}

// Each decision is taken in the step in which its last input arrives. With a single pass it would wait for the next event or
// timer, up to TIMING_HEARTBEAT_NS later, when that input comes from a later part of the same pass.
static void decide_until_settled(peer *p) {
    for (uint32_t pass = 0; pass < PEER_MOST_PASSES; pass++) {
        if (!decide_all(p) || p->over) return;
        if (p->deadline <= p->now) p->deadline = p->now + TIMING_HEARTBEAT_NS;
    }
    p->deadline = p->now;
}

void peer_step(peer *p, uint64_t now_ns, const event *e) {
    BRAID_ASSERT(p->effect_next == p->effect_count);
    uint64_t late_ns = now_ns > p->deadline ? now_ns - p->deadline : 0;
    if (now_ns > p->now) p->now = now_ns;
    p->effect_count = p->effect_next = 0;
    p->outbox_bytes = 0;
    p->step_appends = 0;
    p->waiting_bytes = e->waiting_bytes;
    p->deadline = p->now + TIMING_HEARTBEAT_NS;
    if (late_ns > TIMING_ASLEEP_NS) wake(p, late_ns);
    handle(p, e);
    log_progress(p);
    deliver_local(p);
    if (!p->over) decide_until_settled(p);
    if (p->deadline <= p->now) p->deadline = p->now + TIMING_MS;
}

bool peer_next_effect(peer *p, effect *out) {
    if (p->effect_next == p->effect_count) return false;
    *out = p->effects[p->effect_next++];
    return true;
}

uint64_t peer_deadline(const peer *p) { return p->deadline; }

// ---- views --------------------------------------------------------------------------------------------------------

void peer_look(const peer *p, peer_view *view) {
    memset(view, 0, sizeof *view);
    view->member = p->me;
    view->stage = p->stage;
    view->shadow = p->shadow;
    view->whole = reduce_reaches(p, &view->reaches);
    view->left = p->me == 0 ? reduce_left(p) : 0;
    view->stands_again = p->stands_again;
    view->ready = p->ready;
    view->version = p->version;
    view->iteration = p->iteration;
    view->generation = p->past.run.generation;
    view->slots_used = p->slots_used;
    view->capacity = p->config.capacity;
    view->counted = p->counted;
    view->k = p->k;
    view->log_position = p->log_position;
    view->leads = p->leader.active;
    view->term = p->lead.term;
    view->voters = raft_votes(&p->raft) ? p->raft.voters.count : 0;
    view->blobs_held = p->blobs_held;
    view->useful_ns = p->useful_ns;
    view->wasted_ns = p->wasted_ns;
    view->wasted = p->wasted;
    view->carried = p->carried;
    view->carried_bytes = p->carried_bytes;
    route_look(p, view);
}

bool peer_knows_member(const peer *p, const braid_id *id) {
    uint32_t index = contact_find(p, id);
    return index != NO_CONTACT && p->contacts[index].member != 0;
}

const log_voters *peer_voters(const peer *p) { return &p->raft.voters; }

uint32_t peer_members(const peer *p, uint16_t stage, member_id *out, uint32_t capacity) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->member_count; i++) {
        if (p->members[i].stage != stage) continue;
        if (count < capacity) out[count] = p->members[i].id;
        count++;
    }
    return count;
}

const char *tell_name(tell_kind kind) {
    static const char *const names[TELL_KINDS] = {
        [TELL_JOINED] = "joined", [TELL_MEMBER] = "member", [TELL_EXPELLED] = "expelled", [TELL_STARTED] = "started", [TELL_ITERATION] = "iteration",
        [TELL_EVAL] = "eval", [TELL_REPAIR] = "repair", [TELL_SUSPECT] = "suspect", [TELL_TAKEOVER] = "takeover", [TELL_TRANSFER] = "transfer",
        [TELL_FLOWS] = "flows", [TELL_CHECKPOINT] = "checkpoint", [TELL_END] = "end", [TELL_DIVERGED] = "diverged", [TELL_REFUSED] = "refused", [TELL_LEADER] = "leader",
        [TELL_AWAITED] = "awaited", [TELL_BACK] = "back", [TELL_PROMOTED] = "promoted", [TELL_LIED] = "lied", [TELL_SPOILT] = "spoilt",
        [TELL_ROLLED_BACK] = "rolled-back", [TELL_UNFINISHED] = "unfinished", [TELL_UNLED] = "unled",
        [TELL_ALONE] = "alone",
    };
    return kind < TELL_KINDS ? names[kind] : "unknown";
}

const char *repair_phase_name(uint8_t phase) {
    static const char *const names[REPAIR_PHASES] = {"forward", "backward", "committed", "aggregation"};
    return phase < REPAIR_PHASES ? names[phase] : "unknown";
}
