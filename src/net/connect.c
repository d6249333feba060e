#include "net/inside.h"
#include "net/threads.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// --- addresses

static bool read_port(const char *text, uint16_t *port) {
    unsigned value = 0;
    if (*text == '\0' || strlen(text) > 5) return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') return false;
        value = value * 10 + (unsigned)(*text - '0');
    }
    *port = (uint16_t)value;
    return value > 0 && value <= UINT16_MAX;
}

bool connect_split(const char *address, char host[WIRE_MAX_ADDRESS], uint16_t *port) {
    if (strlen(address) >= WIRE_MAX_ADDRESS) return false;
    const char *colon = strrchr(address, ':'), *end = colon;
    if (colon == NULL || !read_port(colon + 1, port)) return false;
    if (*address == '[') {
        address++;
        if (--end <= address || *end != ']') return false;
    } else if (memchr(address, ':', (size_t)(end - address)) != NULL) {
        return false;  // an IPv6 number needs brackets, otherwise its end and the port are ambiguous
    }
    if (end == address) return false;
    memcpy(host, address, (size_t)(end - address));
    host[end - address] = '\0';
    return true;
}

bool connect_split_list(const char *list, char first[WIRE_MAX_ADDRESS], char rest[WIRE_MAX_ADDRESS]) {
    char one[WIRE_MAX_ADDRESS], host[WIRE_MAX_ADDRESS];
    uint16_t port;
    size_t length = strcspn(list, ",");
    if (strlen(list) >= WIRE_MAX_ADDRESS) return false;
    memcpy(first, list, length);
    first[length] = '\0';
    strcpy(rest, list[length] == ',' ? list + length + 1 : "");
    for (const char *at = list;; at += length + 1) {
        length = strcspn(at, ",");
        memcpy(one, at, length);
        one[length] = '\0';
        if (!connect_split(one, host, &port)) return false;
        if (at[length] == '\0') return true;
    }
}

static bool read_number(const char *host, uint16_t port, struct sockaddr_storage *out) {
    return uv_ip4_addr(host, port, (struct sockaddr_in *)out) == 0 ||
           uv_ip6_addr(host, port, (struct sockaddr_in6 *)out) == 0;
}

uint16_t connect_port_of(const struct sockaddr_storage *s) {
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    memcpy(&four, s, sizeof four);
    memcpy(&six, s, sizeof six);
    return ntohs(s->ss_family == AF_INET6 ? six.sin6_port : four.sin_port);
}

// --- dialing: the addresses of a name in turn

static void connect_next(link *l);

static void on_attempt_closed(uv_handle_t *handle) {
    link *l = handle->data;
    l->handles--;
    l->tcp_open = false;
    if (link_is_open(l)) connect_next(l);
    link_release(l);
}

static void attempt_failed(link *l, int status) {
    // a missing route gives no information about the peer
    bool no_route = status == UV_ENETUNREACH || status == UV_EADDRNOTAVAIL || status == UV_EAFNOSUPPORT;
    if (status == UV_ECONNREFUSED) l->dial.some_refused = true;
    else if (!no_route) l->dial.all_refused = false;
    if (l->dial.next_address != NULL) {
        uv_close((uv_handle_t *)&l->tcp, on_attempt_closed);
        return;
    }
    l->refused = l->dial.all_refused && l->dial.some_refused;
    if (l->refused) {
        link_fall(l, "%s refused the connection: is that peer running, and is the port right?", l->address);
    } else {
        link_fall(l, "%s cannot be reached: %s", l->address, uv_strerror(status));
    }
}

static void on_connect(uv_connect_t *request, int status) {
    link *l = request->data;
    if (l->fallen || uv_is_closing((uv_handle_t *)&l->tcp)) return;
    if (status < 0) {
        attempt_failed(l, status);
    } else {
        link_connected(l);
    }
}

static void connect_to(link *l, const struct sockaddr *to) {
    int status = uv_tcp_init(l->net->loop, &l->tcp);
    if (status < 0) {
        link_fall(l, "no connection to %s: %s", l->address, uv_strerror(status));
        return;
    }
    l->tcp.data = l;
    l->tcp_open = true;
    l->handles++;
    l->dial.connect.data = l;
    status = uv_tcp_connect(&l->dial.connect, &l->tcp, to, on_connect);
    if (status < 0) attempt_failed(l, status);
}

static uint64_t attempt_ms(const link *l) { return l->dial.next_address != NULL || *l->dial.other_addresses != '\0' ? NET_ATTEMPT_MS : NET_CONNECT_MS; }

static void connect_next(link *l) {
    const struct addrinfo *a = l->dial.next_address;
    l->dial.next_address = a->ai_next;
    link_set_timer(l, attempt_ms(l));
    connect_to(l, a->ai_addr);
}

void connect_timed_out(link *l) {
    if (l->dial.next_address == NULL) {
        l->dial.all_refused = false;
        link_fall(l, "no answer from %s within %d s", link_name(l), NET_CONNECT_MS / 1000);
        return;
    }
    l->dial.all_refused = false;
    if (!uv_is_closing((uv_handle_t *)&l->tcp)) uv_close((uv_handle_t *)&l->tcp, on_attempt_closed);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses) {
    link *l = request->data;
    l->dial.resolving = false;
    l->handles--;
    l->dial.addresses = addresses;
    if (link_is_open(l) && (status < 0 || addresses == NULL)) {
        l->dial.all_refused = false;
        link_fall(l, "the name in %s is not known: %s", l->address, uv_strerror(status));
    } else if (link_is_open(l)) {
        l->dial.next_address = addresses;
        connect_next(l);
    }
    link_release(l);
}

static void resolve(link *l, const char *host, uint16_t port) {
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    braid_error error;
    if (threads_ready(&error)) {
        link_fall(l, "the name in %s cannot be looked up: %s", l->address, error.text);
        return;
    }
    l->dial.resolve.data = l;
    int status = uv_getaddrinfo(l->net->loop, &l->dial.resolve, on_resolved, host, service, &hints);
    if (status < 0) {
        link_fall(l, "the name in %s cannot be looked up: %s", l->address, uv_strerror(status));
        return;
    }
    l->dial.resolving = true;
    l->handles++;
}

void connect_begin(link *l) {
    char host[WIRE_MAX_ADDRESS];
    uint16_t port = 0;
    bool ok = connect_split(l->address, host, &port);
    BRAID_ASSERT(ok);  // net_dial validated it
    link_set_timer(l, attempt_ms(l));
    if (read_number(host, port, &l->dial.numeric)) {
        connect_to(l, (const struct sockaddr *)&l->dial.numeric);
    } else {
        resolve(l, host, port);
    }
}

// --- accepting

// The oldest unfinished connection is closed, so that idle connections cannot exhaust the places.
static void make_room(net *n) {
    if (n->accepted < n->config.max_handshakes) return;
    link *oldest = NULL;
    for (link *l = n->all; l != NULL; l = l->next) {
        bool half_open = !l->dialed && l->state != LINK_UP && l->state != LINK_DEAD;
        if (half_open && (oldest == NULL || l->opened_event < oldest->opened_event)) oldest = l;
    }
    if (oldest != NULL) link_abandon(oldest);
}

static void on_connection(uv_stream_t *listener, int status) {
    net *n = listener->data;
    if (status < 0) {
        n->totals.failed++;
        if (!n->accept_failed && n->callbacks.turned_away) {
            char reason[NET_MAX_REASON];
            snprintf(reason, sizeof reason, "connections cannot be accepted: %s; existing links stay", uv_strerror(status));
            n->callbacks.turned_away(n->callbacks.context, "a peer", reason);
        }
        n->accept_failed = true;  // said once
        return;
    }
    make_room(n);
    link *l = link_new(n, false);
    if (l == NULL) return;
    status = uv_tcp_init(n->loop, &l->tcp);
    if (status == 0) {
        l->tcp.data = l;
        l->tcp_open = true;
        l->handles++;
        status = uv_accept(listener, (uv_stream_t *)&l->tcp);
    }
    if (status < 0) {
        link_fall(l, "a connection could not be accepted: %s", uv_strerror(status));
    } else {
        link_connected(l);
    }
}

// --- listening

static void on_listener_closed(uv_handle_t *handle) {
    net *n = handle->data;
    free(handle);
    n->handles--;
    net_free_if_closed(n);
}

void connect_close_listener(net *n) {
    if (n->listener == NULL) return;
    uv_close((uv_handle_t *)n->listener, on_listener_closed);
    n->listener = NULL;
    n->port = 0;
}

static int listen_at(net *n, const struct sockaddr *at) {
    n->listener = malloc(sizeof *n->listener);
    if (n->listener == NULL) return UV_ENOMEM;
    int status = uv_tcp_init(n->loop, n->listener);
    if (status < 0) {
        free(n->listener);
        n->listener = NULL;
        return status;
    }
    n->handles++;
    n->listener->data = n;
    struct sockaddr_storage bound = {0};
    int length = sizeof bound;
    status = uv_tcp_bind(n->listener, at, 0);
    if (status == 0) status = uv_listen((uv_stream_t *)n->listener, NET_BACKLOG, on_connection);
    if (status == 0) status = uv_tcp_getsockname(n->listener, (struct sockaddr *)&bound, &length);
    if (status < 0) {
        connect_close_listener(n);
        return status;
    }
    n->port = connect_port_of(&bound);
    return 0;
}

static int listen_everywhere(net *n, uint16_t port) {
    struct sockaddr_storage at;
    read_number("::", port, &at);  // accepts IPv4 too
    int status = listen_at(n, (const struct sockaddr *)&at);
    if (status != UV_EAFNOSUPPORT && status != UV_EADDRNOTAVAIL) return status;
    read_number("0.0.0.0", port, &at);  // a machine without IPv6
    return listen_at(n, (const struct sockaddr *)&at);
}

static int listen_by_name(net *n, const char *host, uint16_t port) {
    struct sockaddr_storage at;
    if (read_number(host, port, &at)) return listen_at(n, (const struct sockaddr *)&at);
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    uv_getaddrinfo_t request;
    int status = uv_getaddrinfo(n->loop, &request, NULL, host, service, &hints);
    if (status < 0) return status;
    status = listen_at(n, request.addrinfo->ai_addr);
    uv_freeaddrinfo(request.addrinfo);
    return status;
}

braid_err connect_listen(net *n, const char *host, uint16_t port, braid_error *error) {
    bool everywhere = *host == '\0' || strcmp(host, "*") == 0;
    int status = everywhere ? listen_everywhere(n, port) : listen_by_name(n, host, port);
    const char *where = everywhere ? "this machine" : host;
    switch (status) {
    case 0: return BRAID_OK;
    case UV_EADDRINUSE:
        return braid_fail(error, BRAID_NETWORK,
                          "port %u of %s is taken by another program: name another one, or 0 for any free one (`ss "
                          "-ltnp` shows which one)",
                          port, where);
    case UV_EACCES:
        return braid_fail(error, BRAID_NETWORK, "port %u may not be used by this user: name one above 1023", port);
    case UV_EADDRNOTAVAIL:
        return braid_fail(
            error, BRAID_NETWORK,
            "%s is not an address of this machine: name one of its addresses, or * for all (`ip address` shows them)", where);
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_AGAIN:
    case UV_EAI_FAIL:
        return braid_fail(error, BRAID_NETWORK,
                          "cannot listen on '%s': %s; write host:port with an address of this machine, as in "
                          "0.0.0.0:4711 or [::]:4711",
                          where, uv_strerror(status));
    default:
        return braid_fail(error, BRAID_NETWORK, "port %u of %s cannot be opened: %s", port, where, uv_strerror(status));
    }
}
