// The same run without any protocol: one process computes every microbatch in order. A swarm must
// equal it bit for bit.
#ifndef BRAID_SIM_REFERENCE_H
#define BRAID_SIM_REFERENCE_H

#include "sim/model.h"

typedef struct sim_iteration {
    message_set counted, voided;
    uint64_t tokens;
    double loss, norm2;
    bool skip;
    float clip, learning_rate, bias1, bias2;
} sim_iteration;

typedef struct sim_reference {
    uint64_t iterations;
    uint32_t microbatches;
    uint16_t stages;
    sim_iteration *iteration;  // [iterations]
    braid_hash *result_root;   // [iterations][stages], only of iterations that were not skipped
    braid_hash *state_root;    // [iterations + 1][stages]
    uint64_t *forward;         // [iterations][microbatches][stages]: hash of y
    uint64_t *backward;        // the same of dx, for stages + 1 of them; the last is the head's
} sim_reference;

// Iterations `start` .. iterations - 1, from a fresh state called version `start`. `closes`,
// [iterations], gives the contribution sets; NULL: all microbatches.
sim_reference *sim_reference_of(const sim_model *model, uint64_t start, uint64_t iterations, uint32_t microbatches, const log_close *closes);
sim_reference *sim_reference_new(const sim_model *model, uint64_t start, uint64_t iterations, uint32_t microbatches);
void sim_reference_free(sim_reference *r);

const braid_hash *sim_reference_result(const sim_reference *r, uint64_t iteration, uint16_t index);
const braid_hash *sim_reference_state(const sim_reference *r, uint64_t version, uint16_t index);
uint64_t sim_reference_forward(const sim_reference *r, uint64_t iteration, uint32_t m, uint16_t index);
// index == stages: the gradient of the head.
uint64_t sim_reference_backward(const sim_reference *r, uint64_t iteration, uint32_t m, uint16_t index);

#endif
