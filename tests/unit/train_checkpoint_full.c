// Checkpoints on a full disk, and while other processes change the directory.
#include "train/checkpoint.h"

#include "train/solo.h"
#include "train_saved.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

enum { LARGE = 1 << 15 };  // more bytes than a text has, less than a file of tensors

static const uint32_t whole[] = {3}, two[] = {1, 2};

// ---- replaces the C library's functions: a disk with room for a number of checkpoints, including
// the unfinished one ----

static const char *disk;  // NULL: unlimited
static uint32_t room;
static int says;       // the error of a full disk
static bool reserves;  // reports it when space is reserved; else when bytes are written
static uint32_t late;  // number of times that it is reported only when a large file is synced (NFS)

static bool is_full(void) { return disk && !late && count_entries(disk, "step-") > room; }

int fallocate(int fd, int mode, off_t offset, off_t bytes);
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
    if (is_full() || !reserves) {
        errno = reserves ? says : EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    if (is_full()) {
        errno = says;
        return -1;
    }
    return (ssize_t)syscall(SYS_pwrite64, fd, data, bytes, offset);
}

int fsync(int fd) {
    struct stat info;
    bool large = fstat(fd, &info) == 0 && info.st_size > LARGE;
    if (late > 0 && large && disk && count_entries(disk, "step-") > room) {
        late--;
        errno = says;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static void fill_disk(const char *directory, uint32_t checkpoints, int error, bool when_reserved) {
    disk = directory;
    room = checkpoints;
    says = error;
    reserves = when_reserved;
}

static int empty_disk(void **state) {
    disk = NULL;
    late = 0;
    reserves = true;
    return tear_down(state);
}

static void expect_versions(const fixture *f, uint64_t older, uint64_t newer) {
    char path[256];
    for (uint64_t v = 0; v < 10; v++) {
        snprintf(path, sizeof path, "%s/" CHECKPOINT_STEP, f->saved, v);
        assert_int_equal(access(path, F_OK) == 0, v == older || v == newer);
        if (v == older || v == newer) checkpoint_close(open_saved(path));
    }
}

// ---- room ----

static void test_the_newest_state_wins_over_the_oldest_kept(void **state) {
    fixture *f = *state;
    static const int errors[] = {ENOSPC, EDQUOT};
    for (int i = 0; i < 4; i++) {
        tiny_line l;
        tiny_remove(f->saved);
        disk = NULL;
        tiny_open(&l, &f->config, 2, two);
        tiny_init(&l);
        for (uint64_t v = 1; v <= 2; v++) {
            train_to(&l, v);
            save(f, &l);
        }
        fill_disk(f->saved, 2, errors[i % 2], i < 2);
        train_to(&l, 3);
        checkpoint_summary summary = save(f, &l);
        assert_int_equal(summary.removed, 1);
        disk = NULL;
        assert_int_equal(count_entries(f->saved, ".tmp"), 0);
        expect_versions(f, 2, 3);
        tiny_close(&l);
    }
}

static void test_the_only_complete_checkpoint_stays(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    train_to(&l, 1);
    save(f, &l);
    fill_disk(f->saved, 1, ENOSPC, true);
    train_to(&l, 2);
    checkpoint_config config = {
        .directory = f->saved, .model = &l.config.model, .split = &l.split, .run = {{9}}, .version = 2};
    checkpoint_writer *writer = NULL;
    braid_error error = {0};
    assert_int_equal(checkpoint_begin(&config, &writer, &error), BRAID_FULL);
    assert_non_null(strstr(error.text, "free some space"));
    disk = NULL;
    expect_versions(f, 1, 1);
    assert_int_equal(count_entries(f->saved, ".tmp"), 0);
    tiny_close(&l);
}

// The file system accepts all bytes, and reports at the sync that it could not store them.
static void test_a_late_disk_error_fails_only_the_checkpoint(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    for (uint64_t v = 1; v <= 2; v++) {
        train_to(&l, v);
        save(f, &l);
    }
    fill_disk(f->saved, 2, EDQUOT, false);
    late = 1;
    train_to(&l, 3);
    checkpoint_writer *writer = begin(f, &l);
    checkpoint_summary summary;
    assert_int_equal(put_all(&l, writer, NULL), BRAID_OK);
    assert_int_equal(checkpoint_end(writer, &summary, NULL), BRAID_FULL);
    disk = NULL;
    expect_versions(f, 1, 2);
    assert_int_equal(count_entries(f->saved, ".tmp"), 0);
    tiny_close(&l);
}

static void count_removed(void *context, const solo_event *event) {
    if (event->kind == SOLO_NOTE)
        *(bool *)context = strstr(event->text, "the disk is full: 1 older checkpoint was removed") != NULL;
    assert_false(event->failed);
}

// A single process has all of the state, and writes it again.
static void test_a_late_disk_error_is_retried(void **state) {
    fixture *f = *state;
    run_config run = {.name = "tiny",
                      .seed = 3,
                      .model = f->config.model,
                      .stages = 1,
                      .blocks = {TINY_LAYERS},
                      .recipe = f->config.recipe,
                      .microbatches = TINY_MICROBATCHES,
                      .sequences = TINY_SEQUENCES,
                      .tokens = TINY_TOKENS,
                      .checkpoint_every = 1};
    bool told = false;
    solo_config config = {
        .run = &run, .data = f->data, .threads = 1, .until = 3, .context = &told, .tell = count_removed};
    solo_result result;
    snprintf(run.checkpoint, sizeof run.checkpoint, "%s", f->saved);
    assert_int_equal(mkdir(f->saved, 0777), 0);
    fill_disk(f->saved, 2, EDQUOT, false);
    late = 1;
    assert_int_equal(solo_run(&config, &result, NULL), BRAID_OK);
    assert_false(result.save_failed);
    assert_true(told && late == 0);
    disk = NULL;
    expect_versions(f, 2, 3);
}

// ---- other processes change the directory ----

static void read_all(checkpoint *c, const tiny_line *l) {
    for (uint32_t i = 0; i < l->stages; i++) {
        uint32_t count = split_count(&l->split, i);
        void *out = malloc(checkpoint_state_bytes(&l->split, i, 0, count));
        assert_non_null(out);
        assert_int_equal(checkpoint_state(c, &l->split, i, 0, count, out, NULL), BRAID_OK);
        free(out);
    }
}

static void test_a_checkpoint_that_is_cleared_away_stays_readable(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 2, two);
    tiny_init(&l);
    train_to(&l, 1);
    save(f, &l);
    checkpoint *c = open_saved(f->saved);
    for (uint64_t v = 2; v <= 4; v++) {
        train_to(&l, v);
        save(f, &l);
    }
    expect_versions(f, 3, 4);
    assert_int_equal(checkpoint_version(c), 1);
    read_all(c, &l);
    checkpoint_close(c);
    tiny_close(&l);
}

static void remove_file(const char *directory, const char *name) {
    char path[FILES_MAX_PATH];
    assert_int_equal(files_join(directory, name, path, NULL), BRAID_OK);
    assert_int_equal(unlink(path), 0);
}

static void test_weights_load_without_the_optimizer(void **state) {
    fixture *f = *state;
    tiny_line l;
    checkpoint *c = NULL;
    char text[CHECKPOINT_NOTE];
    tiny_open(&l, &f->config, 2, two);
    tiny_init(&l);
    train_to(&l, 2);
    checkpoint_summary summary = save(f, &l);
    assert_int_equal(checkpoint_open_start(f->saved, &c, NULL), BRAID_OK);
    assert_false(checkpoint_lacks_moments(c, text));
    checkpoint_close(c);

    remove_file(summary.path, "optimizer-00001-of-00002.safetensors");  // one of two files: that is damage
    assert_int_equal(checkpoint_open_start(f->saved, &c, NULL), BRAID_IO);
    assert_int_equal(checkpoint_open_weights(f->saved, &c, NULL), BRAID_OK);
    checkpoint_close(c);

    remove_file(summary.path, "optimizer-00002-of-00002.safetensors");
    expect_refused(f->saved, "optimizer-00001-of-00002.safetensors' is missing");  // a rollback needs the moments
    assert_int_equal(checkpoint_open_start(f->saved, &c, NULL), BRAID_OK);
    assert_true(checkpoint_lacks_moments(c, text));
    assert_non_null(strstr(text, "moments begin at zero"));
    assert_same_hash(*checkpoint_weights(c), summary.weights);
    read_all(c, &l);
    checkpoint_close(c);
    tiny_close(&l);
}

static void test_damaged_weights_are_found_without_the_optimizer(void **state) {
    fixture *f = *state;
    tiny_line l;
    checkpoint *c = NULL;
    braid_error error = {0};
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    checkpoint_summary summary = save(f, &l);
    char path[FILES_MAX_PATH];
    assert_int_equal(files_join(summary.path, "model-00001-of-00001.safetensors", path, NULL), BRAID_OK);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, "x", 1, 5000) == 1 && close(fd) == 0);
    assert_int_equal(checkpoint_open_weights(f->saved, &c, &error), BRAID_FORMAT);
    assert_non_null(strstr(error.text, "model-00001-of-00001.safetensors' was altered"));
    tiny_close(&l);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, empty_disk)

int main(void) {
    reserves = true;
    const struct CMUnitTest tests[] = {
        TEST(test_the_newest_state_wins_over_the_oldest_kept),       TEST(test_the_only_complete_checkpoint_stays),
        TEST(test_a_late_disk_error_fails_only_the_checkpoint),      TEST(test_a_late_disk_error_is_retried),
        TEST(test_a_checkpoint_that_is_cleared_away_stays_readable), TEST(test_weights_load_without_the_optimizer),
        TEST(test_damaged_weights_are_found_without_the_optimizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
