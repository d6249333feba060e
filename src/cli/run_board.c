#include "cli/run_board.h"

#include "cli/run_board_inside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

double board_seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

run_board *run_board_new(void) {
    run_board *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->point = calloc(BOARD_MAX_POINTS, sizeof *b->point);
    b->mark = calloc(BOARD_MAX_MARKS, sizeof *b->mark);
    b->started.kind = b->iteration.kind = b->eval.kind = b->end.kind = REPORT_KINDS;
    b->machine.kind = b->checkpoint.kind = REPORT_KINDS;
    b->since = board_seconds_now();
    pthread_mutex_init(&b->lock, NULL);
    if (b->point && b->mark) return b;
    run_board_free(b);
    return NULL;
}

void run_board_free(run_board *b) {
    if (!b) return;
    pthread_mutex_destroy(&b->lock);
    free(b->point);
    free(b->mark);
    free(b);
}

static void copy_peer(char to[REPORT_PEER_DIGITS + 1], const char *from) {
    snprintf(to, REPORT_PEER_DIGITS + 1, "%.*s", REPORT_PEER_DIGITS, from);
}

// ---- the history

// Keeps one point of `stride` of each kind. The newest points are there all the same, until the next
// time.
static void thin_points(run_board *b) {
    while (b->points > BOARD_MAX_POINTS / 2) {
        uint32_t kept = 0;
        b->stride = b->stride ? 2 * b->stride : 2;
        for (uint32_t i = 0; i < b->points; i++)
            if (b->point[i].ordinal % b->stride == 0) b->point[kept++] = b->point[i];
        b->points = kept;
    }
}

static void add_point(run_board *b, const report_event *e, bool held_out) {
    if (b->points == BOARD_MAX_POINTS) thin_points(b);
    b->point[b->points++] = (board_point){.number = b->next_number++,
                                          .ordinal = b->ordinal[held_out]++,
                                          .iteration = e->iteration,
                                          .peers = b->peers,
                                          .held_out = held_out,
                                          .loss = e->loss,
                                          .speed = e->tokens_per_second,
                                          .seconds = b->now};
}

static void drop_points_after(run_board *b, uint64_t iteration) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->points; i++)
        if (b->point[i].iteration <= iteration) b->point[kept++] = b->point[i];
    b->points = kept;
}

static bool has_stage(report_kind kind) {
    return kind == REPORT_JOINED || kind == REPORT_LEFT || kind == REPORT_EXPELLED || kind == REPORT_SUSPECT ||
           kind == REPORT_REPAIR || kind == REPORT_KILLED || kind == REPORT_PROMOTED || kind == REPORT_ROLLED_BACK;
}

static void fill_mark(const run_board *b, const report_event *e, const char *text, board_mark *m) {
    uint64_t iteration = b->iteration.kind == REPORT_KINDS ? 0 : b->iteration.iteration;
    m->kind = e->kind;
    m->member = e->member;
    m->iteration = e->kind == REPORT_CHECKPOINT || e->kind == REPORT_ROLLED_BACK ? e->iteration : iteration;
    m->stage = has_stage(e->kind) ? (int64_t)e->stage : -1;
    m->seconds = b->now;
    copy_peer(m->peer, e->peer);
    snprintf(m->text, sizeof m->text, "%.*s", BOARD_TEXT - 1, text);
    for (char *c = m->text; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';  // six bytes in JSON; the whole history must fit into one event
}

static void add_mark(run_board *b, const report_event *e, const char *text) {
    if (b->marks == BOARD_MAX_MARKS) memmove(b->mark, b->mark + 1, --b->marks * sizeof *b->mark);
    board_mark *m = &b->mark[b->marks++];
    *m = (board_mark){.number = b->next_number++, .id = b->next_id++, .count = 1};
    fill_mark(b, e, text, m);
}

// Repairs because of one member are one mark. It gets a new number, so that pages receive it again.
static void add_repair(run_board *b, const report_event *e) {
    for (uint32_t i = b->marks; i > 0; i--) {
        board_mark *m = &b->mark[i - 1];
        if (m->kind != REPORT_REPAIR || m->member != e->member) continue;
        m->number = b->next_number++;
        m->count++;
        return;
    }
    add_mark(b, e, e->phase);
}

// ---- peers

static board_peer *find_member(run_board *b, uint64_t member) {
    for (uint32_t i = 0; i < b->peers; i++)
        if (b->peer[i].member == member) return &b->peer[i];
    return NULL;
}

static void count_stage(run_board *b, uint64_t stage, bool standby, bool more) {
    if (stage >= WIRE_MAX_STAGES) return;
    uint32_t *count = standby ? &b->standby[stage] : &b->live[stage];
    if (more)
        ++*count;
    else if (*count > 0)
        --*count;
}

static void on_joined(run_board *b, const report_event *e) {
    if (find_member(b, e->member) || b->peers == WIRE_MAX_MEMBERS) return;
    board_peer *p = &b->peer[b->peers++];
    *p = (board_peer){.member = e->member, .stage = e->stage, .standby = strcmp(e->role, "shadow") == 0};
    p->since = b->now;
    copy_peer(p->peer, e->peer);
    snprintf(p->role, sizeof p->role, "%s", p->standby ? "standby" : e->role);
    count_stage(b, p->stage, p->standby, true);
    add_mark(b, e, p->role);
    // Only a change of leadership is reported, and the first leader is the first member of a run.
    if (e->member == 1 && !*b->leader) copy_peer(b->leader, e->peer);
}

static board_gone *find_gone(run_board *b, uint64_t member) {
    for (uint32_t i = b->gone_count; i > 0; i--)
        if (b->gone[i - 1].member == member) return &b->gone[i - 1];
    return NULL;
}

// The record of a member that is gone, or is about to be: with its first repair, kill or suspicion.
static board_gone *make_gone(run_board *b, const report_event *e) {
    board_gone *g = find_gone(b, e->member);
    if (g) return g;
    if (b->gone_count == BOARD_MAX_GONE) memmove(b->gone, b->gone + 1, --b->gone_count * sizeof *b->gone);
    g = &b->gone[b->gone_count++];
    *g = (board_gone){.member = e->member, .stage = e->stage, .suspected = b->now};
    copy_peer(g->peer, e->peer);
    return g;
}

static void remove_member(run_board *b, uint64_t member) {
    board_peer *p = find_member(b, member);
    if (!p) return;
    count_stage(b, p->stage, p->standby, false);
    b->total.changes += p->changes;
    *p = b->peer[--b->peers];
}

// A peer that moves is neither lost nor gone.
static void on_moves(run_board *b, const report_event *e) {
    report_event left = *e;
    left.kind = REPORT_LEFT;
    remove_member(b, e->member);
    add_mark(b, &left, e->reason);
}

static void on_departed(run_board *b, const report_event *e) {
    bool lost = e->kind == REPORT_EXPELLED;
    board_gone *g = make_gone(b, e);
    g->lost = lost;
    g->since = b->now;
    if (!*g->reason) snprintf(g->reason, sizeof g->reason, "%s", lost ? e->reason : "left in order");
    if (lost)
        b->total.lost++;
    else
        b->total.left++;
    add_mark(b, e, g->reason);
    remove_member(b, e->member);
}

static void on_suspect(run_board *b, const report_event *e) {
    board_peer *p = find_member(b, e->member);
    make_gone(b, e);
    if (p && !p->suspected) p->since = b->now;
    if (p) p->suspected = BOARD_SUSPECT_ITERATIONS;
    add_mark(b, e, "does not answer");
}

static void on_killed(run_board *b, const report_event *e) {
    board_gone *g = make_gone(b, e);
    b->total.killed++;
    snprintf(g->reason, sizeof g->reason, "killed on purpose%s%.24s", *e->phase ? " in " : "", e->phase);
    add_mark(b, e, e->phase);
}

static void on_repair(run_board *b, const report_event *e) {
    board_gone *g = make_gone(b, e);
    double before = g->repaired > 0 ? g->repaired - g->suspected : 0;
    b->total.repairs++;
    b->total.recoveries += !(g->repaired > 0);
    g->repaired = b->now;
    double whole = b->now - g->suspected;
    b->total.recovery_s += whole - before;
    if (whole > b->total.longest_recovery_s) b->total.longest_recovery_s = whole;
    add_repair(b, e);
}

static void on_promoted(run_board *b, const report_event *e) {
    board_peer *p = find_member(b, e->member);
    add_mark(b, e, "");
    if (!p || !p->standby) return;
    count_stage(b, p->stage, true, false);
    count_stage(b, p->stage, false, true);
    p->standby = false;
    p->since = b->now;
    snprintf(p->role, sizeof p->role, "relay");
}

static void on_transfer(run_board *b, const report_event *e) {
    for (uint32_t i = 0; i < b->peers; i++) {
        board_peer *p = &b->peer[i];
        if (!*e->peer || strncmp(p->peer, e->peer, strlen(p->peer)) != 0) continue;
        if (e->done >= e->total || p->total == 0) p->since = b->now;
        p->done = e->done;
        p->total = e->done >= e->total ? 0 : e->total;
    }
}

// ---- the run

// A member that answered again.
static void end_suspicion(run_board *b, board_peer *p) {
    uint32_t kept = 0;
    p->since = b->now;
    for (uint32_t i = 0; i < b->gone_count; i++)
        if (b->gone[i].since > 0 || b->gone[i].member != p->member) b->gone[kept++] = b->gone[i];
    b->gone_count = kept;
}

static void on_iteration(run_board *b, const report_event *e) {
    b->iteration = *e;
    b->total.tokens += e->tokens;
    b->total.left_out += e->left_out;
    b->unled.since = b->awaited.since = 0;
    for (uint32_t i = 0; i < b->peers; i++) {
        board_peer *p = &b->peer[i];
        if (p->suspected && --p->suspected == 0) end_suspicion(b, p);
    }
    add_point(b, e, false);
}

static void begin_wait(board_wait *w, double now, const char *blocker, const char *waits_for) {
    if (w->since == 0) w->since = now;
    snprintf(w->blocker, sizeof w->blocker, "%s", blocker);
    snprintf(w->waits_for, sizeof w->waits_for, "%s", waits_for);
}

static void on_awaited(run_board *b, const report_event *e) {
    char blocker[BOARD_TEXT], peer[32];
    snprintf(peer, sizeof peer, "peer %.12s", e->peer);
    snprintf(blocker, sizeof blocker, "only %s has the data of %llu microbatches of each iteration", peer,
             (unsigned long long)e->microbatches);
    begin_wait(&b->awaited, b->now, blocker, peer);
    add_mark(b, e, blocker);
}

static void on_rolled_back(run_board *b, const report_event *e) {
    b->total.rollbacks++;
    if (b->iteration.kind != REPORT_KINDS) b->iteration.iteration = e->iteration;
    drop_points_after(b, e->iteration);
    add_mark(b, e, "all copies of the stage's state were lost");
}

static void on_checkpoint(run_board *b, const report_event *e) {
    if (!e->failed) b->checkpoint = *e;
    add_mark(b, e, e->failed ? e->text : e->path);
}

static void on_end(run_board *b, const report_event *e) {
    b->end = *e;
    b->since = b->now;
    add_mark(b, e, e->failed ? e->text : e->reason);
}

// A stage without a peer stops the run.
static void look_at_stages(run_board *b) {
    char blocker[64], waits_for[64];
    bool started = b->started.kind != REPORT_KINDS;
    uint32_t stage = 1, stages = started && b->started.stages <= WIRE_MAX_STAGES ? (uint32_t)b->started.stages : 0;
    while (stage < stages && b->live[stage] > 0) stage++;
    if (stage >= stages) {
        b->empty.since = 0;
        return;
    }
    snprintf(blocker, sizeof blocker, "stage %u has no peer", stage);
    snprintf(waits_for, sizeof waits_for, "a relay for stage %u", stage);
    begin_wait(&b->empty, b->now, blocker, waits_for);
}

static void take(run_board *b, const report_event *e) {
    board_peer *p;
    switch (e->kind) {
    case REPORT_STARTED:
        b->started = *e;
        b->since = b->now;
        break;
    case REPORT_ITERATION: on_iteration(b, e); break;
    case REPORT_EVAL:
        b->eval = *e;
        add_point(b, e, true);
        break;
    case REPORT_REPAIR: on_repair(b, e); break;
    case REPORT_JOINED: on_joined(b, e); break;
    case REPORT_LEFT:
    case REPORT_EXPELLED:
        if (strcmp(e->reason, REPORT_MOVES) == 0)
            on_moves(b, e);
        else
            on_departed(b, e);
        break;
    case REPORT_SUSPECT: on_suspect(b, e); break;
    case REPORT_KILLED: on_killed(b, e); break;
    case REPORT_PROMOTED: on_promoted(b, e); break;
    case REPORT_TRANSFER: on_transfer(b, e); break;
    case REPORT_FLOWS:
        if ((p = find_member(b, e->member))) p->changes = e->changes;
        break;
    case REPORT_READY: snprintf(b->ticket, sizeof b->ticket, "%s", e->ticket); break;
    case REPORT_LEADER:
        snprintf(b->ticket, sizeof b->ticket, "%s", e->ticket);
        copy_peer(b->leader, e->peer);
        b->unled.since = 0;
        add_mark(b, e, "leads the run");
        break;
    case REPORT_AWAITED: on_awaited(b, e); break;
    case REPORT_BACK: b->awaited.since = 0; break;
    case REPORT_UNLED: begin_wait(&b->unled, b->now, e->text, "a quorum of voters"); break;
    case REPORT_ROLLED_BACK: on_rolled_back(b, e); break;
    case REPORT_CHECKPOINT: on_checkpoint(b, e); break;
    case REPORT_NOTE: add_mark(b, e, e->text); break;
    case REPORT_MACHINE: b->machine = *e; break;
    case REPORT_END: on_end(b, e); break;
    default: break;
    }
}

// A process without a link to a peer reports its number with an id of zeros.
static void name_peer(run_board *b, report_event *e) {
    if (e->member == 0 || e->peer[strspn(e->peer, "0")] != 0) return;
    const board_peer *p = find_member(b, e->member);
    const board_gone *g = p ? NULL : find_gone(b, e->member);
    if (p || g) snprintf(e->peer, sizeof e->peer, "%s", p ? p->peer : g->peer);
}

void run_board_tell(run_board *b, const report_event *event, double seconds) {
    report_event named = *event;
    pthread_mutex_lock(&b->lock);
    b->now = seconds;
    name_peer(b, &named);
    take(b, &named);
    look_at_stages(b);
    pthread_mutex_unlock(&b->lock);
}
