// A run in lines: an event that reaches a peer, then, indented, the effects of its step.
//     12.345678 r5#12/s2 <- d0  FORWARD t=3 m=5 s2 a=1 to 4 [1 . 12 .]  (0.8 ms)
//                     -> d0  ACCEPT t=3 m=5 s2 a=1 forward eta 20.0 ms
#include "sim/inside.h"

#include "base/bitset.h"

#include <inttypes.h>
#include <stdarg.h>

typedef struct line {
    char text[512];
    size_t used;
} line;

static void __attribute__((format(printf, 2, 3))) line_add(line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(l->text + l->used, sizeof l->text - l->used, format, arguments);
    va_end(arguments);
    if (n > 0) l->used += (size_t)n;
    if (l->used >= sizeof l->text) l->used = sizeof l->text - 1;
}

static double milliseconds(uint64_t ns) { return (double)ns / 1e6; }

static const char *phase_name(uint8_t phase) {
    static const char *const names[PHASE_COUNT] = {"forward", "backward"};
    return phase < PHASE_COUNT ? names[phase] : "?";
}

static const char *trace_name(uint8_t phase) {
    static const char *const names[TRACE_PHASES] = {"accepted", "forward done", "returning", "backward done"};
    return phase < TRACE_PHASES ? names[phase] : "?";
}

static const char *get_name(uint8_t what) {
    static const char *const names[GET_KINDS] = {"part", "result", "state", "names"};
    return what < GET_KINDS ? names[what] : "?";
}

static void add_subject(line *l, const message_subject *x) {
    line_add(l, " m=%u s%u a=%" PRIu64, x->m, x->stage, x->owner_term);
}

static void add_path(line *l, const message_path *path) {
    line_add(l, " [");
    for (uint16_t i = 0; i < path->stages; i++) {
        if (path->member[i]) line_add(l, "%s%" PRIu64, i ? " " : "", path->member[i]);
        else line_add(l, "%s.", i ? " " : "");
    }
    line_add(l, "]");
}

static void add_set(line *l, const message_set *set) {
    const char *between = "{";
    for (uint32_t i = 0; i < WIRE_MAX_MICROBATCHES; i++) {
        if (!bitset_has(set->words, i)) continue;
        line_add(l, "%s%u", between, i);
        between = ",";
    }
    line_add(l, "%s}", between[0] == '{' ? "{" : "");
}

static void add_root(line *l, const braid_hash *root) { line_add(l, " %02x%02x%02x", root->bytes[0], root->bytes[1], root->bytes[2]); }

static void add_get(line *l, const message_get *g) {
    line_add(l, " %s s%u [%u,+%u) version %" PRIu64 " round %" PRIu64 " digest %04" PRIx64 " close %" PRIu64, get_name(g->what), g->stage, g->first, g->count,
             g->version, g->round, g->set_digest & 0xffff, g->close_index);
}

static void add_begin(line *l, const message_begin *b) {
    line_add(l, " s%u round %" PRIu64 ".%" PRIu64 " close %" PRIu64 " N=%" PRIu64, b->stage, b->term, b->round, b->close_index, b->tokens);
    for (uint16_t i = 0; i < b->parts; i++) {
        line_add(l, " #%" PRIu64, b->part[i].member);
        add_set(l, &b->part[i].set);
    }
    for (uint16_t i = 0; i < b->owners; i++) line_add(l, " own #%" PRIu64 "[%u,+%u)", b->owner[i].member, b->owner[i].first, b->owner[i].count);
}

static void add_status(line *l, const message_status *x) {
    add_subject(l, &x->subject);
    line_add(l, "%s%s%s%s%s%s%s%s%s rev %u eta %.1f ms", x->has_x ? " x" : "", x->has_y ? " y" : "", x->has_dy ? " dy" : "", x->has_dx ? " dx" : "",
             x->forward_done ? " F" : "", x->backward_done ? " B" : "", x->working ? " working" : "", x->forwarding ? " forwarding" : "", x->counted ? " counted" : "", x->rev, milliseconds(x->eta_ns));
}

static void add_holdings(line *l, const message_holdings *x) {
    const message_set *sets[] = {&x->held, &x->forward, &x->returning, &x->backward, &x->committed};
    static const char *const names[] = {" x ", " y ", " dy ", " dx ", " committed "};
    line_add(l, " term %" PRIu64, x->owner_term);
    for (uint32_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        line_add(l, "%s", names[i]);
        add_set(l, sets[i]);
    }
}

static void add_voters(line *l, const char *name, const log_voters *v) {
    line_add(l, "%s", name);
    for (uint32_t i = 0; i < v->count; i++) line_add(l, " %s", v->voter[i].address);
}

static void add_entry(line *l, const log_entry *e) {
    line_add(l, " %" PRIu64 ":", e->index);
    switch (e->kind) {
    case LOG_RUN: line_add(l, "RUN generation %" PRIu64, e->u.run.generation); break;
    case LOG_MEMBER:
        line_add(l, "MEMBER s%u %s %s capacity %u", e->u.member.stage, e->u.member.kind == MEMBER_DATA ? "data" : e->u.member.kind == MEMBER_RELAY ? "relay" : "shadow", e->u.member.address, e->u.member.capacity);
        break;
    case LOG_EXPEL: line_add(l, "EXPEL #%" PRIu64 " reason %u", e->u.expel.member, e->u.expel.reason); break;
    case LOG_PROMOTE: line_add(l, "PROMOTE #%" PRIu64, e->u.promote.member); break;
    case LOG_OWNER: line_add(l, "OWNER slot %u #%" PRIu64, e->u.owner.slot, e->u.owner.member); break;
    case LOG_CLOSE:
        line_add(l, "CLOSE t=%" PRIu64 " N=%" PRIu64 " ", e->u.close.iteration, e->u.close.tokens);
        add_set(l, &e->u.close.counted);
        break;
    case LOG_FINAL:
        line_add(l, "FINAL t=%" PRIu64 "%s%s", e->u.final.iteration, e->u.final.skip ? " skip" : "", e->u.final.last ? " last" : "");
        break;
    case LOG_CHECKPOINT: line_add(l, "CHECKPOINT %" PRIu64, e->u.checkpoint.version); break;
    case LOG_VOTERS: add_voters(l, "VOTERS", &e->u.voters); break;
    case LOG_BASE: add_voters(l, "BASE", &e->u.base.voters); break;
    case LOG_SHARE: line_add(l, "SHARE %u", e->u.share.share); break;
    case LOG_END: line_add(l, "END"); break;
    default: line_add(l, "kind %u", e->kind);
    }
}

// Adds a message about one microbatch.
static bool add_flow_message(line *l, const message *msg) {
    switch (msg->kind) {
    case MESSAGE_FORWARD:
        add_subject(l, &msg->u.forward.subject);
        line_add(l, " to %u%s%s", msg->u.forward.forward_to, msg->u.forward.home ? " home" : "", msg->u.forward.repair ? " repair" : "");
        add_path(l, &msg->u.forward.path);
        return true;
    case MESSAGE_BACKWARD:
        add_subject(l, &msg->u.backward.subject);
        line_add(l, " to %u%s", msg->u.backward.back_to, msg->u.backward.repair ? " repair" : "");
        add_path(l, &msg->u.backward.path);
        return true;
    case MESSAGE_ACCEPT:
        add_subject(l, &msg->u.accept.subject);
        line_add(l, " %s eta %.1f ms", phase_name(msg->u.accept.phase), milliseconds(msg->u.accept.eta_ns));
        return true;
    case MESSAGE_COMPLETE:
        add_subject(l, &msg->u.complete.subject);
        line_add(l, " %s", phase_name(msg->u.complete.phase));
        return true;
    case MESSAGE_DENY:
        add_subject(l, &msg->u.deny.subject);
        line_add(l, " %s %s", phase_name(msg->u.deny.phase), deny_reason_name(msg->u.deny.reason));
        return true;
    case MESSAGE_DENY_COMMIT:
        add_subject(l, &msg->u.deny_commit.subject);
        line_add(l, " rev %u %s", msg->u.deny_commit.rev, commit_refusal_name(msg->u.deny_commit.reason));
        return true;
    case MESSAGE_DENY_RESUME: add_subject(l, &msg->u.deny_resume.subject); return true;
    case MESSAGE_NO_PEER: add_subject(l, &msg->u.no_peer.subject); return true;
    case MESSAGE_EVICTED: add_subject(l, &msg->u.evicted.subject); return true;
    case MESSAGE_TRACE:
        add_subject(l, &msg->u.trace.subject);
        line_add(l, " %s eta %.1f ms next #%" PRIu64, trace_name(msg->u.trace.phase), milliseconds(msg->u.trace.eta_ns), msg->u.trace.next);
        return true;
    case MESSAGE_CANCEL: add_subject(l, &msg->u.cancel.subject); return true;
    case MESSAGE_PROBE: add_subject(l, &msg->u.probe.subject); return true;
    case MESSAGE_STATUS: add_status(l, &msg->u.status); return true;
    case MESSAGE_RESUME:
        add_subject(l, &msg->u.resume.subject);
        line_add(l, " %s until %u", phase_name(msg->u.resume.phase), msg->u.resume.until);
        add_path(l, &msg->u.resume.path);
        return true;
    case MESSAGE_COMMIT:
        add_subject(l, &msg->u.commit.subject);
        line_add(l, " rev %u", msg->u.commit.rev);
        add_path(l, &msg->u.commit.path);
        return true;
    case MESSAGE_COUNTED:
        add_subject(l, &msg->u.counted.subject);
        line_add(l, " rev %u%s", msg->u.counted.rev, msg->u.counted.overflow ? " overflow" : "");
        return true;
    case MESSAGE_SETTLED:
        add_subject(l, &msg->u.settled.subject);
        line_add(l, " %s tokens %u", msg->u.settled.is_void ? "void" : "counted", msg->u.settled.tokens);
        add_path(l, &msg->u.settled.path);
        return true;
    default: return false;
    }
}

static void add_message(line *l, const message *msg) {
    line_add(l, "%s t=%" PRIu64, message_kind_name(msg->kind), msg->iteration);
    if (add_flow_message(l, msg)) return;
    switch (msg->kind) {
    case MESSAGE_SUSPECT:
        line_add(l, " #%" PRIu64, msg->u.suspect.member);
        if (msg->u.suspect.has_subject) add_subject(l, &msg->u.suspect.subject);
        break;
    case MESSAGE_BEGIN_AGGREGATION: add_begin(l, &msg->u.begin); break;
    case MESSAGE_MISMATCH:
        line_add(l, " s%u round %" PRIu64 " ", msg->u.mismatch.stage, msg->u.mismatch.round);
        add_set(l, &msg->u.mismatch.set);
        break;
    case MESSAGE_RESULT: line_add(l, " s%u round %" PRIu64 " [%u,+%u)", msg->u.result.stage, msg->u.result.round, msg->u.result.first, msg->u.result.count); break;
    case MESSAGE_REDUCED:
        line_add(l, " s%u round %" PRIu64, msg->u.reduced.stage, msg->u.reduced.round);
        add_root(l, &msg->u.reduced.root);
        break;
    case MESSAGE_STATE:
        line_add(l, " s%u version %" PRIu64, msg->u.state.stage, msg->u.state.version);
        add_root(l, &msg->u.state.state_root);
        break;
    case MESSAGE_GET: add_get(l, &msg->u.get); break;
    case MESSAGE_DATA: add_get(l, &msg->u.data.get); break;
    case MESSAGE_HEARTBEAT:
        line_add(l, " ready %" PRIu64 " can take %" PRIu64 " free %u queued %u", msg->u.heartbeat.ready, msg->u.heartbeat.can_take, msg->u.heartbeat.free_slots,
                 msg->u.heartbeat.queued);
        break;
    case MESSAGE_CAN_TAKE: line_add(l, " iteration %" PRIu64 " s%u free %u", msg->u.can_take.iteration, msg->u.can_take.stage, msg->u.can_take.free_slots); break;
    case MESSAGE_VIEW: line_add(l, " %s", gossip_kind_name(msg->u.view.kind)); break;
    case MESSAGE_ROUTE: {
        const message_route *r = &msg->u.route;
        line_add(l, " %08x/%08x %u cost %u:", r->session, r->heard, r->sequence, r->cost);
        for (uint32_t i = 0; i < r->parts; i++) line_add(l, " %s of #%u (%u)", route_kind_name(r->part[i].kind), r->part[i].source, r->part[i].units);
        break;
    }
    case MESSAGE_SURVEY: line_add(l, " term %" PRIu64, msg->u.survey.owner_term); break;
    case MESSAGE_HOLDINGS: add_holdings(l, &msg->u.holdings); break;
    case MESSAGE_GET_LOG: line_add(l, " from %" PRIu64, msg->u.get_log.from); break;
    case MESSAGE_LOG: add_entry(l, &msg->u.log.entry); break;
    case MESSAGE_JOIN: line_add(l, " %s", msg->u.join.address); break;
    default: break;
    }
}

static void add_job(line *l, const job *work) {
    line_add(l, "%s t=%" PRIu64, sim_job_name(work->kind), work->iteration);
    if (work->kind <= JOB_WEIGHT) line_add(l, " m=%u slot %u", work->m, work->slot);
    else if (work->count) line_add(l, " [%u,+%u) version %" PRIu64, work->first, work->count, work->version);
}

static void add_tell(line *l, const tell *what) {
    line_add(l, "%s t=%" PRIu64 " #%" PRIu64 " s%u m=%u", tell_name(what->kind), what->iteration, what->member, what->stage, what->m);
    if (what->kind == TELL_REPAIR) line_add(l, " %s", repair_phase_name(what->phase));
    if (what->text) line_add(l, " %s", what->text);
}

// ---- names

static const char *name_of(const sim_cluster *s, const braid_id *id) {
    for (uint32_t i = s->nodes; i-- > 0;)
        if (id_equal(&s->node[i].id, id)) return s->node[i].name;
    return "?";
}

static void print_peer(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    char name[48];
    snprintf(name, sizeof name, "%s#%" PRIu64 "/s%u", n->name, n->view.member, n->view.stage);
    fprintf(s->trace, "%11.6f %-10s ", (double)s->now / 1e9, name);
}

void sim_trace(sim_cluster *s, uint32_t node, const char *format, ...) {
    if (!s->trace) return;
    line l = {.used = 0};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(l.text, sizeof l.text, format, arguments);
    va_end(arguments);
    print_peer(s, node);
    fprintf(s->trace, "%s\n", l.text);
}

static bool quiet(uint8_t kind) { return kind == MESSAGE_HEARTBEAT; }

void sim_trace_event(sim_cluster *s, uint32_t node, const event *e, uint32_t from, uint64_t sent_ns) {
    if (!s->trace || e->kind == EVENT_TICK || e->kind == EVENT_JOB_DONE || (e->kind == EVENT_MESSAGE && quiet(e->msg->kind))) return;
    line l = {.used = 0};
    switch (e->kind) {
    case EVENT_MESSAGE:
        line_add(&l, "<- %s ", s->node[from].name);
        add_message(&l, e->msg);
        line_add(&l, "  (%.1f ms)", milliseconds(s->now - sent_ns));
        break;
    case EVENT_LINK_UP: line_add(&l, "== link to %s is up", name_of(s, &e->id)); break;
    case EVENT_LINK_DOWN: line_add(&l, "== link to %s is down%s", name_of(s, &e->id), e->refused ? ", refused" : ""); break;
    case EVENT_STORED:
        line_add(&l, "== stored");
        add_entry(&l, e->entry);
        break;
    default: line_add(&l, "== event %d", (int)e->kind);
    }
    print_peer(s, node);
    fprintf(s->trace, "%s\n", l.text);
}

void sim_trace_effect(sim_cluster *s, uint32_t node, const effect *e) {
    if (!s->trace || e->kind == EFFECT_RELEASE || e->kind == EFFECT_APPLIED || (e->kind == EFFECT_SEND && quiet(e->message_kind))) return;
    line l = {.used = 0};
    switch (e->kind) {
    case EFFECT_SEND:
        line_add(&l, "-> %s ", name_of(s, &e->id));
        if (message_decode(e->bytes, e->byte_count, &s->sent)) add_message(&l, &s->sent);
        else line_add(&l, "%s that cannot be decoded", message_kind_name(e->message_kind));
        break;
    case EFFECT_DIAL: line_add(&l, "dial %s at %s", name_of(s, &e->id), e->address); break;
    case EFFECT_CLOSE: line_add(&l, "close link to %s", name_of(s, &e->id)); break;
    case EFFECT_JOB:
        line_add(&l, "job ");
        add_job(&l, e->job);
        break;
    case EFFECT_APPEND:
        line_add(&l, "append");
        add_entry(&l, e->entry);
        break;
    case EFFECT_TELL:
        line_add(&l, "tell ");
        add_tell(&l, &e->tell);
        break;
    case EFFECT_EXIT: line_add(&l, "exit%s", e->failed ? ", failed" : ""); break;
    case EFFECT_APPLIED: break;
    default: line_add(&l, "effect %d", (int)e->kind);
    }
    print_peer(s, node);
    fprintf(s->trace, "        %s\n", l.text);
}

void sim_trace_result(sim_cluster *s, uint32_t node, const job *work, const job_result *result) {
    if (!s->trace) return;
    line l = {.used = 0};
    line_add(&l, "== done ");
    add_job(&l, work);
    line_add(&l, "%s  (%.1f ms)", result->failed ? " failed" : "", milliseconds(result->cost_ns));
    print_peer(s, node);
    fprintf(s->trace, "%s\n", l.text);
}
