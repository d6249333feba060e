// Messages of tuning between the net and both sides.
#include "span/tuning.h"

#include "span/inside.h"

#include <stdlib.h>
#include <string.h>

static bool is_of_client(const tuning_message *msg) {
    return msg->kind == TUNING_ADAPT || msg->kind == TUNING_FORWARD || msg->kind == TUNING_BACKWARD ||
           msg->kind == TUNING_FORGET;
}

static uint64_t wanted_bytes(span_peer *p, const braid_id *from, const tuning_message *msg) {
    if (msg->kind == TUNING_FORGET || msg->kind == TUNING_REFUSE) return 1;
    if (is_of_client(msg)) return lend_payload(p, from, msg);
    return p->config.tuner ? tuner_payload(p->config.tuner, from, msg) : 0;
}

static void *tuning_alloc(span_peer *p, const braid_id *from, const uint8_t *bytes, size_t count,
                          uint64_t payload_bytes, uint64_t *token) {
    tuning_message msg;
    bool good = p->phase == SPAN_RUNNING && tuning_decode(bytes, count, &msg);
    void *data = NULL;
    *token = 0;
    if (!good || payload_bytes == 0 || payload_bytes != wanted_bytes(p, from, &msg)) return NULL;
    data = blobs_add(p->blobs, payload_bytes, token);
    if (data && msg.kind == TUNING_ADAPT) blobs_hide(p->blobs, *token);
    if (!data) *token = 0;
    return data;
}

static const char *tuning_receive(span_peer *p, const braid_id *from, const uint8_t *bytes, size_t count, void *payload,
                                  uint64_t payload_bytes, uint64_t token) {
    tuning_message msg;
    bool good = tuning_decode(bytes, count, &msg);
    if (!good || p->phase != SPAN_RUNNING) {
        if (payload) blobs_release(p->blobs, token);
        return good ? NULL : "it sent a malformed message about an adapter";
    }
    // the expected size may have changed since the payload began
    if (payload && payload_bytes != wanted_bytes(p, from, &msg)) {
        blobs_release(p->blobs, token);
        payload = NULL;
    }
    if (is_of_client(&msg)) {
        lend_receive(p, from, &msg, payload, payload ? token : 0);
        return NULL;
    }
    if (p->config.tuner && payload) tuner_receive(p->config.tuner, from, &msg, payload);
    if (payload) blobs_release(p->blobs, token);
    return NULL;
}

static void tuning_link_down(span_peer *p, const braid_id *id) {
    lend_link_down(p, id);
    if (p->config.tuner && p->phase == SPAN_RUNNING) tuner_link_down(p->config.tuner, id);
}

void tuning_send(span_peer *p, const braid_id *to, const tuning_message *msg, blob_id payload) {
    span_parcel *parcel = malloc(sizeof *parcel + TUNING_MAX_MESSAGE_BYTES);
    if (!parcel) {
        if (payload) blobs_release(p->blobs, payload);
        span_fail(p, &(braid_error){BRAID_MEMORY, "no memory for a message"});
        return;
    }
    *parcel = (span_parcel){.to = *to, .ready = true, .payload = payload};
    parcel->count = tuning_encode(msg, parcel->bytes, TUNING_MAX_MESSAGE_BYTES);
    BRAID_ASSERT(parcel->count > 0);
    span_send(p, parcel);
}

static bool is_its(const uint8_t *bytes, size_t count) { return tuning_is_message(bytes, count); }

const span_guest span_lending = {is_its, tuning_alloc, tuning_receive, tuning_link_down, lend_close, lend_free};
