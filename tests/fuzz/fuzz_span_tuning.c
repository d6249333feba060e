// Bytes of a message about a lent adapter: refused, or the only encoding of their content.
#include "fuzz.h"

#include "base/rng.h"
#include "span/tuning_message.h"

static uint32_t upto(rng *r, uint32_t most) { return 1 + (uint32_t)rng_below(r, most); }

static void fill_adapt(rng *r, tuning_adapt *a) {
    a->layer_begin = (uint16_t)rng_below(r, TUNING_MAX_LAYERS);
    a->layer_end = (uint16_t)(a->layer_begin + 1);
    a->rank = upto(r, 64);
    a->alpha = (float)rng_unit(r);
    a->rank_stabilised = rng_below(r, 2) == 1;
    a->roles = rng_next(r);
    a->sequences = upto(r, 16);
    a->tokens = upto(r, 512);
    a->parameters = upto(r, TUNING_MAX_PARAMETERS);
    for (size_t i = 0; i < sizeof a->kernels.bytes; i++) a->kernels.bytes[i] = (uint8_t)rng_next(r);
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(44, number)};
    tuning_message msg = {.kind = (tuning_kind)(1 + number % (TUNING_KINDS - 1)),
                          .name = {rng_next(&r), (uint32_t)rng_next(&r)}};
    switch (msg.kind) {
    case TUNING_ADAPT: fill_adapt(&r, &msg.adapt); break;
    case TUNING_FORWARD: msg.forward.keep = rng_below(&r, 2) == 1; break;
    case TUNING_OUTPUT: msg.output.rows = upto(&r, TUNING_MAX_ROWS); break;
    case TUNING_BACKWARD: msg.backward.rows = upto(&r, TUNING_MAX_ROWS); break;
    case TUNING_GRADIENT: msg.gradient = (tuning_gradient){upto(&r, TUNING_MAX_ROWS), upto(&r, 100)}; break;
    case TUNING_FORGET: msg.forget.done = true; break;
    default: msg.refuse = (tuning_refuse){TUNING_OTHER, "no room"};
    }
    return tuning_encode(&msg, bytes, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tuning_message msg;
    static uint8_t again[TUNING_MAX_MESSAGE_BYTES];
    if (!tuning_decode(data, size, &msg)) return 0;
    FUZZ_CHECK(tuning_is_message(data, size));
    FUZZ_CHECK(tuning_encode(&msg, again, sizeof again) == size);
    FUZZ_CHECK(memcmp(again, data, size) == 0);
    return 0;
}
