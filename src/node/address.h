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
// Whether a listener on `host` takes connections to every address of the machine.
bool address_is_wildcard(const char *host);
// For a second process beside one that listens on `listen` and is reached at `known` (each may be NULL): where it listens and is
// reached. The next port of both when both are fixed, so that a router can be told of it; else any free one. `own_known` is ""
// without `known`. False: one of them is no address.
bool address_beside(const char *listen, const char *known, char own_listen[WIRE_MAX_ADDRESS], char own_known[WIRE_MAX_ADDRESS]);
// The address of this machine that packets to `remote` ("host:port") leave from, as a number. No packet is sent.
bool address_local_towards(const char *remote, char host[WIRE_MAX_ADDRESS]);

#endif
