// One peer that a test steps by hand: its inputs, and a record of its effects.
#ifndef BRAID_TESTS_PEER_WORLD_H
#define BRAID_TESTS_PEER_WORLD_H

#include "braid/peer.h"
#include "protocol/core/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 1024, MOST = 16, MOST_GETS = 64 };

static const uint64_t MILLISECOND = 1000000;
static const uint16_t tensor_stage[3] = {0, 1, 2};

typedef struct world {
    peer *p;
    peer_run run;
    uint64_t now, log, owner_term[2];
    uint32_t self;
    blob_id blobs;

    // set by the test
    bool busy;               // the job that was begun does not end
    uint32_t forward_held;   // 1 + the microbatch with a forward that does not end; 0: none
    bool diverges;           // losses are not finite
    uint32_t finite_from_iteration;  // ... before this iteration; 0: always
    job_kind failing_job;    // jobs of this kind fail
    bool starts_run;         // the peer begins the run
    braid_hash text;         // hash of its private data
    uint32_t leader;         // peer named by the ticket; 0: peer 1
    uint16_t voters;         // wanted number
    uint8_t carried_percent, upload_percent;
    bool carries_nothing, has_checkpoint;
    bool slow_store;         // records become durable only when the test calls store()
    uint64_t waiting_bytes;  // in the outgoing queues of the host

    // effects of the peer
    job work;                // the newest job; id 0: it has ended
    bool exited, exit_failed;
    uint32_t sent[MESSAGE_KINDS], notifications[TELL_KINDS];
    uint32_t last_receiver[MESSAGE_KINDS];  // of the newest message of each kind
    bool last_had_blob[MESSAGE_KINDS];      // ... and whether it had a tensor
    message last_log, last_forward;
    log_voters last_voters;                 // the newest VOTERS entry that was appended
    uint32_t last_get_to, last_uncarried_to;
    uint32_t get_count, get_to[MOST_GETS];
    message get[MOST_GETS];
    message probe[MOST];     // the newest PROBE to each member
    bool probed[MOST];       // ... and whether it is unanswered
    log_entry append[MOST];  // records that are not durable yet
    uint32_t appends;
    uint64_t last_appended;  // index of the newest entry
    uint8_t last_record_kind;
    uint32_t records[LOG_KINDS];
    uint64_t checkpoint;     // version of the newest CHECKPOINT that was appended
    char last_address[MOST][WIRE_MAX_ADDRESS];  // the newest dialled address of each peer
    uint32_t dials[MOST];                       // of each peer
} world;

static inline braid_id name_of(uint32_t number) { return (braid_id){.bytes = {(uint8_t)number, 1}}; }

static inline void step(world *w, const event *e);

static inline void do_job(world *w) {
    if (w->work.id == 0 || w->busy || (w->work.kind == JOB_FORWARD && w->work.m + 1 == w->forward_held)) return;
    job_result r = {.id = w->work.id, .kind = w->work.kind, .cost_ns = MILLISECOND, .finite = !(w->diverges && w->work.kind == JOB_LOSS && (w->finite_from_iteration == 0 || w->notifications[TELL_ITERATION] < w->finite_from_iteration)), .version = w->work.version};
    if (w->finite_from_iteration > 0 && r.finite && w->work.kind == JOB_LOSS) r.tokens = 1;
    r.failed = w->failing_job != JOB_NONE && w->work.kind == w->failing_job;
    r.skip = w->work.kind == JOB_DECIDE && w->work.tokens == 0;
    if (w->work.kind == JOB_STATE_GET || w->work.kind == JOB_RESULT_GET || w->work.kind == JOB_LOSS || w->work.kind == JOB_FORWARD) r.out = 1000 + ++w->blobs;
    static const double norm2 = 1;
    if (w->work.kind == JOB_NORM) r.norm2 = &norm2;
    r.norms = w->work.kind == JOB_NORM;
    w->work.id = 0;
    w->now += MILLISECOND;
    step(w, &(event){.kind = EVENT_JOB_DONE, .result = &r});
}

// Its store is durable at once.
static inline void store(world *w) {
    log_entry stored[MOST];
    uint32_t count = w->appends;
    memcpy(stored, w->append, count * sizeof *stored);
    w->appends = 0;
    for (uint32_t i = 0; i < count; i++) step(w, &(event){.kind = EVENT_STORED, .entry = &stored[i]});
}

static inline void note_get(world *w, const effect *out) {
    w->last_get_to = out->id.bytes[0];
    if (w->get_count == MOST_GETS) return;
    w->get_to[w->get_count] = w->last_get_to;
    assert_true(message_decode(out->bytes, out->byte_count, &w->get[w->get_count++]));
}

static inline void step(world *w, const event *e) {
    effect out;
    peer_step(w->p, w->now, e);
    while (peer_next_effect(w->p, &out)) {
        if (out.kind == EFFECT_JOB) w->work = *out.job;
        assert_true(out.kind != EFFECT_APPEND || w->appends < MOST);
        if (out.kind == EFFECT_APPEND) w->append[w->appends++] = *out.entry;
        if (out.kind == EFFECT_APPEND) w->last_record_kind = out.entry->kind;
        if (out.kind == EFFECT_APPEND) w->records[w->last_record_kind]++;
        if (out.kind == EFFECT_APPEND && out.entry->kind == LOG_VOTERS) w->last_voters = out.entry->u.voters;
        if (out.kind == EFFECT_APPEND && out.entry->kind < LOG_BASE) w->last_appended = out.entry->index;
        if (out.kind == EFFECT_APPEND && out.entry->kind == LOG_CHECKPOINT) w->checkpoint = out.entry->u.checkpoint.version;
        w->exit_failed |= out.kind == EFFECT_EXIT && out.failed;
        if (out.kind == EFFECT_DIAL) snprintf(w->last_address[out.id.bytes[0]], WIRE_MAX_ADDRESS, "%s", out.address);
        if (out.kind == EFFECT_DIAL) w->dials[out.id.bytes[0]]++;
        w->exited |= out.kind == EFFECT_EXIT;
        if (out.kind == EFFECT_TELL) w->notifications[out.tell.kind]++;
        if (out.kind != EFFECT_SEND) continue;
        w->sent[out.message_kind]++;
        w->last_receiver[out.message_kind] = out.id.bytes[0];
        w->last_had_blob[out.message_kind] = out.blob != 0;
        if (out.message_kind == MESSAGE_LOG) assert_true(message_decode(out.bytes, out.byte_count, &w->last_log));
        if (out.message_kind == MESSAGE_FORWARD) assert_true(message_decode(out.bytes, out.byte_count, &w->last_forward));
        if (out.message_kind == MESSAGE_GET) note_get(w, &out);
        if (out.message_kind == MESSAGE_UNCARRIED || out.message_kind == MESSAGE_UNCARRIED_CHUNKS) w->last_uncarried_to = out.id.bytes[0];
        if (out.message_kind != MESSAGE_PROBE) continue;
        w->probed[out.id.bytes[0]] = message_decode(out.bytes, out.byte_count, &w->probe[out.id.bytes[0]]);
    }
    if (!w->slow_store) store(w);
    do_job(w);
}

static inline void deliver_bytes(world *w, uint32_t from, message *m, uint64_t bytes) {
    event e = {.kind = EVENT_MESSAGE, .id = name_of(from), .msg = m, .blob_bytes = bytes, .waiting_bytes = w->waiting_bytes};
    m->sender = from;
    m->log_position = w->log;
    if (bytes > 0) e.blob = 1000 + ++w->blobs;
    step(w, &e);
}

static inline void deliver(world *w, uint32_t from, message *m, bool tensor) { deliver_bytes(w, from, m, tensor ? BYTES : 0); }

static inline uint64_t append(world *w, log_entry entry) {
    message m = {.kind = MESSAGE_LOG, .u.log = {.previous = w->log, .entry = entry}};
    m.u.log.entry.index = ++w->log;
    m.u.log.entry.term = 1;
    deliver(w, 1, &m, false);
    return w->log;
}

static inline void admit(world *w, uint32_t number, member_kind kind, uint16_t stage) {
    log_entry entry = {.kind = LOG_MEMBER, .u.member = {.peer = name_of(number), .stage = stage, .kind = (uint8_t)kind, .capacity = 2, .incarnation = 1}};
    assert_int_equal(append(w, entry), number);
    if (number != w->self) step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(number)});
}

static inline void own(world *w, uint16_t slot, member_id who) { w->owner_term[slot] = append(w, (log_entry){.kind = LOG_OWNER, .u.owner = {.slot = slot, .member = who}}); }

static inline peer_run run_of(uint16_t stages, uint32_t microbatches, uint16_t slots) {
    return (peer_run){.seed = 1, .iterations = 3, .microbatches = microbatches, .stages = stages, .slots = slots, .start_data_peers = 1, .start_relays = 2, .reproducible = true,
                      .activation_bytes = BYTES, .blocks = {1, 1, 1}, .tensors = {1, 1, 1}, .model_tensors = stages, .tensor_stage = tensor_stage, .routing = UINT8_MAX};
}

static inline void begin_world(world *w, uint32_t self, member_kind kind) {
    const peer_config config = {.self = name_of(self), .kind = kind, .address = "peer:1", .capacity = 2, .random_seed = 1, .leader_id = name_of(w->leader > 0 ? w->leader : 1), .leader_address = "peer-1:1",
                                .carries_nothing = w->carries_nothing, .has_checkpoint = w->has_checkpoint, .leader = w->starts_run, .voters = w->voters, .upload_percent = w->upload_percent, .text = w->text};
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, peer_bytes(&w->run, &config)), 0);
    memset(memory, 0, peer_bytes(&w->run, &config));
    w->self = self;
    w->now = 1000 * MILLISECOND;
    w->p = peer_init(memory, &w->run, &config, w->now);
    peer_inject(w->p, (peer_faults){.carried_percent = w->carried_percent});
}

static inline void open_world(world *w, uint32_t self, member_kind kind) {
    begin_world(w, self, kind);
    step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(1)});
}

// It reads its store, in which it was the first of `voters`, and in which `state` stood.
static inline void recall_all(world *w, uint16_t voters, const log_entry *state, uint16_t entries) {
    log_entry base = {.kind = LOG_BASE, .index = entries, .term = 1, .u.base = {.entries = entries, .applied = entries, .voters.count = voters}};
    for (uint16_t i = 0; i < voters; i++) base.u.base.voters.voter[i] = (log_voter){.id = name_of(i + 1u), .store = i + 1u};
    w->log = entries;
    begin_world(w, 1, MEMBER_DATA);
    assert_true(peer_recall(w->p, &base));
    for (uint32_t i = 0; i < entries; i++) {
        log_entry entry = state[i];
        entry.index = i + 1u;
        assert_true(peer_recall(w->p, &entry));
    }
}

// The first of `voters` data peers, which began with another one and a relay. Iteration 0 may be
// over.
static inline void recall(world *w, uint16_t voters, bool one_is_over) {
    const log_member three[3] = {{.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(2), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2, .store = 2},
                                  {.peer = name_of(3), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3, .store = 3}};
    const log_entry state[] = {{.kind = LOG_MEMBER, .u.member = three[0]}, {.kind = LOG_MEMBER, .u.member = three[1]}, {.kind = LOG_MEMBER, .u.member = three[2]},
                               {.kind = LOG_OWNER, .u.owner = {.member = 2}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}, {.kind = LOG_FINAL, .u.final = {.skip = true, .stages = 2}}};
    if (w->run.stages == 0) w->run = run_of(2, 1, 1);
    recall_all(w, voters, state, sizeof state / sizeof *state - !one_is_over);
}

static inline void tick(world *w) {
    w->now += 100 * MILLISECOND;
    step(w, &(event){.kind = EVENT_TICK});
}

static inline bool leads(const world *w) {
    peer_view view;
    peer_look(w->p, &view);
    return view.leads;
}

static inline void answer(world *w, message_kind kind, bool pre_vote) {
    message m = {.kind = (uint8_t)kind};
    if (kind == MESSAGE_VOTED) m.u.voted = (message_voted){.to = 1, .from = 2, .term = 2, .pre_vote = pre_vote, .granted = true};
    else m.u.appended = (message_appended){.to = 1, .from = 2, .term = 2, .accepted = true, .match = w->last_appended};
    deliver(w, 2, &m, false);
}

// The other one of two voters comes and is for it.
static inline void be_elected(world *w) {
    step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(2)});
    answer(w, MESSAGE_VOTED, true);
    answer(w, MESSAGE_VOTED, false);
    answer(w, MESSAGE_APPENDED, false);
    assert_true(leads(w));
}

static inline void beat_at(world *w, uint32_t from, uint64_t reaches) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = reaches, .reaches = reaches}};
    deliver(w, from, &m, false);
}

static inline message_subject subject_of(const world *w, uint32_t m, uint16_t stage) {
    return (message_subject){.m = m, .stage = stage, .owner_term = w->owner_term[m % w->run.slots]};
}

#endif
