#include "peer_step.h"

#include "protocol/core/faults.h"

#include <string.h>
#include <sys/mman.h>

static const uint16_t tensor_stage[TENSORS] = {0, 0, 1, 1, 2, 2, 2};

braid_id host_name_of(uint32_t number) { return (braid_id){.bytes = {(uint8_t)(number + 1)}}; }

uint32_t host_number_of(const braid_id *id) {
    for (uint32_t i = 0; i < PEERS; i++) {
        braid_id name = host_name_of(i);
        if (id_equal(&name, id)) return i;
    }
    return PEERS;
}

static blob_id new_blob(host *h) {
    if (h->blobs + 1 == MAX_BLOBS) return 0;
    h->held[++h->blobs] = true;
    return h->blobs;
}

static void check_held(const host *h, blob_id blob) { FUZZ_CHECK(blob < MAX_BLOBS && h->held[blob]); }

// ---- effects

static void learn(host *h, const log_entry *entry) {
    if (entry->kind == LOG_MEMBER && entry->index < MAX_MEMBERS) h->member[entry->index] = entry->u.member;
    if (entry->kind == LOG_EXPEL && entry->u.expel.member < MAX_MEMBERS) h->member[entry->u.expel.member].capacity = 0;
}

static void do_send(host *h, const effect *e) {
    sent_message *s = &h->sent[h->sends++ % MAX_SENT];
    s->to = host_number_of(&e->id);
    FUZZ_CHECK(e->byte_count <= WIRE_MAX_CONTROL_BYTES && message_decode(e->bytes, e->byte_count, &s->msg));
    FUZZ_CHECK(s->msg.kind == e->message_kind && s->to < SELF && h->up[s->to]);
    if (e->blob != 0) check_held(h, e->blob);
}

static void do_job(host *h, const job *work) {
    FUZZ_CHECK(h->outstanding.id == 0 && work->id != 0);
    if (work->in != 0) check_held(h, work->in);
    FUZZ_CHECK(work->inputs <= WIRE_MAX_STAGE_MEMBERS);
    for (uint32_t i = 0; i < work->inputs; i++) {
        if (work->input[i] != JOB_OWN_SUM) check_held(h, work->input[i]);
    }
    h->outstanding = *work;
}

static void do_append(host *h, const log_entry *entry) {
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    FUZZ_CHECK(log_entry_encode(entry, bytes, sizeof bytes) > 0);
    // the case of a disk that never answers is not tested here
    if (h->appends - h->committed == MAX_APPENDS) {
        h->exited = true;
        return;
    }
    h->append[h->appends++ % MAX_APPENDS] = *entry;
    if (h->config.leader) learn(h, entry);
}

static void do_effect(host *h, const effect *e) {
    switch (e->kind) {
    case EFFECT_SEND: do_send(h, e); break;
    case EFFECT_JOB: do_job(h, e->job); break;
    case EFFECT_APPEND: do_append(h, e->entry); break;
    case EFFECT_APPLIED: FUZZ_CHECK(e->entry->index > 0); break;
    case EFFECT_RELEASE:
        check_held(h, e->blob);
        h->held[e->blob] = false;
        break;
    case EFFECT_CLOSE:
        if (host_number_of(&e->id) < PEERS) h->closing[host_number_of(&e->id)] = true;
        break;
    case EFFECT_DIAL: FUZZ_CHECK(strnlen(e->address, WIRE_MAX_ADDRESS) < WIRE_MAX_ADDRESS); break;
    case EFFECT_TELL: FUZZ_CHECK(e->tell.kind < TELL_KINDS); break;
    case EFFECT_EXIT: h->exited = true; break;
    case EFFECT_KINDS: FUZZ_CHECK(e->kind < EFFECT_KINDS); break;
    }
}

static void step_once(host *h, const event *e) {
    effect next;
    peer_view view;
    peer_step(h->p, h->now, e);
    while (peer_next_effect(h->p, &next)) do_effect(h, &next);
    peer_look(h->p, &view);
    FUZZ_CHECK(view.slots_used <= view.capacity && view.capacity <= h->config.capacity);
}

void host_step(host *h, const event *e) {
    if (h->exited) return;
    step_once(h, e);
    for (uint32_t i = 0; i < PEERS && !h->exited; i++) {
        if (!h->closing[i]) continue;
        h->closing[i] = false;
        if (!h->up[i]) continue;
        h->up[i] = false;
        step_once(h, &(event){.kind = EVENT_LINK_DOWN, .id = host_name_of(i)});
    }
}

// ---- the host's answers

static bool makes_blob(const host *h, const job *work) {
    peer_view view;
    peer_look(h->p, &view);
    switch (work->kind) {
    case JOB_LOSS: return work->m < h->run.microbatches;  // held-out text has no gradient
    case JOB_BACKWARD: return view.stage > 0;
    case JOB_FORWARD:
    case JOB_PACK:
    case JOB_JOIN:
    case JOB_REDUCE:
    case JOB_RESULT_GET:
    case JOB_STATE_GET:
    case JOB_NAMES_GET:
    case JOB_LEAVES: return true;
    default: return false;
    }
}

static bool may_fail(job_kind kind) {
    return kind == JOB_SAVE || kind == JOB_SAVE_END || kind == JOB_STATE_PUT || kind == JOB_NAMES_PUT || kind == JOB_RESULT_PUT ||
           kind == JOB_REDUCE || kind == JOB_JOIN;
}

void host_answer_job(host *h, uint8_t flags) {
    static const double norm2[TENSORS] = {1, 2, 3, 4, 5, 6, 7};
    if (h->outstanding.id == 0 || h->exited) return;
    const job work = h->outstanding;
    peer_view view;
    peer_look(h->p, &view);
    job_result result = {.id = work.id,
                         .kind = work.kind,
                         .cost_ns = 1000000,
                         .loss = 2.5,
                         .tokens = 16,
                         .version = work.version,
                         .norms = h->run.tensors[view.stage],
                         .norm2 = norm2,
                         .clip = 1,
                         .learning_rate = 1};
    result.failed = (flags & ANSWER_FAILED) && may_fail(work.kind);
    result.finite = !(flags & ANSWER_NOT_FINITE);
    result.overflow = (flags & ANSWER_OVERFLOW) != 0;
    result.hash64 = flags & ANSWER_OTHER_HASH ? 9 : 8;
    result.hash.bytes[0] = (uint8_t)result.hash64;
    if (makes_blob(h, &work) && !result.failed) result.out = new_blob(h);
    h->outstanding.id = 0;
    host_step(h, &(event){.kind = EVENT_JOB_DONE, .result = &result});
}

void host_commit_entry(host *h) {
    if (h->committed == h->appends || h->exited) return;
    log_entry entry = h->append[h->committed++ % MAX_APPENDS];
    host_step(h, &(event){.kind = EVENT_STORED, .entry = &entry});
}

void host_answer_all(host *h) {
    for (int i = 0; i < MAX_ANSWERS && (h->outstanding.id != 0 || h->committed < h->appends) && !h->exited; i++) {
        h->now += 1000000;
        host_answer_job(h, 0);
        host_commit_entry(h);
    }
}

// ---- incoming messages

uint64_t host_payload(const host *h, const message *msg) {
    const message_carry *c = &msg->u.carry;
    uint64_t whole = h->run.activation_bytes;
    if (msg->kind != MESSAGE_CARRY) return whole;
    return message_piece_at(whole, (uint16_t)(c->index + 1), c->count) - message_piece_at(whole, c->index, c->count);
}

void host_deliver(host *h, uint32_t from, const message *msg, uint64_t payload_bytes) {
    if (from >= SELF || !h->up[from] || h->exited) return;
    event e = {.kind = EVENT_MESSAGE, .id = host_name_of(from), .msg = msg};
    if (message_has_payload(msg)) {
        e.blob = new_blob(h);
        e.blob_bytes = payload_bytes;
        if (e.blob == 0) return;
    }
    if (msg->kind == MESSAGE_LOG && from == 0 && !h->config.leader) learn(h, &msg->u.log.entry);
    host_step(h, &e);
}

// ---- a fresh host and peer

// The same pages for every input; only those that the last input touched are zeroed.
static void *zeroed(size_t bytes) {
    enum { POOL_BYTES = 32 << 20 };
    static void *pool;
    if (pool == NULL) pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(pool != MAP_FAILED && bytes <= POOL_BYTES);
    FUZZ_CHECK(madvise(pool, POOL_BYTES, MADV_DONTNEED) == 0);
    return pool;
}

void host_init(host *h, uint8_t flags) {
    memset(h, 0, offsetof(host, append));
    h->run = (peer_run){.seed = 1,
                        .iterations = 3,
                        .microbatches = 4,
                        .stages = STAGES,
                        .slots = 2,
                        .start_data_peers = 1,
                        .start_relays = 2,
                        .standbys = 1,
                        .reproducible = !(flags & CHOOSE_FAST),
                        .activation_bytes = 64,
                        .blocks = {3, 2, 4},
                        .tensors = {2, 2, 3},
                        .model_tensors = TENSORS,
                        .tensor_stage = tensor_stage,
                        .description.bytes = {1}};
    if (flags & CHOOSE_EVAL) {
        h->run.eval_every = 1;
        h->run.eval_microbatches = 2;
    }
    h->run.checkpoint_every = flags & CHOOSE_CHECKPOINTS ? 1 : 0;
    h->run.routing = (uint8_t)(flags / CHOOSE_ROUTING % 3);
    h->run.objective = (uint8_t)(flags / CHOOSE_ROUTING / 3 % 2);
    h->run.save = flags & CHOOSE_CHECKPOINTS;
    bool leader = flags & CHOOSE_LEADER;
    h->config = (peer_config){.self = host_name_of(SELF),
                              .address = "127.0.0.1:1",
                              .leader = leader,
                              .voters = 3,
                              .capacity = 2,
                              .random_seed = flags,
                              .kind = leader || flags & CHOOSE_DATA ? MEMBER_DATA : flags & CHOOSE_CHECKPOINTS ? MEMBER_SHADOW : MEMBER_RELAY,
                              .leader_address = "127.0.0.1:2",
                              .leader_id = host_name_of(leader ? SELF : 0)};
    h->now = 1000000000;
    h->p = peer_init(zeroed(peer_bytes(&h->run, &h->config)), &h->run, &h->config, h->now);
    peer_inject(h->p, (peer_faults){.carried_percent = flags >= CHOOSE_CARRIED ? 50 : 0});
}
