// Examples as sequences of a fixed length: whole examples, one after the other, with document
// boundaries. The order is a function of the seed alone.
#ifndef BRAID_TUNE_PACKING_H
#define BRAID_TUNE_PACKING_H

#include "tune/examples.h"

typedef struct packing {
    const tune_examples *examples;  // borrowed
    const uint32_t *chosen;         // [count] which of them
    uint32_t count;
    uint32_t tokens;  // of a sequence; every example has at most one more
    bool alone;       // one example in a sequence, for models with learned positions
    uint64_t seed;
} packing;

// The next example: position `next` of pass `epoch`.
typedef struct packing_place {
    uint64_t epoch;
    uint32_t next;
} packing_place;

// Sequences as a stage reads them (model/stage.h), each array of [tokens].
typedef struct packing_row {
    int32_t *tokens, *targets;
    uint32_t *documents;
} packing_row;

// Writes the sequence at `at` and moves `at` behind it. Returns the number of targets.
uint32_t packing_next(const packing *p, packing_place *at, const packing_row *out);
// Moves `at` without writing.
void packing_skip(const packing *p, packing_place *at);
// The number of sequences with which a pass begins and ends, packed from its start.
uint32_t packing_sequences(const packing *p);
// The same until the end of the pass: the last sequence has no example of the next pass. 0: `at` is
// at its end.
uint32_t packing_next_of_pass(const packing *p, packing_place *at, const packing_row *out);

#endif
