// Blobs of simulated hosts: one table per peer over shared, reference-counted bytes. A peer can
// name only the blobs that it holds.
#ifndef BRAID_SIM_BLOBS_H
#define BRAID_SIM_BLOBS_H

#include "braid/job.h"

#include <stdbool.h>
#include <stdint.h>

// Bytes in flight or in tables, constant once filled.
typedef struct sim_buffer {
    uint32_t holders;
    uint64_t bytes;
    _Alignas(64) uint8_t data[];
} sim_buffer;

sim_buffer *sim_buffer_new(uint64_t bytes);
// A copy of the bytes from `offset` to `offset + bytes`, with offsets scaled as if the buffer were
// `of` bytes long.
sim_buffer *sim_buffer_part(const sim_buffer *buffer, uint64_t offset, uint64_t bytes, uint64_t of);
sim_buffer *sim_buffer_hold(sim_buffer *buffer);
void sim_buffer_drop(sim_buffer *buffer);

typedef struct sim_blob {
    sim_buffer *buffer;
    uint32_t generation;
    bool peers;  // the peer has not released it
    uint32_t borrowed;
} sim_blob;

typedef struct sim_blobs {
    sim_blob *blob;
    uint32_t capacity;
    uint64_t held;  // blobs that the peer has not released
} sim_blobs;

void sim_blobs_close(sim_blobs *t);
// Takes over the caller's reference; the blob belongs to the peer.
blob_id sim_blobs_add(sim_blobs *t, sim_buffer *buffer);
// NULL when the peer does not hold the blob: never received, or released.
sim_buffer *sim_blobs_get(const sim_blobs *t, blob_id id);
// The same for a blob that the host has borrowed.
sim_buffer *sim_blobs_borrowed(const sim_blobs *t, blob_id id);
// False: the peer does not hold the blob.
bool sim_blobs_release(sim_blobs *t, blob_id id);
bool sim_blobs_borrow(sim_blobs *t, blob_id id);
void sim_blobs_return(sim_blobs *t, blob_id id);

#endif
