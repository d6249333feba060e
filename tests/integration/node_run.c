// Whole peers in one process, each with its own loop on its own thread, over real links: they train
// to the end, and the result does not depend on their number.
#include "node/node.h"
#include "train/kernel_class.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PEERS = 8 };

typedef struct swarm_test {
    char directory[64], text[96];
    run_config run;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char ticket[TICKET_MAX_TEXT];
    uint64_t iterations;
    bool ended, odd;
    braid_hash weights;
} swarm_test;

typedef struct member_thread {
    swarm_test *test;
    node_config config;
    identity *own;
    bool rounds_up;  // its kernels are of another class
    pthread_t thread;
    braid_err err;
    braid_error error;
} member_thread;

static int set_up(void **state) {
    swarm_test *t = calloc(1, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    strcpy(t->directory, "braid-test-XXXXXX");
    if (!mkdtemp(t->directory)) return -1;
    snprintf(t->text, sizeof t->text, "%s/text", t->directory);
    FILE *file = fopen(t->text, "w");
    for (int i = 0; i < 4000; i++) fprintf(file, "line %d of a small text\n", i * 37 % 1000);
    fclose(file);
    char yaml[512];
    // Binary fractions, which peers with other rounding read identically.
    snprintf(yaml, sizeof yaml, "stages: [0, 1, 1]\nmodel: {dim: 32, layers: 2, heads: 2, context: 16, norm_eps: 0.000244140625}\n"
             "data: {text: %s, holdout: 0.0625}\ntrain: {iterations: 6, microbatches: 4, sequences: 1, learning_rate: 0.0009765625, "
             "min_learning_rate: 0.000244140625, betas: [0.875, 0.9375], eps: 0.000244140625, weight_decay: 0.125}\n"
             "eval: {every: 3, microbatches: 1}\n", t->text);
    braid_error error = {0};
    if (run_config_parse(yaml, strlen(yaml), "run.yaml", NULL, &t->run, &error)) fail_msg("%s", error.text);
    *state = t;
    return 0;
}

static int tear_down(void **state) {
    swarm_test *t = *state;
    unlink(t->text);
    int code = rmdir(t->directory);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
    return code;
}

static void on_listening(void *context, const braid_id *self, const char *address, const char *text) {
    swarm_test *t = context;
    (void)self, (void)address;
    pthread_mutex_lock(&t->lock);
    snprintf(t->ticket, sizeof t->ticket, "%s", text);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void on_told(void *context, const tell *what) {
    swarm_test *t = context;
    pthread_mutex_lock(&t->lock);
    if (what->kind == TELL_ITERATION) t->iterations++;
    if (what->kind == TELL_END) {
        t->ended = true;
        t->weights = what->hash;
    }
    pthread_mutex_unlock(&t->lock);
}

static void *member_main(void *argument) {
    member_thread *m = argument;
    node *n = NULL;
    if (m->rounds_up) fesetround(FE_UPWARD);
    m->err = node_new(&m->config, &n, &m->error);
    if (!m->err) m->err = node_run(n, &m->error);
    node_free(n);
    return NULL;
}

static void member_start(member_thread *m, swarm_test *t, node_role role) {
    m->test = t;
    assert_int_equal(identity_new(&m->own, &m->error), BRAID_OK);
    m->config.role = role;
    m->config.identity = m->own;
    m->config.listen = "127.0.0.1:0";
    m->config.threads = 1;
    m->config.patience_ns = 30000000000u;
    if (role != NODE_RELAY) m->config.run = &t->run;
    assert_int_equal(pthread_create(&m->thread, NULL, member_main, m), 0);
}

// A peer of another kernel class is refused with both classes named, and the others train without
// it.
static void try_other_kernels(swarm_test *t) {
    member_thread odd = {.rounds_up = true};
    assert_int_equal(ticket_parse(t->ticket, &odd.config.leader, NULL), BRAID_OK);
    member_start(&odd, t, NODE_RELAY);
    pthread_join(odd.thread, NULL);
    identity_free(odd.own);
    braid_hash here;
    char named[32], text[17];
    assert_int_equal(kernel_class_of(&t->run.model, false, &here, NULL), BRAID_OK);
    id_hex(here.bytes, 8, text);
    snprintf(named, sizeof named, "needs class %s", text);
    assert_int_equal(odd.err, BRAID_STATE);
    assert_non_null(strstr(odd.error.text, "kernels are of class "));
    assert_non_null(strstr(odd.error.text, named));
}

static braid_hash train(swarm_test *t, uint32_t data_peers, uint32_t relays) {
    static member_thread peers[MAX_PEERS];
    memset(peers, 0, sizeof peers);
    t->ticket[0] = 0;
    t->iterations = 0;
    t->ended = false;
    peers[0].config.start_data_peers = data_peers;
    peers[0].config.start_relays = relays;
    peers[0].config.callbacks = (node_callbacks){.context = t, .listening = on_listening, .told = on_told};
    member_start(&peers[0], t, NODE_LEADER);
    pthread_mutex_lock(&t->lock);
    while (!t->ticket[0]) pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    if (t->odd) try_other_kernels(t);
    for (uint32_t i = 1; i < data_peers + relays; i++) {
        assert_int_equal(ticket_parse(t->ticket, &peers[i].config.leader, NULL), BRAID_OK);
        member_start(&peers[i], t, i < data_peers ? NODE_DATA : NODE_RELAY);
    }
    for (uint32_t i = 0; i < data_peers + relays; i++) {
        pthread_join(peers[i].thread, NULL);
        if (peers[i].err) fail_msg("peer %u: %s", i, peers[i].error.text);
        identity_free(peers[i].own);
    }
    assert_true(t->ended);
    assert_int_equal(t->iterations, t->run.recipe.iterations);
    return t->weights;
}

static void the_number_of_peers_does_not_matter(void **state) {
    swarm_test *t = *state;
    braid_hash few = train(t, 1, 2), many = train(t, 2, 4);
    assert_memory_equal(&few, &many, sizeof few);
}

static void other_kernels_are_refused(void **state) {
    swarm_test *t = *state;
    t->odd = true;
    train(t, 1, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_number_of_peers_does_not_matter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_kernels_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
