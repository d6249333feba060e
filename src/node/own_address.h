// Where other machines may reach this one: by the route that packets to the internet take, and by
// its interfaces. A router's outer address is not known here (--public-address names it).
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

// Adds a host unless it is there already, useless to other machines (loopback, link-local,
// unspecified) or of no use to the listener (IPv6 where it takes IPv4 only). False: it was not
// added.
bool own_hosts_add(own_hosts *hosts, const char *host, bool only_v4);
// Adds the addresses of interfaces that are up: IPv4 first, then IPv6 of the internet, then IPv6 of
// the site; those of bridges to containers and virtual machines only where there is nothing else.
void own_hosts_add_interfaces(own_hosts *hosts, const own_interface *found, size_t count, bool only_v4);
// This machine's. The one that packets to `remote` leave from comes first (a list of addresses that
// can be dialled; NULL: the internet), then those of the routes to the internet, then the
// interfaces'. No packet is sent. Empty: there is only loopback.
void own_hosts_find(const char *remote, bool only_v4, own_hosts *out);

#endif
