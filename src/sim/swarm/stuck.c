// The reason of a stall: the stage without a worker, and since when.
#include "sim/swarm/inside.h"

#include <stdio.h>

enum { WHY_TEXT = 256 };

static double seconds(uint64_t ns) { return (double)(ns - SWARM_BEGIN_NS) / 1e9; }

static uint16_t stage_of(const swarm_peer *p) { return p->ever_member || p->s->data ? p->stage : p->s->stage; }

// The reason why a peer does not work for its stage, and since when.
typedef struct absence {
    uint32_t who;
    uint64_t since_ns;
    const char *what, *mend;  // `what` is NULL if it is at work, or about to be after a start
} absence;

static absence absence_of(const swarm *w, uint32_t who) {
    const swarm_peer *p = &w->peer[who], *leader = &w->peer[w->leader];
    uint64_t now = w->core->now - SWARM_BEGIN_NS;
    if (p->gone != NULL) return (absence){who, p->gone_ns, p->gone, "keep another peer there, or let this one come back"};
    uint64_t out = who == w->leader ? UINT64_MAX : scenario_cut_since(w->s, p->index, leader->index, now);
    uint64_t in = who == w->leader ? UINT64_MAX : scenario_cut_since(w->s, leader->index, p->index, now);
    uint64_t since = out < in ? out : in;
    if (since != UINT64_MAX) return (absence){who, SWARM_BEGIN_NS + since, "was cut off", "keep another peer there, or end the partition"};
    return (absence){.who = who};
}

typedef enum attendance { AT_WORK, NOBODY_NOW, NOBODY_EVER } attendance;

// `last`: the last peer that left, for NOBODY_NOW.
static attendance attendance_of(const swarm *w, uint16_t index, absence *last) {
    bool any = false;
    for (uint32_t i = 0; i < w->peers; i++) {
        if (stage_of(&w->peer[i]) != index || w->peer[i].life == 0) continue;
        absence a = absence_of(w, i);
        if (a.what == NULL) return AT_WORK;
        if (!any || a.since_ns > last->since_ns) *last = a;
        any = true;
    }
    return any ? NOBODY_NOW : NOBODY_EVER;
}

// Describes the stage that has been empty for longest.
static void say_why(const swarm *w, char text[WHY_TEXT]) {
    uint64_t first_ns = UINT64_MAX;
    snprintf(text, WHY_TEXT, "somebody lives in every stage; does a partition keep them from each other?");
    for (uint16_t i = 0; i < w->s->stages; i++) {
        const char *name = w->s->stage[i].name;
        absence last = {0};
        switch (attendance_of(w, i, &last)) {
        case AT_WORK: break;
        case NOBODY_NOW:
            if (last.since_ns >= first_ns) break;
            first_ns = last.since_ns;
            snprintf(text, WHY_TEXT, "nobody has been at work in stage %s since %s %s at %.1f s: %s", name, w->peer[last.who].name, last.what,
                     seconds(last.since_ns), last.mend);
            break;
        case NOBODY_EVER:
            snprintf(text, WHY_TEXT, "nobody has ever come to stage %s: does a partition keep those away whom the leader would place there?", name);
            return;
        }
    }
}

void swarm_fail_stuck(swarm *w) {
    char why[WHY_TEXT];
    say_why(w, why);
    if (!w->core->checker.started)
        sim_fail(w->core, "the run does not start, nothing has happened since %.1f s; %s", seconds(w->progress_ns), why);
    else
        sim_fail(w->core, "iteration %llu makes no progress, nothing was counted since %.1f s; %s", (unsigned long long)w->now.iteration,
                 seconds(w->progress_ns), why);
}
