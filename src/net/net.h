// Links between peers: TLS 1.3 over TCP on a libuv loop, one link per pair of ids, control messages ahead of tensors.
//
// Rules that always hold:
//  1. Everything runs on the loop's thread. No callback is called from inside a net_* call, except `payload_sent` and
//     `payload_drop` inside net_free.
//  2. A link that was told up is told down exactly once. After net_dial comes link_up, or link_down when no link came of
//     it. When a newer connection replaces a link, link_down comes first, then link_up.
//  3. Messages without payload keep their order among themselves, and so do messages with payload (payloads go out
//     one after another, first come first served). A message without payload overtakes those with payload, even in
//     the middle of one: at most NET_KERNEL_BYTES of what was handed on before stands in its way.
//  4. What a link had not delivered when it fell is lost. Every payload that was taken is given back exactly once:
//     `payload_sent` for the sender's, `message` or `payload_drop` for the receiver's.
//  5. Bytes from a peer can close its link, nothing else. Every queue has a named maximum.
#ifndef BRAID_NET_NET_H
#define BRAID_NET_NET_H

#include "base/err.h"
#include "base/id.h"
#include "net/identity.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    NET_MAX_LINKS = 2 * WIRE_MAX_MEMBERS,     // established, default of config.max_links
    NET_MAX_HANDSHAKES = 128,                 // accepted connections that have not finished their handshake
    NET_MAX_CONTROL_QUEUE = 4 * 1024 * 1024,  // bytes of messages that wait on one link
    NET_MAX_PAYLOAD_QUEUE = 4096,             // payloads that wait on one link
    NET_KERNEL_BYTES = 128 * 1024,            // of one link, handed to the kernel and not yet on the way
    NET_CONNECT_MS = 5000,                    // for resolving a name, and for the TCP connection to its last address
    NET_ATTEMPT_MS = 1500,                    // for that to each address before: IPv6 may lead nowhere
    NET_LOST_MS = 30000,                      // what was sent is not acknowledged for so long: the way is lost, and TCP would try for 15 minutes
    NET_HANDSHAKE_MS = 10000,                 // from the first packet to WELCOME
    NET_ALIVE_MS = 3000,                      // who was heard of so lately lives: longer than between two heartbeats
    NET_CLOSE_MS = 2000,                      // net_close: for the messages that still wait
    NET_MAX_REASON = 256,
};

typedef struct net net;

// What the other side said about itself in its handshake.
typedef struct net_peer {
    bool dialed;   // by us
    uint8_t kind;  // member_kind
    uint64_t generation;
    char address[WIRE_MAX_ADDRESS];   // where it may be dialled, as it says; "" when it does not listen
    char endpoint[WIRE_MAX_ADDRESS];  // the other end of this connection
    char software[WIRE_MAX_SOFTWARE];
} net_peer;

// A run, as links know it. All text is borrowed.
typedef struct net_run {
    braid_hash hash;
    uint64_t generation;
    braid_hash kernels;          // the class that all must have; all zero where it does not matter
    braid_id leader;             // whom to send JOIN; all zero when not known
    const char *leader_address;  // NULL or "" when not known
    const char *description;     // run_config_describe; NULL when this peer does not know it
    size_t description_bytes;
} net_run;

typedef struct net_callbacks {
    void *context;
    void (*link_up)(void *context, const braid_id *id, const net_peer *peer);
    // `refused`: nobody listens at the address (at once after the kernel said so). `reason` is a sentence.
    void (*link_down)(void *context, const braid_id *id, bool refused, const char *reason);
    // A whole message. `bytes` is borrowed during the call. `payload` (NULL when there is none) is the memory that
    // payload_alloc gave, now filled and the caller's again; `token` is what payload_alloc set.
    void (*message)(void *context, const braid_id *id, const uint8_t *bytes, size_t count, void *payload,
                    uint64_t payload_bytes, uint64_t token);
    // Room for the payload of the message `bytes`, whose payload is about to arrive. NULL: the payload is thrown away as
    // it comes, and message is called without it (payload NULL, payload_bytes as announced).
    void *(*payload_alloc)(void *context, const braid_id *id, const uint8_t *bytes, size_t count,
                           uint64_t payload_bytes, uint64_t *token);
    // The link fell before the payload was complete: the memory is the caller's again.
    void (*payload_drop)(void *context, void *payload, uint64_t token);
    // The payload of net_send is not needed any more: written, or its link fell.
    void (*payload_sent)(void *context, uint64_t token);
    // The answer to net_enquire, borrowed during the call. The hash is what the other side says: compare it with the
    // ticket's and with that of the description. May be NULL when net_enquire is never called.
    void (*description)(void *context, const braid_id *id, const net_run *run);
    // Somebody connected and was not let in, for the log: `reason` is a sentence. May be NULL.
    void (*turned_away)(void *context, const char *endpoint, const char *reason);
} net_callbacks;

typedef struct net_config {
    net_callbacks callbacks;     // all needed, except where said
    uint8_t kind;                // member_kind, told to others
    const char *software;        // "braid 0.1.0", told to others; NULL: nothing
    uint32_t max_links;          // 0: NET_MAX_LINKS
    uint32_t max_handshakes;     // 0: NET_MAX_HANDSHAKES
    uint64_t max_payload;        // bytes, 0: WIRE_MAX_PAYLOAD_BYTES
    uint64_t max_control_queue;  // bytes, 0: NET_MAX_CONTROL_QUEUE
    uint32_t handshake_ms;       // 0: NET_HANDSHAKE_MS
    uint32_t alive_ms;           // 0: NET_ALIVE_MS
} net_config;

// `loop` and `id` are borrowed until the net is gone. Ignores SIGPIPE for the process unless it has a handler.
braid_err net_new(uv_loop_t *loop, const identity *id, const net_config *config, net **out, braid_error *error);

// The run that links must agree on (copied), and its description for those who ask. Until it is called only net_enquire
// works, and who connects is turned away (NOT_READY). Links that are up stay.
braid_err net_set_run(net *n, const net_run *run, braid_error *error);
// Addresses may be lists, "host:port,[v6]:port": they are dialled one after another until the peer answers at one.
//
// Where others may dial this peer, told to them in handshakes (copied). NULL or "": nowhere.
braid_err net_advertise(net *n, const char *address, braid_error *error);

// Listens on `host` ("" or "*": every address, IPv4 and IPv6; a name or a number otherwise) and `port` (0: any free
// one). BRAID_NETWORK names the port and the mend when it is taken.
braid_err net_listen(net *n, const char *host, uint16_t port, braid_error *error);
// The port it listens on, 0 when it does not.
uint16_t net_port(const net *n);

// Connects to the peer `id` at `address` ("host:port", "[v6]:port"). link_up or link_down follows. Nothing happens when
// the link, or a dial, is there already. An error (address malformed, own id, no run, too many links) is returned at
// once, and no callback follows.
braid_err net_dial(net *n, const braid_id *id, const char *address, braid_error *error);
// Asks the peer for the run's description. description or link_down follows, neither where it fails and a link to that peer has come up
// meanwhile; the connection is closed either way.
braid_err net_enquire(net *n, const braid_id *id, const char *address, braid_error *error);

// Queues a message (copied) and, when `payload` is not NULL, its payload (borrowed until payload_sent(token)).
// BRAID_STATE: no link to `id`. BRAID_LIMIT: message or payload too large, or too much is waiting on the link, which is
// then closed (link_down follows). Nothing is borrowed on an error.
braid_err net_send(net *n, const braid_id *id, const uint8_t *bytes, size_t count, const void *payload,
                   uint64_t payload_bytes, uint64_t token);

// Closes the link or ends the dial: waiting messages without payload are still sent (NET_CLOSE_MS), payloads are not.
// link_down follows. Nothing happens when there is none.
void net_close(net *n, const braid_id *id, const char *reason);

// Links that were closed and still write what waits on them, though link_down has come.
uint32_t net_leaving(const net *n);

bool net_linked(const net *n, const braid_id *id);
uint32_t net_links(const net *n);

typedef struct net_stats {
    uint64_t control_in, control_out;  // bytes of frames without payload, before encryption
    uint64_t bulk_in, bulk_out;        // bytes of payloads
    uint64_t messages_in, messages_out;
    uint64_t control_queued, bulk_queued;  // bytes that wait here
    uint64_t rtt_ns;                       // as the kernel measured it, 0 when unknown
} net_stats;

// False when there is no link to `id`.
bool net_link_stats(const net *n, const braid_id *id, net_stats *out);
// Sums over all links that ever were (what waits: over those that are), and connections refused or failed before they were links.
typedef struct net_totals {
    net_stats bytes;
    uint64_t links, failed;
} net_totals;
void net_look(const net *n, net_totals *out);

// Closes everything at once and gives payloads back; no other callback is called afterwards. The memory goes when the
// loop has run its closing handles: run the loop until it is empty before closing it. NULL is allowed.
void net_free(net *n);

#endif
