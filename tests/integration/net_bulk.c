// Tensors and short messages on one link: the order of delivery, and the speed.
#include "net_harness.h"

#include "seed.h"

#include <pthread.h>
#include <time.h>

enum { PAYLOAD_BYTES = 1 << 20, PAYLOADS = 200, SPEED_PAYLOAD_BYTES = 4 << 20, SPEED_PAYLOADS = 64 };

static uv_loop_t loop;
static tester a, b;

static int setup(void **state) {
    (void)state;
    uv_loop_init(&loop);
    tester_start(&a, &loop);
    tester_start(&b, &loop);
    harness_link(&a, &b);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tester_stop(&a);
    tester_stop(&b);
    harness_finish(&loop);
    tester_end(&a);
    tester_end(&b);
    return 0;
}

// Each message carries the number of bulk bytes that were encrypted when it was queued. Hardly more
// bulk bytes may have arrived before it. For the amount that is encrypted and then waits, see the
// peer in net_hostile.c that does not read.
typedef struct overtaking {
    uint64_t most_after;
    unsigned asked, answered, middle;
    rng random;
} overtaking;

static overtaking seen;

static void compare_order(tester *t, const braid_id *id, const uint8_t *bytes, size_t count) {
    uint64_t at_send = 0;
    (void)id;
    if (count != sizeof at_send) return;
    memcpy(&at_send, bytes, sizeof at_send);
    uint64_t after = t->bulk_at_message > at_send ? t->bulk_at_message - at_send : 0;
    if (after > seen.most_after) seen.most_after = after;
    seen.answered++;
    seen.middle += t->bulk_at_message % PAYLOAD_BYTES != 0;
}

// Sends at random in any iteration of the loop.
static void ask(uv_idle_t *idle) {
    (void)idle;
    net_stats out;
    if (rng_below(&seen.random, 4) != 0 || !net_link_stats(a.net, &b.id, &out)) return;
    assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)&out.bulk_out, sizeof out.bulk_out, NULL, 0, 0), BRAID_OK);
    seen.asked++;
}

static void test_messages_overtake_tensors(void **state) {
    (void)state;
    uint8_t *bytes = calloc(1, PAYLOAD_BYTES);
    uv_idle_t idle;
    seen = (overtaking){.random = seeded_rng("overtaking", 1)};
    b.on_message = compare_order;
    for (unsigned i = 0; i < PAYLOADS; i++) {
        assert_int_equal(net_send(a.net, &b.id, (const uint8_t *)"t", 1, bytes, PAYLOAD_BYTES, i), BRAID_OK);
    }
    uv_idle_init(&loop, &idle);
    uv_idle_start(&idle, ask);
    harness_until(&loop, &b.payloads, PAYLOADS);
    uv_close((uv_handle_t *)&idle, NULL);
    harness_until(&loop, &seen.answered, seen.asked);
    print_message(
        "%u messages among %d MiB of tensors, %u of them in the middle of one: at most %llu bulk bytes went ahead that "
        "were not handed on before\n",
        seen.asked, PAYLOADS * (PAYLOAD_BYTES >> 20), seen.middle, (unsigned long long)seen.most_after);
    assert_true(seen.asked > 100 && seen.middle > 50);
    assert_true(seen.most_after <= WIRE_MAX_CHUNK_BYTES);
    free(bytes);
}

// --- speed: the receiver has a thread and a loop of its own

typedef struct receiver {
    tester t;
    uv_loop_t loop;
    uv_sem_t ready;
    double cpu_seconds;
} receiver;

static void receiver_end(tester *t, const braid_id *id, const uint8_t *bytes, size_t count) {
    (void)id, (void)bytes, (void)count;
    if (t->payloads == SPEED_PAYLOADS) tester_say(t, t->extra, "all there");
}

// Processor time, which does not include other programs of this machine.
static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *receive(void *context) {
    receiver *r = context;
    uv_loop_init(&r->loop);
    tester_start(&r->t, &r->loop);
    r->t.on_message = receiver_end;
    r->t.extra = &a;
    uv_sem_post(&r->ready);
    double begun = cpu_seconds();
    harness_until(&r->loop, &r->t.downs, 1);
    r->cpu_seconds = cpu_seconds() - begun;
    tester_stop(&r->t);
    harness_finish(&r->loop);
    tester_end(&r->t);
    return NULL;
}

static void test_speed(void **state) {
    (void)state;
    static receiver r;
    pthread_t thread;
    uint8_t *bytes = malloc(SPEED_PAYLOAD_BYTES);
    memset(bytes, 42, SPEED_PAYLOAD_BYTES);
    uv_sem_init(&r.ready, 0);
    assert_int_equal(pthread_create(&thread, NULL, receive, &r), 0);
    uv_sem_wait(&r.ready);
    harness_link(&a, &r.t);
    uint64_t start = uv_hrtime();
    double begun = cpu_seconds();
    for (unsigned i = 0; i < SPEED_PAYLOADS; i++) {
        assert_int_equal(net_send(a.net, &r.t.id, (const uint8_t *)"t", 1, bytes, SPEED_PAYLOAD_BYTES, i), BRAID_OK);
    }
    harness_until(&loop, &a.messages, 1);
    double seconds = (double)(uv_hrtime() - start) / 1e9, sender = cpu_seconds() - begun;
    net_close(a.net, &r.t.id, "enough");
    harness_until(&loop, &a.downs, 1);
    for (int i = 0; i < 100; i++) uv_run(&loop, UV_RUN_NOWAIT);
    pthread_join(thread, NULL);
    double megabytes = (double)SPEED_PAYLOADS * SPEED_PAYLOAD_BYTES / 1e6;
    print_message("%.0f MB over one link, an end per thread: %.0f MB/s; per second of CPU the sender %.0f MB, the "
                  "receiver %.0f MB\n",
                  megabytes, megabytes / seconds, megabytes / sender, megabytes / r.cpu_seconds);
    uv_sem_destroy(&r.ready);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages_overtake_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_speed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
