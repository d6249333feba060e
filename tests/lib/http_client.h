// A client of one request a connection, for tests of the HTTP server.
#ifndef BRAID_TEST_HTTP_CLIENT_H
#define BRAID_TEST_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct http_answer {
    int status;  // 0: the server closed without an answer
    char *head;  // owned, 0-terminated; `body` points into the same memory
    char *body;  // without the frames of chunked coding
    size_t length;
} http_answer;

static inline int http_connect(uint16_t port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) abort();
    return fd;
}

static inline bool http_send(int fd, const char *text, size_t length) {
    for (size_t sent = 0; sent < length;) {
        ssize_t n = send(fd, text + sent, length - sent, MSG_NOSIGNAL);
        if (n <= 0) return false;
        sent += (size_t)n;
    }
    return true;
}

// `headers`: more of them, each ended by "\r\n".
static inline bool http_send_request(int fd, const char *method, const char *path, const char *headers,
                                     const char *body) {
    size_t room = strlen(path) + strlen(headers) + strlen(body) + 256;
    char *text = malloc(room);
    if (!text) abort();
    int n = snprintf(text, room, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s", method, path, headers);
    if (body[0])
        n += snprintf(text + n, room - (size_t)n, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                      strlen(body));
    n += snprintf(text + n, room - (size_t)n, "\r\n%s", body);
    bool sent = http_send(fd, text, (size_t)n);
    free(text);
    return sent;
}

// In place; returns the new length.
static inline size_t http_unchunk(char *body, size_t length) {
    size_t from = 0, to = 0;
    while (from < length) {
        char *end;
        size_t n = strtoul(body + from, &end, 16);
        from = (size_t)(end - body) + 2;
        if (n == 0 || from + n > length) break;
        memmove(body + to, body + from, n);
        to += n;
        from += n + 2;
    }
    body[to] = 0;
    return to;
}

static inline http_answer http_receive(int fd) {
    http_answer a = {0};
    size_t length = 0, capacity = 0;
    for (;;) {
        if (length + 65536 > capacity) a.head = realloc(a.head, (capacity = 2 * capacity + 131072) + 1);
        if (!a.head) abort();
        ssize_t n = recv(fd, a.head + length, 65536, 0);
        if (n <= 0) break;
        length += (size_t)n;
    }
    a.head[length] = 0;
    char *split = strstr(a.head, "\r\n\r\n");
    if (!split || sscanf(a.head, "HTTP/1.1 %d", &a.status) != 1) return a;
    split[2] = 0;
    a.body = split + 4;
    a.length = length - (size_t)(a.body - a.head);
    if (strcasestr(a.head, "\r\ntransfer-encoding: chunked")) a.length = http_unchunk(a.body, a.length);
    return a;
}

static inline http_answer http_ask_with(uint16_t port, const char *method, const char *path, const char *headers,
                                        const char *body) {
    int fd = http_connect(port);
    http_send_request(fd, method, path, headers, body);
    http_answer a = http_receive(fd);
    close(fd);
    return a;
}

static inline http_answer http_post(uint16_t port, const char *path, const char *body) {
    return http_ask_with(port, "POST", path, "", body);
}

static inline http_answer http_get(uint16_t port, const char *path) { return http_ask_with(port, "GET", path, "", ""); }

static inline void http_answer_free(http_answer *a) {
    free(a->head);
    *a = (http_answer){0};
}

#endif
