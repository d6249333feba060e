// One process of a swarm that serves a model: a libuv loop with links to the other peers, the
// protocol of src/session, a compute thread, and the layers or the ends of the model.
//
// A peer holds a span of layers, or is the API node (origin): it has the sessions' rows before the
// first layer, and sends them through the spans of other peers.
//
// Everything runs on the loop's thread, which is the caller's of span_peer_run. Only
// span_peer_stop may be called by another thread.
#ifndef BRAID_SPAN_PEER_H
#define BRAID_SPAN_PEER_H

#include "net/identity.h"
#include "node/ticket.h"
#include "serve/adapters.h"
#include "session/session.h"
#include "span/model.h"

#include <uv.h>

enum {
    SPAN_MAX_NOTE = 512,
    SPAN_SLOTS = 256,         // sessions that pass through one peer at once
    SPAN_OWN = 256,           // sessions of an API node
    SPAN_LEAST_TOKENS = 256,  // room for keys and values without which a peer takes no layer
};

typedef struct span_peer span_peer;
typedef struct tuner tuner;
typedef struct span_guest span_guest;

// Called on the loop's thread; each may be NULL.
typedef struct span_callbacks {
    void *context;
    void (*note)(void *context, const char *text);  // a sentence for the user
    void (*listening)(void *context, const braid_id *id, const char *address);
    void (*holds)(void *context, uint32_t begin, uint32_t end);  // these layers are served from now on
    // Outputs [position, position + count) of the last layer of own session `number`; x[count, dim]
    // is borrowed.
    void (*output)(void *context, uint64_t number, uint32_t position, uint32_t count, const float *x);
    void (*tell)(void *context, const session_tell *tell);
    // The number of adapters of other peers for which this one computes, and their memory, have changed.
    void (*lends)(void *context, uint32_t adapters, uint64_t bytes);
    void (*wake)(void *context);  // after span_peer_wake, for calls from other threads
    void (*tick)(void *context);  // regularly
} span_callbacks;

typedef struct span_config {
    const identity *identity;         // borrowed
    const char *listen;               // NULL: every address, any port
    const char *public_address;       // NULL: found
    const char *path;                 // of the model's file or directory
    const model_file *file;           // opened, borrowed; NULL: a joiner gets its layers from other peers
    const char *state_directory;      // keeps them there; NULL: in memory
    bool origin;                      // the API node; `model` describes the swarm
    span_model model;                 // of an origin; other peers receive it
    ticket join;                      // of other peers: a peer of the swarm
    uint32_t layer_begin, layer_end;  // equal: chosen when the swarm is known; an origin then has none
    const adapter_place *adapters;    // borrowed; of the layers, each by its hash
    uint32_t adapter_count;           // at most SESSION_MAX_ADAPTERS
    const span_guest *guest;          // &span_lending: it lends its layers to clients that tune; NULL: not
    tuner *tuner;                     // this peer has no layers and trains an adapter (tuner.h); NULL: not
    uint64_t memory;                  // bytes for weights, keys and values
    unsigned threads;
    uint64_t patience_ns;  // a joiner tries for so long, 0: for ever
    uint64_t dead_ns;      // silence after which a peer is replaced, 0: the protocol's
    bool supervised;       // ends when standard input does
    bool signals;          // stop_watch was called (node/stop.h): SIGTERM drains
    span_callbacks callbacks;
} span_config;

extern const span_guest span_lending;

// Refuses what can be refused before another peer is asked: the port, memory for no layer
// (BRAID_LIMIT).
braid_err span_peer_new(const span_config *config, span_peer **out, braid_error *error);
// Until the peer is stopped (BRAID_OK) or cannot go on.
braid_err span_peer_run(span_peer *p, braid_error *error);
void span_peer_free(span_peer *p);
// Drains and ends the run. Any thread.
void span_peer_stop(span_peer *p);
// Calls `wake` on the loop's thread soon. Any thread.
void span_peer_wake(span_peer *p);

// The first 8 bytes of an adapter's hash, by which messages name it.
uint64_t span_adapter_id(const braid_hash *hash);

// --- of an origin, on the loop's thread

typedef struct span_text {
    uint32_t room;            // tokens that it may have
    uint32_t prompt;          // that it begins with
    uint64_t adapter;         // 0: none
    const session_key *keys;  // of its first pages (session_open)
    uint16_t key_count;
} span_text;

// Begins session `number`. False: there is no place for another one.
bool span_peer_open(span_peer *p, uint64_t number, const span_text *text);
// Rows of tokens that spans have in their prefix caches, the next ones from position 0 on. They are sent
// only to a substitute. False: no memory.
bool span_peer_supply(span_peer *p, uint64_t number, uint32_t position, const float *x, uint32_t count);
// Names the session's pages from number `page` on. All their outputs have come.
void span_peer_name(span_peer *p, uint64_t number, uint32_t page, const session_key *keys, uint32_t count);
// Rows x[count, dim] of positions [position, position + count) of a session, copied; those that it
// had from `position` on are taken back. Outputs from `home` on arrive by callbacks.output. False:
// no memory.
bool span_peer_step(span_peer *p, uint64_t number, uint32_t position, const float *x, uint32_t count, uint32_t home);
void span_peer_end(span_peer *p, uint64_t number);

// The swarm's room for a new session.
typedef struct span_room {
    uint32_t lacks_begin, lacks_end;  // the first layers that no usable peer holds; equal: none
    uint32_t tokens, free_tokens;     // room for keys and values, in all layers
    uint32_t longest;                 // most tokens of one session: a layer of it is on one peer
    uint32_t peers;                   // with layers
    uint32_t other_kernels;           // peers with layers and another kernel class
    uint64_t longest_repair_ns;
} span_room;
void span_peer_room(span_peer *p, span_room *out);
// "layers 3 to 5 are on no peer", with the number of those of another kernel class; "": all are
// there.
void span_peer_blocker(const span_room *room, char text[SPAN_MAX_NOTE]);
// The state of the swarm as JSON (docs/serving-swarm.md). The caller frees it; NULL: no memory.
char *span_peer_status(span_peer *p);
// The word with which a machine joins.
void span_peer_ticket(const span_peer *p, char text[TICKET_MAX_TEXT]);

#endif
