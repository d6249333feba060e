#include "node/trace.h"

static const char *const job_names[JOB_KINDS] = {
    [JOB_NONE] = "none", [JOB_FORWARD] = "forward", [JOB_LOSS] = "loss", [JOB_BACKWARD] = "backward", [JOB_WEIGHT] = "weight",
    [JOB_PACK] = "pack", [JOB_REDUCE] = "reduce", [JOB_RESULT_PUT] = "result-put", [JOB_RESULT_GET] = "result-get",
    [JOB_NORM] = "norm", [JOB_DECIDE] = "decide", [JOB_APPLY] = "apply", [JOB_STATE_ROOT] = "state-root",
    [JOB_STATE_GET] = "state-get", [JOB_STATE_PUT] = "state-put", [JOB_STATE_INIT] = "state-init", [JOB_LEAVES] = "leaves",
    [JOB_STATE_KEEP] = "state-keep", [JOB_NAMES_GET] = "names-get", [JOB_NAMES_PUT] = "names-put",
    [JOB_SUM_CLEAR] = "sum-clear", [JOB_JOIN] = "join", [JOB_SAVE_NAMES] = "save-names", [JOB_SAVE] = "save", [JOB_SAVE_END] = "save-end", [JOB_SAVE_FIND] = "save-find",
};

static const char *const log_names[LOG_KINDS] = {
    [LOG_NONE] = "none", [LOG_RUN] = "run", [LOG_MEMBER] = "member", [LOG_EXPEL] = "expel", [LOG_OWNER] = "owner",
    [LOG_CLOSE] = "close", [LOG_FINAL] = "final", [LOG_CHECKPOINT] = "checkpoint", [LOG_LEAD] = "lead", [LOG_VOTERS] = "voters", [LOG_SHARE] = "share", [LOG_PROMOTE] = "promote", [LOG_END] = "end", [LOG_BASE] = "base", [LOG_VOTE] = "vote",
};

#define NUMBER(x) ((unsigned long long)(x))

static void trace_id(FILE *out, const braid_id *id) { fprintf(out, " %02x%02x%02x", id->bytes[0], id->bytes[1], id->bytes[2]); }

static void trace_subject(FILE *out, const message_subject *s) {
    fprintf(out, " m %u stage %u", s->m, s->stage);
}

static void trace_parcel(FILE *out, const message_parcel *parcel) {
    if (parcel->pieces > 0) fprintf(out, " parcel %u of %u pieces", parcel->serial, parcel->pieces);
}

static void trace_body(FILE *out, const message *msg) {
    switch (msg->kind) {
    case MESSAGE_FORWARD:
        trace_subject(out, &msg->u.forward.subject);
        trace_parcel(out, &msg->u.forward.parcel);
        for (uint32_t i = 0; i < msg->u.forward.ahead_count; i++) fprintf(out, " ahead %u after %u us", msg->u.forward.ahead[i].member, msg->u.forward.ahead[i].after_us);
        break;
    case MESSAGE_BACKWARD:
        trace_subject(out, &msg->u.backward.subject);
        trace_parcel(out, &msg->u.backward.parcel);
        break;
    case MESSAGE_CARRY:
        fprintf(out, " parcel %u of %llu to %llu, piece %u of %u", msg->u.carry.serial, NUMBER(msg->u.carry.origin), NUMBER(msg->u.carry.to), msg->u.carry.index, msg->u.carry.count);
        break;
    case MESSAGE_CARRY_CHUNKS: {
        const message_carry_chunks *carry = &msg->u.carry_chunks;
        fprintf(out, " answer %u of %llu to %llu, what %u stage %u, %u blocks", carry->serial, NUMBER(carry->origin), NUMBER(carry->to), carry->what, carry->stage, carry->count);
        break;
    }
    case MESSAGE_UNCARRIED_CHUNKS: fprintf(out, " answer %u", msg->u.uncarried_chunks.serial); break;
    case MESSAGE_DISMISS: fprintf(out, " refusal %u", msg->u.dismiss.refusal); break;
    case MESSAGE_UNCARRIED: fprintf(out, " parcel %u", msg->u.uncarried.serial); break;
    case MESSAGE_LINES:
        for (uint32_t i = 0; i < msg->u.lines.count; i++) fprintf(out, " to %u: hop %u, line %u us", msg->u.lines.line[i].member, msg->u.lines.line[i].cost, msg->u.lines.line[i].way);
        break;
    case MESSAGE_ACCEPT: trace_subject(out, &msg->u.accept.subject); break;
    case MESSAGE_COMPLETE: trace_subject(out, &msg->u.complete.subject); break;
    case MESSAGE_DENY:
        trace_subject(out, &msg->u.deny.subject);
        fprintf(out, " phase %u %s", msg->u.deny.phase, deny_reason_name(msg->u.deny.reason));
        break;
    case MESSAGE_DENY_COMMIT:
        trace_subject(out, &msg->u.deny_commit.subject);
        fprintf(out, " rev %u %s", msg->u.deny_commit.rev, commit_refusal_name(msg->u.deny_commit.reason));
        break;
    case MESSAGE_DENY_RESUME: trace_subject(out, &msg->u.deny_resume.subject); break;
    case MESSAGE_NO_PEER: trace_subject(out, &msg->u.no_peer.subject); break;
    case MESSAGE_EVICTED: trace_subject(out, &msg->u.evicted.subject); break;
    case MESSAGE_DENY_GET: {
        const message_deny_get *deny = &msg->u.deny_get;
        fprintf(out, " what %u stage %u block %u %s %u ms", deny->what, deny->stage, deny->first, get_refusal_name(deny->reason), deny->wait_ms);
        break;
    }
    case MESSAGE_TRACE: trace_subject(out, &msg->u.trace.subject); break;
    case MESSAGE_CANCEL: trace_subject(out, &msg->u.cancel.subject); break;
    case MESSAGE_PROBE: trace_subject(out, &msg->u.probe.subject); break;
    case MESSAGE_STATUS: trace_subject(out, &msg->u.status.subject); break;
    case MESSAGE_RESUME: trace_subject(out, &msg->u.resume.subject); break;
    case MESSAGE_COMMIT: trace_subject(out, &msg->u.commit.subject); break;
    case MESSAGE_COUNTED: trace_subject(out, &msg->u.counted.subject); break;
    case MESSAGE_SETTLED: trace_subject(out, &msg->u.settled.subject); break;
    case MESSAGE_GET:
    case MESSAGE_DATA: {
        const message_get *get = msg->kind == MESSAGE_GET ? &msg->u.get : &msg->u.data.get;
        fprintf(out, " what %u stage %u version %llu blocks %u+%u", get->what, get->stage, NUMBER(get->version), get->first, get->count);
        break;
    }
    case MESSAGE_LOG:
        fprintf(out, " %s %llu after %llu%s", log_names[msg->u.log.entry.kind], NUMBER(msg->u.log.entry.index), NUMBER(msg->u.log.previous),
                msg->u.log.reset ? " reset" : "");
        break;
    case MESSAGE_HEARTBEAT:
        fprintf(out, " ready %llu can-take %llu free %u", NUMBER(msg->u.heartbeat.ready), NUMBER(msg->u.heartbeat.can_take), msg->u.heartbeat.free_slots);
        break;
    case MESSAGE_CAN_TAKE: fprintf(out, " iteration %llu stage %u free %u", NUMBER(msg->u.can_take.iteration), msg->u.can_take.stage, msg->u.can_take.free_slots); break;
    default: break;
    }
}

static void trace_message(FILE *out, const message *msg) {
    fprintf(out, " %s t %llu from-member %llu log %llu", message_kind_name(msg->kind), NUMBER(msg->iteration), NUMBER(msg->sender), NUMBER(msg->log_position));
    trace_body(out, msg);
}

void trace_event(FILE *out, uint64_t start_ns, uint64_t now_ns, const event *e) {
    fprintf(out, "%.6f ", (double)(now_ns - start_ns) * 1e-9);
    switch (e->kind) {
    case EVENT_TICK: fprintf(out, "tick"); break;
    case EVENT_LINK_UP: fprintf(out, "up"); break;
    case EVENT_LINK_DOWN: fprintf(out, "down%s", e->refused ? " refused" : ""); break;
    case EVENT_MESSAGE: fprintf(out, "got"); break;
    case EVENT_JOB_DONE:
        fprintf(out, "done %s%s cost %.3f ms out %llu", job_names[e->result->kind], e->result->failed ? " FAILED" : "", (double)e->result->cost_ns * 1e-6, NUMBER(e->result->out));
        break;
    case EVENT_STORED: fprintf(out, "stored %s %llu", log_names[e->entry->kind], NUMBER(e->entry->index)); break;
    case EVENT_DRAIN: fprintf(out, "drain"); break;
    default: break;
    }
    if (e->kind == EVENT_LINK_UP || e->kind == EVENT_LINK_DOWN || e->kind == EVENT_MESSAGE) trace_id(out, &e->id);
    if (e->kind == EVENT_MESSAGE) trace_message(out, e->msg);
    if (e->blob) fprintf(out, " blob %llu of %llu bytes", NUMBER(e->blob), NUMBER(e->blob_bytes));
    fputc('\n', out);
}

void trace_effect(FILE *out, const effect *e, message *scratch) {
    fprintf(out, "    ");
    switch (e->kind) {
    case EFFECT_SEND:
        fprintf(out, "send");
        trace_id(out, &e->id);
        if (message_decode(e->bytes, e->byte_count, scratch)) trace_message(out, scratch);
        else fprintf(out, " MALFORMED %s", message_kind_name(e->message_kind));
        break;
    case EFFECT_DIAL:
        fprintf(out, "dial %s", e->address);
        trace_id(out, &e->id);
        break;
    case EFFECT_CLOSE:
        fprintf(out, "close");
        trace_id(out, &e->id);
        break;
    case EFFECT_JOB:
        fprintf(out, "job %s t %llu m %u stage %u slot %u blocks %u+%u version %llu in %llu", job_names[e->job->kind], NUMBER(e->job->iteration),
                e->job->m, e->job->stage, e->job->slot, e->job->first, e->job->count, NUMBER(e->job->version), NUMBER(e->job->in));
        break;
    case EFFECT_APPEND: fprintf(out, "append %s %llu", log_names[e->entry->kind], NUMBER(e->entry->index)); break;
    case EFFECT_RELEASE: fprintf(out, "release"); break;
    case EFFECT_TELL: fprintf(out, "tell %s t %llu member %llu stage %u m %u", tell_name(e->tell.kind), NUMBER(e->tell.iteration), NUMBER(e->tell.member), e->tell.stage, e->tell.m); break;
    case EFFECT_EXIT: fprintf(out, "exit%s", e->failed ? " failed" : ""); break;
    default: break;
    }
    if (e->blob) fprintf(out, " blob %llu", NUMBER(e->blob));
    fputc('\n', out);
}
