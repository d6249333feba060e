// "host:port" and "[v6]:port" as people write them.
#ifndef BRAID_NODE_ADDRESS_H
#define BRAID_NODE_ADDRESS_H

#include "base/err.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stdint.h>

// Splits an address that can be dialled (a port above 0). `host` (WIRE_MAX_ADDRESS bytes, without
// brackets) and `port` may be NULL.
bool address_split(const char *text, char *host, uint16_t *port, braid_error *error);
// The same for an address that others dial; port 0 means the port that this process listens on.
bool address_split_public(const char *text, char *host, uint16_t *port, braid_error *error);
// The same for a listening address: "host", "host:port", ":port", "*:port". With port 0 or none the
// system chooses a free one.
bool address_split_listen(const char *text, char *host, uint16_t *port, braid_error *error);
// "host:port", with brackets around an IPv6 number. False when it is too long.
bool address_join(const char *host, uint16_t port, char out[WIRE_MAX_ADDRESS]);
// Appends one address to a list in the form "host:port,[v6]:port", best first. False: the list
// would be too long and is unchanged.
bool address_list_add(char list[WIRE_MAX_ADDRESS], const char *host, uint16_t port);
// Takes the first address of `*rest` and advances `*rest` past it. False: the list is empty.
bool address_list_next(const char **rest, char out[WIRE_MAX_ADDRESS]);
// Whether every address of the list can be dialled.
bool address_list_check(const char *list, braid_error *error);

typedef enum address_kind {
    ADDRESS_NAME,  // not a number
    ADDRESS_NUMBER,
    ADDRESS_LOOPBACK,     // 127.0.0.0/8, ::1
    ADDRESS_LINK_LOCAL,   // 169.254.0.0/16 (RFC 3927), fe80::/10 (RFC 4291)
    ADDRESS_UNSPECIFIED,  // 0.0.0.0, ::
} address_kind;

address_kind address_kind_of(const char *host);
// Whether only processes on this machine reach one of the addresses: a loopback number, or a name
// that resolves to loopback only. (/etc/hosts often maps the machine's own name to 127.0.1.1.)
bool address_list_is_local(const char *list);
// Whether a listener on `host` accepts connections on every address of the machine, or on every
// IPv4 address.
bool address_is_wildcard(const char *host);
bool address_is_wildcard_v4(const char *host);
// Addresses for a second process beside one that listens on `listen` and is reached at `known`
// (each may be NULL). If both ports are fixed, the second process uses the next port of each, so
// that a router can forward it. Otherwise it uses any free port. `own_known` is "" without `known`.
// False: one of them is not an address.
bool address_beside(const char *listen, const char *known, char own_listen[WIRE_MAX_ADDRESS], char own_known[WIRE_MAX_ADDRESS]);
// This machine's address, as a number, on the route to `remote` ("host:port"). No packet is sent.
bool address_local_towards(const char *remote, char host[WIRE_MAX_ADDRESS]);

#endif
