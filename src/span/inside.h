// Shared by the files of this folder that make up a peer:
//
//     peer.c     creation, the loop, the end
//     step.c     events to the protocol, its effects
//     links.c    the net's callbacks
//     jobs.c     works of the compute threads
//     join.c     the swarm's description, the choice of layers, loading them
//     fetch.c    layers from other peers
//     stored.c   a layer's bytes in memory or in a file
//     status.c   JSON
#ifndef BRAID_SPAN_INSIDE_H
#define BRAID_SPAN_INSIDE_H

#include "net/net.h"
#include "node/blobs.h"
#include "span/fetch.h"
#include "span/kept.h"
#include "span/peer.h"
#include "span/records.h"
#include "span/worker.h"

enum {
    SPAN_TICK_MS = 250,
    SPAN_RETRY_FIRST_MS = 250,  // between attempts to reach the swarm; doubles
    SPAN_RETRY_MOST_MS = 5000,
    SPAN_LOOK_MS = 1500,    // after the first link, until a joiner chooses its layers
    SPAN_DRAIN_MS = 10000,  // the most for handing sessions over
    SPAN_LEAVING_MS = 10,
    SPAN_RECYCLE_BYTES = 16 << 20,
    SPAN_MAX_DUE = 64,  // dials that failed at once
};

typedef enum span_phase {
    SPAN_ENQUIRING,  // for the swarm's description
    SPAN_RUNNING,
    SPAN_LEAVING,  // the last messages are being sent
    SPAN_STOPPED,
} span_phase;

// The engine of this peer's layers, made by a thread of libuv's pool.
typedef struct span_layers {
    uv_work_t request;
    bool chosen, loading, loaded;
    span_fetch *fetch;  // of a peer without the model's file; NULL: it has one
    uint32_t begin, end;
    engine *engine;
    adapter_set *adapters;  // NULL: none
    adapter_version *version[SESSION_MAX_ADAPTERS];
    worker_adapter adapter[SESSION_MAX_ADAPTERS];
    uint64_t other_bytes;  // for computing, and of adapters
    worker *worker;
    struct lender *lender;  // NULL: there was no adapter of another peer yet
    braid_hash kernels;
    uint32_t layer_ns;  // of one row in one layer
    braid_err err;
    braid_error error;
} span_layers;

typedef struct span_parcel span_parcel;

// A RUN, IMPORT, FREE or export of the protocol.
typedef struct span_job {
    work work;
    span_peer *peer;
    uint32_t slot;
    uint64_t ticket;
    span_parcel *parcel;  // of an export: waits for its payload
} span_job;

// A message to one peer, or to this one. Those to one peer are sent in order; one waits for the
// bytes of an export.
struct span_parcel {
    span_parcel *next;
    braid_id to;
    blob_id payload;  // 0: none
    bool ready, overtakes;
    size_t count;
    uint8_t bytes[];
};

// A session of this origin: its rows before the first layer, all of which a replay needs.
typedef struct span_own {
    bool exists;
    uint64_t number;
    uint32_t given;  // tokens that the protocol knows of
    kept rows;
} span_own;

struct span_peer {
    span_config config;
    span_callbacks callbacks;
    span_phase phase;
    span_model model;
    braid_hash hash;  // of the model
    char *description;
    size_t description_bytes;
    char address[WIRE_MAX_ADDRESS];

    uv_loop_t loop;
    uv_timer_t deadline, tick, retry;
    uv_async_t woken;
    uv_poll_t signals;
    uv_pipe_t input;
    char input_byte[64];
    net *net;
    blobs *blobs;

    session_peer *core;
    void *memory;  // of the core, then of its router
    bool stepping;
    session_message msg;
    struct {
        braid_id id[SPAN_MAX_DUE];
        uint32_t count;
    } failed;  // dials
    struct {
        span_parcel *first, **last;
    } here, away;  // messages to itself; to others, behind one that is not ready

    span_layers layers;
    kept *kept;     // [SPAN_SLOTS]
    span_own *own;  // [SPAN_OWN]
    tensor_pool *pool;
    braid_hash kernels;  // of an origin: the class of its sessions

    struct {
        bool draining, stopping, linked;
        uint64_t since_ns, lacks_ns;  // of the drain; without a layer, 0: not
        uint64_t retry_ms, begun_ns, linked_ns;
        char lost[NET_MAX_REASON];
        span_records *records;
    } state;
    struct {
        uint64_t outputs, repairs, repair_ns, longest_repair_ns;
        char event[SPAN_MAX_NOTE];  // the newest
    } told;
    bool stop_asked;  // by another thread, under the loop's async
    braid_error error;
};

// A second protocol on the links of a peer: messages that begin with another byte (tuning.h).
struct span_guest {
    bool (*is_its)(const uint8_t *bytes, size_t count);
    // As in net_callbacks.
    void *(*alloc)(span_peer *p, const braid_id *from, const uint8_t *bytes, size_t count, uint64_t payload_bytes,
                   uint64_t *token);
    // A sentence when the sender is at fault, and its link is to be closed. Releases the payload.
    const char *(*receive)(span_peer *p, const braid_id *from, const uint8_t *bytes, size_t count, void *payload,
                           uint64_t payload_bytes, uint64_t token);
    void (*link_down)(span_peer *p, const braid_id *id);
    void (*close)(span_peer *p);  // before the net is freed; the loop runs once more
    void (*free)(span_peer *p);
};

// --- peer.c
void span_note(span_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The first error ends the run.
void span_fail(span_peer *p, const braid_error *error);
void span_leave(span_peer *p);
// Sets the run of the links and begins the protocol, once the model is known.
braid_err span_begin(span_peer *p, braid_error *error);
size_t span_row_bytes(const span_peer *p);
// Whether the peer was started with certain layers.
bool span_holds(const span_peer *p);

// --- step.c
braid_err span_core_new(span_peer *p, braid_error *error);
void span_feed(span_peer *p, const session_event *e);

// --- links.c
void span_net_callbacks(span_peer *p, net_callbacks *out);
braid_err span_listen(span_peer *p, braid_error *error);
// The bytes of a message's payload; 0 for one without.
uint64_t span_payload_bytes(const span_peer *p, const session_message *msg);
void span_send(span_peer *p, span_parcel *parcel);
void span_parcel_ready(span_peer *p, span_parcel *parcel);
span_parcel *span_parcel_new(const session_effect *e);
// Sends a message of a host with a payload, which it gives away; 0: none.
void span_send_message(span_peer *p, const braid_id *to, const session_message *msg, blob_id payload);

// --- jobs.c
void span_run(span_peer *p, const session_effect *e);
void span_import(span_peer *p, const session_effect *e);
void span_pages(span_peer *p, const session_effect *e);
void span_slot_free(span_peer *p, uint32_t slot);
// Fills the parcel's payload with the effect's source. False: no memory, and the parcel is not sent.
bool span_fill(span_peer *p, const session_effect *e, span_parcel *parcel);
void span_output(span_peer *p, const session_effect *e);
void span_work_done(void *context, work *w);
void span_work_drop(void *context, work *w);

// --- join.c
void span_enquire(span_peer *p);
void span_described(span_peer *p, const net_run *run);
// Chooses and loads layers when it is time.
void span_join_tick(span_peer *p);
// SHA-256 of what the first and the last layer make of fixed rows.
braid_err span_kernels(const model_file *file, const span_model *m, tensor_pool *pool, braid_hash *out,
                       braid_error *error);
// How many layers fit, with room for at least SPAN_LEAST_TOKENS; the room of `layers` of them.
uint32_t span_layers_fit(const model_file *file, const span_model *m, uint64_t memory);
void span_layers_free(span_layers *l);
uint64_t span_cache_room(const model_file *file, const span_model *m, uint64_t memory, uint32_t begin, uint32_t end);

#endif
