// Candidates wait in line, and each rule chooses one of the first ones, as many as there are relay
// stages. The demand stays what the run could carry at the beginning, so costs are comparable.
#include "bench/routing/f5.h"

#include "base/rng.h"
#include "plan/min_cost.h"
#include "routing/join/join.h"

#include <stdlib.h>

// A message is 24 bytes, as in the other experiments; an entry of a list has a peer and a number.
enum {
    MESSAGE_BYTES = 24,
    ENTRY_BYTES = 8,
    MAX_STAGES = 12,
    MAX_PEERS = F5_PEERS + F5_JOINERS,
    MAX_LINKS = MAX_PEERS * MAX_PEERS,
    DEMAND = 4096
};

typedef struct f5_test {
    uint16_t stages;  // of relays
    uint32_t capacity, cost_low, cost_high;
    bool uneven;
} f5_test;
static const f5_test tests[F5_TESTS] = {
    {8, 20, 1, 100, false},  {8, 20, 20, 100, false}, {8, 5, 1, 100, false},
    {12, 20, 1, 100, false}, {8, 20, 1, 100, true},
};

typedef struct f5 {
    const f5_test *test;
    uint64_t seed;
    rng draw;
    uint32_t peers;
    join_peer peer[MAX_PEERS];
    uint32_t id[MAX_PEERS];     // in the order of the draws; links and capacities depend on it
    uint32_t line[MAX_STAGES];  // the candidates
    uint32_t drawn;
    void *memory, *plan_memory;
    plan_arc *arc;
    f5_result *result;
} f5;

const char *f5_system_name(f5_system system) {
    static const char *const name[F5_SYSTEMS] = {"optimum", "capacity", "random", "gwtf", "braid"};
    return name[system];
}

// --- the draws

static uint32_t uniform(const f5 *f, uint64_t kind, uint64_t a, uint64_t b, uint32_t low, uint32_t high) {
    rng r = {rng_seed(rng_seed(rng_seed(f->seed, kind), a), b)};
    return low + (uint32_t)rng_below(&r, high - low + 1);
}

static uint32_t capacity_of(const f5 *f, uint32_t id) { return uniform(f, 1, id, 0, 1, f->test->capacity); }

static int64_t cost_between(const f5 *f, uint32_t a, uint32_t b) {
    return uniform(f, 2, a < b ? a : b, a < b ? b : a, f->test->cost_low, f->test->cost_high);
}

static int64_t map_cost(const void *context, uint32_t from, uint32_t to) {
    const f5 *f = context;
    return cost_between(f, f->id[from], f->id[to]);
}

// Every stage has a peer; test 5 draws the stage of all others.
static uint16_t first_stage(const f5 *f, uint32_t id) {
    uint32_t stage = (id - 1) % f->test->stages;
    if (f->test->uneven && id > f->test->stages) stage = uniform(f, 3, id, 0, 0, f->test->stages - 1u);
    return (uint16_t)(stage + 1);
}

// --- the exact flow

static uint32_t entry_node(uint32_t peer) { return 2 * peer; }
static uint32_t exit_node(uint32_t peer) { return 2 * peer + 1; }

// Units that leave peer 0 at its exit return to its entry.
static plan_graph graph_of(const f5 *f) {
    plan_graph g = {.nodes = 2 * f->peers, .source = exit_node(0), .sink = entry_node(0), .arc = f->arc};
    for (uint32_t a = 0; a < f->peers; a++) {
        if (a > 0)
            g.arc[g.arcs++] = (plan_arc){.from = entry_node(a), .to = exit_node(a), .capacity = f->peer[a].capacity};
        for (uint32_t b = 0; b < f->peers; b++)
            if (f->peer[b].stage == (f->peer[a].stage + 1) % (f->test->stages + 1))
                g.arc[g.arcs++] = (plan_arc){
                    .from = exit_node(a), .to = entry_node(b), .capacity = DEMAND, .cost = map_cost(f, a, b)};
    }
    return g;
}

static braid_err exact(const f5 *f, plan_answer *answer, braid_error *error) {
    plan_graph g = graph_of(f);
    return plan_min_cost(&g, f->peer[0].capacity, f->plan_memory, answer, error);
}

// --- the rules

static void add_member(f5 *f, uint32_t id, uint16_t stage) {
    f->id[f->peers] = id;
    f->peer[f->peers++] = (join_peer){stage, capacity_of(f, id)};
}

static uint32_t largest(const f5 *f) {
    uint32_t best = 0;
    for (uint32_t c = 1; c < f->test->stages; c++)
        if (capacity_of(f, f->line[c]) > capacity_of(f, f->line[best])) best = c;
    return best;
}

static braid_err choose_optimum(f5 *f, join_choice *choice, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t c = 0; c < f->test->stages; c++)
        for (uint16_t s = 1; s <= f->test->stages && !err; s++) {
            plan_answer answer = {0};
            add_member(f, f->line[c], s);
            err = exact(f, &answer, error);
            f->peers--;
            join_flow flow = {(uint32_t)answer.units, answer.cost};
            if (choice->stage == 0 || join_flow_is_better(&flow, &choice->flow)) *choice = (join_choice){c, s, flow};
        }
    return err;
}

// The leader's query floods from stage to stage and back to the leader, with an entry for each
// stage it passed. Each candidate sends its capacity; the chosen one gets its stage.
static void count_gwtf(f5 *f, const uint32_t *members) {
    uint16_t stages = f->test->stages;
    for (uint16_t s = 0; s <= stages; s++) {
        uint64_t sent = (uint64_t)members[s] * members[(s + 1) % (stages + 1)];
        f->result->messages += sent;
        f->result->bytes += sent * (MESSAGE_BYTES + (uint64_t)ENTRY_BYTES * s);
    }
    f->result->messages += stages + 1u;
    f->result->bytes += (stages + 1u) * (uint64_t)MESSAGE_BYTES;
}

static void choose_gwtf(f5 *f, join_choice *choice) {
    join_stage stage[MAX_STAGES + 1] = {{0}};
    uint32_t members[MAX_STAGES + 1] = {0}, capacity[MAX_STAGES];
    uint16_t assigned[MAX_STAGES];
    for (uint32_t i = 0; i < f->peers; i++) {
        stage[f->peer[i].stage].capacity += f->peer[i].capacity;
        members[f->peer[i].stage]++;
    }
    for (uint16_t s = 0; s <= f->test->stages; s++) stage[s].flows = f->peer[0].capacity;
    for (uint32_t c = 0; c < f->test->stages; c++) capacity[c] = capacity_of(f, f->line[c]);
    join_assign(stage, (uint16_t)(f->test->stages + 1), capacity, f->test->stages, assigned);
    choice->candidate = largest(f);
    choice->stage = assigned[choice->candidate];
    count_gwtf(f, members);
}

// At most JOIN_PROBES random peers of each stage, and the data peer.
static uint32_t probe(f5 *f, uint32_t id, join_probe *out) {
    uint32_t probes = 0, left[MAX_STAGES + 1] = {0}, wanted[MAX_STAGES + 1];
    for (uint32_t i = 0; i < f->peers; i++) left[f->peer[i].stage]++;
    for (uint32_t s = 0; s <= MAX_STAGES; s++) wanted[s] = left[s] < JOIN_PROBES ? left[s] : JOIN_PROBES;
    for (uint32_t i = 0; i < f->peers; i++) {
        uint16_t s = f->peer[i].stage;
        bool taken = rng_below(&f->draw, left[s]--) < wanted[s];
        wanted[s] -= taken;
        if (taken) out[probes++] = (join_probe){i, cost_between(f, id, f->id[i])};
    }
    return probes;
}

// A probe and its answer; then the candidate's report to the leader.
static void count_probes(f5 *f, uint32_t probes) {
    f->result->messages += 2 * (uint64_t)probes + 1;
    f->result->bytes += 2 * (uint64_t)probes * MESSAGE_BYTES + MESSAGE_BYTES + (uint64_t)probes * ENTRY_BYTES;
}

// Members send the costs of their links to the leader: all once, then only a new member.
static void count_map(f5 *f) {
    uint32_t from = f->peers == F5_PEERS ? 1 : f->peers - 1;
    for (uint32_t i = from; i < f->peers; i++) {
        uint16_t after = (uint16_t)((f->peer[i].stage + 1) % (f->test->stages + 1));
        f->result->messages++;
        f->result->bytes += MESSAGE_BYTES;
        for (uint32_t k = 0; k < f->peers; k++) f->result->bytes += f->peer[k].stage == after ? ENTRY_BYTES : 0;
    }
}

static void choose_braid(f5 *f, join_choice *choice) {
    join_probe probes[MAX_STAGES][MAX_PEERS];
    join_candidate candidate[MAX_STAGES];
    join_map map = {
        .stages = (uint16_t)(f->test->stages + 1), .peers = f->peers, .peer = f->peer, .cost = map_cost, .context = f};
    for (uint32_t c = 0; c < f->test->stages; c++) {
        uint32_t id = f->line[c];
        candidate[c] = (join_candidate){capacity_of(f, id), probe(f, id, probes[c]), probes[c]};
        count_probes(f, candidate[c].probes);
    }
    count_map(f);
    f->result->messages++;
    f->result->bytes += MESSAGE_BYTES;
    *choice = join_choose(&map, candidate, f->test->stages, f->memory, MAX_LINKS);
}

static braid_err choose(f5 *f, f5_system system, join_choice *choice, braid_error *error) {
    uint16_t any = (uint16_t)(1 + rng_below(&f->draw, f->test->stages));
    uint32_t someone = (uint32_t)rng_below(&f->draw, f->test->stages);
    switch (system) {
    case F5_OPTIMUM: return choose_optimum(f, choice, error);
    case F5_CAPACITY: *choice = (join_choice){.candidate = largest(f), .stage = any}; break;
    case F5_RANDOM: *choice = (join_choice){.candidate = someone, .stage = any}; break;
    case F5_GWTF: choose_gwtf(f, choice); break;
    default: choose_braid(f, choice); break;
    }
    return BRAID_OK;
}

// --- a run

static braid_err place_all(f5 *f, f5_system system, braid_error *error) {
    plan_answer answer = {0};
    f->peer[0] = (join_peer){0, DEMAND};
    f->id[0] = 0;
    for (f->peers = 1; f->peers < F5_PEERS;) add_member(f, f->peers, first_stage(f, f->peers));
    for (f->drawn = 0; f->drawn < f->test->stages; f->drawn++) f->line[f->drawn] = F5_PEERS + f->drawn;
    braid_err err = exact(f, &answer, error);
    f->peer[0].capacity = (uint32_t)answer.units;
    f->result->before = answer.cost;
    for (uint32_t i = 0; i < F5_JOINERS && !err; i++) {
        join_choice choice = {.stage = 0};
        err = choose(f, system, &choice, error);
        if (err) break;
        add_member(f, f->line[choice.candidate], choice.stage);
        f->line[choice.candidate] = F5_PEERS + f->drawn++;
    }
    if (!err) err = exact(f, &answer, error);
    f->result->after = answer.cost;
    return err;
}

braid_err f5_run(uint32_t test, uint64_t seed, f5_system system, f5_result *out, braid_error *error) {
    f5 f = {.test = &tests[test - 1],
            .seed = rng_seed(seed, test),
            .draw = {rng_seed(rng_seed(seed, test), 100 + system)},
            .result = out};
    *out = (f5_result){0};
    f.memory = malloc(join_flow_bytes(MAX_PEERS, MAX_LINKS));
    f.plan_memory = malloc(plan_min_cost_bytes(2 * MAX_PEERS, MAX_LINKS + MAX_PEERS));
    f.arc = malloc((MAX_LINKS + MAX_PEERS) * sizeof *f.arc);
    bool good = f.memory != NULL && f.plan_memory != NULL && f.arc != NULL;
    braid_err err = good ? place_all(&f, system, error)
                         : braid_fail(error, BRAID_MEMORY, "no memory for a run of %d peers", MAX_PEERS);
    free(f.memory);
    free(f.plan_memory);
    free(f.arc);
    return err;
}
