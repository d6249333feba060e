// What keeps the state of a stage whose members all die: shadows that apply every result, copies of its state, or an erasure code of that, on peers
// of other stages (docs/results/shadow.md). Peers and lines are those of T2; the iterations of the run, its checkpoints and what holders pull go on by
// a clock, until the stage dies.
#ifndef BRAID_BENCH_TRAINING_KEEP_H
#define BRAID_BENCH_TRAINING_KEEP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum keep_way { KEEP_SHADOW, KEEP_COPY, KEEP_CODE, KEEP_WAYS } keep_way;

enum {
    KEEP_PARTS = 4,         // of a code: any so many of its holders have the state
    KEEP_MOST_SPARE = 4,
    KEEP_STATE_BYTES = 12,  // a parameter: weight and two moments
    KEEP_RESULT_BYTES = 4,  // a parameter and iteration
};

typedef struct keep_case {
    uint64_t parameters;        // of the stage
    double iteration_s;
    uint32_t checkpoint_every;  // iterations
    uint32_t spare;             // so many of the holders die with the stage, drawn by chance
    bool whole_share;           // copies and codes are refreshed as often as a quarter of each holder's line lets them; else all holders together
                                // take as much as shadows do that follow
    uint64_t seed;              // of places, fates and the moment
} keep_case;

typedef struct keep_result {
    double bytes;     // an iteration, to all holders
    double longer_s;  // an iteration, since FINAL waits for the first shadow
    uint32_t back;    // versions that all stages go back
    double lost_s;    // until the swarm is again where it was: what the stage lacks is fetched, and all that is gone is computed again
} keep_result;

const char *keep_way_name(keep_way way);
void keep_run(const keep_case *c, keep_way way, keep_result *out);

#endif
