#include "sim/scenario.h"

#include "sim/scenario_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t scenario_leader(const scenario *s) {
    uint32_t leader = 0;
    for (uint32_t i = 1; i < s->data_peers; i++)
        if (strcmp(s->peer[i].name, s->peer[leader].name) < 0) leader = i;
    return leader;
}

// ---- reading

typedef struct top_level {
    const yaml_node *model, *stages, *machines, *peers, *links, *churn, *routing, *objective, *plan_first, *placement, *recovery, *compute, *mode;
} top_level;

static braid_err read_top(scenario_reader *r, top_level *t) {
    scenario *s = r->s;
    const scenario_key keys[] = {
        {"name", KEY_NAME, s->name, 0, 0},
        {"seed", KEY_SEED, &s->seed, 0, 0},
        {"iterations", KEY_COUNT, &s->iterations, 1, SCENARIO_MAX_ITERATIONS},
        {"microbatches", KEY_COUNT, &r->own_microbatches, 1, SCENARIO_MAX_MICROBATCHES},
        {"model", KEY_NODE, &t->model, 0, 0},
        {"stages", KEY_NODE, &t->stages, 0, 0},
        {"mode", KEY_NODE, &t->mode, 0, 0},
        {"machines", KEY_NODE, &t->machines, 0, 0},
        {"peers", KEY_NODE, &t->peers, 0, 0},
        {"links", KEY_NODE, &t->links, 0, 0},
        {"churn", KEY_NODE, &t->churn, 0, 0},
        {"routing", KEY_NODE, &t->routing, 0, 0},
        {"objective", KEY_NODE, &t->objective, 0, 0},
        {"plan_first", KEY_NODE, &t->plan_first, 0, 0},
        {"placement", KEY_NODE, &t->placement, 0, 0},
        {"recovery", KEY_NODE, &t->recovery, 0, 0},
        {"compute", KEY_NODE, &t->compute, 0, 0},
        {"upload_share", KEY_COUNT, &s->upload_percent, 1, 100},
    };
    s->seed = 1;
    s->iterations = 10;
    s->reproducible = true;
    s->routing = ROUTING_BRAID;
    return scenario_read_keys(r, yaml_root(r->file), "", keys, sizeof keys / sizeof *keys);
}

static braid_err read_choices(const scenario_reader *r, const top_level *t) {
    static const char *const routings[ROUTINGS] = {"braid", "gwtf", "swarm", "cheapest"};
    static const char *const objectives[ROUTER_OBJECTIVES] = {"sum", "worst"};
    static const char *const recoveries[] = {"repair", "restart"};
    static const char *const placements[] = {"braid", "gwtf", "stay"};  // peer_placement
    static const char *const computes[] = {"model", "kernels"};
    static const char *const modes[] = {"reproducible", "fast"};
    scenario *s = r->s;
    size_t routing = s->routing, objective = s->objective, compute = s->compute, mode = s->reproducible ? 0 : 1, recovery = 0, placement = 0;
    braid_err code = BRAID_OK;
    if (t->routing != NULL) code = yaml_read_choice(r->file, t->routing, "routing", routings, ROUTINGS, &routing, r->error);
    if (code == BRAID_OK && t->objective != NULL)
        code = yaml_read_choice(r->file, t->objective, "objective", objectives, ROUTER_OBJECTIVES, &objective, r->error);
    if (code == BRAID_OK && objective == ROUTER_BOTTLENECK && t->objective != NULL && routing > ROUTING_GWTF)
        code = yaml_fail(r->file, t->objective, r->error,
                         "objective is for the routings braid and gwtf, not for '%s': leave it out", routings[routing]);
    if (code == BRAID_OK && t->recovery != NULL)
        code = yaml_read_choice(r->file, t->recovery, "recovery", recoveries, 2, &recovery, r->error);
    if (code == BRAID_OK && t->placement != NULL)
        code = yaml_read_choice(r->file, t->placement, "placement", placements, 3, &placement, r->error);
    if (code == BRAID_OK && t->compute != NULL)
        code = yaml_read_choice(r->file, t->compute, "compute", computes, 2, &compute, r->error);
    if (code == BRAID_OK && t->mode != NULL)
        code = yaml_read_choice(r->file, t->mode, "mode", modes, 2, &mode, r->error);
    if (code == BRAID_OK && t->plan_first != NULL)
        code = yaml_read_bool(r->file, t->plan_first, "plan_first", &s->plan_first, r->error);
    if (code == BRAID_OK && t->plan_first != NULL && s->plan_first && (routing != ROUTING_BRAID || objective != ROUTER_SUM))
        code = yaml_fail(r->file, t->plan_first, r->error,
                         "plan_first is for the routing braid with the objective sum: leave it out, or choose those");
    s->routing = (scenario_routing)routing;
    s->objective = (router_objective)objective;
    s->restarts = recovery == 1;
    s->placement = (uint8_t)placement;
    s->compute = (scenario_compute)compute;
    s->reproducible = mode == 0;
    if (code == BRAID_OK && s->reproducible && s->byte_sums)
        code = yaml_fail(r->file, t->model, r->error,
                         "the sums are int8, but those of a reproducible run are exact: add 'mode: fast', or write 'sums: exact' under 'model:'");
    return code;
}

// The microbatches of all data peers together. A run's description gives that number, a scenario
// the number of each peer.
static braid_err fill_microbatches(const scenario_reader *r) {
    scenario *s = r->s;
    uint32_t each = r->own_microbatches;
    const yaml_node *node = yaml_find(yaml_root(r->file), "microbatches");
    if (node != NULL) s->microbatches = each * s->data_peers;
    if (s->microbatches == 0) s->microbatches = 8 * s->data_peers;
    if (s->microbatches > SCENARIO_MAX_MICROBATCHES)
        return yaml_fail(r->file, node != NULL ? node : r->peers_node, r->error,
                         "microbatches: %u of each of %u data peers are more than %d in all: lower it", each,
                         s->data_peers, SCENARIO_MAX_MICROBATCHES);
    if (s->microbatches < s->data_peers)
        return yaml_fail(r->file, r->peers_node, r->error,
                         "%u microbatches for %u data peers: write 'microbatches: 1' or more for each", s->microbatches,
                         s->data_peers);
    for (uint32_t i = 0; i < s->data_peers; i++)
        if (s->peer[i].capacity == 0) s->peer[i].capacity = (s->microbatches + s->data_peers - 1) / s->data_peers;
    return BRAID_OK;
}

static braid_err read_all(scenario_reader *r) {
    top_level t = {0};
    braid_err code = read_top(r, &t);
    if (code == BRAID_OK) code = scenario_read_model(r, t.model, t.stages);
    if (code == BRAID_OK) code = read_choices(r, &t);
    if (code == BRAID_OK) code = scenario_read_link_defaults(r, t.links);
    if (code == BRAID_OK && t.machines != NULL) code = scenario_read_machines(r, t.machines);
    if (code != BRAID_OK) return code;
    r->stages_node = t.stages;
    if (t.peers == NULL)
        return yaml_fail(r->file, yaml_root(r->file), r->error,
                         "peers is missing: add a list of them, like '- {name: anna, role: data, gflops: 500}'");
    code = scenario_read_peers(r, t.peers);
    if (code == BRAID_OK) code = fill_microbatches(r);
    if (code == BRAID_OK) code = scenario_read_links(r, t.links);
    return code == BRAID_OK ? scenario_read_churn(r, t.churn) : code;
}

// A scenario without a name takes that of its file, as far as the characters are allowed.
static void fill_name(scenario *s, const char *origin) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const char *slash = strrchr(origin, '/'), *base = slash != NULL ? slash + 1 : origin;
    size_t length = strspn(base, allowed);
    if (s->name[0] == 0)
        snprintf(s->name, sizeof s->name, "%.*s", length > 0 ? (int)length : 8, length > 0 ? base : "scenario");
}

// Takes ownership of `file`.
static braid_err read_file(yaml *file, const char *origin, const char *base_dir, scenario **out, braid_error *error) {
    scenario *s = calloc(1, sizeof *s);
    braid_err code = s != NULL ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "out of memory");
    if (code == BRAID_OK)
        code = read_all(&(scenario_reader){.file = file, .base_dir = base_dir, .s = s, .error = error});
    yaml_free(file);
    if (code == BRAID_OK) fill_name(s, origin);
    if (code == BRAID_OK)
        *out = s;
    else
        scenario_free(s);
    return code;
}

braid_err scenario_parse(const char *text, size_t length, const char *origin, const char *base_dir, scenario **out,
                         braid_error *error) {
    yaml *file = NULL;
    *out = NULL;
    braid_err code = yaml_parse(text, length, origin, &file, error);
    return code == BRAID_OK ? read_file(file, origin, base_dir, out, error) : code;
}

braid_err scenario_load(const char *path, scenario **out, braid_error *error) {
    yaml *file = NULL;
    *out = NULL;
    braid_err code = yaml_load(path, &file, error);
    if (code != BRAID_OK) return code;
    const char *slash = strrchr(path, '/');
    char *directory = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (directory == NULL) {
        yaml_free(file);
        return braid_fail(error, BRAID_MEMORY, "out of memory");
    }
    code = read_file(file, path, directory, out, error);
    free(directory);
    return code;
}

void scenario_free(scenario *s) {
    if (s == NULL) return;
    free(s->churn.event);
    free(s);
}

// ---- derived values

uint64_t scenario_cost_ns(const scenario *s, uint32_t peer, uint16_t stage, scenario_work work) {
    static const double least_ns = 1000, most_ns = 3.6e15;
    const scenario_peer *p = &s->peer[peer];
    const scenario_stage *at = &s->stage[stage];
    uint64_t given = 0;
    double flops = 0;
    switch (work) {
    case WORK_FORWARD: given = p->forward_ns, flops = at->forward_flops; break;
    case WORK_LOSS: given = p->loss_ns, flops = at->loss_flops; break;
    case WORK_BACKWARD: given = p->backward_ns, flops = at->backward_flops; break;
    case WORK_WEIGHT: given = p->weight_ns, flops = at->weight_flops; break;
    }
    if (given > 0) return given;
    double ns = flops / p->flops * 1e9;
    return (uint64_t)(ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns);
}

// Makes room for peer `at`; it is in the set when `like` is.
static void set_insert(scenario_set *set, uint32_t at, uint32_t like) {
    scenario_set old = *set;
    *set = (scenario_set){0};
    for (uint32_t i = 0; i + 1 < SCENARIO_MAX_PEERS; i++)
        if (scenario_set_has(&old, i)) scenario_set_add(set, i < at ? i : i + 1);
    if (scenario_set_has(&old, like)) scenario_set_add(set, at);
}

// Copies pairs, partitions and churn of `like` to peer `at`; the indices of later peers shift.
static void insert_everywhere(scenario *s, uint32_t at, uint32_t like) {
    for (uint32_t i = 0; i < s->overrides; i++) {
        set_insert(&s->override[i].from, at, like);
        set_insert(&s->override[i].to, at, like);
    }
    for (uint32_t i = 0; i < s->partitions; i++) {
        set_insert(&s->partition[i].from, at, like);
        set_insert(&s->partition[i].to, at, like);
    }
    set_insert(&s->churn.subjects, at, like);
    for (uint32_t i = 0; i < s->churn.event_count; i++) s->churn.event[i].peer += s->churn.event[i].peer >= at;
}

static braid_err check_room(const scenario *s, uint16_t stage, braid_error *error) {
    uint32_t members = 0, most = stage == 0 ? SCENARIO_MAX_DATA_PEERS : SCENARIO_MAX_STAGE_PEERS;
    if (s->peers == SCENARIO_MAX_PEERS || s->machines == SCENARIO_MAX_MACHINES)
        return braid_fail(error, BRAID_LIMIT, "%u peers on %u machines are all that a run has room for", s->peers,
                          s->machines);
    for (uint32_t i = 0; i < s->peers; i++) members += s->peer[i].stage == stage;
    if (members < most && (stage > 0 || members < s->microbatches)) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "stage %s has %u peers already, its most", s->stage[stage].name, members);
}

static void add_one(scenario *s, uint32_t like, uint16_t stage) {
    uint32_t at = stage == 0 ? s->data_peers : s->peers;
    scenario_peer one = s->peer[like];
    scenario_machine m = s->machine[one.machine];
    insert_everywhere(s, at, like);
    memmove(&s->peer[at + 1], &s->peer[at], (s->peers - at) * sizeof *s->peer);
    m.cores = one.threads;
    one.machine = s->machines;
    one.stage = stage;
    one.start_ns = 0;
    snprintf(one.name, sizeof one.name, "one-more");
    snprintf(one.group, sizeof one.group, "one-more");
    snprintf(m.name, sizeof m.name, "one-more");
    s->machine[s->machines++] = m;
    s->peer[at] = one;
    s->peers++;
    s->data_peers += stage == 0;
}

braid_err scenario_with_one_more(const scenario *s, uint32_t like, uint16_t stage, scenario **out, braid_error *error) {
    scenario *copy = malloc(sizeof *copy);
    *out = NULL;
    if (copy == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
    *copy = *s;
    copy->churn.event = NULL;
    braid_err code = check_room(s, stage, error);
    if (code == BRAID_OK && s->churn.event_count > 0) {
        copy->churn.event = malloc(s->churn.event_count * sizeof *copy->churn.event);
        if (copy->churn.event == NULL)
            code = braid_fail(error, BRAID_MEMORY, "out of memory");
        else
            memcpy(copy->churn.event, s->churn.event, s->churn.event_count * sizeof *copy->churn.event);
    }
    if (code != BRAID_OK) {
        scenario_free(copy);
        return code;
    }
    add_one(copy, like, stage);
    *out = copy;
    return BRAID_OK;
}
