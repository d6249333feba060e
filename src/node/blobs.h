// Bytes held under a number: activations, packed sums, state chunks. Shared by the loop and the compute thread.
//
// Every holder has a reference of its own: the protocol core (from the event that brought the blob until
// EFFECT_RELEASE), each send under way, the running job. The last one out gives the buffer to a recycle list that
// is bounded in bytes, so that a steady run allocates nothing and an idle one keeps little.
#ifndef BRAID_NODE_BLOBS_H
#define BRAID_NODE_BLOBS_H

#include "base/err.h"
#include "protocol/job.h"

#include <stdint.h>

enum {
    BLOBS_MAX = 1 << 20,      // blobs alive at once
    BLOBS_MAX_RECYCLED = 64,  // buffers kept for the next
    BLOBS_ALIGNMENT = 64
};

typedef struct blobs blobs;

// `max_bytes` bounds what is alive (0: no bound), `recycle_bytes` what is kept for later.
braid_err blobs_new(uint64_t max_bytes, uint64_t recycle_bytes, blobs **out, braid_error *error);
void blobs_free(blobs *b);

// A buffer of `bytes` with one reference, contents undefined; NULL when the bound or the memory does not allow it.
void *blobs_add(blobs *b, uint64_t bytes, blob_id *id);
void blobs_hold(blobs *b, blob_id id);
void blobs_release(blobs *b, blob_id id);
// Valid while the caller holds a reference. `bytes` may be NULL.
void *blobs_data(blobs *b, blob_id id, uint64_t *bytes);

// Gives the recycled buffers back to the system: for idle times.
void blobs_trim(blobs *b);

typedef struct blobs_count {
    uint32_t live, recycled;
    uint64_t live_bytes, recycled_bytes;
    uint64_t allocations;  // buffers ever asked from the system
} blobs_count;
void blobs_look(blobs *b, blobs_count *out);

#endif
