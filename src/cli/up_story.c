// Combines the children's events into one report of the run. With one voter the leader alone is the
// source. With several voters the leader may die, and every peer reports the log's entries: the
// first report counts, later copies are ignored.
#include "cli/up_swarm.h"

#include <stdio.h>
#include <string.h>

// Live children only: an earlier incarnation has the same id.
static child *child_of_peer(swarm *s, const char *id) {
    for (uint32_t i = 0; i < s->child_count; i++)
        if (*id && !s->children[i]->exited && strcmp(s->children[i]->peer, id) == 0) return s->children[i];
    return NULL;
}

static child *child_of_member(swarm *s, uint64_t member) {
    for (uint32_t i = 0; i < s->child_count; i++)
        if (s->children[i]->listed && s->children[i]->member == member) return s->children[i];
    return NULL;
}

static void note_guest(swarm *s, const report_event *news) {
    uint32_t i = 0;
    if (news->kind == REPORT_JOINED && s->progress.guest_count < WIRE_MAX_MEMBERS) {
        guest *g = &s->progress.guests[s->progress.guest_count++];
        *g = (guest){.member = news->member, .stage = news->stage, .shadow = strcmp(news->role, "shadow") == 0};
        snprintf(g->peer, sizeof g->peer, "%s", news->peer);
    } else if (news->kind != REPORT_JOINED) {
        while (i < s->progress.guest_count && s->progress.guests[i].member != news->member) i++;
        if (i < s->progress.guest_count) s->progress.guests[i] = s->progress.guests[--s->progress.guest_count];
    }
}

// Records membership and stage as the log has them; the leader's report is authoritative.
static void note_member(swarm *s, const report_event *news) {
    bool in = news->kind == REPORT_JOINED;
    child *c = in ? child_of_peer(s, news->peer) : child_of_member(s, news->member);
    if (!c) {
        note_guest(s, news);
        return;
    }
    c->joined = c->listed = in;
    c->member = news->member;
    c->stage = news->stage;
}

// Records a child's id. The leader, which uses another pipe, may have named it before.
static void note_child(swarm *s, child *c, const report_event *ready) {
    const char *id = ready->peer;
    snprintf(c->peer, sizeof c->peer, "%s", id);
    snprintf(c->ticket, sizeof c->ticket, "%s", ready->ticket);
    for (uint32_t i = 0; i < s->progress.guest_count; i++) {
        if (strcmp(s->progress.guests[i].peer, id) != 0) continue;
        c->joined = c->listed = true;
        c->member = s->progress.guests[i].member;
        c->stage = s->progress.guests[i].stage;
        s->progress.guests[i] = s->progress.guests[--s->progress.guest_count];
        return;
    }
}

static bool is_member(swarm *s, uint64_t member) {
    if (child_of_member(s, member)) return true;
    for (uint32_t i = 0; i < s->progress.guest_count; i++)
        if (s->progress.guests[i].member == member) return true;
    return false;
}

static guest *shadow_find(swarm *s, uint64_t member) {
    for (uint32_t i = 0; i < s->progress.guest_count; i++)
        if (s->progress.guests[i].shadow && s->progress.guests[i].member == member) return &s->progress.guests[i];
    return NULL;
}

// Whether the event is new. Member numbers increase, and each child reports log entries in the
// log's order.
static bool is_news(swarm *s, const child *c, const report_event *news) {
    if (swarm_has_one_voter(s)) return c->role == CHILD_LEADER;
    switch (news->kind) {
    case REPORT_READY: return c->role == CHILD_LEADER;
    case REPORT_STARTED: return !s->progress.started;
    case REPORT_ITERATION: return s->progress.started && c->generation == s->progress.generation && news->iteration > s->progress.iteration;
    case REPORT_ROLLED_BACK: return news->generation > s->progress.generation;
    case REPORT_JOINED: return news->member > s->progress.newest_member;
    case REPORT_EXPELLED:
    case REPORT_LEFT: return is_member(s, news->member);
    case REPORT_PROMOTED: return shadow_find(s, news->member) != NULL;
    case REPORT_TAKEOVER: return !losses_know_takeover(s, news);
    case REPORT_LEADER: return strcmp(c->peer, news->peer) == 0;  // only a leader's report about itself is certain
    case REPORT_EVAL:
    case REPORT_CHECKPOINT: return true;  // reported by the leader only
    default: return c == s->progress.leading;
    }
}

// After a failed run the other processes have no work left, and might not notice for a while.
static void end_others(const swarm *s, const child *except) {
    for (uint32_t i = 0; i < s->child_count; i++)
        if (s->children[i] != except) child_kill(s->children[i]);
}

// All members end by themselves when the log reports the divergence. The first leader writes the
// checkpoints and knows the newest.
static void note_diverged(swarm *s, child *c, const report_event *news) {
    bool better = s->finish.event.kind != REPORT_END || (*news->path && !*s->finish.event.path);
    c->told_end = s->finish.ending = s->finish.failed = true;
    if (better) s->finish.event = *news;
    if (better) snprintf(s->finish.why, sizeof s->finish.why, "%s", news->text);
    s->finish.leave_deadline_ms = uv_now(&s->loop) + UP_LEAVE_MS;
}

// The run is over once a child has its weights. A peer that left, or was not admitted, ends without
// weights. A failed leader's error is the reason if no other child completes the run.
static void child_ended(swarm *s, child *c, const report_event *news) {
    bool alone = swarm_has_one_voter(s) || !s->progress.started;
    if (strcmp(news->reason, REPORT_DIVERGED) == 0) {
        note_diverged(s, c, news);
        return;
    }
    if (alone ? c->role != CHILD_LEADER : news->failed || !*news->weights) {
        if (c == s->progress.leading && news->failed && !*s->finish.why) snprintf(s->finish.why, sizeof s->finish.why, "%s", news->text);
        return;
    }
    s->finish.event = *news;
    if (!alone) {
        s->finish.event.tokens = s->progress.tokens;
        s->finish.event.seconds = (double)(uv_now(&s->loop) - s->progress.start_ms) / 1e3;
    }
    s->finish.ending = true;
    s->finish.leave_deadline_ms = uv_now(&s->loop) + UP_LEAVE_MS;
    if (news->failed) end_others(s, c);
}

static void note_promoted(swarm *s, const report_event *news) {
    guest *g = shadow_find(s, news->member);
    if (g) g->shadow = false;
}

static void note_checkpoint(swarm *s, const report_event *news) {
    if (news->failed) return;
    s->progress.saved = news->iteration;
    snprintf(s->progress.saved_path, sizeof s->progress.saved_path, "%s", news->path);
}

static void note_progress(swarm *s, child *c, const report_event *news) {
    switch (news->kind) {
    case REPORT_STARTED:
        s->progress.started = true;
        s->progress.start_ms = uv_now(&s->loop);
        s->progress.first = s->progress.iteration = s->progress.furthest = news->iteration;
        break;
    case REPORT_ITERATION:
        s->progress.iteration = news->iteration;
        s->progress.tokens += news->tokens;
        if (news->iteration > s->progress.furthest) s->progress.furthest = news->iteration;
        if (s->settings.measure) measure_iteration_over(s);
        break;
    case REPORT_LEADER:
        s->progress.leading = c;
        snprintf(s->progress.ticket, sizeof s->progress.ticket, "%s", news->ticket);
        break;
    case REPORT_PROMOTED: note_promoted(s, news); break;
    case REPORT_CHECKPOINT: note_checkpoint(s, news); break;
    case REPORT_ROLLED_BACK:
        s->progress.iteration = news->iteration;
        s->progress.generation = news->generation;
        break;
    case REPORT_JOINED:
    case REPORT_EXPELLED:
    case REPORT_LEFT: note_member(s, news); break;
    default: break;
    }
    if (news->kind == REPORT_LEFT) swarm_stage_left(s, news->stage);
    if (news->kind == REPORT_JOINED) s->progress.newest_member = news->member;
    if (news->kind == REPORT_EXPELLED) losses_note(s, news);
    if (news->kind == REPORT_TAKEOVER) losses_note_takeover(s, news);
}

// Each process reports its computed work after every iteration, so a killed process lacks its last
// iteration.
static void note_work(child *c, const report_event *news) {
    c->idle = news->work.computed_seconds > c->work.computed_seconds ? 0 : c->idle + 1;
    c->work = news->work;
}

void story_sum_work(const swarm *s, report_event *news) {
    report_work *sum = &news->work;
    *sum = (report_work){0};
    for (uint32_t i = 0; i < s->child_count; i++) {
        const report_work *own = &s->children[i]->work;
        sum->wasted += own->wasted;
        sum->carried += own->carried;
        sum->carried_bytes += own->carried_bytes;
        sum->tensor_bytes += own->tensor_bytes;
        sum->message_bytes += own->message_bytes;
        if (!s->children[i]->exited) sum->memory_bytes += own->memory_bytes;
        sum->computed_seconds += own->computed_seconds;
        sum->wasted_seconds += own->wasted_seconds;
    }
}

static void story_go_on(swarm *s, child *c, const report_event *news) {
    if (news->kind == REPORT_READY) snprintf(s->progress.ticket, sizeof s->progress.ticket, "%s", c->ticket);
    note_progress(s, c, news);
    report_event all = *news;
    if (news->kind == REPORT_ITERATION) story_sum_work(s, &all);
    report_tell(s->report, &all);
    if (news->kind == REPORT_READY) swarm_spawn_others(s);
    if (news->kind == REPORT_ITERATION || news->kind == REPORT_STARTED) chaos_step(s);
}

// Without a leader, every voter reports the loss. Dead voters are not restarted here, except those
// with the only copy of a text.
static void story_unled(swarm *s, const report_event *news) {
    char text[256];
    uint64_t dead = 0;
    for (uint32_t i = 0; i < s->child_count; i++) dead += s->children[i]->exited && s->children[i]->voted && s->children[i]->listed;
    if (s->finish.ending) return;
    if (s->settings.private_data || dead <= (news->total - 1) / 2) {
        report_tell(s->report, news);
        return;
    }
    snprintf(text, sizeof text, "the run can have no leader any more: %llu of its %llu voters are dead, and more than half must be alive; resume from a checkpoint with --resume",
             (unsigned long long)dead, (unsigned long long)news->total);
    swarm_fail(s, text);
}

// Orders that are due may have waited for this version.
void swarm_advanced(swarm *s, child *c, uint64_t version) {
    c->ready = true;
    c->version = version;
    chaos_step(s);
}

void swarm_event(swarm *s, child *c, const report_event *news) {
    bool own = news->kind == REPORT_REPAIR || news->kind == REPORT_REFUSED || news->kind == REPORT_FLOWS;
    if (news->kind == REPORT_MACHINE) return;  // reported once for all processes
    if (news->kind == REPORT_READY) note_child(s, c, news);
    if (news->kind == REPORT_END) c->told_end = !news->failed;
    if (news->kind == REPORT_ITERATION) note_work(c, news);
    if (news->kind == REPORT_ROLLED_BACK) c->generation = news->generation;
    if (news->kind == REPORT_REPAIR) {
        s->progress.repairs++;
        losses_note(s, news);
    }
    if (news->kind == REPORT_END) child_ended(s, c, news);
    else if (news->kind == REPORT_UNLED) story_unled(s, news);
    else if (own) report_tell(s->report, news);
    else if (is_news(s, c, news)) story_go_on(s, c, news);
}
