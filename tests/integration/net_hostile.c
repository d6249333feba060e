// Input of hostile peers: it can close their own connection and nothing else.
#include "net_harness.h"

#include "net/tls.h"
#include "seed.h"
#include "wire/frame.h"
#include "wire/handshake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHORT_MS = 1000, FEW = 4 };

static uv_loop_t loop;
static tester victim, friend;

static int setup_with(uint32_t handshake_ms) {
    uv_loop_init(&loop);
    victim = (tester){0};
    net_config config = tester_config(&victim);
    config.handshake_ms = handshake_ms;
    config.max_handshakes = FEW;
    config.max_payload = 1 << 20;
    tester_start_with(&victim, &loop, &config);
    tester_start(&friend, &loop);
    return 0;
}

static int setup(void **state) {
    (void)state;
    return setup_with(0);
}

static int setup_hasty(void **state) {
    (void)state;
    return setup_with(SHORT_MS);
}

static int teardown(void **state) {
    (void)state;
    // an honest peer can still connect afterwards
    harness_link(&friend, &victim);
    tester_stop(&victim);
    tester_stop(&friend);
    harness_finish(&loop);
    tester_end(&victim);
    tester_end(&friend);
    return 0;
}

static int raw_connect(void) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(net_port(victim.net)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static void raw_send(int fd, const void *bytes, size_t count) {
    ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;  // the victim may have closed it already
}

static void test_random_bytes(void **state) {
    (void)state;
    rng r = seeded_rng("random bytes", 1);
    uint8_t bytes[600];
    for (unsigned i = 1; i <= 200; i++) {
        int fd = raw_connect();
        size_t count = 1 + rng_below(&r, sizeof bytes);
        random_bytes(&r, bytes, count);
        // looks like the start of TLS
        if (rng_below(&r, 2)) memcpy(bytes, "\x16\x03\x01", count < 3 ? count : 3);
        raw_send(fd, bytes, count);
        shutdown(fd, SHUT_WR);
        harness_until(&loop, &victim.turned_away, i);
        close(fd);
    }
    assert_int_equal(victim.ups, 0);
}

// No bytes, the first half of a valid handshake, and the first message of one; then silence.
static void test_silent_connections_are_closed(void **state) {
    (void)state;
    enum { SILENT = 3 };
    tls_context *context = NULL;
    assert_int_equal(tls_context_new(friend.identity, &context, NULL), BRAID_OK);
    tls *t = tls_new(context, &victim.id);
    assert_int_equal(tls_handshake(t), TLS_AGAIN);
    size_t count = 0;
    uint8_t *bytes = tls_take_output(t, &count);
    int fd[SILENT];
    for (size_t i = 0; i < SILENT; i++) {
        fd[i] = raw_connect();
        raw_send(fd[i], bytes, count * i / (SILENT - 1));
    }
    harness_until(&loop, &victim.turned_away, SILENT);
    assert_non_null(strstr(victim.away, "within"));
    for (size_t i = 0; i < SILENT; i++) close(fd[i]);
    tls_give_back(context, bytes);
    tls_free(t);
    tls_context_free(context);
}

// More silent connections than places: the oldest are closed.
static void test_oldest_silent_connections_are_closed(void **state) {
    (void)state;
    enum { CROWD = 40 };
    int fd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        fd[i] = raw_connect();
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    harness_link(&friend, &victim);
    harness_until(&loop, &victim.turned_away, CROWD - FEW);
    net_close(friend.net, &victim.id, "done");
    harness_until(&loop, &victim.downs, 1);
    harness_until(&loop, &victim.turned_away, CROWD);
    for (int i = 0; i < CROWD; i++) close(fd[i]);
}

// --- a peer with a valid key that violates the protocol

typedef struct hostile {
    identity *identity;
    tls_context *context;
    tls *tls;
    int fd;
    bool secured, ended;
    frame_decoder decoder;
    unsigned frames[FRAME_KINDS];
    handshake_refuse refuse;
} hostile;

static void hostile_decode(hostile *r, const uint8_t *bytes, size_t count) {
    for (frame_event e = {.kind = FRAME_EVENT_MESSAGE}; e.kind != FRAME_EVENT_NONE && e.kind != FRAME_EVENT_ERROR;) {
        size_t used = frame_decode(&r->decoder, bytes, count, &e);
        bytes += used;
        count -= used;
        r->frames[e.frame]++;
        if (e.kind == FRAME_EVENT_HANDSHAKE && e.frame == FRAME_REFUSE)
            handshake_refuse_decode(e.bytes, e.count, &r->refuse);
        if (e.kind == FRAME_EVENT_HANDSHAKE) frame_decoder_open(&r->decoder, 1 << 20);
    }
}

static void hostile_flush(hostile *r) {
    size_t count = 0;
    uint8_t *bytes = tls_take_output(r->tls, &count);
    if (bytes == NULL) return;
    raw_send(r->fd, bytes, count);
    tls_give_back(r->context, bytes);
}

static void hostile_read(hostile *r) {
    uint8_t bytes[20000], plain[20000];
    ssize_t n = recv(r->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    r->ended = r->ended || n <= 0;
    if (n <= 0) return;
    tls_feed(r->tls, bytes, (size_t)n);
    size_t count = 0;
    if (!r->secured) r->secured = tls_handshake(r->tls) == TLS_OK;
    while (r->secured && tls_read(r->tls, plain, sizeof plain, &count) == TLS_OK) hostile_decode(r, plain, count);
}

static void hostile_turn(hostile *r) {
    hostile_flush(r);
    uv_run(&loop, UV_RUN_NOWAIT);
    hostile_read(r);
}

// Static, because a decoder is large.
static hostile *hostile_open(identity *own) {
    static hostile r;
    r = (hostile){0};
    if (own == NULL) assert_int_equal(identity_new(&r.identity, NULL), BRAID_OK);
    assert_int_equal(tls_context_new(own != NULL ? own : r.identity, &r.context, NULL), BRAID_OK);
    r.tls = tls_new(r.context, &victim.id);
    r.fd = raw_connect();
    frame_decoder_init(&r.decoder);
    assert_int_equal(tls_handshake(r.tls), TLS_AGAIN);
    while (!r.secured) {
        hostile_turn(&r);
        assert_false(r.ended);
    }
    hostile_flush(&r);
    return &r;
}

static void hostile_close(hostile *r) {
    close(r->fd);
    tls_free(r->tls);
    tls_context_free(r->context);
    identity_free(r->identity);
}

static void hostile_send(hostile *r, const uint8_t *bytes, size_t count) {
    while (count > 0) {
        size_t n = count < TLS_RECORD_BYTES ? count : TLS_RECORD_BYTES;
        assert_int_equal(tls_write(r->tls, bytes, n), TLS_OK);
        bytes += n;
        count -= n;
        hostile_flush(r);
    }
}

static void hostile_frame(hostile *r, frame_kind kind, const uint8_t *bytes, size_t count) {
    uint8_t frame[FRAME_MAX_PREFIX_BYTES + 2048];
    size_t prefix = frame_control(kind, count, frame);
    memcpy(frame + prefix, bytes, count);
    hostile_send(r, frame, prefix + count);
}

static size_t good_hello(uint8_t *bytes, size_t capacity) {
    handshake_hello hello = {.run = tester_run(7).hash, .kernels = tester_run(7).kernels};
    return handshake_hello_encode(&hello, bytes, capacity);
}

static void hostile_greet(hostile *r) {
    uint8_t hello[1024];
    hostile_frame(r, FRAME_HELLO, hello, good_hello(hello, sizeof hello));
    while (r->frames[FRAME_WELCOME] == 0) {
        hostile_turn(r);
        assert_false(r->ended);
    }
}

static void hostile_until_ended(hostile *r) {
    while (!r->ended) hostile_turn(r);
}

static void test_frames_before_the_handshake(void **state) {
    (void)state;
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, FRAME_HELLO, 0, 0, 0};
    static const uint8_t unknown[] = {1, 0, 0, 0, 200, 0, 0, 0, 0};
    static const uint8_t message[] = {1, 0, 0, 0, FRAME_MESSAGE, 0, 0, 0, 7};
    static const uint8_t chunk[] = {1, 0, 0, 0, FRAME_CHUNK, 0, 0, 0, 7};
    static const uint8_t transfer[] = {9, 0, 0, 0, FRAME_TRANSFER, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7};
    static const uint8_t welcome[] = {1, 0, 0, 0, FRAME_WELCOME, 0, 0, 0, 7};
    static const struct {
        const uint8_t *bytes;
        size_t count;
    } sent[] = {
        {huge, sizeof huge},   {unknown, sizeof unknown},   {message, sizeof message},
        {chunk, sizeof chunk}, {transfer, sizeof transfer}, {welcome, sizeof welcome},
    };
    for (unsigned i = 0; i < sizeof sent / sizeof *sent; i++) {
        hostile *r = hostile_open(NULL);
        hostile_send(r, sent[i].bytes, sent[i].count);
        hostile_until_ended(r);
        hostile_close(r);
        assert_int_equal(victim.turned_away, i + 1);
    }
    assert_int_equal(victim.ups, 0);
}

static void test_random_handshakes(void **state) {
    (void)state;
    rng r = seeded_rng("random greetings", 1);
    for (unsigned i = 1; i <= 50; i++) {
        uint8_t bytes[300];
        size_t count = good_hello(bytes, sizeof bytes);
        uint64_t changes = 1 + rng_below(&r, 8);
        for (uint64_t c = 0; c < changes; c++) bytes[rng_below(&r, count)] ^= (uint8_t)(1 + rng_below(&r, 255));
        hostile *peer = hostile_open(NULL);
        hostile_frame(peer, FRAME_HELLO, bytes, rng_below(&r, 4) ? count : 1 + rng_below(&r, count));
        unsigned ups = victim.ups;
        while (!peer->ended && victim.ups == ups) hostile_turn(peer);
        hostile_close(peer);
    }
    harness_until(&loop, &victim.downs, victim.ups);
}

static void test_other_version(void **state) {
    (void)state;
    uint8_t hello[1024];
    size_t count = good_hello(hello, sizeof hello);
    hello[4] = WIRE_VERSION + 1;  // after the magic
    char other[32];
    snprintf(other, sizeof other, "version %d", WIRE_VERSION + 1);
    hostile *r = hostile_open(NULL);
    hostile_frame(r, FRAME_HELLO, hello, count);
    hostile_until_ended(r);
    assert_int_equal(r->frames[FRAME_REFUSE], 1);
    assert_int_equal(r->refuse.code, REFUSE_OTHER_VERSION);
    assert_non_null(strstr(r->refuse.sentence, other));
    assert_int_equal(victim.turned_away, 1);
    assert_non_null(strstr(victim.away, other));
    hostile_close(r);
}

static void test_the_victims_own_key_is_refused(void **state) {
    (void)state;
    hostile *r = hostile_open(victim.identity);
    hostile_until_ended(r);
    assert_int_equal(victim.turned_away, 1);
    assert_non_null(strstr(victim.away, "key of this peer"));
    hostile_close(r);
}

static void test_handshake_byte_by_byte(void **state) {
    (void)state;
    uint8_t frame[1024 + FRAME_MAX_PREFIX_BYTES], hello[1024];
    size_t count = good_hello(hello, sizeof hello), prefix = frame_control(FRAME_HELLO, count, frame);
    memcpy(frame + prefix, hello, count);
    hostile *r = hostile_open(NULL);
    for (size_t i = 0; i < prefix + count; i++) {
        hostile_send(r, frame + i, 1);
        if (i % 16 == 0) hostile_turn(r);
    }
    while (victim.ups == 0) hostile_turn(r);
    hostile_close(r);
    harness_until(&loop, &victim.downs, 1);
    assert_non_null(strstr(victim.reason, "without a shutdown"));
}

// An established link, and then random frames, or valid headers with invalid contents.
static void test_random_frames(void **state) {
    (void)state;
    rng r = seeded_rng("random frames", 1);
    for (unsigned i = 1; i <= 100; i++) {
        hostile *peer = hostile_open(NULL);
        hostile_greet(peer);
        for (int frames = 0; frames < 20 && !peer->ended; frames++) {
            uint8_t bytes[400];
            size_t count = FRAME_HEADER_BYTES + rng_below(&r, sizeof bytes - FRAME_HEADER_BYTES);
            random_bytes(&r, bytes, count);
            bytes[1] = bytes[2] = bytes[3] = bytes[6] = bytes[7] = 0;
            bytes[4] = (uint8_t)(rng_below(&r, 20) ? FRAME_MESSAGE + rng_below(&r, 3) : rng_below(&r, 256));
            bytes[5] = (uint8_t)(bytes[4] == FRAME_MESSAGE ? 0 : rng_below(&r, WIRE_MAX_TRANSFERS));
            if (bytes[4] == FRAME_TRANSFER && count > 16) memset(bytes + 10, 0, 6);  // a payload of a legal size
            hostile_send(peer, bytes, count);
            hostile_turn(peer);
        }
        hostile_close(peer);
        harness_until(&loop, &victim.downs, i);
    }
    assert_int_equal(victim.ups, 100);
    assert_int_equal(victim.allocs, victim.drops + victim.payloads);
    assert_true(victim.allocs > 10);
}

static void test_a_too_large_payload_is_refused(void **state) {
    (void)state;
    uint8_t frame[FRAME_MAX_PREFIX_BYTES + 1] = {0};
    hostile *r = hostile_open(NULL);
    hostile_greet(r);
    size_t prefix = frame_transfer(0, 1, (1 << 20) + 1, frame);
    hostile_send(r, frame, prefix + 1);
    hostile_until_ended(r);
    assert_int_equal(victim.downs, 1);
    assert_int_equal(victim.allocs, 0);
    assert_non_null(strstr(victim.reason, "a payload of a length that is not allowed"));
    hostile_close(r);
}

// A peer that connects and then reads nothing: the data in the kernel for it stays bounded.
static void test_a_peer_that_does_not_read(void **state) {
    (void)state;
    enum { BYTES = 1 << 20, ROUNDS = 300 };
    static uint8_t payload[BYTES];
    hostile *r = hostile_open(NULL);
    hostile_greet(r);
    for (uint64_t i = 0; i < 16; i++) {
        assert_int_equal(net_send(victim.net, &victim.last_id, (const uint8_t *)"t", 1, payload, BYTES, i), BRAID_OK);
    }
    net_stats before, after;
    for (int i = 0; i < ROUNDS; i++) uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(net_link_stats(victim.net, &victim.last_id, &before));
    for (int i = 0; i < ROUNDS; i++) uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(net_link_stats(victim.net, &victim.last_id, &after));
    print_message("handed on to a peer that does not read: %llu bytes\n", (unsigned long long)after.bulk_out);
    assert_int_equal(after.bulk_out, before.bulk_out);
    assert_true(after.bulk_out <= 4 * NET_KERNEL_BYTES);  // and the receiver's own socket buffer
    while (net_send(victim.net, &victim.last_id, payload, WIRE_MAX_CONTROL_BYTES, NULL, 0, 0) == BRAID_OK) continue;
    harness_until(&loop, &victim.downs, 1);
    assert_non_null(strstr(victim.reason, "has stalled"));
    assert_int_equal(victim.sents, 16);
    hostile_close(r);
}

#define VICTIM_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        VICTIM_TEST(test_random_bytes),
        cmocka_unit_test_setup_teardown(test_silent_connections_are_closed, setup_hasty, teardown),
        cmocka_unit_test_setup_teardown(test_oldest_silent_connections_are_closed, setup_hasty, teardown),
        VICTIM_TEST(test_frames_before_the_handshake),
        VICTIM_TEST(test_random_handshakes),
        VICTIM_TEST(test_other_version),
        VICTIM_TEST(test_the_victims_own_key_is_refused),
        VICTIM_TEST(test_handshake_byte_by_byte),
        VICTIM_TEST(test_random_frames),
        VICTIM_TEST(test_a_too_large_payload_is_refused),
        VICTIM_TEST(test_a_peer_that_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
