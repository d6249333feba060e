// The compute thread of a serving peer: an engine of some layers, the caches of its sessions, and
// batches of rows of several sessions. Any number of works may wait; each is answered once, on the
// loop's thread. Works of one session are done in the order of their posting.
#ifndef BRAID_SPAN_WORKER_H
#define BRAID_SPAN_WORKER_H

#include "infer/adapters.h"
#include "infer/engine.h"
#include "session/message.h"

#include <uv.h>

enum {
    WORKER_BATCH_ROWS = ENGINE_CHUNK_ROWS,  // rows of one batch, more only for a single work
    WORKER_SHORT_ROWS = 8,                  // a work of at most this many rows goes before longer ones
};

typedef struct worker worker;

typedef enum work_kind {
    WORK_LAYERS,  // x through layers [begin, end), in place; the session's cache becomes longer
    WORK_FORGET,  // frees the session's cache
    WORK_EXPORT,  // the cache's positions [first, first + rows) in layers [begin, end), to `bytes`
    WORK_IMPORT,  // the same from `bytes`, appended to the cache
    WORK_ADOPT,   // begins the session's cache with pages of the prefix cache; rows: the tokens found
    WORK_NAME,    // pages of the session's cache from `first` on become pages of the prefix cache
} work_kind;

// One step of one session. The caller owns it and its arrays, and leaves them alone until `done`.
typedef struct work {
    struct work *next;  // of the worker
    work_kind kind;
    uint64_t session;           // the name of its cache
    uint32_t first, rows;       // positions; for WORK_LAYERS the cache forgets those from `first` on before
    uint32_t begin, end;        // layers of this session on this peer
    float *x;                   // [rows, dim]
    uint64_t adapter;           // of a session that begins; 0: none
    session_key *keys;          // [key_count] of WORK_ADOPT and WORK_NAME
    uint32_t key_count, limit;  // only pages that end at most at token `limit`
    void *bytes;                // [rows * (end - begin) * sequence_layer_bytes]
    // The answer. BRAID_STATE: the cache lacks positions before `first`. BRAID_LIMIT: no room for
    // this cache, or the context is full. After an error the cache is as before or shorter.
    braid_err err;
    braid_error error;
    uint64_t waited_ns, cost_ns;  // in the queue, and of its batch
    uint32_t batch;               // works of its batch
    uint64_t posted_ns;           // of the worker
} work;

typedef struct worker_adapter {
    uint64_t id;
    const engine_adapter *weights;
} worker_adapter;

typedef struct worker_settings {
    engine *engine;                  // borrowed; only the worker uses it from now on
    const worker_adapter *adapters;  // borrowed
    uint32_t adapter_count;
    void (*done)(void *context, work *w);
    void *context;
} worker_settings;

braid_err span_worker_new(uv_loop_t *loop, const worker_settings *settings, worker **out, braid_error *error);
void span_worker_post(worker *w, work *one);
// Bytes of all caches after the last batch.
uint64_t span_worker_cache_bytes(worker *w);
uint32_t span_worker_waiting(const worker *w);  // works that are not answered yet
// Ends the thread after the batch under way. `drop` is called for each work without an answer. The
// loop must run once more for the handle to close.
void span_worker_close(worker *w, void (*drop)(void *context, work *w));

#endif
