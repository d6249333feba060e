#include "node/blobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// A blob number is (generation << 32) | (slot + 1), so a stale number never names a later blob.
typedef struct blob {
    void *data;
    uint64_t bytes, room;
    uint32_t generation, references;
    uint32_t next_free;  // slot + 1
    bool hidden;         // overwritten at its end
} blob;

typedef struct buffer {
    void *data;
    uint64_t room;
} buffer;

struct blobs {
    pthread_mutex_t lock;
    blob *slot;
    uint32_t slots, used, first_free;  // first_free: slot + 1
    uint64_t max_bytes, recycle_bytes;
    buffer recycled[BLOBS_MAX_RECYCLED];  // oldest first
    blobs_count count;
};

braid_err blobs_new(uint64_t max_bytes, uint64_t recycle_bytes, blobs **out, braid_error *error) {
    blobs *b = calloc(1, sizeof *b);
    if (!b) return braid_fail(error, BRAID_MEMORY, "no memory for the table of blobs");
    pthread_mutex_init(&b->lock, NULL);
    b->max_bytes = max_bytes;
    b->recycle_bytes = recycle_bytes;
    *out = b;
    return BRAID_OK;
}

static void recycled_remove(blobs *b, uint32_t i) {
    b->count.recycled_bytes -= b->recycled[i].room;
    b->count.recycled--;
    memmove(&b->recycled[i], &b->recycled[i + 1], (b->count.recycled - i) * sizeof b->recycled[0]);
}

static void recycled_drop_oldest(blobs *b) {
    free(b->recycled[0].data);
    recycled_remove(b, 0);
}

void blobs_free(blobs *b) {
    if (!b) return;
    while (b->count.recycled) recycled_drop_oldest(b);
    for (uint32_t i = 0; i < b->used; i++)
        if (b->slot[i].references) free(b->slot[i].data);
    free(b->slot);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

// The smallest recycled buffer that fits and wastes less than half of itself.
static void *recycled_take(blobs *b, uint64_t bytes, uint64_t *room) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < b->count.recycled; i++) {
        uint64_t r = b->recycled[i].room;
        if (r < bytes || r / 2 > bytes) continue;
        if (best == UINT32_MAX || r < b->recycled[best].room) best = i;
    }
    if (best == UINT32_MAX) return NULL;
    void *data = b->recycled[best].data;
    *room = b->recycled[best].room;
    recycled_remove(b, best);
    return data;
}

static void recycled_put(blobs *b, void *data, uint64_t room) {
    if (room > b->recycle_bytes) {
        free(data);
        return;
    }
    while (b->count.recycled == BLOBS_MAX_RECYCLED || b->count.recycled_bytes + room > b->recycle_bytes)
        recycled_drop_oldest(b);
    b->recycled[b->count.recycled++] = (buffer){data, room};
    b->count.recycled_bytes += room;
}

static bool slot_take(blobs *b, uint32_t *slot) {
    if (b->first_free) {
        *slot = b->first_free - 1;
        b->first_free = b->slot[*slot].next_free;
        return true;
    }
    if (b->used == b->slots) {
        uint32_t slots = b->slots ? b->slots * 2 : 64;
        if (slots > BLOBS_MAX) return false;
        blob *larger = realloc(b->slot, slots * sizeof *larger);
        if (!larger) return false;
        b->slot = larger;
        b->slots = slots;
    }
    *slot = b->used++;
    b->slot[*slot].generation = 0;
    return true;
}

static void *blobs_add_locked(blobs *b, uint64_t bytes, blob_id *id) {
    if (b->max_bytes && (bytes > b->max_bytes || b->count.live_bytes > b->max_bytes - bytes)) return NULL;
    uint64_t room = (bytes + BLOBS_ALIGNMENT) / BLOBS_ALIGNMENT * BLOBS_ALIGNMENT;
    void *data = recycled_take(b, room, &room);
    if (!data) {
        data = aligned_alloc(BLOBS_ALIGNMENT, room);
        b->count.allocations++;
    }
    uint32_t slot;
    if (!data || !slot_take(b, &slot)) {
        free(data);
        return NULL;
    }
    blob *it = &b->slot[slot];
    *it = (blob){.data = data, .bytes = bytes, .room = room, .generation = it->generation + 1, .references = 1};
    b->count.live++;
    b->count.live_bytes += bytes;
    *id = (uint64_t)it->generation << 32 | (slot + 1);
    return data;
}

void *blobs_add(blobs *b, uint64_t bytes, blob_id *id) {
    pthread_mutex_lock(&b->lock);
    void *data = blobs_add_locked(b, bytes, id);
    pthread_mutex_unlock(&b->lock);
    return data;
}

// Blob numbers never come from a peer, so an unknown number is a bug of this program.
static blob *blobs_find(blobs *b, blob_id id) {
    uint32_t slot = (uint32_t)id;
    BRAID_ASSERT(slot > 0 && slot <= b->used);
    blob *it = &b->slot[slot - 1];
    BRAID_ASSERT(it->references > 0 && it->generation == (uint32_t)(id >> 32));
    return it;
}

void blobs_hide(blobs *b, blob_id id) {
    pthread_mutex_lock(&b->lock);
    blobs_find(b, id)->hidden = true;
    pthread_mutex_unlock(&b->lock);
}

static void give_back(blobs *b, const blob *it) {
    if (it->hidden) {
        explicit_bzero(it->data, it->room);
        free(it->data);
        return;
    }
    recycled_put(b, it->data, it->room);
}

void blobs_hold(blobs *b, blob_id id) {
    pthread_mutex_lock(&b->lock);
    blobs_find(b, id)->references++;
    pthread_mutex_unlock(&b->lock);
}

void blobs_release(blobs *b, blob_id id) {
    pthread_mutex_lock(&b->lock);
    blob *it = blobs_find(b, id);
    if (--it->references == 0) {
        b->count.live--;
        b->count.live_bytes -= it->bytes;
        give_back(b, it);
        it->data = NULL;
        it->next_free = b->first_free;
        b->first_free = (uint32_t)id;
    }
    pthread_mutex_unlock(&b->lock);
}

void *blobs_data(blobs *b, blob_id id, uint64_t *bytes) {
    pthread_mutex_lock(&b->lock);
    const blob *it = blobs_find(b, id);
    void *data = it->data;
    if (bytes) *bytes = it->bytes;
    pthread_mutex_unlock(&b->lock);
    return data;
}

void blobs_trim(blobs *b) {
    pthread_mutex_lock(&b->lock);
    while (b->count.recycled) recycled_drop_oldest(b);
    pthread_mutex_unlock(&b->lock);
}

void blobs_look(blobs *b, blobs_count *out) {
    pthread_mutex_lock(&b->lock);
    *out = b->count;
    pthread_mutex_unlock(&b->lock);
}
