// Nesa's Table 2 (arXiv 2407.19401, section 5.1): six peers, three with an Nvidia L4 (the paper prints
// "L24") and three with a GTX 1650, 32 blocks, batches of 1, 32 and 64.
//
// Inputs, not measurements of ours. Makers' data sheets: L4 24 GB, 300 GB/s, 121 TFLOP/s (fp16); GTX
// 1650 4 GB, 128 GB/s, 6 TFLOP/s (fp16). 60 % of bandwidth and peak are reached, 90 % of the memory is
// usable, and a layer costs 50 us beside its products. Weights have 8 bits, activations and caches 16.
//
// SmolLM2-135M has 30 layers, weights of 5 bits (Q4_1), activations and caches of 32. Its peers are one
// processor core at 100 GFLOP/s and 20 GB/s, and one of a quarter of that: the plans of this case are
// run by real processes (tools/serve-n2).
#include "bench/serving/serving.h"

#include <math.h>

typedef struct model_costs {
    const char *name;
    uint32_t layers, experts, used;            // of a layer; used: by one row
    double attention, expert;                  // bytes of weights
    double parameter_bytes, token_cache, row;  // bytes of a parameter, of a token's cache in a layer, between two spans
    double bytes_s[2], flop_s[2], memory[2];   // of a fast and a slow peer
    double reached, overhead_us;
} model_costs;

#define CARDS                                                                                               \
    .bytes_s = {300e9, 128e9}, .flop_s = {121e12, 6e12}, .memory = {0.9 * 24e9, 0.9 * 4e9}, .reached = 0.6, \
    .overhead_us = 50

static const model_costs costs[SERVING_MODELS] = {
    [SERVING_LLAMA_3_8B] = {"Llama-3-8B", 32, 1, 1, 41943040, 176160768, 1, 4096, 8192, CARDS},
    [SERVING_MIXTRAL_8X7B] = {"Mixtral-8x7B", 32, 8, 2, 41943040, 176160768, 1, 4096, 8192, CARDS},
    [SERVING_SMOLLM2_135M] = {"SmolLM2-135M", 30, 1, 1, 884736 * 0.625, 2654208 * 0.625, 0.625, 1536, 2304,
                              .bytes_s = {20e9, 5e9}, .flop_s = {100e9, 25e9}, .memory = {1e9, 1e9}, .reached = 0.6,
                              .overhead_us = 20},
};

const char *serving_model_name(serving_model model) { return costs[model].name; }

static double weights(const model_costs *m) { return m->attention + m->experts * m->expert; }

// Time of one layer for the whole batch: memory traffic or products, whichever takes longer.
static double layer_us(const serving_n2 *c, bool slow) {
    const model_costs *m = &costs[c->model];
    // experts that a batch touches
    double experts = m->experts * (1 - pow(1 - (double)m->used / m->experts, c->batch));
    double active = (m->attention + m->used * m->expert) / m->parameter_bytes;
    double traffic = m->attention + experts * m->expert + (double)c->batch * c->context * m->token_cache;
    double read_us = traffic / (m->reached * m->bytes_s[slow]) * 1e6;
    double product_us = 2 * active * c->batch / (m->reached * m->flop_s[slow]) * 1e6;
    return m->overhead_us + (read_us > product_us ? read_us : product_us);
}

// Memory that a peer lends: all, or that of 10 layers. The model that real processes run needs caches that are larger
// than its weights: a layer includes those of the batch, and the baselines use four fifths of the memory.
static void make_memory(const serving_n2 *c, placement_problem *p) {
    enum { LENT_LAYERS = 10 };
    const model_costs *m = &costs[c->model];
    double cache = (double)c->batch * c->context * m->token_cache, lent = LENT_LAYERS * (weights(m) + cache);
    bool whole = c->model == SERVING_SMOLLM2_135M;
    p->layer_bytes = weights(m) + (whole ? cache : 0);
    p->cache_bytes = whole ? 0 : cache;
    if (whole) lent /= 0.8;
    for (uint32_t i = 0; i + 1 < p->peers; i++) {
        double memory = m->memory[i % 2];
        p->peer[i].memory_bytes = c->small_shares && lent < memory ? lent : memory;
    }
}

void serving_n2_make(const serving_n2 *c, placement_problem *p) {
    enum { PEERS = 6 };
    const model_costs *m = &costs[c->model];
    *p = (placement_problem){.peers = PEERS + 1, .layers = m->layers, .sessions = 1};
    for (uint32_t i = 0; i <= PEERS; i++) {
        bool slow = i % 2 == 1;
        p->peer[i] = (placement_peer){.layer_us = layer_us(c, slow), .uptime = slow ? 0.9 : 0.99};
        double latency_us = c->slow_link ? 5000 : 2500, bits_us = c->slow_link ? 100 : 1000;
        for (uint32_t j = 0; j <= PEERS; j++)
            p->hop_us[i][j] = i == j ? 0 : latency_us + m->row * c->batch * 8 / bits_us;
    }
    p->origin[0] = PEERS;
    make_memory(c, p);
}
