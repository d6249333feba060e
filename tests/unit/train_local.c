// Local steps: they are the steps of ordinary training, and a contribution can be taken out of the
// sum again.
#include "train/optimizer.h"
#include "train/worker.h"
#include "train_fixture.h"

enum { STEPS = 8 };

static int set_up_without_warmup(void **state) {
    set_up(state);
    fixture *f = *state;
    f->config.recipe.warmup = 0;
    return 0;
}

static const uint32_t whole[] = {TINY_LAYERS};

static train_recipe local_recipe(const fixture *f, uint32_t steps) {
    train_recipe recipe = f->config.recipe;
    recipe.local_steps = steps;
    recipe.local_rows = TINY_SEQUENCES * TINY_TOKENS;
    recipe.outer_rate = 1;
    recipe.outer_momentum = 0;
    return recipe;
}

// With one contribution, an outer rate of 1 and no momentum, an iteration of 8 local steps is 8
// iterations of ordinary training: the same tokens, rates, moments and clipping.
static void test_local_steps_are_those_of_training(void **state) {
    fixture *f = *state;
    tiny_config config = f->config;
    config.single = true;
    config.recipe.reproducible = false;
    config.recipe.iterations = STEPS;
    tiny_line plain, local;
    tiny_open(&plain, &config, 1, whole);
    tiny_init(&plain);
    for (uint64_t t = 0; t < STEPS; t++) tiny_iteration(&plain, t);
    config.recipe = local_recipe(f, STEPS);
    config.recipe.reproducible = false;
    config.recipe.iterations = 1;
    tiny_open(&local, &config, 1, whole);
    tiny_init(&local);
    tiny_iteration(&local, 0);
    const float *a = worker_weights(plain.worker[0]), *b = worker_weights(local.worker[0]);
    double most = 0;
    for (uint64_t i = 0; i < worker_parameters(plain.worker[0]); i++) most = fmax(most, fabs((double)(a[i] - b[i])));
    assert_true(most < 2e-5);  // each weight moved by up to 0.08
    tiny_close(&plain);
    tiny_close(&local);
}

static job_result pack(tiny_line *l) {
    return tiny_job(l, 0, &(job){.id = 1, .kind = JOB_PACK, .count = worker_blocks(l->worker[0])});
}

static void test_a_contribution_can_be_taken_out_again(void **state) {
    fixture *f = *state;
    tiny_config config = f->config;
    config.recipe = local_recipe(f, 3);
    tiny_line line;
    tiny_open(&line, &config, 1, whole);
    tiny_init(&line);
    tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
    tiny_microbatch(&line, 0, 0);
    job_result before = pack(&line);
    job_result loss = tiny_microbatch(&line, 0, 1);
    assert_int_equal(loss.tokens, 3 * TINY_SEQUENCES * TINY_TOKENS);
    assert_true(pack(&line).hash64 != before.hash64);
    job_result y = tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_FORWARD, .m = 1, .slot = 1});
    job_result dx = tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_LOSS, .m = 1, .slot = 1, .in = y.out});
    tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_BACKWARD, .m = 1, .slot = 1, .in = dx.out});
    tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_WEIGHT, .m = 1, .slot = 1, .minus = true});
    assert_int_equal(pack(&line).hash64, before.hash64);
    tiny_close(&line);
}

static braid_hash train(const tiny_config *config, uint64_t iterations) {
    tiny_line line;
    tiny_open(&line, config, 1, whole);
    tiny_init(&line);
    for (uint64_t t = 0; t < iterations; t++) tiny_iteration(&line, t);
    braid_hash hash = tiny_hash(&line);
    tiny_close(&line);
    return hash;
}

static void test_threads_and_solitude_do_not_change_bits(void **state) {
    fixture *f = *state;
    tiny_config config = f->config;
    config.recipe = local_recipe(f, 2);
    config.recipe.outer_momentum = 0.9f;
    braid_hash two = train(&config, 3);
    config.alone = true;
    assert_same_hash(train(&config, 3), two);
    assert_int_equal(tensor_pool_new(1, &config.pool, NULL), BRAID_OK);
    braid_hash one = train(&config, 3);
    tensor_pool_free(config.pool);
    assert_same_hash(one, two);
}

// Nesterov: v := momentum v + d, w := w - rate (d + momentum v), with d = clip * result.
static void test_outer_steps_keep_momentum(void **state) {
    fixture *f = *state;
    train_recipe recipe = local_recipe(f, 4);
    recipe.outer_rate = 0.5f;
    recipe.outer_momentum = 0.5f;
    train_step step = train_decide(&recipe, 0, 1, 100);
    float w[19], v[19], d[19];
    assert_false(step.skip);
    assert_true(step.clip == 4 * TINY_SEQUENCES * TINY_TOKENS);
    for (int i = 0; i < 19; i++) w[i] = 1, v[i] = 0, d[i] = 1 / step.clip;
    nesterov_apply(&recipe, &step, 19, d, w, v);  // v = 1, w = 1 - 0.5 * 1.5
    for (int i = 0; i < 19; i++) assert_true(v[i] == 1 && w[i] == 0.25f);
    nesterov_apply(&recipe, &step, 19, d, w, v);  // v = 1.5, w = 0.25 - 0.5 * 1.75
    for (int i = 0; i < 19; i++) assert_true(v[i] == 1.5f && w[i] == -0.625f);
    assert_true(train_decide(&recipe, 0, (double)NAN, 100).skip);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_local_steps_are_those_of_training, set_up_without_warmup, tear_down),
        cmocka_unit_test_setup_teardown(test_a_contribution_can_be_taken_out_again, set_up_without_warmup, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_and_solitude_do_not_change_bits, set_up_without_warmup, tear_down),
        cmocka_unit_test_setup_teardown(test_outer_steps_keep_momentum, set_up_without_warmup, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
