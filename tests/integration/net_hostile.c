// What strangers send: nothing of it may do more than close its own connection.
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
    // whatever happened, an honest peer still gets in
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
        if (rng_below(&r, 2)) memcpy(bytes, "\x16\x03\x01", count < 3 ? count : 3);  // like the start of TLS
        raw_send(fd, bytes, count);
        shutdown(fd, SHUT_WR);
        harness_until(&loop, &victim.turned_away, i);
        close(fd);
    }
    assert_int_equal(victim.ups, 0);
}

// Nothing at all, the first half of a correct handshake, and the first message of one: then silence.
static void test_silence(void **state) {
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

// More silent connections than there is room for: the oldest give way.
static void test_crowd(void **state) {
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

// --- a peer with a valid key and bad manners

typedef struct rude {
    identity *identity;
    tls_context *context;
    tls *tls;
    int fd;
    bool secured, ended;
    frame_decoder decoder;
    unsigned frames[FRAME_KINDS];
    handshake_refuse refuse;
} rude;

static void rude_decode(rude *r, const uint8_t *bytes, size_t count) {
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

static void rude_flush(rude *r) {
    size_t count = 0;
    uint8_t *bytes = tls_take_output(r->tls, &count);
    if (bytes == NULL) return;
    raw_send(r->fd, bytes, count);
    tls_give_back(r->context, bytes);
}

static void rude_read(rude *r) {
    uint8_t bytes[20000], plain[20000];
    ssize_t n = recv(r->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    r->ended = r->ended || n <= 0;
    if (n <= 0) return;
    tls_feed(r->tls, bytes, (size_t)n);
    size_t count = 0;
    if (!r->secured) r->secured = tls_handshake(r->tls) == TLS_OK;
    while (r->secured && tls_read(r->tls, plain, sizeof plain, &count) == TLS_OK) rude_decode(r, plain, count);
}

static void rude_turn(rude *r) {
    rude_flush(r);
    uv_run(&loop, UV_RUN_NOWAIT);
    rude_read(r);
}

// Static: a decoder is large.
static rude *rude_open(identity *own) {
    static rude r;
    r = (rude){0};
    if (own == NULL) assert_int_equal(identity_new(&r.identity, NULL), BRAID_OK);
    assert_int_equal(tls_context_new(own != NULL ? own : r.identity, &r.context, NULL), BRAID_OK);
    r.tls = tls_new(r.context, &victim.id);
    r.fd = raw_connect();
    frame_decoder_init(&r.decoder);
    assert_int_equal(tls_handshake(r.tls), TLS_AGAIN);
    while (!r.secured) {
        rude_turn(&r);
        assert_false(r.ended);
    }
    rude_flush(&r);
    return &r;
}

static void rude_close(rude *r) {
    close(r->fd);
    tls_free(r->tls);
    tls_context_free(r->context);
    identity_free(r->identity);
}

static void rude_say(rude *r, const uint8_t *bytes, size_t count) {
    while (count > 0) {
        size_t n = count < TLS_RECORD_BYTES ? count : TLS_RECORD_BYTES;
        assert_int_equal(tls_write(r->tls, bytes, n), TLS_OK);
        bytes += n;
        count -= n;
        rude_flush(r);
    }
}

static void rude_frame(rude *r, frame_kind kind, const uint8_t *bytes, size_t count) {
    uint8_t frame[FRAME_MAX_PREFIX_BYTES + 2048];
    size_t prefix = frame_control(kind, count, frame);
    memcpy(frame + prefix, bytes, count);
    rude_say(r, frame, prefix + count);
}

static size_t good_hello(uint8_t *bytes, size_t capacity) {
    handshake_hello hello = {.run = tester_run(7).hash, .kernels = tester_run(7).kernels};
    return handshake_hello_encode(&hello, bytes, capacity);
}

static void rude_greet(rude *r) {
    uint8_t hello[1024];
    rude_frame(r, FRAME_HELLO, hello, good_hello(hello, sizeof hello));
    while (r->frames[FRAME_WELCOME] == 0) {
        rude_turn(r);
        assert_false(r->ended);
    }
}

static void rude_until_ended(rude *r) {
    while (!r->ended) rude_turn(r);
}

static void test_before_the_greeting(void **state) {
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
        rude *r = rude_open(NULL);
        rude_say(r, sent[i].bytes, sent[i].count);
        rude_until_ended(r);
        rude_close(r);
        assert_int_equal(victim.turned_away, i + 1);
    }
    assert_int_equal(victim.ups, 0);
}

static void test_random_greetings(void **state) {
    (void)state;
    rng r = seeded_rng("random greetings", 1);
    for (unsigned i = 1; i <= 50; i++) {
        uint8_t bytes[300];
        size_t count = good_hello(bytes, sizeof bytes);
        uint64_t changes = 1 + rng_below(&r, 8);
        for (uint64_t c = 0; c < changes; c++) bytes[rng_below(&r, count)] ^= (uint8_t)(1 + rng_below(&r, 255));
        rude *peer = rude_open(NULL);
        rude_frame(peer, FRAME_HELLO, bytes, rng_below(&r, 4) ? count : 1 + rng_below(&r, count));
        unsigned ups = victim.ups;
        while (!peer->ended && victim.ups == ups) rude_turn(peer);
        rude_close(peer);
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
    rude *r = rude_open(NULL);
    rude_frame(r, FRAME_HELLO, hello, count);
    rude_until_ended(r);
    assert_int_equal(r->frames[FRAME_REFUSE], 1);
    assert_int_equal(r->refuse.code, REFUSE_OTHER_VERSION);
    assert_non_null(strstr(r->refuse.sentence, other));
    assert_int_equal(victim.turned_away, 1);
    assert_non_null(strstr(victim.away, other));
    rude_close(r);
}

static void test_the_victims_own_key(void **state) {
    (void)state;
    rude *r = rude_open(victim.identity);
    rude_until_ended(r);
    assert_int_equal(victim.turned_away, 1);
    assert_non_null(strstr(victim.away, "key of this peer"));
    rude_close(r);
}

static void test_greeting_byte_by_byte(void **state) {
    (void)state;
    uint8_t frame[1024 + FRAME_MAX_PREFIX_BYTES], hello[1024];
    size_t count = good_hello(hello, sizeof hello), prefix = frame_control(FRAME_HELLO, count, frame);
    memcpy(frame + prefix, hello, count);
    rude *r = rude_open(NULL);
    for (size_t i = 0; i < prefix + count; i++) {
        rude_say(r, frame + i, 1);
        if (i % 16 == 0) rude_turn(r);
    }
    while (victim.ups == 0) rude_turn(r);
    rude_close(r);
    harness_until(&loop, &victim.downs, 1);
    assert_non_null(strstr(victim.reason, "without a shutdown"));
}

// A link that is up, and then nonsense: random frames, and right headers with wrong contents.
static void test_random_frames(void **state) {
    (void)state;
    rng r = seeded_rng("random frames", 1);
    for (unsigned i = 1; i <= 100; i++) {
        rude *peer = rude_open(NULL);
        rude_greet(peer);
        for (int frames = 0; frames < 20 && !peer->ended; frames++) {
            uint8_t bytes[400];
            size_t count = FRAME_HEADER_BYTES + rng_below(&r, sizeof bytes - FRAME_HEADER_BYTES);
            random_bytes(&r, bytes, count);
            bytes[1] = bytes[2] = bytes[3] = bytes[6] = bytes[7] = 0;
            bytes[4] = (uint8_t)(rng_below(&r, 20) ? FRAME_MESSAGE + rng_below(&r, 3) : rng_below(&r, 256));
            bytes[5] = (uint8_t)(bytes[4] == FRAME_MESSAGE ? 0 : rng_below(&r, WIRE_MAX_TRANSFERS));
            if (bytes[4] == FRAME_TRANSFER && count > 16)
                memset(bytes + 10, 0, 6);  // a payload of a size that is allowed
            rude_say(peer, bytes, count);
            rude_turn(peer);
        }
        rude_close(peer);
        harness_until(&loop, &victim.downs, i);
    }
    assert_int_equal(victim.ups, 100);
    assert_int_equal(victim.allocs, victim.drops + victim.payloads);
    assert_true(victim.allocs > 10);
}

static void test_too_large_a_payload(void **state) {
    (void)state;
    uint8_t frame[FRAME_MAX_PREFIX_BYTES + 1] = {0};
    rude *r = rude_open(NULL);
    rude_greet(r);
    size_t prefix = frame_transfer(0, 1, (1 << 20) + 1, frame);
    rude_say(r, frame, prefix + 1);
    rude_until_ended(r);
    assert_int_equal(victim.downs, 1);
    assert_int_equal(victim.allocs, 0);
    assert_non_null(strstr(victim.reason, "a payload of a length that is not allowed"));
    rude_close(r);
}

// Somebody who takes a link and then reads nothing: what is handed to the kernel for it stays bounded.
static void test_who_does_not_read(void **state) {
    (void)state;
    enum { BYTES = 1 << 20, ROUNDS = 300 };
    static uint8_t payload[BYTES];
    rude *r = rude_open(NULL);
    rude_greet(r);
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
    assert_non_null(strstr(victim.reason, "does not read"));
    assert_int_equal(victim.sents, 16);
    rude_close(r);
}

#define VICTIM_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        VICTIM_TEST(test_random_bytes),
        cmocka_unit_test_setup_teardown(test_silence, setup_hasty, teardown),
        cmocka_unit_test_setup_teardown(test_crowd, setup_hasty, teardown),
        VICTIM_TEST(test_before_the_greeting),
        VICTIM_TEST(test_random_greetings),
        VICTIM_TEST(test_other_version),
        VICTIM_TEST(test_the_victims_own_key),
        VICTIM_TEST(test_greeting_byte_by_byte),
        VICTIM_TEST(test_random_frames),
        VICTIM_TEST(test_too_large_a_payload),
        VICTIM_TEST(test_who_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
