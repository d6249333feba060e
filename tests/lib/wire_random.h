// Random well-formed messages, for round trips and as a fuzzer's first corpus. Bytes that an
// encoding does not carry (unused entries, padding) are zero, so that two messages can be compared
// by memcmp.
#ifndef BRAID_TEST_WIRE_RANDOM_H
#define BRAID_TEST_WIRE_RANDOM_H

#include "seed.h"
#include "wire/message.h"

#include <string.h>

// `full`: every count at its maximum and no value zero, so that every byte of a body matters.
// `below`: if not 0, a bound on numbers, as in a small run, so that a receiver does not refuse them
// all at once.
typedef struct wire_random {
    rng *r;
    bool full;
    uint32_t below;
} wire_random;

static inline uint64_t random_u64(wire_random *w) {
    return w->below > 0 ? rng_below(w->r, w->below) : rng_next(w->r) | 1;
}
static inline uint32_t random_u32(wire_random *w) { return (uint32_t)random_u64(w); }
static inline uint64_t random_term(wire_random *w) { return random_u32(w); }
static inline uint8_t random_below(wire_random *w, uint8_t end) { return (uint8_t)rng_below(w->r, end); }
static inline bool random_bool(wire_random *w) { return rng_below(w->r, 2) == 1; }

static inline uint16_t random_count(wire_random *w, uint16_t maximum) {
    return w->full ? maximum : (uint16_t)rng_below(w->r, rng_below(w->r, 4) == 0 ? maximum + 1u : 4u);
}

static inline double random_f64(wire_random *w) {
    uint64_t bits = random_u64(w);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float random_f32(wire_random *w) {
    uint32_t bits = random_u32(w);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline braid_hash random_hash(wire_random *w) {
    braid_hash hash;
    random_bytes(w->r, hash.bytes, sizeof hash.bytes);
    return hash;
}

static inline void random_text(wire_random *w, char *text, uint16_t size) {
    uint16_t length = random_count(w, (uint16_t)(size - 1));
    memset(text, 0, size);
    for (uint16_t i = 0; i < length; i++) text[i] = (char)(' ' + random_below(w, '~' - ' ' + 1));
}

static inline void random_range(wire_random *w, uint32_t *first, uint32_t *count) {
    *first = random_u32(w);
    *count = w->below > 0 ? random_u32(w) : (uint32_t)rng_below(w->r, (uint64_t)UINT32_MAX - *first + 1);
}

static inline void random_set(wire_random *w, message_set *set) {
    memset(set, 0, sizeof *set);
    uint16_t words = random_count(w, WIRE_SET_WORDS);
    for (uint16_t i = 0; i < words; i++) set->words[i] = random_u64(w);
}

static inline void random_path(wire_random *w, message_path *path) {
    path->stages = random_count(w, WIRE_MAX_STAGES);
    for (uint16_t i = 0; i < path->stages; i++) path->member[i] = random_u64(w);
}

static inline uint16_t random_stage(wire_random *w) {
    return random_below(w, w->below > 0 && w->below < WIRE_MAX_STAGES ? (uint8_t)w->below : WIRE_MAX_STAGES);
}

static inline void random_subject(wire_random *w, message_subject *s) {
    s->m = random_u32(w);
    s->stage = random_stage(w);
    s->owner_term = random_u64(w);
}

static inline void random_round(wire_random *w, uint16_t *stage, uint64_t *term, uint64_t *round) {
    *stage = random_stage(w);
    *term = random_term(w);
    *round = random_u64(w);
}

static inline void random_close(wire_random *w, log_close *close) {
    close->iteration = random_u64(w);
    random_set(w, &close->counted);
    random_set(w, &close->voided);
    close->tokens = random_u64(w);
    close->loss = random_f64(w);
}

static inline void random_final(wire_random *w, log_final *final) {
    final->iteration = random_u64(w);
    final->skip = random_bool(w);
    final->last = random_bool(w);
    final->close_index = random_u64(w);
    final->norm2 = random_f64(w);
    final->clip = random_f32(w);
    final->learning_rate = random_f32(w);
    final->bias1 = random_f32(w);
    final->bias2 = random_f32(w);
    final->stages = random_count(w, WIRE_MAX_STAGES);
    for (uint16_t i = 0; i < final->stages; i++) {
        final->round[i] = random_u64(w);
        final->result_root[i] = random_hash(w);
        final->state_root[i] = random_hash(w);
    }
}

static inline void random_voters(wire_random *w, log_voters *voters) {
    voters->count = (uint16_t)(1 + random_count(w, WIRE_MAX_VOTERS - 1));
    for (uint16_t i = 0; i < voters->count; i++) {
        random_bytes(w->r, voters->voter[i].id.bytes, BRAID_ID_BYTES);
        voters->voter[i].store = random_u64(w);
        random_text(w, voters->voter[i].address, WIRE_MAX_ADDRESS);
    }
}

static inline void random_log_entry(wire_random *w, uint8_t kind, log_entry *e) {
    memset(e, 0, sizeof *e);
    e->index = random_u64(w);
    e->term = random_term(w);
    e->kind = kind;
    switch (kind) {
    case LOG_RUN:
        e->u.run.description = random_hash(w);
        e->u.run.generation = random_u64(w);
        e->u.run.start_version = random_u64(w);
        e->u.run.reached = random_u64(w);
        e->u.run.lost = random_stage(w);
        break;
    case LOG_MEMBER:
        random_bytes(w->r, e->u.member.peer.bytes, BRAID_ID_BYTES);
        e->u.member.stage = random_stage(w);
        e->u.member.kind = w->full ? MEMBER_SHADOW : random_below(w, MEMBER_KIND_COUNT);
        e->u.member.capacity = random_u32(w);
        e->u.member.incarnation = random_u64(w);
        e->u.member.store = random_u64(w);
        if (e->u.member.kind == MEMBER_SHADOW) random_bytes(w->r, e->u.member.host.bytes, BRAID_ID_BYTES);
        random_text(w, e->u.member.address, WIRE_MAX_ADDRESS);
        break;
    case LOG_EXPEL:
        e->u.expel.member = random_u64(w);
        e->u.expel.reason = random_below(w, EXPEL_REASONS);
        break;
    case LOG_OWNER:
        e->u.owner.slot = random_below(w, WIRE_MAX_SLOTS);
        e->u.owner.member = random_u64(w);
        break;
    case LOG_CLOSE: random_close(w, &e->u.close); break;
    case LOG_FINAL: random_final(w, &e->u.final); break;
    case LOG_CHECKPOINT:
        e->u.checkpoint.version = random_u64(w);
        e->u.checkpoint.weights = random_hash(w);
        e->u.checkpoint.stages = random_count(w, WIRE_MAX_STAGES);
        for (uint32_t i = 0; i < e->u.checkpoint.stages; i++) e->u.checkpoint.state_root[i] = random_hash(w);
        break;
    case LOG_LEAD: random_bytes(w->r, e->u.lead.leader.bytes, BRAID_ID_BYTES); break;
    case LOG_PROMOTE: e->u.promote.member = random_u64(w); break;
    case LOG_END: break;
    case LOG_VOTERS: random_voters(w, &e->u.voters); break;
    case LOG_SHARE:
        e->u.share.share = random_below(w, WIRE_MAX_SLOTS);
        random_bytes(w->r, e->u.share.peer.bytes, BRAID_ID_BYTES);
        e->u.share.text = random_hash(w);
        break;
    case LOG_BASE:
        e->u.base.applied = random_u64(w);
        e->u.base.entries = random_u32(w);
        random_voters(w, &e->u.base.voters);
        break;
    case LOG_VOTE:
        e->u.vote.given = random_bool(w);
        random_bytes(w->r, e->u.vote.candidate.bytes, BRAID_ID_BYTES);
        e->u.vote.store = random_u64(w);
        break;
    default: break;
    }
}

static inline void random_parcel(wire_random *w, message_parcel *p) {
    p->serial = random_u32(w);
    p->pieces = random_count(w, WIRE_MAX_PIECES);
}

static inline void random_forward(wire_random *w, message_forward *b) {
    random_subject(w, &b->subject);
    b->owner = random_u64(w);
    b->forward_to = random_stage(w);
    b->home = random_bool(w);
    b->repair = random_bool(w);
    b->hash = random_u64(w);
    random_parcel(w, &b->parcel);
    random_path(w, &b->path);
    b->ahead_count = random_count(w, WIRE_MAX_AHEAD);
    for (uint32_t i = 0; i < b->ahead_count; i++) b->ahead[i] = (message_ahead){random_u32(w), random_u32(w) >> 2, random_u32(w), random_u32(w)};
}

static inline void random_backward(wire_random *w, message_backward *b) {
    random_subject(w, &b->subject);
    b->owner = random_u64(w);
    b->back_to = random_stage(w);
    b->repair = random_bool(w);
    b->hash = random_u64(w);
    random_parcel(w, &b->parcel);
    random_path(w, &b->path);
}

static inline void random_accept(wire_random *w, message_accept *b) {
    random_subject(w, &b->subject);
    b->phase = random_below(w, PHASE_COUNT);
    b->eta_ns = random_u64(w);
}

static inline void random_complete(wire_random *w, message_complete *b) {
    random_subject(w, &b->subject);
    b->phase = random_below(w, PHASE_COUNT);
    b->hash = random_u64(w);
    b->compute_ns = random_u64(w);
}

static inline void random_deny(wire_random *w, message_deny *b) {
    random_subject(w, &b->subject);
    b->phase = random_below(w, PHASE_COUNT);
    b->reason = random_below(w, DENY_REASONS);
    if (b->reason == DENY_FULL) b->phase = PHASE_FORWARD;
    if (b->reason == DENY_MISSING) b->phase = PHASE_BACKWARD;
}

static inline void random_deny_commit(wire_random *w, message_deny_commit *b) {
    random_subject(w, &b->subject);
    b->reason = random_below(w, COMMIT_REFUSALS);
    b->rev = random_u32(w);
}

static inline void random_deny_resume(wire_random *w, message_deny_resume *b) { random_subject(w, &b->subject); }

static inline void random_no_peer(wire_random *w, message_no_peer *b) { random_subject(w, &b->subject); }

static inline void random_evicted(wire_random *w, message_evicted *b) { random_subject(w, &b->subject); }

static inline void random_deny_get(wire_random *w, message_deny_get *b) {
    b->what = random_below(w, GET_KINDS);
    b->stage = random_stage(w);
    b->first = random_u32(w);
    b->reason = w->full ? GET_LATER : random_below(w, GET_REFUSALS);
    if (b->reason == GET_LATER) b->wait_ms = w->below > 0 ? 1 + random_u32(w) : random_u32(w);
}

static inline void random_trace(wire_random *w, message_trace *b) {
    random_subject(w, &b->subject);
    b->phase = random_below(w, TRACE_PHASES);
    b->eta_ns = random_u64(w);
    b->next = random_u64(w);
}

static inline void random_cancel(wire_random *w, message_cancel *b) { random_subject(w, &b->subject); }

static inline void random_suspect(wire_random *w, message_suspect *b) {
    b->member = random_u64(w);
    b->has_subject = w->full || random_bool(w);
    if (!b->has_subject) return;
    random_subject(w, &b->subject);
    b->phase = random_below(w, PHASE_COUNT);
}

static inline void random_probe(wire_random *w, message_probe *b) {
    random_subject(w, &b->subject);
    b->nonce = random_u64(w);
}

static inline void random_survey(wire_random *w, message_survey *b) { b->owner_term = random_u64(w); }

static inline void random_lines(wire_random *w, message_lines *b) {
    b->count = random_count(w, WIRE_MAX_LINES);
    for (uint32_t i = 0; i < b->count; i++) {
        b->line[i].member = random_u32(w);
        b->line[i].cost = random_u32(w) >> 2;
        b->line[i].way = random_u32(w) >> 2;
    }
}

static inline void random_sound(wire_random *w, message_sound *b) {
    b->train = random_u32(w);
    b->count = (uint16_t)(1 + rng_below(w->r, 1000));
    b->index = (uint16_t)rng_below(w->r, b->count);
    b->padding = random_count(w, WIRE_MAX_SOUND_BYTES);
}

static inline void random_carry(wire_random *w, message_carry *b) {
    b->origin = random_u64(w);
    b->to = random_u64(w);
    b->serial = random_u32(w);
    b->count = (uint16_t)(1 + rng_below(w->r, WIRE_MAX_PIECES));
    b->index = (uint16_t)rng_below(w->r, b->count);
}

static inline void random_carry_chunks(wire_random *w, message_carry_chunks *b) {
    b->origin = random_u64(w);
    b->to = random_u64(w);
    b->serial = random_u32(w);
    b->what = random_bool(w) ? GET_PART : GET_RESULT;
    b->stage = random_stage(w);
    b->count = (uint16_t)(1 + rng_below(w->r, WIRE_MAX_CARRIED_BLOCKS));
}

static inline void random_uncarried_chunks(wire_random *w, message_uncarried_chunks *b) { b->serial = random_u32(w); }

static inline void random_uncarried(wire_random *w, message_uncarried *b) { b->serial = random_u32(w); }

static inline void random_sounded(wire_random *w, message_sounded *b) {
    b->train = random_u32(w);
    b->bytes = random_u32(w);
    b->ns = random_u64(w);
}

static inline void random_holdings(wire_random *w, message_holdings *b) {
    b->owner_term = random_u64(w);
    random_set(w, &b->held);
    random_set(w, &b->forward);
    random_set(w, &b->returning);
    random_set(w, &b->backward);
    random_set(w, &b->committed);
}

static inline void random_status(wire_random *w, message_status *b) {
    random_subject(w, &b->subject);
    b->nonce = random_u64(w);
    b->has_x = random_bool(w);
    b->has_y = random_bool(w);
    b->has_dy = random_bool(w);
    b->has_dx = random_bool(w);
    b->forward_done = random_bool(w);
    b->backward_done = random_bool(w);
    b->working = random_bool(w);
    b->forwarding = random_bool(w);
    b->counted = random_bool(w);
    b->rev = random_u32(w);
    b->eta_ns = random_u64(w);
}

static inline void random_resume(wire_random *w, message_resume *b) {
    random_subject(w, &b->subject);
    b->owner = random_u64(w);
    b->phase = random_below(w, PHASE_BACKWARD + 1);
    b->until = random_stage(w);
    random_path(w, &b->path);
}

static inline void random_commit(wire_random *w, message_commit *b) {
    random_subject(w, &b->subject);
    b->rev = random_u32(w);
    b->tokens = random_u32(w);
    random_path(w, &b->path);
}

static inline void random_counted(wire_random *w, message_counted *b) {
    random_subject(w, &b->subject);
    b->rev = random_u32(w);
    b->overflow = random_bool(w);
}

static inline void random_settled(wire_random *w, message_settled *b) {
    random_subject(w, &b->subject);
    b->is_void = random_bool(w);
    b->overflow = random_bool(w);
    b->tokens = random_u32(w);
    b->loss = random_f64(w);
    random_path(w, &b->path);
    for (uint16_t i = 0; i < b->path.stages; i++) b->rev[i] = random_u32(w);
}

static inline void random_begin(wire_random *w, message_begin *b) {
    random_round(w, &b->stage, &b->term, &b->round);
    b->close_index = random_u64(w);
    b->tokens = random_u64(w);
    b->parts = random_count(w, WIRE_MAX_STAGE_MEMBERS);
    b->owners = random_count(w, WIRE_MAX_STAGE_MEMBERS);
    for (uint16_t i = 0; i < b->parts; i++) {
        b->part[i].member = random_u64(w);
        random_set(w, &b->part[i].set);
    }
    for (uint16_t i = 0; i < b->owners; i++) {
        b->owner[i].member = random_u64(w);
        random_range(w, &b->owner[i].first, &b->owner[i].count);
    }
}

static inline void random_mismatch(wire_random *w, message_mismatch *b) {
    random_round(w, &b->stage, &b->term, &b->round);
    random_set(w, &b->set);
}

static inline void random_result(wire_random *w, message_result *b) {
    random_round(w, &b->stage, &b->term, &b->round);
    random_range(w, &b->first, &b->count);
}

static inline void random_reduced(wire_random *w, message_reduced *b) {
    random_round(w, &b->stage, &b->term, &b->round);
    b->overflow = random_bool(w);
    b->root = random_hash(w);
    b->tensors = random_count(w, WIRE_MAX_STAGE_TENSORS);
    for (uint32_t i = 0; i < b->tensors; i++) b->norm2[i] = random_f64(w);
}

static inline void random_state(wire_random *w, message_state *b) {
    b->stage = random_stage(w);
    b->version = random_u64(w);
    b->state_root = random_hash(w);
}

static inline void random_get(wire_random *w, message_get *b) {
    b->what = random_below(w, GET_KINDS);
    b->stage = random_stage(w);
    b->version = random_u64(w);
    random_range(w, &b->first, &b->count);
    if (b->what == GET_PART) b->set_digest = random_u64(w);
    if (b->what == GET_RESULT) b->close_index = random_u64(w);
    if (b->what != GET_PART && b->what != GET_RESULT) return;
    b->round = random_u64(w);
    if (!w->full && random_bool(w)) return;
    b->count = (uint32_t)rng_below(w->r, WIRE_MAX_CARRIED_BLOCKS + 1);
    if (b->first > UINT32_MAX - b->count) b->first = UINT32_MAX - b->count;
    b->by = random_u64(w);
    b->serial = b->by == 0 ? 0 : random_u32(w);
}

static inline void random_data(wire_random *w, message_data *b) {
    random_get(w, &b->get);
    b->hash = random_u64(w);
}

static inline void random_heartbeat(wire_random *w, message_heartbeat *b) {
    b->ready = random_u64(w);
    b->can_take = random_u64(w);
    b->free_slots = random_u32(w);
    b->queued = random_u32(w);
    b->progress = random_u64(w);
    b->forward_ns = random_u64(w);
    b->backward_ns = random_u64(w);
    b->leads = random_term(w);
    b->reaches = random_u64(w);
    b->saved = random_u64(w);
}

static inline void random_can_take(wire_random *w, message_can_take *b) {
    b->iteration = random_u64(w);
    b->stage = random_stage(w);
    b->free_slots = random_u32(w);
}

static inline void random_get_log(wire_random *w, message_get_log *b) { b->from = random_u64(w); }

static inline void random_log(wire_random *w, message_log *b) {
    b->reset = random_bool(w);
    b->previous = random_u64(w);
    random_log_entry(w, (uint8_t)(1 + random_below(w, LOG_VOTE - 1)), &b->entry);
}

static inline void random_join(wire_random *w, message_join *b) {
    b->kind = w->full ? MEMBER_SHADOW : random_below(w, MEMBER_KIND_COUNT);
    b->stage = random_below(w, WIRE_MAX_STAGES);
    b->capacity = random_u32(w);
    b->incarnation = random_u64(w);
    b->store = random_u64(w);
    b->share = random_below(w, WIRE_MAX_SLOTS + 1);
    b->text = random_hash(w);
    if (b->kind == MEMBER_SHADOW) random_bytes(w->r, b->host.bytes, BRAID_ID_BYTES);
    random_text(w, b->address, WIRE_MAX_ADDRESS);
}

static inline void random_leave(wire_random *w, message_leave *b) {
    b->reason = random_below(w, EXPEL_REASONS);
}

static inline void random_dismiss(wire_random *w, message_dismiss *b) { b->refusal = random_below(w, REFUSALS); }

static inline void random_ballot(wire_random *w, uint64_t *to, uint64_t *from, uint64_t *term) {
    *to = random_u64(w);
    *from = random_u64(w);
    *term = random_term(w);
}

static inline void random_vote(wire_random *w, message_vote *b) {
    random_ballot(w, &b->to, &b->from, &b->term);
    b->pre_vote = random_bool(w);
    b->hand_over = random_bool(w);
    b->last_index = random_u64(w);
    b->last_term = random_term(w);
}

static inline void random_voted(wire_random *w, message_voted *b) {
    random_ballot(w, &b->to, &b->from, &b->term);
    b->pre_vote = random_bool(w);
    b->granted = random_bool(w);
}

static inline void random_append(wire_random *w, message_append *b) {
    random_ballot(w, &b->to, &b->from, &b->term);
    b->previous = random_u64(w);
    b->previous_term = random_term(w);
    b->committed = random_u64(w);
    b->election_timeout_ns = random_u64(w);
    b->clock_ns = random_u64(w);
    b->has_entry = w->full || random_bool(w);
    if (b->has_entry) random_log_entry(w, (uint8_t)(1 + random_below(w, LOG_VOTE - 1)), &b->entry);
}

static inline void random_appended(wire_random *w, message_appended *b) {
    random_ballot(w, &b->to, &b->from, &b->term);
    b->accepted = random_bool(w);
    b->clock_ns = random_u64(w);
    if (b->accepted) {
        b->match = random_u64(w);
        return;
    }
    b->previous = random_u64(w);
    b->hint = random_u64(w);
}

static inline void random_hand_over(wire_random *w, message_hand_over *b) { random_ballot(w, &b->to, &b->from, &b->term); }

static inline void random_leader(wire_random *w, message_leader *b) {
    b->term = random_term(w);
    random_bytes(w->r, b->id.bytes, BRAID_ID_BYTES);
    random_text(w, b->address, WIRE_MAX_ADDRESS);
}

// The fields of each kind of part, and its words: the maximum and the step.
static inline void random_part(wire_random *w, route_part *p, uint32_t room) {
    bool any = p->kind >= ROUTE_OFFER && p->kind <= ROUTE_RELINK, home = p->kind == ROUTE_HOME, loads = p->kind == ROUTE_ADVERT_OF_LOADS;
    bool bid = p->kind == ROUTE_FLOW_OF_BID, way = p->kind == ROUTE_WAY, map = p->kind == ROUTE_MAP;
    bool token = any || (p->kind >= ROUTE_FLOW_OF_TOKEN && p->kind != ROUTE_DENY && !loads && !bid && !home && !way && !map);
    bool query = p->kind == ROUTE_QUERY, change = any && !query;
    bool counts = bid || p->kind == ROUTE_FLOW || p->kind == ROUTE_FLOW_OF_TOKEN || p->kind == ROUTE_COMMIT;
    if (p->kind == ROUTE_LABEL) p->side = random_below(w, 3);
    if (any || counts || p->kind == ROUTE_ABORT) p->why = (uint8_t)random_u64(w);
    uint16_t *place = way ? &p->on_path : &p->token.position;
    if (token || way) *place = (uint16_t)rng_below(w->r, w->below > 0 ? w->below : 4096);
    if (token) p->token.origin = random_u32(w) >> 1;
    if (token) p->token.serial = random_u32(w);
    if (p->kind != ROUTE_ABORT && !map) p->source = random_u32(w) >> (w->below == 0);
    bool cost = change || home || bid || p->kind == ROUTE_LABEL || p->kind == ROUTE_ADVERT || loads || p->kind == ROUTE_LOCK;
    if (cost) p->cost = (int64_t)(rng_next(w->r) >> (w->below > 0 ? 50 : 6)) * (random_bool(w) ? 1 : -1);
    if (p->kind != ROUTE_LABEL && p->kind != ROUTE_ABORT && !home && !map && !query) p->units = random_u32(w) % (WIRE_MAX_ROUTE_UNITS + 1);
    if (counts || way) p->taken_back = random_u32(w) >> 1;
    if (loads) p->scale = random_u32(w) >> 1;
    if (change) p->turn = random_u32(w);
    if (query) p->epoch.number = random_u64(w) >> 8;
    if (query) p->epoch.plan = random_u32(w);
    if (query) p->epoch.attempts = random_u32(w) % (WIRE_MAX_ROUTE_UNITS + 1);
    if (p->kind == ROUTE_COMMIT) p->moved = random_u32(w) % (WIRE_MAX_ROUTE_UNITS + 1);
    uint16_t most = p->kind == ROUTE_LABEL ? 40 : p->kind == ROUTE_LOCK ? 44 : way ? 63 : any || map ? 160 : 0;
    uint32_t each = p->kind == ROUTE_LABEL ? 3 : 1;
    if (most > room / each) most = (uint16_t)(room / each);
    p->words = (uint16_t)(each * random_count(w, most));
    if (!w->full && p->words > each * most) p->words = (uint16_t)(each * most);
}

static inline void random_route(wire_random *w, message_route *b) {
    b->session = random_u32(w);
    b->heard = random_u32(w);
    b->sequence = random_u32(w);
    b->epoch = random_u64(w);
    b->cost = random_u32(w) >> (w->below == 0 ? 2 : 0);
    b->sent_us = random_u32(w);
    b->echo_us = random_u32(w);
    b->held_us = random_u32(w);
    b->parts = random_count(w, WIRE_MAX_ROUTE_PARTS);
    for (uint32_t i = 0, used = 0; i < b->parts; i++) {
        route_part *p = &b->part[i];
        p->kind = w->full ? (uint8_t)(i % ROUTE_KINDS) : random_below(w, ROUTE_KINDS);
        random_part(w, p, WIRE_MAX_ROUTE_WORDS - used);
        bool label = p->kind == ROUTE_LABEL;
        for (uint32_t j = 0; j < p->words; j++) {
            // a label's costs are within bounds: their upper half is small, of either sign
            b->word[used + j] = label && j % 3 == 2 ? (uint32_t)rng_below(w->r, 1 << 25) : random_u32(w);
        }
        used += p->words;
    }
}

static inline void random_place(wire_random *w, message_place *place) {
    for (uint32_t i = 0; i < WIRE_VIEW_AXES; i++) place->at[i] = (int32_t)(random_u32(w) >> 2) * (random_bool(w) ? 1 : -1);
    place->height = (int32_t)(random_u32(w) >> 2);
    place->error = (uint16_t)rng_below(w->r, 1001);
}

static inline void random_view(wire_random *w, message_view *b) {
    b->kind = w->full ? (uint8_t)GOSSIP_REPLY : random_below(w, GOSSIP_KINDS);
    bool sample = b->kind == GOSSIP_SAMPLE, reply = b->kind == GOSSIP_REPLY, pong = b->kind == GOSSIP_PONG;
    b->linked = random_below(w, 4);
    random_place(w, &b->place);
    if (!sample) b->side = random_below(w, 3);
    if (reply || pong || (b->kind >= GOSSIP_ASK && b->kind <= GOSSIP_NO)) {
        b->by_chance = random_bool(w);
        b->cost = random_u32(w) >> 2;
    }
    if (sample || reply || pong || b->kind == GOSSIP_PING) {
        uint32_t *clock = reply || pong ? &b->echo_us : &b->clock_us;
        *clock = random_u32(w);
        b->rate_out = random_u32(w);
        b->rate_in = random_u32(w);
        b->rate_here = random_u32(w);
    }
    b->cards = sample || reply ? random_count(w, WIRE_MAX_VIEW_CARDS) : 0;
    for (uint32_t i = 0; i < b->cards; i++) {
        b->card[i].member = 1 + (random_u32(w) >> 2);
        b->card[i].age = (uint16_t)rng_below(w->r, 257);
        random_place(w, &b->card[i].place);
    }
}

static inline void random_message(wire_random *w, uint8_t kind, message *msg) {
    memset(msg, 0, sizeof *msg);
    msg->kind = kind;
    msg->iteration = random_u64(w);
    msg->sender = random_u64(w);
    msg->log_position = random_u64(w);
    switch (kind) {
#define X(upper, lower) \
    case MESSAGE_##upper: random_##lower(w, &msg->u.lower); break;
        WIRE_MESSAGES(X)
#undef X
    default: break;
    }
}

#endif
