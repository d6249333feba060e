// Scenarios: no text harms the reader, and an accepted one describes a swarm that can be simulated.
#include "fuzz.h"

#include "base/rng.h"
#include "sim/scenario.h"

#include <string.h>

// libfyaml 0.7.12 itself loses 2 KiB when a text ends inside a quoted scalar.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libfyaml"; }

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const model[] = {"demo", "{preset: gpt2-small, sequences: 2}",
                                        "{dim: 64, layers: 6, heads: 4, arch: gpt}"};
    static const char *const stages[] = {"3", "[0, 3, 3]", "[{name: e, next: x}, {name: x, next: z}, {name: z}]",
                                         "[{name: e, next: b}, {name: a}, {name: b, next: a}]"};
    static const char *const extra[] = {
        "",
        "machines:\n- {name: tower, cores: 8, place: Tokyo, up_mbps: 40}\n- {name: box, cores: 0.5}\n",
        "links:\n  latency_ms: 5\n  pairs: [{between: [a, London], mbps: 1}, {from: r, to: a, latency_ms: 2}]\n",
        "links: {partitions: [{from: r, start_s: 1, stop_s: 2, one_way: yes}, {from: [a, r-1]}]}\n",
        "churn: {crash: 0.1, rejoin: 1, only: r, sessions: {distribution: weibull, mean_s: 9, shape: 0.5}}\n",
        "churn: {dies: process, sessions: {mean_s: 60, away_s: 5}}\n",
    };
    static const char *const relay[] = {"gflops: 1, threads: 2", "forward_ms: 3, capacity: 2, start_s: 4",
                                        "weight_ms: 1, stage: 2, place: Seoul", "gflops: 2, weight_ms: 5"};
    rng r = {rng_seed(46, number)};
    int length = snprintf(
        (char *)bytes, capacity,
        "# a swarm\nseed: %u\nmodel: %s\nstages: %s\nmicrobatches: %u\nrouting: gwtf\n%speers:\n- {name: a, role: "
        "data, place: London, gflops: 10}\n- {name: r, count: %u, gflops: 5}\n- {name: s, %s}\n%s",
        (unsigned)rng_below(&r, 9), model[rng_below(&r, 3)], stages[rng_below(&r, 4)], 1 + (unsigned)rng_below(&r, 99),
        extra[rng_below(&r, 2)], 2 + (unsigned)rng_below(&r, 40), relay[rng_below(&r, 4)], extra[2 + rng_below(&r, 4)]);
    return length > 0 && (size_t)length < capacity ? (size_t)length : 0;
}

static void check_peer(const scenario *s, uint32_t i) {
    const scenario_peer *p = &s->peer[i];
    scenario_link link;
    FUZZ_CHECK(p->name[0] != 0 && p->capacity > 0 && p->flops > 0 && p->threads > 0 && p->machine < s->machines);
    FUZZ_CHECK(p->data == (i < s->data_peers));
    FUZZ_CHECK(p->stage < s->stages || (!p->data && p->stage == SCENARIO_ANY_STAGE));
    uint16_t stage = p->stage < s->stages ? p->stage : 1;
    for (int work = 0; work <= WORK_WEIGHT; work++) FUZZ_CHECK(scenario_cost_ns(s, i, stage, (scenario_work)work) > 0);
    if (i == 0) return;
    scenario_link_of(s, i - 1, i, &link);
    (void)scenario_cut(s, i, i - 1, 1000000000);
    FUZZ_CHECK(link.latency_ns <= (uint64_t)180000000000 && strcmp(s->peer[i - 1].name, p->name) != 0);
}

static void check(const scenario *s) {
    uint64_t blocks = 0;
    scenario *more = NULL;
    FUZZ_CHECK(s->data_peers > 0 && s->peers >= s->data_peers && s->peers <= SCENARIO_MAX_PEERS);
    FUZZ_CHECK(s->microbatches >= s->data_peers && s->microbatches <= SCENARIO_MAX_MICROBATCHES);
    FUZZ_CHECK(s->peers - s->data_peers >= s->stages - 1u && s->activation_bytes > 0);
    for (uint16_t i = 0; i < s->stages; i++) blocks += s->stage[i].blocks;
    FUZZ_CHECK(blocks == s->model.layers);
    for (uint32_t i = 0; i < s->peers; i++) check_peer(s, i);
    if (s->peers == s->data_peers) return;
    braid_err code = scenario_with_one_more(s, s->data_peers, 1, &more, NULL);
    FUZZ_CHECK(code == BRAID_LIMIT || (code == BRAID_OK && more->peers == s->peers + 1));
    scenario_free(more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    scenario *s = NULL;
    braid_error error = {0};
    braid_err code = scenario_parse((const char *)data, size, "s.yaml", NULL, &s, &error);
    FUZZ_CHECK(code == BRAID_OK ? s != NULL : s == NULL && error.text[0] != 0);
    if (code == BRAID_OK) check(s);
    scenario_free(s);
    return 0;
}
