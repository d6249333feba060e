// The messages of distributed serving (docs/session-protocol.md has the rules). A message has a
// fixed maximum size; ROWS and CACHE have a payload beside it, which the host encodes.
#ifndef BRAID_SESSION_MESSAGE_H
#define BRAID_SESSION_MESSAGE_H

#include "base/id.h"
#include "session/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A session's name: its origin's incarnation (random) and a number that the origin's host chose.
typedef struct session_id {
    uint64_t incarnation, number;
} session_id;

// The name of one page of a text: of the model, its adapter, and all tokens up to the page's end. Equal
// keys mean equal keys and values in the same layers. The hosts agree on the tokens of a page.
typedef struct session_key {
    uint8_t bytes[16];
} session_key;

static inline bool session_id_equal(session_id a, session_id b) {
    return a.incarnation == b.incarnation && a.number == b.number;
}

// X(KIND, body)
#define SESSION_MESSAGES(X)                                                                     \
    X(CARDS, cards)                                                                             \
    X(OPEN, open)                                                                               \
    X(OPENED, opened)                                                                           \
    X(REFUSE, refuse)                                                                           \
    X(READY, ready)                                                                             \
    X(WANT, want)                                                                               \
    X(ROWS, rows)                                                                               \
    X(LOST, lost) X(CLOSE, close) X(HELD, held) X(KEPT, kept) X(PROBE, probe) X(STATUS, status) \
        X(GET_CACHE, get_cache) X(CACHE, cache) X(NAMES, names) X(GET_PIECE, get_piece) X(PIECE, piece)

typedef enum session_message_kind {
    SESSION_MESSAGE_NONE,
#define X(upper, lower) SESSION_MESSAGE_##upper,
    SESSION_MESSAGES(X)
#undef X
        SESSION_MESSAGE_KINDS
} session_message_kind;

// The measured time of a link from the card's peer.
typedef struct session_card_hop {
    uint64_t to;          // the first 8 bytes of the other peer's id, little-endian
    uint32_t one_way_us;  // half of a round trip
} session_card_hop;

// A peer's description of itself. The card with the higher `version` replaces the other one.
typedef struct session_card {
    braid_id id;
    uint64_t incarnation;  // random, another one after each restart
    uint64_t version;
    char address[WIRE_MAX_ADDRESS];           // "": cannot be dialed
    bool serves;                              // has a span: the fields below
    bool draining;                            // takes no new session and hands over those that it has
    braid_hash model, kernels;                // hash of the weights; kernel class
    uint16_t layer_begin, layer_end, layers;  // its span [begin, end) of the model's `layers`
    uint32_t cache_tokens, free_tokens;       // room for keys and values of the whole span
    uint32_t layer_ns;                        // measured computing time of one row in one layer
    uint32_t waiting_layers;                  // mean queue: rows that wait for its computation, times their layers
    uint32_t upload_kib_s;                    // measured rate of its line, 0: unknown
    uint16_t adapters;
    uint64_t adapter[SESSION_MAX_ADAPTERS];  // the first 8 bytes of their hashes, little-endian
    uint16_t hops;
    session_card_hop hop[SESSION_MAX_CARD_HOPS];
} session_card;

// Heartbeat and gossip: card[0] is the sender's own.
typedef struct session_message_cards {
    uint64_t sent_ns;  // the sender's clock
    uint64_t echo_ns;  // `sent_ns` of the newest CARDS from the receiver, 0: none
    uint64_t held_ns;  // time since that one arrived
    uint16_t count;
    session_card card[SESSION_MAX_CARDS];
} session_message_cards;

// Origin -> span. The place in the path of `epoch`. Idempotent.
typedef struct session_message_open {
    session_id session;
    uint32_t epoch;
    braid_hash model, kernels;
    uint64_t adapter;                 // the first 8 bytes of its hash; 0: none
    uint16_t layer_begin, layer_end;  // to run, within the receiver's span
    uint32_t room;                    // tokens that the session may have
    uint32_t tokens;                  // that it has now: what a replay would have to compute
    bool last;                        // downstream is the origin
    braid_id upstream, downstream;    // the origin at both ends of the path
    char upstream_address[WIRE_MAX_ADDRESS], downstream_address[WIRE_MAX_ADDRESS];
    bool has_donor;  // a draining peer that ran the same layers and still has the cache
    braid_id donor;
    uint32_t cut;  // the origin's newest truncation
    // Pages with which the text begins. None of their tokens is ever taken back, and no output before
    // their end is wanted.
    uint16_t keys;
    session_key key[SESSION_MAX_KEYS];
} session_message_open;

// Span -> origin.
typedef struct session_message_opened {
    session_id session;
    uint32_t epoch;
    uint32_t have;  // tokens in its cache; in the first one, those of its prefix cache
    bool fetching;  // from the donor; another OPENED follows
} session_message_opened;

typedef enum session_refusal {
    SESSION_FULL,  // no room in the cache, or no free slot
    SESSION_DRAINING,
    SESSION_NOT_HERE,  // other layers, another model or kernel class; given up after it was open
    SESSION_REFUSALS
} session_refusal;

typedef struct session_message_refuse {
    session_id session;
    uint32_t epoch;
    uint8_t reason;  // session_refusal
    uint32_t free_tokens;
} session_message_refuse;

// Span -> downstream: this span is open in `epoch`. A WANT that came too early is repeated.
typedef struct session_message_ready {
    session_id session;
    uint32_t epoch;
    bool to_origin;  // from the last span
} session_message_ready;

// Receiver -> its upstream: rows [from, limit) may be sent. `ask` numbers the requests of one
// incarnation of the receiver: a new one rewinds the sender to `from`, the same one only raises
// `limit`.
typedef struct session_message_want {
    session_id session;
    uint32_t epoch, ask;
    uint64_t incarnation;
    uint32_t cut;  // newest truncation that the receiver has seen
    uint32_t from, limit;
    bool to_origin;  // from the first span
} session_message_want;

// Sender -> its downstream. Payload: rows [position, position + count); none if count is 0. Rows of
// the receiver from `position` on that are from before truncation `cut` are void.
typedef struct session_message_rows {
    session_id session;
    uint32_t epoch, cut;
    uint32_t position, count;
    uint32_t home;   // the origin needs no output before this position
    bool to_origin;  // from the last span
} session_message_rows;

// Span -> origin: no link to the neighbour.
typedef struct session_message_lost {
    session_id session;
    uint32_t epoch;
    braid_id peer;
} session_message_lost;

typedef struct session_message_close {
    session_id session;
} session_message_close;

// Span -> origin: the sessions of that origin which it holds; answered by KEPT with the same list.
typedef struct session_message_held {
    uint16_t count;
    session_id session[SESSION_MAX_HELD];
} session_message_held;

typedef struct session_message_kept {
    uint16_t count;
    session_id session[SESSION_MAX_HELD];
    bool keep[SESSION_MAX_HELD];  // false: free it
} session_message_kept;

typedef struct session_message_probe {
    session_id session;
    uint32_t epoch;
} session_message_probe;

typedef struct session_message_status {
    session_id session;
    uint32_t epoch;             // the receiver's of the PROBE; 0: it does not hold the session
    uint32_t have, next, sent;  // tokens in the cache; accepted from upstream; sent downstream
    bool running, fetching;
    uint32_t running_ms;
} session_message_status;

// Substitute -> donor, answered by CACHE. `count` tokens at most.
typedef struct session_message_get_cache {
    session_id session;
    uint32_t position, count;
} session_message_get_cache;

// The truncations of a session's text so far. `now` numbers the newest. An entry says that since the
// entry before it nothing before `at` was truncated; `cut` and `at` ascend.
typedef struct session_cuts {
    uint32_t now;
    uint32_t known_from;  // about truncations up to this one nothing is known
    uint16_t count;
    struct {
        uint32_t cut, at;
    } entry[SESSION_CUTS];
} session_cuts;

// Payload: keys and values of tokens [position, position + count) in layers [layer_begin,
// layer_end). `total` tokens are there; count 0 with position < total: the donor has none.
typedef struct session_message_cache {
    session_id session;
    uint16_t layer_begin, layer_end;
    session_cuts cuts;
    uint32_t home;
    uint32_t position, count, total;
} session_message_cache;

// Origin -> span: the session's pages [first, first + count), as of truncation `cut`. The span keeps
// those that it has for later texts.
typedef struct session_message_names {
    session_id session;
    uint32_t cut, first;
    uint16_t count;
    session_key key[SESSION_MAX_NAMES];
} session_message_names;

// Between hosts: bytes [offset, offset + count) of a part of the model, which is named by its hash.
// Answered by PIECE.
typedef struct session_message_get_piece {
    braid_hash part;
    uint64_t offset;
    uint32_t count;  // at most SESSION_MAX_PIECE
} session_message_get_piece;

// Payload: `count` bytes of the part. `total` are all its bytes; 0: the sender does not have it.
typedef struct session_message_piece {
    braid_hash part;
    uint64_t offset, total;
    uint32_t count;
} session_message_piece;

typedef struct session_message {
    session_message_kind kind;
    union {
#define X(upper, lower) session_message_##lower lower;
        SESSION_MESSAGES(X)
#undef X
    };
} session_message;

const char *session_message_name(session_message_kind kind);
bool session_message_has_payload(const session_message *msg);
// Bytes written; 0: it does not fit, or a value violates a limit.
size_t session_message_encode(const session_message *msg, uint8_t *bytes, size_t capacity);
// False: malformed. `msg` is complete or must not be used.
bool session_message_decode(const uint8_t *bytes, size_t count, session_message *msg);

#endif
