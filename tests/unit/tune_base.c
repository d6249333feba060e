// A frozen base, layer by layer: its loss and gradients are those of one stage with all layers, and
// neither memory nor threads change a bit.
#include "tiny_model.h"

#include "tune/base.h"

#include <math.h>

enum { SEQUENCES = 2, TOKENS = 16, ROWS = SEQUENCES * TOKENS, RANK = 4 };
static const uint64_t llama_roles = 1u << ROLE_Q | 1u << ROLE_V | 1u << ROLE_DOWN | 1u << ROLE_GATE;
static const uint64_t gpt_roles = 1u << ROLE_QKV | 1u << ROLE_O | 1u << ROLE_UP;

typedef struct fixture {
    char directory[64];
    model_file *file;
    tensor_pool *pool;
    int32_t tokens[ROWS], targets[ROWS];
    uint32_t documents[ROWS];
} fixture;

static void open_model(fixture *f, const model_config *c, unsigned threads) {
    tiny_file tensors = {0};
    rng r = {3};
    snprintf(f->directory, sizeof f->directory, "/tmp/braid-tune-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    tiny_fill(&tensors, c, 5);
    for (uint32_t i = 0; i < tensors.count; i++)
        for (uint64_t k = 0; k < tiny_elements(&tensors.entry[i]); k++) tensors.values[i][k] *= 0.5f;
    tiny_put_config(f->directory, c);
    tiny_put_weights(f->directory, "model.safetensors", &tensors, 0, tensors.count, NULL, 0);
    tiny_free(&tensors);
    braid_error error = {0};
    if (model_file_open(f->directory, &f->file, &error)) fail_msg("%s", error.text);
    assert_int_equal(tensor_pool_new(threads, &f->pool, NULL), BRAID_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        f->tokens[i] = (int32_t)rng_below(&r, c->vocab);
        f->targets[i] = rng_below(&r, 3) ? (int32_t)rng_below(&r, c->vocab) : -1;
        f->documents[i] = i % TOKENS < 5 ? 0 : 5;
    }
}

static void close_model(fixture *f) {
    char path[128];
    model_file_close(f->file);
    tensor_pool_free(f->pool);
    snprintf(path, sizeof path, "%s/config.json", f->directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", f->directory);
    unlink(path);
    rmdir(f->directory);
}

static tune_base_config config_of(const fixture *f, uint64_t roles, uint64_t memory) {
    return (tune_base_config){.file = f->file,
                              .pool = f->pool,
                              .adapter = {.rank = RANK, .alpha = 6, .roles = roles},
                              .sequences = SEQUENCES,
                              .tokens = TOKENS,
                              .max_memory = memory};
}

static void random_parameters(float *p, size_t count) {
    rng r = {8};
    for (size_t i = 0; i < count; i++) p[i] = (float)(rng_unit(&r) - 0.5) * 0.2f;
}

static double run_once(tune_base *b, const tune_microbatch *m, const float *parameters, float *gradient) {
    double loss = 0;
    tune_base_begin(b, parameters);
    assert_int_equal(tune_base_run(b, m, parameters, gradient, &loss, NULL), BRAID_OK);
    tune_base_end(b);
    return loss;
}

static double run(tune_base *b, const fixture *f, float **parameters, float **gradient) {
    size_t count = tune_base_parameters(b);
    *parameters = calloc(count, sizeof **parameters);
    *gradient = calloc(count, sizeof **gradient);
    assert_true(*parameters && *gradient);
    random_parameters(*parameters, count);
    const tune_microbatch m = {f->tokens, f->targets, f->documents};
    double only = run_once(b, &m, *parameters, NULL), loss = run_once(b, &m, *parameters, *gradient);
    assert_true(only == loss);
    // a second microbatch adds its gradient: twice the same
    float *twice = malloc(count * sizeof *twice);
    assert_non_null(twice);
    memcpy(twice, *gradient, count * sizeof *twice);
    run_once(b, &m, *parameters, twice);
    for (size_t i = 0; i < count; i++) assert_true(twice[i] == 2 * (*gradient)[i]);
    free(twice);
    return loss;
}

static void take(void *context, size_t offset, const float *gradient, size_t count) {
    memcpy((float *)context + offset, gradient, count * sizeof *gradient);
}

static void *aligned_floats(size_t count) {
    void *p = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    assert_non_null(p);
    return p;
}

// The same by one stage; `parameters` and `out` are ordered as the stage's adapter.
static double whole_stage(const fixture *f, const adapter_config *a, const float *parameters, float *out) {
    const model_config *c = model_file_config(f->file);
    stage_shape shape = {.layer_end = c->layers,
                         .ends = true,
                         .sequences = SEQUENCES,
                         .tokens = TOKENS,
                         .documents = true,
                         .frozen = true};
    stage *s;
    adapter *ad;
    assert_int_equal(stage_new(c, &shape, f->pool, &s, NULL), BRAID_OK);
    assert_int_equal(adapter_new(s, a, &ad, NULL), BRAID_OK);
    float *base = aligned_floats(stage_parameters(s)), *merged = aligned_floats(stage_parameters(s));
    float *y = aligned_floats(ROWS * c->dim), *dy = aligned_floats(ROWS * c->dim);
    void *stash = aligned_floats(stage_stash_bytes(s) / sizeof(float) + 16);
    for (uint32_t i = 0; i < stage_tensor_count(s); i++)
        model_file_values(model_file_at(f->file, stage_tensors(s)[i].canonical), base + stage_tensors(s)[i].offset);
    adapter_merge(ad, base, parameters, true, merged);
    stage_bind(s, merged);
    uint32_t counted;
    stage_set_documents(s, stash, f->documents);
    stage_forward(s, stash, f->tokens, NULL, y);
    double loss = stage_loss(s, stash, y, f->targets, dy, &counted);
    stage_input_gradient(s, stash, dy, NULL);
    const stage_sink sink = {.take = take, .context = out};
    adapter_gradient(ad, stash, parameters, &sink);
    adapter_free(ad);
    stage_free(s);
    free(base);
    free(merged);
    free(y);
    free(dy);
    free(stash);
    return loss;
}

static void expect_near(const float *expected, const float *found, size_t count) {
    double square = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)expected[i] - (double)found[i]);
        square += (double)expected[i] * (double)expected[i];
        worst = difference > worst ? difference : worst;
    }
    assert_true(square > 0 && worst / sqrt(square / (double)count) < 1e-4);
}

static void check_model(const model_config *c, uint64_t roles) {
    fixture f;
    tune_base *b;
    float *parameters, *gradient;
    open_model(&f, c, 2);
    if (c->arch == MODEL_GPT)
        for (int i = 0; i < ROWS; i++) f.documents[i] = 0;
    tune_base_config config = config_of(&f, roles, 0);
    assert_int_equal(tune_base_new(&config, &b, NULL), BRAID_OK);
    assert_int_equal(tune_base_kept(b), c->layers);
    double loss = run(b, &f, &parameters, &gradient);
    // the layers' adapters follow one another in both
    float *expected = calloc(tune_base_parameters(b), sizeof *expected);
    assert_non_null(expected);
    double whole = whole_stage(&f, &config.adapter, parameters, expected);
    assert_true(fabs(loss - whole) < 1e-4 * whole);
    expect_near(expected, gradient, tune_base_parameters(b));
    free(expected);
    free(parameters);
    free(gradient);
    tune_base_free(b);
    close_model(&f);
}

static void test_it_computes_as_one_stage(void **state) {
    (void)state;
    model_config llama = tiny_llama(), gpt = tiny_gpt(), sliding = tiny_llama();
    sliding.arch = MODEL_SMOLLM3;
    model_set_layer(sliding.unrotated, 1);
    check_model(&llama, llama_roles);
    check_model(&gpt, gpt_roles);
    check_model(&sliding, llama_roles);
}

// Windows, two rotations, norms after the layers, softcaps, experts.
static void test_other_architectures_compute_as_one_stage(void **state) {
    (void)state;
    model_config gemma3 = tiny_llama(), gemma2 = tiny_llama(), mixtral = tiny_llama();
    gemma3.arch = MODEL_GEMMA3;
    gemma3.head_dim = 16;
    gemma3.local_rope_theta = 100;
    gemma3.window = 6;
    gemma3.windowed[0] = 5;
    gemma3.embedding_scale = 8;
    gemma3.attention_scale = 0.25f;
    gemma2 = gemma3;
    gemma2.arch = MODEL_GEMMA2;
    gemma2.local_rope_theta = 0;
    gemma2.attention_softcap = 20;
    gemma2.logit_softcap = 10;
    mixtral.arch = MODEL_MIXTRAL;
    mixtral.tied = false;
    mixtral.experts = 4;
    mixtral.experts_used = 2;
    mixtral.expert_ffn_dim = mixtral.ffn_dim;
    mixtral.normalised_experts = true;
    check_model(&gemma3, llama_roles);
    check_model(&gemma2, llama_roles);
    check_model(&mixtral, 1u << ROLE_Q | 1u << ROLE_O);
}

static void test_memory_and_threads_change_no_bit(void **state) {
    (void)state;
    model_config c = tiny_llama();
    float *expected = NULL, *parameters, *gradient;
    double loss = 0;
    uint64_t most = 0, kept[3];
    for (unsigned i = 0; i < 3; i++) {
        fixture f;
        tune_base *b;
        braid_error error = {0};
        open_model(&f, &c, i == 2 ? 1 : 2);  // scratch memory depends on threads
        tune_base_config config = config_of(&f, llama_roles, 0);
        if (i > 0) config.max_memory = i == 1 ? most - 2000 : 1;
        if (i == 2) {  // the message names the least that works
            assert_int_equal(tune_base_new(&config, &b, &error), BRAID_LIMIT);
            assert_non_null(strstr(error.text, "tuning needs"));
            config.max_memory = strtoull(strstr(error.text, "needs ") + 6, NULL, 10) << 20;
        }
        if (tune_base_new(&config, &b, &error)) fail_msg("%u: %s", i, error.text);
        kept[i] = tune_base_kept(b);
        if (i == 0) most = tune_base_bytes(b);
        double found = run(b, &f, &parameters, &gradient);
        if (i == 0) loss = found;
        assert_true(found == loss);
        if (expected) assert_memory_equal(expected, gradient, tune_base_parameters(b) * sizeof *gradient);
        free(parameters);
        if (expected)
            free(gradient);
        else
            expected = gradient;
        tune_base_free(b);
        close_model(&f);
    }
    assert_int_equal(kept[0], c.layers);
    assert_true(kept[1] < kept[0]);
    free(expected);
}

// Two bases without the ends, as two peers have them.
typedef struct elsewhere {
    fixture *f;
    tune_base *part[2];
    uint32_t cut;
    const float *parameters;
    const uint32_t *documents;
    size_t layer, bytes;
    float *between, *dx;
} elsewhere;

static braid_err part_open(void *context, const adapter_config *settings, uint32_t sequences, uint32_t tokens,
                           size_t layer_parameters, braid_error *error) {
    elsewhere *e = context;
    (void)sequences, (void)tokens;
    e->layer = layer_parameters;
    uint32_t layers = model_file_config(e->f->file)->layers;
    for (uint32_t i = 0; i < 2; i++) {
        tune_base_config config = config_of(e->f, settings->roles, 0);
        config.part = i == 0 ? (tune_part){0, e->cut} : (tune_part){e->cut, layers};
        assert_int_equal(tune_base_new(&config, &e->part[i], error), BRAID_OK);
    }
    return BRAID_OK;
}

static void part_begin(void *context, const float *parameters) { ((elsewhere *)context)->parameters = parameters; }

static braid_err part_forward(void *context, const uint32_t *documents, const float *x, bool keep, float *y,
                              braid_error *error) {
    elsewhere *e = context;
    (void)keep, (void)error;
    e->documents = documents;
    tune_base_forward(e->part[0], documents, x, e->parameters, e->between);
    tune_base_forward(e->part[1], documents, e->between, e->parameters + e->cut * e->layer, y);
    return BRAID_OK;
}

static braid_err part_backward(void *context, const float *dy, float *gradient, braid_error *error) {
    elsewhere *e = context;
    (void)error;
    size_t first = e->cut * e->layer;
    tune_base_backward(e->part[1], e->documents, dy, e->parameters + first, e->dx, gradient + first);
    tune_base_backward(e->part[0], e->documents, e->dx, e->parameters, e->dx, gradient);
    return BRAID_OK;
}

static void part_end(void *context) {
    elsewhere *e = context;
    for (int i = 0; i < 2; i++) tune_base_wipe(e->part[i]);
    e->parameters = NULL;
}

static void test_layers_elsewhere_change_no_bit(void **state) {
    (void)state;
    fixture f;
    model_config c = tiny_llama();
    tune_base *here, *ends;
    float *parameters[2], *gradient[2];
    open_model(&f, &c, 2);
    tune_base_config config = config_of(&f, llama_roles, 0);
    assert_int_equal(tune_base_new(&config, &here, NULL), BRAID_OK);
    double loss = run(here, &f, &parameters[0], &gradient[0]);
    size_t rows = (size_t)ROWS * c.dim * sizeof(float), all = tune_base_parameters(here) * sizeof(float);
    for (uint32_t cut = 1; cut < c.layers; cut++) {
        elsewhere e = {.f = &f, .cut = cut, .between = malloc(rows), .dx = malloc(rows)};
        const tune_remote remote = {&e, part_open, part_begin, part_forward, part_backward, part_end};
        config.remote = &remote;
        assert_int_equal(tune_base_new(&config, &ends, NULL), BRAID_OK);
        assert_true(run(ends, &f, &parameters[1], &gradient[1]) == loss);
        assert_memory_equal(gradient[0], gradient[1], all);
        tune_base_free(ends);
        for (int i = 0; i < 2; i++) tune_base_free(e.part[i]);
        free(e.between);
        free(e.dx);
        free(parameters[1]);
        free(gradient[1]);
    }
    free(parameters[0]);
    free(gradient[0]);
    tune_base_free(here);
    close_model(&f);
}

static void test_matrices_have_the_files_names_and_starts(void **state) {
    (void)state;
    fixture f;
    tune_base *b;
    model_config c = tiny_llama();
    open_model(&f, &c, 1);
    tune_base_config config = config_of(&f, llama_roles, 0);
    assert_int_equal(tune_base_new(&config, &b, NULL), BRAID_OK);
    float *p = calloc(tune_base_parameters(b), sizeof *p);
    assert_non_null(p);
    tune_base_init(b, p, 1);
    assert_int_equal(tune_base_matrices(b), 4 * c.layers);
    peft_matrix first = tune_base_matrix(b, 0, p), second = tune_base_matrix(b, 4, p);
    assert_string_equal(first.name, "model.layers.0.self_attn.q_proj.weight");
    assert_string_equal(second.name, "model.layers.1.self_attn.q_proj.weight");
    assert_memory_not_equal(first.a, second.a, RANK * first.in * sizeof *p);
    for (uint32_t i = 0; i < RANK * first.out; i++) assert_true(first.b[i] == 0);
    free(p);
    tune_base_free(b);
    close_model(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_computes_as_one_stage),
        cmocka_unit_test(test_other_architectures_compute_as_one_stage),
        cmocka_unit_test(test_layers_elsewhere_change_no_bit),
        cmocka_unit_test(test_memory_and_threads_change_no_bit),
        cmocka_unit_test(test_matrices_have_the_files_names_and_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
