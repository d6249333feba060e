// HTTP/1.0, so that the server sends no chunks and closes the connection (RFC 1945).
#include "cli/http_get.h"

#include "format/json.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { REQUEST_BYTES = 2048 };

static int connect_to(const struct addrinfo *found) {
    const struct timeval limit = {.tv_sec = HTTP_GET_SECONDS};
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
        int reason = errno;
        close(fd);
        errno = reason;
    }
    return -1;
}

static braid_err open_connection(const http_get_request *r, int *fd, braid_error *error) {
    char port[8];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    snprintf(port, sizeof port, "%u", r->port);
    int code = getaddrinfo(r->host, port, &hints, &found);
    if (code != 0)
        return braid_fail(error, BRAID_NETWORK, "cannot find %.200s: %s; check the address", r->host,
                          gai_strerror(code));
    *fd = connect_to(found);
    int reason = errno;
    freeaddrinfo(found);
    if (*fd >= 0) return BRAID_OK;
    return braid_fail(error, BRAID_NETWORK,
                      "nothing answers at %.200s:%s (%s); give the address that braid serve or --page has printed",
                      r->host, port, strerror(reason));
}

static braid_err send_request(const http_get_request *r, int fd, braid_error *error) {
    char text[REQUEST_BYTES];
    bool key = r->key && *r->key;
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nHost: %s:%u\r\n%s%s%s\r\n", r->path, r->host, r->port,
                     key ? "Authorization: Bearer " : "", key ? r->key : "", key ? "\r\n" : "");
    if (n < 0 || (size_t)n >= sizeof text) return braid_fail(error, BRAID_LIMIT, "the address or the key is too long");
    for (size_t sent = 0; sent < (size_t)n;) {
        ssize_t k = send(fd, text + sent, (size_t)n - sent, MSG_NOSIGNAL);
        if (k <= 0) return braid_fail(error, BRAID_NETWORK, "the connection broke: %s", strerror(errno));
        sent += (size_t)k;
    }
    return BRAID_OK;
}

static braid_err receive(int fd, char **out, size_t *length, braid_error *error) {
    size_t room = 65536;
    char *text = malloc(room + 1);
    *length = 0;
    while (text) {
        ssize_t n = recv(fd, text + *length, room - *length, 0);
        if (n == 0) break;
        if (n < 0 || *length + (size_t)n >= HTTP_GET_MAX_BYTES) {
            free(text);
            return braid_fail(error, BRAID_NETWORK, "the answer broke off: %s",
                              n < 0 ? strerror(errno) : "it has more than 8 MiB");
        }
        *length += (size_t)n;
        if (*length < room) continue;
        char *larger = realloc(text, (room *= 2) + 1);
        if (!larger) free(text);
        text = larger;
    }
    if (!text) return braid_fail(error, BRAID_MEMORY, "no memory for the answer");
    text[*length] = 0;
    *out = text;
    return BRAID_OK;
}

braid_err http_get_parse(const char *answer, size_t length, unsigned *status, size_t *body, braid_error *error) {
    const char *end = strstr(answer, "\r\n\r\n");
    bool begins = length > 12 && memcmp(answer, "HTTP/1.", 7) == 0 && answer[8] == ' ';
    if (!end || !begins || strspn(answer + 9, "0123456789") != 3)
        return braid_fail(error, BRAID_NETWORK,
                          "the answer is not HTTP; is this the address of the page? (https is not supported)");
    *status = (unsigned)strtoul(answer + 9, NULL, 10);
    *body = (size_t)(end - answer) + 4;
    return BRAID_OK;
}

// The message of an error in OpenAI's shape.
static braid_err refused(unsigned status, const char *body, size_t length, braid_error *error) {
    json *doc = NULL;
    braid_error ignored;
    const char *message = NULL;
    if (json_parse(body, length, &doc, &ignored) == BRAID_OK)
        message = json_string(json_member(doc, json_member(doc, json_root(doc), "error"), "message"));
    braid_err err =
        braid_fail(error, BRAID_STATE, "the server answers %u: %.300s", status, message ? message : "no message");
    json_free(doc);
    return err;
}

braid_err http_get(const http_get_request *request, char **body, size_t *length, braid_error *error) {
    int fd = -1;
    char *text = NULL;
    size_t begin = 0;
    unsigned status = 0;
    braid_err err = open_connection(request, &fd, error);
    if (!err) err = send_request(request, fd, error);
    if (!err) err = receive(fd, &text, length, error);
    if (fd >= 0) close(fd);
    if (!err) err = http_get_parse(text, *length, &status, &begin, error);
    if (!err) *length -= begin;
    if (!err && status != 200) err = refused(status, text + begin, *length, error);
    if (err) {
        free(text);
        return err;
    }
    memmove(text, text + begin, *length + 1);
    *body = text;
    return BRAID_OK;
}
