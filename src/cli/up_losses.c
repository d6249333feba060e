// The members that the swarm lost and the work repeated because of each: one line per member at the
// end.
#include "cli/up_swarm.h"

#include <stdio.h>
#include <string.h>

static loss *loss_of(swarm *s, uint64_t member) {
    for (uint32_t i = 0; i < s->losses.count; i++)
        if (s->losses.list[i].member == member) return &s->losses.list[i];
    if (s->losses.count == UP_MAX_LOSSES) return NULL;
    s->losses.list[s->losses.count] = (loss){.member = member};
    return &s->losses.list[s->losses.count++];
}

static void count_phase(loss *l, const char *phase) {
    for (uint32_t i = 0; i < UP_MAX_PHASES; i++) {
        if (l->phase[i].count > 0 && strcmp(l->phase[i].name, phase) != 0) continue;
        snprintf(l->phase[i].name, sizeof l->phase[i].name, "%s", phase);
        l->phase[i].count++;
        return;
    }
}

// A child's repair may arrive before the leader reports the loss on another pipe; the id may be all
// zeros: not known.
void losses_note(swarm *s, const report_event *news) {
    loss *l = loss_of(s, news->member);
    if (!l) return;
    if (news->peer[strspn(news->peer, "0")]) snprintf(l->peer, sizeof l->peer, "%s", news->peer);
    if (news->kind == REPORT_REPAIR) {
        l->repairs++;
        count_phase(l, news->phase);
        return;
    }
    l->stage = news->stage;
    l->placed = true;
    if (news->kind == REPORT_EXPELLED) snprintf(l->reason, sizeof l->reason, "%s", news->reason);
    if (news->kind != REPORT_KILLED) return;
    l->killed = true;
    snprintf(l->killed_in, sizeof l->killed_in, "%s", news->phase);
}

// Also called for members that left in order, which are no losses.
void losses_note_takeover(swarm *s, const report_event *news) {
    if (s->losses.takeover_count < UP_MAX_LOSSES) {
        s->losses.takeover[s->losses.takeover_count].gone = news->gone;
        s->losses.takeover[s->losses.takeover_count++].heir = news->member;
    }
    for (uint32_t i = 0; i < s->losses.count; i++)
        if (s->losses.list[i].member == news->gone) s->losses.list[i].taken += news->microbatches;
}

bool losses_know_takeover(const swarm *s, const report_event *news) {
    for (uint32_t i = 0; i < s->losses.takeover_count; i++)
        if (s->losses.takeover[i].gone == news->gone && s->losses.takeover[i].heir == news->member) return true;
    return false;
}

static size_t append(char *text, size_t length, size_t room, const char *more) {
    int written = length < room ? snprintf(text + length, room - length, "%s", more) : 0;
    return written > 0 ? length + (size_t)written : length;
}

static void repairs_text(const loss *l, char *text, size_t room) {
    char part[64];
    snprintf(part, sizeof part, "%u microbatch repair%s (", l->repairs, l->repairs == 1 ? "" : "s");
    size_t length = append(text, 0, room, part);
    for (uint32_t i = 0; i < UP_MAX_PHASES && l->phase[i].count > 0; i++) {
        snprintf(part, sizeof part, "%s%u %s", i ? ", " : "", l->phase[i].count,
                 *l->phase[i].name ? l->phase[i].name : "in an unknown phase");
        length = append(text, length, room, part);
    }
    append(text, length, room, ")");
}

static void loss_line(const loss *l, char *text, size_t room) {
    char name[32], where[48] = "", how[96], taken[96] = "", repairs[256] = "no repairs";
    if (*l->peer) snprintf(name, sizeof name, "peer %.8s", l->peer);
    else snprintf(name, sizeof name, "member %llu", (unsigned long long)l->member);
    if (l->placed) snprintf(where, sizeof where, " of stage %llu", (unsigned long long)l->stage);
    if (l->killed) snprintf(how, sizeof how, "killed%s%s", *l->killed_in ? " in " : "", l->killed_in);
    else snprintf(how, sizeof how, "lost%s%s", *l->reason ? ", " : "", l->reason);
    if (l->taken > 0)
        snprintf(taken, sizeof taken, "; its %llu microbatch%s of each iteration %s taken over", (unsigned long long)l->taken, l->taken == 1 ? "" : "es", l->taken == 1 ? "was" : "were");
    if (l->repairs > 0) repairs_text(l, repairs, sizeof repairs);
    snprintf(text, room, "  %s%s: %s%s; %s", name, where, how, taken, repairs);
}

void losses_tell(const swarm *s) {
    char text[640];
    if (s->losses.count == 0) return;
    report_say(s->report, "lost members, and the repairs that each one caused:");
    for (uint32_t i = 0; i < s->losses.count; i++) {
        loss_line(&s->losses.list[i], text, sizeof text);
        report_say(s->report, text);
    }
}
