// Duration of repairs (docs/results/repair.md): one death in a cluster in memory, and the work that
// it destroys. Also the delay of the failure detector, against false alarms.
#ifndef BRAID_BENCH_TRAINING_REPAIR_H
#define BRAID_BENCH_TRAINING_REPAIR_H

#include "sim/cluster.h"

typedef enum repair_victim { REPAIR_OF_RELAY, REPAIR_OF_DATA, REPAIR_OF_LEADER, REPAIR_VICTIMS } repair_victim;

// Number of moments of a death that are tried with each seed.
uint32_t repair_moments(repair_victim victim);

typedef struct repair_case {
    repair_victim victim;
    uint32_t moment;  // < repair_moments
    // the machine dies and the others see only silence; else its connections are reset
    bool silent;
    uint32_t capacity;  // microbatches that a relay holds at once
    uint64_t seed;
} repair_case;

// One run of exact pseudo-tensors with that death. The losses are in report->stats.
void repair_run(const repair_case *c, sim_report *report);
// Of the slowest link: a message in one direction, and a tensor back.
uint64_t repair_round_trip_ns(const repair_case *c);

// ---- detection

typedef enum detection_line { DETECTION_STEADY, DETECTION_HEAVY, DETECTION_PAUSES, DETECTION_LINES } detection_line;

typedef struct detection_rule {
    double phi;           // suspected from this phi on; 0: `silence_ns` decides
    uint64_t silence_ns;  // 0: the leader's rule for removals
} detection_rule;

typedef struct detection_result {
    double mean_s, p99_s;    // from a death until its suspicion
    double false_an_hour;    // false suspicions of one living peer by one other
} detection_result;

const char *detection_line_name(detection_line line);
// One link with a heartbeat every half second for `hours`.
void detection_run(detection_line line, const detection_rule *rule, uint64_t seed, double hours, detection_result *out);

#endif
