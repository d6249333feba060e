// Machines and peers of a scenario: groups become single peers, data peers first.
#include "sim/scenario_read.h"

#include "format/suggest.h"

#include <stdio.h>
#include <string.h>

// Bounds for values of a file, in the units of the file.
static const double MAX_LATENCY_MS = 60000, MAX_WORK_MS = 3600000, MAX_START_S = 31536000;
static const double MIN_MBPS = 0.001, MAX_MBPS = 1000000, MIN_GFLOPS = 0.001, MAX_GFLOPS = 1e9;

enum { DEFAULT_RELAY_CAPACITY = 4 };

// ---- machines

static uint32_t find_machine(const scenario *s, const char *name) {
    uint32_t i = 0;
    while (i < s->machines && strcmp(s->machine[i].name, name) != 0) i++;
    return i;
}

static braid_err read_machine(scenario_reader *r, const yaml_node *item, uint32_t index) {
    char where[SCENARIO_MAX_WHERE];
    scenario *s = r->s;
    const yaml_node *place = NULL;
    scenario_machine m = {
        .place = SCENARIO_NOWHERE, .up_bps = r->up_bps, .down_bps = r->down_bps, .latency_ns = r->line_ns};
    const scenario_key keys[] = {
        {"name", KEY_NAME, m.name, 0, 0},
        {"cores", KEY_SHARE, &m.cores, 0.01, SCENARIO_MAX_CORES},
        {"place", KEY_NODE, &place, 0, 0},
        {"up_mbps", KEY_MBPS, &m.up_bps, MIN_MBPS, MAX_MBPS},
        {"down_mbps", KEY_MBPS, &m.down_bps, MIN_MBPS, MAX_MBPS},
        {"latency_ms", KEY_MS, &m.latency_ns, 0, MAX_LATENCY_MS},
    };
    scenario_where(item, "machines", index, where);
    braid_err code = scenario_read_keys(r, item, where, keys, sizeof keys / sizeof *keys);
    if (code == BRAID_OK && place != NULL) code = scenario_read_place(r, place, "machines.place", &m.place);
    if (code != BRAID_OK) return code;
    if (m.name[0] == 0)
        return yaml_fail(r->file, item, r->error, "%s.name is missing: peers say 'machine: NAME' to be on it", where);
    if (m.cores <= 0)
        return yaml_fail(r->file, item, r->error,
                         "%s.cores is missing: how many its peers share; add for example 'cores: 8'", where);
    if (find_machine(s, m.name) < s->machines)
        return yaml_fail(r->file, yaml_find(item, "name"), r->error,
                         "two machines are called '%s': give each its own name", m.name);
    s->machine[s->machines++] = m;
    return BRAID_OK;
}

braid_err scenario_read_machines(scenario_reader *r, const yaml_node *node) {
    return scenario_read_list(r, node, "machines", SCENARIO_MAX_MACHINES, read_machine);
}

// ---- one entry of the list of peers

typedef struct peer_entry {
    const yaml_node *item, *role, *stage, *machine, *place, *start;
    char where[SCENARIO_MAX_WHERE];
    uint32_t count;
    bool carries;
    scenario_peer peer;
    scenario_machine own;  // for a peer that names no machine
} peer_entry;

static braid_err read_entry_keys(const scenario_reader *r, peer_entry *e) {
    scenario_peer *p = &e->peer;
    scenario_machine *own = &e->own;
    const scenario_key keys[] = {
        {"name", KEY_NAME, p->group, 0, 0},
        {"count", KEY_COUNT, &e->count, 1, SCENARIO_MAX_PEERS},
        {"role", KEY_NODE, &e->role, 0, 0},
        {"stage", KEY_NODE, &e->stage, 0, 0},
        {"capacity", KEY_COUNT, &p->capacity, 1, SCENARIO_MAX_MICROBATCHES},
        {"carries", KEY_SWITCH, &e->carries, 0, 0},
        {"threads", KEY_COUNT, &p->threads, 1, SCENARIO_MAX_CORES},
        {"gflops", KEY_GIGA, &p->flops, MIN_GFLOPS, MAX_GFLOPS},
        {"forward_ms", KEY_MS, &p->forward_ns, 0.001, MAX_WORK_MS},
        {"loss_ms", KEY_MS, &p->loss_ns, 0.001, MAX_WORK_MS},
        {"backward_ms", KEY_MS, &p->backward_ns, 0.001, MAX_WORK_MS},
        {"weight_ms", KEY_MS, &p->weight_ns, 0.001, MAX_WORK_MS},
        {"update_ms", KEY_MS, &p->update_ns, 0.001, MAX_WORK_MS},
        {"message_ms", KEY_MS, &p->message_ns, 0, MAX_WORK_MS},
        {"megabyte_ms", KEY_MS, &p->megabyte_ns, 0, MAX_WORK_MS},
        {"machine", KEY_NODE, &e->machine, 0, 0},
        {"place", KEY_NODE, &e->place, 0, 0},
        {"up_mbps", KEY_MBPS, &own->up_bps, MIN_MBPS, MAX_MBPS},
        {"down_mbps", KEY_MBPS, &own->down_bps, MIN_MBPS, MAX_MBPS},
        {"latency_ms", KEY_MS, &own->latency_ns, 0, MAX_LATENCY_MS},
        {"start_s", KEY_NODE, &e->start, 0, MAX_START_S},
    };
    return scenario_read_keys(r, e->item, e->where, keys, sizeof keys / sizeof *keys);
}

static braid_err read_role(const scenario_reader *r, peer_entry *e) {
    static const char *const roles[] = {"relay", "data"};
    char name[SCENARIO_MAX_WHERE + 8];
    size_t role = 0;
    snprintf(name, sizeof name, "%s.role", e->where);
    if (e->role == NULL) return BRAID_OK;
    braid_err code = yaml_read_choice(r->file, e->role, name, roles, 2, &role, r->error);
    e->peer.data = role == 1;
    return code;
}

// A stage by its number or its name.
static braid_err find_stage(const scenario_reader *r, const peer_entry *e, uint16_t *stage) {
    const scenario *s = r->s;
    const char *names[SCENARIO_MAX_STAGES], *text = e->stage->kind == YAML_SCALAR ? e->stage->text : "";
    for (uint16_t i = 0; i < s->stages; i++) {
        names[i] = s->stage[i].name;
        char number[8];
        snprintf(number, sizeof number, "%u", i);
        if (strcmp(text, s->stage[i].name) != 0 && strcmp(text, number) != 0) continue;
        *stage = i;
        return BRAID_OK;
    }
    const char *near = suggest_name(text, names, s->stages);
    if (near != NULL && s->stage[0].name[0] != '0')
        return yaml_fail(r->file, e->stage, r->error, "%s.stage: there is no stage '%.32s'; did you mean '%s'?",
                         e->where, text, near);
    return yaml_fail(
        r->file, e->stage, r->error,
        "%s.stage: there is no stage '%.32s': stages of relays are 1 to %u (line %u); choose one, or leave it out "
        "and let the leader choose",
        e->where, text, s->stages - 1u, r->stages_node != NULL ? r->stages_node->line : 1);
}

static braid_err read_stage(const scenario_reader *r, peer_entry *e) {
    scenario_peer *p = &e->peer;
    p->stage = p->data ? 0 : SCENARIO_ANY_STAGE;
    if (!p->data && r->s->stages == 1)
        return yaml_fail(
            r->file, e->item, r->error,
            "%s is a relay, but the model is one stage, which the data peers hold: write 'stages: 2' or more",
            e->where);
    if (e->stage == NULL) return BRAID_OK;
    braid_err code = find_stage(r, e, &p->stage);
    if (code != BRAID_OK) return code;
    if (p->data && p->stage != 0)
        return yaml_fail(r->file, e->stage, r->error,
                         "%s is a data peer, which holds stage 0: leave 'stage' out, or make it 'role: relay'",
                         e->where);
    if (!p->data && p->stage == 0)
        return yaml_fail(r->file, e->stage, r->error,
                         "%s.stage: stage 0 is the data peers': choose 1 to %u, or make it 'role: data'", e->where,
                         r->s->stages - 1u);
    return BRAID_OK;
}

static braid_err read_start(const scenario_reader *r, peer_entry *e) {
    char name[SCENARIO_MAX_WHERE + 10];
    double seconds = 0;
    if (e->start == NULL) return BRAID_OK;
    snprintf(name, sizeof name, "%s.start_s", e->where);
    bool never = e->start->kind == YAML_SCALAR && strcmp(e->start->text, "trace") == 0;
    if (!never) {
        braid_err code = yaml_read_real(r->file, e->start, name, 0, MAX_START_S, &seconds, r->error);
        if (code != BRAID_OK) return code;
    }
    if (e->peer.data && (never || seconds > 0))
        return yaml_fail(r->file, e->start, r->error, "%s: data peers are there from the start: leave it out", name);
    e->peer.start_ns = never ? UINT64_MAX : (uint64_t)(seconds * 1e9 + 0.5);
    return BRAID_OK;
}

static braid_err read_machine_of(const scenario_reader *r, peer_entry *e) {
    static const char *const lines[] = {"place", "up_mbps", "down_mbps", "latency_ms"};
    char name[SCENARIO_MAX_WHERE + 10], text[SCENARIO_MAX_NAME];
    scenario *s = r->s;
    snprintf(name, sizeof name, "%s.%s", e->where, e->machine != NULL ? "machine" : "place");
    e->own.cores = e->peer.threads;
    e->peer.machine = UINT32_MAX;
    if (e->machine == NULL) return e->place != NULL ? scenario_read_place(r, e->place, name, &e->own.place) : BRAID_OK;
    for (uint32_t i = 0; i < 4; i++) {
        const yaml_node *line = yaml_find(e->item, lines[i]);
        if (line == NULL) continue;
        return yaml_fail(
            r->file, line, r->error,
            "%s.%s: place and line belong to its machine, whose peers share them: write it under 'machines:'", e->where,
            lines[i]);
    }
    braid_err code = yaml_read_text(r->file, e->machine, name, text, sizeof text, r->error);
    if (code != BRAID_OK) return code;
    const char *names[SCENARIO_MAX_MACHINES];
    for (uint32_t i = 0; i < s->machines; i++) names[i] = s->machine[i].name;
    e->peer.machine = find_machine(s, text);
    const char *near = e->peer.machine == s->machines ? suggest_name(text, names, s->machines) : NULL;
    if (near != NULL)
        return yaml_fail(r->file, e->machine, r->error, "%s: there is no machine '%s'; did you mean '%s'?", name, text,
                         near);
    if (e->peer.machine == s->machines)
        return yaml_fail(
            r->file, e->machine, r->error,
            "%s: there is no machine '%s': add '- {name: %s, cores: 8}' under 'machines:', or leave it out", name, text,
            text);
    double cores = s->machine[e->peer.machine].cores;
    if (e->peer.threads == 1 || e->peer.threads <= cores) return BRAID_OK;
    return yaml_fail(r->file, e->item, r->error, "%s.threads is %u but machine '%s' has %g cores: lower it", e->where,
                     e->peer.threads, text, cores);
}

// ---- speed

// A stage that the peer may get: its own, else the one with the most work.
static const scenario_stage *stage_for(const scenario *s, const scenario_peer *p) {
    const scenario_stage *best = &s->stage[p->stage == SCENARIO_ANY_STAGE ? 1 : p->stage];
    for (uint16_t i = 2; i < s->stages && p->stage == SCENARIO_ANY_STAGE; i++)
        if (s->stage[i].forward_flops > best->forward_flops) best = &s->stage[i];
    return best;
}

// Derives missing speeds: operations per second follow from the first time that was given.
static braid_err fill_speed(const scenario_reader *r, peer_entry *e) {
    scenario_peer *p = &e->peer;
    if (p->flops > 0) return BRAID_OK;
    const scenario_stage *stage = stage_for(r->s, p);
    bool blocks = stage->blocks > 0;
    const struct {
        uint64_t ns;
        double flops;
    } known[] = {{blocks ? p->forward_ns : 0, stage->forward_flops},
                 {p->loss_ns, stage->loss_flops},
                 {blocks ? p->backward_ns : 0, stage->backward_flops},
                 {p->weight_ns, stage->weight_flops}};
    for (uint32_t i = 0; i < 4 && p->flops <= 0; i++)
        if (known[i].ns > 0 && known[i].flops > 0) p->flops = known[i].flops / ((double)known[i].ns / 1e9);
    if (p->flops > 0) return BRAID_OK;
    return yaml_fail(
        r->file, e->item, r->error,
        "%s: how fast does it compute? add 'gflops: 500' (what it reaches, in thousand million operations a "
        "second), or '%s: 80' for one microbatch",
        e->where, blocks ? "forward_ms" : "loss_ms");
}

static braid_err check_entry(const scenario_reader *r, const peer_entry *e) {
    const yaml_node *loss = yaml_find(e->item, "loss_ms");
    if (loss != NULL && !e->peer.data)
        return yaml_fail(r->file, loss, r->error, "%s.loss_ms: only data peers compute the loss: leave it out",
                         e->where);
    if (e->peer.group[0] != 0) return BRAID_OK;
    return yaml_fail(r->file, e->item, r->error, "%s.name is missing: add for example 'name: anna'", e->where);
}

static braid_err read_entry(const scenario_reader *r, const yaml_node *item, uint32_t index, peer_entry *e) {
    *e = (peer_entry){
        .item = item,
        .count = 1,
        .carries = true,
        .peer = {.threads = 1},
        .own = {.place = SCENARIO_NOWHERE, .up_bps = r->up_bps, .down_bps = r->down_bps, .latency_ns = r->line_ns}};
    scenario_where(item, "peers", index, e->where);
    braid_err code = read_entry_keys(r, e);
    e->peer.carries_nothing = !e->carries;
    if (code == BRAID_OK) code = read_role(r, e);
    if (code == BRAID_OK) code = check_entry(r, e);
    if (code == BRAID_OK) code = read_stage(r, e);
    if (code == BRAID_OK) code = read_start(r, e);
    if (code == BRAID_OK) code = read_machine_of(r, e);
    if (code == BRAID_OK) code = fill_speed(r, e);
    return code;
}

// ---- from entries to peers

// True if no peer and no group has the name yet.
static bool name_free(const scenario *s, const char *name) {
    for (uint32_t i = 0; i < s->peers; i++)
        if (strcmp(s->peer[i].name, name) == 0 || strcmp(s->peer[i].group, name) == 0) return false;
    return true;
}

static braid_err add_peer(const scenario_reader *r, const peer_entry *e, const char name[SCENARIO_MAX_NAME]) {
    scenario *s = r->s;
    if (s->peers == SCENARIO_MAX_PEERS)
        return yaml_fail(r->file, e->item, r->error, "more than %d peers: a run has room for no more",
                         SCENARIO_MAX_PEERS);
    if (e->peer.data && s->data_peers == SCENARIO_MAX_DATA_PEERS)
        return yaml_fail(r->file, e->item, r->error, "more than %d data peers: make the others relays",
                         SCENARIO_MAX_DATA_PEERS);
    scenario_peer *p = &s->peer[s->peers];
    *p = e->peer;
    memcpy(p->name, name, sizeof p->name);
    if (p->machine == UINT32_MAX) {
        if (s->machines == SCENARIO_MAX_MACHINES)
            return yaml_fail(r->file, e->item, r->error,
                             "more than %d machines, those of single peers counted: name fewer", SCENARIO_MAX_MACHINES);
        p->machine = s->machines;
        s->machine[s->machines] = e->own;
        memcpy(s->machine[s->machines++].name, name, SCENARIO_MAX_NAME);
    }
    if (p->capacity == 0) p->capacity = p->data ? r->own_microbatches : DEFAULT_RELAY_CAPACITY;
    s->peers++;
    s->data_peers += p->data;
    return BRAID_OK;
}

static braid_err taken(const scenario_reader *r, const peer_entry *e, const char *name) {
    return yaml_fail(r->file, yaml_find(e->item, "name"), r->error,
                     "%s.name: '%s' is taken already: give every peer and every group its own name", e->where, name);
}

static braid_err add_entry(const scenario_reader *r, const peer_entry *e) {
    braid_err code = BRAID_OK;
    char name[SCENARIO_MAX_NAME] = "";
    uint32_t first = r->s->peers;
    if (!name_free(r->s, e->peer.group)) return taken(r, e, e->peer.group);
    for (uint32_t i = 1; i <= e->count && code == BRAID_OK; i++) {
        bool alone = yaml_find(e->item, "count") == NULL;
        int length = alone ? snprintf(name, sizeof name, "%s", e->peer.group)
                           : snprintf(name, sizeof name, "%s-%u", e->peer.group, i);
        if (length >= SCENARIO_MAX_NAME)
            return yaml_fail(r->file, yaml_find(e->item, "name"), r->error,
                             "%s.name: with its number '%s-%u' is longer than %d bytes: shorten it", e->where,
                             e->peer.group, i, SCENARIO_MAX_NAME - 1);
        for (uint32_t p = 0; p < first; p++)
            if (strcmp(r->s->peer[p].name, name) == 0 || strcmp(r->s->peer[p].group, name) == 0)
                return taken(r, e, name);
        code = add_peer(r, e, name);
    }
    return code;
}

static braid_err read_data_peer(scenario_reader *r, const yaml_node *item, uint32_t index) {
    peer_entry e;
    braid_err code = read_entry(r, item, index, &e);
    return code == BRAID_OK && e.peer.data ? add_entry(r, &e) : code;
}

static braid_err read_relay(scenario_reader *r, const yaml_node *item, uint32_t index) {
    peer_entry e;
    braid_err code = read_entry(r, item, index, &e);
    return code == BRAID_OK && !e.peer.data ? add_entry(r, &e) : code;
}

// Checks that each stage has a peer from the start, and not more than the limit.
static braid_err check_stages(const scenario_reader *r) {
    const scenario *s = r->s;
    uint32_t named[SCENARIO_MAX_STAGES] = {0}, at_start[SCENARIO_MAX_STAGES] = {0}, free_relays = 0, free_at_start = 0;
    for (uint32_t i = s->data_peers; i < s->peers; i++) {
        const scenario_peer *p = &s->peer[i];
        bool any = p->stage == SCENARIO_ANY_STAGE, start = p->start_ns == 0;
        free_relays += any;
        free_at_start += any && start;
        if (any) continue;
        named[p->stage]++;
        at_start[p->stage] += start;
    }
    uint32_t room = 0;
    for (uint16_t i = 1; i < s->stages; i++) {
        if (named[i] > SCENARIO_MAX_STAGE_PEERS)
            return yaml_fail(r->file, r->peers_node, r->error,
                             "stage %u has %u peers, at most %d are allowed: give some another 'stage'", i, named[i],
                             SCENARIO_MAX_STAGE_PEERS);
        room += SCENARIO_MAX_STAGE_PEERS - named[i];
        if (at_start[i] > 0) continue;
        if (free_at_start > 0) {
            free_at_start--;
            continue;
        }
        return yaml_fail(
            r->file, r->peers_node, r->error,
            "stage %s has no peer%s: add one with 'stage: %s', or relays without 'stage' for the leader to place",
            s->stage[i].name, named[i] > 0 ? " from the start" : "", s->stage[i].name);
    }
    if (free_relays <= room) return BRAID_OK;
    return yaml_fail(
        r->file, r->peers_node, r->error,
        "%u relays without 'stage' are more than the stages have room for (%d each): cut the model into more stages",
        free_relays, SCENARIO_MAX_STAGE_PEERS);
}

braid_err scenario_read_peers(scenario_reader *r, const yaml_node *node) {
    r->peers_node = node;
    braid_err code = scenario_read_list(r, node, "peers", SCENARIO_MAX_PEERS, read_data_peer);
    if (code == BRAID_OK) code = scenario_read_list(r, node, "peers", SCENARIO_MAX_PEERS, read_relay);
    if (code != BRAID_OK) return code;
    if (r->s->data_peers == 0)
        return yaml_fail(r->file, node, r->error,
                         "stage 0 has no peer, and one must have the data; add one with 'role: data'");
    return check_stages(r);
}
