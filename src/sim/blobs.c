#include "sim/blobs.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { ID_SLOT_BITS = 24 };

sim_buffer *sim_buffer_new(uint64_t bytes) {
    size_t size = (sizeof(sim_buffer) + bytes + 63) / 64 * 64;
    sim_buffer *buffer = aligned_alloc(64, size);
    BRAID_ALLOCATED(buffer, size);
    memset(buffer, 0, size);
    buffer->holders = 1;
    buffer->bytes = bytes;
    return buffer;
}

sim_buffer *sim_buffer_part(const sim_buffer *buffer, uint64_t offset, uint64_t bytes, uint64_t of) {
    BRAID_ASSERT(of > 0 && offset <= of && bytes <= of - offset);
    uint64_t first = buffer->bytes * offset / of, end = buffer->bytes * (offset + bytes) / of;
    sim_buffer *part = sim_buffer_new(end - first);
    memcpy(part->data, buffer->data + first, end - first);
    return part;
}

sim_buffer *sim_buffer_hold(sim_buffer *buffer) {
    if (buffer) buffer->holders++;
    return buffer;
}

void sim_buffer_drop(sim_buffer *buffer) {
    if (buffer && --buffer->holders == 0) free(buffer);
}

void sim_blobs_close(sim_blobs *t) {
    for (uint32_t i = 0; i < t->capacity; i++) sim_buffer_drop(t->blob[i].buffer);
    free(t->blob);
    *t = (sim_blobs){0};
}

static uint32_t slot_free(sim_blobs *t) {
    for (uint32_t i = 0; i < t->capacity; i++)
        if (!t->blob[i].buffer) return i;
    uint32_t first = t->capacity;
    t->capacity = first ? 2 * first : 32;
    t->blob = realloc(t->blob, t->capacity * sizeof *t->blob);
    BRAID_ALLOCATED(t->blob, t->capacity * sizeof *t->blob);
    memset(t->blob + first, 0, (t->capacity - first) * sizeof *t->blob);
    return first;
}

blob_id sim_blobs_add(sim_blobs *t, sim_buffer *buffer) {
    uint32_t i = slot_free(t);
    sim_blob *blob = &t->blob[i];
    *blob = (sim_blob){.buffer = buffer, .generation = blob->generation + 1, .peers = true};
    t->held++;
    return (blob_id)blob->generation << ID_SLOT_BITS | (i + 1);
}

// The entry of exactly this generation, so that an old id never names a newer blob.
static sim_blob *blob_find(const sim_blobs *t, blob_id id) {
    uint64_t slot = id & (((uint64_t)1 << ID_SLOT_BITS) - 1);
    if (slot == 0 || slot > t->capacity) return NULL;
    sim_blob *blob = &t->blob[slot - 1];
    return blob->buffer && blob->generation == id >> ID_SLOT_BITS ? blob : NULL;
}

sim_buffer *sim_blobs_get(const sim_blobs *t, blob_id id) {
    const sim_blob *blob = blob_find(t, id);
    return blob && blob->peers ? blob->buffer : NULL;
}

sim_buffer *sim_blobs_borrowed(const sim_blobs *t, blob_id id) {
    const sim_blob *blob = blob_find(t, id);
    return blob && blob->borrowed ? blob->buffer : NULL;
}

static void blob_settle(sim_blob *blob) {
    if (blob->peers || blob->borrowed) return;
    sim_buffer_drop(blob->buffer);
    blob->buffer = NULL;
}

bool sim_blobs_release(sim_blobs *t, blob_id id) {
    sim_blob *blob = blob_find(t, id);
    if (!blob || !blob->peers) return false;
    blob->peers = false;
    t->held--;
    blob_settle(blob);
    return true;
}

bool sim_blobs_borrow(sim_blobs *t, blob_id id) {
    sim_blob *blob = blob_find(t, id);
    if (!blob || !blob->peers) return false;
    blob->borrowed++;
    return true;
}

void sim_blobs_return(sim_blobs *t, blob_id id) {
    sim_blob *blob = blob_find(t, id);
    BRAID_ASSERT(blob && blob->borrowed);
    blob->borrowed--;
    blob_settle(blob);
}
