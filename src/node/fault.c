#include "node/fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const point_names[FAULT_POINTS] = {
    [FAULT_NEVER] = "never", [FAULT_FORWARD] = "forward", [FAULT_COMPLETE_SENT] = "complete-sent",
    [FAULT_BACKWARD] = "backward", [FAULT_COMMITTED] = "committed", [FAULT_WEIGHT] = "weight",
    [FAULT_REDUCTION] = "reduction", [FAULT_FINAL] = "final", [FAULT_TRANSFER] = "transfer",
    [FAULT_CARRY] = "carry",
};

const char *fault_point_name(fault_point point) { return point_names[point]; }

braid_err fault_parse(const char *text, fault *out, braid_error *error) {
    size_t length = strcspn(text, ":");
    *out = (fault){FAULT_NEVER, 1};
    for (int i = 1; i < FAULT_POINTS; i++)
        if (strlen(point_names[i]) == length && strncmp(point_names[i], text, length) == 0) out->point = (fault_point)i;
    if (out->point == FAULT_NEVER)
        return braid_fail(error, BRAID_ARGUMENT,
                          "unknown fault point \"%.*s\"; choose one of forward, complete-sent, backward, committed, weight, "
                          "reduction, final, transfer and carry", (int)length, text);
    if (!text[length]) return BRAID_OK;
    const char *digits = text + length + 1;
    if (!*digits || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 9 || atoi(digits) == 0)
        return braid_fail(error, BRAID_ARGUMENT, "\"%s\": the count after the colon must be 1 or more", text);
    out->count = (uint32_t)atoi(digits);
    return BRAID_OK;
}

static fault_point point_of_job(const job *work) {
    switch (work->kind) {
    case JOB_FORWARD: return FAULT_FORWARD;
    case JOB_BACKWARD: return FAULT_BACKWARD;
    case JOB_WEIGHT: return FAULT_WEIGHT;
    case JOB_PACK:
    case JOB_REDUCE: return FAULT_REDUCTION;
    case JOB_APPLY: return FAULT_FINAL;
    case JOB_STATE_PUT: return FAULT_TRANSFER;
    default: return FAULT_NEVER;
    }
}

// A data peer sends commits; relays receive them.
static fault_point point_of_send(const effect *e, message *scratch) {
    if (e->message_kind == MESSAGE_COMMIT) return FAULT_COMMITTED;
    if (e->message_kind != MESSAGE_COMPLETE || !message_decode(e->bytes, e->byte_count, scratch)) return FAULT_NEVER;
    return scratch->u.complete.phase == PHASE_FORWARD ? FAULT_COMPLETE_SENT : FAULT_NEVER;
}

static bool fault_due(fault *f, fault_point here) {
    if (f->point == FAULT_NEVER || f->point != here || --f->count > 0) return false;
    f->point = FAULT_NEVER;
    return true;
}

fault_verdict fault_at_effect(fault *f, const effect *e, message *scratch) {
    if (f->point == FAULT_NEVER) return FAULT_GO_ON;
    if (e->kind == EFFECT_JOB) return fault_due(f, point_of_job(e->job)) ? FAULT_DIE_NOW : FAULT_GO_ON;
    if (e->kind == EFFECT_SEND) return fault_due(f, point_of_send(e, scratch)) ? FAULT_DIE_WHEN_SENT : FAULT_GO_ON;
    return FAULT_GO_ON;
}

fault_verdict fault_at_message(fault *f, const message *msg) {
    // from its origin, and not from the forwarder
    bool tensor = msg->kind == MESSAGE_CARRY && msg->sender == msg->u.carry.origin;
    bool chunks = msg->kind == MESSAGE_CARRY_CHUNKS && msg->sender == msg->u.carry_chunks.origin;
    bool to_carry = tensor || chunks;
    fault_point here = msg->kind == MESSAGE_COMMIT ? FAULT_COMMITTED : to_carry ? FAULT_CARRY : FAULT_NEVER;
    return fault_due(f, here) ? FAULT_DIE_NOW : FAULT_GO_ON;
}

void fault_die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}
