// Keys with their limits, and the defence against web pages of other origins: a browser sends
// requests to loopback addresses for any page that it shows.
#include "http/inside.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const char *header(const exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

// ---- origins

// "127.0.0.1:8080" of "http://127.0.0.1:8080".
static const char *host_of(const char *origin) {
    const char *host = strstr(origin, "://");
    return host ? host + 3 : origin;
}

static bool origin_allowed(const http_server *s, const char *origin, const char *host) {
    if (host && strcmp(host_of(origin), host) == 0) return true;
    for (size_t i = 0; i < s->origin_count; i++)
        if (strcmp(s->origins[i], "*") == 0 || strcmp(s->origins[i], origin) == 0) return true;
    return false;
}

// A name that another site resolves to a loopback address (DNS rebinding) is none of these.
static bool host_is_local(const char *host) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    if (!host) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(host, names[i], n) == 0 && (host[n] == 0 || host[n] == ':')) return true;
    }
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.:") == strlen(host);
}

static bool check_origin(exchange *x) {
    const http_server *s = x->server;
    const char *origin = header(x, MHD_HTTP_HEADER_ORIGIN), *host = header(x, MHD_HTTP_HEADER_HOST);
    if (s->loopback && s->key_count == 0 && !host_is_local(host)) {
        reply_error(x, 403, NULL, "wrong_host", "the name in the Host header is not one of this server");
        return false;
    }
    if (!origin) return true;
    if (!origin_allowed(s, origin, host)) {
        reply_error(x, 403, NULL, "wrong_origin", "web pages of this origin may not call the API; --origin allows one");
        return false;
    }
    exchange_header_set(x, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    exchange_header_set(x, MHD_HTTP_HEADER_VARY, "Origin");
    return true;
}

static void answer_preflight(exchange *x) {
    exchange_header_set(x, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS");
    exchange_header_set(x, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type");
    reply_text(x, 204, NULL, "");
}

// ---- keys

// Takes the same time wherever the two differ.
static bool same_secret(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    unsigned char difference = n != m;
    for (size_t i = 0; i < m; i++) difference |= (unsigned char)(b[i] ^ (n ? a[i % n] : 0));
    return difference == 0;
}

static int find_key(const http_server *s, const char *given) {
    int found = -1;
    for (size_t i = 0; i < s->key_count; i++)
        if (same_secret(given, s->keys[i].key.secret)) found = (int)i;
    return found;
}

static bool check_key(exchange *x) {
    const http_server *s = x->server;
    const char *given = header(x, MHD_HTTP_HEADER_AUTHORIZATION);
    bool bearer = given && strncasecmp(given, "Bearer ", 7) == 0;
    while (bearer && given[7] == ' ') given++;
    if (bearer && strlen(given + 7) <= HTTP_MAX_SECRET_BYTES) x->key = find_key(s, given + 7);
    if (x->key >= 0) return true;
    exchange_header_set(x, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    reply_error(x, 401, NULL, "invalid_api_key",
                bearer ? "the key is not one of this server" : "this server needs a key: Authorization: Bearer KEY");
    return false;
}

static bool from_loopback(const exchange *x) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || !info->client_addr) return false;
    const struct sockaddr *a = info->client_addr;
    if (a->sa_family == AF_INET)
        return ((const unsigned char *)&((const struct sockaddr_in *)(const void *)a)->sin_addr)[0] == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six);
}

bool access_allows(exchange *x) {
    if (!check_origin(x)) return false;
    if (strcmp(x->method, MHD_HTTP_METHOD_OPTIONS) == 0) {
        answer_preflight(x);
        return false;
    }
    bool open = x->server->key_count == 0 || x->route->access == ROUTE_OPEN ||
                (x->route->access == ROUTE_METRICS && from_loopback(x));
    if (open) return true;
    if (!check_key(x)) return false;
    unsigned wait = x->route->text ? key_take_place(x) : 0;
    if (wait == 0) return true;
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%u", wait);
    exchange_header_set(x, "Retry-After", seconds);
    reply_error(x, 429, NULL, "rate_limit_exceeded", "the key '%s' is at its limit; try again in %u s",
                x->server->keys[x->key].key.label, wait);
    return false;
}
