// The checkpoint that is being written: corrupt blocks are refused, and later correct ones are
// accepted.
#include "node/saver.h"

#include "train_tiny.h"

#include <math.h>

static const uint32_t halves[] = {1, 2};

typedef struct fixture {
    char directory[64];
    train_data *data;
    tensor_pool *pool;
    tiny_line line;
    saver *saver;
} fixture;

static void fixture_open(fixture *f, bool files) {
    memset(f, 0, sizeof *f);
    tiny_directory(f->directory);
    f->data = tiny_data(f->directory);
    assert_int_equal(tensor_pool_new(1, &f->pool, NULL), BRAID_OK);
    tiny_config config = {tiny_model(MODEL_LLAMA), tiny_recipe(true), f->data, f->pool, false, false, NULL};
    tiny_open(&f->line, &config, 2, halves);
    tiny_init(&f->line);
    saver_config saving = {.directory = files ? f->directory : NULL, .model = &f->line.config.model, .split = &f->line.split};
    assert_int_equal(saver_new(&saving, &f->saver, NULL), BRAID_OK);
}

static void fixture_close(fixture *f) {
    saver_free(f->saver);
    tiny_close(&f->line);
    tensor_pool_free(f->pool);
    train_data_free(f->data);
    tiny_remove(f->directory);
}

static braid_err put_state(fixture *f, uint16_t at, bool named, bool spoilt) {
    uint32_t count = worker_blocks(f->line.worker[at]);
    job_result r = tiny_job(&f->line, at, &(job){.id = 1, .kind = JOB_STATE_GET, .stage = at, .count = count});
    uint8_t *bytes = f->line.blobs.data[r.out - 1];
    uint64_t size = f->line.blobs.bytes[r.out - 1];
    if (spoilt) bytes[size - 1] ^= 1;
    braid_err err = saver_put(f->saver, 0, at, 0, count, named, bytes, size);
    tiny_release(&f->line.blobs, r.out);
    return err;
}

// Blocks of stage 1; `expected`: its state hash.
static braid_err put_names(fixture *f, braid_hash *root, braid_hash *expected) {
    *expected = tiny_job(&f->line, 1, &(job){.id = 1, .kind = JOB_STATE_ROOT}).hash;
    job_result r = tiny_job(&f->line, 1, &(job){.id = 1, .kind = JOB_NAMES_GET});
    braid_err err = saver_names(f->saver, 0, 1, f->line.blobs.data[r.out - 1], f->line.blobs.bytes[r.out - 1], root);
    tiny_release(&f->line.blobs, r.out);
    return err;
}

static void save_all(bool files) {
    fixture f;
    braid_hash root, expected, weights;
    fixture_open(&f, files);
    assert_int_equal(put_state(&f, 0, false, false), BRAID_OK);
    assert_int_equal(put_state(&f, 1, true, false), BRAID_FORMAT);  // the content hashes are unknown
    assert_int_equal(put_names(&f, &root, &expected), BRAID_OK);
    assert_same_hash(root, expected);
    assert_int_equal(put_state(&f, 1, true, true), BRAID_FORMAT);
    assert_non_null(strstr(saver_error(f.saver)->text, "does not match its hash"));
    assert_int_equal(put_state(&f, 1, true, false), BRAID_OK);
    assert_int_equal(saver_end(f.saver, 0, false, &weights), BRAID_OK);
    assert_same_hash(weights, tiny_hash(&f.line));
    assert_true((saver_path(f.saver)[0] != 0) == files);
    fixture_close(&f);
}

static void test_blocks_with_another_hash_are_refused(void **state) {
    (void)state;
    save_all(false);
    save_all(true);
}

static void test_hashes_of_another_number_of_blocks(void **state) {
    (void)state;
    fixture f;
    braid_hash root, name = {{1}};
    fixture_open(&f, false);
    assert_int_equal(saver_names(f.saver, 0, 1, &name, sizeof name, &root), BRAID_FORMAT);
    assert_int_equal(saver_names(f.saver, 0, 9, &name, sizeof name, &root), BRAID_FORMAT);
    fixture_close(&f);
}

static void test_an_aborted_checkpoint_leaves_nothing(void **state) {
    (void)state;
    fixture f;
    braid_hash root, expected, weights;
    fixture_open(&f, true);
    assert_int_equal(put_state(&f, 0, false, false), BRAID_OK);
    assert_int_equal(put_names(&f, &root, &expected), BRAID_OK);
    assert_int_equal(put_state(&f, 1, true, true), BRAID_FORMAT);
    assert_int_not_equal(saver_end(f.saver, 0, true, &weights), BRAID_OK);
    assert_non_null(strstr(saver_error(f.saver)->text, "does not match its hash"));
    char path[128];
    snprintf(path, sizeof path, "%s/latest", f.directory);
    assert_int_not_equal(access(path, F_OK), 0);
    fixture_close(&f);
}

static void test_weights_that_are_not_finite_are_not_saved(void **state) {
    (void)state;
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (uint32_t i = 0; i < 3; i++) {
        fixture f;
        braid_hash weights;
        fixture_open(&f, true);
        uint32_t count = worker_blocks(f.line.worker[0]);
        job_result r = tiny_job(&f.line, 0, &(job){.id = 1, .kind = JOB_STATE_GET, .count = count});
        uint8_t *bytes = f.line.blobs.data[r.out - 1];
        memcpy(bytes + sizeof(uint64_t), &bad[i], sizeof bad[i]);  // the first weight, after the version
        assert_int_equal(saver_put(f.saver, 0, 0, 0, count, false, bytes, f.line.blobs.bytes[r.out - 1]), BRAID_STATE);
        tiny_release(&f.line.blobs, r.out);
        assert_int_not_equal(saver_end(f.saver, 0, true, &weights), BRAID_OK);
        assert_non_null(strstr(saver_error(f.saver)->text, "not finite"));
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_with_another_hash_are_refused),
        cmocka_unit_test(test_hashes_of_another_number_of_blocks),
        cmocka_unit_test(test_an_aborted_checkpoint_leaves_nothing),
        cmocka_unit_test(test_weights_that_are_not_finite_are_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
