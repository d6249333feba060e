// "host:port" and "[v6]:port" as people write them.
#ifndef BRAID_NODE_ADDRESS_H
#define BRAID_NODE_ADDRESS_H

#include "base/err.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stdint.h>

// Splits an address that can be dialled (a port above 0). `host` (WIRE_MAX_ADDRESS bytes, without brackets) and `port`
// may be NULL.
bool address_split(const char *text, char *host, uint16_t *port, braid_error *error);
// The same for where others are to reach this machine; port 0 stands for the one that is listened on.
bool address_split_public(const char *text, char *host, uint16_t *port, braid_error *error);
// The same for a place to listen: "host", "host:port", ":port", "*:port"; the port may be 0 or missing, then any free one.
bool address_split_listen(const char *text, char *host, uint16_t *port, braid_error *error);
// "host:port", with brackets around an IPv6 number. False when it is too long.
bool address_join(const char *host, uint16_t port, char out[WIRE_MAX_ADDRESS]);
// A list of such addresses, "host:port,[v6]:port": where one peer may be reached, the best first.
// Adds one more. False: `list` stays as it is, for it would be too long.
bool address_list_add(char list[WIRE_MAX_ADDRESS], const char *host, uint16_t port);
// Takes the first address of `*rest`, which then points at the others. False: there is none.
bool address_list_next(const char **rest, char out[WIRE_MAX_ADDRESS]);
// Whether each of them can be dialled.
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
// that stands for nothing else here (/etc/hosts often gives the machine's own name 127.0.1.1).
bool address_list_is_local(const char *list);
// Whether a listener on `host` takes connections to every address of the machine; of IPv4 only.
bool address_is_wildcard(const char *host);
bool address_is_wildcard_v4(const char *host);
// For a second process beside one that listens on `listen` and is reached at `known` (each may be NULL): where it listens and is
// reached. The next port of both when both are fixed, so that a router can be told of it; else any free one. `own_known` is ""
// without `known`. False: one of them is no address.
bool address_beside(const char *listen, const char *known, char own_listen[WIRE_MAX_ADDRESS], char own_known[WIRE_MAX_ADDRESS]);
// The address of this machine that packets to `remote` ("host:port") leave from, as a number. No packet is sent.
bool address_local_towards(const char *remote, char host[WIRE_MAX_ADDRESS]);

#endif
