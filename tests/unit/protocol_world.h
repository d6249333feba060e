// One peer, stepped by hand: what it is told, and what it says to whom.
#ifndef BRAID_TESTS_PEER_WORLD_H
#define BRAID_TESTS_PEER_WORLD_H

#include "protocol/peer.h"

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
    bool busy;      // a job that was begun is not done
    uint32_t forward_held;  // 1 + the microbatch of which that holds for the forward
    bool exited;    // it has left
    bool diverges;  // a loss comes out that is not finite
    uint32_t recovers;  // ... until so many iterations are over, 0: for ever
    uint64_t checkpoint;  // version of the newest CHECKPOINT in its log
    bool failed;    // it said so when it left
    job_kind fails; // these jobs do
    bool founds;    // it begins the run
    braid_hash text;  // its private data
    uint32_t leader;  // whom its user names; 0: the first
    uint16_t voters;  // are wanted
    uint8_t carried_percent, upload_percent;
    job work;
    uint32_t asked; // whom it has sent a GET last
    uint32_t get_count, get_to[MOST_GETS];
    message get[MOST_GETS];
    bool carries_nothing, has_checkpoint;
    uint32_t refused;  // whom it has sent UNCARRIED last
    uint32_t sent_to[MESSAGE_KINDS];  // whom each kind last
    bool with_blob[MESSAGE_KINDS];    // ... and whether with a tensor
    uint64_t waiting_bytes;  // in the host
    uint32_t evicted;  // DENYs that say so
    uint32_t sent[MESSAGE_KINDS], told[TELL_KINDS];
    message probe[MOST];  // by whom it is to; what it has not answered is `probed`
    bool probed[MOST];
    log_entry append[MOST];  // what it has put into its store, and not heard of yet
    uint32_t appends;
    bool slow_store;         // ... until the test says so
    uint64_t newest;         // entry of its log
    uint8_t stored;          // what kind of record was its last
    uint32_t records[LOG_KINDS];
    message said;            // its last LOG
    message passed_on;       // its last FORWARD
    log_voters voting;       // its last VOTERS
    char dialed[MOST][WIRE_MAX_ADDRESS];  // where it looked for each last
} world;

static inline braid_id name_of(uint32_t number) { return (braid_id){.bytes = {(uint8_t)number, 1}}; }

static inline void step(world *w, const event *e);

static inline void do_job(world *w) {
    if (w->work.id == 0 || w->busy || (w->work.kind == JOB_FORWARD && w->work.m + 1 == w->forward_held)) return;
    job_result r = {.id = w->work.id, .kind = w->work.kind, .cost_ns = MILLISECOND, .finite = !(w->diverges && w->work.kind == JOB_LOSS && (w->recovers == 0 || w->told[TELL_ITERATION] < w->recovers)), .version = w->work.version};
    if (w->recovers > 0 && r.finite && w->work.kind == JOB_LOSS) r.tokens = 1;
    r.failed = w->fails != JOB_NONE && w->work.kind == w->fails;
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
    w->asked = out->id.bytes[0];
    if (w->get_count == MOST_GETS) return;
    w->get_to[w->get_count] = w->asked;
    assert_true(message_decode(out->bytes, out->byte_count, &w->get[w->get_count++]));
}

static inline void note_deny(world *w, const effect *out) {
    message m;
    assert_true(message_decode(out->bytes, out->byte_count, &m));
    w->evicted += m.u.deny.reason == DENY_EVICTED;
}

static inline void step(world *w, const event *e) {
    effect out;
    peer_step(w->p, w->now, e);
    while (peer_next_effect(w->p, &out)) {
        if (out.kind == EFFECT_JOB) w->work = *out.job;
        assert_true(out.kind != EFFECT_APPEND || w->appends < MOST);
        if (out.kind == EFFECT_APPEND) w->append[w->appends++] = *out.entry;
        if (out.kind == EFFECT_APPEND) w->stored = out.entry->kind;
        if (out.kind == EFFECT_APPEND) w->records[w->stored]++;
        if (out.kind == EFFECT_APPEND && out.entry->kind == LOG_VOTERS) w->voting = out.entry->u.voters;
        if (out.kind == EFFECT_APPEND && out.entry->kind < LOG_BASE) w->newest = out.entry->index;
        if (out.kind == EFFECT_APPEND && out.entry->kind == LOG_CHECKPOINT) w->checkpoint = out.entry->u.checkpoint.version;
        w->failed |= out.kind == EFFECT_EXIT && out.failed;
        if (out.kind == EFFECT_DIAL) snprintf(w->dialed[out.id.bytes[0]], WIRE_MAX_ADDRESS, "%s", out.address);
        w->exited |= out.kind == EFFECT_EXIT;
        if (out.kind == EFFECT_TELL) w->told[out.tell.kind]++;
        if (out.kind != EFFECT_SEND) continue;
        w->sent[out.message_kind]++;
        w->sent_to[out.message_kind] = out.id.bytes[0];
        w->with_blob[out.message_kind] = out.blob != 0;
        if (out.message_kind == MESSAGE_LOG) assert_true(message_decode(out.bytes, out.byte_count, &w->said));
        if (out.message_kind == MESSAGE_FORWARD) assert_true(message_decode(out.bytes, out.byte_count, &w->passed_on));
        if (out.message_kind == MESSAGE_GET) note_get(w, &out);
        if (out.message_kind == MESSAGE_DENY) note_deny(w, &out);
        if (out.message_kind == MESSAGE_UNCARRIED) w->refused = out.id.bytes[0];
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
                                .carries_nothing = w->carries_nothing, .has_checkpoint = w->has_checkpoint, .leader = w->founds, .voters = w->voters, .carried_percent = w->carried_percent, .upload_percent = w->upload_percent, .text = w->text};
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, peer_bytes(&w->run, &config)), 0);
    memset(memory, 0, peer_bytes(&w->run, &config));
    w->self = self;
    w->now = 1000 * MILLISECOND;
    w->p = peer_init(memory, &w->run, &config, w->now);
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

// The first of `voters` data peers, which began with another one and a relay. Iteration 0 may be over.
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

static inline void answer(world *w, message_kind kind, bool trial) {
    message m = {.kind = (uint8_t)kind};
    if (kind == MESSAGE_VOTED) m.u.voted = (message_voted){.to = 1, .from = 2, .term = 2, .trial = trial, .granted = true};
    else m.u.appended = (message_appended){.to = 1, .from = 2, .term = 2, .accepted = true, .match = w->newest};
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
