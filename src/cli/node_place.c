#include "cli/node_place.h"

#include "format/quantity.h"

#include <stdio.h>

// Shorter transfers hide behind computing, and more processes cost more than they save.
static const uint64_t PLACE_LEAST_NS = 50000000;

static place_verdict times_decide(const place_facts *f, char text[PLACE_TEXT]) {
    char compute[QUANTITY_TEXT], transfer[QUANTITY_TEXT];
    quantity_duration_text((double)f->compute_ns * 1e-9, compute);
    quantity_duration_text((double)f->transfer_ns * 1e-9, transfer);
    snprintf(text, PLACE_TEXT, "a microbatch takes %s to compute here, and its tensors take %s to the next stage",
             compute, transfer);
    return f->transfer_ns > f->compute_ns && f->transfer_ns >= PLACE_LEAST_NS ? PLACE_WHOLE : PLACE_STAGE;
}

place_verdict place_choose(const place_facts *f, char text[PLACE_TEXT]) {
    char need[QUANTITY_TEXT], have[QUANTITY_TEXT];
    text[0] = '\0';
    if (f->stages <= 2) {
        snprintf(text, PLACE_TEXT, "the run has one stage for relays");
        return PLACE_STAGE;
    }
    if (f->compute_ns == 0 || f->transfer_ns == 0) return PLACE_WAIT;
    if (times_decide(f, text) == PLACE_STAGE) return PLACE_STAGE;
    if (f->max_memory > 0) {
        snprintf(text, PLACE_TEXT,
                 "links are slower than computing, but --max-memory is taken by this stage; --whole divides it among "
                 "all stages");
        return PLACE_STAGE;
    }
    if (f->allowed_bytes == 0 || f->needed_bytes <= f->allowed_bytes) return PLACE_WHOLE;
    snprintf(text, PLACE_TEXT,
             "links are slower than computing, but all stages need %s of memory, and this process may use %s",
             quantity_size_text(f->needed_bytes, need), quantity_size_text(f->allowed_bytes, have));
    return PLACE_STAGE;
}
