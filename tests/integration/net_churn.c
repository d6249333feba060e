// Peers that dial, close, die and return at random, over connections with random delay. Ups and
// downs alternate, payloads are returned once, and in the end every pair of peers can connect.
#include "net_harness.h"

#include "net_proxy.h"
#include "seed.h"

enum { PEERS = 6, STEPS = 1500, PAYLOAD_BYTES = 400000, DELAY_MS = 8 };

typedef struct member {
    tester t;
    road road;       // the proxy's port for this peer
    bool up[PEERS];  // as reported by the callbacks
    unsigned ups, downs;
    unsigned heard[PEERS];    // messages in the last round
    unsigned lent, returned;  // payloads
    unsigned pending[PEERS];  // dials without an answer so far
} member;

static uv_loop_t loop;
static member all[PEERS];
static rng random_source;
static uint8_t payload[PAYLOAD_BYTES];

static int index_of(const braid_id *id) {
    for (int i = 0; i < PEERS; i++) {
        if (id_equal(&all[i].t.id, id)) return i;
    }
    fail_msg("a callback names a peer that does not exist");
    return 0;
}

static void on_up(void *context, const braid_id *id, const net_peer *peer) {
    member *m = context;
    int other = index_of(id);
    m->t.peer = *peer;
    assert_false(m->up[other]);
    m->up[other] = true;
    m->ups++;
    m->pending[other] = 0;
    uv_stop(&loop);
}

static void on_down(void *context, const braid_id *id, bool refused, const char *reason) {
    member *m = context;
    int other = index_of(id);
    assert_true(m->up[other] || m->pending[other] > 0);  // a reported link, or the end of a dial
    assert_false(m->up[other] && refused);
    assert_true(strlen(reason) > 0);
    if (!m->up[other]) m->pending[other] = 0;
    m->up[other] = false;
    m->downs++;
    uv_stop(&loop);
}

static void on_message(void *context, const braid_id *id, const uint8_t *bytes, size_t count, void *body,
                       uint64_t body_bytes, uint64_t token) {
    member *m = context;
    (void)body_bytes, (void)token;
    assert_true(m->up[index_of(id)]);
    if (count == 4 && memcmp(bytes, "last", 4) == 0) m->heard[index_of(id)]++;
    if (body != NULL) m->t.payloads++;
    free(body);
    if (body != NULL && rng_below(&random_source, 20) == 0) net_close(m->t.net, id, "enough of this");
    uv_stop(&loop);
}

static void on_sent(void *context, uint64_t token) {
    member *m = context;
    (void)token;
    m->returned++;
    assert_true(m->returned <= m->lent);
}

static void open_net(member *m) {
    net_config config = tester_config(&m->t);
    config.callbacks.context = m;
    config.callbacks.link_up = on_up;
    config.callbacks.link_down = on_down;
    config.callbacks.message = on_message;
    config.callbacks.payload_sent = on_sent;
    net_run run = tester_run(7);
    assert_int_equal(net_new(&loop, m->t.identity, &config, &m->t.net, NULL), BRAID_OK);
    assert_int_equal(net_set_run(m->t.net, &run, NULL), BRAID_OK);
    assert_int_equal(net_listen(m->t.net, "127.0.0.1", 0, NULL), BRAID_OK);
    m->road.to_port = net_port(m->t.net);
    memset(m->up, 0, sizeof m->up);
    memset(m->pending, 0, sizeof m->pending);
}

static void dial(member *from, int other) {
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", all[other].road.port);
    if (!net_linked(from->t.net, &all[other].t.id))
        from->pending[other] = 1;  // a closing link is not reported down yet
    assert_int_equal(net_dial(from->t.net, &all[other].t.id, address, NULL), BRAID_OK);
}

static void step(void) {
    member *m = &all[rng_below(&random_source, PEERS)];
    int other = (int)rng_below(&random_source, PEERS);
    if (&all[other] == m) return;
    switch (rng_below(&random_source, 12)) {
    case 0:
    case 1:
    case 2: dial(m, other); break;
    case 3:  // both in the same step
        dial(m, other);
        dial(&all[other], (int)(m - all));
        break;
    case 4: net_close(m->t.net, &all[other].t.id, "by chance"); break;
    case 5:
        if (rng_below(&random_source, 8) != 0) break;
        net_free(m->t.net);
        assert_int_equal(m->returned, m->lent);
        open_net(m);
        break;
    case 6:
    case 7:
        if (net_send(m->t.net, &all[other].t.id, (const uint8_t *)"p", 1, payload,
                     1 + rng_below(&random_source, PAYLOAD_BYTES), 1) == BRAID_OK)
            m->lent++;
        break;
    default: net_send(m->t.net, &all[other].t.id, (const uint8_t *)"hello", 5, NULL, 0, 0);
    }
}

static bool everybody_is_linked(void) {
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if (i != j && !all[i].up[j]) return false;
        }
    }
    return true;
}

static bool everybody_was_heard(void) {
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if (i != j && all[i].heard[j] == 0) return false;
        }
    }
    return true;
}

static void nothing(uv_timer_t *timer) { (void)timer; }

static void too_late(uv_timer_t *timer) { *(bool *)timer->data = true; }

static void open_members(int count, uint64_t most_delay_ms) {
    random_source = seeded_rng("churn", 1);
    uv_loop_init(&loop);
    for (int i = 0; i < count; i++) {
        all[i] = (member){.t = {.loop = &loop}};
        assert_true(road_open(&all[i].road, &loop, &random_source, most_delay_ms));
        assert_int_equal(identity_new(&all[i].t.identity, NULL), BRAID_OK);
        all[i].t.id = identity_id(all[i].t.identity);
        open_net(&all[i]);
    }
}

static void churn(uint64_t most_delay_ms) {
    uv_timer_t timer;
    bool late = false;
    open_members(PEERS, most_delay_ms);
    uv_timer_init(&loop, &timer);
    timer.data = &late;
    uv_timer_start(&timer, nothing, 1, 1);  // bounds the loop's sleep
    for (int i = 0; i < STEPS; i++) {
        step();
        for (uint64_t turns = rng_below(&random_source, 8); turns > 0; turns--)
            uv_run(&loop, most_delay_ms > 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    }
    uv_timer_start(&timer, too_late, HARNESS_LIMIT_MS, 1);
    while (!everybody_is_linked() && !late) {
        for (int i = 0; i < PEERS; i++) {
            for (int j = 0; j < PEERS; j++) {
                if (i != j && !all[i].up[j] && all[i].pending[j] == 0) dial(&all[i], j);
            }
        }
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_false(late);
    // and both sides have the same links: each receives the other's message
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if (i != j)
                assert_int_equal(net_send(all[i].t.net, &all[j].t.id, (const uint8_t *)"last", 4, NULL, 0, 0),
                                 BRAID_OK);
        }
    }
    while (!everybody_was_heard() && !late) uv_run(&loop, UV_RUN_ONCE);
    assert_false(late);
    unsigned payloads = 0, lent = 0;
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(net_links(all[i].t.net), PEERS - 1);
        net_free(all[i].t.net);
        road_close(&all[i].road);
        assert_int_equal(all[i].returned, all[i].lent);
        payloads += all[i].t.payloads;
        lent += all[i].lent;
    }
    print_message("%u payloads of %u arrived\n", payloads, lent);
    assert_true(payloads > 20);
    uv_close((uv_handle_t *)&timer, NULL);
    harness_finish(&loop);
    for (int i = 0; i < PEERS; i++) tester_end(&all[i].t);
}

static void test_churn_on_the_loopback(void **state) {
    (void)state;
    churn(0);
}

static void test_churn_over_slow_connections(void **state) {
    (void)state;
    churn(DELAY_MS);
}

static void set_passed(uv_timer_t *timer) {
    *(unsigned *)timer->data = 1;
    uv_stop(timer->loop);
}

static void wait_ms(uv_timer_t *timer, uint64_t milliseconds) {
    unsigned passed = 0;
    timer->data = &passed;
    uv_timer_start(timer, set_passed, milliseconds, 0);
    harness_until(&loop, &passed, 1);
}

// Two peers dial each other, one a little after the other. Whatever the order of messages, each
// reports one link and no end.
static void test_crossing_dials_do_not_flap(void **state) {
    (void)state;
    enum { ROUNDS = 60 };
    uv_timer_t timer;
    unsigned by_lower = 0;
    open_members(2, DELAY_MS);
    uv_timer_init(&loop, &timer);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        int first = (int)rng_below(&random_source, 2);
        dial(&all[first], 1 - first);
        uint64_t later = rng_below(&random_source, 5 * DELAY_MS);  // up to the duration of a handshake
        if (later > 0) wait_ms(&timer, later);
        dial(&all[1 - first], first);
        for (int i = 0; i < 2; i++) harness_until(&loop, &all[i].ups, round);
        wait_ms(&timer, 4 * DELAY_MS);  // for messages still in transit
        for (int i = 0; i < 2; i++) {
            assert_int_equal(all[i].ups, round);
            assert_int_equal(all[i].downs, round - 1);
            assert_int_equal(net_links(all[i].t.net), 1);
        }
        int lower = memcmp(&all[0].t.id, &all[1].t.id, sizeof(braid_id)) < 0 ? 0 : 1;
        by_lower += all[lower].t.peer.dialed;
        net_close(all[first].t.net, &all[1 - first].t.id, "next round");
        for (int i = 0; i < 2; i++) harness_until(&loop, &all[i].downs, round);
    }
    print_message("the lower id's dial survived %u of %u times\n", by_lower, ROUNDS);
    assert_true(by_lower > ROUNDS / 4);
    for (int i = 0; i < 2; i++) {
        net_free(all[i].t.net);
        road_close(&all[i].road);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    harness_finish(&loop);
    for (int i = 0; i < 2; i++) tester_end(&all[i].t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_churn_on_the_loopback),
        cmocka_unit_test(test_churn_over_slow_connections),
        cmocka_unit_test(test_crossing_dials_do_not_flap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
