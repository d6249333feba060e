// Redundancy for the state of a stage if all its members die: standbys that apply every result,
// copies of its state, or an erasure code of it, on peers of other stages (docs/results/shadow.md).
// Peers and lines are those of T2. Iterations, checkpoints and transfers follow a clock until the
// stage dies.
#ifndef BRAID_BENCH_TRAINING_KEEP_H
#define BRAID_BENCH_TRAINING_KEEP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum keep_way { KEEP_SHADOW, KEEP_COPY, KEEP_CODE, KEEP_WAYS } keep_way;

enum {
    KEEP_PARTS = 4,         // holders that have the state of a code together
    KEEP_MOST_SPARE = 4,
    KEEP_STATE_BYTES = 12,  // per parameter: weight and two moments
    KEEP_RESULT_BYTES = 4,  // per parameter and iteration
};

typedef struct keep_case {
    uint64_t parameters;        // size of the stage
    double iteration_s;
    uint32_t checkpoint_every;  // iterations
    uint32_t spare;             // number of holders that die with the stage, drawn at random
    // true: copies and codes are refreshed as often as a quarter of each holder's line allows;
    // false: all holders together use the bandwidth of standbys
    bool whole_share;
    uint64_t seed;              // seed of places, deaths and the moment
} keep_case;

typedef struct keep_result {
    double bytes;     // bytes an iteration, to all holders
    double longer_s;  // seconds an iteration, because FINAL waits for the first standby
    uint32_t back;    // number of versions that all stages roll back
    double lost_s;    // time to recover: missing state is fetched, and lost work is computed again
} keep_result;

const char *keep_way_name(keep_way way);
void keep_run(const keep_case *c, keep_way way, keep_result *out);

#endif
