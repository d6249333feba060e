// How soon silence is noticed, against alarms about peers that live: heartbeats over one line, held against one rule.
#include "base/rng.h"
#include "protocol/core/timing.h"
#include "bench/training/repair.h"

#include <math.h>
#include <stdlib.h>

enum { LOOK_EVERY = 64, MOST_LOOKS = 65536 };  // a death is tried after every 64th heartbeat

const char *detection_line_name(detection_line line) {
    static const char *const names[DETECTION_LINES] = {"steady", "heavy-tailed", "pauses"};
    return line < DETECTION_LINES ? names[line] : "?";
}

static double uniform(rng *r) { return (double)(rng_next(r) >> 11) / 9007199254740992.0; }
static double exponential(rng *r, double mean) { return -mean * log(1 - uniform(r)); }

// Steady: 20 to 40 ms. Heavy-tailed: and exponential 50 ms more, one in a hundred twenty times that. Pauses: steady, and the sender
// stands still once a minute, for a second on average.
static double delay_s(detection_line line, rng *r) {
    double delay = 0.02 + 0.02 * uniform(r);
    if (line == DETECTION_HEAVY) delay += exponential(r, 0.05) * (rng_below(r, 100) == 0 ? 20 : 1);
    return delay;
}

static bool suspects(const detection_rule *rule, const timing_link *link, uint64_t now_ns) {
    if (rule->phi > 0) return timing_suspect_at(link, now_ns, rule->phi);
    uint64_t silence = rule->silence_ns ? rule->silence_ns : timing_expel_limit(link);
    return now_ns >= link->heard_ns + silence && (rule->silence_ns || timing_phi(link, now_ns) >= TIMING_EXPEL_PHI);
}

// How long after it was heard last a peer is suspected.
static uint64_t limit_ns(const detection_rule *rule, const timing_link *link) {
    uint64_t low = 0, high = 600 * TIMING_S;
    while (high - low > TIMING_MS) {
        uint64_t middle = low + (high - low) / 2;
        if (suspects(rule, link, link->heard_ns + middle)) high = middle;
        else low = middle;
    }
    return high;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void detection_run(detection_line line, const detection_rule *rule, uint64_t seed, double hours, detection_result *out) {
    rng r = {rng_seed(seed, (uint64_t)line)};
    timing_link link = {0};
    double *latency = calloc(MOST_LOOKS, sizeof *latency);
    BRAID_ALLOCATED(latency, MOST_LOOKS * sizeof *latency);
    uint32_t looks = 0;
    uint64_t alarms = 0, beats = 0;
    double sent_s = 1, heard_s = 0, pause_s = exponential(&r, 60), end_s = 1 + hours * 3600, sum = 0;
    for (; sent_s < end_s; sent_s += (double)TIMING_HEARTBEAT_NS / 1e9, beats++) {
        if (line == DETECTION_PAUSES && sent_s > pause_s) {
            sent_s += exponential(&r, 1);
            pause_s = sent_s + exponential(&r, 60);
        }
        double arrives_s = sent_s + delay_s(line, &r);
        if (arrives_s > heard_s) heard_s = arrives_s;  // in order
        uint64_t now = (uint64_t)(heard_s * 1e9);
        alarms += beats > 0 && suspects(rule, &link, now);
        timing_heard_at(&link, now, rule->phi > 0 ? rule->phi : TIMING_SUSPECT_PHI);
        if (beats % LOOK_EVERY != LOOK_EVERY - 1 || looks == MOST_LOOKS) continue;
        // it dies at any moment before the next one
        double died_s = sent_s + uniform(&r) * (double)TIMING_HEARTBEAT_NS / 1e9, noticed_s = heard_s + (double)limit_ns(rule, &link) / 1e9;
        latency[looks] = noticed_s - died_s;
        sum += latency[looks++];
    }
    qsort(latency, looks, sizeof *latency, ascending);
    *out = (detection_result){.mean_s = looks ? sum / looks : 0, .p99_s = looks ? latency[(size_t)looks * 99 / 100] : 0, .false_an_hour = (double)alarms / hours};
    free(latency);
}
