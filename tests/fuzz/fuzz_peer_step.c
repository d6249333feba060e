// A peer among hostile ones: whatever well-formed messages come, in whatever order, between whatever answers of its
// host, it must not trip an assertion of its own, and its effects must keep the rules of peer/peer.h.
//
// An input is a byte that chooses the peer, then acts, each a byte and its operands (see `act`). Unless an act's top bit is
// set, the host answers every job and makes every log entry durable before the next one. ACT_ANSWER lets the other side
// answer something that the peer sent as an honest one would, or nearly so: without it no input gets far into a run.
#include "fuzz.h"

#include "peer/peer.h"
#include "wire_random.h"

#include <sys/mman.h>

enum {
    PEERS = 6,
    SELF = 5,
    STAGES = 3,
    MAX_APPENDS = 256,
    MAX_BLOBS = 4096,
    MAX_ANSWERS = 500,
    TENSORS = 7,
    MAX_SENT = 32,
    MAX_MEMBERS = 64
};
enum {
    ACT_TICK,
    ACT_LINK_UP,
    ACT_LINK_DOWN,
    ACT_MESSAGE,
    ACT_JOB_DONE,
    ACT_COMMITTED,
    ACT_ANSWER,
    ACT_DRAIN,
    ACTS,
    ACT_HOLD = 0x80
};
enum { CHOOSE_LEADER = 1, CHOOSE_DATA = 2, CHOOSE_FAST = 4, CHOOSE_EVAL = 8, CHOOSE_CHECKPOINTS = 16 };
enum { ANSWER_FAILED = 1, ANSWER_NOT_FINITE = 2, ANSWER_OVERFLOW = 4, ANSWER_OTHER_HASH = 8 };

static const uint16_t tensor_stage[TENSORS] = {0, 0, 1, 1, 2, 2, 2};

// What an honest other side needs to know of a message that it got.
typedef struct sent_message {
    uint32_t to;
    message msg;
} sent_message;

typedef struct host {
    peer *p;
    peer_run run;
    peer_config config;
    uint64_t now;
    bool up[PEERS], closing[PEERS], exited;
    job outstanding;  // id 0: none
    log_entry append[MAX_APPENDS];
    uint32_t appends, committed;
    bool held[MAX_BLOBS];  // by number; 0 is never held
    blob_id blobs;
    log_member member[MAX_MEMBERS];  // by number, as the log says; capacity 0: none
    sent_message sent[MAX_SENT];
    uint32_t sends;
} host;

static braid_id name_of(uint32_t number) { return (braid_id){.bytes = {(uint8_t)(number + 1)}}; }

// PEERS for a name that only a hostile log knows.
static uint32_t number_of(const braid_id *id) {
    for (uint32_t i = 0; i < PEERS; i++) {
        braid_id name = name_of(i);
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
    s->to = number_of(&e->id);
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
    FUZZ_CHECK(h->config.leader && log_entry_encode(entry, bytes, sizeof bytes) > 0);
    FUZZ_CHECK(h->appends < MAX_APPENDS || h->appends - h->committed < MAX_APPENDS);
    h->append[h->appends++ % MAX_APPENDS] = *entry;
    learn(h, entry);
}

static void do_effect(host *h, const effect *e) {
    switch (e->kind) {
    case EFFECT_SEND: do_send(h, e); break;
    case EFFECT_JOB: do_job(h, e->job); break;
    case EFFECT_APPEND: do_append(h, e->entry); break;
    case EFFECT_RELEASE:
        check_held(h, e->blob);
        h->held[e->blob] = false;
        break;
    case EFFECT_CLOSE:
        if (number_of(&e->id) < PEERS) h->closing[number_of(&e->id)] = true;
        break;
    case EFFECT_DIAL: FUZZ_CHECK(strnlen(e->address, WIRE_MAX_ADDRESS) < WIRE_MAX_ADDRESS); break;
    case EFFECT_TELL: FUZZ_CHECK(e->tell.kind < TELL_KINDS); break;
    case EFFECT_EXIT: h->exited = true; break;
    case EFFECT_KINDS: FUZZ_CHECK(!"an effect"); break;
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

static void step(host *h, const event *e) {
    if (h->exited) return;
    step_once(h, e);
    for (uint32_t i = 0; i < PEERS && !h->exited; i++) {
        if (!h->closing[i]) continue;
        h->closing[i] = false;
        if (!h->up[i]) continue;
        h->up[i] = false;
        step_once(h, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(i)});
    }
}

// ---- what the host answers

static bool makes_blob(const host *h, const job *work) {
    peer_view view;
    peer_look(h->p, &view);
    switch (work->kind) {
    case JOB_LOSS: return work->m < h->run.microbatches;  // no gradient of held-out text
    case JOB_BACKWARD: return view.stage > 0;
    case JOB_FORWARD:
    case JOB_PACK:
    case JOB_REDUCE:
    case JOB_RESULT_GET:
    case JOB_STATE_GET:
    case JOB_LEAVES: return true;
    default: return false;
    }
}

static bool may_fail(job_kind kind) {
    return kind == JOB_SAVE || kind == JOB_SAVE_END || kind == JOB_STATE_PUT || kind == JOB_RESULT_PUT ||
           kind == JOB_REDUCE;
}

static void answer_job(host *h, uint8_t flags) {
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
    step(h, &(event){.kind = EVENT_JOB_DONE, .result = &result});
}

static void commit_entry(host *h) {
    if (h->committed == h->appends || h->exited) return;
    log_entry entry = h->append[h->committed++ % MAX_APPENDS];
    step(h, &(event){.kind = EVENT_COMMITTED, .entry = &entry});
}

static void answer_all(host *h) {
    for (int i = 0; i < MAX_ANSWERS && (h->outstanding.id != 0 || h->committed < h->appends) && !h->exited; i++) {
        h->now += 1000000;
        answer_job(h, 0);
        commit_entry(h);
    }
}

// ---- acts

typedef struct reader {
    const uint8_t *data;
    size_t left;
} reader;

static uint8_t next_byte(reader *in) {
    if (in->left == 0) return 0;
    in->left--;
    return *in->data++;
}

static void link_act(host *h, uint8_t operand, bool up) {
    uint32_t other = operand % SELF;
    if (h->up[other] == up && up) return;
    h->up[other] = up;
    step(h,
         &(event){.kind = up ? EVENT_LINK_UP : EVENT_LINK_DOWN, .id = name_of(other), .refused = operand >= ACT_HOLD});
}

static void deliver(host *h, uint32_t from, const message *msg, uint64_t blob_bytes) {
    if (from >= SELF || !h->up[from] || h->exited) return;
    event e = {.kind = EVENT_MESSAGE, .id = name_of(from), .msg = msg};
    if (message_has_payload(msg->kind)) {
        e.blob = new_blob(h);
        e.blob_bytes = blob_bytes;
        if (e.blob == 0) return;
    }
    if (msg->kind == MESSAGE_LOG && from == 0 && !h->config.leader) learn(h, &msg->u.log.entry);
    step(h, &e);
}

static void message_act(host *h, reader *in) {
    static message msg;
    uint8_t from = next_byte(in);
    size_t count = next_byte(in);
    count |= (size_t)next_byte(in) << 8;
    if (count > in->left) count = in->left;
    bool good = message_decode(in->data, count, &msg);
    in->data += count;
    in->left -= count;
    if (good) deliver(h, from % SELF, &msg, from >= ACT_HOLD ? 1 : h->run.activation_bytes);
}

// ---- an honest other side, or nearly

// The first member of a stage, or the one of this peer; 0: none.
static member_id member_of(const host *h, uint16_t stage, uint32_t number) {
    for (member_id i = 1; i < MAX_MEMBERS; i++) {
        if (h->member[i].capacity == 0) continue;
        uint32_t who = number_of(&h->member[i].peer);
        if (number < PEERS ? who == number : h->member[i].stage == stage && who != SELF) return i;
    }
    return 0;
}

typedef struct answers {
    host *h;
    uint8_t spoil;  // which byte of an answer is changed, 0: none
    const message *sent;
    uint32_t from;  // who answers
} answers;

static void answer(const answers *a, member_id by, message *msg) {
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    if (by == 0 || by >= MAX_MEMBERS) return;
    msg->iteration = a->sent->iteration;
    msg->sender = by;
    msg->log_position = a->sent->log_position;
    size_t count = message_encode(msg, bytes, sizeof bytes);
    if (count == 0) return;
    if (a->spoil > 0) bytes[a->spoil % count] ^= a->spoil >= 128 ? 1 : 3;
    static message spoilt;
    if (!message_decode(bytes, count, &spoilt)) return;
    deliver(a->h, number_of(&a->h->member[by].peer), &spoilt, a->h->run.activation_bytes);
}

// The way of a microbatch from there to its end and back home.
static void answer_forward(const answers *a, member_id by) {
    const message_forward *f = &a->sent->u.forward;
    message accept = {.kind = MESSAGE_ACCEPT,
                      .u.accept = {.subject = f->subject, .phase = PHASE_FORWARD, .eta_ns = 1000000}};
    message complete = {.kind = MESSAGE_COMPLETE,
                        .u.complete = {.subject = f->subject, .phase = PHASE_FORWARD, .hash = 8, .compute_ns = 5}};
    message trace = {.kind = MESSAGE_TRACE,
                     .u.trace = {.subject = f->subject, .phase = TRACE_FORWARD_DONE, .eta_ns = 9}};
    message home = {.kind = MESSAGE_FORWARD, .u.forward = *f};
    member_id last = STAGES - 1 == f->subject.stage ? by : member_of(a->h, STAGES - 1, PEERS);
    home.u.forward.subject.stage = 0;
    home.u.forward.home = true;
    home.u.forward.hash = 8;
    if (f->subject.stage < STAGES) home.u.forward.path.member[f->subject.stage] = by;
    home.u.forward.path.member[STAGES - 1] = last;
    answer(a, by, &accept);
    answer(a, by, &complete);
    answer(a, by, &trace);
    if (!f->home) answer(a, last, &home);
}

static void answer_backward(const answers *a, member_id by) {
    const message_backward *b = &a->sent->u.backward;
    message accept = {.kind = MESSAGE_ACCEPT,
                      .u.accept = {.subject = b->subject, .phase = PHASE_BACKWARD, .eta_ns = 1000000}};
    message complete = {.kind = MESSAGE_COMPLETE,
                        .u.complete = {.subject = b->subject, .phase = PHASE_BACKWARD, .hash = 8, .compute_ns = 5}};
    message home = {.kind = MESSAGE_BACKWARD, .u.backward = *b};
    message commit = {.kind = MESSAGE_COMMIT,
                      .u.commit = {.subject = b->subject, .rev = 1, .tokens = 16, .path = b->path}};
    home.u.backward.subject.stage = 0;
    home.u.backward.hash = 8;
    answer(a, by, &accept);
    answer(a, by, &complete);
    if (b->subject.stage > 0) answer(a, b->path.member[1], &home);
    commit.u.commit.subject.stage = (uint16_t)(b->subject.stage + 1);
    if (b->subject.stage < STAGES - 1) answer(a, b->owner, &commit);
}

static void answer_reduction(const answers *a, member_id by) {
    const message_begin *b = &a->sent->u.begin;
    message result = {.kind = MESSAGE_RESULT,
                      .u.result = {.stage = b->stage, .term = b->term, .round = b->round, .hash.bytes = {8}}};
    result.u.result.count = a->h->run.blocks[b->stage % STAGES];
    message reduced = {.kind = MESSAGE_REDUCED,
                       .u.reduced = {.stage = b->stage, .term = b->term, .round = b->round, .root.bytes = {8}}};
    reduced.u.reduced.tensors = a->h->run.tensors[b->stage % STAGES];
    answer(a, by, &result);
    answer(a, by, &reduced);
}

static void answer_log(const answers *a, member_id by) {
    const log_entry *e = &a->sent->u.log.entry;
    uint64_t version = e->kind == LOG_FINAL ? e->u.final.iteration + 1 : a->sent->iteration;
    message alive = {
        .kind = MESSAGE_HEARTBEAT,
        .u.heartbeat = {
            .ready = version + 1, .can_take = version + 1, .free_slots = 2, .forward_ns = 1, .backward_ns = 1}};
    message state = {
        .kind = MESSAGE_STATE,
        .u.state = {.stage = by > 0 ? a->h->member[by].stage : 0, .version = version, .state_root.bytes = {8}}};
    answer(a, by, &alive);
    answer(a, by, &state);
}

static void answer_sent(const answers *a) {
    const message *sent = a->sent;
    member_id by = member_of(a->h, 0, a->from);
    message reply = {0};
    switch (sent->kind) {
    case MESSAGE_FORWARD: answer_forward(a, by); return;
    case MESSAGE_BACKWARD: answer_backward(a, by); return;
    case MESSAGE_BEGIN_AGGREGATION: answer_reduction(a, by); return;
    case MESSAGE_LOG:
    case MESSAGE_HEARTBEAT: answer_log(a, by); return;
    case MESSAGE_COMMIT:
        reply = (message){.kind = MESSAGE_COUNTED,
                          .u.counted = {.subject = sent->u.commit.subject, .rev = sent->u.commit.rev}};
        break;
    case MESSAGE_GET: reply = (message){.kind = MESSAGE_DATA, .u.data = {.get = sent->u.get, .hash = 8}}; break;
    case MESSAGE_PROBE:
        reply = (message){.kind = MESSAGE_STATUS,
                          .u.status = {.subject = sent->u.probe.subject,
                                       .nonce = sent->u.probe.nonce,
                                       .has_x = true,
                                       .has_y = true,
                                       .forward_done = true}};
        break;
    default: return;
    }
    answer(a, by, &reply);
}

// Answers what was sent up to `operand` messages ago and not yet answered.
static void answer_act(host *h, uint8_t operand, uint8_t spoil) {
    static sent_message s;
    uint32_t kept = h->sends < MAX_SENT ? h->sends : MAX_SENT;
    for (uint32_t i = operand % MAX_SENT; i > 0 && !h->exited; i--) {
        if (i > kept) continue;
        sent_message *slot = &h->sent[(h->sends - i) % MAX_SENT];
        s = *slot;
        slot->msg.kind = MESSAGE_NONE;
        answer_sent(&(answers){.h = h, .spoil = spoil, .sent = &s.msg, .from = s.to});
    }
}

static void act(host *h, reader *in) {
    uint8_t what = next_byte(in);
    switch ((what & ~ACT_HOLD) % ACTS) {
    case ACT_TICK:
        h->now += (uint64_t)1000000 << next_byte(in) % 14;
        step(h, &(event){.kind = EVENT_TICK});
        break;
    case ACT_LINK_UP: link_act(h, next_byte(in), true); break;
    case ACT_LINK_DOWN: link_act(h, next_byte(in), false); break;
    case ACT_MESSAGE: message_act(h, in); break;
    case ACT_JOB_DONE: answer_job(h, next_byte(in)); break;
    case ACT_COMMITTED: commit_entry(h); break;
    case ACT_ANSWER: {
        uint8_t operand = next_byte(in);
        answer_act(h, operand, operand >= 0x80 ? next_byte(in) : 0);
        break;
    }
    default: step(h, &(event){.kind = EVENT_DRAIN}); break;
    }
    if (!(what & ACT_HOLD)) answer_all(h);
}

static void choose(host *h, uint8_t flags) {
    memset(h, 0, sizeof *h);
    h->run = (peer_run){.seed = 1,
                        .iterations = 3,
                        .microbatches = 4,
                        .stages = STAGES,
                        .slots = 2,
                        .start_data_peers = 1,
                        .start_relays = 2,
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
    h->run.save = flags & CHOOSE_CHECKPOINTS;
    bool leader = flags & CHOOSE_LEADER;
    h->config = (peer_config){.self = name_of(SELF),
                              .address = "127.0.0.1:1",
                              .leader = leader,
                              .capacity = 2,
                              .random_seed = flags,
                              .kind = leader || flags & CHOOSE_DATA ? MEMBER_DATA : MEMBER_RELAY,
                              .leader_address = "127.0.0.1:2",
                              .leader_id = name_of(leader ? SELF : 0)};
    h->now = 1000000000;
}

// The same pages for every input: the system zeroes only those that the last one touched.
static void *zeroed(size_t bytes) {
    enum { POOL_BYTES = 32 << 20 };
    static void *pool;
    if (pool == NULL) pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(pool != MAP_FAILED && bytes <= POOL_BYTES);
    FUZZ_CHECK(madvise(pool, POOL_BYTES, MADV_DONTNEED) == 0);
    return pool;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static host h;
    if (size == 0) return 0;
    choose(&h, data[0]);
    h.p = peer_init(zeroed(peer_bytes(&h.run, &h.config)), &h.run, &h.config, h.now);
    reader in = {data + 1, size - 1};
    while (in.left > 0 && !h.exited) act(&h, &in);
    return 0;
}

// ---- examples: a run that starts as a run does, then anything

typedef struct writer {
    uint8_t *bytes;
    size_t used, capacity;
    wire_random random;
    uint64_t log_index, hostility;
} writer;

static void put_byte(writer *w, uint8_t byte) {
    if (w->used < w->capacity) w->bytes[w->used++] = byte;
}

static void put_message(writer *w, uint8_t from, const message *msg) {
    uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    size_t count = message_encode(msg, bytes, sizeof bytes);
    if (count == 0 || count + 4 > w->capacity - w->used) return;
    put_byte(w, ACT_MESSAGE);
    put_byte(w, from);
    put_byte(w, (uint8_t)count);
    put_byte(w, (uint8_t)(count >> 8));
    memcpy(w->bytes + w->used, bytes, count);
    w->used += count;
}

static void put_log(writer *w, const log_entry *entry) {
    message msg = {.kind = MESSAGE_LOG, .sender = 1, .log_position = w->log_index};
    msg.u.log.previous = w->log_index;
    msg.u.log.entry = *entry;
    msg.u.log.entry.index = ++w->log_index;
    msg.u.log.entry.term = 1;
    put_message(w, 0, &msg);
}

// The log as a leader writes it: peer i becomes member i + 1. Peer 0 leads; the peer under test is in the last relay's
// stage, or a second data peer.
static void put_start(writer *w, uint8_t flags) {
    for (uint32_t i = 0; i < PEERS; i++) {
        uint16_t stage = i == SELF && flags & CHOOSE_DATA ? 0 : (uint16_t)(i % STAGES);
        log_entry entry = {.kind = LOG_MEMBER};
        entry.u.member = (log_member){.peer = name_of(i),
                                      .stage = stage,
                                      .capacity = 2,
                                      .address = "127.0.0.1:3",
                                      .kind = stage == 0 ? MEMBER_DATA : MEMBER_RELAY};
        put_log(w, &entry);
    }
    put_log(w, &(log_entry){.kind = LOG_OWNER, .u.owner = {.slot = 0, .member = 1}});
    put_log(w, &(log_entry){.kind = LOG_OWNER, .u.owner = {.slot = 1, .member = flags & CHOOSE_DATA ? SELF + 1 : 4}});
    put_log(w, &(log_entry){.kind = LOG_RUN, .u.run.description.bytes = {1}});
}

static void put_joins(writer *w) {
    for (uint8_t i = 0; i < SELF; i++) {
        message msg = {.kind = MESSAGE_JOIN};
        msg.u.join =
            (message_join){.kind = i == 0 ? MEMBER_DATA : MEMBER_RELAY, .capacity = 2, .address = "127.0.0.1:3"};
        put_message(w, i, &msg);
    }
}

static void put_anything(writer *w, uint8_t flags) {
    rng *r = w->random.r;
    if (rng_below(r, 8) > w->hostility) {
        put_byte(w, ACT_ANSWER);
        put_byte(w, (uint8_t)(MAX_SENT - 1 + (rng_below(r, 64) < w->hostility ? 0x80 : 0)));
        put_byte(w, ACT_TICK);
        put_byte(w, (uint8_t)rng_below(r, 12));
        return;
    }
    if (rng_below(r, 3) > 0) {
        uint8_t from = (uint8_t)rng_below(r, SELF);
        message msg;
        random_message(&w->random, (uint8_t)(1 + rng_below(r, MESSAGE_KINDS - 1)), &msg);
        msg.iteration = rng_below(r, 2);
        msg.sender = rng_below(r, 8) == 0 ? rng_below(r, 9) : from + (flags & CHOOSE_LEADER ? 2u : 1u);
        if (msg.kind == MESSAGE_LOG && rng_below(r, 2) == 0)
            put_log(w, &msg.u.log.entry);
        else
            put_message(w, from, &msg);
        return;
    }
    uint8_t what = (uint8_t)rng_below(r, rng_below(r, 20) == 0 ? ACTS : ACT_DRAIN);
    if (what == ACT_MESSAGE) what = ACT_TICK;
    put_byte(w, (uint8_t)(what | (rng_below(r, 4) == 0 ? ACT_HOLD : 0)));
    put_byte(w, (uint8_t)rng_next(r));
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(45, number)};
    writer w = {.bytes = bytes,
                .capacity = capacity,
                .random = {.r = &r, .below = (uint32_t)(3 + number % 6)},
                .hostility = number % 8};
    uint8_t flags = (uint8_t)rng_below(&r, 32);
    put_byte(&w, flags);
    for (uint8_t i = 0; i < SELF; i++) {
        put_byte(&w, ACT_LINK_UP);
        put_byte(&w, i);
    }
    if (flags & CHOOSE_LEADER)
        put_joins(&w);
    else
        put_start(&w, flags);
    for (uint64_t acts = rng_below(&r, 100); acts > 0; acts--) put_anything(&w, flags);
    return w.used;
}
