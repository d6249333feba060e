#include "cli/node_events.h"

#include "base/machine.h"
#include "node/ticket.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void peer_text(const braid_id *id, char text[REPORT_HASH_TEXT]) { id_hex(id->bytes, PEER_TEXT_BYTES, text); }

void node_events_init(node_events *e, report *out) {
    *e = (node_events){.report = out, .last_loss = NAN};
}

void node_events_run(node_events *e, const run_config *run, uint64_t parameters) {
    snprintf(e->name, sizeof e->name, "%s", run->name);
    e->iterations = run->recipe.iterations;
    e->stages = run->stages;
    e->microbatches = run->microbatches;
    e->tokens_per_iteration = run_iteration_tokens(run);
    e->parameters = parameters;
}

static report_event event_of(report_kind kind) {
    return (report_event){.kind = kind, .loss = NAN, .norm = NAN, .learning_rate = NAN};
}

static const char *const expel_names[EXPEL_REASONS] = {
    [EXPEL_DEAD] = "it died", [EXPEL_RETURNED] = "it restarted as a new member", [EXPEL_LEFT] = "it left",
    [EXPEL_STUCK] = "it made no progress", [EXPEL_DIVERGED] = "its state differs from the stage's",
    [EXPEL_MOVED] = REPORT_MOVES,
};

static void tell_started(node_events *e, const tell *t, uint64_t now_ns) {
    report_event news = event_of(REPORT_STARTED);
    e->start_ns = e->last_ns = now_ns;
    e->version = news.iteration = t->iteration;
    news.of = e->iterations;
    news.stages = e->stages;
    news.parameters = e->parameters;
    news.tokens = e->tokens_per_iteration;
    news.microbatches = e->microbatches;
    snprintf(news.name, sizeof news.name, "%s", e->name);
    report_tell(e->report, &news);
}

static void tell_iteration(node_events *e, const tell *t, uint64_t now_ns) {
    report_event news = event_of(REPORT_ITERATION);
    if (!e->start_ns) e->start_ns = e->last_ns = now_ns;  // the peer joined a running run
    double seconds = (double)(now_ns - e->last_ns) * 1e-9;
    e->last_ns = now_ns;
    e->tokens += t->tokens;
    e->version = t->iteration + 1;
    if (t->tokens) e->last_loss = t->loss;
    news.iteration = e->version;
    news.of = e->iterations;
    news.loss = t->loss;
    news.tokens = t->tokens;
    news.microbatches = t->microbatches;
    news.left_out = t->left_out;
    news.tokens_per_second = seconds > 0 ? (double)t->tokens / seconds : 0;
    news.norm = t->norm;
    news.learning_rate = t->learning_rate;
    news.skip = t->skip;
    e->work = (report_work){.wasted = t->wasted, .carried = t->carried, .carried_bytes = t->carried_bytes};
    e->work.tensor_bytes = e->tensor_bytes;
    e->work.message_bytes = e->message_bytes;
    e->work.memory_bytes = machine_resident_bytes();
    e->work.wasted_seconds = (double)t->wasted_ns * 1e-9;
    e->work.computed_seconds = (double)(t->wasted_ns + t->useful_ns) * 1e-9;
    news.work = e->work;
    report_tell(e->report, &news);
}

static void tell_member(node_events *e, const tell *t) {
    bool gone = t->kind == TELL_EXPELLED;
    bool left = gone && t->reason == EXPEL_LEFT;
    report_event news = event_of(left ? REPORT_LEFT : gone ? REPORT_EXPELLED : t->kind == TELL_SUSPECT ? REPORT_SUSPECT : REPORT_JOINED);
    peer_text(&t->id, news.peer);
    news.iteration = t->iteration;
    news.member = t->member;
    news.stage = t->stage;
    strcpy(news.role, t->standby ? "shadow" : t->stage == 0 ? "data" : "relay");
    if (gone) snprintf(news.reason, sizeof news.reason, "%s", t->reason < EXPEL_REASONS ? expel_names[t->reason] : "");
    report_tell(e->report, &news);
}

static void tell_promoted(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_PROMOTED);
    peer_text(&t->id, news.peer);
    news.iteration = t->iteration;
    news.member = t->member;
    news.stage = t->stage;
    report_tell(e->report, &news);
}

static void tell_rolled_back(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_ROLLED_BACK);
    e->version = news.iteration = t->iteration;
    news.stage = t->stage;
    news.total = t->total;
    news.generation = t->generation;
    report_tell(e->report, &news);
}

static void tell_leader(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_LEADER);
    ticket own = {.leader = t->id};
    peer_text(&t->id, news.peer);
    snprintf(own.address, sizeof own.address, "%s", t->text ? t->text : "");
    snprintf(news.address, sizeof news.address, "%s", own.address);
    ticket_format(&own, news.ticket);
    report_tell(e->report, &news);
}

static void tell_lied(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_NOTE);
    peer_text(&t->id, news.peer);
    snprintf(news.text, sizeof news.text, "%s sent state of stage %u that does not match its hash; fetching it from another peer", news.peer, t->stage);
    report_tell(e->report, &news);
}

static void tell_spoilt(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_NOTE);
    snprintf(news.text, sizeof news.text, "the local checkpoint of iteration %llu does not match the run's log in stage %u, so it is not used; check the disk",
             (unsigned long long)t->iteration, t->stage);
    report_tell(e->report, &news);
}

static void tell_unled(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_UNLED);
    peer_text(&t->id, news.peer);
    news.done = t->done;
    news.total = t->total;
    snprintf(news.address, sizeof news.address, "%s", t->text ? t->text : "");
    unsigned long long here = t->done, all = t->total, others = all - here - 1;
    char more[32] = "";
    if (others > 0) snprintf(more, sizeof more, ", and %llu more", others);
    snprintf(news.text, sizeof news.text, "the run has no leader: %llu of the %llu voters must be present, and %llu %s. Missing: %s (last at %.128s)%s. Restart them with the same --log and "
             "--identity. If those are lost, stop all peers and start again from the newest checkpoint (braid node --lead --anew --resume DIR)",
             all / 2 + 1, all, here, here == 1 ? "is" : "are", news.peer, t->text ? t->text : "?", more);
    report_tell(e->report, &news);
}

static void tell_repair(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_REPAIR);
    e->repairs++;
    news.iteration = t->iteration + 1;
    news.microbatch = t->m;
    news.stage = t->stage;
    news.member = t->member;
    peer_text(&t->id, news.peer);
    snprintf(news.phase, sizeof news.phase, "%s", repair_phase_name(t->phase));
    report_tell(e->report, &news);
}

static void tell_transfer(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_TRANSFER);
    peer_text(&t->id, news.peer);
    news.stage = t->stage;
    news.done = t->done;
    news.total = t->total;
    report_tell(e->report, &news);
}

static void tell_flows(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_FLOWS);
    peer_text(&t->id, news.peer);
    news.member = t->member;
    news.stage = t->stage;
    news.changes = t->changes;
    for (; news.flows < t->flows && news.flows < REPORT_MAX_FLOWS; news.flows++) {
        const peer_flow *f = &t->flow[news.flows];
        news.flow[news.flows] = (report_flow){f->to, f->source, f->units, f->cost};
    }
    report_tell(e->report, &news);
}

static void tell_checkpoint(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_CHECKPOINT);
    news.iteration = t->iteration;
    news.failed = t->failed;
    snprintf(news.path, sizeof news.path, "%s", e->checkpoint);
    snprintf(news.text, sizeof news.text, "%s", e->unsaved);
    report_tell(e->report, &news);
}

static void tell_eval(node_events *e, const tell *t) {
    report_event news = event_of(REPORT_EVAL);
    news.iteration = t->iteration;
    news.loss = t->loss;
    news.tokens = t->tokens;
    report_tell(e->report, &news);
}

static void takeovers_flush(node_events *e) {
    for (uint32_t i = 0; i < e->taken_count; i++) {
        const node_takeover *t = &e->taken[i];
        report_event news = event_of(REPORT_TAKEOVER);
        news.iteration = t->iteration;
        news.member = t->member;
        news.gone = t->gone;
        news.microbatches = t->microbatches;
        peer_text(&t->id, news.peer);
        report_tell(e->report, &news);
    }
    e->taken_count = 0;
}

static void tell_takeover(node_events *e, const tell *t) {
    uint32_t i = 0;
    while (i < e->taken_count && (e->taken[i].member != t->member || e->taken[i].gone != t->gone)) i++;
    if (i == NODE_TAKEOVERS) {
        takeovers_flush(e);
        i = 0;
    }
    if (i == e->taken_count) e->taken[e->taken_count++] = (node_takeover){.member = t->member, .gone = t->gone, .id = t->id};
    e->taken[i].iteration = t->iteration;
    e->taken[i].microbatches += t->microbatches;
    e->taken_now = true;
}

void node_events_tick(node_events *e) {
    if (!e->taken_now) takeovers_flush(e);
    e->taken_now = false;
}

static void tell_share(node_events *e, const tell *t) {
    report_event news = event_of(t->kind == TELL_AWAITED ? REPORT_AWAITED : t->kind == TELL_BACK ? REPORT_BACK : REPORT_UNFINISHED);
    news.iteration = t->iteration;
    news.microbatches = t->microbatches;
    news.seconds = (double)(t->kind == TELL_AWAITED ? t->total : t->done) * 1e-9;
    peer_text(&t->id, news.peer);
    report_tell(e->report, &news);
}

void node_events_tell(node_events *e, const tell *t, uint64_t now_ns) {
    switch (t->kind) {
    case TELL_STARTED: tell_started(e, t, now_ns); break;
    case TELL_ITERATION: tell_iteration(e, t, now_ns); break;
    case TELL_EVAL: tell_eval(e, t); break;
    case TELL_REPAIR: tell_repair(e, t); break;
    case TELL_TAKEOVER: tell_takeover(e, t); break;
    case TELL_AWAITED:
    case TELL_BACK:
    case TELL_UNFINISHED: tell_share(e, t); break;
    case TELL_TRANSFER: tell_transfer(e, t); break;
    case TELL_FLOWS: tell_flows(e, t); break;
    case TELL_CHECKPOINT: tell_checkpoint(e, t); break;
    case TELL_PROMOTED: tell_promoted(e, t); break;
    case TELL_ROLLED_BACK: tell_rolled_back(e, t); break;
    case TELL_JOINED:
    case TELL_MEMBER:
    case TELL_EXPELLED:
    case TELL_SUSPECT: tell_member(e, t); break;
    case TELL_END:
        e->ended = true;
        e->weights = t->hash;
        e->version = t->iteration;
        break;
    case TELL_DIVERGED: e->diverged = true; break;
    case TELL_LEADER: tell_leader(e, t); break;
    case TELL_LIED: tell_lied(e, t); break;
    case TELL_SPOILT: tell_spoilt(e, t); break;
    case TELL_UNLED: tell_unled(e, t); break;
    case TELL_REFUSED:
        snprintf(e->refused, sizeof e->refused, "%s", t->text ? t->text : "");
        break;
    default: break;
    }
}

void node_events_note(node_events *e, const char *text) {
    report_event news = event_of(REPORT_NOTE);
    snprintf(news.text, sizeof news.text, "%s", text);
    report_tell(e->report, &news);
}

void node_events_end(node_events *e, const char *why, uint64_t now_ns) {
    takeovers_flush(e);
    if (*e->refused) {
        report_event news = event_of(REPORT_REFUSED);
        strcpy(news.text, e->refused);
        report_tell(e->report, &news);
    }
    report_event news = event_of(REPORT_END);
    news.failed = why != NULL;
    if (e->diverged) strcpy(news.reason, REPORT_DIVERGED);
    snprintf(news.text, sizeof news.text, "%s", why && *e->unsaved && !e->diverged ? e->unsaved : why ? why : "");
    if (e->ended) id_hex(e->weights.bytes, BRAID_ID_BYTES, news.weights);
    news.iteration = e->version;
    news.of = e->iterations;
    // Without a request here, the leader ended the run early.
    bool early = e->version < e->iterations && !why && !*e->refused;
    news.stopped = e->stopped_by ? e->iterations == 0 || e->version < e->iterations : early;
    if (news.stopped && !e->diverged) snprintf(news.reason, sizeof news.reason, "%s", e->stopped_by ? e->stopped_by : REPORT_BY_LEADER);
    news.loss = e->last_loss;
    news.tokens = e->tokens;
    news.seconds = e->start_ns ? (double)(now_ns - e->start_ns) * 1e-9 : 0;
    news.repairs = e->repairs;
    news.work = e->work;
    snprintf(news.path, sizeof news.path, "%s", e->checkpoint);
    report_tell(e->report, &news);
}
