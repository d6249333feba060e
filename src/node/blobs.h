// Reference-counted byte buffers (activations, packed sums, state chunks), named by numbers and
// shared by the loop and the compute thread.
//
// Every holder has its own reference: the protocol core (from the event that delivered the blob
// until EFFECT_RELEASE), each pending send, the running job. The last release moves the buffer to a
// recycle list of bounded size. A steady run therefore allocates nothing, and an idle one keeps
// little.
#ifndef BRAID_NODE_BLOBS_H
#define BRAID_NODE_BLOBS_H

#include "base/err.h"
#include "braid/job.h"

#include <stdint.h>

enum {
    BLOBS_MAX = 1 << 20,      // live blobs
    BLOBS_MAX_RECYCLED = 64,  // buffers kept for reuse
    BLOBS_ALIGNMENT = 64
};

typedef struct blobs blobs;

// `max_bytes` limits the live bytes (0: no limit), `recycle_bytes` those kept for reuse.
braid_err blobs_new(uint64_t max_bytes, uint64_t recycle_bytes, blobs **out, braid_error *error);
void blobs_free(blobs *b);

// A buffer of `bytes` with one reference and undefined contents. NULL: over the limit, or out of
// memory.
void *blobs_add(blobs *b, uint64_t bytes, blob_id *id);
// The bytes are overwritten at the last release, and the buffer is not kept for reuse.
void blobs_hide(blobs *b, blob_id id);
void blobs_hold(blobs *b, blob_id id);
void blobs_release(blobs *b, blob_id id);
// Valid while the caller holds a reference. `bytes` may be NULL.
void *blobs_data(blobs *b, blob_id id, uint64_t *bytes);

// Returns the recycled buffers to the system; called when the node is idle.
void blobs_trim(blobs *b);

typedef struct blobs_count {
    uint32_t live, recycled;
    uint64_t live_bytes, recycled_bytes;
    uint64_t allocations;  // total requests to the system allocator
} blobs_count;
void blobs_look(blobs *b, blobs_count *out);

#endif
