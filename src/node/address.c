#include "node/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool port_read(const char *text, bool zero, uint16_t *port) {
    if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 5) return false;
    unsigned long value = strtoul(text, NULL, 10);
    *port = (uint16_t)value;
    return value <= UINT16_MAX && (value > 0 || zero);
}

// Whether other machines cannot use the address; `error` says why.
static bool scope_fail(const char *what, const char *text, const char *host, braid_error *error) {
    const char *scope = strchr(host, '%');
    if (!scope && !(strchr(host, ':') && address_kind_of(host) == ADDRESS_LINK_LOCAL)) return false;
    if (scope)
        braid_fail(error, BRAID_ARGUMENT, "%s\"%s\": %s names an interface of one machine, and other machines cannot use it; give an address without it, not a link-local one (fe80::)", what,
                   text, scope);
    else
        braid_fail(error, BRAID_ARGUMENT, "%s\"%s\": a link-local address (fe80::) belongs to one interface of one machine, and others cannot dial it; give another address of that machine",
                   what, text);
    return true;
}

static void address_fail(const char *what, const char *text, const char *colon, const char *like, braid_error *error) {
    const char *port = colon ? colon + 1 : "";
    bool large = *port && strspn(port, "0123456789") == strlen(port) && strtoul(port, NULL, 10) > UINT16_MAX;
    if (large) braid_fail(error, BRAID_ARGUMENT, "%s\"%s\": its port, %s, is more than %d", what, text, port, UINT16_MAX);
    else braid_fail(error, BRAID_ARGUMENT, "%s\"%s\"; write host:port, as in %s", what, text, like);
}

// Cuts `text` at the colon before its port. `colon` is NULL when there is no port.
static bool host_read(const char *text, char *host, const char **colon) {
    const char *begin = text, *end;
    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        if (!end || (end[1] && end[1] != ':')) return false;
        *colon = end[1] ? end + 1 : NULL;
    } else {
        *colon = strchr(text, ':');
        if (*colon && strchr(*colon + 1, ':')) return false;  // an IPv6 number needs its brackets
        end = *colon ? *colon : text + strlen(text);
    }
    size_t length = (size_t)(end - begin);
    if (length >= WIRE_MAX_ADDRESS) return false;
    memcpy(host, begin, length);
    host[length] = 0;
    return strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:*%") == length;
}

static bool split(const char *text, bool zero, char *host, uint16_t *port, braid_error *error) {
    char own_host[WIRE_MAX_ADDRESS];
    uint16_t own_port;
    const char *colon = NULL;
    bool good = host_read(text, host ? host : own_host, &colon) && *(host ? host : own_host) && colon &&
                port_read(colon + 1, zero, port ? port : &own_port);
    if (!good) address_fail("no address: ", text, colon, "192.0.2.7:4711 or [2001:db8::7]:4711", error);
    return good && !scope_fail("no address: ", text, host ? host : own_host, error);
}

bool address_split(const char *text, char *host, uint16_t *port, braid_error *error) { return split(text, false, host, port, error); }

bool address_split_public(const char *text, char *host, uint16_t *port, braid_error *error) { return split(text, true, host, port, error); }

bool address_split_listen(const char *text, char *host, uint16_t *port, braid_error *error) {
    const char *colon = NULL;
    *port = 0;
    bool good = host_read(text, host, &colon) && (!colon || port_read(colon + 1, true, port));
    if (!good) address_fail("cannot listen on ", text, colon, "0.0.0.0:4711 or [::]:4711", error);
    return good && !scope_fail("cannot listen on ", text, host, error);
}

bool address_join(const char *host, uint16_t port, char out[WIRE_MAX_ADDRESS]) {
    const char *format = strchr(host, ':') ? "[%s]:%u" : "%s:%u";
    return snprintf(out, WIRE_MAX_ADDRESS, format, host, (unsigned)port) < WIRE_MAX_ADDRESS;
}

bool address_is_wildcard_v4(const char *host) { return strcmp(host, "0.0.0.0") == 0; }

bool address_is_wildcard(const char *host) { return !*host || strcmp(host, "*") == 0 || address_is_wildcard_v4(host) || strcmp(host, "::") == 0; }

bool address_list_add(char list[WIRE_MAX_ADDRESS], const char *host, uint16_t port) {
    char one[WIRE_MAX_ADDRESS];
    size_t length = strlen(list);
    if (!address_join(host, port, one) || length + (length > 0) + strlen(one) >= WIRE_MAX_ADDRESS) return false;
    if (length > 0) strcpy(list + length, ",");
    strcat(list, one);
    return true;
}

bool address_list_next(const char **rest, char out[WIRE_MAX_ADDRESS]) {
    size_t length = strcspn(*rest, ",");
    if (!**rest || length >= WIRE_MAX_ADDRESS) return false;
    memcpy(out, *rest, length);
    out[length] = 0;
    *rest += length;
    if (**rest) (*rest)++;
    return true;
}

bool address_list_check(const char *list, braid_error *error) {
    char one[WIRE_MAX_ADDRESS];
    size_t length = strlen(list);
    if (length == 0 || list[length - 1] == ',') return address_split("", NULL, NULL, error);
    for (const char *rest = list; *rest;)
        if (!address_list_next(&rest, one) || !address_split(one, NULL, NULL, error)) return false;
    return true;
}

static address_kind kind_of_v4(const struct in_addr *number) {
    uint32_t n = ntohl(number->s_addr);
    return n == 0 ? ADDRESS_UNSPECIFIED : n >> 24 == 127 ? ADDRESS_LOOPBACK : n >> 16 == 0xa9fe ? ADDRESS_LINK_LOCAL : ADDRESS_NUMBER;
}

static address_kind kind_of_v6(const struct in6_addr *number) {
    struct in_addr mapped;
    if (IN6_IS_ADDR_V4MAPPED(number)) {
        memcpy(&mapped, number->s6_addr + 12, sizeof mapped);
        return kind_of_v4(&mapped);
    }
    return IN6_IS_ADDR_UNSPECIFIED(number) ? ADDRESS_UNSPECIFIED : IN6_IS_ADDR_LOOPBACK(number) ? ADDRESS_LOOPBACK : IN6_IS_ADDR_LINKLOCAL(number) ? ADDRESS_LINK_LOCAL : ADDRESS_NUMBER;
}

address_kind address_kind_of(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1) return kind_of_v4(&four);
    return inet_pton(AF_INET6, host, &six) == 1 ? kind_of_v6(&six) : ADDRESS_NAME;
}

static bool number_is_local(const struct sockaddr *to) {
    if (to->sa_family == AF_INET) return kind_of_v4(&((const struct sockaddr_in *)(const void *)to)->sin_addr) == ADDRESS_LOOPBACK;
    return to->sa_family == AF_INET6 && kind_of_v6(&((const struct sockaddr_in6 *)(const void *)to)->sin6_addr) == ADDRESS_LOOPBACK;
}

static bool name_is_local(const char *name) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(name, NULL, &hints, &found) != 0) return false;
    bool local = found != NULL;
    for (const struct addrinfo *it = found; it; it = it->ai_next) local = local && number_is_local(it->ai_addr);
    freeaddrinfo(found);
    return local;
}

bool address_list_is_local(const char *list) {
    char one[WIRE_MAX_ADDRESS], host[WIRE_MAX_ADDRESS];
    for (const char *rest = list; address_list_next(&rest, one);) {
        if (!address_split(one, host, NULL, NULL)) continue;
        address_kind kind = address_kind_of(host);
        if (kind == ADDRESS_LOOPBACK || (kind == ADDRESS_NAME && name_is_local(host))) return true;
    }
    return false;
}

bool address_beside(const char *listen, const char *known, char own_listen[WIRE_MAX_ADDRESS], char own_known[WIRE_MAX_ADDRESS]) {
    char host[WIRE_MAX_ADDRESS], known_host[WIRE_MAX_ADDRESS];
    uint16_t port, known_port = 0;
    own_known[0] = 0;
    if (!address_split_listen(listen ? listen : "*", host, &port, NULL) || (known && !address_split_public(known, known_host, &known_port, NULL))) return false;
    bool next = port > 0 && port < UINT16_MAX && known_port > 0 && known_port < UINT16_MAX;
    if (known && !address_join(known_host, next ? (uint16_t)(known_port + 1) : 0, own_known)) return false;
    return address_join(*host ? host : "*", next ? (uint16_t)(port + 1) : 0, own_listen);
}

static bool socket_local(int fd, const struct addrinfo *to, char host[WIRE_MAX_ADDRESS]) {
    struct sockaddr_storage local;
    socklen_t size = sizeof local;
    return connect(fd, to->ai_addr, to->ai_addrlen) == 0 && getsockname(fd, (struct sockaddr *)&local, &size) == 0 &&
           getnameinfo((struct sockaddr *)&local, size, host, WIRE_MAX_ADDRESS, NULL, 0, NI_NUMERICHOST) == 0;
}

bool address_local_towards(const char *remote, char host[WIRE_MAX_ADDRESS]) {
    char name[WIRE_MAX_ADDRESS], service[8];
    uint16_t port;
    if (!address_split(remote, name, &port, NULL)) return false;
    snprintf(service, sizeof service, "%u", (unsigned)port);
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    if (getaddrinfo(name, service, &hints, &found) != 0) return false;
    bool good = false;
    for (struct addrinfo *it = found; it && !good; it = it->ai_next) {
        int fd = socket(it->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        good = socket_local(fd, it, host);
        close(fd);
    }
    freeaddrinfo(found);
    return good;
}
