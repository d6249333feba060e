// Whole requests, with their headers: the server over a fake service answers each with HTTP or closes
// the connection, and answers others all the time.
//
// The first byte of an input chooses its form. Even: the rest is sent as it is, then the sending side
// is shut down. Odd: the rest is the body of a proper request to one of the addresses.
#define _GNU_SOURCE
#include "fuzz.h"

#include "base/rng.h"
#include "fake_service.h"
#include "http/server.h"

#include "http_client.h"

#include <poll.h>
#include <string.h>

enum { REQUESTS_A_SERVER = 8192, REQUESTS_A_CHECK = 256, SECONDS = 20, QUIET_MS = 2 };

static const char *const paths[] = {
    "/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/tokenize", "/detokenize",
    "/api/chat",       "/api/generate",        "/api/embed",    "/api/show",
};

static const char *const examples[] = {
    "\0GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "\0GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: 00000000000000ff-3\r\n\r\n",
    "\0GET /v1/models/%66ake HTTP/1.0\r\nAuthorization: Bearer x\r\nOrigin: http://a.b\r\n\r\n",
    "\0POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\nExpect: "
    "100-continue\r\n\r\n{\"prompt\":\"a\"}",
    "\0POST /tokenize HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: "
    "chunked\r\n\r\nb\r\n{\"prompt\":1\r\n1\r\n}\r\n0\r\n\r\n",
    "\0OPTIONS /v1/swarm HTTP/1.1\r\nHost: 127.9\r\nOrigin: null\r\nConnection: keep-alive\r\n\r\nGET / "
    "HTTP/1.1\r\n\r\n",
    "\1{\"prompt\":\"ab\",\"max_tokens\":3,\"stream\":true}",
    "\3{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":2}",
    "\5{\"input\":\"hi\",\"max_output_tokens\":2}",
    "\7{\"input\":[[1,2],[3]]}",
    "\x0d{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":false}",
};
// with a zero byte at their beginning
static const size_t sent_as_they_are = 6;

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(83, number)};
    size_t i = rng_below(&r, sizeof examples / sizeof *examples);
    size_t length = i < sent_as_they_are ? 1 + strlen(examples[i] + 1) : strlen(examples[i]);
    if (length > capacity) length = capacity;
    memcpy(bytes, examples[i], length);
    return length;
}

static fake_service *fake;
static http_server *server;
static uint64_t requests;

// A new server from time to time has another port, so that closed connections do not use up all.
static uint16_t port_of_server(void) {
    static const char template[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    if (server && requests % REQUESTS_A_SERVER == 0) {
        http_server_free(server);
        service_free(&fake->base);
        server = NULL;
    }
    if (!server) {
        braid_error error;
        fake = fake_service_new("hello", template);
        const http_settings settings = {.service = &fake->base, .page = true, .max_body_bytes = 1 << 16};
        FUZZ_CHECK(http_server_new(&settings, &server, &error) == BRAID_OK);
    }
    return http_server_port(server);
}

// The first bytes of the answer; false: nothing came. `patient`: until the server closes; it hangs if
// it does not. Otherwise until it is quiet: libmicrohttpd 0.9.75 notices the end of an incomplete
// request only by its time limit if the end comes together with the bytes.
static bool read_answer(int fd, bool patient, char head[16]) {
    char rest[4096];
    size_t length = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    memset(head, 0, 16);
    for (;;) {
        bool more = poll(&p, 1, patient ? SECONDS * 1000 : QUIET_MS) > 0;
        FUZZ_CHECK(more || !patient);
        ssize_t n = more ? recv(fd, rest, sizeof rest, 0) : 0;
        if (n <= 0) return length > 0;
        for (ssize_t i = 0; i < n && length < 15; i++) head[length++] = rest[i];
    }
}

static void close_hard(int fd) {
    const struct linger off = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
    close(fd);
}

static void send_raw(uint16_t port, const uint8_t *data, size_t size) {
    char head[16];
    int fd = http_connect(port);
    http_send(fd, (const char *)data, size);
    shutdown(fd, SHUT_WR);
    if (read_answer(fd, false, head)) FUZZ_CHECK(strncmp(head, "HTTP/1.", 7) == 0);
    close_hard(fd);
}

static void send_body(uint16_t port, uint32_t path, const uint8_t *data, size_t size) {
    char head[16], request[256];
    int fd = http_connect(port);
    int n = snprintf(request, sizeof request,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                     paths[path % (sizeof paths / sizeof *paths)], size);
    http_send(fd, request, (size_t)n);
    http_send(fd, (const char *)data, size);
    FUZZ_CHECK(read_answer(fd, true, head));
    FUZZ_CHECK(strncmp(head, "HTTP/1.1 ", 9) == 0 && strncmp(head + 9, "500", 3) != 0);
    close_hard(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    uint16_t port = port_of_server();
    if (data[0] % 2 == 0)
        send_raw(port, data + 1, size - 1);
    else
        send_body(port, data[0] / 2, data + 1, size - 1);
    if (requests++ % REQUESTS_A_CHECK == 0) {
        http_answer a = http_get(port, "/health");
        FUZZ_CHECK(a.status == 200);
        http_answer_free(&a);
    }
    return 0;
}
