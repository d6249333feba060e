// How long a leader waits for peers that the run cannot proceed without, how often it reports that,
// and when it gives up.
#ifndef BRAID_NODE_WAITING_H
#define BRAID_NODE_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#define WAITING_FIRST_NS UINT64_C(10000000000)   // until the first report; each next interval is twice as long,
#define WAITING_MOST_NS UINT64_C(3600000000000)  // up to this
#define WAITING_DRAIN_NS UINT64_C(10000000000)   // limit if the run is to end, and cannot end without them

typedef enum waiting_verdict {
    WAITING_ON,    // nothing is missing, or no report is due
    WAITING_SAY,
    WAITING_END,   // the limit is exceeded
    WAITING_STOP,  // the user requested the end, and the iteration cannot be finished
} waiting_verdict;

typedef struct waiting {
    uint64_t since_ns, next_ns, pause_ns;  // all 0: nothing is missing
    uint64_t drain_ns;                     // since when a peer is missing and the end is requested
} waiting;

// Pure: time is passed in. `limit_ns` 0: forever.
waiting_verdict waiting_step(waiting *w, uint64_t now_ns, bool missing, bool draining, uint64_t limit_ns);

#endif
