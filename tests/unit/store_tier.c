// Blocks in few buffers: each use sees the last change, whatever was written and read meanwhile.
#include "store/tier.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 24, BUFFERS = 5, BYTES = 3 * BLOCK_FILE_ALIGNMENT, SLOW_NS = 20000000 };

typedef struct fixture {
    char directory[64];
    block_file *file;
    store_io *io;
    tier *tier;
    void *memory;
    tier_block block[BLOCKS];
    char note[256];
} fixture;

static void note(void *context, const char *text) {
    fixture *f = context;
    snprintf(f->note, sizeof f->note, "%s", text);
}

static void open_with(fixture *f, block_file_faults faults) {
    const block_file_config config = {
        .directory = f->directory, .owner = "test", .bytes = BLOCKS * BYTES, .faults = faults};
    const tier_shelf shelf = {BYTES, BUFFERS};
    braid_error error = {0};
    if (block_file_open(&config, &f->file, &error)) fail_msg("%s", error.text);
    assert_int_equal(store_io_new(f->file, 3, (store_io_host){f, note, SLOW_NS}, &f->io, NULL), BRAID_OK);
    f->memory = aligned_alloc(BLOCK_FILE_ALIGNMENT, tier_memory(&shelf, 1));
    assert_non_null(f->memory);
    assert_int_equal(tier_new(&shelf, 1, f->io, f->memory, &f->tier, NULL), BRAID_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) f->block[i] = tier_block_at(i * BYTES, BYTES, 0);
}

static void shut(fixture *f) {
    tier_free(f->tier);
    store_io_free(f->io);
    block_file_close(f->file);
    free(f->memory);
    f->file = NULL;
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const char *parent = getenv("TMPDIR");
    snprintf(f->directory, sizeof f->directory, "%.40s/braid-test-XXXXXX", parent ? parent : P_tmpdir);
    assert_non_null(mkdtemp(f->directory));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    if (f->file) shut(f);
    rmdir(f->directory);
    free(f);
    return 0;
}

// --- random uses

static void put(void *data, uint32_t value) {
    for (size_t at = 0; at < BYTES; at += sizeof value) memcpy((char *)data + at, &value, sizeof value);
}

static bool has(const void *data, uint32_t value) {
    for (size_t at = 0; at < BYTES; at += sizeof value)
        if (memcmp((const char *)data + at, &value, sizeof value) != 0) return false;
    return true;
}

static void use_once(fixture *f, rng *r, uint32_t *value) {
    uint32_t i = (uint32_t)rng_below(r, BLOCKS), kind = (uint32_t)rng_below(r, 4);
    bool fresh = value[i] == 0 || kind == 0;
    void *data = tier_take(f->tier, &f->block[i], fresh, NULL);
    assert_non_null(data);
    if (!fresh && !has(data, value[i])) fail_msg("block %u does not have its value", i);
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t other = (uint32_t)rng_below(r, BLOCKS);
        if (value[other]) tier_prefetch(f->tier, &f->block[other]);
    }
    if (!fresh && kind == 1) {
        tier_give(f->tier, &f->block[i], TIER_KEEP);
        return;
    }
    // A block that is being written does not change.
    if (!fresh) assert_int_equal(tier_settle(f->tier, NULL), BRAID_OK);
    put(data, value[i] = (uint32_t)rng_below(r, 1u << 30) + 1);
    tier_give(f->tier, &f->block[i], kind == 2 ? TIER_DIRTY : TIER_WRITE);
}

static void test_each_use_sees_the_last_change(void **state) {
    fixture *f = *state;
    open_with(f, (block_file_faults){0});
    rng r = {11};
    uint32_t value[BLOCKS] = {0};
    for (int i = 0; i < 1000; i++) use_once(f, &r, value);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        void *data = tier_take(f->tier, &f->block[i], false, NULL);
        assert_true(data && has(data, value[i]));
        tier_give(f->tier, &f->block[i], TIER_KEEP);
    }
}

static void test_cached_and_discarded_blocks(void **state) {
    fixture *f = *state;
    open_with(f, (block_file_faults){0});
    put(tier_take(f->tier, &f->block[0], true, NULL), 7);
    tier_give(f->tier, &f->block[0], TIER_WRITE);
    assert_int_equal(tier_settle(f->tier, NULL), BRAID_OK);
    assert_true(has(tier_cached(f->tier, &f->block[0]), 7));
    put(tier_take(f->tier, &f->block[0], false, NULL), 8);
    tier_give(f->tier, &f->block[0], TIER_DIRTY);
    assert_null(tier_cached(f->tier, &f->block[0]));
    tier_discard(f->tier, &f->block[0]);
    assert_true(has(tier_take(f->tier, &f->block[0], false, NULL), 7));
    tier_give(f->tier, &f->block[0], TIER_DROP);
}

static void test_a_failed_read_gives_no_data(void **state) {
    fixture *f = *state;
    braid_error error = {0};
    open_with(f, (block_file_faults){.fail_read = 1});
    put(tier_take(f->tier, &f->block[3], true, NULL), 1);
    tier_give(f->tier, &f->block[3], TIER_WRITE);
    assert_int_equal(tier_forget(f->tier, NULL), BRAID_OK);
    tier_prefetch(f->tier, &f->block[3]);
    assert_null(tier_take(f->tier, &f->block[3], false, &error));
    assert_true(error.code == BRAID_IO && strstr(error.text, "cannot read 12288 bytes at 36864 of '"));
    assert_null(tier_take(f->tier, &f->block[4], false, NULL));  // the error stays
}

static void test_a_failed_write_is_reported_by_settle(void **state) {
    fixture *f = *state;
    braid_error error = {0};
    open_with(f, (block_file_faults){.fail_write = 1});
    put(tier_take(f->tier, &f->block[0], true, NULL), 1);
    tier_give(f->tier, &f->block[0], TIER_WRITE);
    assert_int_equal(tier_settle(f->tier, &error), BRAID_IO);
    assert_non_null(strstr(error.text, "cannot write"));
}

static void test_a_disk_that_does_not_answer_is_reported(void **state) {
    fixture *f = *state;
    open_with(f, (block_file_faults){.stall_read = 1, .stall_ns = 5 * SLOW_NS});
    put(tier_take(f->tier, &f->block[0], true, NULL), 5);
    tier_give(f->tier, &f->block[0], TIER_WRITE);
    assert_int_equal(tier_forget(f->tier, NULL), BRAID_OK);
    assert_true(has(tier_take(f->tier, &f->block[0], false, NULL), 5));
    tier_give(f->tier, &f->block[0], TIER_KEEP);
    assert_non_null(strstr(f->note, "has not answered a read for "));
}

static void test_the_rate_is_kept(void **state) {
    fixture *f = *state;
    const block_file_config config = {.directory = f->directory, .owner = "test", .bytes = 1 << 20, .rate = 10 << 20};
    assert_int_equal(block_file_open(&config, &f->file, NULL), BRAID_OK);
    assert_int_equal(store_io_new(f->file, 4, (store_io_host){0}, &f->io, NULL), BRAID_OK);
    f->memory = aligned_alloc(BLOCK_FILE_ALIGNMENT, 1 << 20);
    memset(f->memory, 0, 1 << 20);
    store_transfer t = {0};
    store_io_start(f->io, &t, true, 0, f->memory, 1 << 20);
    assert_int_equal(store_io_wait(f->io, &t, NULL), BRAID_OK);
    assert_true(store_io_statistics(f->io).waited_ns > 90 * 1000000u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_use_sees_the_last_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cached_and_discarded_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failed_read_gives_no_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failed_write_is_reported_by_settle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_disk_that_does_not_answer_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_rate_is_kept, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
