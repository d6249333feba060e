// The state of the swarm as a whole: its peers by stage, its notes, its failure.
#include "cli/up_swarm.h"

#include <math.h>
#include <stdio.h>

void swarm_note(swarm *s, const char *text) {
    report_event news = {.kind = REPORT_NOTE, .loss = NAN};
    snprintf(news.text, sizeof news.text, "%s", text);
    report_tell(s->report, &news);
}

void swarm_kill_all(swarm *s) {
    for (uint32_t i = 0; i < s->child_count; i++) child_kill(s->children[i]);
}

void swarm_fail(swarm *s, const char *why) {
    if (!s->finish.failed) snprintf(s->finish.why, sizeof s->finish.why, "%s", why);
    s->finish.failed = s->finish.ending = true;
    swarm_kill_all(s);
}

void swarm_spawn_others(swarm *s) {
    braid_error error;
    braid_err err = BRAID_OK;
    uint64_t wholes = s->settings.whole_only ? 0 : s->settings.wholes, data_peers = s->settings.data_peers - wholes;
    for (uint64_t i = 1; i < data_peers && !err; i++) err = swarm_spawn(s, CHILD_DATA, &error);
    for (uint64_t i = 0; i < wholes && !err; i++) err = swarm_spawn_whole(s, &error);
    for (uint64_t i = 0; i < s->settings.relays && !err; i++) err = swarm_spawn(s, CHILD_RELAY, &error);
    if (err) swarm_fail(s, error.text);
}

bool stage_works(const swarm *s, uint64_t number, const child *but) {
    for (uint32_t i = 0; i < s->child_count; i++) {
        const child *c = s->children[i];
        if (c != but && c->alive && c->joined && c->stage == number) return true;
    }
    for (uint32_t i = 0; i < s->progress.guest_count; i++)
        if (!s->progress.guests[i].shadow && s->progress.guests[i].stage == number) return true;
    return false;
}

bool stage_is_shadowed(const swarm *s, uint64_t number) {
    for (uint32_t i = 0; i < s->progress.guest_count; i++)
        if (s->progress.guests[i].shadow && s->progress.guests[i].stage == number) return true;
    return false;
}
