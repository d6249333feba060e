// A service over child processes: the texts of one engine, whichever peers are killed meanwhile.
//
// BRAID_KILLS_MODEL=FILE runs the random kills with a real model, BRAID_KILLS_SESSIONS=200 texts, and
// BRAID_KILLS_MS=4000 the most time between two kills.
#include "base/rng.h"
#include "cli/serve_swarm.h"
#include "infer/generation.h"
#include "node/clock.h"
#include "serve/scheduler.h"
#include "tiny_model.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { MOST_PEERS = 6, TEXTS = 3, PROMPT = 7, DRAWN = 40 };

typedef struct text {
    pthread_mutex_t lock;
    pthread_cond_t came;
    uint32_t token[DRAWN], count;
    uint64_t at_ns[DRAWN];
    bool ended;
    service_end end;
    char error[512];
} text;

typedef struct stage {
    model_file *file;
    tensor_pool *pool;
    engine *whole;
    serve_swarm swarm;
    atomic_int process[MOST_PEERS + 1];  // of peer i
} stage;

static void on_note(void *context, const char *note) {
    stage *s = context;
    unsigned peer, first, last;
    int process;
    if (sscanf(note, "peer %u serves layers %u to %u, process %d", &peer, &first, &last, &process) == 4)
        atomic_store(&s->process[peer], process);
}

static void on_started(void *context, size_t prompt, size_t cached) { (void)context, (void)prompt, (void)cached; }

static void on_step(void *context, const generation_step *step) {
    text *t = context;
    pthread_mutex_lock(&t->lock);
    if (t->count < DRAWN) {
        t->at_ns[t->count] = clock_now_ns();
        t->token[t->count++] = step->token;
    }
    pthread_cond_signal(&t->came);
    pthread_mutex_unlock(&t->lock);
}

static void on_ended(void *context, service_end end, const braid_error *error) {
    text *t = context;
    pthread_mutex_lock(&t->lock);
    t->ended = true;
    t->end = end;
    if (error) snprintf(t->error, sizeof t->error, "%s", error->text);
    pthread_cond_signal(&t->came);
    pthread_mutex_unlock(&t->lock);
}

static generation_settings drawing(uint32_t which) {
    generation_settings g = {.sampler = sampler_defaults(), .max_tokens = DRAWN, .ignore_stop_ids = true};
    g.sampler.seed = 100 + which;
    return g;
}

static void prompt_of(uint32_t which, uint32_t tokens[PROMPT]) {
    for (uint32_t i = 0; i < PROMPT; i++) tokens[i] = (which * 31 + i * 17) % 250;
}

static void expect(stage *s, uint32_t which, uint32_t token[DRAWN]) {
    generation *g;
    generation_step step;
    uint32_t tokens[PROMPT];
    generation_settings settings = drawing(which);
    prompt_of(which, tokens);
    assert_int_equal(generation_new(s->whole, NULL, &settings, &g, NULL), BRAID_OK);
    assert_int_equal(generation_prompt(g, tokens, PROMPT, NULL), BRAID_OK);
    for (uint32_t i = 0; i < DRAWN; i++) {
        assert_int_equal(generation_next(g, &step, NULL), BRAID_OK);
        token[i] = step.token;
    }
    generation_free(g);
}

static void write_model(void) {
    model_config c = tiny_llama();
    static tiny_file weights;
    c.vocab = 256;
    tiny_fill(&weights, &c, 7);
    tiny_write("model", &c, &weights);
    tiny_free(&weights);
}

static void stage_open(stage *s, const char *path, uint32_t peers, uint32_t copies, uint64_t memory) {
    braid_error error = {0};
    if (model_file_open(path, &s->file, &error)) fail_msg("%s", error.text);
    assert_int_equal(tensor_pool_new(1, &s->pool, NULL), BRAID_OK);
    engine_source source = engine_source_file(s->file);
    assert_int_equal(engine_new(&source, &(engine_settings){.pool = s->pool}, &s->whole, NULL), BRAID_OK);
    const serve_swarm_settings settings = {.path = path,
                                           .file = s->file,
                                           .pool = s->pool,
                                           .program = getenv("BRAID_KILLS_PROGRAM") ? getenv("BRAID_KILLS_PROGRAM")
                                                                                    : BRAID_PROGRAM,
                                           .peers = peers,
                                           .peer_memory = memory,
                                           .copies = copies,
                                           .threads = 1,
                                           .dead_ns = 3000000000u,
                                           .note = on_note,
                                           .note_context = s};
    if (serve_swarm_open(&s->swarm, &settings, &error)) fail_msg("%s", error.text);
    for (uint32_t i = 1; i <= peers; i++)
        while (!atomic_load(&s->process[i])) usleep(20000);
}

static void stage_close(stage *s) {
    serve_swarm_close(&s->swarm);
    engine_free(s->whole);
    tensor_pool_free(s->pool);
    model_file_close(s->file);
}

static void submit(stage *s, uint32_t which, text *t) {
    uint32_t tokens[PROMPT];
    service_job *job;
    braid_error error = {0};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->came, NULL);
    prompt_of(which, tokens);
    const service_text what = {.tokens = tokens, .count = PROMPT, .settings = drawing(which)};
    const service_listener listener = {.context = t, .started = on_started, .step = on_step, .ended = on_ended};
    if (service_submit(s->swarm.service, &what, &listener, &job, &error)) fail_msg("%s", error.text);
    service_release(s->swarm.service, job);
}

static void wait_tokens(text *t, uint32_t count) {
    pthread_mutex_lock(&t->lock);
    while (t->count < count && !t->ended) pthread_cond_wait(&t->came, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void wait_end(text *t) {
    pthread_mutex_lock(&t->lock);
    while (!t->ended) pthread_cond_wait(&t->came, &t->lock);
    pthread_mutex_unlock(&t->lock);
    if (t->end != SERVICE_MAX_TOKENS) fail_msg("a text ended with %d: %s", (int)t->end, t->error);
}

// The newest process of a peer, which may just have started.
static void kill_peer(stage *s, uint32_t number) {
    int process;
    while ((process = atomic_exchange(&s->process[number], 0)) == 0) usleep(10000);
    assert_int_equal(kill(process, SIGKILL), 0);
}

// Kills peers when the first text has so many tokens.
typedef struct blow {
    uint32_t after, peer;
} blow;

static void check_texts(stage *s, const blow *blows, uint32_t count) {
    text *t = calloc(TEXTS, sizeof *t);
    assert_non_null(t);
    for (uint32_t i = 0; i < TEXTS; i++) submit(s, i, &t[i]);
    for (uint32_t i = 0; i < count; i++) {
        wait_tokens(&t[0], blows[i].after);
        kill_peer(s, blows[i].peer);
    }
    for (uint32_t i = 0; i < TEXTS; i++) {
        uint32_t token[DRAWN];
        wait_end(&t[i]);
        expect(s, i, token);
        assert_int_equal(t[i].count, DRAWN);
        assert_memory_equal(t[i].token, token, sizeof token);
    }
    free(t);
}

static void killed_peers_change_no_text(void **state) {
    (void)state;
    static stage s;
    write_model();
    stage_open(&s, "model", 3, 1, 0);
    check_texts(&s, NULL, 0);
    // the middle, the first, the last, two at once; each starts again
    static const blow blows[] = {{5, 2}, {12, 1}, {19, 3}, {26, 1}, {26, 3}};
    check_texts(&s, blows, 3);
    check_texts(&s, blows + 3, 2);
    stage_close(&s);
}

static void another_peer_takes_over(void **state) {
    (void)state;
    static stage s;
    write_model();
    stage_open(&s, "model", 6, 2, 0);
    static const blow blows[] = {{5, 2}, {12, 1}, {19, 6}};
    check_texts(&s, blows, 3);
    char *swarm = service_swarm(s.swarm.service);
    assert_non_null(swarm);
    assert_non_null(strstr(swarm, "\"peers\":["));
    free(swarm);
    stage_close(&s);
}

// Memory of a peer besides weights, keys and values.
static uint64_t computing_bytes(const model_file *file) {
    engine_source source = engine_source_file(file);
    engine_settings settings = {.no_ends = true, .layer_end = 1};
    engine *e = NULL;
    assert_int_equal(tensor_pool_new(1, &settings.pool, NULL), BRAID_OK);
    assert_int_equal(engine_new(&source, &settings, &e, NULL), BRAID_OK);
    assert_int_equal(engine_reserve(e, ENGINE_CHUNK_ROWS, engine_context(e), NULL), BRAID_OK);
    uint64_t bytes = engine_scratch_bytes(e) - engine_copied_bytes(e);
    engine_free(e);
    tensor_pool_free(settings.pool);
    return bytes;
}

// Each peer has room for two texts; the others wait.
static void little_room_delays_texts(void **state) {
    (void)state;
    enum { MANY = 7 };
    static stage s;
    static text t[MANY];
    model_file *file;
    write_model();
    assert_int_equal(model_file_open("model", &file, NULL), BRAID_OK);
    uint64_t layer = span_model_bytes(file, 0, 1), token = (uint64_t)2 * 2 * 16 * sizeof(float);
    uint64_t computing = computing_bytes(file);
    model_file_close(file);
    stage_open(&s, "model", 3, 1, computing + layer + 150 * token);
    for (uint32_t i = 0; i < MANY; i++) submit(&s, i, &t[i]);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t token_of[DRAWN];
        wait_end(&t[i]);
        expect(&s, i, token_of);
        assert_int_equal(t[i].count, DRAWN);
        assert_memory_equal(t[i].token, token_of, sizeof token_of);
    }
    stage_close(&s);
}

// --- random kills

// A peer that dies again and again before it has served for a while is not started again.
enum { AT_ONCE = 8, DISTINCT = 12, MOST_DEATHS = 3, SHORT_MS = 50 };

typedef struct killer {
    stage *s;
    rng random;
    atomic_bool stops;
    uint32_t most_ms, kills, deaths[MOST_PEERS + 1];
} killer;

static void kill_any(killer *k) {
    uint32_t peer = 1 + (uint32_t)rng_below(&k->random, MOST_PEERS);
    if (k->most_ms <= SHORT_MS && k->deaths[peer] == MOST_DEATHS) return;
    int process = atomic_exchange(&k->s->process[peer], 0);
    if (!process || kill(process, SIGKILL) != 0) return;
    k->deaths[peer]++;
    k->kills++;
}

// Any peer that serves, and sometimes another one with it.
static void *killer_main(void *argument) {
    killer *k = argument;
    while (!atomic_load(&k->stops)) {
        usleep((useconds_t)(1000 * (1 + rng_below(&k->random, k->most_ms))));
        kill_any(k);
        if (rng_below(&k->random, 4) == 0) kill_any(k);
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_gaps(const text *t, uint32_t count, uint32_t kills) {
    uint64_t *gap = malloc(count * (size_t)DRAWN * sizeof *gap);
    size_t gaps = 0;
    assert_non_null(gap);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 1; k < DRAWN; k++) gap[gaps++] = t[i].at_ns[k] - t[i].at_ns[k - 1];
    qsort(gap, gaps, sizeof *gap, by_value);
    printf("%u texts, %u kills; time to the next token: median %.1f ms, p99 %.1f ms, most %.1f ms\n", count, kills,
           (double)gap[gaps / 2] * 1e-6, (double)gap[gaps * 99 / 100] * 1e-6, (double)gap[gaps - 1] * 1e-6);
    free(gap);
}

static void random_kills_change_no_text(void **state) {
    (void)state;
    static stage s;
    static uint32_t wanted[DISTINCT][DRAWN];
    const char *path = getenv("BRAID_KILLS_MODEL"), *sessions = getenv("BRAID_KILLS_SESSIONS");
    const char *pause = getenv("BRAID_KILLS_MS");
    uint32_t count = sessions ? (uint32_t)atoi(sessions) : 40, changed = 0;
    text *t = calloc(count, sizeof *t);
    pthread_t thread;
    assert_non_null(t);
    write_model();
    stage_open(&s, path ? path : "model", MOST_PEERS, 2, 0);
    for (uint32_t i = 0; i < DISTINCT; i++) expect(&s, i, wanted[i]);
    killer k = {.s = &s, .random = {1}, .most_ms = pause ? (uint32_t)atoi(pause) : SHORT_MS};
    assert_int_equal(pthread_create(&thread, NULL, killer_main, &k), 0);
    for (uint32_t i = 0; i < count + AT_ONCE; i++) {
        if (i >= AT_ONCE) wait_end(&t[i - AT_ONCE]);
        if (i < count) submit(&s, i % DISTINCT, &t[i]);
    }
    atomic_store(&k.stops, true);
    pthread_join(thread, NULL);
    for (uint32_t i = 0; i < count; i++)
        changed += t[i].count != DRAWN || memcmp(t[i].token, wanted[i % DISTINCT], sizeof t[i].token) != 0;
    print_gaps(t, count, k.kills);
    assert_int_equal(changed, 0);
    free(t);
    stage_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_peers_change_no_text, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(another_peer_takes_over, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(little_room_delays_texts, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(random_kills_change_no_text, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
