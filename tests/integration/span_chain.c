// A chain of peers in one process, over real links: the rows of a text after the last layer are
// those of one engine, bit for bit, also after peers are gone.
#include "infer/engine.h"
#include "net/identity.h"
#include "node/clock.h"
#include "span/executor.h"
#include "tiny_model.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PEERS = 4, TOKENS = 40, PROMPT = 9, PATIENCE_MS = 100000 };

typedef struct held_peer {
    span_peer *peer;
    identity *id;
    pthread_t thread;
    atomic_bool holds;
    uint32_t begin, end;
    braid_error error;
} held_peer;

typedef struct swarm {
    model_file *file;
    identity *id;
    executor *executor;
    ticket join;
    held_peer peer[PEERS];
    // of the listener
    pthread_mutex_t lock;
    pthread_cond_t came;
    executor_outcome outcome;
    uint32_t answers, rows;
    float x[TOKENS * 64];
    // one engine with everything
    tensor_pool *pool;
    engine *engine;
} swarm;

static void on_result(void *context, const executor_result *r) {
    swarm *s = context;
    pthread_mutex_lock(&s->lock);
    s->outcome = r->outcome;
    s->rows = r->rows;
    if (r->outcome == EXECUTOR_READ) memcpy(s->x, r->x, r->rows * 64 * sizeof *r->x);
    s->answers++;
    pthread_cond_signal(&s->came);
    pthread_mutex_unlock(&s->lock);
}

static void on_changed(void *context) { (void)context; }

static executor_outcome wait_answer(swarm *s, uint32_t before) {
    pthread_mutex_lock(&s->lock);
    while (s->answers == before) pthread_cond_wait(&s->came, &s->lock);
    executor_outcome outcome = s->outcome;
    pthread_mutex_unlock(&s->lock);
    return outcome;
}

static void on_holds(void *context, uint32_t begin, uint32_t end) {
    held_peer *h = context;
    h->begin = begin;
    h->end = end;
    atomic_store(&h->holds, true);
}

static void *peer_main(void *argument) {
    held_peer *h = argument;
    (void)span_peer_run(h->peer, &h->error);
    return NULL;
}

static span_config peer_config(swarm *s, held_peer *h) {
    assert_int_equal(identity_new(&h->id, NULL), BRAID_OK);
    return (span_config){.identity = h->id,
                         .listen = "127.0.0.1:0",
                         .path = "model",
                         .file = s->file,
                         .join = s->join,
                         .memory = 64 << 20,
                         .threads = 1,
                         .callbacks = {.context = h, .holds = on_holds}};
}

static void config_start(held_peer *h, const span_config *config) {
    braid_error error = {0};
    h->error = (braid_error){0};
    atomic_store(&h->holds, false);
    if (span_peer_new(config, &h->peer, &error)) fail_msg("%s", error.text);
    assert_int_equal(pthread_create(&h->thread, NULL, peer_main, h), 0);
}

static void peer_start(swarm *s, uint32_t i, uint32_t begin, uint32_t end) {
    span_config config = peer_config(s, &s->peer[i]);
    config.layer_begin = begin;
    config.layer_end = end;
    config_start(&s->peer[i], &config);
}

static void peer_end(swarm *s, uint32_t i) {
    held_peer *h = &s->peer[i];
    if (!h->peer) return;
    span_peer_stop(h->peer);
    pthread_join(h->thread, NULL);
    if (h->error.code) fail_msg("%s", h->error.text);
    span_peer_free(h->peer);
    identity_free(h->id);
    h->peer = NULL;
}

static void wait_ready(swarm *s) {
    executor_room room;
    uint64_t start = clock_now_ns();
    for (executor_room_of(s->executor, &room); !room.ready; executor_room_of(s->executor, &room)) {
        if (clock_now_ns() - start > PATIENCE_MS * UINT64_C(1000000)) fail_msg("not ready: %s", room.blocker);
        usleep(20000);
    }
}

static void swarm_open(swarm *s, uint32_t own_layers) {
    model_config c = tiny_llama();
    static tiny_file weights;
    tiny_fill(&weights, &c, 7);
    tiny_write("model", &c, &weights);
    tiny_free(&weights);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->came, NULL);
    braid_error error = {0};
    if (model_file_open("model", &s->file, &error)) fail_msg("%s", error.text);
    assert_int_equal(identity_new(&s->id, NULL), BRAID_OK);
    span_config config = {.identity = s->id,
                          .listen = "127.0.0.1:0",
                          .path = "model",
                          .file = s->file,
                          .origin = true,
                          .layer_end = own_layers,
                          .memory = 64 << 20,
                          .threads = 1};
    if (span_model_read(s->file, "model", &config.model, &error)) fail_msg("%s", error.text);
    if (executor_chain_new(&config, &s->executor, &error)) fail_msg("%s", error.text);
    executor_listen(s->executor, &(executor_listener){s, on_result, on_changed});
    char text[TICKET_MAX_TEXT];
    executor_chain_ticket(s->executor, text);
    assert_int_equal(ticket_parse(text, &s->join, NULL), BRAID_OK);
    assert_true(s->join.serves);
    assert_int_equal(tensor_pool_new(1, &s->pool, NULL), BRAID_OK);
    engine_source source = engine_source_file(s->file);
    if (engine_new(&source, &(engine_settings){.pool = s->pool}, &s->engine, &error)) fail_msg("%s", error.text);
}

static void swarm_close(swarm *s) {
    for (uint32_t i = 0; i < PEERS; i++) peer_end(s, i);
    executor_free(s->executor);
    identity_free(s->id);
    engine_free(s->engine);
    tensor_pool_free(s->pool);
    model_file_close(s->file);
}

static uint32_t token_at(uint32_t i) { return (i * 37 + 11) % 128; }

// The rows of one engine, and their embeddings.
static void expected(swarm *s, float *embedded, float *out) {
    uint32_t tokens[TOKENS];
    sequence *q;
    for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = token_at(i);
    assert_int_equal(sequence_new(s->engine, &q, NULL), BRAID_OK);
    engine_part part = {q, TOKENS, tokens};
    assert_int_equal(engine_embed(s->engine, &part, 1, embedded, NULL), BRAID_OK);
    memcpy(out, embedded, TOKENS * 64 * sizeof *out);
    assert_int_equal(engine_layers(s->engine, &(engine_part){q, TOKENS, NULL}, 1, out, NULL), BRAID_OK);
    sequence_free(q);
}

static void read_rows(swarm *s, uint64_t session, uint32_t first, uint32_t count, uint32_t rows, const float *embedded,
                      const float *out) {
    uint32_t tokens[TOKENS], before = s->answers;
    for (uint32_t i = 0; i < count; i++) tokens[i] = token_at(first + i);
    const executor_step step = {session, first, count, rows, tokens, embedded + first * 64};
    executor_read(s->executor, &step, 1);
    assert_int_equal(wait_answer(s, before), EXECUTOR_READ);
    assert_int_equal(s->rows, rows);
    assert_memory_equal(s->x, out + (first + count - rows) * 64, rows * 64 * sizeof *out);
}

static void begin(swarm *s, uint64_t session) {
    uint32_t before = s->answers, tokens[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++) tokens[i] = token_at(i);
    executor_begin(s->executor, session, NULL, tokens, PROMPT);
    assert_int_equal(wait_answer(s, before), EXECUTOR_BEGAN);
}

static void a_chain_has_the_bits_of_one_engine(void **state) {
    (void)state;
    static swarm s;
    static float embedded[TOKENS * 64], out[TOKENS * 64];
    swarm_open(&s, 0);
    expected(&s, embedded, out);
    peer_start(&s, 0, 0, 1);
    peer_start(&s, 1, 1, 2);
    peer_start(&s, 2, 2, 3);
    wait_ready(&s);
    begin(&s, 1);
    read_rows(&s, 1, 0, PROMPT, 3, embedded, out);
    for (uint32_t i = PROMPT; i < 20; i++) read_rows(&s, 1, i, 1, 1, embedded, out);
    // tokens are taken back
    read_rows(&s, 1, 15, 4, 4, embedded, out);
    // a substitute for all layers, without the middle one and then without the last
    peer_start(&s, 3, 0, 3);
    while (!atomic_load(&s.peer[3].holds)) usleep(20000);
    peer_end(&s, 1);
    for (uint32_t i = 19; i < 25; i++) read_rows(&s, 1, i, 1, 1, embedded, out);
    peer_end(&s, 2);
    for (uint32_t i = 25; i < 30; i++) read_rows(&s, 1, i, 1, 1, embedded, out);
    executor_close(s.executor, 1);
    begin(&s, 2);
    read_rows(&s, 2, 0, 12, 0, embedded, out);  // part of a longer prompt: no row is wanted
    read_rows(&s, 2, 12, 18, 18, embedded, out);
    char *status = executor_swarm(s.executor);
    assert_non_null(status);
    assert_non_null(strstr(status, "\"ready\":true"));
    free(status);
    executor_close(s.executor, 2);
    swarm_close(&s);
}

// The API node has the first layer: a hop to itself.
static void an_origin_may_hold_layers(void **state) {
    (void)state;
    static swarm s;
    static float embedded[TOKENS * 64], out[TOKENS * 64];
    swarm_open(&s, 1);
    expected(&s, embedded, out);
    peer_start(&s, 0, 1, 2);
    peer_start(&s, 1, 2, 3);
    wait_ready(&s);
    begin(&s, 1);
    read_rows(&s, 1, 0, PROMPT, 3, embedded, out);
    for (uint32_t i = PROMPT; i < 20; i++) read_rows(&s, 1, i, 1, 1, embedded, out);
    // tokens are taken back, and the peer after the own layers is replaced
    peer_start(&s, 2, 1, 3);
    while (!atomic_load(&s.peer[2].holds)) usleep(20000);
    peer_end(&s, 0);
    read_rows(&s, 1, 15, 4, 4, embedded, out);
    char *status = executor_swarm(s.executor);
    assert_non_null(status);
    free(status);
    executor_close(s.executor, 1);
    swarm_close(&s);
}

static void wait_holds(held_peer *h) {
    while (!atomic_load(&h->holds)) usleep(20000);
}

// A peer that ends by itself.
static void expect_refused(swarm *s, const span_config *config, held_peer *h, braid_err code, const char *text) {
    (void)s;
    config_start(h, config);
    pthread_join(h->thread, NULL);
    assert_int_equal(h->error.code, code);
    if (!strstr(h->error.text, text)) fail_msg("'%s' does not say '%s'", h->error.text, text);
    span_peer_free(h->peer);
    identity_free(h->id);
    h->peer = NULL;
}

// Memory of a peer besides weights, keys and values.
static uint64_t computing_bytes(const swarm *s) {
    engine_source source = engine_source_file(s->file);
    const engine_settings settings = {.pool = s->pool, .no_ends = true, .layer_end = 1};
    engine *e = NULL;
    assert_int_equal(engine_new(&source, &settings, &e, NULL), BRAID_OK);
    assert_int_equal(engine_reserve(e, ENGINE_CHUNK_ROWS, engine_context(e), NULL), BRAID_OK);
    uint64_t bytes = engine_scratch_bytes(e) - engine_copied_bytes(e);
    engine_free(e);
    return bytes;
}

static void a_joiner_takes_what_is_missing(void **state) {
    (void)state;
    static swarm s;
    static float embedded[TOKENS * 64], out[TOKENS * 64];
    swarm_open(&s, 0);
    expected(&s, embedded, out);
    peer_start(&s, 0, 0, 1);
    peer_start(&s, 1, 2, 3);
    wait_holds(&s.peer[0]);
    wait_holds(&s.peer[1]);
    executor_room room;
    do {
        executor_room_of(s.executor, &room);
        usleep(10000);
    } while (!strstr(room.blocker, "layer 1 is on no peer"));
    span_config config = peer_config(&s, &s.peer[2]);
    config.memory = computing_bytes(&s) + span_model_bytes(s.file, 0, 1) * 3 / 2;
    config_start(&s.peer[2], &config);
    wait_holds(&s.peer[2]);
    assert_int_equal(s.peer[2].begin, 1);
    assert_int_equal(s.peer[2].end, 2);
    wait_ready(&s);
    begin(&s, 1);
    read_rows(&s, 1, 0, 30, 30, embedded, out);
    executor_close(s.executor, 1);
    swarm_close(&s);
}

static void unsuited_peers_are_refused(void **state) {
    (void)state;
    static swarm s;
    static tiny_file weights;
    model_file *other;
    swarm_open(&s, 0);
    model_config c = tiny_llama();
    tiny_fill(&weights, &c, 8);
    tiny_write("other", &c, &weights);
    tiny_free(&weights);
    assert_int_equal(model_file_open("other", &other, NULL), BRAID_OK);
    span_config config = peer_config(&s, &s.peer[0]);
    config.file = other;
    config.path = "other";
    config.layer_begin = 1;
    config.layer_end = 2;
    expect_refused(&s, &config, &s.peer[0], BRAID_IDENTITY,
                   "other is not the model that the swarm serves, 'model': its layer 1");
    config = peer_config(&s, &s.peer[0]);
    config.memory = 1000;
    expect_refused(&s, &config, &s.peer[0], BRAID_LIMIT, "one layer of this model needs");
    config = peer_config(&s, &s.peer[0]);
    config.layer_begin = 2;
    config.layer_end = 9;
    expect_refused(&s, &config, &s.peer[0], BRAID_ARGUMENT, "layers 2 to 9 do not exist");
    config = peer_config(&s, &s.peer[0]);
    config.patience_ns = 1;
    strcpy(config.join.address, "127.0.0.1:1");
    expect_refused(&s, &config, &s.peer[0], BRAID_NETWORK, "no peer of the swarm has answered at 127.0.0.1:1");
    model_file_close(other);
    swarm_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_chain_has_the_bits_of_one_engine, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(an_origin_may_hold_layers, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(a_joiner_takes_what_is_missing, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(unsuited_peers_are_refused, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
