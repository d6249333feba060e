// Ordered kills and late joins. A kill waits until the protocol guarantees survival: the victim's
// stage has another live peer, not about to die and as far as the run. Enough voters must remain as
// well.
#include "cli/up_swarm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static braid_err action_add(swarm *s, const action *a, braid_error *error) {
    if (s->orders.count == UP_MAX_ACTIONS)
        return braid_fail(error, BRAID_LIMIT, "more than %d kills and joins; order fewer", UP_MAX_ACTIONS);
    s->orders.action[s->orders.count++] = *a;
    return BRAID_OK;
}

// Reads digits up to `end`; false if there are none, or other characters.
static bool number_read(const char *text, const char *end, uint64_t *out) {
    uint64_t value = 0;
    if (text == end || end - text > 9) return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9') return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *out = value;
    return true;
}

static bool is_word(const char *text, const char *end, const char *word) {
    return (size_t)(end - text) == strlen(word) && strncmp(text, word, strlen(word)) == 0;
}

static const char stage_word[] = "stage:";

// "any" relay, "data" for any data peer except the leader, "whole" for any such whole-model peer,
// relay3, data2, whole4; "leader" is the current leader.
static bool who_read(const char *text, const char *end, action *a) {
    uint64_t number = 0;
    const char *digits = end;
    if (strncmp(text, stage_word, sizeof stage_word - 1) == 0) {
        bool good = number_read(text + sizeof stage_word - 1, end, &number) && number > 0;
        a->role = CHILD_RELAY;
        a->stage = (uint32_t)number;
        return good;
    }
    while (digits > text && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    bool numbered = digits < end;
    if (numbered && (!number_read(digits, end, &number) || number == 0)) return false;
    a->number = (uint32_t)number;
    a->whole = is_word(text, digits, "whole");
    a->role = a->whole || is_word(text, digits, "data") ? CHILD_DATA : is_word(text, end, "leader") ? CHILD_LEADER : CHILD_RELAY;
    return a->role == CHILD_LEADER || a->role == CHILD_DATA || is_word(text, digits, numbered ? "relay" : "any");
}

static const char iteration_word[] = "iteration:";
enum { ITERATION_WORD = sizeof iteration_word - 1 };

static braid_err leader_may_die(const swarm *s, const char *flag, const char *spec, braid_error *error) {
    if (!swarm_has_one_voter(s)) return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT, "%s %s: the leader has the only vote, and the run would end with it; give the run a second data peer (swarm: data_peers) and --voters 3", flag, spec);
}

// Rejected before the run begins: these peers could never be killed.
static braid_err victim_check(const swarm *s, const char *spec, const action *a, braid_error *error) {
    if (a->stage > 0 && a->stage >= s->settings.stages)
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: the run has no stage %u; relays work for the stages 1 to %u", spec, a->stage, s->settings.stages - 1);
    return BRAID_OK;
}

static braid_err point_read(const char *spec, const char *at, action *a, braid_error *error) {
    braid_error why;
    bool dated = a->iteration > 0;
    a->kind = ACTION_ARM;
    braid_err err = fault_parse(at, &a->at, &why);
    bool lost = a->at.point == FAULT_NEVER && !dated;  // the user may have meant a time
    return err ? braid_fail(error, err, "--kill %s: %s%s", spec, why.text, lost ? "; a time is iteration:12, or iteration:12/POINT" : "") : BRAID_OK;
}

braid_err chaos_add_kill(swarm *s, const char *spec, braid_error *error) {
    action a = {.kind = ACTION_KILL, .spec = spec};
    const char *at = strchr(spec, '@');
    if (at && who_read(spec, at, &a) && a.role == CHILD_LEADER && leader_may_die(s, "--kill", spec, error)) return BRAID_ARGUMENT;
    if (!at || !who_read(spec, at, &a))
        return braid_fail(error, BRAID_ARGUMENT, "--kill %s: write a peer and a time, as in relay3@iteration:12, any@weight, any@iteration:5/final, data2@iteration:7, whole@iteration:8, leader@iteration:9 or stage:2@iteration:6/backward", spec);
    braid_err err = victim_check(s, spec, &a, error);
    if (err) return err;
    at++;
    if (strncmp(at, iteration_word, ITERATION_WORD) == 0) {
        at += ITERATION_WORD;
        const char *end = at + strcspn(at, "/");
        if (!number_read(at, end, &a.iteration)) return braid_fail(error, BRAID_ARGUMENT, "--kill %s: \"iteration:\" needs a number", spec);
        if (!*end) return action_add(s, &a, error);
        at = end + 1;
    }
    err = point_read(spec, at, &a, error);
    return err ? err : action_add(s, &a, error);
}

braid_err chaos_add_late(swarm *s, const char *spec, braid_error *error) {
    action a = {.kind = ACTION_SPAWN, .role = CHILD_RELAY, .spec = spec};
    const char *at = strchr(spec, '@');
    uint64_t count;
    bool good = at && number_read(spec, at, &count) && count > 0 && count <= UP_MAX_CHILDREN &&
                strncmp(at + 1, iteration_word, ITERATION_WORD) == 0 &&
                number_read(at + 1 + ITERATION_WORD, spec + strlen(spec), &a.iteration);
    if (!good) return braid_fail(error, BRAID_ARGUMENT, "--late %s: write a number of relays and a time, as in 2@iteration:10", spec);
    a.count = (uint32_t)count;
    return action_add(s, &a, error);
}

typedef struct chaos_spec {
    uint64_t kills, joins, data, leader, within, seed;
} chaos_spec;

static bool chaos_read(const char *text, chaos_spec *out) {
    while (*text) {
        size_t name = strcspn(text, "="), whole = strcspn(text, ",");
        uint64_t value;
        if (name >= whole || !number_read(text + name + 1, text + whole, &value)) return false;
        if (name == 5 && strncmp(text, "kills", 5) == 0) out->kills = value;
        else if (name == 5 && strncmp(text, "joins", 5) == 0) out->joins = value;
        else if (name == 4 && strncmp(text, "data", 4) == 0) out->data = value;
        else if (name == 6 && strncmp(text, "leader", 6) == 0) out->leader = value;
        else if (name == 6 && strncmp(text, "within", 6) == 0) out->within = value;
        else if (name == 4 && strncmp(text, "seed", 4) == 0) out->seed = value;
        else return false;
        text += whole + (text[whole] == ',');
    }
    return out->kills <= UP_MAX_ACTIONS && out->joins <= UP_MAX_ACTIONS && out->data <= UP_MAX_ACTIONS && out->leader <= UP_MAX_ACTIONS;
}

// A shuffled list (by the seed) of all points of death; each occurs once before any is repeated.
static void points_shuffle(rng *random, fault_point points[FAULT_POINTS], uint32_t *count) {
    *count = 0;
    for (int p = FAULT_FORWARD; p < FAULT_TRANSFER; p++) points[(*count)++] = (fault_point)p;
    for (uint32_t i = *count - 1; i > 0; i--) {
        uint32_t j = (uint32_t)rng_below(random, i + 1);
        fault_point swap = points[i];
        points[i] = points[j];
        points[j] = swap;
    }
}

typedef struct moments {
    uint64_t first, span;  // range of iterations
    fault_point points[FAULT_POINTS];
    uint32_t point_count;
} moments;

// Spreads the deaths over the run: one per interval of equal length. A data peer's death is
// followed by a new data peer.
static braid_err add_deaths(swarm *s, const moments *m, child_role role, uint64_t deaths, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint64_t i = 0; i < deaths && !err; i++) {
        uint64_t begin = m->span * i / deaths, end = m->span * (i + 1) / deaths;
        uint64_t when = m->first + begin + rng_below(&s->orders.random, end > begin ? end - begin : 1);
        fault at = {m->points[i % m->point_count], 1 + (uint32_t)rng_below(&s->orders.random, 3)};
        if (at.point == FAULT_FINAL || at.point == FAULT_REDUCTION) at.count = 1;
        err = action_add(s, &(action){.kind = ACTION_ARM, .role = role, .iteration = when, .at = at}, error);
        bool followed = role != CHILD_RELAY && !s->settings.private_data;  // with private data the same peer returns
        if (!err && followed) err = action_add(s, &(action){.kind = ACTION_SPAWN, .role = CHILD_DATA, .iteration = when + 1, .count = 1}, error);
    }
    return err;
}

// Joins occur in the run's first half, so that the swarm does not run out of peers.
braid_err chaos_add_random(swarm *s, const char *spec, uint64_t from, uint64_t iterations, braid_error *error) {
    chaos_spec c = {.kills = 3, .joins = 1, .seed = 1};
    if (!chaos_read(spec, &c)) return braid_fail(error, BRAID_ARGUMENT, "--chaos %s: write kills=5,joins=2,data=1,leader=1,within=40,seed=7", spec);
    if (c.leader && leader_may_die(s, "--chaos", spec, error)) return BRAID_ARGUMENT;
    if (c.within > 0 && c.within < iterations) iterations = c.within;
    uint64_t last = iterations > 3 ? iterations - 3 : 1;
    moments m = {.first = from + 1, .span = last > from + 1 ? last - from - 1 : 1};
    s->orders.random.state = c.seed;
    points_shuffle(&s->orders.random, m.points, &m.point_count);
    braid_err err = BRAID_OK;
    for (uint64_t i = 0; i < c.joins && !err; i++) {
        uint64_t when = m.first + rng_below(&s->orders.random, m.span / 2 + 1);
        err = action_add(s, &(action){.kind = ACTION_SPAWN, .role = CHILD_RELAY, .iteration = when, .count = 1}, error);
    }
    if (!err) err = add_deaths(s, &m, CHILD_RELAY, c.kills, error);
    if (!err) err = add_deaths(s, &m, CHILD_DATA, c.data, error);
    return err ? err : add_deaths(s, &m, CHILD_LEADER, c.leader, error);
}

static bool is_available(const child *c) { return c->alive && !c->order.armed && !c->killed && c->joined && c->ready; }

static bool has_another(const swarm *s, const child *c, uint64_t stage) {
    for (uint32_t i = 0; i < s->child_count; i++) {
        const child *other = s->children[i];
        bool works = other->whole || other->stage == stage;
        if (other != c && is_available(other) && works && other->version >= s->progress.iteration) return true;
    }
    return false;
}

// Whether the stages of this peer can continue without it.
static bool can_spare(const swarm *s, const child *c) {
    if (!is_available(c)) return false;
    uint64_t first = c->whole ? 0 : c->stage, last = c->whole ? s->settings.stages - 1 : c->stage;
    for (uint64_t stage = first; stage <= last; stage++)
        if (!has_another(s, c, stage)) return false;
    return true;
}

// Data peers vote first; relays fill the remaining seats in the order of joining.
bool chaos_may_vote(const swarm *s, const child *c) {
    uint32_t before = 0;
    for (uint32_t i = 0; i < s->child_count; i++) {
        const child *other = s->children[i];
        bool first = other->role != CHILD_RELAY || (c->role == CHILD_RELAY && other->member < c->member);
        before += other != c && first && other->alive && other->joined;
    }
    return c->role != CHILD_RELAY || before < s->settings.voters;
}

// The leader knows all machines; another child may have reported the same configuration without.
bool chaos_voters_line(swarm *s, const child *c, const char *line) {
    unsigned long long index;
    int at = 0, length;
    up_voters *v = &s->orders.voters;
    if (sscanf(line, "{\"event\":\"voters\",\"index\":%llu,\"machines\":\"%n", &index, &at) != 1 || at == 0) return false;
    if (index < v->index || (index == v->index && v->count > 0 && c != s->progress.leading)) return true;
    *v = (up_voters){.index = index};
    while (v->count < WIRE_MAX_VOTERS && sscanf(line + at, " %64[0-9a-f]%n", v->machine[v->count], &length) == 1) {
        v->count++;
        at += length;
    }
    return true;
}

bool chaos_votes(const swarm *s, const child *c) {
    for (uint32_t i = 0; i < s->orders.voters.count; i++)
        if (*c->peer && strcmp(c->peer, s->orders.voters.machine[i]) == 0) return true;
    return false;
}

// Whether a majority of the voters remains, those about to die counted as lost. A dead voter counts
// until the log names others. Peers that may become voters are limited in the same way: they may be
// elected between the order and their death.
static bool quorum_remains(const swarm *s, const child *victim) {
    const up_voters *v = &s->orders.voters;
    uint64_t dying = 1, may = 1;
    if (swarm_has_one_voter(s)) return true;
    for (uint32_t i = 0; i < s->child_count; i++) {
        const child *c = s->children[i];
        bool dies = c != victim && (c->exited || c->order.armed || c->killed);
        dying += dies && chaos_votes(s, c);
        may += dies && (c->exited ? c->voted && c->listed : chaos_may_vote(s, c));
    }
    if (chaos_may_vote(s, victim) && may > (s->settings.voters - 1) / 2) return false;
    if (v->count == 0) return victim != s->progress.leading;  // the first leader is the only voter
    return !chaos_votes(s, victim) || dying <= (v->count - 1) / 2;
}

static bool matches_role(const swarm *s, const child *c, const action *a) {
    if (a->role == CHILD_RELAY) return c->role == CHILD_RELAY;
    if (a->whole && !c->whole) return false;
    bool plain = a->role == CHILD_DATA && !a->whole && !a->number && !s->settings.whole_only;
    if (plain && c->whole) return false;
    if (c->role == CHILD_RELAY || (c->role == CHILD_LEADER && swarm_has_one_voter(s))) return false;
    return a->number || (c == s->progress.leading) == (a->role == CHILD_LEADER);
}

void chaos_take_stage(swarm *s, uint64_t number) {
    for (uint32_t i = 0; i < s->child_count; i++) {
        child *c = s->children[i];
        if (c->role == CHILD_RELAY && c->joined && c->stage == number) child_kill(c);
    }
}

static order_wait child_waits(swarm *s, const child *c, const action *a) {
    if (c->exited) return WAIT_DEAD;
    if (c->order.armed || c->killed) return WAIT_DYING;
    if (!is_available(c)) return WAIT_BEHIND;
    if (!a->stage && !can_spare(s, c)) return WAIT_LAST;
    return quorum_remains(s, c) ? WAIT_NOT : WAIT_VOTES;
}

// For a fault point, chooses among the peers that had work most recently: an idle peer may never
// reach the point.
static child *victim_choose(swarm *s, action *a) {
    child *chosen = NULL;
    a->waits = a->stage && s->settings.shadows > 0 && !stage_is_shadowed(s, a->stage) ? WAIT_SHADOW : WAIT_MISSING;
    if (a->waits == WAIT_SHADOW) return NULL;
    uint64_t candidates = 0;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < s->child_count; i++) {
        child *c = s->children[i];
        uint32_t idle = a->kind == ACTION_ARM ? c->idle : 0;
        if (!matches_role(s, c, a) || (a->number && c->number != a->number) || (a->stage && c->stage != a->stage)) continue;
        order_wait waits = child_waits(s, c, a);
        if (waits > a->waits) a->waits = waits;
        if (waits != WAIT_NOT || idle > least) continue;
        if (idle < least) candidates = 0;
        least = idle;
        if (rng_below(&s->orders.random, ++candidates) == 0) chosen = c;
    }
    return chosen;
}

static bool do_kill(swarm *s, action *a) {
    child *victim = victim_choose(s, a);
    if (!victim) return false;
    victim->order.takes_stage = a->stage != 0;
    child_kill(victim);
    a->came = true;
    return true;
}

static bool do_arm(swarm *s, action *a) {
    child *victim = victim_choose(s, a);
    if (!victim) return false;
    victim->order.index = (uint32_t)(a - s->orders.action);
    memcpy(a->victim, victim->name, sizeof a->victim);
    a->waits = WAIT_NOT;
    char command[64];
    snprintf(command, sizeof command, "die-at %s:%u\n", fault_point_name(a->at.point), a->at.count);
    child_command(victim, command);
    victim->order.armed = true;
    victim->order.takes_stage = a->stage != 0;
    victim->order.armed_at = a->at.point;
    victim->order.armed_iteration = s->progress.iteration;
    return true;
}

static bool do_spawn(swarm *s, action *a) {
    braid_error error;
    for (uint32_t i = 0; i < a->count; i++) {
        if (swarm_spawn(s, a->role, &error) == BRAID_OK) continue;
        report_event note = {.kind = REPORT_NOTE, .loss = NAN};
        snprintf(note.text, sizeof note.text, "cannot start another process: %.400s", error.text);
        report_tell(s->report, &note);
    }
    a->came = true;
    return true;
}

// A relay without work may never reach its fault point. It is spared, and another relay dies
// instead.
static void let_live(swarm *s, child *c) {
    action *a = &s->orders.action[c->order.index];
    if (a->number || c->idle < UP_HURRY_ITERATIONS) return;
    child_command(c, "live\n");
    c->order.armed = false;
    c->order.spared = true;
    c->order.spared_version = c->version;
    a->done = false;
}

// After two more iterations the command to live has arrived, so a later death was not ordered.
static void forget_spared(child *c) {
    if (c->version > c->order.spared_version + 1) c->order.spared = false;
}

// A data peer that joined late owns no microbatches and may never reach its fault point. Meanwhile
// no other voter may be killed, so it is killed directly.
static void hurry(swarm *s) {
    for (uint32_t i = 0; i < s->child_count; i++) {
        child *c = s->children[i];
        forget_spared(c);
        if (!c->alive || !c->order.armed || s->progress.iteration < c->order.armed_iteration + UP_HURRY_ITERATIONS) continue;
        if (c->role == CHILD_RELAY) {
            let_live(s, c);
            continue;
        }
        c->order.armed = false;
        if (!can_spare(s, c)) {
            c->order.armed = true;
            continue;
        }
        s->orders.action[c->order.index].came = true;
        child_kill(c);
    }
}

void chaos_step(swarm *s) {
    if (!s->progress.started || s->finish.draining || s->finish.ending) return;
    hurry(s);
    for (uint32_t i = 0; i < s->orders.count; i++) {
        action *a = &s->orders.action[i];
        if (a->done || a->iteration > s->progress.iteration) continue;
        a->done = a->kind == ACTION_KILL ? do_kill(s, a) : a->kind == ACTION_ARM ? do_arm(s, a) : do_spawn(s, a);
    }
}
