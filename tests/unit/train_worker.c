#include "train/worker.h"

#include "base/rng.h"
#include "train/digest.h"
#include "train_fixture.h"

#include <math.h>

static const uint32_t whole[] = {3}, three[] = {1, 1, 1}, empty_ends[] = {0, 2, 1};

static braid_hash train(const tiny_config *config, uint32_t stages, const uint32_t *layers, uint64_t iterations,
                        double *first, double *last) {
    tiny_line line;
    tiny_open(&line, config, stages, layers);
    tiny_init(&line);
    for (uint64_t t = 0; t < iterations; t++) {
        double loss = tiny_iteration(&line, t);
        if (t == 0 && first) *first = loss;
        if (last) *last = loss;
    }
    braid_hash hash = tiny_hash(&line);
    tiny_close(&line);
    return hash;
}

static void test_every_split_trains_to_the_same_bits(void **state) {
    fixture *f = *state;
    const model_arch archs[] = {MODEL_LLAMA, MODEL_GPT, MODEL_GEMMA3, MODEL_QWEN3_MOE};
    for (size_t arch = 0; arch < sizeof archs / sizeof *archs; arch++) {
        tiny_config config = f->config;
        config.model = tiny_model(archs[arch]);
        double first = 0, last = 0;
        braid_hash one = train(&config, 1, whole, 12, &first, &last);
        assert_same_hash(train(&config, 3, three, 12, NULL, NULL), one);
        assert_same_hash(train(&config, 3, empty_ends, 12, NULL, NULL), one);
        assert_true(first > 5 && last < 4.5);
    }
}

static void test_threads_do_not_change_bits(void **state) {
    fixture *f = *state;
    tiny_config config = f->config;
    braid_hash two = train(&config, 1, whole, 3, NULL, NULL);
    assert_int_equal(tensor_pool_new(1, &config.pool, NULL), BRAID_OK);
    braid_hash one = train(&config, 1, whole, 3, NULL, NULL);
    tensor_pool_free(config.pool);
    assert_same_hash(one, two);
}

static void test_fast_mode_trains_too(void **state) {
    fixture *f = *state;
    tiny_config config = f->config;
    config.recipe = tiny_recipe(false);
    double first = 0, last = 0;
    train(&config, 3, three, 6, &first, &last);
    assert_true(last < first);
}

static void test_alone_gives_the_same_bits(void **state) {
    fixture *f = *state;
    tiny_config config = f->config;
    for (int reproducible = 0; reproducible < 2; reproducible++) {
        config.recipe = tiny_recipe(reproducible);
        config.alone = false;
        braid_hash among = train(&config, 1, whole, 3, NULL, NULL);
        config.alone = true;
        assert_same_hash(train(&config, 1, whole, 3, NULL, NULL), among);
    }
}

// With one microbatch and `alone` the sum replaces the stash, and must not overwrite a gradient
// that is still needed. There are enough layers for several passes over weight gradients, for sums
// both larger and smaller than a stash.
static void test_a_sum_in_its_stash_gives_the_same_bits(void **state) {
    fixture *f = *state;
    static const uint32_t deep[] = {14};
    for (int which = 0; which < 8; which++) {
        tiny_config config = f->config;
        config.single = true;
        config.model = tiny_model(which & 1 ? MODEL_GPT : MODEL_LLAMA);
        config.model.layers = deep[0];
        config.model.tied = !(which & 4);
        config.recipe = tiny_recipe(which & 2);
        assert_int_equal(tensor_pool_new(1, &config.pool, NULL), BRAID_OK);
        braid_hash among = train(&config, 1, deep, 2, NULL, NULL);
        config.alone = true;
        assert_same_hash(train(&config, 1, deep, 2, NULL, NULL), among);
        tensor_pool_free(config.pool);
    }
}

static worker_sizes sizes_of(const fixture *f, uint32_t microbatches, bool reproducible) {
    worker_config config = {.model = f->config.model, .recipe = tiny_recipe(reproducible), .capacity = 1, .alone = true};
    worker_sizes sizes;
    config.microbatches = microbatches;
    config.shape =
        (stage_shape){.layer_end = TINY_LAYERS, .ends = true, .sequences = TINY_SEQUENCES, .tokens = TINY_TOKENS};
    assert_int_equal(worker_measure_sizes(&config, &sizes, NULL), BRAID_OK);
    assert_int_equal(sizes.weights + sizes.optimizer + sizes.gradients + sizes.microbatch + sizes.work, sizes.total);
    return sizes;
}

// Only the sum differs, and sharing saves almost its whole size.
static void test_shared_memory_is_counted_once(void **state) {
    fixture *f = *state;
    for (int reproducible = 0; reproducible < 2; reproducible++) {
        worker_sizes one = sizes_of(f, 1, reproducible), two = sizes_of(f, 2, reproducible);
        uint64_t sum = two.parameters * (reproducible ? sizeof(int64_t) : sizeof(float));
        assert_int_equal(two.gradients, sum);
        assert_true(one.gradients < sum && one.total < two.total);
        assert_int_equal(one.microbatch, two.microbatch);
        assert_in_range(one.work + 64, two.work, two.work + 128);
    }
}

static void open_line(tiny_line *l, fixture *f) {
    tiny_open(l, &f->config, 1, whole);
    tiny_init(l);
}

// Reduces all blocks and returns the hash of the results.
static braid_hash reduced(tiny_line *l, uint64_t tokens, uint32_t inputs, blob_id first, blob_id second) {
    job reduce = {.id = 1, .kind = JOB_REDUCE, .count = worker_blocks(l->worker[0]), .tokens = tokens};
    reduce.inputs = inputs;
    reduce.input[0] = first;
    reduce.input[1] = second;
    tiny_release(&l->blobs, tiny_job(l, 0, &reduce).out);
    return tiny_job(l, 0, &(job){.id = 1, .kind = JOB_NORM}).hash;
}

// Two members of a stage with two microbatches each have the result of one member with four, in any
// order of the parts.
static void reduce_apart(fixture *f, bool reproducible, braid_hash *apart, braid_hash *together) {
    tiny_config config = f->config;
    config.recipe = tiny_recipe(reproducible);
    tiny_line a, b;
    tiny_open(&a, &config, 1, whole);
    tiny_open(&b, &config, 1, whole);
    tiny_init(&a);
    tiny_init(&b);
    uint32_t blocks = worker_blocks(a.worker[0]);
    for (uint32_t m = 0; m < 4; m++) tiny_microbatch(m == 1 || m == 2 ? &b : &a, 0, m);
    job_result packed = tiny_job(&b, 0, &(job){.id = 1, .kind = JOB_PACK, .count = blocks});
    blob_id in = tiny_blob(&a.blobs, b.blobs.data[packed.out - 1], b.blobs.bytes[packed.out - 1]);
    *apart = reduced(&a, 128, 2, in, JOB_OWN_SUM);
    for (uint32_t m = 1; m <= 2; m++) tiny_microbatch(&a, 0, m);
    *together = reduced(&a, 128, 1, JOB_OWN_SUM, 0);
    tiny_close(&a);
    tiny_close(&b);
}

static void test_parts_add_up(void **state) {
    fixture *f = *state;
    braid_hash apart, together;
    reduce_apart(f, true, &apart, &together);
    assert_same_hash(apart, together);
    reduce_apart(f, false, &apart, &together);  // close but not equal: only checks that it works
}

// Replaces the results of one block by zeros; its root must notice.
static void assert_root_of_zeros_differs(tiny_line *l, uint32_t b, const braid_hash *root) {
    job_result got = tiny_job(l, 0, &(job){.id = 1, .kind = JOB_RESULT_GET, .first = b, .count = 1});
    uint64_t bytes = l->blobs.bytes[got.out - 1];
    uint8_t *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    blob_id in = tiny_blob(&l->blobs, zeros, bytes);
    free(zeros);
    tiny_job(l, 0, &(job){.id = 1, .kind = JOB_RESULT_PUT, .in = in, .first = b, .count = 1});
    braid_hash changed = tiny_job(l, 0, &(job){.id = 1, .kind = JOB_NORM}).hash;
    assert_false(hash_equal(&changed, root));
    tiny_job(l, 0, &(job){.id = 1, .kind = JOB_RESULT_PUT, .in = got.out, .first = b, .count = 1});
    assert_same_hash(tiny_job(l, 0, &(job){.id = 1, .kind = JOB_NORM}).hash, *root);
    tiny_release(&l->blobs, got.out);
    tiny_release(&l->blobs, in);
}

static void transfer_results(const tiny_config *config) {
    tiny_line a, b;
    tiny_open(&a, config, 1, whole);
    tiny_open(&b, config, 1, whole);
    tiny_init(&a);
    tiny_init(&b);
    tiny_microbatch(&a, 0, 0);
    uint32_t blocks = worker_blocks(a.worker[0]);
    braid_hash root = reduced(&a, 32, 1, JOB_OWN_SUM, 0);
    for (uint32_t first = 0; first < blocks; first += 3) {
        uint32_t count = blocks - first < 3 ? blocks - first : 3;
        job_result got = tiny_job(&a, 0, &(job){.id = 1, .kind = JOB_RESULT_GET, .first = first, .count = count});
        blob_id in = tiny_blob(&b.blobs, a.blobs.data[got.out - 1], a.blobs.bytes[got.out - 1]);
        tiny_job(&b, 0, &(job){.id = 1, .kind = JOB_RESULT_PUT, .in = in, .first = first, .count = count});
        tiny_release(&a.blobs, got.out);
        tiny_release(&b.blobs, in);
    }
    assert_same_hash(tiny_job(&b, 0, &(job){.id = 1, .kind = JOB_NORM}).hash, root);
    assert_root_of_zeros_differs(&b, 0, &root);
    assert_root_of_zeros_differs(&b, blocks - 1, &root);
    tiny_close(&a);
    tiny_close(&b);
}

static void test_results_transfer(void **state) {
    fixture *f = *state;
    tiny_config config = f->config;
    transfer_results(&config);
    config.recipe = tiny_recipe(false);
    transfer_results(&config);
    config.recipe.byte_sums = true;
    transfer_results(&config);
}

static void test_state_transfer_keeps_its_version(void **state) {
    fixture *f = *state;
    tiny_line a, b;
    open_line(&a, f);
    tiny_open(&b, &f->config, 1, whole);
    for (uint64_t t = 0; t < 2; t++) tiny_iteration(&a, t);
    uint32_t blocks = worker_blocks(a.worker[0]);
    for (uint32_t first = 0; first < blocks; first += 4) {
        uint32_t count = blocks - first < 4 ? blocks - first : 4;
        job_result got =
            tiny_job(&a, 0, &(job){.id = 1, .kind = JOB_STATE_GET, .first = first, .count = count, .version = 2});
        assert_int_equal(got.version, 2);
        blob_id in = tiny_blob(&b.blobs, a.blobs.data[got.out - 1], a.blobs.bytes[got.out - 1]);
        job store = {
            .id = 1, .kind = JOB_STATE_PUT, .in = in, .first = first, .count = count, .expected = got.hash64 ^ 1};
        assert_true(tiny_try(&b, 0, &store).failed);  // does not match the source's content hash
        store.expected = got.hash64;
        job_result put = tiny_job(&b, 0, &store);
        assert_int_equal(put.version, 2);
        assert_int_equal(worker_version(b.worker[0]), first + count == blocks ? 2 : 0);
        tiny_release(&a.blobs, got.out);
        tiny_release(&b.blobs, in);
    }
    b.version = 2;
    assert_same_hash(tiny_job(&a, 0, &(job){.id = 1, .kind = JOB_STATE_ROOT}).hash,
                     tiny_job(&b, 0, &(job){.id = 1, .kind = JOB_STATE_ROOT}).hash);
    tiny_iteration(&a, 2);
    tiny_iteration(&b, 2);
    assert_same_hash(tiny_hash(&a), tiny_hash(&b));
    tiny_close(&a);
    tiny_close(&b);
}

// A block that is one version behind is updated alone; one that is ahead is left.
static void test_apply_moves_only_blocks_at_its_version(void **state) {
    fixture *f = *state;
    tiny_line a, b;
    open_line(&a, f);
    open_line(&b, f);
    job_result old = tiny_job(&a, 0, &(job){.id = 1, .kind = JOB_STATE_GET, .first = 2, .count = 1});
    tiny_iteration(&a, 0);
    tiny_iteration(&b, 0);
    tiny_job(&a, 0, &(job){.id = 1, .kind = JOB_STATE_PUT, .in = old.out, .first = 2, .count = 1});
    assert_int_equal(worker_version(a.worker[0]), 0);
    job_result mixed = tiny_try(&a, 0, &(job){.id = 1, .kind = JOB_STATE_GET, .first = 1, .count = 2});
    assert_true(mixed.failed && mixed.out == 0);
    job_result d = tiny_job(&b, 0, &(job){.id = 1, .kind = JOB_DECIDE, .iteration = 0, .norm2 = 1e-12, .tokens = 1});
    double total = 0;
    job_result norm = tiny_job(&a, 0, &(job){.id = 1, .kind = JOB_NORM});
    for (uint32_t i = 0; i < norm.norms; i++) total += norm.norm2[i];
    d = tiny_job(&b, 0, &(job){.id = 1, .kind = JOB_DECIDE, .iteration = 0, .norm2 = total, .tokens = 128});
    tiny_job(&a, 0,
             &(job){.id = 1,
                    .kind = JOB_APPLY,
                    .iteration = 0,
                    .clip = d.clip,
                    .learning_rate = d.learning_rate,
                    .bias1 = d.bias1,
                    .bias2 = d.bias2});
    assert_int_equal(worker_version(a.worker[0]), 1);
    assert_same_hash(tiny_hash(&a), tiny_hash(&b));
    tiny_job(&a, 0, &(job){.id = 1, .kind = JOB_APPLY, .iteration = 1, .skip = true});
    assert_int_equal(worker_version(a.worker[0]), 2);
    assert_same_hash(tiny_hash(&a), tiny_hash(&b));
    tiny_close(&a);
    tiny_close(&b);
}

static void test_an_overflow_reaches_the_decision(void **state) {
    fixture *f = *state;
    tiny_line l;
    open_line(&l, f);
    float *weights = worker_weights(l.worker[0]);
    for (size_t i = 0; i < stage_parameters(worker_stage(l.worker[0])); i++) weights[i] *= 1e12f;
    job_result y = tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_FORWARD});
    job_result loss = tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_LOSS, .in = y.out});
    job_result back = tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_BACKWARD, .in = loss.out});
    (void)back;
    assert_true(tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_WEIGHT}).overflow);
    uint32_t blocks = worker_blocks(l.worker[0]);
    tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_REDUCE, .count = blocks, .tokens = 32, .inputs = 1});
    job_result norm = tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_NORM});
    assert_true(norm.overflow);
    double total = 0;
    for (uint32_t i = 0; i < norm.norms; i++) total += norm.norm2[i];
    assert_true(tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_DECIDE, .norm2 = total, .tokens = 32}).skip);
    tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
    tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_REDUCE, .count = blocks, .tokens = 32, .inputs = 1});
    assert_false(tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_NORM}).overflow);
    tiny_close(&l);
}

static job_result backward_of(tiny_line *l, uint32_t m, bool weigh) {
    job_result y = tiny_job(l, 0, &(job){.id = 1, .kind = JOB_FORWARD, .m = m});
    job_result loss = tiny_job(l, 0, &(job){.id = 1, .kind = JOB_LOSS, .m = m, .in = y.out});
    job_result back = tiny_job(l, 0, &(job){.id = 1, .kind = JOB_BACKWARD, .m = m, .in = loss.out, .weigh = weigh});
    tiny_release(&l->blobs, y.out);
    tiny_release(&l->blobs, loss.out);
    return back;
}

static job_result weight_of(tiny_line *l, uint32_t m, bool minus) {
    backward_of(l, m, false);
    return tiny_job(l, 0, &(job){.id = 1, .kind = JOB_WEIGHT, .m = m, .minus = minus});
}

// Computed block by block, the weight gradients equal those of a job of their own, also where the
// sum replaces the stash.
static void test_fused_gradients_match_separate_jobs(void **state) {
    fixture *f = *state;
    static const uint32_t deep[] = {14};  // more blocks than one thread at a time
    for (int which = 0; which < 8; which++) {
        tiny_config config = f->config;
        config.alone = config.single = which & 1;
        config.model = tiny_model(which & 2 ? MODEL_GPT : MODEL_LLAMA);
        config.model.layers = deep[0];
        config.recipe = tiny_recipe(which & 4);
        assert_int_equal(tensor_pool_new(1, &config.pool, NULL), BRAID_OK);
        tiny_line apart, together;
        tiny_open(&apart, &config, 1, deep);
        tiny_open(&together, &config, 1, deep);
        tiny_init(&apart);
        tiny_init(&together);
        for (uint32_t m = 0; m < tiny_microbatches(&config); m++) {
            assert_false(weight_of(&apart, m, false).overflow);
            job_result back = backward_of(&together, m, true);
            assert_true(back.finite && !back.overflow);
        }
        tiny_apply(&apart, 0, 64);
        tiny_apply(&together, 0, 64);
        assert_same_hash(tiny_hash(&apart), tiny_hash(&together));
        float *weights = worker_weights(together.worker[0]);
        for (size_t i = 0; i < stage_parameters(worker_stage(together.worker[0])); i++) weights[i] *= 1e12f;
        assert_int_equal(backward_of(&together, 0, true).overflow, config.recipe.reproducible);
        tiny_close(&apart);
        tiny_close(&together);
        tensor_pool_free(config.pool);
    }
}

// An overflowing microbatch that is removed again leaves the other microbatches' sum exact.
static void test_an_overflow_is_removed(void **state) {
    fixture *f = *state;
    tiny_line l;
    open_line(&l, f);
    size_t count = stage_parameters(worker_stage(l.worker[0]));
    float *weights = worker_weights(l.worker[0]), *kept = calloc(count, sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, weights, count * sizeof *kept);
    for (size_t i = 0; i < count; i++) weights[i] *= 1e12f;
    assert_true(weight_of(&l, 0, false).overflow);
    memcpy(weights, kept, count * sizeof *kept);
    assert_false(weight_of(&l, 1, false).overflow);
    for (size_t i = 0; i < count; i++) weights[i] *= 1e12f;
    assert_true(weight_of(&l, 0, true).overflow);
    tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_REDUCE, .count = worker_blocks(l.worker[0]), .tokens = 32, .inputs = 1});
    assert_false(tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_NORM}).overflow);
    free(kept);
    tiny_close(&l);
}

static void test_held_out_text_is_not_trained_on(void **state) {
    fixture *f = *state;
    tiny_line l;
    open_line(&l, f);
    double loss[2];
    for (int i = 0; i < 2; i++) {
        job_result y =
            tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_FORWARD, .iteration = (uint64_t)i, .m = TINY_MICROBATCHES + 1});
        job_result r = tiny_job(
            &l, 0,
            &(job){.id = 1, .kind = JOB_LOSS, .iteration = (uint64_t)i, .m = TINY_MICROBATCHES + 1, .in = y.out});
        assert_true(r.finite && r.out == 0 && r.tokens == TINY_SEQUENCES * TINY_TOKENS);
        loss[i] = r.loss;
    }
    assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);  // the same in every evaluation
    tiny_close(&l);
}

static void assert_refused(tiny_line *l, const job *work) {
    job_result result = tiny_try(l, 0, work);
    assert_true(result.failed);
    assert_int_equal(result.out, 0);
}

static void test_bad_blobs_are_refused(void **state) {
    fixture *f = *state;
    tiny_line l;
    open_line(&l, f);
    uint32_t blocks = worker_blocks(l.worker[0]);
    tiny_microbatch(&l, 0, 0);
    braid_hash before = tiny_hash(&l);
    job_result packed = tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_PACK, .count = blocks});
    job_result got = tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_STATE_GET, .count = 2});
    uint8_t *bytes = l.blobs.data[packed.out - 1], *state_bytes = l.blobs.data[got.out - 1];
    uint64_t length = l.blobs.bytes[packed.out - 1], state_length = l.blobs.bytes[got.out - 1];
    job reduce = {.id = 1, .kind = JOB_REDUCE, .count = blocks, .tokens = 32, .inputs = 2};
    for (uint64_t cut = 0; cut < length; cut += 1 + cut / 3) {
        reduce.input[1] = tiny_blob(&l.blobs, bytes, cut);
        assert_refused(&l, &reduce);
        tiny_release(&l.blobs, reduce.input[1]);
    }
    reduce.input[1] = 63;  // no such blob
    assert_refused(&l, &reduce);
    reduce.inputs = 0;
    assert_refused(&l, &reduce);
    reduce.inputs = WIRE_MAX_STAGE_MEMBERS + 1;
    assert_refused(&l, &reduce);
    assert_refused(&l, &(job){.id = 1, .kind = JOB_PACK, .first = blocks, .count = 1});
    assert_refused(&l, &(job){.id = 1, .kind = JOB_PACK, .first = 1, .count = blocks});
    assert_refused(&l, &(job){.id = 1, .kind = JOB_PACK, .first = 1, .count = UINT32_MAX});
    assert_refused(&l, &(job){.id = 1, .kind = JOB_PACK});
    blob_id cut = tiny_blob(&l.blobs, state_bytes, state_length - 1);
    assert_refused(&l, &(job){.id = 1, .kind = JOB_STATE_PUT, .in = cut, .count = 2});
    assert_refused(&l, &(job){.id = 1, .kind = JOB_RESULT_PUT, .in = cut, .count = 2});
    state_bytes[0] ^= 1;  // the first block's version
    assert_refused(&l, &(job){.id = 1, .kind = JOB_STATE_PUT, .in = got.out, .count = 2});
    assert_same_hash(tiny_hash(&l), before);
    tiny_close(&l);
}

static void test_activations_of_a_wrong_size_are_refused(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 3, three);
    tiny_init(&l);
    float some[3] = {0};
    blob_id in = tiny_blob(&l.blobs, some, sizeof some);
    assert_true(tiny_try(&l, 1, &(job){.id = 1, .kind = JOB_FORWARD, .in = in}).failed);
    assert_true(tiny_try(&l, 1, &(job){.id = 1, .kind = JOB_FORWARD}).failed);
    assert_true(tiny_try(&l, 0, &(job){.id = 1, .kind = JOB_LOSS, .in = in}).failed);
    tiny_close(&l);
}

static void test_too_little_memory_names_the_requirement(void **state) {
    fixture *f = *state;
    worker_config config = {.model = tiny_model(MODEL_LLAMA),
                            .recipe = tiny_recipe(true),
                            .microbatches = 4,
                            .capacity = 3,
                            .threads = 2,
                            .data = f->data};
    config.shape =
        (stage_shape){.layer_end = TINY_LAYERS, .ends = true, .sequences = TINY_SEQUENCES, .tokens = TINY_TOKENS};
    uint64_t need = worker_memory_bytes(&config);
    worker *w = NULL;
    braid_error error = {0};
    config.max_memory = need - 1;
    assert_int_equal(worker_new(&config, f->pool, &w, &error), BRAID_LIMIT);
    char figure[32];
    snprintf(figure, sizeof figure, "at least %lluK,", (unsigned long long)(need + 1023) >> 10);
    assert_non_null(strstr(error.text, figure));
    config.max_memory = 5 << 10;
    assert_int_equal(worker_new(&config, f->pool, &w, &error), BRAID_LIMIT);
    assert_non_null(strstr(error.text, "the limit is 5 KiB;"));
    assert_int_equal(worker_fitting_capacity(&config, need, 100), 3);
    assert_int_equal(worker_fitting_capacity(&config, need - 1, 100), 2);
    assert_int_equal(worker_fitting_capacity(&config, UINT64_MAX, 100), 100);
    assert_int_equal(worker_fitting_capacity(&config, 1000, 100), 0);
    config.max_memory = need;
    assert_int_equal(worker_new(&config, f->pool, &w, &error), BRAID_OK);
    worker_free(w);
}

static bool maps_a_state_file(void) {
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) found = found || strstr(line, "braid-state-");
    fclose(maps);
    return found;
}

static void test_the_state_may_be_in_a_file(void **state) {
    const fixture *f = *state;
    worker_config config = {.model = tiny_model(MODEL_LLAMA), .recipe = tiny_recipe(true), .microbatches = 4, .capacity = 1, .data = f->data};
    config.shape = (stage_shape){.layer_end = TINY_LAYERS, .ends = true, .sequences = TINY_SEQUENCES, .tokens = TINY_TOKENS};
    braid_hash root[2];
    for (int in_file = 0; in_file < 2; in_file++) {
        worker *w = NULL;
        job_result result;
        config.state_directory = in_file ? "/tmp" : NULL;
        assert_int_equal(worker_new(&config, f->pool, &w, NULL), BRAID_OK);
        assert_int_equal(maps_a_state_file(), in_file);
        worker_run(w, &(job){.id = 1, .kind = JOB_STATE_INIT}, NULL, &result);
        worker_run(w, &(job){.id = 2, .kind = JOB_STATE_ROOT}, NULL, &result);
        root[in_file] = result.hash;
        worker_free(w);
    }
    assert_memory_equal(&root[0], &root[1], sizeof root[0]);
    braid_error error;
    worker *none = NULL;
    config.state_directory = "/nowhere/at/all";
    assert_int_equal(worker_new(&config, f->pool, &none, &error), BRAID_IO);
    assert_non_null(strstr(error.text, "/nowhere/at/all"));
}

static void test_digests(void **state) {
    (void)state;
    uint8_t bytes[300] = {0};
    uint64_t seen[sizeof bytes + 1];
    for (size_t n = 0; n <= sizeof bytes; n++) {
        seen[n] = digest64(bytes, n);
        assert_int_not_equal(seen[n], 0);
        for (size_t k = 0; k < n; k++) assert_int_not_equal(seen[k], seen[n]);
    }
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(digest64(bytes, sizeof bytes), seen[sizeof bytes]);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split_trains_to_the_same_bits),
        cmocka_unit_test(test_threads_do_not_change_bits),
        cmocka_unit_test(test_the_state_may_be_in_a_file),
        cmocka_unit_test(test_fast_mode_trains_too),
        cmocka_unit_test(test_alone_gives_the_same_bits),
        cmocka_unit_test(test_a_sum_in_its_stash_gives_the_same_bits),
        cmocka_unit_test(test_shared_memory_is_counted_once),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_results_transfer),
        cmocka_unit_test(test_state_transfer_keeps_its_version),
        cmocka_unit_test(test_apply_moves_only_blocks_at_its_version),
        cmocka_unit_test(test_an_overflow_reaches_the_decision),
        cmocka_unit_test(test_fused_gradients_match_separate_jobs),
        cmocka_unit_test(test_an_overflow_is_removed),
        cmocka_unit_test(test_held_out_text_is_not_trained_on),
        cmocka_unit_test(test_bad_blobs_are_refused),
        cmocka_unit_test(test_activations_of_a_wrong_size_are_refused),
        cmocka_unit_test(test_too_little_memory_names_the_requirement),
        cmocka_unit_test(test_digests),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
