// Training with the state in a file: the bits of a run in memory, and every failure of the file.
#include "train/checkpoint.h"
#include "train/solo.h"
#include "train/swap.h"
#include "train_tiny.h"

#include <fcntl.h>
#include <sys/file.h>

enum { ITERATIONS = 3 };

typedef struct fixture {
    char directory[64], state[96];
    train_data *data;
    run_config run;
    unsigned threads;
} fixture;

static run_config run_of(model_config model, bool reproducible) {
    return (run_config){.name = "tiny",
                        .seed = 3,
                        .model = model,
                        .stages = 1,
                        .blocks = {TINY_LAYERS},
                        .holdout = 0.1,
                        .recipe = tiny_recipe(reproducible),
                        .microbatches = TINY_MICROBATCHES,
                        .sequences = TINY_SEQUENCES,
                        .tokens = TINY_TOKENS,
                        .slots = 1,
                        .eval_every = 2,
                        .eval_microbatches = 2};
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tiny_directory(f->directory);
    snprintf(f->state, sizeof f->state, "%s/state", f->directory);
    f->data = tiny_data(f->directory);
    f->run = run_of(tiny_model(MODEL_LLAMA), true);
    f->threads = 1;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    train_data_free(f->data);
    tiny_remove(f->directory);
    free(f);
    return 0;
}

typedef struct diary {
    double losses[2 * ITERATIONS + 2];
    uint32_t count, checkpoints;
    char started[512];  // the first note
    solo_wish wish;     // from poll number `at` on
    uint32_t at, polls;
} diary;

static void tell(void *context, const solo_event *event) {
    diary *d = context;
    bool counts = event->kind == SOLO_ITERATION || event->kind == SOLO_EVAL;
    if (counts && d->count < sizeof d->losses / sizeof *d->losses) d->losses[d->count++] = event->loss;
    if (event->kind == SOLO_CHECKPOINT && !event->failed) d->checkpoints++;
    if (event->kind == SOLO_NOTE && !d->started[0]) snprintf(d->started, sizeof d->started, "%s", event->text);
}

static solo_wish wish(void *context) {
    diary *d = context;
    d->polls++;
    bool asks = d->at > 0 && (d->wish == SOLO_SAVE ? d->polls == d->at : d->polls >= d->at);
    return asks ? d->wish : SOLO_GO_ON;
}

typedef struct outcome {
    braid_err err;
    solo_result result;
    braid_error error;
    diary diary;
} outcome;

static outcome try_run(fixture *f, const swap_options *options, const char *resume, diary begin) {
    outcome o = {.diary = begin};
    swap_options given = options ? *options : (swap_options){0};
    if (options && !given.directory) given.directory = f->state;
    solo_config config = {.run = &f->run,
                          .data = f->data,
                          .threads = f->threads,
                          .resume = resume,
                          .until = ITERATIONS,
                          .swap = options ? &given : NULL,
                          .context = &o.diary,
                          .tell = tell,
                          .wish = wish};
    o.err = solo_run(&config, &o.result, &o.error);
    return o;
}

static outcome must_run(fixture *f, const swap_options *options, const char *resume) {
    outcome o = try_run(f, options, resume, (diary){0});
    if (o.err) fail_msg("%s", o.error.text);
    return o;
}

static void assert_same_bits(const outcome *a, const outcome *b) {
    assert_memory_equal(a->result.weights.bytes, b->result.weights.bytes, BRAID_ID_BYTES);
    assert_int_equal(a->diary.count, b->diary.count);
    assert_memory_equal(a->diary.losses, b->diary.losses, sizeof a->diary.losses);
}

// Layer by layer, and with one of the other orders.
static void assert_swapped_is_resident(fixture *f, bool naive) {
    const swap_options options = {.naive = naive, .stashes = !naive};
    outcome resident = must_run(f, NULL, NULL), swapped = must_run(f, &(swap_options){0}, NULL),
            other = must_run(f, &options, NULL);
    assert_true(resident.diary.count > ITERATIONS);
    assert_same_bits(&swapped, &resident);
    assert_same_bits(&other, &resident);
}

static void test_each_architecture_has_the_bits_of_a_run_in_memory(void **state) {
    fixture *f = *state;
    static const model_arch archs[] = {MODEL_LLAMA, MODEL_GPT, MODEL_GEMMA3, MODEL_QWEN3_MOE};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        f->run = run_of(tiny_model(archs[i]), i % 2 == 0);
        assert_swapped_is_resident(f, i == 0);
    }
    f->run = run_of(tiny_model(MODEL_LLAMA), false);
    assert_swapped_is_resident(f, true);
}

// --- documents

enum { DOCUMENTS = 200 };

static uint64_t document_end(uint64_t i) { return 5 * (i + 1) + i * i % 5; }

static bool read_token(void *context, uint64_t at, uint32_t count, int32_t *out) {
    (void)context;
    for (uint32_t i = 0; i < count; i++) out[i] = (int32_t)((at + i) * 37 % 251);
    return true;
}

static void why_token(void *context, braid_error *error) {
    (void)context;
    braid_fail(error, BRAID_IO, "unreadable");
}

static void free_nothing(void *context) { (void)context; }

static train_data *documents_of(uint64_t ends[DOCUMENTS]) {
    for (uint64_t i = 0; i < DOCUMENTS; i++) ends[i] = document_end(i);
    train_tokens source = {
        .name = "made", .weight = 1, .tokens = ends[DOCUMENTS - 1], .documents = DOCUMENTS, .ends = ends, .limit = 256};
    source.read = read_token;
    source.why = why_token;
    source.free = free_nothing;
    const packed_settings settings = {.holdout = 0.1, .tokens = TINY_TOKENS, .vocabulary = 256};
    train_data *data = NULL;
    braid_error error = {0};
    if (train_data_open_tokens(&source, 1, &settings, TINY_MICROBATCHES, &data, &error)) fail_msg("%s", error.text);
    return data;
}

static void test_attention_within_documents_has_the_same_bits(void **state) {
    fixture *f = *state;
    uint64_t ends[DOCUMENTS];
    train_data_free(f->data);
    f->data = documents_of(ends);
    outcome whole = must_run(f, NULL, NULL);
    f->run.documents = true;
    outcome apart = must_run(f, NULL, NULL);
    assert_memory_not_equal(apart.result.weights.bytes, whole.result.weights.bytes, BRAID_ID_BYTES);
    assert_swapped_is_resident(f, false);
}

static void test_untied_head_has_the_same_bits(void **state) {
    fixture *f = *state;
    f->run.model.tied = false;
    assert_swapped_is_resident(f, false);
}

// The sums of embedding and head are larger than a layer's, and their segments divide blocks.
static void test_a_large_vocabulary_has_the_same_bits(void **state) {
    fixture *f = *state;
    f->run.model.dim = 96;
    f->run.model.ffn_dim = 256;
    f->run.model.vocab = 2500;
    f->run.microbatches = 2;
    f->threads = 2;
    for (int tied = 0; tied < 2; tied++) {
        f->run.model.tied = tied;
        assert_swapped_is_resident(f, tied);
    }
}

static void test_stages_of_a_swarm_have_the_same_bits(void **state) {
    fixture *f = *state;
    f->run.stages = 3;
    f->run.blocks[0] = 0, f->run.blocks[1] = 2, f->run.blocks[2] = 1;
    f->run.links = (tensor_links){CODEC_INT8, CODEC_BF16};
    assert_swapped_is_resident(f, false);
}

// The least that is enough.
static uint64_t least_memory(fixture *f, swap_options options) {
    options.max_memory = 1;
    outcome refused = try_run(f, &options, NULL, (diary){0});
    assert_int_equal(refused.err, BRAID_LIMIT);
    const char *least = strstr(refused.error.text, "at least ");
    assert_non_null(least);
    return strtoull(least + 9, NULL, 10) << 10;
}

// With the smallest memory every kind of buffer is taken again and again.
static void test_little_and_much_memory_change_no_bit(void **state) {
    fixture *f = *state;
    f->run.microbatches = 10;
    outcome resident = must_run(f, NULL, NULL);
    for (int stashes = 0; stashes < 2; stashes++) {
        swap_options options = {.stashes = stashes, .used_bytes = 1};
        options.max_memory = least_memory(f, options);
        outcome swapped = must_run(f, &options, NULL);
        assert_same_bits(&swapped, &resident);
        options.max_memory = 1 << 30;  // room for everything
        outcome roomy = must_run(f, &options, NULL);
        assert_same_bits(&roomy, &resident);
    }
}

static void test_checkpoints_go_on_in_both_directions(void **state) {
    fixture *f = *state;
    char saved[96];
    snprintf(saved, sizeof saved, "%s/saved", f->directory);
    outcome straight = must_run(f, NULL, NULL);
    for (int swapped_first = 0; swapped_first < 2; swapped_first++) {
        swap_options options = {0};
        snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s", saved);
        outcome first = try_run(f, swapped_first ? &options : NULL, NULL, (diary){.at = 12, .wish = SOLO_FINISH});
        assert_true(!first.err && first.result.stopped && first.result.version > 0 &&
                    first.result.version < ITERATIONS);
        f->run.checkpoint[0] = 0;
        outcome second = must_run(f, swapped_first ? NULL : &options, saved);
        assert_memory_equal(second.result.weights.bytes, straight.result.weights.bytes, BRAID_ID_BYTES);
        tiny_remove(saved);
    }
}

// A checkpoint in the middle of an iteration has the state before it.
static void test_requests_within_an_iteration(void **state) {
    fixture *f = *state;
    outcome straight = must_run(f, NULL, NULL);
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    for (uint32_t at = 30; at < 60; at += 7) {
        outcome dropped = try_run(f, &(swap_options){0}, NULL, (diary){.at = at, .wish = SOLO_DROP});
        assert_true(!dropped.err && dropped.result.stopped && dropped.result.version < ITERATIONS);
        if (dropped.diary.checkpoints == 0) continue;
        outcome rest = must_run(f, &(swap_options){0}, f->run.checkpoint);
        assert_memory_equal(rest.result.weights.bytes, straight.result.weights.bytes, BRAID_ID_BYTES);
        tiny_remove(f->run.checkpoint);
    }
    outcome saving = try_run(f, &(swap_options){0}, NULL, (diary){.at = 70, .wish = SOLO_SAVE});
    assert_true(!saving.err && saving.diary.checkpoints == 2);
    assert_memory_equal(saving.result.weights.bytes, straight.result.weights.bytes, BRAID_ID_BYTES);
}

static void test_a_file_system_without_direct_io(void **state) {
    fixture *f = *state;
    swap_options options = {.faults = {.no_direct = true}};
    outcome resident = must_run(f, NULL, NULL), swapped = must_run(f, &options, NULL);
    assert_same_bits(&swapped, &resident);
    assert_non_null(strstr(swapped.diary.started, "no direct I/O"));
}

// False: the run ended before its n-th transfer.
static bool fails_well(fixture *f, const block_file_faults *faults, const char *verb) {
    outcome o = try_run(f, &(swap_options){.faults = *faults}, NULL, (diary){0});
    if (o.err) assert_true(strstr(o.error.text, verb) && strstr(o.error.text, "braid.state"));
    checkpoint *c = NULL;
    if (o.diary.checkpoints > 0) assert_int_equal(checkpoint_open(f->run.checkpoint, &c, NULL), BRAID_OK);
    if (c) assert_true(checkpoint_version(c) <= ITERATIONS);
    checkpoint_close(c);
    tiny_remove(f->run.checkpoint);
    return o.err != BRAID_OK;
}

// Wherever a read or write fails, the run ends with a clear message; what was saved before is whole.
static void test_each_failed_transfer_ends_the_run_without_a_wrong_checkpoint(void **state) {
    fixture *f = *state;
    uint32_t reads = 0, writes = 0;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    f->run.checkpoint_every = 1;
    f->run.eval_every = 0;
    for (uint64_t n = 1; fails_well(f, &(block_file_faults){.fail_read = n}, "cannot read"); n += 1 + n) reads++;
    for (uint64_t n = 1; fails_well(f, &(block_file_faults){.fail_write = n}, "cannot write"); n += 1 + n) writes++;
    assert_true(reads > 5 && writes > 5);
}

// A failure before the optimizer step leaves the state as it was: it is saved. One within the step tears
// it: it is not.
static void test_an_intact_state_is_saved_after_a_failure(void **state) {
    fixture *f = *state;
    uint32_t saved = 0, torn = 0;
    swap_options options = {.used_bytes = 1};
    f->run.microbatches = 10;
    f->run.eval_every = 0;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    options.max_memory = least_memory(f, options);
    for (uint64_t n = 40; saved == 0 || torn == 0; n += 13) {
        options.faults.fail_read = n;
        outcome o = try_run(f, &options, NULL, (diary){0});
        assert_int_equal(o.err, BRAID_IO);
        checkpoint *c = NULL;
        if (o.diary.checkpoints > 0) assert_int_equal(checkpoint_open(f->run.checkpoint, &c, NULL), BRAID_OK);
        if (c) assert_true(checkpoint_version(c) == o.result.version && o.result.version > 0);
        saved += c != NULL;
        torn += c == NULL && o.result.version > 0;
        checkpoint_close(c);
        tiny_remove(f->run.checkpoint);
    }
}

static void write_owner(const char *path, const char *text) {
    char page[BLOCK_FILE_ALIGNMENT];
    memset(page, 'x', sizeof page);
    memcpy(page, text, strlen(text));
    tiny_file(path, page, sizeof page);
}

static void test_refused_state_directories(void **state) {
    fixture *f = *state;
    char path[128];
    assert_int_equal(mkdir(f->state, 0777), 0);
    snprintf(path, sizeof path, "%s/braid.state", f->state);
    write_owner(path, "braid state 1\n0123456789abcdef\n");
    outcome other = try_run(f, &(swap_options){0}, NULL, (diary){0});
    assert_true(other.err == BRAID_STATE && strstr(other.error.text, "of another run (0123456789ab)"));
    static const char *const strange[] = {"a letter\n", "braid state 1\n", "braid state 1\n\n",
                                          "braid state 1\n\033[2J\n"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        write_owner(path, strange[i]);
        outcome o = try_run(f, &(swap_options){0}, NULL, (diary){0});
        assert_true(o.err == BRAID_STATE && strstr(o.error.text, "not a state file of braid"));
    }
    assert_int_equal(access(path, F_OK), 0);  // it is not removed
    assert_int_equal(truncate(path, 0), 0);   // left by a process that ended while it created it
    int held = open(path, O_RDWR);
    assert_true(held >= 0 && flock(held, LOCK_EX) == 0);
    outcome busy = try_run(f, &(swap_options){0}, NULL, (diary){0});
    assert_true(busy.err == BRAID_STATE && strstr(busy.error.text, "in use by another process"));
    close(held);
    must_run(f, &(swap_options){0}, NULL);
    assert_int_equal(access(path, F_OK), -1);
    outcome none = try_run(f, &(swap_options){.directory = "/nowhere/state"}, NULL, (diary){0});
    assert_true(none.err == BRAID_IO && strstr(none.error.text, "/nowhere/state"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_architecture_has_the_bits_of_a_run_in_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention_within_documents_has_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_untied_head_has_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_large_vocabulary_has_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stages_of_a_swarm_have_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_little_and_much_memory_change_no_bit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_checkpoints_go_on_in_both_directions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_requests_within_an_iteration, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_system_without_direct_io, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_failed_transfer_ends_the_run_without_a_wrong_checkpoint, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_intact_state_is_saved_after_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_state_directories, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
