#include "span/tuning_message.h"

#include "model/adapter.h"
#include "wire/codec.h"

#include <math.h>
#include <string.h>

static void code_rows(codec *c, uint32_t *rows) {
    codec_u32(c, rows);
    codec_require(c, *rows > 0 && *rows <= TUNING_MAX_ROWS);
}

static void code_parameters(codec *c, uint32_t *parameters) {
    codec_u32(c, parameters);
    codec_require(c, *parameters > 0 && *parameters <= TUNING_MAX_PARAMETERS);
}

static void code_adapt(codec *c, tuning_adapt *a) {
    codec_u16(c, &a->layer_begin);
    codec_u16(c, &a->layer_end);
    codec_require(c, a->layer_begin < a->layer_end && a->layer_end <= TUNING_MAX_LAYERS);
    codec_u32(c, &a->rank);
    codec_require(c, a->rank > 0 && a->rank <= ADAPTER_MAX_RANK);
    codec_f32(c, &a->alpha);
    codec_require(c, isfinite(a->alpha));
    codec_bool(c, &a->rank_stabilised);
    codec_u64(c, &a->roles);
    codec_u32(c, &a->sequences);
    codec_u32(c, &a->tokens);
    uint64_t rows = (uint64_t)a->sequences * a->tokens;
    codec_require(c, rows > 0 && rows <= TUNING_MAX_ROWS);
    code_parameters(c, &a->parameters);
    codec_hash(c, &a->kernels);
}

static void code_forward(codec *c, tuning_forward *f) { codec_bool(c, &f->keep); }

static void code_output(codec *c, tuning_output *o) { code_rows(c, &o->rows); }

static void code_backward(codec *c, tuning_backward *b) { code_rows(c, &b->rows); }

static void code_gradient(codec *c, tuning_gradient *g) {
    code_rows(c, &g->rows);
    code_parameters(c, &g->parameters);
}

static void code_forget(codec *c, tuning_forget *f) {
    codec_bool(c, &f->done);
    codec_require(c, f->done);
}

static void code_refuse(codec *c, tuning_refuse *r) {
    codec_u8_below(c, &r->reason, TUNING_REFUSALS);
    codec_text(c, r->text, sizeof r->text);
}

static void code_message(codec *c, tuning_message *msg) {
    uint8_t version = TUNING_VERSION, kind = (uint8_t)msg->kind;
    codec_u8(c, &version);
    codec_require(c, version == TUNING_VERSION);
    codec_u8_below(c, &kind, TUNING_KINDS);
    if (c->failed) return;
    if (codec_reads(c)) msg->kind = (tuning_kind)kind;
    codec_u64(c, &msg->name.session);
    codec_u32(c, &msg->name.serial);
    switch (kind) {
#define X(upper, lower) \
    case TUNING_##upper: code_##lower(c, &msg->lower); break;
        TUNING_MESSAGES(X)
#undef X
    default: c->failed = true;
    }
}

size_t tuning_encode(const tuning_message *msg, uint8_t *bytes, size_t capacity) {
    codec c = codec_writer(bytes, capacity);
    // A writing cursor assigns nothing.
    code_message(&c, (tuning_message *)(uintptr_t)msg);
    return codec_written(&c);
}

bool tuning_decode(const uint8_t *bytes, size_t count, tuning_message *msg) {
    memset(msg, 0, sizeof *msg);
    if (count > TUNING_MAX_MESSAGE_BYTES) return false;
    codec c = codec_reader(bytes, count);
    code_message(&c, msg);
    return codec_finished(&c);
}
