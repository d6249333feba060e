// The caches of a peer's sessions by name, under the engine's limit of memory. For the compute thread.
#ifndef BRAID_SPAN_CACHES_H
#define BRAID_SPAN_CACHES_H

#include "serve/prefix.h"
#include "span/worker.h"

enum { CACHES_BUCKETS = 256 };

typedef struct cached cached;

typedef struct caches {
    engine *engine;
    prefix_cache *prefixes;  // NULL without memory for it
    const worker_adapter *adapters;
    uint32_t adapter_count;
    cached *bucket[CACHES_BUCKETS];
} caches;

void caches_open(caches *c, const worker_settings *settings);
void caches_close(caches *c);
sequence *caches_find(const caches *c, uint64_t session);  // NULL: none
// The cache for a work, cut to its first position, with room for its rows. A session that begins,
// or that moves to other layers of this peer, must begin at 0 (BRAID_STATE). BRAID_LIMIT: no room.
braid_err caches_prepare(caches *c, const work *one, sequence **out, braid_error *error);
// The keys and values of WORK_EXPORT and WORK_IMPORT. BRAID_STATE: the cache does not have those
// positions, or does not end where the imported ones begin.
braid_err caches_export(const caches *c, const work *one, braid_error *error);
braid_err caches_import(caches *c, const work *one, braid_error *error);
// WORK_ADOPT and WORK_NAME. A page of the prefix cache belongs to the layers that computed it.
braid_err caches_adopt(caches *c, work *one, braid_error *error);
void caches_name(caches *c, const work *one);
// Forgets all positions from `length` on.
void caches_cut(caches *c, uint64_t session, uint32_t length);
void caches_forget(caches *c, uint64_t session);

#endif
