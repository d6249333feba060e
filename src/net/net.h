// Links between peers: TLS 1.3 over TCP on a libuv loop, one link per pair of ids, control messages
// ahead of tensors.
//
// Rules that always hold:
//  1. Everything runs on the loop's thread. No callback is called from inside a net_* call, except
//     `payload_sent` and `payload_drop` inside net_free.
//  2. After net_dial comes link_up, or link_down if the dial failed. Each link_up is followed by
//     exactly one link_down. When a newer connection replaces a link, link_down comes first, then
//     link_up.
//  3. Messages without payload keep their order among themselves. So do messages with payload,
//     which are sent one after another in the order of net_send. A message without payload
//     overtakes those with payload, even in the middle of one. At most NET_KERNEL_BYTES that were
//     passed to the kernel earlier are ahead of it.
//  4. Data that a link had not delivered when it fell is lost. Every accepted payload is returned
//     exactly once: `payload_sent` for the sender's, `message` or `payload_drop` for the receiver's.
//  5. Bytes from a peer can close its link and have no other effect on the net. Every queue has a
//     named maximum.
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
    NET_MAX_LINKS = 2 * WIRE_MAX_MEMBERS,     // default of config.max_links: established links
    NET_MAX_HANDSHAKES = 128,                 // accepted connections in their handshake
    NET_MAX_CONTROL_QUEUE = 4 * 1024 * 1024,  // queued bytes of messages per link
    NET_MAX_PAYLOAD_QUEUE = 4096,             // queued payloads per link
    NET_KERNEL_BYTES = 128 * 1024,            // bytes per link that the kernel has and has not sent yet
    NET_CONNECT_MS = 5000,                    // for resolving a name, and for the TCP connection to its last address
    NET_ATTEMPT_MS = 1500,                    // the same for each earlier address, because IPv6 may be unreachable
    // without an acknowledgement for this long the link is lost; TCP itself would try for 15
    // minutes
    NET_LOST_MS = 30000,
    NET_HANDSHAKE_MS = 10000,                 // from the first packet to WELCOME
    // a peer that sent data this recently is alive; longer than the heartbeat interval
    NET_ALIVE_MS = 3000,
    NET_CLOSE_MS = 2000,                      // net_close: time for the queued messages
    NET_MAX_REASON = 256,
};

typedef struct net net;

// The other side's self-description in its handshake.
typedef struct net_peer {
    bool dialed;   // by us
    uint8_t kind;  // member_kind
    uint64_t generation;
    // the address at which it can be dialed, by its own account; "" when it does not listen
    char address[WIRE_MAX_ADDRESS];
    char endpoint[WIRE_MAX_ADDRESS];  // the remote end of this connection
    char software[WIRE_MAX_SOFTWARE];
} net_peer;

// The run of a net's links. All text is borrowed.
typedef struct net_run {
    braid_hash hash;
    uint64_t generation;
    braid_hash kernels;          // the required kernel class; all zero: any class
    braid_id leader;             // the recipient for JOIN; all zero: unknown
    const char *leader_address;  // NULL or "": unknown
    const char *description;     // output of run_config_describe; NULL: unknown to this peer
    size_t description_bytes;
} net_run;

typedef struct net_callbacks {
    void *context;
    void (*link_up)(void *context, const braid_id *id, const net_peer *peer);
    // `refused`: the port is closed, as the kernel reported at once. `reason` is a sentence.
    void (*link_down)(void *context, const braid_id *id, bool refused, const char *reason);
    // A complete message. `bytes` is borrowed during the call. `payload` (NULL: none) is the memory
    // from payload_alloc, now filled and owned by the caller again; `token` is the value from
    // payload_alloc.
    void (*message)(void *context, const braid_id *id, const uint8_t *bytes, size_t count, void *payload,
                    uint64_t payload_bytes, uint64_t token);
    // Provides memory for the payload of the message `bytes`. NULL: the payload is discarded on
    // arrival, and `message` is called without it (payload NULL, payload_bytes as announced).
    void *(*payload_alloc)(void *context, const braid_id *id, const uint8_t *bytes, size_t count,
                           uint64_t payload_bytes, uint64_t *token);
    // The link fell before the payload was complete; the memory belongs to the caller again.
    void (*payload_drop)(void *context, void *payload, uint64_t token);
    // The payload of net_send is no longer used: it was written, or its link fell.
    void (*payload_sent)(void *context, uint64_t token);
    // The answer to net_enquire, borrowed during the call. The hash is the other side's claim:
    // compare it with the ticket's and with that of the description. May be NULL when net_enquire
    // is never called.
    void (*description)(void *context, const braid_id *id, const net_run *run);
    // A connection was refused, for the log; `reason` is a sentence. May be NULL.
    void (*turned_away)(void *context, const char *endpoint, const char *reason);
} net_callbacks;

typedef struct net_config {
    net_callbacks callbacks;     // required, except where noted
    uint8_t kind;                // member_kind, sent to other peers
    const char *software;        // "braid 0.1.0", sent to other peers; NULL: nothing
    uint32_t max_links;          // 0: NET_MAX_LINKS
    uint32_t max_handshakes;     // 0: NET_MAX_HANDSHAKES
    uint64_t max_payload;        // bytes, 0: WIRE_MAX_PAYLOAD_BYTES
    uint64_t max_control_queue;  // bytes, 0: NET_MAX_CONTROL_QUEUE
    uint32_t handshake_ms;       // 0: NET_HANDSHAKE_MS
    uint32_t alive_ms;           // 0: NET_ALIVE_MS
    bool cleanse;                // overwrites received bytes in its buffers after their use
} net_config;

// `loop` and `id` are borrowed until the net is freed. Ignores SIGPIPE for the process unless it
// has a handler.
braid_err net_new(uv_loop_t *loop, const identity *id, const net_config *config, net **out, braid_error *error);

// Sets the run that both sides of a link must have (copied), and its description for enquiries.
// Before this call only net_enquire works, and incoming connections are refused (NOT_READY).
// Established links stay.
braid_err net_set_run(net *n, const net_run *run, braid_error *error);
// Addresses may be lists, "host:port,[v6]:port": they are dialed in order until the peer answers.
//
// Sets the address at which other peers can dial this one, which handshakes carry (copied). NULL or
// "": none.
braid_err net_advertise(net *n, const char *address, braid_error *error);

// Listens on `host` ("" or "*": every address, IPv4 and IPv6; otherwise a name or a number) and
// `port` (0: any free one). If the port is taken, BRAID_NETWORK names it and the fix.
braid_err net_listen(net *n, const char *host, uint16_t port, braid_error *error);
// The port it listens on; 0 when it does not.
uint16_t net_port(const net *n);

// Connects to the peer `id` at `address` ("host:port", "[v6]:port"). link_up or link_down follows.
// Does nothing when a link or a dial exists already. An error (malformed address, own id, no run,
// too many links) is returned at once, without a callback.
braid_err net_dial(net *n, const braid_id *id, const char *address, braid_error *error);
// Requests the run's description from the peer. description or link_down follows; neither follows
// if the request fails after a link to that peer came up. The connection is closed in each case.
braid_err net_enquire(net *n, const braid_id *id, const char *address, braid_error *error);

// Queues a message (copied) and, when `payload` is not NULL, its payload (borrowed until
// payload_sent(token)). BRAID_STATE: no link to `id`. BRAID_LIMIT: message or payload too large, or
// the link's queue is full; the link is then closed (link_down follows). Nothing is borrowed on an
// error.
braid_err net_send(net *n, const braid_id *id, const uint8_t *bytes, size_t count, const void *payload,
                   uint64_t payload_bytes, uint64_t token);

// Closes the link or ends the dial. Queued messages without payload are still sent (NET_CLOSE_MS),
// payloads are not. link_down follows. Does nothing when there is no link.
void net_close(net *n, const braid_id *id, const char *reason);

// Number of closed links that are still writing their queue after link_down.
uint32_t net_leaving(const net *n);

bool net_linked(const net *n, const braid_id *id);
uint32_t net_links(const net *n);

typedef struct net_stats {
    uint64_t control_in, control_out;  // bytes of frames without payload, before encryption
    uint64_t bulk_in, bulk_out;        // bytes of payloads
    uint64_t messages_in, messages_out;
    uint64_t control_queued, bulk_queued;  // bytes in the queues
    uint64_t rtt_ns;                       // as measured by the kernel; 0: unknown
} net_stats;

// False when there is no link to `id`.
bool net_link_stats(const net *n, const braid_id *id, net_stats *out);
// Sums over all links since the start (queued bytes: over current links), and the number of
// connections that were refused or failed before they became links.
typedef struct net_totals {
    net_stats bytes;
    uint64_t links, failed;
} net_totals;
void net_look(const net *n, net_totals *out);

// Closes everything at once and returns all payloads; no other callback follows. The memory is
// freed by closing handles, so run the loop until it is empty before closing it. NULL is allowed.
void net_free(net *n);

#endif
