// Links on the loopback interface: establishing, refusing, crossing dials, ends.
#include "net_harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static uv_loop_t loop;
static tester a, b;

static int setup_pair(void **state) {
    (void)state;
    uv_loop_init(&loop);
    tester_start(&a, &loop);
    tester_start(&b, &loop);
    return 0;
}

static int teardown_pair(void **state) {
    (void)state;
    tester_stop(&a);
    tester_stop(&b);
    harness_finish(&loop);
    tester_end(&a);
    tester_end(&b);
    return 0;
}

static void test_two_peers_talk(void **state) {
    (void)state;
    braid_error error;
    assert_int_equal(net_advertise(a.net, "example.org:4000", &error), BRAID_OK);
    harness_link(&a, &b);
    assert_true(id_equal(&a.last_id, &b.id) && id_equal(&b.last_id, &a.id));
    assert_true(a.peer.dialed && !b.peer.dialed);
    assert_int_equal(b.peer.kind, 1);
    assert_string_equal(b.peer.address, "example.org:4000");
    assert_string_equal(b.peer.software, "braid test");
    tester_say(&a, &b, "hello");
    tester_say(&b, &a, "hi");
    harness_until(&loop, &b.messages, 1);
    harness_until(&loop, &a.messages, 1);
    assert_memory_equal(b.last, "hello", 5);
    assert_memory_equal(a.last, "hi", 2);
    tester_dial(&b, &a);  // the link exists already
    net_close(a.net, &b.id, "enough");
    assert_int_equal(a.downs, 0);  // never from within a call
    harness_until(&loop, &a.downs, 1);
    harness_until(&loop, &b.downs, 1);
    assert_non_null(strstr(a.reason, "enough"));
    assert_non_null(strstr(b.reason, "closed the link"));
    assert_int_equal(a.ups + b.ups, 2);
    assert_int_equal(net_links(a.net), 0);
}

static void test_messages_are_sent_before_a_close(void **state) {
    (void)state;
    harness_link(&a, &b);
    for (int i = 0; i < 1000; i++) tester_say(&a, &b, "a message that must still arrive");
    net_close(a.net, &b.id, "done");
    harness_until(&loop, &b.downs, 1);
    assert_int_equal(b.messages, 1000);
}

// The receiver pauses, so that the tensor fills every buffer on the way.
static void test_last_messages_wait_for_a_tensor_in_transit(void **state) {
    (void)state;
    enum { TENSOR = 64 << 20 };
    uv_loop_t still;
    tester c;
    uv_loop_init(&still);
    tester_start(&c, &still);
    tester_dial(&a, &c);
    while (a.ups == 0 || c.ups == 0) uv_run(&loop, UV_RUN_NOWAIT), uv_run(&still, UV_RUN_NOWAIT);
    uint8_t *tensor = calloc(1, TENSOR);
    assert_int_equal(net_send(a.net, &c.id, (const uint8_t *)"t", 1, tensor, TENSOR, 5), BRAID_OK);
    for (unsigned i = 0; i < 2000; i++) uv_run(&loop, UV_RUN_NOWAIT);
    tester_say(&a, &c, "farewell");
    net_close(a.net, &c.id, "leaving");
    harness_until(&loop, &a.downs, 1);
    assert_int_equal(a.sents, 1);
    assert_int_equal(net_leaving(a.net), 1);
    while (net_leaving(a.net) > 0) uv_run(&loop, UV_RUN_NOWAIT), uv_run(&still, UV_RUN_NOWAIT);
    harness_until(&still, &c.downs, 1);
    assert_int_equal(c.messages, 1);
    assert_memory_equal(c.last, "farewell", 8);
    free(tensor);
    tester_stop(&c);
    harness_finish(&still);
    tester_end(&c);
}

static void test_payloads_arrive_whole(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 16375, 16376, 16377, 65536, 1 << 20, 3000001};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    uint8_t *bytes = malloc(sizes[COUNT - 1]), sum = 0;
    uint64_t all = 0;
    for (size_t i = 0; i < sizes[COUNT - 1]; i++) bytes[i] = (uint8_t)(i * 7 + i / 1000);
    harness_link(&a, &b);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)"tensor", 6, bytes, sizes[i], i), BRAID_OK);
        for (size_t j = 0; j < sizes[i]; j += 4093) sum = (uint8_t)(sum + bytes[j]);
        all += sizes[i];
    }
    net_totals totals;
    net_look(a.net, &totals);
    assert_int_equal(totals.bytes.bulk_queued, all);
    harness_until(&loop, &b.payloads, COUNT);
    harness_until(&loop, &a.sents, COUNT);
    assert_int_equal(b.payload_bytes, all);
    assert_int_equal(b.sum, sum);
    assert_int_equal(b.drops, 0);
    net_stats stats;
    assert_true(net_link_stats(a.net, &b.id, &stats));
    assert_int_equal(stats.bulk_out, all);
    assert_int_equal(stats.bulk_queued, 0);
    assert_true(stats.rtt_ns > 0);
    net_look(a.net, &totals);
    assert_int_equal(totals.bytes.bulk_queued, 0);
    free(bytes);
}

static void test_refused_payload_is_skipped(void **state) {
    (void)state;
    static uint8_t bytes[500000];
    harness_link(&a, &b);
    b.refuse_payloads = true;
    assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)"tensor", 6, bytes, sizeof bytes, 5), BRAID_OK);
    harness_until(&loop, &b.messages, 1);
    assert_int_equal(b.payloads, 0);
    b.refuse_payloads = false;
    assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)"tensor", 6, bytes, sizeof bytes, 6), BRAID_OK);
    harness_until(&loop, &b.messages, 2);
    assert_int_equal(b.payloads, 1);
    assert_true(a.linked && b.linked);
}

static void test_send_limits(void **state) {
    (void)state;
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES + 1];
    assert_int_equal(net_send(a.net, &b.id, bytes, 1, NULL, 0, 0), BRAID_STATE);
    harness_link(&a, &b);
    assert_int_equal(net_send(a.net, &b.id, bytes, sizeof bytes, NULL, 0, 0), BRAID_LIMIT);
    assert_int_equal(net_send(a.net, &b.id, bytes, 0, NULL, 0, 0), BRAID_LIMIT);
    assert_int_equal(net_send(a.net, &b.id, bytes, 1, bytes, (uint64_t)WIRE_MAX_PAYLOAD_BYTES + 1, 0), BRAID_LIMIT);
    assert_int_equal(net_send(a.net, &b.id, bytes, sizeof bytes - 1, NULL, 0, 0), BRAID_OK);
    harness_until(&loop, &b.messages, 1);
    unsigned sent = 1;
    while (net_send(a.net, &b.id, bytes, sizeof bytes - 1, NULL, 0, 0) == BRAID_OK) sent++;
    assert_true(sent >= NET_MAX_CONTROL_QUEUE / WIRE_MAX_CONTROL_BYTES - 1 &&
                sent <= NET_MAX_CONTROL_QUEUE / WIRE_MAX_CONTROL_BYTES + 1);
    harness_until(&loop, &a.downs, 1);
    assert_non_null(strstr(a.reason, "has stalled"));
    harness_until(&loop, &b.downs, 1);
}

static void test_wrong_id(void **state) {
    (void)state;
    braid_id wrong = b.id;
    wrong.bytes[3] ^= 1;
    char address[64], expected[65], shown[65];
    assert_int_equal(net_dial(a.net, &wrong, tester_address(&b, address), NULL), BRAID_OK);
    harness_until(&loop, &a.downs, 1);
    id_hex(wrong.bytes, BRAID_ID_BYTES, expected);
    id_hex(b.id.bytes, BRAID_ID_BYTES, shown);
    assert_non_null(strstr(a.reason, "wrong certificate"));
    assert_non_null(strstr(a.reason, expected));
    assert_non_null(strstr(a.reason, shown));
    assert_int_equal(a.refusals, 0);
    harness_until(&loop, &b.turned_away, 1);
    assert_int_equal(b.ups, 0);
}

static void test_other_run(void **state) {
    (void)state;
    net_run other = tester_run(8);
    assert_int_equal(net_set_run(b.net, &other, NULL), BRAID_OK);
    tester_dial(&a, &b);
    harness_until(&loop, &a.downs, 1);
    harness_until(&loop, &b.turned_away, 1);
    assert_non_null(strstr(a.reason, "0707070707070707"));
    assert_non_null(strstr(a.reason, "0808080808080808"));
    assert_non_null(strstr(b.away, "0707070707070707"));
    assert_int_equal(a.ups + b.ups, 0);
}

static void test_other_generation(void **state) {
    (void)state;
    net_run other = tester_run(7);
    other.generation = 3;
    assert_int_equal(net_set_run(b.net, &other, NULL), BRAID_OK);
    tester_dial(&a, &b);
    harness_until(&loop, &a.downs, 1);
    assert_non_null(strstr(a.reason, "after a rollback"));
}

static void test_other_kernels(void **state) {
    (void)state;
    net_run other = tester_run(7);
    memset(other.kernels.bytes, 9, sizeof other.kernels.bytes);
    assert_int_equal(net_set_run(b.net, &other, NULL), BRAID_OK);
    tester_dial(&a, &b);
    harness_until(&loop, &a.downs, 1);
    assert_non_null(strstr(a.reason, "class 0505050505050505"));
    assert_non_null(strstr(a.reason, "class 0909090909090909"));
    assert_int_equal(a.ups + b.ups, 0);
    memset(other.kernels.bytes, 5, sizeof other.kernels.bytes);
    assert_int_equal(net_set_run(b.net, &other, NULL), BRAID_OK);
    tester_dial(&a, &b);
    harness_until(&loop, &a.ups, 1);
}

static void test_enquiry(void **state) {
    (void)state;
    tester c = {.loop = &loop};
    net_config config = tester_config(&c);
    braid_error error;
    assert_int_equal(identity_new(&c.identity, &error), BRAID_OK);
    c.id = identity_id(c.identity);
    assert_int_equal(net_new(&loop, c.identity, &config, &c.net, &error), BRAID_OK);
    char address[64];
    assert_int_equal(net_dial(c.net, &b.id, tester_address(&b, address), &error), BRAID_STATE);
    assert_int_equal(net_enquire(c.net, &b.id, address, &error), BRAID_OK);
    harness_until(&loop, &c.descriptions, 1);
    assert_string_equal(c.text, "the run");
    net_run run = tester_run(7);
    assert_int_equal(net_set_run(c.net, &run, &error), BRAID_OK);
    harness_link(&c, &b);
    assert_int_equal(c.downs, 0);
    assert_int_equal(b.downs + b.turned_away, 0);
    assert_int_equal(b.ups, 1);
    // a peer without a run answers so
    tester_stop(&c);
    assert_int_equal(net_new(&loop, c.identity, &config, &c.net, &error), BRAID_OK);
    assert_int_equal(net_listen(c.net, "127.0.0.1", 0, &error), BRAID_OK);
    assert_int_equal(net_enquire(a.net, &c.id, tester_address(&c, address), &error), BRAID_OK);
    harness_until(&loop, &a.downs, 1);
    assert_non_null(strstr(a.reason, "has not received"));
    tester_stop(&c);
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    tester_end(&c);
}

// A failed enquiry must not report the end of an established link: its owner would dial an existing
// link forever.
static void test_a_failed_enquiry_does_not_report_a_link(void **state) {
    (void)state;
    tester c = {0};
    net_config config = tester_config(&c);
    config.handshake_ms = 1500;
    tester_start_with(&c, &loop, &config);
    struct sockaddr_in at;
    int length = sizeof at;
    uv_tcp_t silent;  // its connections are never accepted
    uv_ip4_addr("127.0.0.1", 0, &at);
    uv_tcp_init_ex(&loop, &silent, AF_INET);
    uv_os_fd_t fd;
    assert_int_equal(uv_tcp_bind(&silent, (struct sockaddr *)&at, 0), 0);
    assert_true(uv_fileno((uv_handle_t *)&silent, &fd) == 0 && listen(fd, 1) == 0);
    assert_int_equal(uv_tcp_getsockname(&silent, (struct sockaddr *)&at, &length), 0);
    char address[64];
    net_totals totals = {0};
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(net_enquire(c.net, &b.id, address, NULL), BRAID_OK);
    harness_link(&b, &c);
    for (; totals.failed == 0; net_look(c.net, &totals)) uv_run(&loop, UV_RUN_ONCE);
    assert_true(net_linked(c.net, &b.id));
    assert_int_equal(c.downs, 0);
    uv_close((uv_handle_t *)&silent, NULL);
    tester_stop(&c);
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    tester_end(&c);
}

static void test_a_closed_port_is_reported(void **state) {
    (void)state;
    char address[64];
    tester_address(&b, address);
    braid_id id = b.id;
    tester_stop(&b);
    assert_int_equal(net_dial(a.net, &id, address, NULL), BRAID_OK);
    uint64_t before = uv_hrtime();
    harness_until(&loop, &a.downs, 1);
    assert_int_equal(a.refusals, 1);
    assert_non_null(strstr(a.reason, "refused the connection"));
    assert_true(uv_hrtime() - before < 5000000000u);  // refused, not timed out (15 s)
    // by name, IPv6 first where there is one
    char named[64];
    snprintf(named, sizeof named, "localhost%s", strchr(address, ':'));
    assert_int_equal(net_dial(a.net, &id, named, NULL), BRAID_OK);
    harness_until(&loop, &a.downs, 2);
    assert_int_equal(a.refusals, 2);
}

static void test_names_and_addresses(void **state) {
    (void)state;
    char named[64];
    snprintf(named, sizeof named, "localhost:%u", net_port(b.net));
    assert_int_equal(net_dial(a.net, &b.id, named, NULL), BRAID_OK);
    harness_until(&loop, &a.ups, 1);
    static const char *const bad[] = {"",         ":1",     "host",    "host:", "host:0", "host:65536",
                                      "host:12x", "::1:80", "[::1]80", "[]:1",  "[::1:80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        braid_error error = {0};
        braid_id other = a.id;
        other.bytes[0] ^= 1;
        assert_int_equal(net_dial(a.net, &other, bad[i], &error), BRAID_ARGUMENT);
        assert_non_null(strstr(error.text, "host:port"));
    }
    assert_int_equal(net_dial(a.net, &a.id, named, NULL), BRAID_ARGUMENT);
    braid_id other = {{1}};
    assert_int_equal(net_dial(a.net, &other, "no.such.name.invalid:80", NULL), BRAID_OK);
    harness_until(&loop, &a.downs, 1);
    assert_non_null(strstr(a.reason, "no.such.name.invalid"));
    // the net is freed while the name is being resolved
    assert_int_equal(net_dial(a.net, &other, "another.name.invalid:80", NULL), BRAID_OK);
}

static void test_ipv6(void **state) {
    (void)state;
    tester c = {.loop = &loop};
    net_config config = tester_config(&c);
    braid_error error = {0};
    assert_int_equal(identity_new(&c.identity, &error), BRAID_OK);
    c.id = identity_id(c.identity);
    assert_int_equal(net_new(&loop, c.identity, &config, &c.net, &error), BRAID_OK);
    net_run run = tester_run(7);
    assert_int_equal(net_set_run(c.net, &run, &error), BRAID_OK);
    assert_int_equal(net_listen(c.net, "*", 0, &error), BRAID_OK);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", net_port(c.net));
    assert_int_equal(net_dial(a.net, &c.id, address, NULL), BRAID_OK);
    harness_until(&loop, &a.ups, 1);
    struct sockaddr_in6 six;
    uv_tcp_t probe;
    uv_ip6_addr("::1", 0, &six);
    uv_tcp_init(&loop, &probe);
    bool has_six = uv_tcp_bind(&probe, (struct sockaddr *)&six, 0) == 0 &&
                   uv_tcp_getsockname(&probe, (struct sockaddr *)&six, &(int){sizeof six}) == 0;
    uv_close((uv_handle_t *)&probe, NULL);
    snprintf(address, sizeof address, "[::1]:%u", net_port(c.net));
    assert_int_equal(net_dial(b.net, &c.id, address, NULL), BRAID_OK);
    if (has_six) {
        harness_until(&loop, &b.ups, 1);
        assert_non_null(strstr(c.peer.endpoint, "[::1]:"));
    } else {
        print_message("this machine has no IPv6\n");
        harness_until(&loop, &b.downs, 1);
    }
    tester_stop(&c);
    harness_until(&loop, &a.downs, 1);
    tester_end(&c);
}

static void test_port_in_use(void **state) {
    (void)state;
    tester c = {.loop = &loop};
    net_config config = tester_config(&c);
    braid_error error = {0};
    char port[16];
    snprintf(port, sizeof port, "%u", net_port(b.net));
    assert_int_equal(net_new(&loop, a.identity, &config, &c.net, &error), BRAID_OK);
    assert_int_equal(net_listen(c.net, "127.0.0.1", net_port(b.net), &error), BRAID_NETWORK);
    assert_non_null(strstr(error.text, port));
    assert_non_null(strstr(error.text, "taken"));
    assert_int_equal(net_port(c.net), 0);
    assert_int_equal(net_listen(c.net, "192.0.2.1", 0, &error), BRAID_NETWORK);
    assert_non_null(strstr(error.text, "192.0.2.1"));
    assert_int_equal(net_listen(c.net, "127.0.0.1", 0, &error), BRAID_OK);
    assert_int_equal(net_listen(c.net, "127.0.0.1", 0, &error), BRAID_STATE);
    tester_stop(&c);
    uv_run(&loop, UV_RUN_NOWAIT);
}

// Both dial in the same iteration of the loop: one link, the lower id's, and no other callback.
static void test_simultaneous_dials(void **state) {
    (void)state;
    tester *lower = &a, *higher = &b;
    tester_order(&lower, &higher);
    for (unsigned round = 1; round <= 20; round++) {
        if (round % 2 == 0) {
            tester_dial(lower, higher);
            tester_dial(higher, lower);
        } else {
            tester_dial(higher, lower);
            for (unsigned turns = 0; turns < round; turns++)
                uv_run(&loop, UV_RUN_NOWAIT);  // the other one starts later
            tester_dial(lower, higher);
        }
        harness_until(&loop, &a.ups, round);
        harness_until(&loop, &b.ups, round);
        tester_say(lower, higher, "over the one link");
        harness_until(&loop, &higher->messages, round);
        if (round % 2 == 0) assert_true(lower->peer.dialed && !higher->peer.dialed);
        assert_true(lower->peer.dialed != higher->peer.dialed);
        assert_int_equal(a.ups, round);
        assert_int_equal(b.ups, round);
        assert_int_equal(a.downs, round - 1);
        assert_int_equal(net_links(a.net) + net_links(b.net), 2);
        net_close(a.net, &b.id, "next round");
        harness_until(&loop, &a.downs, round);
        harness_until(&loop, &b.downs, round);
    }
}

// The lower id's dial fails: the held HELLO of the other direction is answered.
static void test_crossing_where_one_direction_is_blocked(void **state) {
    (void)state;
    tester *lower = &a, *higher = &b;
    tester_order(&lower, &higher);
    uv_tcp_t closed;  // a port that was just released: refused
    struct sockaddr_in at;
    uv_tcp_init(&loop, &closed);
    uv_ip4_addr("127.0.0.1", 0, &at);
    assert_int_equal(uv_tcp_bind(&closed, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_tcp_getsockname(&closed, (struct sockaddr *)&at, &(int){sizeof at}), 0);
    uv_close((uv_handle_t *)&closed, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    tester_dial(higher, lower);
    for (int i = 0; i < 3; i++) uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(net_dial(lower->net, &higher->id, address, NULL), BRAID_OK);
    harness_until(&loop, &lower->ups, 1);
    harness_until(&loop, &higher->ups, 1);
    assert_int_equal(higher->downs, 0);
    assert_true(higher->peer.dialed);
}

// A peer that lost its end (here: another process with its key) returns and replaces the old link.
static void test_a_returning_peer_replaces_a_dead_link(void **state) {
    (void)state;
    harness_link(&a, &b);
    tester again = {.loop = &loop};
    net_config config = tester_config(&again);
    assert_int_equal(net_new(&loop, a.identity, &config, &again.net, NULL), BRAID_OK);
    again.id = a.id;
    net_run run = tester_run(7);
    assert_int_equal(net_set_run(again.net, &run, NULL), BRAID_OK);
    tester_dial(&again, &b);
    harness_until(&loop, &b.ups, 2);
    assert_int_equal(b.downs, 1);
    assert_true(b.linked);
    assert_non_null(strstr(b.reason, "replaced it"));
    harness_until(&loop, &again.ups, 1);
    harness_until(&loop, &a.downs, 1);
    tester_say(&b, &a, "to the newer one");
    harness_until(&loop, &again.messages, 1);
    assert_int_equal(a.messages, 0);
    tester_stop(&again);
    harness_until(&loop, &b.downs, 2);
}

// Another process with a's key and another address; b considers a alive for this long after its
// last message.
static void twin_start(tester *twin, uint32_t alive_ms) {
    tester_stop(&b);
    uv_run(&loop, UV_RUN_NOWAIT);
    tester_end(&b);
    memset(&b, 0, sizeof b);
    net_config patient = tester_config(&b), config = tester_config(twin);
    patient.alive_ms = alive_ms;
    tester_start_with(&b, &loop, &patient);
    assert_int_equal(net_advertise(a.net, "192.0.2.1:4000", NULL), BRAID_OK);
    harness_link(&a, &b);
    assert_int_equal(net_new(&loop, a.identity, &config, &twin->net, NULL), BRAID_OK);
    twin->loop = &loop;
    twin->id = a.id;
    net_run run = tester_run(7);
    assert_int_equal(net_set_run(twin->net, &run, NULL), BRAID_OK);
}

static void twin_stop(tester *twin) {
    tester_stop(twin);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void test_a_live_peer_keeps_its_link(void **state) {
    (void)state;
    tester twin = {0};
    twin_start(&twin, HARNESS_LIMIT_MS);
    assert_int_equal(net_advertise(twin.net, "192.0.2.2:4000", NULL), BRAID_OK);
    for (unsigned i = 1; i <= 3; i++) {
        tester_dial(&twin, &b);
        harness_until(&loop, &twin.downs, i);
        assert_non_null(strstr(twin.reason, "alive, at 192.0.2.1:4000: every peer needs a key of its own"));
    }
    tester_say(&a, &b, "still here");
    harness_until(&loop, &b.messages, 1);
    assert_int_equal(a.downs + b.downs + twin.ups, 0);
    twin_stop(&twin);
}

static void test_a_silent_link_is_replaced(void **state) {
    (void)state;
    tester twin = {0};
    twin_start(&twin, 20);
    assert_int_equal(net_advertise(twin.net, "192.0.2.2:4000", NULL), BRAID_OK);
    for (unsigned i = 1; twin.ups == 0; i++) {
        assert_true(i < 5000);
        tester_dial(&twin, &b);
        while (twin.ups == 0 && twin.downs < i) uv_run(&loop, UV_RUN_ONCE);
    }
    assert_non_null(strstr(b.reason, "replaced it"));
    twin_stop(&twin);
}

static void test_the_same_address_means_a_return(void **state) {
    (void)state;
    tester twin = {0};
    twin_start(&twin, HARNESS_LIMIT_MS);
    assert_int_equal(net_advertise(twin.net, "192.0.2.1:4000", NULL), BRAID_OK);
    tester_dial(&twin, &b);
    harness_until(&loop, &b.ups, 2);
    assert_non_null(strstr(b.reason, "replaced it"));
    twin_stop(&twin);
}

static void test_own_key_is_refused(void **state) {
    (void)state;
    tester twin = {.loop = &loop};
    net_config config = tester_config(&twin);
    assert_int_equal(net_new(&loop, b.identity, &config, &twin.net, NULL), BRAID_OK);
    net_run run = tester_run(7);
    assert_int_equal(net_set_run(twin.net, &run, NULL), BRAID_OK);
    char address[64];
    braid_error error;
    assert_int_equal(net_dial(twin.net, &b.id, tester_address(&b, address), &error), BRAID_ARGUMENT);
    tester_stop(&twin);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void test_death_in_the_middle_of_a_payload(void **state) {
    (void)state;
    enum { BYTES = 64 << 20 };
    uint8_t *bytes = calloc(1, BYTES);
    harness_link(&a, &b);
    assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)"tensor", 6, bytes, BYTES, 1), BRAID_OK);
    assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)"tensor", 6, bytes, BYTES, 2), BRAID_OK);
    harness_until(&loop, &b.allocs, 1);
    tester_stop(&a);  // the sender: its payloads are returned at once
    assert_int_equal(a.sents, 2);
    harness_until(&loop, &b.downs, 1);
    assert_int_equal(b.drops, 1);
    assert_int_equal(b.payloads, 0);
    free(bytes);
}

static void test_death_of_the_receiver(void **state) {
    (void)state;
    enum { BYTES = 64 << 20 };
    uint8_t *bytes = calloc(1, BYTES);
    harness_link(&a, &b);
    assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)"tensor", 6, bytes, BYTES, 1), BRAID_OK);
    harness_until(&loop, &b.allocs, 1);
    tester_stop(&b);
    assert_int_equal(b.drops, 1);
    harness_until(&loop, &a.downs, 1);
    assert_int_equal(a.sents, 1);
    free(bytes);
}

typedef struct child_says {
    braid_id id;
    uint16_t port;
} child_says;

// A separate process that receives until it is killed.
static pid_t child_start(child_says *says) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static uv_loop_t own;
        static tester t;
        uv_loop_init(&own);
        tester_start(&t, &own);
        child_says ready = {.id = t.id, .port = net_port(t.net)};
        if (write(pipes[1], &ready, sizeof ready) != sizeof ready) _exit(1);
        for (;;) uv_run(&own, UV_RUN_DEFAULT);
    }
    assert_int_equal(read(pipes[0], says, sizeof *says), sizeof *says);
    close(pipes[0]);
    close(pipes[1]);
    return child;
}

static void test_kill_in_the_middle_of_a_payload(void **state) {
    (void)state;
    enum { BYTES = 64 << 20, ENOUGH = 2 << 20 };
    uint8_t *bytes = calloc(1, BYTES);
    child_says says;
    net_stats stats = {0};
    char address[64];
    pid_t child = child_start(&says);
    snprintf(address, sizeof address, "127.0.0.1:%u", says.port);
    assert_int_equal(net_dial(a.net, &says.id, address, NULL), BRAID_OK);
    harness_until(&loop, &a.ups, 1);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(net_send(a.net, &says.id, (const uint8_t *)"tensor", 6, bytes, BYTES, i), BRAID_OK);
    while (stats.bulk_out < ENOUGH && a.downs == 0) {
        uv_run(&loop, UV_RUN_ONCE);
        net_link_stats(a.net, &says.id, &stats);
    }
    uint64_t killed = uv_hrtime();
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    harness_until(&loop, &a.downs, 1);
    print_message("killed, and noticed after %.1f ms: %s\n", (double)(uv_hrtime() - killed) / 1e6, a.reason);
    assert_int_equal(a.refusals, 0);
    assert_int_equal(a.sents, 4);
    // and a peer that dials it now is refused at once
    assert_int_equal(net_dial(a.net, &says.id, address, NULL), BRAID_OK);
    harness_until(&loop, &a.downs, 2);
    assert_int_equal(a.refusals, 1);
    free(bytes);
}

static void close_at_message(tester *t, const braid_id *id, const uint8_t *bytes, size_t count) {
    (void)bytes, (void)count;
    net_close(t->net, id, "in the middle");
}

static void free_at_message(tester *t, const braid_id *id, const uint8_t *bytes, size_t count) {
    (void)id, (void)bytes, (void)count;
    if (t->net != NULL) tester_stop(t);
}

static void test_calls_from_inside_callbacks(void **state) {
    (void)state;
    harness_link(&a, &b);
    b.on_message = close_at_message;
    tester_say(&a, &b, "one");
    tester_say(&a, &b, "two");
    harness_until(&loop, &a.downs, 1);
    harness_until(&loop, &b.downs, 1);
    assert_int_equal(b.messages, 1);
    harness_link(&a, &b);
    b.on_message = free_at_message;
    tester_say(&a, &b, "one");
    tester_say(&a, &b, "two");
    harness_until(&loop, &a.downs, 2);
    assert_int_equal(b.messages, 2);
    assert_null(b.net);
}

static void test_the_number_of_links_is_limited(void **state) {
    (void)state;
    tester c = {.loop = &loop}, d;
    net_config config = tester_config(&c);
    config.max_links = 1;
    tester_start_with(&c, &loop, &config);
    tester_start(&d, &loop);
    harness_link(&a, &c);
    tester_dial(&b, &c);
    harness_until(&loop, &b.downs, 1);
    assert_non_null(strstr(b.reason, "limit of links"));
    char address[64];
    assert_int_equal(net_dial(c.net, &d.id, tester_address(&d, address), NULL), BRAID_LIMIT);
    assert_true(c.linked && a.linked);
    tester_stop(&c);
    tester_stop(&d);
    harness_until(&loop, &a.downs, 1);
    tester_end(&c);
    tester_end(&d);
}

static unsigned open_files(void) {
    unsigned count = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d != NULL && readdir(d) != NULL) count++;
    if (d != NULL) closedir(d);
    return count;
}

static void test_nothing_leaks_over_200_links(void **state) {
    (void)state;
    harness_link(&a, &b);
    unsigned before = open_files();
    for (unsigned i = 1; i <= 200; i++) {
        net_close(i % 2 ? a.net : b.net, i % 2 ? &b.id : &a.id, "again");
        harness_until(&loop, &a.downs, i);
        harness_until(&loop, &b.downs, i);
        harness_link(i % 3 ? &a : &b, i % 3 ? &b : &a);
    }
    for (int i = 0; i < 100 && open_files() > before; i++) uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(open_files(), before);
}

// All peers dial each other at the same time, in random directions.
static void test_many_peers(void **state) {
    (void)state;
    enum { PEERS = 12 };
    static tester peers[PEERS];
    for (int i = 0; i < PEERS; i++) tester_start(&peers[i], &loop);
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if (i != j) tester_dial(&peers[i], &peers[j]);
        }
    }
    for (int i = 0; i < PEERS; i++) harness_until(&loop, &peers[i].ups, PEERS - 1);
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if (i != j) tester_say(&peers[i], &peers[j], "all to all");
        }
    }
    for (int i = 0; i < PEERS; i++) harness_until(&loop, &peers[i].messages, PEERS - 1);
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(peers[i].ups, PEERS - 1);
        assert_int_equal(peers[i].downs, 0);
        assert_int_equal(peers[i].messages, PEERS - 1);
        assert_int_equal(net_links(peers[i].net), PEERS - 1);
    }
    for (int i = 0; i < PEERS; i++) tester_stop(&peers[i]);
    for (int i = 0; i < 10; i++) uv_run(&loop, UV_RUN_NOWAIT);
    for (int i = 0; i < PEERS; i++) tester_end(&peers[i]);
}

#define PAIR_TEST(f) cmocka_unit_test_setup_teardown(f, setup_pair, teardown_pair)

int main(void) {
    const struct CMUnitTest tests[] = {
        PAIR_TEST(test_two_peers_talk),
        PAIR_TEST(test_messages_are_sent_before_a_close),
        PAIR_TEST(test_last_messages_wait_for_a_tensor_in_transit),
        PAIR_TEST(test_payloads_arrive_whole),
        PAIR_TEST(test_refused_payload_is_skipped),
        PAIR_TEST(test_send_limits),
        PAIR_TEST(test_wrong_id),
        PAIR_TEST(test_other_run),
        PAIR_TEST(test_other_kernels),
        PAIR_TEST(test_other_generation),
        PAIR_TEST(test_enquiry),
        PAIR_TEST(test_a_failed_enquiry_does_not_report_a_link),
        PAIR_TEST(test_a_closed_port_is_reported),
        PAIR_TEST(test_names_and_addresses),
        PAIR_TEST(test_ipv6),
        PAIR_TEST(test_port_in_use),
        PAIR_TEST(test_simultaneous_dials),
        PAIR_TEST(test_crossing_where_one_direction_is_blocked),
        PAIR_TEST(test_a_returning_peer_replaces_a_dead_link),
        PAIR_TEST(test_a_live_peer_keeps_its_link),
        PAIR_TEST(test_a_silent_link_is_replaced),
        PAIR_TEST(test_the_same_address_means_a_return),
        PAIR_TEST(test_own_key_is_refused),
        PAIR_TEST(test_death_in_the_middle_of_a_payload),
        PAIR_TEST(test_death_of_the_receiver),
        PAIR_TEST(test_kill_in_the_middle_of_a_payload),
        PAIR_TEST(test_calls_from_inside_callbacks),
        PAIR_TEST(test_the_number_of_links_is_limited),
        PAIR_TEST(test_nothing_leaks_over_200_links),
        PAIR_TEST(test_many_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
