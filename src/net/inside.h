// Private to the files of this module. A connection is a `link` from its first packet on; it is up
// when the handshake is complete.
//
//     connect.c   names, addresses, the TCP connection of a dial
//     link.c      the stream of one connection: reading, writing, TLS, its end
//     greeting.c  HELLO, WELCOME, REFUSE; the choice between two connections of a pair
//     receive.c   messages and payloads of a link that is up
//     net.c       the public calls, the tables, callbacks of links that fell
//
// Lifetime: link_new ... link_fall (with a reason; once) ... callbacks from net_settle ... handles
// closed ... memory freed. A fallen link stays valid until control returns to the loop.
#ifndef BRAID_NET_INSIDE_H
#define BRAID_NET_INSIDE_H

#include "net/net.h"
#include "net/outbox.h"
#include "net/tls.h"
#include "wire/frame.h"
#include "wire/handshake.h"

enum {
    NET_BUCKETS = 256,
    NET_INPUT_BYTES = 128 * 1024,                           // of one read from a socket
    NET_BATCH_BYTES = 64 * 1024,                            // encrypted ahead of the socket
    NET_UNSENT_BYTES = NET_KERNEL_BYTES - NET_BATCH_BYTES,  // in the kernel, not sent yet
    NET_PUMP_BATCHES = 4,                                   // written at once before other links have their turn
    NET_BACKLOG = 128,
};

typedef enum link_state {
    LINK_DIALING,   // resolves a name, opens a TCP connection
    LINK_SECURING,  // TLS handshake
    LINK_GREETING,  // waits for HELLO (accepted) or WELCOME (dialed)
    LINK_HELD,      // accepted; the answer waits for the end of the local dial to the same peer
    LINK_UP,
    LINK_LEAVING,  // fallen; writes its queue, reads nothing
    LINK_DEAD,     // fallen; handles are closing
} link_state;

// A payload that is being received.
typedef struct incoming {
    bool active;
    uint8_t *message;  // owned by the link
    size_t message_bytes;
    uint8_t *payload;  // the caller's; NULL: discarded
    uint64_t bytes, filled, token;
} incoming;

// The dial of one address list: name lookup and TCP connection.
typedef struct link_dial {
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    bool resolving, all_refused, some_refused;
    struct sockaddr_storage numeric;  // the address of a host without a name
    struct addrinfo *addresses, *next_address;
    char other_addresses[WIRE_MAX_ADDRESS];  // dialed next if the peer does not answer at link.address
} link_dial;

typedef struct link {
    struct net *net;
    struct link *previous, *next;  // every connection of the net
    struct link *bucket_next;      // established links
    struct link *dirty_next, *fallen_next;
    bool dirty;      // in net->dirty
    bool fallen;     // link_fall or link_leave was called
    bool unsettled;  // in net->fallen: its callbacks are pending

    link_state state;
    bool dialed, enquiry;
    bool known;           // `id` is the other side's verified id
    bool up_reported;     // link_up was called
    bool end_unreported;  // the end of this connection causes no callback
    bool refused;
    bool reached;  // the peer itself answered
    braid_id id;
    uint64_t opened_event, up_event;  // net->events when it was accepted or dialed, and when it came up
    uint64_t received_ms;             // loop time of the last received byte
    net_peer peer;
    char address[WIRE_MAX_ADDRESS];  // the dialed one of a list
    char reason[NET_MAX_REASON];

    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;
    unsigned handles;  // handles to close and lookups to end before the memory can be freed
    bool tcp_open, close_sent, shut;
    link_dial dial;

    tls *tls;
    uint8_t *writing;  // buffer owned by the kernel's write
    outbox out;
    frame_decoder *decoder;
    incoming in[WIRE_MAX_TRANSFERS];
    net_stats stats;
} link;

struct net {
    uv_loop_t *loop;
    net_callbacks callbacks;
    net_config config;
    braid_id self;
    tls_context *tls;
    char software[WIRE_MAX_SOFTWARE];
    char address[WIRE_MAX_ADDRESS];  // advertised
    bool has_run;
    net_run run;  // its texts are stored in:
    char leader_address[WIRE_MAX_ADDRESS];
    char *description;

    uv_tcp_t *listener;  // NULL: does not listen
    uv_prepare_t prepare;
    bool freed, accept_failed;
    unsigned handles;
    uint16_t port;

    uint64_t events;
    link *all, *dirty, *fallen;
    link *bucket[NET_BUCKETS];
    uint32_t connections, up, dials, accepted;  // dials: not up yet; accepted: neither up nor dead
    net_totals totals;
    uint8_t plain[TLS_RECORD_BYTES];
    uint8_t scratch[OUTBOX_RECORD_BYTES];
    uint8_t greeting[WIRE_MAX_CONTROL_BYTES];
    uint8_t input[NET_INPUT_BYTES];
};

// --- net.c
link *net_find(const net *n, const braid_id *id);                     // the established link
link *net_find_dial(const net *n, const braid_id *id, bool enquiry);  // a dial that is not up yet
link *net_find_held(const net *n, const braid_id *id);
void net_table_add(net *n, link *l);
void net_table_remove(net *n, link *l);
void net_settle(net *n);  // reports fallen links; may free their contents, never the links
void net_free_if_closed(net *n);

// --- connect.c
bool connect_split(const char *address, char host[WIRE_MAX_ADDRESS], uint16_t *port);  // false: malformed
// Splits a list into its first address and the rest (""; none). False: one address is malformed.
bool connect_split_list(const char *list, char first[WIRE_MAX_ADDRESS], char rest[WIRE_MAX_ADDRESS]);
uint16_t connect_port_of(const struct sockaddr_storage *s);
// Starts to dial l->address; ends with link_connected or link_fall.
void connect_begin(link *l);
// Tries the next address, or calls link_fall.
void connect_timed_out(link *l);
void connect_close_listener(net *n);
// Listens; fills net->port.
braid_err connect_listen(net *n, const char *host, uint16_t port, braid_error *error);

// --- link.c
link *link_new(net *n, bool dialed);  // NULL: no memory
void link_release(link *l);           // frees it if no handle uses it
void link_set_state(link *l, link_state state);
void link_set_timer(link *l, uint64_t milliseconds);
void link_connected(link *l);  // the TCP connection is established; starts TLS
// End the link. `link_leave` still writes the queued frames (and those of TLS), `link_fall` closes
// at once. net_settle calls the callbacks. The first reason is reported.
void link_leave(link *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void link_fall(link *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void link_fall_unreported(link *l);
void link_abandon(link *l);    // frees its place: falls, or ends a leave
void link_set_dirty(link *l);  // queues it for link_pump before the loop sleeps
void link_pump(link *l);
bool link_is_open(const link *l);                                               // not fallen
bool link_queue(link *l, frame_kind kind, const uint8_t *bytes, size_t count);  // false: no memory, and the link fell
const char *link_name(const link *l);  // for messages: the dialed or the remote address

// --- greeting.c
void greeting_secured(link *l);  // TLS is complete
void greeting_receive(link *l, const frame_event *event);
// Answers a HELLO that was held.
void greeting_release(link *l);

// --- receive.c
void receive_event(link *l, const frame_event *event);
void receive_drop(link *l);  // returns unfinished payloads

#endif
