// Log-probabilities that a model gives to tokens of texts, for many texts in one pass. Like all results of an engine they
// do not depend on the texts that are read together.
#ifndef BRAID_EVAL_LIKELIHOOD_H
#define BRAID_EVAL_LIKELIHOOD_H

#include "infer/engine.h"

typedef struct likelihood likelihood;

// The last `scored` tokens that are read predict targets[scored]; `sum` receives the sum of the natural logarithms of their
// probabilities, in their order. scored <= read.count; 0: the tokens are only read.
typedef struct likelihood_part {
    engine_part read;
    uint32_t scored;
    const uint32_t *targets;
    double sum;
} likelihood_part;

// The engine has all layers and the ends, and is borrowed. Free with likelihood_free.
braid_err likelihood_new(engine *e, likelihood **out, braid_error *error);
void likelihood_free(likelihood *l);
// Errors are those of engine_read; a target outside the vocabulary is BRAID_ARGUMENT.
braid_err likelihood_read(likelihood *l, likelihood_part *parts, uint32_t count, braid_error *error);

#endif
