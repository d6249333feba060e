// Distributed inference, one peer of a serving swarm (docs/session-protocol.md).
//
// A peer may hold a span: layers [begin, end) of a model. A peer may be the origin of sessions: it
// has the text, the embedding, the head and the sampler. The rows of a session go origin -> first
// span -> ... -> last span -> origin.
//
// Pure: one call is the whole boundary between the protocol and the world.
//     session_step(peer, now, event);
//     while (session_next_effect(peer, &effect)) do it;
//     deadline = session_deadline(peer);
// No clock, socket, thread, file, global or allocation. The simulator and the real process run the
// same object code.
//
// Rules that always hold:
//  1. An effect's pointers are valid until the next session_next_effect or session_step. Effects are
//     done in order, all of them before the next session_step.
//  2. A blob in an event belongs to the peer, which gives it back by RELEASE or hands it over by
//     OUTPUT. A blob in RUN or IMPORT is borrowed until the job is done.
//  3. Every RUN, IMPORT and ADOPT is answered by EVENT_DONE. At most one job of a slot is outstanding. The
//     host may run jobs of several slots together, in any order.
//  4. FREE comes when no job of the slot is outstanding. The slot is empty afterwards.
//  5. Messages to one peer keep their order, with and without payload alike, while a link lives.
//     A link that fell loses what it had not delivered.
//  6. A peer has no link to itself: a SEND to its own id is delivered as EVENT_MESSAGE from its own
//     id, in order.
//  7. Rows that are named in a SEND are those at the time of the effect: the host copies or encodes
//     them before it starts another job of that slot.
//
// The host keeps for each slot the cache of keys and values of its layers, and the slot's outputs
// by position, which are the input of the next span ("kept rows").
#ifndef BRAID_SESSION_SESSION_H
#define BRAID_SESSION_SESSION_H

#include "base/id.h"
#include "session/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct session_peer session_peer;
typedef uint64_t session_blob;  // bytes held by the host under a number; 0: none

// ---- the view: what this peer knows of the swarm

typedef struct session_known {
    session_card card;
    bool linked;
    bool suspected;       // silent, refused or lost: not used for new paths
    uint32_t one_way_us;  // from this peer; 0: not measured
} session_known;

typedef struct session_view {
    uint32_t count;
    const session_known *peer;  // [count]; [0] is this peer itself
} session_view;

// Measured time of one hop, from the cards of both ends; `fallback_us` if neither has measured it.
uint32_t session_hop_us(const session_view *view, uint32_t from, uint32_t to, uint32_t fallback_us);

// True if the card's peer has the adapter, or if it is 0.
bool session_has_adapter(const session_card *card, uint64_t adapter);

// ---- routing

typedef struct session_hop {
    braid_id id;
    uint16_t layer_begin, layer_end;
} session_hop;

typedef struct session_path {
    uint32_t count;
    session_hop hop[SESSION_MAX_HOPS];
} session_path;

typedef struct session_route_query {
    braid_hash model, kernels;
    uint16_t layers;
    uint32_t room;             // tokens that the session may need
    uint32_t tokens;           // that it has or begins with: a span without them has to compute them
    uint64_t adapter;          // 0: none; a span without it is not used
    const session_path *warm;  // the path of an earlier text with the same first page; NULL: none
    const session_path *old;   // spans that have the session's state; count 0: none
    // Peers that refused, were lost or were too slow a moment ago. Bit i: view->peer[i].
    const uint64_t *avoid;
    // True if peers a and b cannot reach each other. May be NULL.
    bool (*cut_off)(const void *context, uint32_t a, uint32_t b);
    const void *cut_off_context;
} session_route_query;

// Writes a path from layer 0 to `layers`. False: no path; then *missing is the first layer that is
// not on any usable peer. Must be deterministic and pure.
typedef bool (*session_route)(void *context, const session_view *view, const session_route_query *query,
                              session_path *out, uint16_t *missing);

// The default: shortest time of a token, by hop and computing times (Dijkstra over spans that are
// run to their end). A span without the session's tokens costs their computation in addition, divided
// by SESSION_ROUTE_AHEAD.
enum { SESSION_ROUTE_AHEAD = 64 };  // tokens that a session may still read, about
bool session_route_shortest(void *context, const session_view *view, const session_route_query *query,
                            session_path *out, uint16_t *missing);

// With queues, cache room and spans that are entered and left anywhere (src/placement/spans.h).
// `context`: memory of session_route_spans_bytes, 8-byte aligned, for one peer.
size_t session_route_spans_bytes(void);
bool session_route_spans(void *context, const session_view *view, const session_route_query *query, session_path *out,
                         uint16_t *missing);

// ---- configuration

typedef struct session_span {
    braid_hash model, kernels;
    uint16_t layer_begin, layer_end, layers;
    uint32_t
        cache_tokens;    // room for so many tokens of the whole span; a session that uses half of its layers takes half
    uint32_t row_bytes;  // of one kept row in memory
    uint32_t token_layer_bytes;  // keys and values of one token in one layer
    uint32_t layer_ns;           // measured or estimated time of one row in one layer
    uint32_t upload_kib_s;       // of this machine's line, 0: unknown
    uint16_t adapters;
    uint64_t adapter[SESSION_MAX_ADAPTERS];  // first 8 bytes of their hashes
} session_span;

// Mutation testing: each breaks one rule, and the simulator must notice.
typedef enum session_mutant {
    SESSION_MUTANT_ANY_EPOCH,       // rows of an older path are accepted
    SESSION_MUTANT_ANY_CUT,         // rows from before a truncation are accepted
    SESSION_MUTANT_APPENDS_TWICE,   // repeated rows are appended again
    SESSION_MUTANT_SKIPS_GAPS,      // rows after a gap are appended
    SESSION_MUTANT_KEEPS_VOID_RUN,  // the result of a run that a truncation overtook counts
    SESSION_MUTANT_NO_REWIND,       // a substitute is sent new rows only
    SESSION_MUTANT_SENDS_DROPPED,   // kept rows that were dropped are sent as if they were there
    SESSION_MUTANT_NO_LEASE,        // a session is held for ever after its origin is gone
    SESSION_MUTANT_NO_BOUND,        // kept rows have no bound
    SESSION_MUTANT_OTHER_LAYERS,    // a cache of other layers is taken for one of those that are asked for
    SESSION_MUTANT_OVERFILLS,       // a session is admitted without room
    SESSION_MUTANT_NO_REPAIR,       // a lost span is not replaced
    SESSION_MUTANT_FORGETS_CUTS,    // after a truncation only the newest rows are sent
    SESSION_MUTANT_KEEPS_REJECTED,  // rows of a refused draft stay in the cache of a span
    SESSION_MUTANT_ADOPTS_ROWS,     // outputs of adopted tokens are sent as if they were there
    SESSION_MUTANT_NAMES_ANY_CUT,   // pages with rows of a refused draft are kept under the text's name
    SESSION_MUTANTS
} session_mutant;

typedef struct session_config {
    braid_id self;
    char address[WIRE_MAX_ADDRESS];  // at which others dial this peer; "": none
    uint64_t incarnation;            // random and not 0, another one after each start
    uint64_t version;  // of the first card: Unix time in ms, so that it exceeds those of earlier incarnations
    bool serves;
    session_span span;      // if `serves`
    uint16_t slots;         // sessions that it computes for at once, at most SESSION_MAX_SLOTS
    uint16_t own;           // sessions of which it is the origin, at most SESSION_MAX_OWN
    uint64_t kept_bytes;    // bound of kept rows, all sessions; 0: none are kept beyond what waits to be sent
    uint32_t chunk_rows;    // most rows of one ROWS message and one RUN; 0: 256
    uint32_t window_rows;   // rows under way to a span; 0: 4 chunks
    uint32_t cache_chunk;   // tokens of one CACHE message; 0: 64
    uint64_t heartbeat_ns;  // 0: 250 ms
    uint64_t dead_ns;       // silence after which a peer is replaced; 0: 1 s
    uint64_t stall_ns;      // time without progress after which a path is probed; 0: 2 s
    uint64_t slow_ns;       // longest time of one job; 0: 20 s
    uint64_t lease_ns;      // a span frees a session that its origin did not confirm for so long; 0: 30 s
    uint64_t avoid_ns;      // time for which a span that failed is not chosen; 0: 5 s
    uint64_t random_seed;
    session_route route;  // NULL: session_route_shortest
    void *route_context;
    uint64_t mutants;  // bit i: session_mutant i; 0 outside of tests
} session_config;

// ---- events

typedef enum session_event_kind {
    SESSION_EVENT_TICK,
    SESSION_EVENT_LINK_UP,    // id
    SESSION_EVENT_LINK_DOWN,  // id; also the answer to a dial that failed. refused: its port refuses connections
    SESSION_EVENT_MESSAGE,    // id, msg, blob
    SESSION_EVENT_DONE,       // slot, ticket, failed, cost_ns: a RUN, IMPORT or ADOPT has ended; count of an ADOPT
    SESSION_EVENT_JOIN,       // id, address: a peer of the swarm to begin with. id all zero is not allowed
    SESSION_EVENT_SPAN,  // span: the layers that are held from now on; sessions of the older span are given up. NULL: none
    SESSION_EVENT_DRAIN,  // take no new sessions, hand over those that are here; DRAINED follows
    // ---- of an origin
    SESSION_EVENT_OPEN,  // number, open: begins a session; ignored without room (session_own_room)
    // The session's rows [position, position + count), of tokens that the host has. position may be
    // less than the tokens given so far: those from `position` on are taken back (a refused draft).
    // Outputs from `home` on are wanted, home < position + count; earlier ones that have not come
    // are not wanted any more.
    SESSION_EVENT_STEP,
    SESSION_EVENT_END,      // number: the text is complete or cancelled; its spans are freed
    SESSION_EVENT_NAME,     // number, position, keys, key_count: names of the pages from number `position` on
    SESSION_EVENT_REROUTE,  // number: look for a better path; it changes between tokens
    SESSION_EVENTS
} session_event_kind;

typedef struct session_open {
    braid_hash model, kernels;
    uint16_t layers;
    uint32_t room;     // tokens that it may have; a later STEP may exceed it, if the spans have room
    uint32_t prompt;   // tokens that it will begin with, for the choice of a path
    uint64_t adapter;  // first 8 bytes of its hash; 0: none
    // The first pages of its text, which prefix caches may have; key_count <= SESSION_MAX_KEYS. Their
    // tokens are never taken back, and no output before the end of the last one is wanted.
    const session_key *keys;
    uint16_t key_count;
} session_open;

typedef struct session_event {
    session_event_kind kind;
    braid_id id;
    bool refused, failed;
    const char *address;
    const session_message *msg;  // borrowed
    session_blob blob;
    uint32_t slot;
    uint64_t ticket, cost_ns;
    const session_span *span;
    uint64_t number;
    const session_open *open;
    uint32_t position, count, home;
    const session_key *keys;  // borrowed
    uint16_t key_count;
} session_event;

// ---- effects

typedef enum session_effect_kind {
    SESSION_EFFECT_SEND,  // `bytes` to `id`, with the payload that `source` names
    SESSION_EFFECT_DIAL,  // connect to `id` at `address`; LINK_UP or LINK_DOWN follows
    // Rows [position, position + count) of `slot` through layers [layer_begin, layer_end). Input:
    // rows first_row .. of `blob`. The host truncates the cache to `position` first; it is never
    // shorter. Outputs are kept rows `position` .. of the slot.
    SESSION_EFFECT_RUN,
    // Begins an empty `slot` with pages of the prefix cache, in the order of keys[count], as long as it
    // has them for these layers. DONE has the count of tokens; their outputs are not there. `adapter`
    // and the layers as in RUN.
    SESSION_EFFECT_ADOPT,
    // The pages of `slot` from page `position` on are keys[count]. The prefix cache may keep those that
    // end before token `limit`. A job may be outstanding: it does not change these tokens.
    SESSION_EFFECT_NAME,
    SESSION_EFFECT_IMPORT,   // keys and values in `blob` are tokens [position, position + count) of `slot`
    SESSION_EFFECT_FREE,     // `slot`: its cache and kept rows
    SESSION_EFFECT_FORGET,   // kept rows of `slot` before `position` are not needed any more
    SESSION_EFFECT_RELEASE,  // `blob`
    // Outputs [position, position + count) of the last layer for session `number`, in `blob` from
    // row `first_row` on; the blob is the host's now.
    SESSION_EFFECT_OUTPUT,
    SESSION_EFFECT_TELL,
    SESSION_EFFECT_DRAINED,  // no session is held any more: the peer may leave
    SESSION_EFFECTS
} session_effect_kind;

typedef enum session_source {
    SESSION_SOURCE_NONE,
    SESSION_SOURCE_TOKENS,  // embeddings of tokens [position, position + count) of own session `number`
    SESSION_SOURCE_KEPT,    // kept rows [position, position + count) of `slot`
    SESSION_SOURCE_CACHE,  // keys and values of tokens [position, position + count) of `slot`, layers [layer_begin, layer_end)
} session_source;

// Notifications for the user.
typedef enum session_tell_kind {
    SESSION_TELL_PATH,       // number, path, epoch: the session's path
    SESSION_TELL_WAITING,    // number, layer: no path; the first layer without a usable peer
    SESSION_TELL_FULL,       // number: every path lacks room
    SESSION_TELL_REPLACED,   // number, id, reason: that span is replaced
    SESSION_TELL_BEGAN,      // number, tokens: all spans are open; so many tokens are in all their prefix caches
    SESSION_TELL_REPAIRED,   // number, ns: the first output after a replacement, since it was noticed
    SESSION_TELL_PEER_UP,    // id: became known
    SESSION_TELL_PEER_DOWN,  // id: is not usable any more
    SESSION_TELLS
} session_tell_kind;

typedef enum session_reason {
    SESSION_REASON_DEAD,  // its port refuses connections
    SESSION_REASON_SILENT,
    SESSION_REASON_SLOW,  // no progress
    SESSION_REASON_REFUSED,
    SESSION_REASON_CUT_OFF,  // it and a neighbour in the path cannot reach each other
    SESSION_REASON_DRAINING,
    SESSION_REASON_BETTER,  // REROUTE
    SESSION_REASONS
} session_reason;

typedef struct session_tell {
    session_tell_kind kind;
    uint64_t number;
    braid_id id;
    uint8_t reason;
    uint16_t layer;
    uint32_t epoch;
    uint64_t ns;
    const session_path *path;
    uint32_t tokens;
} session_tell;

typedef struct session_effect {
    session_effect_kind kind;
    braid_id id;
    const char *address;
    const uint8_t *bytes;
    size_t byte_count;
    uint8_t message_kind;  // session_message_kind of `bytes`
    session_source source;
    uint64_t number;  // of an own session
    uint32_t slot;
    uint64_t ticket;  // of a job; never 0
    uint16_t layer_begin, layer_end;
    uint64_t adapter;  // of a job; 0: none
    const session_key *keys;
    uint32_t limit;
    uint32_t position, count;
    session_blob blob;
    uint32_t first_row;
    session_tell tell;
} session_effect;

const char *session_reason_name(uint8_t reason);
const char *session_tell_name(session_tell_kind kind);

// ---- the peer

// Bytes that a peer needs, all reserved at the start.
size_t session_peer_bytes(const session_config *config);
// Builds a peer in `memory` (session_peer_bytes, 64-byte aligned, zeroed). `config` is copied.
session_peer *session_peer_init(void *memory, const session_config *config, uint64_t now_ns);

void session_step(session_peer *p, uint64_t now_ns, const session_event *e);
bool session_next_effect(session_peer *p, session_effect *out);
// Latest time at which session_step must be called again with SESSION_EVENT_TICK.
uint64_t session_deadline(const session_peer *p);

// How many sessions may be opened here now.
uint32_t session_own_room(const session_peer *p);
void session_peer_view(const session_peer *p, session_view *out);

// Read-only views for checkers, the status page and tests.
typedef struct session_own_view {
    bool exists;
    uint32_t epoch;
    uint32_t length;  // tokens given
    uint32_t need;    // outputs before this position are there or not wanted
    bool waiting;     // for a path
    const session_path *path;
} session_own_view;
void session_look_own(const session_peer *p, uint64_t number, session_own_view *out);

typedef struct session_slot_view {
    bool exists;
    session_id session;
    braid_id origin;
    uint32_t epoch, have, kept_from, sent;
    uint16_t layer_begin, layer_end;
    uint32_t room;
    bool running, closing;
} session_slot_view;
void session_look_slot(const session_peer *p, uint32_t slot, session_slot_view *out);

typedef struct session_totals {
    uint32_t own, held, linked, known;
    uint64_t kept_rows, kept_bytes;
    uint64_t room_used, room;   // token-layers that are reserved, of how many
    uint64_t replayed_rows;     // rows sent again to a substitute
    uint64_t recomputed_rows;   // rows that this peer computed again, because their outputs were dropped
    uint64_t adopted;           // tokens from the prefix cache
    uint64_t repairs, refused;  // paths replaced as origin; sessions refused as span
} session_totals;
void session_look(const session_peer *p, session_totals *out);

#endif
