// How long a leader waits for peers without which nothing goes on: what it says of that and how often, and when it ends.
#ifndef BRAID_NODE_WAITING_H
#define BRAID_NODE_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#define WAITING_FIRST_NS UINT64_C(10000000000)   // until it is said; then after twice as long each time,
#define WAITING_MOST_NS UINT64_C(3600000000000)  // up to this
#define WAITING_DRAIN_NS UINT64_C(10000000000)   // the run is to end, and cannot come to an end without them

typedef enum waiting_verdict {
    WAITING_ON,    // nothing is missing, or nothing is to be said now
    WAITING_SAY,
    WAITING_END,   // longer than the limit
    WAITING_STOP,  // the user wants the end, and an iteration cannot be finished
} waiting_verdict;

typedef struct waiting {
    uint64_t since_ns, next_ns, pause_ns;  // all 0: nothing is missing
    uint64_t drain_ns;                     // since when both is so: something is missing, and the user wants the end
} waiting;

// Pure: time is passed in. `limit_ns` 0: for ever.
waiting_verdict waiting_step(waiting *w, uint64_t now_ns, bool missing, bool draining, uint64_t limit_ns);

#endif
