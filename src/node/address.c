#include "node/address.h"

#include <netdb.h>
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
    return good;
}

bool address_split(const char *text, char *host, uint16_t *port, braid_error *error) { return split(text, false, host, port, error); }

bool address_split_public(const char *text, char *host, uint16_t *port, braid_error *error) { return split(text, true, host, port, error); }

bool address_split_listen(const char *text, char *host, uint16_t *port, braid_error *error) {
    const char *colon = NULL;
    *port = 0;
    bool good = host_read(text, host, &colon) && (!colon || port_read(colon + 1, true, port));
    if (!good) address_fail("cannot listen on ", text, colon, "0.0.0.0:4711 or [::]:4711", error);
    return good;
}

bool address_join(const char *host, uint16_t port, char out[WIRE_MAX_ADDRESS]) {
    const char *format = strchr(host, ':') ? "[%s]:%u" : "%s:%u";
    return snprintf(out, WIRE_MAX_ADDRESS, format, host, (unsigned)port) < WIRE_MAX_ADDRESS;
}

bool address_is_wildcard(const char *host) {
    return !*host || strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
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
