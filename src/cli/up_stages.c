// Replaces the processes of a stage or text that has none left, each time after a longer pause.
// After the last attempt the run fails.
#include "cli/up_swarm.h"

#include <stdio.h>
#include <string.h>

void swarm_way_on(const swarm *s, char *text, size_t room) {
    const char *from = *s->progress.saved_path ? s->progress.saved_path : s->settings.resume;
    uint64_t kept = *s->progress.saved_path ? s->progress.saved : s->progress.first, lost = s->progress.furthest > kept ? s->progress.furthest - kept : 0;
    char what[80] = "nothing else is lost";
    if (lost == 1) snprintf(what, sizeof what, "iteration %llu is lost", (unsigned long long)s->progress.furthest);
    else if (lost > 1) snprintf(what, sizeof what, "iterations %llu to %llu are lost", (unsigned long long)kept + 1, (unsigned long long)s->progress.furthest);
    if (from) snprintf(text, room, ". Resume from %.180s (--resume); %s", from, what);
    else snprintf(text, room, ". No checkpoint was written; %s", what);
}

// "relays of stage 1 died 8 times in 21 s, ..."
static void record_text(const restart_record *r, const char *name, const child *last, char *text, size_t room) {
    double seconds = (double)(r->last_ms - r->first_ms) / 1e3;
    snprintf(text, room, "%s died %u times in %.0f s, each within %d s or before any work was done; the last, %s, %.280s", name, r->deaths, seconds, RESTART_HEALTHY_MS / 1000,
             last ? last->name : "one", last && *last->cause ? last->cause : "died");
}

static void give_up(swarm *s, const restart_record *r, const char *name, const child *last) {
    char text[sizeof s->finish.why], way_on[256];
    swarm_way_on(s, way_on, sizeof way_on);
    record_text(r, name, last, text, sizeof text);
    strncat(text, way_on, sizeof text - strlen(text) - 1);
    swarm_fail(s, text);
}

static bool has_stage(const child *c) { return c->role == CHILD_RELAY && (c->member != 0 ? c->stage : c->for_stage) > 0; }

static uint64_t stage_of(const child *c) { return c->member != 0 ? c->stage : c->for_stage; }

void stages_note_death(swarm *s, child *c) {
    bool private_text = c->role != CHILD_RELAY && s->settings.private_data;
    if (!private_text && (!has_stage(c) || stage_of(c) >= WIRE_MAX_STAGES)) return;
    restart_note_death(private_text ? &c->text_deaths : &s->stage.deaths[stage_of(c)], c->gone_ms, c->gone_ms - c->began_ms, s->progress.furthest > c->began_at);
    if (!private_text) s->stage.last_dead[stage_of(c)] = c;
}

// ---- stages -------------------------------------------------------------------------------------

void stage_bereft(swarm *s, uint64_t number) {
    uint64_t now = uv_now(&s->loop), delay = restart_note_loss(&s->stage.deaths[number]);
    s->stage.bereft_ms[number] = now + (stage_is_shadowed(s, number) ? UP_PROMOTE_MS : delay);
    if (s->stage.lost_ms[number] == 0) s->stage.lost_ms[number] = now;
}

void swarm_stage_left(swarm *s, uint64_t number) {
    if (s->finish.ending || s->finish.draining || !s->progress.started || number == 0 || number >= WIRE_MAX_STAGES || stage_works(s, number, NULL)) return;
    stage_bereft(s, number);
}

// The number of relays of a stage if they are distributed evenly.
static void restart_stage(swarm *s, uint32_t number) {
    char text[160], again[64] = "";
    braid_error error;
    uint64_t wanted = s->settings.stages > 1 ? s->settings.relays / (s->settings.stages - 1) : 0;
    if (s->stage.deaths[number].losses > 1) snprintf(again, sizeof again, " %u times in a row", s->stage.deaths[number].losses);
    snprintf(text, sizeof text, "stage %u has lost its last peer%s; starting new relays", number, again);
    swarm_note(s, text);
    for (uint64_t i = 0; i < (wanted > 0 ? wanted : 1); i++) {
        if (swarm_spawn(s, CHILD_RELAY, &error)) {
            swarm_fail(s, error.text);
            return;
        }
        s->children[s->child_count - 1]->for_stage = number;
    }
}

static bool some_are_coming(const swarm *s, uint32_t number) {
    for (uint32_t i = 0; i < s->child_count; i++) {
        const child *c = s->children[i];
        if (c->alive && c->role == CHILD_RELAY && c->member == 0 && c->for_stage == number) return true;
    }
    return false;
}

static bool some_have_ended(const swarm *s) {
    for (uint32_t i = 0; i < s->child_count; i++)
        if (s->children[i]->told_end) return true;
    return false;
}

// The current iteration cannot be finished. The stage's state is that of the last checkpoint, which
// is already written.
static void end_without(swarm *s, uint32_t number) {
    uint64_t patience = stage_is_shadowed(s, number) || some_have_ended(s) ? UP_ELECT_MS : UP_LOST_MS;
    char text[sizeof s->finish.why], way_on[256];
    if (uv_now(&s->loop) < s->stage.lost_ms[number] + patience) return;
    swarm_way_on(s, way_on, sizeof way_on);
    snprintf(text, sizeof text, "stopped by the user; stage %u had no peer left, so the current iteration could not be completed%s", number, way_on);
    swarm_fail(s, text);
}

static void stage_look(swarm *s, uint32_t number) {
    char name[48];
    if (stage_works(s, number, NULL)) {
        s->stage.bereft_ms[number] = s->stage.lost_ms[number] = 0;
        return;
    }
    if (s->stage.lost_ms[number] == 0) s->stage.lost_ms[number] = uv_now(&s->loop);
    if (s->finish.draining) {
        end_without(s, number);
        return;
    }
    if (s->progress.iteration >= s->settings.iterations || some_are_coming(s, number)) return;
    if (s->stage.bereft_ms[number] == 0) stage_bereft(s, number);
    snprintf(name, sizeof name, "relays of stage %u", number);
    if (restart_is_hopeless(&s->stage.deaths[number])) give_up(s, &s->stage.deaths[number], name, s->stage.last_dead[number]);
    if (s->finish.ending || uv_now(&s->loop) < s->stage.bereft_ms[number]) return;
    s->stage.bereft_ms[number] = 0;
    restart_stage(s, number);
}

// ---- texts --------------------------------------------------------------------------------------

// The only peer with its text. One that never joined would not join the next time either.
void text_bereft(swarm *s, child *c) {
    char text[sizeof s->finish.why];
    uint64_t delay = restart_note_loss(&c->text_deaths);
    bool hopeless = restart_is_hopeless(&c->text_deaths);
    if (c->member != 0 && !hopeless) {
        c->return_ms = uv_now(&s->loop) + delay;
    } else if (s->settings.elastic && hopeless) {
        record_text(&c->text_deaths, c->name, c, text, sizeof text - 48);
        strncat(text, "; it is not restarted", sizeof text - strlen(text) - 1);
        swarm_note(s, text);
    } else if (hopeless) {
        give_up(s, &c->text_deaths, c->name, c);
    } else if (!s->settings.elastic) {
        snprintf(text, sizeof text, "the only data peer with its text cannot be restarted: %s %s", c->name, c->cause);
        swarm_fail(s, text);
    }
}

// Without a leader the newest ticket may belong to the dead peer itself. An election may be
// impossible until that peer is back, so the wait has a limit. A peer that returns before the log
// contains its loss would never be reported as awaited.
bool swarm_may_return(const swarm *s, const child *c) {
    bool missed = s->progress.leading && !c->listed;
    return c->return_ms != 0 && uv_now(&s->loop) >= c->return_ms + (missed ? 0 : UP_ELECT_MS);
}

static void return_texts(swarm *s) {
    char text[160];
    braid_error error;
    uint32_t count = s->child_count;
    for (uint32_t i = 0; i < count && !s->finish.ending; i++) {
        child *c = s->children[i];
        if (!swarm_may_return(s, c)) continue;
        c->return_ms = 0;
        snprintf(text, sizeof text, "restarting %s, because no other peer has its text", c->name);
        swarm_note(s, text);
        if (swarm_spawn_again(s, c, &error)) swarm_fail(s, error.text);
        else s->children[s->child_count - 1]->text_deaths = c->text_deaths;
    }
}

void stages_tick(swarm *s) {
    for (uint32_t i = 1; i < s->settings.stages && s->progress.started && !s->finish.ending; i++) stage_look(s, i);
    return_texts(s);
}
