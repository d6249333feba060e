// Addresses at which other machines may reach this one: from the route to the internet, and from
// its interfaces. A router's outer address is not known here (--public-address sets it).
#ifndef BRAID_NODE_OWN_ADDRESS_H
#define BRAID_NODE_OWN_ADDRESS_H

#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OWN_MOST_ADDRESSES = 4, OWN_MOST_INTERFACES = 64, OWN_NAME = 16 };

// One address of one interface.
typedef struct own_interface {
    char name[OWN_NAME];
    char host[WIRE_MAX_ADDRESS];  // a number, without a scope
    bool up;
} own_interface;

typedef struct own_hosts {
    char host[OWN_MOST_ADDRESSES][WIRE_MAX_ADDRESS];
    uint32_t count;
} own_hosts;

// Adds a host. Leaves out duplicates, addresses useless to other machines (loopback, link-local,
// unspecified), and IPv6 for a listener that accepts IPv4 only. False: it was not added.
bool own_hosts_add(own_hosts *hosts, const char *host, bool only_v4);
// Adds the addresses of interfaces that are up: IPv4, then global IPv6, then site-local IPv6.
// Bridges to containers and virtual machines count only if there is nothing else.
void own_hosts_add_interfaces(own_hosts *hosts, const own_interface *found, size_t count, bool only_v4);
// Finds this machine's addresses in this order: on the route to `remote` (a list of dialable
// addresses; NULL: the internet), on the routes to the internet, on interfaces. No packet is sent.
// Empty: there is only loopback.
void own_hosts_find(const char *remote, bool only_v4, own_hosts *out);

#endif
