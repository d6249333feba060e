#define _GNU_SOURCE
#include "node/own_address.h"

#include "node/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

// Two root servers of the domain name system: routes to them are routes to the internet.
// Documentation addresses may be black-holed or, in test networks, in use.
static const char internet_v4[] = "198.41.0.4:53", internet_v6[] = "[2001:503:ba3e::2:30]:53";

bool own_hosts_add(own_hosts *hosts, const char *host, bool only_v4) {
    address_kind kind = address_kind_of(host);
    if (hosts->count == OWN_MOST_ADDRESSES || kind == ADDRESS_LOOPBACK || kind == ADDRESS_LINK_LOCAL || kind == ADDRESS_UNSPECIFIED) return false;
    if (only_v4 && strchr(host, ':')) return false;
    for (uint32_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->host[i], host) == 0) return false;
    if (strlen(host) >= sizeof hosts->host[0]) return false;
    strcpy(hosts->host[hosts->count++], host);
    return true;
}

// Whether container or virtual machine software made this bridge or port. Its addresses have no
// meaning outside this machine.
static bool is_bridge(const char *name) {
    static const char *const prefixes[] = {"docker", "br-", "veth", "virbr", "vmnet", "vboxnet", "cni", "flannel", "cali", "lxc", "lxd", "podman", "kube", "cilium", "weave", "vnet"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

enum { RANK_V4, RANK_V6, RANK_SITE, RANKS };

static int rank_of(const char *host) {
    if (!strchr(host, ':')) return RANK_V4;
    return host[0] == 'f' && (host[1] == 'c' || host[1] == 'd') ? RANK_SITE : RANK_V6;  // fc00::/7, RFC 4193
}

static void add_ranked(own_hosts *hosts, const own_interface *found, size_t count, bool bridges, bool only_v4) {
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < count; i++)
            if (found[i].up && is_bridge(found[i].name) == bridges && rank_of(found[i].host) == rank) own_hosts_add(hosts, found[i].host, only_v4);
}

void own_hosts_add_interfaces(own_hosts *hosts, const own_interface *found, size_t count, bool only_v4) {
    add_ranked(hosts, found, count, false, only_v4);
    if (hosts->count == 0) add_ranked(hosts, found, count, true, only_v4);
}

static bool interface_read(const struct ifaddrs *from, own_interface *out) {
    if (!from->ifa_addr) return false;
    int family = from->ifa_addr->sa_family;
    const void *number = family == AF_INET ? (const void *)&((const struct sockaddr_in *)(const void *)from->ifa_addr)->sin_addr
                                           : (const void *)&((const struct sockaddr_in6 *)(const void *)from->ifa_addr)->sin6_addr;
    *out = (own_interface){.up = (from->ifa_flags & IFF_UP) && (from->ifa_flags & IFF_RUNNING) && !(from->ifa_flags & IFF_LOOPBACK)};
    snprintf(out->name, sizeof out->name, "%s", from->ifa_name);
    return (family == AF_INET || family == AF_INET6) && inet_ntop(family, number, out->host, sizeof out->host);
}

static void add_of_system(own_hosts *hosts, bool only_v4) {
    static const size_t most = OWN_MOST_INTERFACES;
    own_interface found[OWN_MOST_INTERFACES];
    struct ifaddrs *all = NULL;
    size_t count = 0;
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *it = all; it && count < most; it = it->ifa_next) count += interface_read(it, &found[count]);
    freeifaddrs(all);
    own_hosts_add_interfaces(hosts, found, count, only_v4);
}

static void add_towards(own_hosts *hosts, const char *remote, bool only_v4) {
    char host[WIRE_MAX_ADDRESS];
    if (address_local_towards(remote, host)) own_hosts_add(hosts, host, only_v4);
}

void own_hosts_find(const char *remote, bool only_v4, own_hosts *out) {
    char one[WIRE_MAX_ADDRESS];
    *out = (own_hosts){.count = 0};
    for (const char *rest = remote; rest && address_list_next(&rest, one);) add_towards(out, one, only_v4);
    add_towards(out, internet_v4, only_v4);
    add_towards(out, internet_v6, only_v4);
    add_of_system(out, only_v4);
}
