// The executor of one machine: sessions that share pages, room, truncation, and rows with the bits of
// the engine.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine_model.h"
#include "serve/executor_local.h"
#include "serve/prefix.h"

enum { VOCAB = 300, CONTEXT = 512, DIM = 32, PAGE = ENGINE_PAGE_TOKENS, MOST = 6 * PAGE, SESSIONS = 8 };

typedef struct fixture {
    tiny_model model;
    tensor_pool *pool;
    engine *e;
    executor *executor;
    uint32_t tokens[MOST];
    float *x, *wanted;  // [MOST, DIM]: embeddings, and rows after the layers
    // the last result of each session
    executor_outcome outcome[SESSIONS];
    uint32_t cached[SESSIONS], results;
    float rows[PAGE][DIM];
    uint32_t row_count;
} fixture;

static void on_result(void *context, const executor_result *r) {
    fixture *f = context;
    assert_true(r->session < SESSIONS);
    f->outcome[r->session] = r->outcome;
    f->cached[r->session] = r->cached;
    f->row_count = r->outcome == EXECUTOR_READ ? r->rows : 0;
    for (uint32_t i = 0; i < f->row_count && i < PAGE; i++) memcpy(f->rows[i], r->x + i * DIM, sizeof f->rows[i]);
    f->results++;
}

static void on_changed(void *context) { (void)context; }

static fixture *open_fixture(uint32_t pages) {
    fixture *f = calloc(1, sizeof *f);
    model_config c = {.arch = MODEL_LLAMA,
                      .dim = DIM,
                      .layers = 2,
                      .heads = 2,
                      .kv_heads = 1,
                      .ffn_dim = 64,
                      .vocab = VOCAB,
                      .context = CONTEXT,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5f,
                      .tied = true};
    assert_non_null(f);
    tiny_model_new(&f->model, &c, WEIGHT_F32, 4);
    engine_source source = tiny_source(&f->model);
    assert_int_equal(tensor_pool_new(1, &f->pool, NULL), BRAID_OK);
    engine_settings settings = {.pool = f->pool};
    assert_int_equal(engine_new(&source, &settings, &f->e, NULL), BRAID_OK);
    f->x = malloc(MOST * DIM * sizeof *f->x);
    f->wanted = malloc(MOST * DIM * sizeof *f->x);
    assert_true(f->x && f->wanted);
    rng r = {9};
    for (uint32_t i = 0; i < MOST; i++) f->tokens[i] = (uint32_t)rng_below(&r, VOCAB);
    assert_int_equal(engine_embed_at(f->e, 0, f->tokens, MOST, f->x, NULL), BRAID_OK);
    memcpy(f->wanted, f->x, MOST * DIM * sizeof *f->x);
    sequence *q;
    assert_int_equal(sequence_new(f->e, &q, NULL), BRAID_OK);
    engine_part part = {q, MOST, NULL};
    assert_int_equal(engine_layers(f->e, &part, 1, f->wanted, NULL), BRAID_OK);
    sequence_free(q);
    if (pages) assert_int_equal(engine_limit_cache(f->e, pages * engine_page_bytes(f->e), NULL), BRAID_OK);
    assert_int_equal(executor_local_new(f->e, "tiny", CONTEXT, &f->executor, NULL), BRAID_OK);
    executor_listen(f->executor, &(executor_listener){f, on_result, on_changed});
    return f;
}

static void close_fixture(fixture *f) {
    executor_free(f->executor);
    assert_int_equal(engine_cache_bytes(f->e), 0);
    engine_free(f->e);
    tensor_pool_free(f->pool);
    tiny_model_free(&f->model);
    free(f->x);
    free(f->wanted);
    free(f);
}

static executor_step step_of(const fixture *f, uint64_t session, uint32_t first, uint32_t count, uint32_t rows) {
    return (executor_step){session, first, count, rows, f->tokens + first, f->x + first * DIM};
}

static void begin(fixture *f, uint64_t session, uint32_t count, uint32_t cached) {
    executor_begin(f->executor, session, NULL, f->tokens, count);
    assert_int_equal(f->outcome[session], EXECUTOR_BEGAN);
    assert_int_equal(f->cached[session], cached);
}

// Reads tokens [first, end), the last step with as many rows as fit, which are compared.
static void read_to(fixture *f, uint64_t session, uint32_t first, uint32_t end) {
    while (first < end) {
        uint32_t count = end - first < PAGE ? end - first : PAGE;
        executor_step step = step_of(f, session, first, count, count);
        executor_read(f->executor, &step, 1);
        assert_int_equal(f->outcome[session], EXECUTOR_READ);
        assert_int_equal(f->row_count, count);
        assert_memory_equal(f->rows, f->wanted + first * DIM, count * DIM * sizeof(float));
        first += count;
    }
}

static size_t pages_used(fixture *f) {
    executor_room room;
    executor_room_of(f->executor, &room);
    return room.cache_bytes / engine_page_bytes(f->e);
}

static uint32_t free_tokens(fixture *f) {
    executor_room room;
    executor_room_of(f->executor, &room);
    return room.free_tokens;
}

static void test_sessions_share_pages(void **state) {
    (void)state;
    fixture *f = open_fixture(8);
    begin(f, 1, MOST, 0);
    read_to(f, 1, 0, 3 * PAGE + 10);
    assert_int_equal(pages_used(f), 4);
    begin(f, 2, MOST, 3 * PAGE);
    assert_int_equal(pages_used(f), 4);
    read_to(f, 2, 3 * PAGE, 4 * PAGE);
    assert_int_equal(pages_used(f), 5);
    begin(f, 3, 2 * PAGE + 1, 2 * PAGE);
    begin(f, 4, PAGE - 1, 0);
    assert_int_equal(free_tokens(f), 3 * PAGE);
    executor_close(f->executor, 1);  // its last page is not whole
    assert_int_equal(pages_used(f), 4);
    executor_close(f->executor, 2);
    executor_close(f->executor, 3);
    executor_close(f->executor, 3);
    assert_int_equal(pages_used(f), 4);
    assert_int_equal(free_tokens(f), 8 * PAGE);
    close_fixture(f);
}

static void test_truncated_sessions_go_on(void **state) {
    (void)state;
    fixture *f = open_fixture(0);
    begin(f, 1, 0, 0);
    read_to(f, 1, 0, 2 * PAGE + 30);
    begin(f, 2, MOST, 2 * PAGE);
    executor_truncate(f->executor, 1, PAGE + 20);  // in a page that the other session and the prefix cache have
    uint32_t other[2 * PAGE];
    float *x = malloc(2 * PAGE * DIM * sizeof *x);
    for (uint32_t i = 0; i < 2 * PAGE; i++) other[i] = (f->tokens[i] + 1) % VOCAB;
    assert_int_equal(engine_embed_at(f->e, PAGE + 20, other, 2 * PAGE, x, NULL), BRAID_OK);
    executor_step step = {1, PAGE + 20, 2 * PAGE, 1, other, x};
    executor_read(f->executor, &step, 1);
    assert_int_equal(f->outcome[1], EXECUTOR_READ);
    read_to(f, 2, 2 * PAGE, 3 * PAGE);  // which does not notice
    executor_truncate(f->executor, 1, PAGE + 20);
    read_to(f, 1, PAGE + 20, 3 * PAGE);
    begin(f, 3, MOST, 3 * PAGE);
    read_to(f, 3, 3 * PAGE, 4 * PAGE);
    free(x);
    close_fixture(f);
}

// Of three pages, the first session takes two. Two others need one each: the more urgent one gets it.
static void test_room_goes_to_the_first_steps(void **state) {
    (void)state;
    fixture *f = open_fixture(3);
    executor_room room;
    executor_room_of(f->executor, &room);
    assert_int_equal(room.session_tokens, 3 * PAGE);
    begin(f, 1, 0, 0);
    read_to(f, 1, 0, PAGE + 1);
    begin(f, 2, 0, 0);
    begin(f, 3, 0, 0);
    executor_step steps[] = {step_of(f, 1, PAGE + 1, 1, 1), step_of(f, 3, 0, 5, 0), step_of(f, 2, 0, 5, 5)};
    executor_read(f->executor, steps, 3);
    assert_int_equal(f->outcome[1], EXECUTOR_READ);
    assert_int_equal(f->outcome[3], EXECUTOR_READ);
    assert_int_equal(f->outcome[2], EXECUTOR_FULL);
    executor_close(f->executor, 3);
    read_to(f, 2, 0, 5);
    uint32_t results = f->results;
    executor_close(f->executor, 2);
    executor_step closed = step_of(f, 2, 5, 1, 1);
    executor_read(f->executor, &closed, 1);
    assert_int_equal(f->results, results);
    close_fixture(f);
}

static void test_keys_name_all_tokens_before(void **state) {
    (void)state;
    uint32_t tokens[PAGE] = {0};
    braid_hash first = prefix_key_first("a"), other = prefix_key_first("b");
    braid_hash one = prefix_key_next(&first, tokens), two = prefix_key_next(&other, tokens);
    braid_hash next = prefix_key_next(&one, tokens);
    assert_false(hash_equal(&one, &two));
    assert_false(hash_equal(&one, &next));
    tokens[PAGE - 1] = 1;
    two = prefix_key_next(&first, tokens);
    assert_false(hash_equal(&one, &two));
}

// Enough pages for the table of the cache to grow, in an order of use that differs from that of
// their keys.
static void test_the_least_recently_used_page_goes_first(void **state) {
    (void)state;
    enum { PAGES = 200 };
    fixture *f = open_fixture(0);
    prefix_cache *c = prefix_cache_new(f->e);
    braid_hash key[PAGES];
    sequence *q;
    assert_non_null(c);
    for (uint32_t i = 0; i < PAGES; i++) {
        uint32_t tokens[PAGE] = {i};
        braid_hash first = prefix_key_first("tiny");
        engine_part part;
        assert_int_equal(sequence_new(f->e, &q, NULL), BRAID_OK);
        part = (engine_part){q, PAGE, f->tokens};
        assert_int_equal(engine_read(f->e, &part, 1, NULL, NULL), BRAID_OK);
        key[i] = prefix_key_next(&first, tokens);
        assert_null(prefix_cache_find(c, &key[i]));
        prefix_cache_add(c, &key[i], sequence_page(q, 0));
        if (i < PAGES - 1) sequence_free(q);  // the last page stays in use
    }
    assert_int_equal(prefix_cache_evictable(c), PAGES - 1);
    for (uint32_t i = 0; i < PAGES; i += 2) assert_non_null(prefix_cache_find(c, &key[i]));
    for (uint32_t i = 0; i < PAGES / 2 - 1; i++) assert_true(prefix_cache_evict(c));
    for (uint32_t i = 0; i < PAGES - 1; i++) assert_true((prefix_cache_find(c, &key[i]) != NULL) == (i % 2 == 0));
    assert_int_equal(engine_cache_bytes(f->e), (PAGES / 2 + 1) * engine_page_bytes(f->e));
    while (prefix_cache_evict(c)) continue;
    assert_non_null(prefix_cache_find(c, &key[PAGES - 1]));
    assert_int_equal(prefix_cache_evictable(c), 0);
    sequence_free(q);
    assert_int_equal(prefix_cache_evictable(c), 1);
    prefix_cache_free(c);
    close_fixture(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions_share_pages),
        cmocka_unit_test(test_truncated_sessions_go_on),
        cmocka_unit_test(test_room_goes_to_the_first_steps),
        cmocka_unit_test(test_keys_name_all_tokens_before),
        cmocka_unit_test(test_the_least_recently_used_page_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
