// The owner of a microbatch, and whether the iteration plans it.
#include "protocol/microbatch/microbatch.h"

#include <string.h>

bool microbatch_is_mine(const peer *p, uint32_t m) {
    if (p->config.kind != MEMBER_DATA || p->me == 0 || !p->state.started || m >= p->microbatches) return false;
    return p->state.owner[m % p->run.slots] == p->me;
}

bool microbatch_is_eval(const peer *p, uint32_t m) { return m >= p->run.microbatches; }

// Held-out microbatches are run in the first iteration of every eval_every, and in the last.
bool microbatch_planned(const peer *p, uint32_t m) {
    if (!microbatch_is_eval(p, m)) return true;
    return p->run.eval_every != 0 && (p->state.iteration % p->run.eval_every == 0 || p->state.iteration + 1 == p->run.iterations);
}

bool private_elastic(const peer *p) { return p->run.shares > 0 && p->run.elastic; }

bool private_orphan(const peer *p, uint32_t m) { return private_elastic(p) && !member_live(p, p->state.owner[m % p->run.slots]); }

bool private_closed_out(const peer *p, uint32_t m) { return private_elastic(p) && p->state.has_close && m < p->run.microbatches && !bitset_has(p->state.close.counted.words, m); }

uint16_t microbatch_slot(const peer *p, uint32_t m) { return (uint16_t)(m % p->run.slots); }

bool failover_pending(const peer *p, uint32_t m) { return p->microbatch->failover.open && p->microbatch->failover.slot[microbatch_slot(p, m)]; }
