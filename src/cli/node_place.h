// Whether a relay takes part in one stage or in all of them, by what it has measured.
#ifndef BRAID_CLI_NODE_PLACE_H
#define BRAID_CLI_NODE_PLACE_H

#include <stdint.h>

enum {
    PLACE_TEXT = 256,
    PLACE_ITERATIONS = 3,  // measured before the decision
};

typedef struct place_facts {
    uint32_t stages, stage;  // of the run; of this relay
    uint64_t compute_ns;     // of one microbatch, forward and backward; 0: not measured yet
    uint64_t transfer_ns;    // of its tensors to and from the next stage; 0: not measured yet
    uint64_t needed_bytes;   // by members of all stages but 0
    uint64_t allowed_bytes;  // 0: not known
    uint64_t max_memory;     // the user's limit, 0: none
} place_facts;

typedef enum place_verdict { PLACE_WAIT, PLACE_STAGE, PLACE_WHOLE } place_verdict;

// With links that take longer than computing, a member of one stage waits for its link. A machine in
// all stages does the work of all of them for the same transfers. `text` gets the reason, "" while
// measurements are missing.
place_verdict place_choose(const place_facts *facts, char text[PLACE_TEXT]);

#endif
