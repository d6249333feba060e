#include "bench/training/t6.h"

#include "base/rng.h"
#include "bench/baselines/trade.h"
#include "sim/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// GWTF, section VI: the LLaMA-like model with d_model 1024 and 16 layers, microbatches of 4 x 512
// tokens, bandwidths of 50 to 500 Mb/s between places, divided by 32 for activations. Assumed: fp32
// on the wire, 32,000 words, and the share of five RTX A4000 for one of 18 peers.
enum { WIDTH = 1024, TOKENS = 4 * 512, SEQUENCE = 512, WORDS = 32000, RELAY_BLOCKS = 3, DATA_BLOCKS = 1 };
static const int64_t activation_bits = (int64_t)TOKENS * WIDTH * 32;
static const int64_t slow_bps = 50000000, fast_bps = 500000000, activation_divisor = 32;
static const int64_t operations_per_second = 2000000000000;

// Forward, one microbatch; a backward pass costs twice that.
static int64_t block_operations(void) {
    int64_t products = (int64_t)2 * 12 * WIDTH * WIDTH * TOKENS, attention = (int64_t)4 * SEQUENCE * WIDTH * TOKENS;
    return products + attention;
}

static int64_t head_operations(void) { return (int64_t)2 * WORDS * WIDTH * TOKENS; }

static int64_t compute_ns(int64_t operations) { return operations * 1000 / (operations_per_second / 1000000); }

static void set_peer(t6_world *w, uint32_t i) {
    bool data = i < T6_DATA;
    int64_t forward = compute_ns((data ? DATA_BLOCKS : RELAY_BLOCKS) * block_operations());
    w->peer[i] = (pipeline_peer){.forward_ns = forward,
                                 .backward_ns = 2 * forward,
                                 .home_ns = data ? compute_ns(3 * head_operations()) : 0,
                                 .capacity = data ? 0 : w->settings.capacity};
    if (data)
        snprintf(w->name[i], ROUTING_NAME, "d%u", i + 1);
    else
        snprintf(w->name[i], ROUTING_NAME, "r%02u", i - T6_DATA + 1);
    rng r = {w->seed};
    for (const char *c = w->name[i]; *c != 0; c++) r.state = rng_seed(r.state, (uint8_t)*c);
    w->place[i] = (uint32_t)rng_below(&r, place_count());
}

static int64_t transfer_ns(int64_t bits, int64_t bps) { return (bits * 1000000000 + bps / 2) / bps; }

// GWTF's equation 1; the two directions of a link are equal here. Weights are exchanged as DT-FM
// counts it: in each of two rounds a peer sends a share of its stage to each other one.
static void set_link(t6_world *w, uint32_t i, uint32_t j) {
    uint32_t at = i * T6_PEERS + j;
    int64_t latency = place_latency_ns(w->place[i], w->place[j]);
    int64_t bps = place_scaled_bps(w->place[i], w->place[j], slow_bps, fast_bps);
    int64_t weight_bits = (int64_t)RELAY_BLOCKS * 12 * WIDTH * WIDTH * 32;
    w->latency_ns[at] = latency;
    w->transfer_ns[at] = transfer_ns(activation_bits, bps / activation_divisor);
    int64_t compute = 0;
    for (uint32_t end = 0; end < 2; end++) {
        const pipeline_peer *p = &w->peer[end == 0 ? i : j];
        compute += (p->forward_ns + p->backward_ns) / 2;
    }
    int64_t unit = 1000000000 / ROUTING_SCALE;
    w->cost[at] = (compute / 2 + latency + w->transfer_ns[at] + unit / 2) / unit;
    w->exchange[at] = 2 * (latency + transfer_ns(weight_bits / T6_WIDTH, bps)) / unit;
}

void t6_world_make(uint64_t seed, const t6_settings *settings, t6_world *out) {
    memset(out, 0, sizeof *out);
    out->seed = rng_seed(seed, 6);
    out->settings = *settings;
    for (uint32_t i = 0; i < T6_PEERS; i++) set_peer(out, i);
    for (uint32_t i = 0; i < T6_PEERS; i++)
        for (uint32_t j = 0; j < T6_PEERS; j++)
            if (i != j) set_link(out, i, j);
}

// --- arrangements

void t6_arrange_joined(uint32_t *stage) {
    for (uint32_t i = 0; i < T6_PEERS; i++) stage[i] = i < T6_DATA ? 0 : 1 + (i - T6_DATA) % (T6_STAGES - 1);
}

static plan_dtfm_problem problem_of(const t6_world *w) {
    return (plan_dtfm_problem){.groups = T6_STAGES,
                               .width = T6_WIDTH,
                               .link = w->cost,
                               .exchange = w->settings.weights ? w->exchange : NULL,
                               .home = true};
}

braid_err t6_arrange_dtfm(const t6_world *world, uint32_t *stage, plan_dtfm_answer *answer, braid_error *error) {
    plan_dtfm_problem p = problem_of(world);
    plan_dtfm_settings settings = {.seed = world->seed};
    void *memory = malloc(plan_dtfm_bytes(&p, &settings));
    if (memory == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for DT-FM's search");
    braid_err err = plan_dtfm(&p, &settings, memory, stage, answer, error);
    free(memory);
    return err;
}

uint32_t t6_arrange_traded(const t6_world *world, uint32_t *stage) {
    plan_dtfm_problem p = problem_of(world);
    t6_arrange_joined(stage);
    // minimum gain of a trade: a tenth of a second for each microbatch
    return plan_trade(&p, ROUTING_SCALE / 10, stage);
}

// Data peers first, then by stage; inside a stage the world's order, which is the order of the
// names.
static void sort_peers(const uint32_t *stage, uint32_t *of) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < T6_STAGES; s++)
        for (uint32_t i = 0; i < T6_PEERS; i++)
            if (stage[i] == s) of[n++] = i;
}

braid_err t6_instance(const t6_world *world, const uint32_t *stage, routing_instance *out, uint32_t *of,
                      braid_error *error) {
    *out = (routing_instance){.sources = T6_DATA, .seed = world->seed};
    plan_peer *peer = calloc(T6_PEERS, sizeof *peer);
    plan_link *link = calloc(T6_PEERS * T6_WIDTH, sizeof *link);
    out->name = calloc(T6_PEERS, sizeof *out->name);
    out->problem = (plan_problem){.peer = peer, .link = link, .peers = T6_PEERS, .stages = T6_STAGES - 1};
    if (peer == NULL || link == NULL || out->name == NULL) {
        routing_instance_close(out);
        return braid_fail(error, BRAID_MEMORY, "no memory for an instance of T6");
    }
    sort_peers(stage, of);
    for (uint32_t i = 0; i < T6_PEERS; i++) {
        uint32_t own = stage[of[i]];
        peer[i] = (plan_peer){own, own == 0 ? world->settings.microbatches : world->settings.capacity};
        memcpy(out->name[i], world->name[of[i]], ROUTING_NAME);
        for (uint32_t j = 0; j < T6_PEERS; j++)
            if (stage[of[j]] == (own + 1) % T6_STAGES)
                link[out->problem.links++] = (plan_link){i, j, world->cost[of[i] * T6_PEERS + of[j]]};
    }
    return BRAID_OK;
}

braid_err t6_dtfm_flow(const t6_world *world, const uint32_t *stage, const routing_instance *instance,
                       const uint32_t *of, int64_t *flow, braid_error *error) {
    plan_dtfm_problem p = problem_of(world);
    uint32_t path[T6_PEERS];
    void *memory = malloc(plan_dtfm_paths_bytes(&p));
    if (memory == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for DT-FM's pipelines");
    plan_dtfm_paths(&p, stage, memory, path);
    free(memory);
    uint32_t links = instance->problem.links;
    memset(flow, 0, (size_t)T6_DATA * links * sizeof *flow);
    for (uint32_t k = 0; k < T6_DATA; k++)
        for (uint32_t s = 0; s < T6_STAGES; s++)
            for (uint32_t l = 0; l < links; l++) {
                const plan_link *link = &instance->problem.link[l];
                bool used = of[link->from] == path[k * T6_STAGES + s] &&
                            of[link->to] == path[k * T6_STAGES + (s + 1) % T6_STAGES];
                if (used) flow[path[k * T6_STAGES] * links + l] += world->settings.microbatches;
            }
    return BRAID_OK;
}

// --- time

// Decomposes the flow into paths of the world's peers; a unit that does not return to its data peer
// is left out.
static braid_err take_paths(const routing_instance *instance, const uint32_t *of, const int64_t *flow, uint32_t *path,
                            uint32_t *count, braid_error *error) {
    size_t cells = (size_t)T6_DATA * instance->problem.links;
    int64_t *left = malloc(cells * sizeof *left);
    if (left == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for a flow of %zu links", cells);
    memcpy(left, flow, cells * sizeof *left);
    uint32_t one[T6_LENGTH], length;
    for (uint32_t k = 0; k < T6_DATA; k++)
        while ((length = plan_take_path(&instance->problem, k, left + (size_t)k * instance->problem.links, one)) > 0) {
            if (length < T6_LENGTH || one[T6_LENGTH - 1] != k) continue;
            for (uint32_t i = 0; i < T6_LENGTH; i++) path[*count * T6_LENGTH + i] = of[one[i]];
            ++*count;
        }
    free(left);
    return BRAID_OK;
}

static int64_t exchange_ns(const t6_world *w, const uint32_t *stage) {
    if (!w->settings.weights) return 0;
    plan_dtfm_problem p = problem_of(w);
    return plan_dtfm_cost(&p, stage).data_parallel * (1000000000 / ROUTING_SCALE);
}

braid_err t6_time_of(const t6_world *world, const uint32_t *stage, const routing_instance *instance, const uint32_t *of,
                     const int64_t *flow, t6_time *out, braid_error *error) {
    *out = (t6_time){.weights_ns = exchange_ns(world, stage)};
    uint32_t *path = calloc((size_t)T6_DATA * T6_MAX_MICROBATCHES * T6_LENGTH, sizeof *path);
    if (path == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for T6's paths");
    braid_err err = take_paths(instance, of, flow, path, &out->microbatches, error);
    pipeline p = {.peers = T6_PEERS,
                  .microbatches = out->microbatches,
                  .length = T6_LENGTH,
                  .link = world->settings.link,
                  .peer = world->peer,
                  .latency_ns = world->latency_ns,
                  .transfer_ns = world->transfer_ns,
                  .path = path};
    if (!err) err = pipeline_run(&p, &out->pipeline_ns, NULL, NULL, error);
    out->iteration_ns = out->pipeline_ns + out->weights_ns;
    free(path);
    return err;
}
