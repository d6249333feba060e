// Nesa's Table 2 (arXiv 2407.19401, section 5.1): six peers, three with an Nvidia L4 (the paper prints
// "L24") and three with a GTX 1650, 32 blocks, batches of 1, 32 and 64.
//
// Inputs, not measurements of ours. Makers' data sheets: L4 24 GB, 300 GB/s, 121 TFLOP/s (fp16); GTX
// 1650 4 GB, 128 GB/s, 6 TFLOP/s (fp16). 60 % of bandwidth and peak are reached, 90 % of the memory is
// usable, and a layer costs 50 us beside its products. Weights have 8 bits, activations and caches 16.
#include "bench/serving/serving.h"

#include <math.h>

static const double attention = 41943040, expert = 176160768;  // parameters of a layer
static const double token_cache = 4096;                        // bytes of a token in a layer: 8 heads of 128, twice
static const double row = 8192;                                // bytes between two spans
static const double reached = 0.6, usable = 0.9, overhead_us = 50;

const char *serving_model_name(serving_model model) {
    return model == SERVING_LLAMA_3_8B ? "Llama-3-8B" : "Mixtral-8x7B";
}

static double weights(serving_model model) { return attention + (model == SERVING_LLAMA_3_8B ? 1 : 8) * expert; }

// Time of one layer for the whole batch: memory traffic or products, whichever takes longer.
static double layer_us(const serving_n2 *c, double bytes_s, double flop_s) {
    double experts = c->model == SERVING_LLAMA_3_8B ? 1 : 8 * (1 - pow(0.75, c->batch));  // touched by 2 of 8 a row
    double active = attention + (c->model == SERVING_LLAMA_3_8B ? 1 : 2) * expert;
    double traffic = attention + experts * expert + (double)c->batch * c->context * token_cache;
    double read_us = traffic / (reached * bytes_s) * 1e6, product_us = 2 * active * c->batch / (reached * flop_s) * 1e6;
    return overhead_us + (read_us > product_us ? read_us : product_us);
}

void serving_n2_make(const serving_n2 *c, placement_problem *p) {
    enum { PEERS = 6, LENT_LAYERS = 10 };
    *p = (placement_problem){.peers = PEERS + 1,
                             .layers = 32,
                             .sessions = 1,
                             .layer_bytes = weights(c->model),
                             .cache_bytes = (double)c->batch * c->context * token_cache};
    for (uint32_t i = 0; i <= PEERS; i++) {
        bool fast = i % 2 == 0;
        double memory = usable * (fast ? 24e9 : 4e9), lent = LENT_LAYERS * (p->layer_bytes + p->cache_bytes);
        if (i == PEERS) memory = 0;
        p->peer[i] = (placement_peer){.layer_us = layer_us(c, fast ? 300e9 : 128e9, fast ? 121e12 : 6e12),
                                      .memory_bytes = c->small_shares && lent < memory ? lent : memory,
                                      .uptime = fast ? 0.99 : 0.9};
        double latency_us = c->slow_link ? 5000 : 2500, bits_us = c->slow_link ? 100 : 1000;
        for (uint32_t j = 0; j <= PEERS; j++) p->hop_us[i][j] = i == j ? 0 : latency_us + row * c->batch * 8 / bits_us;
    }
    p->origin[0] = PEERS;
}
