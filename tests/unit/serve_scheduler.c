// The service on one engine: a text has the same bits whatever is read with it, however its prompt is
// cut, and how often it loses its place. The reference is infer/generation.h with one text.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine_model.h"
#include "serve/executor_local.h"
#include "serve/scheduler.h"
#include "service_texts.h"

enum { VOCAB = 300, CONTEXT = 512, TEXTS = 8, PAGE = ENGINE_PAGE_TOKENS };

// Between the scheduler and the executor of the engine: counts refusals, loses each n-th step, and
// can stop the scheduler's thread at a call of executor_read, until the test lets it go on.
typedef struct between {
    executor base;
    executor *inner;
    executor_listener to;
    uint32_t full, lost, lose_each, reads, fail_at, drafted, taken_back;
    uint32_t refuse_each, refused, refused_twice;  // steps with drafts that have no room
    uint64_t refused_session;
    uint64_t most_bytes;
    uint32_t calls, pause_at;
    pthread_mutex_t lock;
    pthread_cond_t paused;
    bool is_paused, may_go_on;
} between;

static void pause_here(between *b) {
    pthread_mutex_lock(&b->lock);
    b->is_paused = true;
    pthread_cond_broadcast(&b->paused);
    while (!b->may_go_on) pthread_cond_wait(&b->paused, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void wait_for_pause(between *b) {
    pthread_mutex_lock(&b->lock);
    while (!b->is_paused) pthread_cond_wait(&b->paused, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void go_on(between *b) {
    pthread_mutex_lock(&b->lock);
    b->may_go_on = true;
    pthread_cond_broadcast(&b->paused);
    pthread_mutex_unlock(&b->lock);
}

static void between_result(void *context, const executor_result *r) {
    between *b = context;
    executor_result changed = *r;
    braid_error error = {.code = BRAID_NETWORK, .text = "layers 1 to 2 are on no peer"};
    b->full += r->outcome == EXECUTOR_FULL;
    if (r->outcome == EXECUTOR_READ) b->reads++;
    if (r->outcome == EXECUTOR_READ && b->lose_each && b->reads % b->lose_each == 0) {
        executor_close(b->inner, r->session);
        changed = (executor_result){.session = r->session, .outcome = EXECUTOR_LOST};
        b->lost++;
    }
    if (r->outcome == EXECUTOR_READ && b->fail_at && b->reads == b->fail_at) {
        executor_close(b->inner, r->session);
        changed = (executor_result){.session = r->session, .outcome = EXECUTOR_FAILED, .error = &error};
    }
    b->to.result(b->to.context, &changed);
}

static void between_listen(executor *e, const executor_listener *l) {
    between *b = (between *)e;
    b->to = *l;
    executor_listen(b->inner, &(executor_listener){b, between_result, l->changed});
}
static void between_begin(executor *e, uint64_t session, const executor_adapter *adapts, const uint32_t *tokens,
                          uint32_t count) {
    executor_begin(((between *)e)->inner, session, adapts, tokens, count);
}
// Without room for its drafts, a text reads its next token alone.
static bool refuses(between *b, const executor_step *step) {
    bool drafts = step->rows > 1;
    b->drafted += drafts;
    b->refused_twice += drafts && step->session == b->refused_session;
    if (step->session == b->refused_session) b->refused_session = 0;
    if (!drafts || !b->refuse_each || b->drafted % b->refuse_each > 0) return false;
    b->refused++;
    b->refused_session = step->session;
    b->to.result(b->to.context, &(executor_result){.session = step->session, .outcome = EXECUTOR_FULL});
    return true;
}

static void between_read(executor *e, const executor_step *steps, uint32_t count) {
    between *b = (between *)e;
    executor_room room;
    if (++b->calls == b->pause_at) pause_here(b);
    executor_step passed[SCHEDULER_PARALLEL];
    uint32_t some = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!refuses(b, &steps[i])) passed[some++] = steps[i];
    if (some > 0) executor_read(b->inner, passed, some);
    executor_room_of(b->inner, &room);
    if (room.cache_bytes > b->most_bytes) b->most_bytes = room.cache_bytes;
}
static void between_truncate(executor *e, uint64_t session, uint32_t length) {
    ((between *)e)->taken_back++;
    executor_truncate(((between *)e)->inner, session, length);
}
static void between_close(executor *e, uint64_t session) { executor_close(((between *)e)->inner, session); }
static void between_room(executor *e, executor_room *out) { executor_room_of(((between *)e)->inner, out); }
static void between_free(executor *e) { executor_free(((between *)e)->inner); }

static const executor_calls between_calls = {.listen = between_listen,
                                             .begin = between_begin,
                                             .read = between_read,
                                             .truncate = between_truncate,
                                             .close = between_close,
                                             .room = between_room,
                                             .free = between_free};

// --- a service of a tiny model

typedef struct fixture {
    tiny_model model;
    tensor_pool *pool;
    engine *e, *guesses;
    service_model named;
    between between;
    service *s;
} fixture;

typedef struct setup {
    uint32_t pages, parallel, queue, prompt_rows, lose_each, fail_at, pause_at, refuse_each;
    scheduler_draft draft;
    bool by_model;  // drafts of the model itself, which are right unless texts are sampled
} setup;

static fixture *open_service(setup o) {
    fixture *f = calloc(1, sizeof *f);
    model_config c = {.arch = MODEL_LLAMA,
                      .dim = 32,
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
    tiny_model_new(&f->model, &c, WEIGHT_F32, 21);
    engine_source source = tiny_source(&f->model);
    assert_int_equal(tensor_pool_new(2, &f->pool, NULL), BRAID_OK);
    engine_settings settings = {.pool = f->pool};
    assert_int_equal(engine_new(&source, &settings, &f->e, NULL), BRAID_OK);
    if (o.by_model) {
        assert_int_equal(engine_new(&source, &settings, &f->guesses, NULL), BRAID_OK);
        assert_int_equal(engine_limit_cache(f->guesses, 12 * engine_page_bytes(f->guesses), NULL), BRAID_OK);
    }
    if (o.pages) assert_int_equal(engine_limit_cache(f->e, o.pages * engine_page_bytes(f->e), NULL), BRAID_OK);
    f->between = (between){.base = {&between_calls},
                           .lose_each = o.lose_each,
                           .fail_at = o.fail_at,
                           .pause_at = o.pause_at,
                           .refuse_each = o.refuse_each};
    pthread_mutex_init(&f->between.lock, NULL);
    pthread_cond_init(&f->between.paused, NULL);
    assert_int_equal(executor_local_new(f->e, "tiny", CONTEXT, &f->between.inner, NULL), BRAID_OK);
    executor_room room;
    executor_room_of(f->between.inner, &room);
    f->named = (service_model){.name = "tiny", .config = &f->model.config, .context = room.session_tokens};
    scheduler_settings s = {.executor = &f->between.base,
                            .ends = f->e,
                            .model = &f->named,
                            .parallel = o.parallel,
                            .queue = o.queue,
                            .prompt_rows = o.prompt_rows,
                            .draft = o.draft,
                            .draft_model = f->guesses};
    assert_int_equal(scheduler_new(&s, &f->s, NULL), BRAID_OK);
    return f;
}

// Ends the thread of the service, so that this one may look.
static void end_service(fixture *f) {
    service_free(f->s);
    f->s = NULL;
}

// An engine without a service.
static fixture *open_engine(void) {
    fixture *f = open_service((setup){0});
    end_service(f);
    return f;
}

static void close_service(fixture *f) {
    end_service(f);
    assert_int_equal(engine_cache_bytes(f->e), 0);
    if (f->guesses) assert_int_equal(engine_cache_bytes(f->guesses), 0);
    engine_free(f->guesses);
    engine_free(f->e);
    tensor_pool_free(f->pool);
    tiny_model_free(&f->model);
    free(f);
}

// --- texts

typedef struct written {
    uint32_t prompt[TEXT_MOST], count, most;
    uint64_t seed;
    double temperature;  // 0: that of sampler_defaults
    bool greedy;
} written;

static void any_text(written *w, uint32_t number, uint32_t count, uint32_t most) {
    rng r = {number + 1};
    w->count = count;
    w->most = most;
    w->seed = number;
    for (uint32_t i = 0; i < count; i++) w->prompt[i] = (uint32_t)rng_below(&r, VOCAB);
}

static generation_settings settings_of(const written *w) {
    generation_settings s = {.sampler = sampler_defaults(), .max_tokens = w->most, .top_logprobs = TEXT_TOP};
    s.sampler.seed = w->seed;
    if (w->temperature > 0) s.sampler.temperature = w->temperature;
    if (w->greedy) s.sampler.temperature = 0;
    return s;
}

// The text alone, without a service.
static void expect(const written *w, recorded *r) {
    static generation_step step;
    fixture *f = open_engine();
    generation_settings s = settings_of(w);
    generation *g;
    assert_int_equal(generation_new(f->e, NULL, &s, &g, NULL), BRAID_OK);
    assert_int_equal(generation_prompt(g, w->prompt, w->count, NULL), BRAID_OK);
    do {
        assert_int_equal(generation_next(g, &step, NULL), BRAID_OK);
        record_step(r, &step);
    } while (!step.end);
    generation_free(g);
    close_service(f);
}

static service_job *submit(fixture *f, const written *w, recorded *r) {
    service_text text = {.tokens = w->prompt, .count = w->count, .settings = settings_of(w)};
    service_listener listener = recorded_listener(r);
    service_job *job = NULL;
    braid_error error = {0};
    if (service_submit(f->s, &text, &listener, &job, &error)) fail_msg("%s", error.text);
    return job;
}

static void expect_same(const recorded *found, const recorded *wanted) {
    assert_int_equal(found->ends, 1);
    assert_int_equal(found->starts, 1);
    assert_int_equal(found->count, wanted->count);
    assert_memory_equal(found->tokens, wanted->tokens, found->count * sizeof *found->tokens);
    assert_memory_equal(found->logprobs, wanted->logprobs, found->count * sizeof *found->logprobs);
    assert_memory_equal(found->top, wanted->top, found->count * sizeof *found->top);
}

// All texts at once in a service.
static void run_all(setup o, const written *texts, recorded **wanted, between *out) {
    recorded *r[TEXTS];
    o.pause_at = 1;
    fixture *f = open_service(o);
    for (uint32_t i = 0; i < TEXTS; i++) {
        r[i] = recorded_new();
        service_release(f->s, submit(f, &texts[i], r[i]));
    }
    go_on(&f->between);
    for (uint32_t i = 0; i < TEXTS; i++) {
        recorded_wait(r[i]);
        assert_int_equal(r[i]->end, SERVICE_MAX_TOKENS);
        expect_same(r[i], wanted[i]);
    }
    end_service(f);
    *out = f->between;
    close_service(f);
    for (uint32_t i = 0; i < TEXTS; i++) recorded_free(r[i]);
}

static void test_texts_have_their_bits(void **state) {
    (void)state;
    static written texts[TEXTS];
    recorded *wanted[TEXTS];
    between seen;
    for (uint32_t i = 0; i < TEXTS; i++) {
        any_text(&texts[i], i, 3 + 37 * i, 20 + 5 * (i % 4));
        wanted[i] = recorded_new();
        expect(&texts[i], wanted[i]);
    }
    run_all((setup){.parallel = 1}, texts, wanted, &seen);
    run_all((setup){.parallel = TEXTS}, texts, wanted, &seen);
    run_all((setup){.parallel = TEXTS, .prompt_rows = 7}, texts, wanted, &seen);
    run_all((setup){.parallel = 3, .prompt_rows = 1}, texts, wanted, &seen);
    run_all((setup){.parallel = TEXTS, .lose_each = 23}, texts, wanted, &seen);
    assert_true(seen.lost > 3);
    for (uint32_t i = 0; i < TEXTS; i++) recorded_free(wanted[i]);
}

// Texts of few different tokens, greedy and sampled: drafts are accepted, refused, and cut off by the
// end of a text.
static void test_drafts_change_no_bit(void **state) {
    (void)state;
    static written texts[TEXTS];
    recorded *wanted[TEXTS];
    between seen;
    for (uint32_t i = 0; i < TEXTS; i++) {
        any_text(&texts[i], i, 40 + i, 90);
        for (uint32_t k = 0; k < texts[i].count; k++) texts[i].prompt[k] = k % (5 + i) + 40;
        texts[i].greedy = i % 2 == 0;
        texts[i].temperature = 0.02 * (i + 1);
        wanted[i] = recorded_new();
        expect(&texts[i], wanted[i]);
    }
    run_all((setup){.parallel = 1, .draft = SCHEDULER_DRAFT_ALWAYS}, texts, wanted, &seen);
    assert_true(seen.drafted > seen.taken_back && seen.taken_back > 10);
    if (seen.reads > TEXTS * 90 * 3 / 4) fail_msg("%u steps for %u tokens", seen.reads, TEXTS * 90);
    run_all((setup){.parallel = TEXTS, .draft = SCHEDULER_DRAFT_ALWAYS}, texts, wanted, &seen);
    run_all((setup){.parallel = TEXTS, .draft = SCHEDULER_DRAFT_PAYS}, texts, wanted, &seen);
    run_all((setup){.parallel = 3, .lose_each = 5, .draft = SCHEDULER_DRAFT_ALWAYS}, texts, wanted, &seen);
    assert_true(seen.lost > 3);
    run_all((setup){.pages = 5, .parallel = TEXTS, .draft = SCHEDULER_DRAFT_ALWAYS}, texts, wanted, &seen);
    run_all((setup){.parallel = 1, .refuse_each = 2, .draft = SCHEDULER_DRAFT_ALWAYS}, texts, wanted, &seen);
    assert_true(seen.refused > 10);
    assert_int_equal(seen.refused_twice, 0);
    // the draft model has room for some of the texts
    run_all((setup){.parallel = TEXTS, .draft = SCHEDULER_DRAFT_ALWAYS, .by_model = true}, texts, wanted, &seen);
    assert_true(seen.drafted > 0);
    run_all((setup){.parallel = 1, .draft = SCHEDULER_DRAFT_ALWAYS, .by_model = true}, texts, wanted, &seen);
    if (seen.reads > TEXTS * 90 / 2) fail_msg("%u steps for %u tokens", seen.reads, TEXTS * 90);
    run_all((setup){.parallel = 2, .draft = SCHEDULER_DRAFT_PAYS, .by_model = true}, texts, wanted, &seen);
    for (uint32_t i = 0; i < TEXTS; i++) recorded_free(wanted[i]);
}

// --- the status

typedef struct last_look {
    recorded *r;
    service *s;
    uint32_t running;
} last_look;

static void look_at_end(void *context, service_end end, const braid_error *error) {
    last_look *l = context;
    service_status status;
    service_status_of(l->s, &status);
    l->running = status.running;
    record_ended(l->r, end, error);
}

static void test_an_ended_text_does_not_run(void **state) {
    (void)state;
    static written w;
    any_text(&w, 1, 5, 3);
    fixture *f = open_service((setup){0});
    last_look l = {recorded_new(), f->s, UINT32_MAX};
    service_text text = {.tokens = w.prompt, .count = w.count, .settings = settings_of(&w)};
    service_listener listener = {.context = &l, .ended = look_at_end};
    service_job *job;
    assert_int_equal(service_submit(f->s, &text, &listener, &job, NULL), BRAID_OK);
    service_release(f->s, job);
    recorded_wait(l.r);
    assert_int_equal(l.running, 0);
    recorded_free(l.r);
    close_service(f);
}

// Each text needs three pages at its end and two when it gets its place: of ten pages, five texts get a
// place and some lose it.
static void test_lost_places_change_no_bit(void **state) {
    (void)state;
    static written texts[TEXTS];
    recorded *wanted[TEXTS];
    between seen;
    size_t page = 0;
    for (uint32_t i = 0; i < TEXTS; i++) {
        any_text(&texts[i], i, 20 + i, 130);
        wanted[i] = recorded_new();
        expect(&texts[i], wanted[i]);
    }
    run_all((setup){.pages = 10, .parallel = TEXTS}, texts, wanted, &seen);
    fixture *f = open_engine();
    page = engine_page_bytes(f->e);
    close_service(f);
    assert_true(seen.full > 0);
    assert_true(seen.most_bytes <= 10 * page && seen.most_bytes > 8 * page);
    for (uint32_t i = 0; i < TEXTS; i++) recorded_free(wanted[i]);
}

static void run_one(fixture *f, const written *w, size_t cached, const recorded *wanted) {
    recorded *r = recorded_new();
    service_release(f->s, submit(f, w, r));
    recorded_wait(r);
    if (r->prompt != w->count || r->cached != cached)
        fail_msg("%zu of %zu tokens were cached, not %zu", r->cached, r->prompt, cached);
    if (wanted) expect_same(r, wanted);
    recorded_free(r);
}

static void test_prefixes_are_read_once(void **state) {
    (void)state;
    static written first, longer, whole_pages;
    recorded *wanted = recorded_new(), *wanted_longer = recorded_new();
    any_text(&first, 1, 3 * PAGE + 5, 10);
    longer = first;
    longer.count = 4 * PAGE;
    for (uint32_t i = first.count; i < longer.count; i++) longer.prompt[i] = i % VOCAB;
    whole_pages = first;
    whole_pages.count = 3 * PAGE;
    expect(&first, wanted);
    expect(&longer, wanted_longer);
    fixture *f = open_service((setup){.pages = 8});
    run_one(f, &first, 0, wanted);
    run_one(f, &first, 3 * PAGE, wanted);
    run_one(f, &longer, 3 * PAGE, wanted_longer);
    run_one(f, &longer, 3 * PAGE, wanted_longer);  // the last token is read for its row
    run_one(f, &whole_pages, 2 * PAGE, NULL);
    recorded *prompt_alone = recorded_new();
    service_text text = {
        .tokens = longer.prompt, .count = 3 * PAGE, .settings = settings_of(&first), .prompt_only = true};
    service_listener listener = recorded_listener(prompt_alone);
    service_job *job;
    assert_int_equal(service_submit(f->s, &text, &listener, &job, NULL), BRAID_OK);
    service_release(f->s, job);
    recorded_wait(prompt_alone);  // nothing is read
    assert_int_equal(prompt_alone->cached, 3 * PAGE);
    assert_int_equal(prompt_alone->end, SERVICE_MAX_TOKENS);
    recorded_free(prompt_alone);
    first.prompt[PAGE] ^= 1;
    run_one(f, &first, PAGE, NULL);
    service_status status;
    service_status_of(f->s, &status);
    assert_int_equal(status.cached_tokens, 15 * PAGE);
    assert_true(status.cache_bytes > 0 && status.cache_bytes <= status.cache_limit);
    recorded_free(wanted);
    recorded_free(wanted_longer);
    close_service(f);
}

// Of eight pages, the second text needs six: of the first one's four, the two least recently used go,
// and these are its last ones.
static void test_old_prefixes_are_evicted(void **state) {
    (void)state;
    static written first, second;
    any_text(&first, 1, 4 * PAGE + 5, 1);
    any_text(&second, 2, 5 * PAGE + 5, 1);
    fixture *f = open_service((setup){.pages = 8});
    run_one(f, &first, 0, NULL);
    run_one(f, &second, 0, NULL);
    run_one(f, &first, 2 * PAGE, NULL);
    end_service(f);
    assert_true(f->between.most_bytes == 8 * engine_page_bytes(f->e));
    close_service(f);
}

// --- prompts alone

static void test_prompt_logprobs(void **state) {
    (void)state;
    static written w;
    any_text(&w, 4, 2 * PAGE + 9, 4);
    recorded *wanted = recorded_new();
    expect(&w, wanted);
    fixture *reference = open_engine();
    float *logits = malloc(w.count * VOCAB * sizeof *logits);
    sequence *q;
    assert_int_equal(sequence_new(reference->e, &q, NULL), BRAID_OK);
    engine_part part = {q, w.count, w.prompt};
    assert_int_equal(engine_read_all(reference->e, &part, 1, logits, NULL), BRAID_OK);
    sequence_free(q);
    close_service(reference);

    for (uint32_t round = 0; round < 4; round++) {
        fixture *f = open_service((setup){.prompt_rows = 11, .lose_each = round == 3 ? 2 : 0});
        recorded *r = recorded_new(), *beside = recorded_new();
        service_text text = {
            .tokens = w.prompt, .count = w.count, .settings = settings_of(&w), .prompt_logprobs = true};
        service_listener listener = recorded_listener(r);
        service_job *job;
        text.prompt_only = round == 1;
        if (round == 2) run_one(f, &w, 0, wanted);  // the prefix cache has pages that must be read again
        if (round == 3) service_release(f->s, submit(f, &w, beside));
        assert_int_equal(service_submit(f->s, &text, &listener, &job, NULL), BRAID_OK);
        service_release(f->s, job);
        recorded_wait(r);
        if (round == 3) recorded_wait(beside);
        assert_int_equal(r->prompt_count, w.count);
        for (uint32_t i = 0; i < w.count; i++) {
            assert_int_equal(r->prompt_tokens[i], w.prompt[i]);
            if (i == 0) continue;
            const float *row = logits + (i - 1) * VOCAB;
            sampler_top top[TEXT_TOP];
            sampler_likeliest(row, VOCAB, TEXT_TOP, top);
            assert_true(r->prompt_logprobs[i] == sampler_logprob(row, VOCAB, w.prompt[i]));
            assert_memory_equal(r->prompt_top[i], top, sizeof top);
        }
        if (round == 1)
            assert_int_equal(r->count, 0);
        else
            expect_same(r, wanted);
        recorded_free(r);
        recorded_free(beside);
        close_service(f);
    }
    free(logits);
    recorded_free(wanted);
}

static void test_embeddings_are_means(void **state) {
    (void)state;
    static written w;
    enum { DIM = 32 };
    static float x[TEXT_MOST * DIM];
    float first[DIM] = {0};
    any_text(&w, 5, 2 * PAGE + 3, 1);
    fixture *reference = open_engine();
    sequence *q;
    assert_int_equal(sequence_new(reference->e, &q, NULL), BRAID_OK);
    engine_part part = {q, w.count, w.prompt};
    assert_int_equal(engine_embed(reference->e, &part, 1, x, NULL), BRAID_OK);
    assert_int_equal(engine_layers(reference->e, &part, 1, x, NULL), BRAID_OK);
    assert_int_equal(engine_final_norm(reference->e, x, w.count, NULL), BRAID_OK);
    sequence_free(q);
    close_service(reference);
    for (uint32_t round = 0; round < 3; round++) {
        fixture *f = open_service((setup){.prompt_rows = 5, .lose_each = round == 2 ? 3 : 0});
        recorded *r = recorded_new();
        service_text text = {.tokens = w.prompt, .count = w.count, .settings = settings_of(&w), .embed = true};
        service_listener listener = recorded_listener(r);
        service_job *job;
        assert_int_equal(service_submit(f->s, &text, &listener, &job, NULL), BRAID_OK);
        service_release(f->s, job);
        recorded_wait(r);
        assert_int_equal(r->end, SERVICE_MAX_TOKENS);
        assert_int_equal(r->dim, DIM);
        assert_int_equal(r->count, 0);
        for (uint32_t i = 0; i < DIM; i++) {
            double sum = 0;
            for (uint32_t t = 0; t < w.count; t++) sum += (double)x[t * DIM + i];
            assert_true(r->mean[i] == (float)(sum / w.count));
        }
        if (round == 0) memcpy(first, r->mean, sizeof first);
        assert_memory_equal(first, r->mean, sizeof first);
        recorded_free(r);
        close_service(f);
    }
}

// --- ends

static void test_cancelled_texts_end(void **state) {
    (void)state;
    static written w[3];
    recorded *r[3];
    service_job *job[3];
    fixture *f = open_service((setup){.parallel = 1, .pause_at = 5});
    for (uint32_t i = 0; i < 3; i++) {
        any_text(&w[i], i, 5, 300);
        r[i] = recorded_new();
        job[i] = submit(f, &w[i], r[i]);
    }
    wait_for_pause(&f->between);
    recorded_wait_count(r[0], 3);
    service_cancel(f->s, job[1]);  // which is in the queue
    service_cancel(f->s, job[0]);
    go_on(&f->between);
    recorded_wait(r[0]);
    recorded_wait(r[1]);
    recorded_wait_count(r[2], 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(r[i]->end, SERVICE_CANCELLED);
        assert_int_equal(r[i]->ends, 1);
        service_cancel(f->s, job[i]);  // after the end it does nothing
    }
    assert_int_equal(r[1]->starts, 0);
    for (uint32_t i = 0; i < 3; i++) service_release(f->s, job[i]);
    end_service(f);  // and with it the third one
    assert_int_equal(r[2]->ends, 1);
    assert_true(r[2]->end == SERVICE_CANCELLED || r[2]->count == 300);
    for (uint32_t i = 0; i < 3; i++) recorded_free(r[i]);
    close_service(f);
}

static void test_the_context_ends_a_text(void **state) {
    (void)state;
    static written w;
    any_text(&w, 6, 3 * PAGE, 0);
    recorded *r = recorded_new();
    fixture *f = open_service((setup){.pages = 4});  // with room for 4 pages
    assert_int_equal(service_model_of(f->s)->context, 4 * PAGE);
    service_release(f->s, submit(f, &w, r));
    recorded_wait(r);
    assert_int_equal(r->end, SERVICE_CONTEXT);
    assert_int_equal(r->count, PAGE + 1);
    recorded_free(r);
    close_service(f);
}

static void test_a_failure_ends_one_text(void **state) {
    (void)state;
    static written w[2];
    recorded *r[2], *wanted = recorded_new();
    any_text(&w[0], 1, 5, 12);
    any_text(&w[1], 2, 9, 30);
    fixture *f = open_service((setup){.parallel = 2, .fail_at = 5});
    for (uint32_t i = 0; i < 2; i++) service_release(f->s, submit(f, &w[i], r[i] = recorded_new()));
    for (uint32_t i = 0; i < 2; i++) recorded_wait(r[i]);
    uint32_t failed = r[0]->end == SERVICE_FAILED ? 0 : 1;
    assert_int_equal(r[failed]->end, SERVICE_FAILED);
    assert_int_equal(r[failed]->error.code, BRAID_NETWORK);
    expect(&w[1 - failed], wanted);
    expect_same(r[1 - failed], wanted);
    service_status status;
    service_status_of(f->s, &status);
    assert_int_equal(status.texts, 2);
    assert_int_equal(status.failed, 1);
    for (uint32_t i = 0; i < 2; i++) recorded_free(r[i]);
    recorded_free(wanted);
    close_service(f);
}

// --- refusals

static void count_release(void *context) { ++*(uint32_t *)context; }

static void refuse(fixture *f, service_text text, braid_err code, const char *reason) {
    uint32_t released = 0;
    recorded *r = recorded_new();
    service_listener listener = recorded_listener(r);
    service_job *job = NULL;
    braid_error error = {0};
    text.constraint = (service_constraint){.context = &released, .release = count_release};
    assert_int_equal(service_submit(f->s, &text, &listener, &job, &error), code);
    assert_null(job);
    assert_int_equal(released, 1);
    assert_non_null(strstr(error.text, reason));
    assert_int_equal(r->starts + r->ends, 0);
    recorded_free(r);
}

static void test_unsuited_texts_are_refused(void **state) {
    (void)state;
    static written w, longest;
    any_text(&w, 1, 5, 300);
    any_text(&longest, 1, CONTEXT + 1, 4);
    fixture *f = open_service((setup){.parallel = 1, .queue = 1, .pause_at = 3});
    service_text good = {.tokens = w.prompt, .count = w.count, .settings = settings_of(&w)}, bad = good;
    uint32_t unknown[] = {1, VOCAB};
    bad.tokens = unknown, bad.count = 2;
    refuse(f, bad, BRAID_ARGUMENT, "token 300 is not in the model's vocabulary");
    bad.count = 0;
    refuse(f, bad, BRAID_ARGUMENT, "empty");
    bad = good, bad.tokens = longest.prompt, bad.count = longest.count;
    refuse(f, bad, BRAID_LIMIT, "513 tokens");
    bad = good, bad.model = "huge";
    refuse(f, bad, BRAID_NOT_FOUND, "huge");
    bad = good, bad.settings.sampler.top_p = 2;
    refuse(f, bad, BRAID_CONFIG, "top");
    bad = good, bad.settings.shift = true;
    refuse(f, bad, BRAID_CONFIG, "shift");

    recorded *first = recorded_new(), *second = recorded_new();
    service_job *running = submit(f, &w, first);
    wait_for_pause(&f->between);
    service_job *waits = submit(f, &w, second);
    refuse(f, good, BRAID_BUSY, "1 texts are waiting");
    go_on(&f->between);
    service_cancel(f->s, waits);
    recorded_wait(second);
    service_drain(f->s);
    refuse(f, good, BRAID_BUSY, "ending");
    service_cancel(f->s, running);
    recorded_wait(first);
    service_release(f->s, running);
    service_release(f->s, waits);
    recorded_free(first);
    recorded_free(second);
    close_service(f);
}

// --- constraints

typedef struct even {
    uint32_t masks, accepts, releases, last;
} even;

static void mask_odd(void *context, float *logits, uint32_t vocab) {
    ((even *)context)->masks++;
    for (uint32_t i = 1; i < vocab; i += 2) logits[i] = -INFINITY;
}
static void accept_even(void *context, uint32_t token) {
    ((even *)context)->accepts++;
    ((even *)context)->last = token;
}
static void release_even(void *context) { ((even *)context)->releases++; }

static void test_constraints_restrict_one_text(void **state) {
    (void)state;
    static written w;
    any_text(&w, 1, 9, 40);
    even seen = {0};
    recorded *r = recorded_new(), *free_text = recorded_new(), *wanted = recorded_new();
    expect(&w, wanted);
    fixture *f = open_service((setup){.parallel = 2});
    service_text text = {.tokens = w.prompt, .count = w.count, .settings = settings_of(&w)};
    text.constraint = (service_constraint){&seen, mask_odd, accept_even, release_even};
    service_listener listener = recorded_listener(r);
    service_job *job;
    assert_int_equal(service_submit(f->s, &text, &listener, &job, NULL), BRAID_OK);
    service_release(f->s, job);
    service_release(f->s, submit(f, &w, free_text));
    recorded_wait(r);
    recorded_wait(free_text);
    for (uint32_t i = 0; i < r->count; i++) assert_int_equal(r->tokens[i] % 2, 0);
    expect_same(free_text, wanted);
    end_service(f);
    assert_int_equal(seen.masks, 40);
    assert_int_equal(seen.accepts, 40);
    assert_int_equal(seen.releases, 1);
    assert_int_equal(seen.last, r->tokens[39]);
    recorded_free(r);
    recorded_free(free_text);
    recorded_free(wanted);
    close_service(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_have_their_bits),
        cmocka_unit_test(test_lost_places_change_no_bit),
        cmocka_unit_test(test_drafts_change_no_bit),
        cmocka_unit_test(test_an_ended_text_does_not_run),
        cmocka_unit_test(test_prefixes_are_read_once),
        cmocka_unit_test(test_old_prefixes_are_evicted),
        cmocka_unit_test(test_prompt_logprobs),
        cmocka_unit_test(test_embeddings_are_means),
        cmocka_unit_test(test_cancelled_texts_end),
        cmocka_unit_test(test_the_context_ends_a_text),
        cmocka_unit_test(test_a_failure_ends_one_text),
        cmocka_unit_test(test_unsuited_texts_are_refused),
        cmocka_unit_test(test_constraints_restrict_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
