// The layout of the messages, one function per kind. Fields keep the order of wire/message.h,
// except that a count precedes its entries.
#include "wire/message.h"

#include "wire/codec.h"
#include "wire/layout.h"

#include <stddef.h>
#include <string.h>

static void code_subject(codec *c, message_subject *subject) {
    codec_u32(c, &subject->m);
    codec_u16_below(c, &subject->stage, WIRE_MAX_STAGES + 1);
    codec_u64(c, &subject->owner_term);
}

static void code_parcel(codec *c, message_parcel *parcel) {
    codec_u32(c, &parcel->serial);
    codec_u16_below(c, &parcel->pieces, WIRE_MAX_PIECES + 1);
}

static void code_forward(codec *c, message_forward *forward) {
    code_subject(c, &forward->subject);
    codec_u64(c, &forward->owner);
    codec_u16_below(c, &forward->forward_to, WIRE_MAX_STAGES + 1);
    codec_bool(c, &forward->home);
    codec_bool(c, &forward->repair);
    codec_u64(c, &forward->hash);
    code_parcel(c, &forward->parcel);
    codec_path(c, &forward->path);
    uint32_t ahead = codec_count32(c, &forward->ahead_count, WIRE_MAX_AHEAD);
    for (uint32_t i = 0; i < ahead; i++) {
        codec_u32(c, &forward->ahead[i].member);
        codec_u32(c, &forward->ahead[i].after_us);
        codec_require(c, forward->ahead[i].after_us <= WIRE_MAX_LINK_COST);
        codec_u32(c, &forward->ahead[i].by);
        codec_u32(c, &forward->ahead[i].back_by);
    }
}

static void code_backward(codec *c, message_backward *backward) {
    code_subject(c, &backward->subject);
    codec_u64(c, &backward->owner);
    codec_u16_below(c, &backward->back_to, WIRE_MAX_STAGES + 1);
    codec_bool(c, &backward->repair);
    codec_u64(c, &backward->hash);
    code_parcel(c, &backward->parcel);
    codec_path(c, &backward->path);
}

static void code_accept(codec *c, message_accept *accept) {
    code_subject(c, &accept->subject);
    codec_u8_below(c, &accept->phase, PHASE_COUNT);
    codec_u64(c, &accept->eta_ns);
}

static void code_complete(codec *c, message_complete *complete) {
    code_subject(c, &complete->subject);
    codec_u8_below(c, &complete->phase, PHASE_COUNT);
    codec_u64(c, &complete->hash);
    codec_u64(c, &complete->compute_ns);
}

static void code_deny(codec *c, message_deny *deny) {
    code_subject(c, &deny->subject);
    codec_u8_below(c, &deny->phase, PHASE_COUNT);
    codec_u8_below(c, &deny->reason, DENY_REASONS);
    codec_require(c, deny->reason != DENY_FULL || deny->phase == PHASE_FORWARD);
    codec_require(c, deny->reason != DENY_MISSING || deny->phase == PHASE_BACKWARD);
}

static void code_deny_commit(codec *c, message_deny_commit *deny) {
    code_subject(c, &deny->subject);
    codec_u8_below(c, &deny->reason, COMMIT_REFUSALS);
    codec_u32(c, &deny->rev);
}

static void code_deny_resume(codec *c, message_deny_resume *deny) { code_subject(c, &deny->subject); }

static void code_deny_get(codec *c, message_deny_get *deny) {
    codec_u8_below(c, &deny->what, GET_KINDS);
    codec_u16_below(c, &deny->stage, WIRE_MAX_STAGES);
    codec_u32(c, &deny->first);
    codec_u8_below(c, &deny->reason, GET_REFUSALS);
    codec_u32(c, &deny->wait_ms);
    codec_require(c, (deny->wait_ms > 0) == (deny->reason == GET_LATER));
}

static void code_no_peer(codec *c, message_no_peer *no_peer) { code_subject(c, &no_peer->subject); }

static void code_evicted(codec *c, message_evicted *evicted) { code_subject(c, &evicted->subject); }

static void code_trace(codec *c, message_trace *trace) {
    code_subject(c, &trace->subject);
    codec_u8_below(c, &trace->phase, TRACE_PHASES);
    codec_u64(c, &trace->eta_ns);
    codec_u64(c, &trace->next);
}

static void code_cancel(codec *c, message_cancel *cancel) { code_subject(c, &cancel->subject); }

static void code_suspect(codec *c, message_suspect *suspect) {
    codec_u64(c, &suspect->member);
    codec_bool(c, &suspect->has_subject);
    if (!suspect->has_subject) return;
    code_subject(c, &suspect->subject);
    codec_u8_below(c, &suspect->phase, PHASE_COUNT);
}

static void code_probe(codec *c, message_probe *probe) {
    code_subject(c, &probe->subject);
    codec_u64(c, &probe->nonce);
}

static void code_status(codec *c, message_status *status) {
    code_subject(c, &status->subject);
    codec_u64(c, &status->nonce);
    codec_bool(c, &status->has_x);
    codec_bool(c, &status->has_y);
    codec_bool(c, &status->has_dy);
    codec_bool(c, &status->has_dx);
    codec_bool(c, &status->forward_done);
    codec_bool(c, &status->backward_done);
    codec_bool(c, &status->working);
    codec_bool(c, &status->forwarding);
    codec_bool(c, &status->counted);
    codec_u32(c, &status->rev);
    codec_u64(c, &status->eta_ns);
}

static void code_resume(codec *c, message_resume *resume) {
    code_subject(c, &resume->subject);
    codec_u64(c, &resume->owner);
    codec_u8_below(c, &resume->phase, PHASE_BACKWARD + 1);
    codec_u16_below(c, &resume->until, WIRE_MAX_STAGES + 1);
    codec_path(c, &resume->path);
}

static void code_commit(codec *c, message_commit *commit) {
    code_subject(c, &commit->subject);
    codec_u32(c, &commit->rev);
    codec_u32(c, &commit->tokens);
    codec_path(c, &commit->path);
}

static void code_counted(codec *c, message_counted *counted) {
    code_subject(c, &counted->subject);
    codec_u32(c, &counted->rev);
    codec_bool(c, &counted->overflow);
}

static void code_settled(codec *c, message_settled *settled) {
    code_subject(c, &settled->subject);
    codec_bool(c, &settled->is_void);
    codec_bool(c, &settled->overflow);
    codec_u32(c, &settled->tokens);
    codec_f64(c, &settled->loss);
    codec_path(c, &settled->path);
    uint32_t stages = c->failed ? 0 : settled->path.stages;
    for (uint32_t i = 0; i < stages; i++) codec_u32(c, &settled->rev[i]);
}

// Identifies one aggregation attempt of one stage.
static void code_round(codec *c, uint16_t *stage, uint64_t *term, uint64_t *round) {
    codec_u16_below(c, stage, WIRE_MAX_STAGES);
    codec_term(c, term);
    codec_u64(c, round);
}

static void code_begin(codec *c, message_begin *begin) {
    code_round(c, &begin->stage, &begin->term, &begin->round);
    codec_u64(c, &begin->close_index);
    codec_u64(c, &begin->tokens);
    uint32_t parts = codec_count16(c, &begin->parts, WIRE_MAX_STAGE_MEMBERS);
    for (uint32_t i = 0; i < parts; i++) {
        codec_u64(c, &begin->part[i].member);
        codec_set(c, &begin->part[i].set);
    }
    uint32_t owners = codec_count16(c, &begin->owners, WIRE_MAX_STAGE_MEMBERS);
    for (uint32_t i = 0; i < owners; i++) {
        codec_u64(c, &begin->owner[i].member);
        codec_range(c, &begin->owner[i].first, &begin->owner[i].count);
    }
}

static void code_mismatch(codec *c, message_mismatch *mismatch) {
    code_round(c, &mismatch->stage, &mismatch->term, &mismatch->round);
    codec_set(c, &mismatch->set);
}

static void code_result(codec *c, message_result *result) {
    code_round(c, &result->stage, &result->term, &result->round);
    codec_range(c, &result->first, &result->count);
}

static void code_reduced(codec *c, message_reduced *reduced) {
    code_round(c, &reduced->stage, &reduced->term, &reduced->round);
    codec_bool(c, &reduced->overflow);
    codec_hash(c, &reduced->root);
    uint32_t tensors = codec_count32(c, &reduced->tensors, WIRE_MAX_STAGE_TENSORS);
    for (uint32_t i = 0; i < tensors; i++) codec_f64(c, &reduced->norm2[i]);
}

static void code_state(codec *c, message_state *state) {
    codec_u16_below(c, &state->stage, WIRE_MAX_STAGES);
    codec_u64(c, &state->version);
    codec_hash(c, &state->state_root);
}

static void code_get(codec *c, message_get *get) {
    codec_u8_below(c, &get->what, GET_KINDS);
    codec_u16_below(c, &get->stage, WIRE_MAX_STAGES);
    codec_range(c, &get->first, &get->count);
    codec_u64(c, &get->version);
    if (get->what == GET_PART) codec_u64(c, &get->set_digest);
    else codec_require(c, get->set_digest == 0);
    if (get->what == GET_RESULT) codec_u64(c, &get->close_index);
    else codec_require(c, get->close_index == 0);
    if (get->what != GET_PART && get->what != GET_RESULT) {
        codec_require(c, get->round == 0 && get->by == 0 && get->serial == 0);
        return;
    }
    codec_u64(c, &get->round);
    codec_u64(c, &get->by);
    codec_u32(c, &get->serial);
    codec_require(c, get->by == 0 ? get->serial == 0 : get->count <= WIRE_MAX_CARRIED_BLOCKS);
}

static void code_data(codec *c, message_data *data) {
    code_get(c, &data->get);
    codec_u64(c, &data->hash);
}

static void code_heartbeat(codec *c, message_heartbeat *heartbeat) {
    codec_u64(c, &heartbeat->ready);
    codec_u64(c, &heartbeat->can_take);
    codec_u32(c, &heartbeat->free_slots);
    codec_u32(c, &heartbeat->queued);
    codec_u64(c, &heartbeat->progress);
    codec_u64(c, &heartbeat->forward_ns);
    codec_u64(c, &heartbeat->backward_ns);
    codec_term(c, &heartbeat->leads);
    codec_u64(c, &heartbeat->reaches);
    codec_u64(c, &heartbeat->saved);
}

static void code_can_take(codec *c, message_can_take *can_take) {
    codec_u64(c, &can_take->iteration);
    codec_u16_below(c, &can_take->stage, WIRE_MAX_STAGES);
    codec_u32(c, &can_take->free_slots);
}

static void code_get_log(codec *c, message_get_log *get_log) { codec_u64(c, &get_log->from); }

static void code_log(codec *c, message_log *log) {
    codec_bool(c, &log->reset);
    codec_u64(c, &log->previous);
    codec_log_entry(c, &log->entry);
    // other kinds are records of a durable log; LOG_BASE announces that a snapshot ends here
    codec_require(c, log->entry.kind <= LOG_BASE);
}

static void code_join(codec *c, message_join *join) {
    codec_u8_below(c, &join->kind, MEMBER_KIND_COUNT);
    codec_u16_below(c, &join->stage, WIRE_MAX_STAGES);
    codec_u32(c, &join->capacity);
    codec_u64(c, &join->incarnation);
    codec_u64(c, &join->store);
    codec_u16_below(c, &join->share, WIRE_MAX_SLOTS + 1);
    codec_hash(c, &join->text);
    if (join->kind == MEMBER_SHADOW) codec_id(c, &join->host);
    codec_text(c, join->address, sizeof join->address);
}

static void code_leave(codec *c, message_leave *leave) {
    codec_u8_below(c, &leave->reason, EXPEL_REASONS);
}

static void code_dismiss(codec *c, message_dismiss *dismiss) { codec_u8_below(c, &dismiss->refusal, REFUSALS); }

static void code_ballot(codec *c, uint64_t *to, uint64_t *from, uint64_t *term) {
    codec_u64(c, to);
    codec_u64(c, from);
    codec_term(c, term);
}

static void code_vote(codec *c, message_vote *vote) {
    code_ballot(c, &vote->to, &vote->from, &vote->term);
    codec_bool(c, &vote->pre_vote);
    codec_bool(c, &vote->hand_over);
    codec_u64(c, &vote->last_index);
    codec_term(c, &vote->last_term);
}

static void code_voted(codec *c, message_voted *voted) {
    code_ballot(c, &voted->to, &voted->from, &voted->term);
    codec_bool(c, &voted->pre_vote);
    codec_bool(c, &voted->granted);
}

static void code_append(codec *c, message_append *append) {
    code_ballot(c, &append->to, &append->from, &append->term);
    codec_u64(c, &append->previous);
    codec_term(c, &append->previous_term);
    codec_u64(c, &append->committed);
    codec_u64(c, &append->election_timeout_ns);
    codec_u64(c, &append->clock_ns);
    codec_bool(c, &append->has_entry);
    if (!append->has_entry) return;
    codec_log_entry(c, &append->entry);
    codec_require(c, append->entry.kind != LOG_VOTE);
}

static void code_appended(codec *c, message_appended *appended) {
    code_ballot(c, &appended->to, &appended->from, &appended->term);
    codec_bool(c, &appended->accepted);
    codec_u64(c, &appended->clock_ns);
    if (appended->accepted) {
        codec_u64(c, &appended->match);
        codec_require(c, appended->previous == 0 && appended->hint == 0);
        return;
    }
    codec_u64(c, &appended->previous);
    codec_u64(c, &appended->hint);
    codec_require(c, appended->match == 0);
}

static void code_hand_over(codec *c, message_hand_over *hand_over) { code_ballot(c, &hand_over->to, &hand_over->from, &hand_over->term); }

static void code_leader(codec *c, message_leader *leader) {
    codec_term(c, &leader->term);
    codec_id(c, &leader->id);
    codec_text(c, leader->address, sizeof leader->address);
}

static void code_route(codec *c, message_route *route) { codec_route(c, route); }

static void code_view(codec *c, message_view *view) { codec_view(c, view); }

static void code_survey(codec *c, message_survey *survey) { codec_u64(c, &survey->owner_term); }

static void code_holdings(codec *c, message_holdings *holdings) {
    codec_u64(c, &holdings->owner_term);
    codec_set(c, &holdings->held);
    codec_set(c, &holdings->forward);
    codec_set(c, &holdings->returning);
    codec_set(c, &holdings->backward);
    codec_set(c, &holdings->committed);
}

static void code_lines(codec *c, message_lines *lines) {
    uint32_t count = codec_count32(c, &lines->count, WIRE_MAX_LINES);
    for (uint32_t i = 0; i < count; i++) {
        codec_u32(c, &lines->line[i].member);
        codec_u32(c, &lines->line[i].cost);
        codec_u32(c, &lines->line[i].way);
        codec_require(c, lines->line[i].cost <= WIRE_MAX_LINK_COST && lines->line[i].way <= WIRE_MAX_LINK_COST);
    }
}

static void code_sound(codec *c, message_sound *sound) {
    codec_u32(c, &sound->train);
    codec_u16(c, &sound->index);
    codec_u16(c, &sound->count);
    codec_require(c, sound->index < sound->count);
    for (uint32_t left = codec_count16(c, &sound->padding, WIRE_MAX_SOUND_BYTES); left > 0;) {
        uint8_t zeros[256] = {0};
        uint32_t part = left < sizeof zeros ? left : sizeof zeros;
        codec_bytes(c, zeros, part);
        for (uint32_t i = 0; i < part; i++) codec_require(c, zeros[i] == 0);
        left -= part;
    }
}

static void code_sounded(codec *c, message_sounded *sounded) {
    codec_u32(c, &sounded->train);
    codec_u32(c, &sounded->bytes);
    codec_u64(c, &sounded->ns);
}

static void code_carry(codec *c, message_carry *carry) {
    codec_u64(c, &carry->origin);
    codec_u64(c, &carry->to);
    codec_u32(c, &carry->serial);
    codec_u16(c, &carry->index);
    codec_u16_below(c, &carry->count, WIRE_MAX_PIECES + 1);
    codec_require(c, carry->index < carry->count);
}

static void code_carry_chunks(codec *c, message_carry_chunks *carry) {
    codec_u64(c, &carry->origin);
    codec_u64(c, &carry->to);
    codec_u32(c, &carry->serial);
    codec_u8_below(c, &carry->what, GET_KINDS);
    codec_u16_below(c, &carry->stage, WIRE_MAX_STAGES);
    codec_u16_below(c, &carry->count, WIRE_MAX_CARRIED_BLOCKS + 1);
    codec_require(c, carry->count > 0 && (carry->what == GET_PART || carry->what == GET_RESULT));
}

static void code_uncarried(codec *c, message_uncarried *uncarried) { codec_u32(c, &uncarried->serial); }

static void code_uncarried_chunks(codec *c, message_uncarried_chunks *uncarried) { codec_u32(c, &uncarried->serial); }

void codec_message(codec *c, message *msg) {
    codec_u8(c, &msg->kind);
    codec_u64(c, &msg->iteration);
    codec_u64(c, &msg->sender);
    codec_u64(c, &msg->log_position);
    switch (msg->kind) {
#define X(upper, lower) \
    case MESSAGE_##upper: code_##lower(c, &msg->u.lower); break;
        WIRE_MESSAGES(X)
#undef X
    default: codec_require(c, false);
    }
}

size_t message_encode(const message *msg, uint8_t *bytes, size_t capacity) {
    codec c = codec_writer(bytes, capacity);
    codec_message(&c, (message *)msg);  // writing assigns no field
    return codec_written(&c);
}

typedef struct layout {
    uint16_t least, most;  // bytes of an encoded message
} layout;

static const layout layouts[MESSAGE_KINDS] = {
#define X(upper, fixed, variable) [MESSAGE_##upper] = {LAYOUT_OF_##upper, LAYOUT_MOST_OF_##upper},
    WIRE_LAYOUTS(X)
#undef X
};

size_t message_least_bytes(uint8_t kind) { return kind < MESSAGE_KINDS ? layouts[kind].least : 0; }
size_t message_most_bytes(uint8_t kind) { return kind < MESSAGE_KINDS ? layouts[kind].most : 0; }

bool message_decode(const uint8_t *bytes, size_t count, message *msg) {
    if (count == 0 || count < message_least_bytes(bytes[0]) || count > message_most_bytes(bytes[0])) return false;
    codec c = codec_reader(bytes, count);
    memset(msg, 0, offsetof(message, u) + message_body_bytes(bytes[0]));
    codec_message(&c, msg);
    return codec_finished(&c);
}

// Handlers find the common fields of these kinds at one place.
#define X(upper, lower) _Static_assert(offsetof(message_##lower, subject) == 0, "the subject comes first");
WIRE_SUBJECT_MESSAGES(X)
#undef X
#define X(upper, lower)                                                                                   \
    _Static_assert(offsetof(message_##lower, to) == 0 && offsetof(message_##lower, from) == 8 &&          \
                   offsetof(message_##lower, term) == 16, "the ballot comes first");
WIRE_VOTER_MESSAGES(X)
#undef X

const message_subject *message_subject_of(const message *msg) {
    switch (msg->kind) {
#define X(upper, lower) \
    case MESSAGE_##upper: return &msg->u.lower.subject;
        WIRE_SUBJECT_MESSAGES(X)
#undef X
    default: return NULL;
    }
}

bool message_ballot_of(const message *msg, message_ballot *ballot) {
    switch (msg->kind) {
#define X(upper, lower)                                                                                    \
    case MESSAGE_##upper:                                                                                  \
        *ballot = (message_ballot){msg->u.lower.to, msg->u.lower.from, msg->u.lower.term};                 \
        return true;
        WIRE_VOTER_MESSAGES(X)
#undef X
    default: return false;
    }
}

size_t message_body_bytes(uint8_t kind) {
#define X(upper, lower) _Static_assert(sizeof(message_##lower) <= UINT16_MAX, "a body's size has two bytes");
    WIRE_MESSAGES(X)
#undef X
    static const uint16_t bytes[MESSAGE_KINDS] = {
#define X(upper, lower) [MESSAGE_##upper] = sizeof(message_##lower),
        WIRE_MESSAGES(X)
#undef X
    };
    return kind < MESSAGE_KINDS ? bytes[kind] : 0;
}

bool message_has_payload(const message *msg) {
    switch (msg->kind) {
    case MESSAGE_FORWARD: return msg->u.forward.parcel.pieces == 0;
    case MESSAGE_BACKWARD: return msg->u.backward.parcel.pieces == 0;
    case MESSAGE_DATA: return msg->u.data.get.by == 0;
    case MESSAGE_CARRY: case MESSAGE_CARRY_CHUNKS: return true;
    default: return false;
    }
}

const char *message_kind_name(uint8_t kind) {
    switch (kind) {
#define X(upper, lower) \
    case MESSAGE_##upper: return #upper;
        WIRE_MESSAGES(X)
#undef X
    default: return "UNKNOWN";
    }
}

const char *get_refusal_name(uint8_t reason) {
    switch (reason) {
    case GET_MISSING: return "MISSING";
    case GET_LATER: return "LATER";
    default: return "UNKNOWN";
    }
}

const char *deny_reason_name(uint8_t reason) {
    switch (reason) {
    case DENY_FULL: return "FULL";
    case DENY_STALE: return "STALE";
    case DENY_VERSION: return "VERSION";
    case DENY_MISSING: return "MISSING";
    case DENY_CLOSED: return "CLOSED";
    default: return "UNKNOWN";
    }
}

const char *commit_refusal_name(uint8_t reason) {
    switch (reason) {
    case COMMIT_STALE: return "STALE";
    case COMMIT_MISSING: return "MISSING";
    case COMMIT_CLOSED: return "CLOSED";
    default: return "UNKNOWN";
    }
}
