#include "train_saved.h"

#include "base/sha256.h"
#include "text.h"

static const uint32_t whole[] = {3}, three[] = {1, 1, 1}, empty_ends[] = {0, 2, 1};

static adapter_config adapter_of(const model_config *model, uint32_t rank) {
    return (adapter_config){.rank = rank, .alpha = 8, .roles = adapter_all_roles(model)};
}

// Saves the first weights of a model, as the base of an adapter.
static void open_base(fixture *f, tiny_config *config) {
    tiny_line line;
    tiny_config plain = *config;
    plain.recipe.adapter = (adapter_config){0};
    plain.base = NULL;
    tiny_open(&line, &plain, 1, whole);
    tiny_init(&line);
    config->base = open_saved(save(f, &line).path);
    tiny_close(&line);
}

static tiny_config config_of(fixture *f, model_arch arch) {
    tiny_config config = f->config;
    config.model = tiny_model(arch);
    config.recipe.learning_rate = 0.05f;
    open_base(f, &config);
    config.recipe.adapter = adapter_of(&config.model, 3);
    return config;
}

static braid_hash train(const tiny_config *config, uint32_t stages, const uint32_t *layers, double *first,
                        double *last) {
    tiny_line line;
    tiny_open(&line, config, stages, layers);
    tiny_init(&line);
    for (uint64_t t = 0; t < 4; t++) {
        double loss = tiny_iteration(&line, t);
        if (t == 0 && first) *first = loss;
        if (last) *last = loss;
    }
    braid_hash hash = tiny_hash(&line);
    tiny_close(&line);
    return hash;
}

static void test_every_split_trains_an_adapter_to_the_same_bits(void **state) {
    const model_arch archs[] = {MODEL_LLAMA, MODEL_GPT, MODEL_GEMMA3, MODEL_QWEN3_MOE};
    for (size_t arch = 0; arch < sizeof archs / sizeof *archs; arch++) {
        tiny_config config = config_of(*state, archs[arch]);
        double first = 0, last = 0;
        braid_hash one = train(&config, 1, whole, &first, &last);
        assert_same_hash(train(&config, 3, three, NULL, NULL), one);
        assert_same_hash(train(&config, 3, empty_ends, NULL, NULL), one);
        assert_true(last < first);
        config.alone = true;
        assert_same_hash(train(&config, 1, whole, NULL, NULL), one);
        checkpoint_close(config.base);
    }
}

static void test_input_and_weight_gradients_at_once_give_the_same_bits(void **state) {
    tiny_config config = config_of(*state, MODEL_LLAMA);
    tiny_line apart, together;
    config.single = true;
    tiny_open(&apart, &config, 1, whole);
    tiny_open(&together, &config, 1, whole);
    tiny_init(&apart);
    tiny_init(&together);
    for (uint64_t t = 0; t < 2; t++) {
        tiny_iteration(&apart, t);
        tiny_job(&together, 0, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
        job_result y = tiny_job(&together, 0, &(job){.id = 1, .kind = JOB_FORWARD, .iteration = t});
        job_result dy = tiny_job(&together, 0, &(job){.id = 1, .kind = JOB_LOSS, .iteration = t, .in = y.out});
        tiny_job(&together, 0, &(job){.id = 1, .kind = JOB_BACKWARD, .iteration = t, .in = dy.out, .weigh = true});
        tiny_release(&together.blobs, y.out);
        tiny_release(&together.blobs, dy.out);
        tiny_apply(&together, t, dy.tokens);
    }
    assert_same_hash(tiny_hash(&together), tiny_hash(&apart));
    tiny_close(&apart);
    tiny_close(&together);
    checkpoint_close(config.base);
}

// A removed microbatch leaves no trace: with it added and removed, the sum is that of the others.
static void test_a_microbatch_is_removed_exactly(void **state) {
    tiny_config config = config_of(*state, MODEL_LLAMA);
    braid_hash hash[2];
    for (int removes = 0; removes < 2; removes++) {
        tiny_line line;
        tiny_open(&line, &config, 1, whole);
        tiny_init(&line);
        for (uint64_t t = 0; t < 3; t++) {
            tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
            uint32_t tokens = tiny_microbatch(&line, t, 0).tokens;
            for (int minus = 0; minus < 2 && removes; minus++) {
                job_result y = tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_FORWARD, .iteration = t, .m = 1});
                job_result dy =
                    tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_LOSS, .iteration = t, .m = 1, .in = y.out});
                tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_BACKWARD, .iteration = t, .m = 1, .in = dy.out});
                tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_WEIGHT, .iteration = t, .m = 1, .minus = minus});
                tiny_release(&line.blobs, y.out);
                tiny_release(&line.blobs, dy.out);
            }
            tiny_apply(&line, t, tokens);
        }
        hash[removes] = tiny_hash(&line);
        tiny_close(&line);
    }
    assert_same_hash(hash[0], hash[1]);
    checkpoint_close(config.base);
}

static void test_only_the_adapter_has_state(void **state) {
    tiny_config config = config_of(*state, MODEL_LLAMA);
    worker *w = tiny_worker(&config, true, 0, 3);
    // rank 3 on queries and outputs 32 x 32, keys and values 16 x 32, gate, up and down 48 x 32,
    // and the constant zero of the ends
    uint64_t expected = 3 * 3 * (2 * (32 + 32) + 2 * (16 + 32) + 3 * (48 + 32)) + 1;
    assert_int_equal(worker_parameters(w), expected);
    worker_free(w);
    checkpoint_close(config.base);
}

// Bytes of a member's packed sum and of the results of all blocks, after two iterations.
static double reduction_bytes(const tiny_config *config) {
    tiny_line line;
    tiny_open(&line, config, 1, whole);
    tiny_init(&line);
    train_to(&line, 2);
    tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
    for (uint32_t m = 0; m < TINY_MICROBATCHES; m++) tiny_microbatch(&line, 2, m);
    job_result sum = tiny_job(&line, 0, &(job){.id = 1, .kind = JOB_PACK, .count = worker_blocks(line.worker[0])});
    double bytes = (double)line.blobs.bytes[sum.out - 1] + 4.0 * (double)worker_parameters(line.worker[0]);
    tiny_close(&line);
    return bytes;
}

// The traffic of a reduction follows the number of trained parameters. Larger gradients take some
// more bits in fixed point.
static void test_the_reduction_shrinks_with_the_parameters(void **state) {
    tiny_config config = config_of(*state, MODEL_LLAMA), plain = config;
    plain.recipe.adapter = (adapter_config){0};
    plain.base = NULL;
    worker *all = tiny_worker(&plain, true, 0, 3), *adapted = tiny_worker(&config, true, 0, 3);
    double parameters = (double)worker_parameters(adapted) / (double)worker_parameters(all);
    double bytes = reduction_bytes(&config) / reduction_bytes(&plain);
    print_message("bytes of a reduction: %.3f of the whole model's, parameters: %.3f\n", bytes, parameters);
    assert_true(parameters < 0.25 && bytes < 1.15 * parameters);
    worker_free(all);
    worker_free(adapted);
    checkpoint_close(config.base);
}

// One process saves after two iterations; another one with three stages goes on.
static void test_a_checkpoint_goes_on_with_another_split(void **state) {
    fixture *f = *state;
    tiny_config config = config_of(f, MODEL_LLAMA);
    braid_hash expected = train(&config, 1, whole, NULL, NULL);
    tiny_line before, after;
    braid_error error = {0};
    tiny_open(&before, &config, 1, whole);
    tiny_init(&before);
    train_to(&before, 2);
    checkpoint_summary summary = save(f, &before);
    tiny_close(&before);
    assert_int_equal(count_entries(summary.path, "adapter_"), 2);
    assert_int_equal(count_entries(summary.path, "model-0"), 0);
    checkpoint *from = open_saved(summary.path);
    checkpoint_adapter wanted = {.config = config.recipe.adapter, .base = *checkpoint_weights(config.base)};
    assert_int_equal(checkpoint_match_adapter(from, &wanted, &error), BRAID_OK);
    tiny_open(&after, &config, 3, empty_ends);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(worker_load(after.worker[i], from, &error), BRAID_OK);
    after.version = 2;
    for (uint32_t i = 0; i < 3; i++) tiny_job(&after, i, &(job){.id = 1, .kind = JOB_STATE_INIT, .version = 2});
    train_to(&after, 4);
    assert_same_hash(tiny_hash(&after), expected);
    tiny_close(&after);
    checkpoint_close(from);
    checkpoint_close(config.base);
}

static void expect_other(const checkpoint *c, const checkpoint_adapter *wanted, const char *named) {
    braid_error error = {0};
    assert_int_equal(checkpoint_match_adapter(c, wanted, &error), BRAID_CONFIG);
    assert_text_holds(error.text, named);
}

static void test_checkpoints_of_others_are_refused(void **state) {
    fixture *f = *state;
    tiny_config config = config_of(f, MODEL_LLAMA);
    tiny_line line;
    tiny_open(&line, &config, 1, whole);
    tiny_init(&line);
    train_to(&line, 1);
    checkpoint *saved = open_saved(save(f, &line).path);
    const checkpoint_adapter right = {.config = config.recipe.adapter, .base = *checkpoint_weights(config.base)};
    checkpoint_adapter wanted = right;
    expect_other(config.base, &right, "is one of a whole model");
    wanted.base.bytes[0] ^= 1;
    expect_other(saved, &wanted, "of another model");
    wanted = right;
    wanted.config.rank = 4;
    expect_other(saved, &wanted, "an adapter of rank 3 for self_attn.q_proj");
    wanted = right;
    wanted.config.alpha = 9;
    expect_other(saved, &wanted, "trains another one");
    wanted = right;
    wanted.config.roles = 1u << ROLE_Q;
    expect_other(saved, &wanted, "trains another one");
    wanted = right;
    wanted.config.rank_stabilised = true;
    expect_other(saved, &wanted, "trains another one");
    wanted.config.rank = 0;
    expect_other(saved, &wanted, "trains the whole model");
    checkpoint_close(saved);
    tiny_close(&line);
    checkpoint_close(config.base);
}

static void test_names_of_targets(void **state) {
    (void)state;
    const model_config llama = tiny_model(MODEL_LLAMA), gpt = tiny_model(MODEL_GPT), moe = tiny_model(MODEL_QWEN3_MOE);
    char text[ADAPTER_TARGETS_TEXT];
    uint64_t roles = 0;
    assert_true(adapter_role_named(&llama, "q_proj", &roles) && adapter_role_named(&llama, "mlp.down_proj", &roles));
    assert_int_equal(roles, 1u << ROLE_Q | 1u << ROLE_DOWN);
    adapter_targets_text(&llama, roles, ", ", text);
    assert_string_equal(text, "self_attn.q_proj, mlp.down_proj");
    roles = 0;
    assert_true(adapter_role_named(&gpt, "c_proj", &roles));  // both
    assert_int_equal(roles, 1u << ROLE_O | 1u << ROLE_DOWN);
    const char *const wrong[] = {"proj", "_proj", "", "embed_tokens", "self_attn.q_proj.weight", "lm_head"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(adapter_role_named(&llama, wrong[i], &roles));
    assert_false(adapter_role_named(&moe, "up_proj", &roles));
    assert_int_equal(adapter_all_roles(&moe), 1u << ROLE_Q | 1u << ROLE_K | 1u << ROLE_V | 1u << ROLE_O);
}

// The tables of stages are parts of the whole table, and their offsets are the adapter's.
static void test_tables_of_stages(void **state) {
    fixture *f = *state;
    const model_config model = tiny_model(MODEL_GPT);
    const adapter_config wanted = adapter_of(&model, 2);
    stage_shape all = {.layer_end = 3, .ends = true, .sequences = 1, .tokens = 4, .frozen = true}, part = all;
    part.layer_begin = 1;
    part.ends = false;
    stage_tensor *whole_table, *table;
    uint32_t whole_count, count;
    stage *s;
    adapter *a;
    assert_int_equal(adapter_table_new(&model, &all, &wanted, &whole_table, &whole_count, NULL), BRAID_OK);
    assert_int_equal(adapter_table_new(&model, &part, &wanted, &table, &count, NULL), BRAID_OK);
    assert_int_equal(whole_count, 3 * 4 * 2 + 1);
    assert_int_equal(count, 2 * 4 * 2);
    assert_true(adapter_is_filler(&whole_table[24]) && whole_table[24].canonical == 24);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(table[i].canonical, i + 8);
        assert_string_equal(table[i].name, whole_table[i + 8].name);
    }
    assert_string_equal(table[0].name, "base_model.model.transformer.h.1.attn.c_attn.lora_A.weight");
    assert_int_equal(stage_new(&model, &part, f->pool, &s, NULL), BRAID_OK);
    assert_int_equal(adapter_new(s, &wanted, &a, NULL), BRAID_OK);
    for (uint32_t i = 0; i < adapter_tensor_count(a); i++) {
        const adapter_tensor *t = &adapter_tensors(a)[i];
        assert_int_equal(table[2 * i].offset, t->a);
        assert_int_equal(table[2 * i].cols, t->in);
        assert_int_equal(table[2 * i + 1].offset, t->b);
        assert_int_equal(table[2 * i + 1].rows, t->out);
    }
    adapter_free(a);
    stage_free(s);
    free(table);
    free(whole_table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_split_trains_an_adapter_to_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_input_and_weight_gradients_at_once_give_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_microbatch_is_removed_exactly, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_the_adapter_has_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_reduction_shrinks_with_the_parameters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_checkpoint_goes_on_with_another_split, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_checkpoints_of_others_are_refused, set_up, tear_down),
        cmocka_unit_test(test_names_of_targets),
        cmocka_unit_test_setup_teardown(test_tables_of_stages, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
