// What the files of this room share. A connection is a `link` from its first packet on; it is up when the handshake is
// done.
//
//     connect.c   names, addresses, the TCP connection of a dial
//     link.c      the stream of one connection: reading, writing, TLS, its end
//     greeting.c  HELLO, WELCOME, REFUSE; which connection of a pair survives
//     receive.c   messages and payloads of a link that is up
//     net.c       the public calls, the tables, callbacks of links that fell
//
// Lifetime: link_new ... link_fall (why; once) ... its callbacks from net_settle ... handles closed ... memory freed.
// A link that fell stays valid until control returns to the loop.
#ifndef BRAID_NET_INSIDE_H
#define BRAID_NET_INSIDE_H

#include "net/net.h"
#include "net/outbox.h"
#include "net/tls.h"
#include "wire/frame.h"
#include "wire/handshake.h"

enum {
    NET_BUCKETS = 256,
    NET_INPUT_BYTES = 128 * 1024,                           // read from a socket at once
    NET_BATCH_BYTES = 64 * 1024,                            // encrypted ahead of the socket
    NET_UNSENT_BYTES = NET_KERNEL_BYTES - NET_BATCH_BYTES,  // that the kernel may hold before they are on the way
    NET_BACKLOG = 128,
};

typedef enum link_state {
    LINK_DIALING,   // a name is looked up, a TCP connection made
    LINK_SECURING,  // TLS handshake
    LINK_GREETING,  // waits for HELLO (accepted) or WELCOME (dialed)
    LINK_HELD,      // accepted; its answer waits for what becomes of our own dial to the same peer
    LINK_UP,
    LINK_LEAVING,  // fallen; what is queued is still written, nothing is read
    LINK_DEAD,     // fallen; its handles are closing
} link_state;

// A payload that arrives.
typedef struct incoming {
    bool active;
    uint8_t *message;  // ours
    size_t message_bytes;
    uint8_t *payload;  // the caller's; NULL: thrown away
    uint64_t bytes, filled, token;
} incoming;

typedef struct link {
    struct net *net;
    struct link *previous, *next;  // every connection of the net
    struct link *bucket_next;      // those that are up
    struct link *dirty_next, *fallen_next;
    bool dirty;      // in net->dirty
    bool fallen;     // link_fall or link_leave was called
    bool unsettled;  // in net->fallen: its callbacks are still to be called

    link_state state;
    bool dialed, enquiry;
    bool known;   // `id` is the other side's
    bool told;    // link_up was called
    bool silent;  // its end is nobody's business
    bool refused;
    bool reached;  // the peer itself answered
    braid_id id;
    uint64_t begun, up;  // net->events when it was accepted or dialed, and when it came up
    uint64_t heard_ms;   // the loop's time of the last byte from there
    net_peer peer;
    char address[WIRE_MAX_ADDRESS];  // as dialed: one of a list
    char rest[WIRE_MAX_ADDRESS];     // dialed after it, when that peer does not answer there
    char reason[NET_MAX_REASON];

    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    unsigned handles;  // that must close, and look-ups that must end, before the memory goes
    bool tcp_open, resolving, all_refused, some_refused, goodbye, shut;
    struct sockaddr_storage numeric;  // of an address without a name
    struct addrinfo *addresses, *next_address;

    tls *tls;
    uint8_t *writing;  // handed to the kernel
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
    net_run run;  // its text is ours:
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
link *net_find(const net *n, const braid_id *id);                     // the one that is up
link *net_find_dial(const net *n, const braid_id *id, bool enquiry);  // one that is not up yet
link *net_find_held(const net *n, const braid_id *id);
void net_table_add(net *n, link *l);
void net_table_remove(net *n, link *l);
void net_settle(net *n);  // calls the callbacks of links that fell; may free links' contents, never links
void net_maybe_gone(net *n);

// --- connect.c
bool connect_split(const char *address, char host[WIRE_MAX_ADDRESS], uint16_t *port);  // false: malformed
// The first address of a list and the others, "": there are none. False: one of them is malformed.
bool connect_split_list(const char *list, char first[WIRE_MAX_ADDRESS], char rest[WIRE_MAX_ADDRESS]);
uint16_t connect_port_of(const struct sockaddr_storage *s);
// Begins to dial l->address. It ends with link_connected or link_fall.
void connect_begin(link *l);
// The next address, or link_fall.
void connect_timed_out(link *l);
void connect_close_listener(net *n);
// Listens; fills net->port.
braid_err connect_listen(net *n, const char *host, uint16_t port, braid_error *error);

// --- link.c
link *link_new(net *n, bool dialed);  // NULL: no memory
void link_release(link *l);           // frees it if nothing needs it any more
void link_set_state(link *l, link_state state);
void link_set_timer(link *l, uint64_t milliseconds);
void link_connected(link *l);  // the TCP connection is there: TLS begins
// The end. `link_leave` still writes the frames that wait (and TLS's own), `link_fall` closes at once. Callbacks follow
// from net_settle. The first reason counts.
void link_leave(link *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void link_fall(link *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void link_fall_silently(link *l);
void link_abandon(link *l);    // makes room: falls, or ends a leave
void link_set_dirty(link *l);  // something waits: link_pump before the loop sleeps
void link_pump(link *l);
bool link_is_open(const link *l);                                               // not fallen
bool link_queue(link *l, frame_kind kind, const uint8_t *bytes, size_t count);  // false: no memory, and the link fell
const char *link_name(const link *l);  // for sentences: what was dialed, or where it came from

// --- greeting.c
void greeting_secured(link *l);  // TLS is done
void greeting_receive(link *l, const frame_event *event);
// Answers a HELLO that was held.
void greeting_release(link *l);

// --- receive.c
void receive_event(link *l, const frame_event *event);
void receive_drop(link *l);  // gives unfinished payloads back

#endif
