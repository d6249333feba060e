#include "tune/packing.h"

#include "train/permutation.h"

#include <string.h>

static uint32_t example_at(const packing *p, const packing_place *at) {
    permutation order = permutation_of(p->count, rng_seed(p->seed, at->epoch));
    return p->chosen[permutation_at(&order, at->next)];
}

// Inputs of an example: its last token is only a target.
static uint32_t inputs_of(const packing *p, uint32_t example) {
    return (uint32_t)(p->examples->ends[example] - examples_begin(p->examples, example)) - 1;
}

static uint32_t put(const packing *p, uint32_t example, uint32_t at, const packing_row *out) {
    const tune_examples *e = p->examples;
    uint64_t first = examples_begin(e, example);
    uint32_t count = inputs_of(p, example), learned = 0;
    for (uint32_t i = 0; i < count && out; i++) {
        bool counts = e->learned[first + i + 1];
        out->tokens[at + i] = (int32_t)e->ids.at[first + i];
        out->targets[at + i] = counts ? (int32_t)e->ids.at[first + i + 1] : -1;
        out->documents[at + i] = at;
        learned += counts;
    }
    return learned;
}

// The rest of a sequence is a document of its own without targets.
static void pad(const packing *p, uint32_t from, const packing_row *out) {
    for (uint32_t i = from; i < p->tokens && out; i++) {
        out->tokens[i] = 0;
        out->targets[i] = -1;
        out->documents[i] = from;
    }
}

static uint32_t fill(const packing *p, packing_place *at, const packing_row *out, bool one_pass) {
    uint32_t used = 0, learned = 0;
    uint64_t pass = at->epoch;
    while (!(one_pass && at->epoch != pass)) {
        uint32_t example = example_at(p, at), inputs = inputs_of(p, example);
        if (inputs > p->tokens - used || (p->alone && used > 0)) break;
        learned += put(p, example, used, out);
        used += inputs;
        if (++at->next == p->count) *at = (packing_place){at->epoch + 1, 0};
    }
    pad(p, used, out);
    return learned;
}

uint32_t packing_next(const packing *p, packing_place *at, const packing_row *out) { return fill(p, at, out, false); }

void packing_skip(const packing *p, packing_place *at) { fill(p, at, NULL, false); }

uint32_t packing_next_of_pass(const packing *p, packing_place *at, const packing_row *out) {
    if (at->epoch > 0) {
        pad(p, 0, out);
        return 0;
    }
    return fill(p, at, out, true);
}

uint32_t packing_sequences(const packing *p) {
    packing_place at = {0};
    uint32_t count = 0;
    for (; at.epoch == 0; count++) fill(p, &at, NULL, true);
    return count;
}
