// The layout of the log's entries, one function per kind.
#include "wire/codec.h"

#include <string.h>

static void code_run(codec *c, log_run *run) {
    codec_hash(c, &run->description);
    codec_u64(c, &run->generation);
    codec_u64(c, &run->start_version);
    codec_u64(c, &run->reached);
    codec_u16_below(c, &run->lost, WIRE_MAX_STAGES);
}

static void code_member(codec *c, log_member *member) {
    codec_id(c, &member->peer);
    codec_u16_below(c, &member->stage, WIRE_MAX_STAGES);
    codec_u8_below(c, &member->kind, MEMBER_KIND_COUNT);
    codec_u32(c, &member->capacity);
    codec_u64(c, &member->incarnation);
    codec_u64(c, &member->store);
    if (member->kind != MEMBER_DATA) codec_id(c, &member->host);
    codec_text(c, member->address, sizeof member->address);
}

static void code_expel(codec *c, log_expel *expel) {
    codec_u64(c, &expel->member);
    codec_u8_below(c, &expel->reason, EXPEL_REASONS);
}

static void code_promote(codec *c, log_promote *promote) { codec_u64(c, &promote->member); }

static void code_owner(codec *c, log_owner *owner) {
    codec_u16_below(c, &owner->slot, WIRE_MAX_SLOTS);
    codec_u64(c, &owner->member);
}

static void code_close(codec *c, log_close *close) {
    codec_u64(c, &close->iteration);
    codec_set(c, &close->counted);
    codec_set(c, &close->voided);
    codec_u64(c, &close->tokens);
    codec_f64(c, &close->loss);
}

static void code_final(codec *c, log_final *final) {
    codec_u64(c, &final->iteration);
    codec_bool(c, &final->skip);
    if (final->skip) codec_u32(c, &final->skipped);
    codec_bool(c, &final->last);
    codec_u64(c, &final->close_index);
    codec_f64(c, &final->norm2);
    codec_f32(c, &final->clip);
    codec_f32(c, &final->learning_rate);
    codec_f32(c, &final->bias1);
    codec_f32(c, &final->bias2);
    uint32_t stages = codec_count16(c, &final->stages, WIRE_MAX_STAGES);
    for (uint32_t i = 0; i < stages; i++) {
        codec_u64(c, &final->round[i]);
        codec_hash(c, &final->result_root[i]);
        codec_hash(c, &final->state_root[i]);
    }
}

static void code_checkpoint(codec *c, log_checkpoint *checkpoint) {
    codec_u64(c, &checkpoint->version);
    codec_hash(c, &checkpoint->weights);
    uint32_t stages = codec_count16(c, &checkpoint->stages, WIRE_MAX_STAGES);
    for (uint32_t i = 0; i < stages; i++) codec_hash(c, &checkpoint->state_root[i]);
}

static void code_lead(codec *c, log_lead *lead) { codec_id(c, &lead->leader); }

static void code_voters(codec *c, log_voters *voters) {
    uint32_t count = codec_count16(c, &voters->count, WIRE_MAX_VOTERS);
    codec_require(c, count > 0);
    for (uint32_t i = 0; i < count; i++) {
        log_voter *v = &voters->voter[i];
        codec_id(c, &v->id);
        codec_u64(c, &v->store);
        codec_text(c, v->address, sizeof v->address);
        for (uint32_t j = 0; j < i; j++) codec_require(c, voters->voter[j].store != v->store || !id_equal(&voters->voter[j].id, &v->id));
    }
}

static void code_share(codec *c, log_share *share) {
    codec_u16_below(c, &share->share, WIRE_MAX_SLOTS);
    codec_id(c, &share->peer);
    codec_hash(c, &share->text);
}

static void code_base(codec *c, log_base *base) {
    codec_u64(c, &base->applied);
    codec_u32(c, &base->entries);
    code_voters(c, &base->voters);
}

static void code_vote(codec *c, log_vote *vote) {
    codec_bool(c, &vote->given);
    codec_id(c, &vote->candidate);
    codec_u64(c, &vote->store);
}

void codec_log_entry(codec *c, log_entry *entry) {
    codec_u64(c, &entry->index);
    codec_term(c, &entry->term);
    codec_u8(c, &entry->kind);
    switch (entry->kind) {
    case LOG_RUN: code_run(c, &entry->u.run); break;
    case LOG_MEMBER: code_member(c, &entry->u.member); break;
    case LOG_EXPEL: code_expel(c, &entry->u.expel); break;
    case LOG_OWNER: code_owner(c, &entry->u.owner); break;
    case LOG_CLOSE: code_close(c, &entry->u.close); break;
    case LOG_FINAL: code_final(c, &entry->u.final); break;
    case LOG_CHECKPOINT: code_checkpoint(c, &entry->u.checkpoint); break;
    case LOG_LEAD: code_lead(c, &entry->u.lead); break;
    case LOG_VOTERS: code_voters(c, &entry->u.voters); break;
    case LOG_SHARE: code_share(c, &entry->u.share); break;
    case LOG_PROMOTE: code_promote(c, &entry->u.promote); break;
    case LOG_END: break;
    case LOG_BASE: code_base(c, &entry->u.base); break;
    case LOG_VOTE: code_vote(c, &entry->u.vote); break;
    default: codec_require(c, false);
    }
}

size_t log_entry_encode(const log_entry *entry, uint8_t *bytes, size_t capacity) {
    codec c = codec_writer(bytes, capacity);
    codec_log_entry(&c, (log_entry *)entry);  // writing assigns no field
    return codec_written(&c);
}

bool log_entry_decode(const uint8_t *bytes, size_t count, log_entry *entry) {
    codec c = codec_reader(bytes, count);
    memset(entry, 0, sizeof *entry);
    codec_log_entry(&c, entry);
    return codec_finished(&c);
}
