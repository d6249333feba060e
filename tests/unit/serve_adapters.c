// Adapters of a service: texts of several adapters in one batch have the bits that they have alone, and
// a reload replaces all adapters at once, while texts under way keep theirs.
#include "service_texts.h"
#include "tiny_model.h"

#include "text.h"

#include "serve/local.h"
#include "weights/model_file.h"

enum { PROMPT = 150, TOKENS = 12, RANK = 2, PAGE = ENGINE_PAGE_TOKENS };

typedef struct fixture {
    model_file *file;
    tensor_pool *pool;
    service *s;
} fixture;

static const adapter_place both[] = {{"first", "a"}, {"second", "b"}};

static model_config config(void) {
    model_config c = tiny_llama();
    c.context = 300;
    c.vocab = 256;
    return c;
}

// An adapter of queries and of the MLP's outputs, with values of its seed.
static void write_adapter(const char *directory, uint64_t seed) {
    static tiny_file f;
    const model_config c = config();
    rng r = {seed};
    char name[MODEL_TENSOR_NAME];
    f.count = 0;
    for (uint32_t layer = 0; layer < c.layers; layer++) {
        snprintf(name, sizeof name, "base_model.model.model.layers.%u.self_attn.q_proj.lora_A.weight", layer);
        tiny_add(&f, name, 2, RANK, 64, &r);
        snprintf(name, sizeof name, "base_model.model.model.layers.%u.self_attn.q_proj.lora_B.weight", layer);
        tiny_add(&f, name, 2, 64, RANK, &r);
        snprintf(name, sizeof name, "base_model.model.model.layers.%u.mlp.down_proj.lora_A.weight", layer);
        tiny_add(&f, name, 2, RANK, 96, &r);
        snprintf(name, sizeof name, "base_model.model.model.layers.%u.mlp.down_proj.lora_B.weight", layer);
        tiny_add(&f, name, 2, 64, RANK, &r);
    }
    mkdir(directory, 0777);
    tiny_put_weights(directory, "adapter_model.safetensors", &f, 0, f.count, NULL, 0);
    tiny_put_text(directory, "adapter_config.json", "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}");
    tiny_free(&f);
}

static braid_err try_open(fixture *f, const adapter_place *places, uint32_t count, braid_error *error) {
    service_local_settings settings = {
        .file = f->file, .name = "tiny", .pool = f->pool, .adapters = places, .adapter_count = count};
    return service_local_new(&settings, &f->s, NULL, error);
}

static void open_service(fixture *f, const adapter_place *places, uint32_t count) {
    braid_error error = {0};
    if (try_open(f, places, count, &error)) fail_msg("%s", error.text);
}

static void close_service(fixture *f) {
    service_free(f->s);
    f->s = NULL;
}

static fixture *fixture_new(void) {
    static tiny_file weights;
    fixture *f = calloc(1, sizeof *f);
    const model_config c = config();
    assert_non_null(f);
    tiny_fill(&weights, &c, 7);
    tiny_write("model", &c, &weights);
    tiny_free(&weights);
    write_adapter("a", 11);
    write_adapter("b", 12);
    assert_int_equal(model_file_open("model", &f->file, NULL), BRAID_OK);
    assert_int_equal(tensor_pool_new(2, &f->pool, NULL), BRAID_OK);
    return f;
}

static void fixture_free(fixture *f) {
    close_service(f);
    tensor_pool_free(f->pool);
    model_file_close(f->file);
    free(f);
}

static braid_err submit(fixture *f, const char *model, const service_listener *listener, braid_error *error) {
    uint32_t prompt[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++) prompt[i] = (i * 7 + i / 9) % 128;
    service_text text = {.tokens = prompt, .count = PROMPT, .model = model};
    text.settings =
        (generation_settings){.sampler = sampler_defaults(), .max_tokens = TOKENS, .top_logprobs = TEXT_TOP};
    service_job *job = NULL;
    braid_err err = service_submit(f->s, &text, listener, &job, error);
    if (!err) service_release(f->s, job);
    return err;
}

static recorded *begin(fixture *f, const char *model) {
    recorded *r = recorded_new();
    service_listener listener = recorded_listener(r);
    braid_error error = {0};
    if (submit(f, model, &listener, &error)) fail_msg("%s", error.text);
    return r;
}

static recorded *write_text(fixture *f, const char *model) {
    recorded *r = begin(f, model);
    recorded_wait(r);
    assert_int_equal(r->end, SERVICE_MAX_TOKENS);
    return r;
}

static bool same(const recorded *a, const recorded *b) {
    return a->count == b->count && memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens) == 0 &&
           memcmp(a->logprobs, b->logprobs, a->count * sizeof *a->logprobs) == 0 &&
           memcmp(a->top, b->top, a->count * sizeof *a->top) == 0;
}

static void test_texts_of_a_batch_have_the_bits_they_have_alone(void **state) {
    (void)state;
    enum { TEXTS = 6 };
    static const char *const models[] = {NULL, "first", "second"};
    fixture *f = fixture_new();
    recorded *alone[3], *together[TEXTS];
    for (int i = 0; i < 3; i++) {
        open_service(f, &both[i == 2], i > 0);
        alone[i] = write_text(f, models[i]);
        close_service(f);
    }
    assert_true(!same(alone[0], alone[1]) && !same(alone[1], alone[2]) && !same(alone[0], alone[2]));
    open_service(f, both, 2);
    const adapter_set *adapters = service_model_of(f->s)->adapters;
    assert_int_equal(adapter_set_count(adapters), 2);
    assert_string_equal(adapter_set_name(adapters, 1), "second");
    for (int i = 0; i < TEXTS; i++) together[i] = begin(f, models[i % 3]);
    for (int i = 0; i < TEXTS; i++) {
        recorded_wait(together[i]);
        assert_true(same(together[i], alone[i % 3]));
        recorded_free(together[i]);
    }
    for (int i = 0; i < 3; i++) recorded_free(alone[i]);
    fixture_free(f);
}

// Keys and values of one adapter are not those of another, nor of the model.
static void test_prefixes_belong_to_an_adapter(void **state) {
    (void)state;
    static const char *const order[] = {"tiny", "first", "second", "first", "tiny"};
    fixture *f = fixture_new();
    open_service(f, both, 2);
    for (int i = 0; i < 5; i++) {
        recorded *r = write_text(f, order[i]);
        assert_int_equal(r->cached, i < 3 ? 0 : 2 * PAGE);
        recorded_free(r);
    }
    fixture_free(f);
}

// A text that stops the service's thread at its third token.
typedef struct held {
    recorded *r;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_held, may_go_on;
} held;

static void held_step(void *context, const generation_step *step) {
    held *h = context;
    record_step(h->r, step);
    pthread_mutex_lock(&h->lock);
    if (h->r->count == 3) {
        h->is_held = true;
        pthread_cond_broadcast(&h->changed);
        while (!h->may_go_on) pthread_cond_wait(&h->changed, &h->lock);
    }
    pthread_mutex_unlock(&h->lock);
}

static void held_started(void *context, size_t prompt, size_t cached) {
    record_started(((held *)context)->r, prompt, cached);
}

static void held_ended(void *context, service_end end, const braid_error *error) {
    record_ended(((held *)context)->r, end, error);
}

static void held_wait(held *h) {
    pthread_mutex_lock(&h->lock);
    while (!h->is_held) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void held_go_on(held *h) {
    pthread_mutex_lock(&h->lock);
    h->may_go_on = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void test_a_reload_leaves_texts_under_way(void **state) {
    (void)state;
    fixture *f = fixture_new();
    braid_error error = {0};
    held h = {.r = recorded_new()};
    pthread_mutex_init(&h.lock, NULL);
    pthread_cond_init(&h.changed, NULL);
    const service_listener listener = {.context = &h, .started = held_started, .step = held_step, .ended = held_ended};
    open_service(f, both, 2);
    recorded *former = write_text(f, "first");
    assert_int_equal(submit(f, "first", &listener, &error), BRAID_OK);
    held_wait(&h);
    write_adapter("a", 13);
    assert_int_equal(service_reload(f->s, &error), BRAID_OK);
    recorded *next = begin(f, "first");
    held_go_on(&h);
    recorded_wait(h.r);
    recorded_wait(next);
    assert_true(same(h.r, former));
    assert_false(same(next, former));
    assert_int_equal(next->cached, 0);
    recorded *other = write_text(f, "second");
    assert_int_equal(service_reload(f->s, &error), BRAID_OK);  // nothing has changed
    recorded *again = write_text(f, "second");
    assert_true(same(again, other) && again->cached == 2 * PAGE);
    close_service(f);
    open_service(f, both, 2);
    recorded *anew = write_text(f, "first");
    assert_true(same(anew, next));
    recorded *const all[] = {former, h.r, next, other, again, anew};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) recorded_free(all[i]);
    pthread_cond_destroy(&h.changed);
    pthread_mutex_destroy(&h.lock);
    fixture_free(f);
}

static void test_a_failed_reload_changes_nothing(void **state) {
    (void)state;
    fixture *f = fixture_new();
    braid_error error = {0};
    open_service(f, both, 2);
    recorded *former = write_text(f, "first");
    write_adapter("a", 13);  // read before the other one fails
    tiny_put_text("b", "adapter_model.safetensors", "no tensors");
    assert_int_equal(service_reload(f->s, &error), BRAID_FORMAT);
    assert_text_holds(error.text, "b/adapter_model.safetensors");
    recorded *after = write_text(f, "first");
    assert_true(same(after, former));
    recorded_free(former);
    recorded_free(after);
    fixture_free(f);
}

static void refuse(fixture *f, const adapter_place *places, uint32_t count, const char *named) {
    braid_error error = {0};
    assert_int_not_equal(try_open(f, places, count, &error), BRAID_OK);
    assert_text_holds(error.text, named);
}

static void test_wrong_names_are_refused(void **state) {
    (void)state;
    fixture *f = fixture_new();
    static adapter_place many[ADAPTERS_MOST + 1];
    const adapter_place twice[] = {{"x", "a"}, {"x", "b"}}, own = {"tiny", "a"}, empty = {"", "a"},
                        none = {"x", "model"};
    refuse(f, twice, 2, "two adapters have the name 'x'");
    refuse(f, &own, 1, "has the model's name");
    refuse(f, &empty, 1, "an empty name");
    refuse(f, &none, 1, "has no adapter_config.json");
    for (int i = 0; i <= ADAPTERS_MOST; i++) many[i] = (adapter_place){"x", "a"};
    refuse(f, many, ADAPTERS_MOST + 1, "65 adapters are too many");
    open_service(f, both, 2);
    braid_error error = {0};
    recorded *r = recorded_new();
    service_listener listener = recorded_listener(r);
    assert_int_equal(submit(f, "third", &listener, &error), BRAID_NOT_FOUND);
    assert_text_holds(error.text, "there is no model 'third' here");
    recorded_free(r);
    fixture_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_texts_of_a_batch_have_the_bits_they_have_alone, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_prefixes_belong_to_an_adapter, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_a_reload_leaves_texts_under_way, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_a_failed_reload_changes_nothing, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_names_are_refused, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
