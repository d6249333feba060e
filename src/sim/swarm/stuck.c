// The reason of a stall: the stage without a worker, and since when.
#include "sim/swarm/inside.h"

#include <stdio.h>

enum { WHY_TEXT = 256 };

static double seconds(uint64_t ns) { return (double)(ns - SWARM_BEGIN_NS) / 1e9; }

static uint16_t stage_of(const swarm_peer *p) { return p->ever_member || p->s->data ? p->stage : p->s->stage; }

// The reason why a peer does not work for its stage, and since when.
typedef struct absence {
    uint32_t number;
    uint64_t since_ns;
    const char *what, *mend;  // both NULL if the peer is at work, or about to be after a start
} absence;

static absence absence_of(const swarm *w, uint32_t number) {
    const swarm_peer *p = &w->peer[number], *leader = &w->peer[w->leader];
    uint64_t now = w->core->now - SWARM_BEGIN_NS;
    if (p->inactive != NULL) return (absence){number, p->inactive_ns, p->inactive, "keep another peer there, or let this one come back"};
    uint64_t out = number == w->leader ? UINT64_MAX : scenario_cut_since(w->s, p->index, leader->index, now);
    uint64_t in = number == w->leader ? UINT64_MAX : scenario_cut_since(w->s, leader->index, p->index, now);
    uint64_t since = out < in ? out : in;
    if (since != UINT64_MAX) return (absence){number, SWARM_BEGIN_NS + since, "was cut off", "keep another peer there, or end the partition"};
    return (absence){.number = number};
}

typedef enum stage_presence { AT_WORK, EMPTY_NOW, EMPTY_ALWAYS } stage_presence;

// `last`: the last peer that left, for EMPTY_NOW.
static stage_presence presence_of(const swarm *w, uint16_t index, absence *last) {
    bool any = false;
    for (uint32_t i = 0; i < w->peers; i++) {
        if (stage_of(&w->peer[i]) != index || w->peer[i].incarnation == 0) continue;
        absence a = absence_of(w, i);
        if (a.what == NULL) return AT_WORK;
        if (!any || a.since_ns > last->since_ns) *last = a;
        any = true;
    }
    return any ? EMPTY_NOW : EMPTY_ALWAYS;
}

// Describes the stage that has been empty for longest.
static void describe_stall(const swarm *w, char text[WHY_TEXT]) {
    uint64_t first_ns = UINT64_MAX;
    snprintf(text, WHY_TEXT, "every stage has a live peer; does a partition keep them from each other?");
    for (uint16_t i = 0; i < w->s->stages; i++) {
        const char *name = w->s->stage[i].name;
        absence last = {0};
        switch (presence_of(w, i, &last)) {
        case AT_WORK: break;
        case EMPTY_NOW:
            if (last.since_ns >= first_ns) break;
            first_ns = last.since_ns;
            snprintf(text, WHY_TEXT, "no peer has worked in stage %s since %s %s at %.1f s: %s", name, w->peer[last.number].name, last.what,
                     seconds(last.since_ns), last.mend);
            break;
        case EMPTY_ALWAYS:
            snprintf(text, WHY_TEXT, "no peer has ever reached stage %s: does a partition cut off those that the leader would place there?", name);
            return;
        }
    }
}

void swarm_fail_stuck(swarm *w) {
    char why[WHY_TEXT];
    describe_stall(w, why);
    if (!w->core->checker.started)
        sim_fail(w->core, "the run does not start, nothing has happened since %.1f s; %s", seconds(w->progress_ns), why);
    else
        sim_fail(w->core, "iteration %llu makes no progress, nothing was counted since %.1f s; %s", (unsigned long long)w->now.iteration,
                 seconds(w->progress_ns), why);
}
