// The board as JSON: records of the run and its peers, and the history.
#include "cli/run_board.h"
#include "cli/run_board_inside.h"
#include "format/peer_state.h"

#include <math.h>
#include <string.h>

// ---- records

static const char *join_command(const run_board *b, char text[BOARD_TEXT]) {
    snprintf(text, BOARD_TEXT, "braid node --join %.200s", *b->ticket ? b->ticket : "TICKET");
    return text;
}

static board_record ended_record(const run_board *b) {
    const report_event *e = &b->end;
    board_record r = {.state = e->failed ? "failed" : e->stopped ? "stopped" : "complete", .since = b->since};
    if (e->failed) r.blocker = e->text;
    if (e->stopped) r.next_step = "the same command with --continue goes on from the newest checkpoint";
    return r;
}

static board_record waiting_record(const board_wait *w, const char *next_step) {
    return (board_record){.state = "waiting",
                          .blocker = w->blocker,
                          .waits_for = w->waits_for,
                          .next_step = next_step,
                          .since = w->since};
}

board_record board_run_record(const run_board *b, char text[BOARD_TEXT]) {
    if (b->end.kind != REPORT_KINDS) return ended_record(b);
    if (b->unled.since > 0) return waiting_record(&b->unled, "the voters elect a leader");
    if (b->empty.since > 0) return waiting_record(&b->empty, join_command(b, text));
    if (b->awaited.since > 0) return waiting_record(&b->awaited, "the run goes on when it is back, or after its limit");
    bool trains = b->started.kind != REPORT_KINDS || b->iteration.kind != REPORT_KINDS;
    if (trains) return (board_record){.state = "training", .since = b->since};
    return (board_record){.state = "starting",
                          .blocker = "the run has not begun",
                          .waits_for = "a peer for each stage, and its data",
                          .next_step = join_command(b, text),
                          .since = b->since};
}

board_record board_peer_record(const run_board *b, const board_peer *p, char text[BOARD_TEXT]) {
    board_record r = {.state = p->standby ? "standby" : "working", .since = p->since};
    if (p->suspected) {
        r.state = "unresponsive";
        r.blocker = "it does not answer";
        r.waits_for = "an answer of it";
        r.next_step = "the leader removes it, and other peers repair its microbatches";
    } else if (p->total > 0) {
        r.state = "fetching";
        snprintf(text, BOARD_TEXT, "it has %llu of %llu blocks of the stage's state", (unsigned long long)p->done,
                 (unsigned long long)p->total);
        r.blocker = text;
        r.waits_for = "other peers of the stage";
        r.next_step = "it computes once its state is complete";
    } else if (!p->standby && b->started.kind == REPORT_KINDS && b->iteration.kind == REPORT_KINDS) {
        r.state = "joined";
        r.waits_for = "the start of the run";
    }
    return r;
}

static void put_record(json_out *o, const char *id, const board_record *r, double now) {
    double since = r->since > 0 && now > r->since ? now - r->since : 0;
    // rounded, so that a state that stays the same is sent once a second at most
    const peer_state s = {.id = id,
                          .state = r->state,
                          .blocker = r->blocker,
                          .waits_for = r->waits_for,
                          .since_s = floor(since),
                          .next_step = r->next_step};
    peer_state_put(o, &s);
}

// ---- the state

static void put_peer(json_out *o, const run_board *b, const board_peer *p, double now) {
    char text[BOARD_TEXT];
    board_record r = board_peer_record(b, p, text);
    json_out_open(o, NULL, '{');
    put_record(o, p->peer, &r, now);
    json_out_u64(o, "member", p->member);
    json_out_u64(o, "stage", p->stage);
    json_out_text(o, "role", p->role, strlen(p->role));
    json_out_bool(o, "leader", *b->leader && strcmp(b->leader, p->peer) == 0);
    json_out_close(o, '}');
}

// `braid train --solo` reports no members.
static void put_solo(json_out *o, const run_board *b, double now) {
    char text[BOARD_TEXT];
    board_record r = board_run_record(b, text);
    json_out_open(o, NULL, '{');
    put_record(o, "this process", &r, now);
    json_out_u64(o, "stage", 0);
    json_out_string(o, "role", "solo");
    json_out_bool(o, "leader", false);
    json_out_close(o, '}');
}

static void put_peers(json_out *o, const run_board *b, double now) {
    bool ended = b->end.kind != REPORT_KINDS;
    json_out_open(o, "peers", '[');
    for (uint32_t i = 0; i < b->peers && !ended; i++) put_peer(o, b, &b->peer[i], now);
    if (b->peers == 0 && !ended && b->started.kind != REPORT_KINDS && b->started.stages == 1) put_solo(o, b, now);
    json_out_close(o, ']');
    json_out_open(o, "gone", '[');
    for (uint32_t i = b->gone_count; i > 0; i--) {
        const board_gone *g = &b->gone[i - 1];
        if (g->since == 0) continue;  // only suspected
        const board_record r = {.state = g->lost ? "lost" : "left", .blocker = g->reason, .since = g->since};
        json_out_open(o, NULL, '{');
        put_record(o, g->peer, &r, now);
        json_out_u64(o, "stage", g->stage);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_stages(json_out *o, const run_board *b) {
    uint32_t stages = b->started.kind == REPORT_KINDS ? 0 : (uint32_t)b->started.stages;
    for (uint32_t i = 0; i < b->peers; i++)
        if (b->peer[i].stage < WIRE_MAX_STAGES && b->peer[i].stage >= stages) stages = (uint32_t)b->peer[i].stage + 1;
    json_out_open(o, "stages", '[');
    for (uint32_t i = 0; i < stages && i < WIRE_MAX_STAGES; i++) {
        json_out_open(o, NULL, '{');
        json_out_u64(o, "peers", b->live[i]);
        json_out_u64(o, "standbys", b->standby[i]);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_totals(json_out *o, const run_board *b) {
    const report_work *w = &b->iteration.work;
    bool computed = b->iteration.kind != REPORT_KINDS && w->computed_seconds > 0;
    json_out_u64(o, "tokens", b->total.tokens);
    json_out_u64(o, "repairs", b->total.repairs);
    json_out_u64(o, "killed", b->total.killed);
    json_out_u64(o, "lost", b->total.lost);
    json_out_u64(o, "rollbacks", b->total.rollbacks);
    json_out_u64(o, "left_out", b->total.left_out);
    json_out_double(o, "mean_recovery_s", b->total.recoveries ? b->total.recovery_s / (double)b->total.recoveries : 0);
    json_out_double(o, "longest_recovery_s", b->total.longest_recovery_s);
    if (computed) json_out_double(o, "goodput", 1 - w->wasted_seconds / w->computed_seconds);
    if (b->iteration.kind != REPORT_KINDS) json_out_u64(o, "memory_bytes", w->memory_bytes);
    if (b->machine.kind != REPORT_KINDS) json_out_u64(o, "memory_limit", b->machine.memory);
}

static void put_progress(json_out *o, const run_board *b) {
    const report_event *s = &b->started, *i = &b->iteration;
    bool trained = i->kind != REPORT_KINDS;
    json_out_u64(o, "iteration", trained ? i->iteration : s->kind != REPORT_KINDS ? s->iteration : 0);
    json_out_u64(o, "of", trained ? i->of : s->kind != REPORT_KINDS ? s->of : 0);
    if (s->kind != REPORT_KINDS) {
        json_out_text(o, "name", s->name, strlen(s->name));
        json_out_u64(o, "parameters", s->parameters);
        json_out_u64(o, "microbatches", s->microbatches);
    }
    if (trained) json_out_double(o, "loss", i->loss);
    if (trained) json_out_double(o, "tokens_per_second", i->tokens_per_second);
    if (b->eval.kind != REPORT_KINDS) json_out_double(o, "held_out_loss", b->eval.loss);
    if (b->checkpoint.kind == REPORT_KINDS) return;
    json_out_u64(o, "checkpoint", b->checkpoint.iteration);
    json_out_text(o, "checkpoint_path", b->checkpoint.path, strlen(b->checkpoint.path));
}

char *run_board_state(void *board) {
    run_board *b = board;
    char text[BOARD_TEXT];
    json_out o = {0};
    double now = board_seconds_now();
    pthread_mutex_lock(&b->lock);
    board_record r = board_run_record(b, text);
    json_out_open(&o, NULL, '{');
    put_record(&o, NULL, &r, now);
    put_progress(&o, b);
    put_totals(&o, b);
    put_stages(&o, b);
    put_peers(&o, b, now);
    json_out_close(&o, '}');
    pthread_mutex_unlock(&b->lock);
    return json_out_take(&o, NULL);
}

bool run_board_ready(void *board, char blocker[128]) {
    run_board *b = board;
    char text[BOARD_TEXT];
    pthread_mutex_lock(&b->lock);
    board_record r = board_run_record(b, text);
    snprintf(blocker, 128, "%.127s", r.blocker ? r.blocker : "");
    bool ready = strcmp(r.state, "training") == 0;
    pthread_mutex_unlock(&b->lock);
    return ready;
}

// ---- the history

static void put_point(json_out *o, const board_point *p) {
    json_out_open(o, NULL, '[');
    json_out_u64(o, NULL, p->iteration);
    json_out_double(o, NULL, p->loss);
    if (!p->held_out) json_out_double(o, NULL, p->speed);
    if (!p->held_out) json_out_u64(o, NULL, p->peers);
    json_out_close(o, ']');
}

static void put_points(json_out *o, const run_board *b, const char *key, bool held_out, uint64_t from) {
    json_out_open(o, key, '[');
    for (uint32_t i = 0; i < b->points; i++)
        if (b->point[i].held_out == held_out && b->point[i].number >= from) put_point(o, &b->point[i]);
    json_out_close(o, ']');
}

static void put_mark(json_out *o, const board_mark *m) {
    json_out_open(o, NULL, '{');
    json_out_u64(o, "id", m->id);
    json_out_string(o, "kind", report_kind_name(m->kind));
    json_out_double(o, "time", m->seconds);
    json_out_u64(o, "iteration", m->iteration);
    if (m->stage >= 0) json_out_u64(o, "stage", (uint64_t)m->stage);
    if (*m->peer) json_out_text(o, "peer", m->peer, strlen(m->peer));
    if (m->count > 1) json_out_u64(o, "count", m->count);
    if (*m->text) json_out_text(o, "text", m->text, strlen(m->text));
    json_out_close(o, '}');
}

char *run_board_history(void *board, uint64_t from, uint64_t *next) {
    run_board *b = board;
    json_out o = {0};
    pthread_mutex_lock(&b->lock);
    if (from > b->next_number) from = 0;
    *next = b->next_number;
    json_out_open(&o, NULL, '{');
    json_out_bool(&o, "all", from == 0);
    put_points(&o, b, "losses", false, from);
    put_points(&o, b, "held_out", true, from);
    json_out_open(&o, "marks", '[');
    for (uint32_t i = 0; i < b->marks; i++)
        if (b->mark[i].number >= from) put_mark(&o, &b->mark[i]);
    json_out_close(&o, ']');
    json_out_close(&o, '}');
    pthread_mutex_unlock(&b->lock);
    return json_out_take(&o, NULL);
}
