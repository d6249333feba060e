// A peer's memory, its beginning, and read-only views of it.
#include "protocol/internal.h"

#include <string.h>

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
    settled_microbatch *all = carve(c, microbatches, sizeof(settled_microbatch));
    stage_round *rounds = carve(c, run->stages, sizeof(stage_round));
    if (p != NULL) {
        p->leader->settled = all;
        p->leader->round = rounds;
    }
    for (uint16_t s = 0; s < run->stages; s++) {
        double *norm2 = carve(c, run->tensors[s], sizeof(double));
        if (p != NULL) rounds[s].norm2 = norm2;
    }
}

static void carve_owner(carver *c, const peer_run *run, peer *p, uint32_t microbatches) {
    owned_microbatch *all = carve(c, microbatches, sizeof(owned_microbatch));
    owned_stage *stages = carve(c, (size_t)microbatches * run->stages, sizeof(owned_stage));
    member_id *answers = carve(c, WIRE_MAX_MEMBERS, sizeof(member_id));
    if (p == NULL) return;
    p->microbatch->failover.answer = answers;
    p->microbatch->owned = all;
    for (uint32_t m = 0; m < microbatches; m++) all[m].stage = stages + (size_t)m * run->stages;
}

static size_t carve_all(uint8_t *memory, const peer_run *run, const peer_config *config) {
    carver c = {memory, 0};
    uint32_t microbatches = run->microbatches + run->eval_microbatches, blocks = 1;
    for (uint16_t s = 0; s < run->stages; s++)
        if (run->blocks[s] > blocks) blocks = run->blocks[s];
    peer *p = carve(&c, 1, sizeof(peer));
    peer_cluster *cluster = carve(&c, 1, sizeof(peer_cluster));
    peer_log *log = carve(&c, 1, sizeof(peer_log));
    peer_routing *routing = carve(&c, 1, sizeof(peer_routing));
    peer_microbatches *microbatch = carve(&c, 1, sizeof(peer_microbatches));
    peer_chunks *chunks = carve(&c, 1, sizeof(peer_chunks));
    peer_leader *leader = carve(&c, 1, sizeof(peer_leader));
    effect *effects = carve(&c, PEER_MAX_EFFECTS, sizeof(effect));
    uint8_t *outbox = carve(&c, PEER_OUTBOX_BYTES, 1);
    cluster_contact *contacts = carve(&c, PEER_MAX_CONTACTS, sizeof(cluster_contact));
    cluster_member *members = carve(&c, WIRE_MAX_MEMBERS, sizeof(cluster_member));
    uint64_t *versions = carve(&c, blocks, sizeof(uint64_t));
    chunk_group *segments = carve(&c, blocks / PEER_SEGMENT_BLOCKS + 1, sizeof(chunk_group));
    void *parts = carve(&c, blocks / PEER_SEGMENT_BLOCKS + 1, WIRE_MAX_STAGE_MEMBERS * sizeof(blob_id));
    inflight_microbatch *all = carve(&c, microbatches, sizeof(inflight_microbatch));
    uint8_t *slots = carve(&c, config->capacity, 1);
    core_job *tasks = carve(&c, PEER_MAX_TASKS, sizeof(core_job));
    log_window *ring = carve(&c, 1, sizeof(log_window));
    void *router_memory = carve(&c, 1, route_bytes(run, config));
    size_t view_bytes = route_view_bytes(run, config);
    void *view_memory = carve(&c, 1, view_bytes);
    size_t plan_bytes = route_plan_bytes(run, config);
    void *plan_memory = carve(&c, 1, plan_bytes);
    size_t linkstate_bytes = route_linkstate_bytes(run);
    void *linkstate_memory = carve(&c, 1, linkstate_bytes);
    route_known *known = carve(&c, view_bytes > 0 ? ROUTE_MAX_KNOWN : 0, sizeof(route_known));
    if (p != NULL) {
        p->cluster = cluster;
        p->log = log;
        p->routing = routing;
        p->microbatch = microbatch;
        p->chunks = chunks;
        p->leader = leader;
        p->core.effects = effects;
        p->core.outbox = outbox;
        p->cluster->contacts = contacts;
        p->cluster->members = members;
        p->chunks->block_version = versions;
        p->chunks->aggregation.segment = segments;
        p->chunks->aggregation.part = parts;
        p->microbatch->inflight = all;
        p->microbatch->slot_taken = slots;
        p->core.tasks = tasks;
        p->routing->memory = router_memory;
        p->log->ring = ring;
        p->routing->view_memory = view_memory;
        p->routing->plan = plan_bytes > 0 ? plan_memory : NULL;
        p->routing->linkstate = linkstate_bytes > 0 ? linkstate_memory : NULL;
        p->routing->known = known;
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
    p->core.on_change = events_handle;
    p->random.state = config->random_seed;
    p->microbatches = run->microbatches + run->eval_microbatches;
    run_state_open(&p->state, run->stages, run->slots, run->shares, run->start_version);
    p->microbatch->iteration_ns = now_ns;
    versions_changed(p);
    stored_open(p);
    p->leader->rollback.began_ns = now_ns;
    fetch_open(p);
    p->chunks->agreed_state = leader_agreed_state;
    p->cluster->lead.heard = true;
    p->cluster->lead.term = 1;
    p->cluster->lead.id = config->leader_id;
    contacts_add_named(p);
    log_open(p);
    p->core.deadline = now_ns;
    return p;
}

void peer_look(const peer *p, peer_view *view) {
    memset(view, 0, sizeof *view);
    view->member = p->me;
    view->stage = p->stage;
    view->standby = p->standby;
    view->whole = versions_reach(p, &view->reaches);
    view->leaving.left = p->me == 0 ? versions_results_left(p) : 0;
    view->leaving.stands_again = p->cluster->rejoin_first;
    view->ready = p->ready;
    view->version = p->version;
    view->iteration = p->state.iteration;
    view->generation = p->state.run.generation;
    view->slots_used = p->microbatch->slots_used;
    view->capacity = p->config.capacity;
    view->counted = p->microbatch->counted;
    view->k = p->microbatch->k;
    view->log_position = p->state.position;
    view->leads = p->cluster->leads;
    view->placement.moves_to = p->leader->move.stage;
    view->term = p->cluster->lead.term;
    view->voters = raft_votes(&p->raft) ? p->raft.voters.count : 0;
    view->blobs_held = p->core.blobs_held;
    view->useful_ns = p->microbatch->useful_ns;
    view->wasted_ns = p->microbatch->wasted_ns;
    view->wasted = p->microbatch->wasted;
    view->carried = p->microbatch->carried;
    view->carried_bytes = p->microbatch->carried_bytes;
    route_look(p, view);
}

bool peer_knows_member(const peer *p, const braid_id *id) {
    uint32_t index = contact_find(p, id);
    return index != NO_CONTACT && p->cluster->contacts[index].member != 0;
}

const log_voters *peer_voters(const peer *p) { return &p->raft.voters; }

uint32_t peer_voting_machines(const peer *p, uint64_t *index, braid_id *out) {
    static const braid_id none = {{0}};
    const log_voters *v = &p->state.voters;
    for (uint32_t i = 0; i < v->count; i++) {
        const braid_id *id = &v->voter[i].id;
        uint32_t at = contact_find(p, id);
        const braid_id *host = id_equal(id, &p->config.self) ? &p->config.host : at != NO_CONTACT ? &p->cluster->contacts[at].host : &none;
        out[i] = id_equal(host, &none) ? *id : *host;
    }
    *index = p->state.voters_index;
    return v->count;
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
