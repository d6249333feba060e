#include "bench/training/t2.h"

#include "base/rng.h"
#include "sim/places.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// GWTF, section VI: d_model 1024, 16 layers, microbatches of 4 x 512 tokens, 50 to 500 Mb/s between
// places, divided by 32 because activations of larger models are 32 times as large. Here
// activations are that large: 32 times the sequences on peers that compute 32 times as fast, while
// lines keep their rate for other traffic. Assumed: fp32, the share of five RTX A4000 for one of 18
// peers (2 Tflop/s), the vocabulary, and the cost of an update.
enum { SEQUENCES = 4, TOKENS = 512, WIDER = 32, GFLOPS = 2000, UPDATE_MS = 20, NO_LINE_MBPS = 100000 };

typedef struct writer {
    char *text;
    size_t length, room;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(w->text + w->length, w->room - w->length, format, arguments);
    va_end(arguments);
    BRAID_ASSERT(length >= 0 && w->length + (size_t)length < w->room);
    w->length += (size_t)length;
}

static const char *const routings[T2_SYSTEMS] = {"swarm", "gwtf", "braid"};

static void put_head(writer *w, const t2_case *c, t2_system system) {
    put(w, "name: %s\nseed: %llu\niterations: %u\n", c->model == T2_GPT ? "t3" : "t2", (unsigned long long)c->seed, c->iterations);
    put(w, "model: {arch: %s, dim: 1024, layers: 16, heads: 16, vocab: %d, context: %d, sequences: %d, tokens: %d, links: %s}\n",
        c->model == T2_GPT ? "gpt" : "llama", c->model == T2_GPT ? 50257 : 32000, TOKENS, SEQUENCES * WIDER, TOKENS, tensor_codec_names[c->links]);
    put(w, "stages: [1, 3, 3, 3, 3, 3]\nmicrobatches: %d\nmode: fast\nrouting: %s\n", T2_MICROBATCHES, routings[system]);
    if (system == T2_BRAID && c->placement == T2_PLACE_CAPACITY) put(w, "placement: gwtf\n");
    if (system == T2_BRAID && c->placement == T2_PLACE_STAY) put(w, "placement: stay\n");
    if (system == T2_SWARM) put(w, "recovery: restart\n");
}

static uint32_t put_peer(writer *w, const t2_case *c, const char *name, bool data) {
    rng r = {rng_seed(c->seed, 2)};
    for (const char *letter = name; *letter != 0; letter++) r.state = rng_seed(r.state, (uint8_t)*letter);
    uint32_t place = (uint32_t)rng_below(&r, place_count()), capacity = 1 + (uint32_t)rng_below(&r, 3);
    if (data || !c->heterogeneous) capacity = 4;
    put(w, "- {name: %s, role: %s, capacity: %u, place: %s, gflops: %d, update_ms: %d, up_mbps: %d, down_mbps: %d}\n", name,
        data ? "data" : "relay", capacity, place_name(place), GFLOPS * WIDER, UPDATE_MS, NO_LINE_MBPS, NO_LINE_MBPS);
    return place;
}

// Returns the set of places, a bit each.
static uint64_t put_data_peers(writer *w, const t2_case *c) {
    uint64_t places = 0;
    for (uint32_t i = 0; i < T2_DATA; i++) {
        char name[8];
        snprintf(name, sizeof name, "d%u", i + 1);
        places |= (uint64_t)1 << put_peer(w, c, name, true);
    }
    return places;
}

static void put_links(writer *w, uint64_t places) {
    put(w, "links:\n  pairs:\n");
    for (uint32_t a = 0; a < place_count(); a++)
        for (uint32_t b = 0; b <= a; b++)
            if ((places >> a & 1) != 0 && (places >> b & 1) != 0)
                put(w, "  - {between: [%s, %s], mbps: %.3f}\n", place_name(a), place_name(b),
                    (double)place_scaled_bps(a, b, T2_SLOW_BPS, T2_FAST_BPS) / 1e6);
}

void t2_describe_relays(const t2_case *c, t2_system system, const char (*names)[SCENARIO_MAX_NAME], uint32_t relays,
                        char *text, size_t room) {
    writer w = {.text = text, .room = room};
    put_head(&w, c, system);
    put(&w, "peers:\n");
    uint64_t places = put_data_peers(&w, c);
    for (uint32_t i = 0; i < relays; i++) places |= (uint64_t)1 << put_peer(&w, c, names[i], false);
    put_links(&w, places);
}

void t2_describe(const t2_case *c, t2_system system, char text[T2_TEXT]) {
    char names[T2_RELAYS][SCENARIO_MAX_NAME];
    for (uint32_t i = 0; i < T2_RELAYS; i++) snprintf(names[i], sizeof names[i], "r%02u", i + 1);
    t2_describe_relays(c, system, names, T2_RELAYS, text, T2_TEXT);
    writer w = {.text = text, .length = strlen(text), .room = T2_TEXT};
    if (c->churn > 0) put(&w, "churn: {crash: %g, rejoin: %g}\n", c->churn / 100.0, c->churn / 100.0);
}

// ---- a run

// Removes the peers that died before CLOSE, with all that they had added: an oracle would give them
// no work. False: some stage is then empty.
static bool without_the_dead(const scenario *s, const sim_swarm_iteration *i, uint16_t stage[T2_PEERS]) {
    uint32_t members[T2_STAGES] = {0};
    for (uint32_t who = 0; who < s->peers; who++) {
        stage[who] = i->died_ns[who] < i->close_ns ? SIM_SWARM_ABSENT : i->stage[who];
        if (stage[who] < T2_STAGES) members[stage[who]]++;
    }
    for (uint32_t at = 0; at < T2_STAGES; at++)
        if (members[at] == 0) return false;
    return true;
}

// Moments of churn are drawn over the duration of the previous iteration. This scales them as if
// that one had lasted as long as its oracle.
static int64_t at_its_pace(const t2_result *r, uint32_t index, uint64_t at_ns) {
    uint32_t before = index > 0 ? index - 1 : 0;
    const sim_swarm_iteration *i = &r->report.iteration[before];
    unsigned __int128 since = at_ns - r->report.iteration[index].start_ns;
    return (int64_t)(since * t2_oracle_ns(&r->account[before]) / (i->end_ns - i->start_ns));
}

// True: a peer joins or dies during the iteration.
static bool who_is_there(const scenario *s, const t2_result *r, uint32_t index, bool sums_die, t2_presence there[T2_PEERS]) {
    const sim_swarm_iteration *i = &r->report.iteration[index];
    bool change = false;
    for (uint32_t who = 0; who < s->peers; who++) {
        bool joins = i->stage[who] == SIM_SWARM_ABSENT && i->joined[who] != SIM_SWARM_ABSENT;
        there[who] = (t2_presence){.stage = joins ? i->joined[who] : i->stage[who], .until_ns = INT64_MAX};
        if (there[who].stage == SIM_SWARM_ABSENT) continue;
        if (joins) there[who].from_ns = at_its_pace(r, index, i->joined_ns[who]);
        bool dies = i->died_ns[who] != UINT64_MAX && (!joins || i->died_ns[who] > i->joined_ns[who]);
        if (dies) there[who].until_ns = at_its_pace(r, index, i->died_ns[who]);
        there[who].sum_dies = sums_die && i->died_ns[who] < i->close_ns;
        change |= joins || dies;
    }
    return change;
}

// Lowers `ways_ns` if the search finds a better time.
static braid_err foresee(const scenario *s, const t2_result *r, uint32_t index, bool sums_die, uint64_t *ways_ns, braid_error *error) {
    t2_presence there[T2_PEERS];
    int64_t found = INT64_MAX;
    braid_err err = who_is_there(s, r, index, sums_die, there) ? t2_foresight(s, there, &found, error) : BRAID_OK;
    if (!err && (uint64_t)found < *ways_ns) *ways_ns = (uint64_t)found;
    return err;
}

// Without churn this is the first oracle; where a stage is left empty, the one with foresight.
static braid_err learn_at_once(const scenario *s, const t2_result *r, uint32_t index, t2_account *a, braid_error *error) {
    t2_presence there[T2_PEERS];
    int64_t kept_ns = (int64_t)a->oracle.ways_ns, ways_ns = kept_ns;
    braid_err err = who_is_there(s, r, index, true, there) ? t2_at_once(s, there, &kept_ns, &ways_ns, error) : BRAID_OK;
    bool found = ways_ns < INT64_MAX;
    a->at_once_ns = found ? (uint64_t)ways_ns + a->oracle.exchange_ns : a->foresight_ns;
    a->at_once_kept_ns = found ? (uint64_t)kept_ns + a->oracle.exchange_ns : a->kept_ns;
    return err;
}

static braid_err settle_account(const scenario *s, t2_result *r, uint32_t index, braid_error *error) {
    const sim_swarm_iteration *i = &r->report.iteration[index];
    t2_account *a = &r->account[index];
    uint16_t stage[T2_PEERS];
    t2_time left = a->oracle;
    bool without = without_the_dead(s, i, stage), all = memcmp(stage, i->stage, sizeof stage) == 0;
    braid_err err = without && !all ? t2_oracle(s, stage, &left, error) : BRAID_OK;
    uint64_t foreseen_ns = without ? left.ways_ns : INT64_MAX;
    if (!err) err = foresee(s, r, index, true, &foreseen_ns, error);
    uint64_t kept_ns = foreseen_ns;
    if (!err) err = foresee(s, r, index, false, &kept_ns, error);
    a->foresight_ns = (foreseen_ns < INT64_MAX ? foreseen_ns : kept_ns) + a->oracle.exchange_ns;
    a->kept_ns = kept_ns + a->oracle.exchange_ns;
    if (!err) err = learn_at_once(s, r, index, a, error);
    a->fewer_ns = (int64_t)(left.ways_ns + left.exchange_ns) - (int64_t)t2_oracle_ns(a);
    a->ways_ns = (int64_t)(i->close_ns - i->start_ns) - (int64_t)left.ways_ns;
    a->exchange_ns = (int64_t)(i->end_ns - i->close_ns) - (int64_t)left.exchange_ns;
    return err;
}

static braid_err find_oracle(const scenario *s, bool best_stages, t2_result *out, braid_error *error) {
    const sim_swarm_report *report = &out->report;
    t2_account placed = {0};
    braid_err err = BRAID_OK;
    t2_time oracle = {0};
    out->account = calloc(report->iterations + 1u, sizeof *out->account);
    if (out->account == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for %u iterations", report->iterations);
    for (uint32_t i = 0; i < report->iterations && !err; i++) {
        const uint16_t *stage = report->iteration[i].stage;
        bool same = i > 0 && memcmp(stage, report->iteration[i - 1].stage, s->peers * sizeof *stage) == 0;
        if (!same) err = t2_oracle(s, stage, &oracle, error);
        if (!same && !err && best_stages) err = t2_best_stages(s, stage, &placed.placed_ns, &placed.best_ns, error);
        out->account[i].placed_ns = placed.placed_ns;
        out->account[i].best_ns = placed.best_ns;
        out->account[i].oracle = oracle;
        if (!err) err = settle_account(s, out, i, error);
    }
    return err;
}

uint64_t t2_oracle_ns(const t2_account *a) { return a->oracle.ways_ns + a->oracle.exchange_ns; }

uint64_t t2_lost_ns(const sim_swarm_iteration *i) { return i->lost_counted_ns + i->lost_held_ns; }

static uint64_t needed_ns(const scenario *s) {
    uint64_t each = scenario_cost_ns(s, 0, 0, WORK_LOSS);
    for (uint16_t stage = 0; stage < T2_STAGES; stage++) {
        uint32_t who = stage == 0 ? 0 : T2_DATA;
        each += scenario_cost_ns(s, who, stage, WORK_FORWARD) + scenario_cost_ns(s, who, stage, WORK_BACKWARD) +
                scenario_cost_ns(s, who, stage, WORK_WEIGHT);
    }
    return each * T2_DATA * T2_MICROBATCHES;
}

braid_err t2_run(const t2_case *c, t2_system system, const sim_swarm_options *options, t2_result *out, braid_error *error) {
    char text[T2_TEXT];
    scenario *s;
    *out = (t2_result){0};
    t2_describe(c, system, text);
    braid_err err = scenario_parse(text, strlen(text), c->model == T2_GPT ? "t3" : "t2", NULL, &s, error);
    if (err) return err;
    err = sim_swarm_run(s, options, &out->report, error);
    out->needed_ns = needed_ns(s);
    if (!err) err = find_oracle(s, c->best_stages, out, error);
    if (err) t2_result_close(out);
    scenario_free(s);
    return err;
}

void t2_result_close(t2_result *r) {
    sim_swarm_report_free(&r->report);
    free(r->account);
    *r = (t2_result){0};
}
