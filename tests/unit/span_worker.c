// The compute thread: batches change no bit, works of a session keep their order, a cache moves.
#include "infer/engine.h"
#include "span/worker.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_model.h"

enum { DIM = 64, LAYERS = 3, SESSIONS = 5, ROWS = 60 };

typedef struct bench {
    tiny_model model;
    tensor_pool *pool;
    engine *e;
    uv_loop_t loop;
    worker *w;
    uint32_t answers;
    uint64_t order[256];
} bench;

static void on_done(void *context, work *w) {
    bench *b = context;
    b->order[b->answers++ % 256] = w->session;
}

static void bench_open(bench *b) {
    const model_config c = {.arch = MODEL_LLAMA,
                            .dim = DIM,
                            .layers = LAYERS,
                            .heads = 4,
                            .kv_heads = 2,
                            .ffn_dim = 96,
                            .vocab = 96,
                            .context = 200,
                            .rope_theta = 10000,
                            .norm_eps = 1e-5f,
                            .tied = true};
    tiny_model_new(&b->model, &c, WEIGHT_Q8_0, 5);
    engine_source source = tiny_source(&b->model);
    assert_int_equal(tensor_pool_new(1, &b->pool, NULL), BRAID_OK);
    const engine_settings settings = {.pool = b->pool, .no_ends = true};
    braid_error error = {0};
    if (engine_new(&source, &settings, &b->e, &error)) fail_msg("%s", error.text);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    b->answers = 0;
    assert_int_equal(
        span_worker_new(&b->loop, &(worker_settings){.engine = b->e, .done = on_done, .context = b}, &b->w, NULL),
        BRAID_OK);
}

static void on_drop(void *context, work *w) { (void)context, (void)w; }

static void bench_close(bench *b) {
    span_worker_close(b->w, on_drop);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    uv_loop_close(&b->loop);
    engine_free(b->e);
    tensor_pool_free(b->pool);
    tiny_model_free(&b->model);
}

static void wait_all(bench *b) {
    while (span_worker_waiting(b->w) > 0) uv_run(&b->loop, UV_RUN_ONCE);
}

static void input(uint32_t session, float *x, uint32_t rows) {
    rng r = {session + 1};
    for (size_t i = 0; i < rows * (size_t)DIM; i++) x[i] = (float)(2 * rng_unit(&r) - 1);
}

static work layers(uint32_t session, uint32_t first, uint32_t rows, uint32_t begin, uint32_t end, float *x) {
    return (work){.kind = WORK_LAYERS,
                  .session = session,
                  .first = first,
                  .rows = rows,
                  .begin = begin,
                  .end = end,
                  .x = x + first * DIM};
}

static void expect_rows(bench *b, uint32_t session, uint32_t begin, uint32_t end, const float *x) {
    float whole[ROWS * DIM];
    work one = layers(1000 + session, 0, ROWS, begin, end, whole);
    input(session, whole, ROWS);
    span_worker_post(b->w, &one);
    wait_all(b);
    assert_int_equal(one.err, BRAID_OK);
    assert_memory_equal(whole, x, sizeof whole);
}

static void batches_change_no_bit(void **state) {
    (void)state;
    static float x[SESSIONS][ROWS * DIM];
    static work list[SESSIONS][ROWS];
    static const uint32_t piece[SESSIONS] = {1, 3, 7, 20, 60};
    bench b;
    bench_open(&b);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        input(s, x[s], ROWS);
        for (uint32_t first = 0, i = 0; first < ROWS; first += piece[s], i++) {
            uint32_t rows = ROWS - first < piece[s] ? ROWS - first : piece[s];
            list[s][i] = layers(s, first, rows, s == 2, LAYERS - (s == 3), x[s]);
            span_worker_post(b.w, &list[s][i]);
        }
    }
    wait_all(&b);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        assert_int_equal(list[s][0].err, BRAID_OK);
        expect_rows(&b, s, s == 2, LAYERS - (s == 3), x[s]);
    }
    bench_close(&b);
}

static void a_cache_is_cut_refused_and_forgotten(void **state) {
    (void)state;
    static float x[ROWS * DIM];
    bench b;
    bench_open(&b);
    input(7, x, ROWS);
    work gap = layers(7, 5, 5, 0, LAYERS, x);
    span_worker_post(b.w, &gap);
    wait_all(&b);
    assert_int_equal(gap.err, BRAID_STATE);
    work begin = layers(7, 0, 40, 0, LAYERS, x);
    span_worker_post(b.w, &begin);
    wait_all(&b);
    input(7, x, ROWS);
    work again = layers(7, 10, 50, 0, LAYERS, x), far = layers(7, 60, 200, 0, LAYERS, x);
    far.x = x;
    span_worker_post(b.w, &again);
    span_worker_post(b.w, &far);
    wait_all(&b);
    assert_int_equal(again.err, BRAID_OK);
    assert_int_equal(far.err, BRAID_LIMIT);  // beyond the context
    assert_true(span_worker_cache_bytes(b.w) > 0);
    work forget = {.kind = WORK_FORGET, .session = 7};
    span_worker_post(b.w, &forget);
    wait_all(&b);
    assert_int_equal(span_worker_cache_bytes(b.w), 0);
    bench_close(&b);
}

static void a_cache_moves_to_another_session(void **state) {
    (void)state;
    static float x[ROWS * DIM];
    bench b;
    bench_open(&b);
    input(1, x, ROWS);
    uint32_t half = ROWS / 2 + 3;
    work first = layers(1, 0, half, 1, LAYERS, x);
    void *bytes = malloc(half * 2 * sequence_layer_bytes(b.e));
    assert_non_null(bytes);
    work out = {.kind = WORK_EXPORT, .session = 1, .rows = half, .begin = 1, .end = LAYERS, .bytes = bytes};
    work in = {.kind = WORK_IMPORT, .session = 2, .rows = half, .begin = 1, .end = LAYERS, .bytes = bytes};
    work rest = layers(2, half, ROWS - half, 1, LAYERS, x);
    span_worker_post(b.w, &first);
    span_worker_post(b.w, &out);
    wait_all(&b);
    span_worker_post(b.w, &in);
    span_worker_post(b.w, &rest);
    wait_all(&b);
    assert_int_equal(out.err, BRAID_OK);
    assert_int_equal(in.err, BRAID_OK);
    assert_int_equal(rest.err, BRAID_OK);
    expect_rows(&b, 1, 1, LAYERS, x);
    free(bytes);
    bench_close(&b);
}

enum { PAGES = 2, LONG = PAGES * ENGINE_PAGE_TOKENS + 10 };

static work page_work(work_kind kind, uint64_t session, uint32_t begin, uint32_t count, session_key *keys) {
    return (work){.kind = kind,
                  .session = session,
                  .begin = begin,
                  .end = LAYERS,
                  .keys = keys,
                  .key_count = count,
                  .limit = UINT32_MAX};
}

static work done_now(bench *b, work one) {
    span_worker_post(b->w, &one);
    wait_all(b);
    assert_int_equal(one.err, BRAID_OK);
    return one;
}

static uint32_t adopted(bench *b, uint64_t session, uint32_t begin, session_key *keys) {
    return done_now(b, page_work(WORK_ADOPT, session, begin, PAGES, keys)).rows;
}

static void pages_of_a_text_begin_another(void **state) {
    (void)state;
    static float x[LONG * DIM], y[LONG * DIM];
    session_key keys[PAGES] = {{{1}}, {{2}}}, others[PAGES] = {{{3}}, {{2}}};
    bench b;
    bench_open(&b);
    input(1, x, LONG);
    memcpy(y, x, sizeof y);
    assert_int_equal(adopted(&b, 1, 1, keys), 0);
    done_now(&b, layers(1, 0, LONG, 1, LAYERS, x));
    work named = page_work(WORK_NAME, 1, 1, PAGES, keys);
    named.limit = 2 * ENGINE_PAGE_TOKENS - 1;  // the second page is not computed yet
    done_now(&b, named);
    assert_int_equal(adopted(&b, 2, 1, keys), ENGINE_PAGE_TOKENS);
    done_now(&b, page_work(WORK_NAME, 1, 1, PAGES, keys));
    done_now(&b, (work){.kind = WORK_FORGET, .session = 1});
    assert_int_equal(adopted(&b, 3, 0, keys), 0);    // of other layers
    assert_int_equal(adopted(&b, 4, 1, others), 0);  // a page without the one before it
    assert_int_equal(adopted(&b, 5, 1, keys), PAGES * ENGINE_PAGE_TOKENS);
    done_now(&b, layers(5, PAGES * ENGINE_PAGE_TOKENS, 10, 1, LAYERS, y));
    assert_memory_equal(x + PAGES * ENGINE_PAGE_TOKENS * DIM, y + PAGES * ENGINE_PAGE_TOKENS * DIM,
                        10 * DIM * sizeof *x);
    bench_close(&b);
}

// Pages of earlier texts are evicted when a text needs their memory, and not before.
static void the_prefix_cache_gives_way(void **state) {
    (void)state;
    static float x[LONG * DIM];
    session_key keys[PAGES] = {{{1}}, {{2}}};
    bench b;
    bench_open(&b);
    assert_int_equal(engine_limit_cache(b.e, 4 * engine_page_bytes(b.e), NULL), BRAID_OK);
    input(1, x, LONG);
    done_now(&b, layers(1, 0, LONG, 0, LAYERS, x));
    work named = page_work(WORK_NAME, 1, 0, PAGES, keys);
    done_now(&b, named);
    done_now(&b, (work){.kind = WORK_FORGET, .session = 1});
    assert_int_equal(span_worker_cache_bytes(b.w), PAGES * engine_page_bytes(b.e));
    input(2, x, LONG);
    done_now(&b, layers(2, 0, LONG, 0, LAYERS, x));  // three pages: one has to go
    assert_int_equal(span_worker_cache_bytes(b.w), 4 * engine_page_bytes(b.e));
    assert_int_equal(adopted(&b, 3, 0, keys), ENGINE_PAGE_TOKENS);  // the first one is of more use
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_change_no_bit),
        cmocka_unit_test(a_cache_is_cut_refused_and_forgotten),
        cmocka_unit_test(a_cache_moves_to_another_session),
        cmocka_unit_test(pages_of_a_text_begin_another),
        cmocka_unit_test(the_prefix_cache_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
