// Ordered kills and joins: impossible ones are rejected before the run, missed ones reported at its
// end.
#include "cli/up_swarm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *flag_of(const action *a) { return a->kind == ACTION_SPAWN ? "--late" : "--kill"; }

static braid_err check_time(const swarm *s, const action *a, braid_error *error) {
    if (a->iteration < s->settings.iterations) return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT, "%s %s: the run ends after iteration %llu; name an earlier one", flag_of(a), a->spec, (unsigned long long)s->settings.iterations);
}

// The largest possible number of relays: includes ordered joins, and the replacements for a lost
// stage.
static uint64_t most_relays(const swarm *s) {
    uint64_t most = s->settings.relays, for_stage = s->settings.stages > 1 ? s->settings.relays / (s->settings.stages - 1) : 0;
    for (uint32_t i = 0; i < s->orders.count; i++) {
        const action *a = &s->orders.action[i];
        if (a->kind == ACTION_SPAWN && a->role == CHILD_RELAY) most += a->count;
        else if (a->stage) most += for_stage;
    }
    return most;
}

static bool more_data_come(const swarm *s) {
    for (uint32_t i = 0; i < s->orders.count; i++)
        if (s->orders.action[i].kind == ACTION_SPAWN && s->orders.action[i].role == CHILD_DATA) return true;
    return false;
}

static braid_err check_relay(const swarm *s, const action *a, braid_error *error) {
    uint64_t most = most_relays(s);
    if (s->settings.stages < 2) return braid_fail(error, BRAID_ARGUMENT, "--kill %s: the run has one stage and no relays", a->spec);
    if (most == 0) return braid_fail(error, BRAID_ARGUMENT, "--kill %s: the run has no relays; start some with --relays N", a->spec);
    if (a->number > most)
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: there is no relay%u: the relays are relay1 to relay%llu", a->spec, a->number, (unsigned long long)most);
    if (!a->stage && most + 1 <= s->settings.stages)
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: each stage has one relay, and the last one of a stage is killed only with stage:N; give --relays %u or more",
                          a->spec, s->settings.stages);
    return BRAID_OK;
}

static braid_err check_data(const swarm *s, const action *a, braid_error *error) {
    if (a->whole && s->settings.wholes == 0)
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: the run has no whole-model peer; start some with --whole N", a->spec);
    if (more_data_come(s)) return BRAID_OK;
    if (s->settings.data_peers < 2)
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: the run has one data peer, and the last one is not killed; give it a second one (swarm: data_peers)", a->spec);
    if (a->number > s->settings.data_peers)
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: there is no data%u: the data peers are data1 (the first leader) to data%llu", a->spec, a->number,
                          (unsigned long long)s->settings.data_peers);
    if (a->number == 1 && swarm_has_one_voter(s))
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: data1 has the only vote, and the run would end with it; give --voters 3", a->spec);
    return BRAID_OK;
}

braid_err orders_check(const swarm *s, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < s->orders.count && !err; i++) {
        const action *a = &s->orders.action[i];
        if (!a->spec) continue;
        err = check_time(s, a, error);
        if (err || a->kind == ACTION_SPAWN) continue;
        if (a->role == CHILD_RELAY) err = check_relay(s, a, error);
        else if (a->role == CHILD_DATA) err = check_data(s, a, error);
    }
    return err;
}

void orders_note_death(swarm *s, const child *c) {
    bool on_order = c->order.armed || (c->order.spared && !c->killed);
    if (on_order) s->orders.action[c->order.index].came = s->orders.action[c->order.index].done = true;
}

static const char *const waits_words[] = {
    [WAIT_NOT] = "the run ended first",
    [WAIT_MISSING] = "there was no such peer",
    [WAIT_DEAD] = "every candidate was dead already",
    [WAIT_DYING] = "every candidate was about to die by another order",
    [WAIT_BEHIND] = "no candidate had reached the run's iteration",
    [WAIT_LAST] = "no other peer of its stage could have continued",
    [WAIT_VOTES] = "too few voters would have remained",
    [WAIT_SHADOW] = "no standby replica could have taken over the stage",
};

// The order in the user's notation.
static void chaos_text(const action *a, char *text, size_t room) {
    static const char *const role_name[] = {[CHILD_LEADER] = "leader", [CHILD_DATA] = "data", [CHILD_RELAY] = "any"};
    if (a->kind == ACTION_SPAWN)
        snprintf(text, room, "--chaos: another %s at iteration %llu", a->role == CHILD_DATA ? "data peer" : "relay", (unsigned long long)a->iteration);
    else
        snprintf(text, room, "--chaos: %s@iteration:%llu/%s:%u", role_name[a->role], (unsigned long long)a->iteration, fault_point_name(a->at.point), a->at.count);
}

static void why_text(const action *a, char *text, size_t room) {
    if (a->done) snprintf(text, room, "%s was ordered to die there, and had not reached that point when the run ended", a->victim);
    else snprintf(text, room, "%s", waits_words[a->waits]);
}

void orders_tell(const swarm *s) {
    for (uint32_t i = 0; i < s->orders.count; i++) {
        const action *a = &s->orders.action[i];
        char order[256], why[128];
        report_event note = {.kind = REPORT_NOTE, .loss = NAN};
        if (a->came) continue;
        if (a->spec) snprintf(order, sizeof order, "%s %.200s", flag_of(a), a->spec);
        else chaos_text(a, order, sizeof order);
        why_text(a, why, sizeof why);
        snprintf(note.text, sizeof note.text, "%s was not carried out: %s", order, why);
        report_tell(s->report, &note);
    }
}
