// The jobs of a peer on the real worker: two stages train a step, a checkpoint is written from
// their blocks, and other peers start from it.
#include "base/sha256.h"
#include "node/jobs.h"
#include "node/saver.h"
#include "train/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STAGES = 3 };

typedef struct fixture {
    char directory[64], text[96], saved[96];
    run_config run;
    split split;
    train_data *data;
    blobs *blobs;
} fixture;

static void text_write(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 4000; i++) fprintf(file, "line %d of a small text\n", i * 37 % 1000);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    strcpy(f->directory, "braid-test-XXXXXX");
    if (!mkdtemp(f->directory)) return -1;
    snprintf(f->text, sizeof f->text, "%s/text", f->directory);
    snprintf(f->saved, sizeof f->saved, "%s/saved", f->directory);
    text_write(f->text);
    char yaml[512];
    snprintf(yaml, sizeof yaml, "stages: [0, 1, 1]\nmodel: {dim: 32, layers: 2, heads: 2, context: 16}\ndata: {text: %s}\n"
             "train: {iterations: 4, microbatches: 2, sequences: 1}\n", f->text);
    braid_error error = {0};
    if (run_config_parse(yaml, strlen(yaml), "run.yaml", NULL, &f->run, &error)) fail_msg("%s", error.text);
    const char *paths[] = {f->text};
    assert_int_equal(split_new(&f->run.model, &f->run.recipe.adapter, f->run.blocks, f->run.stages, &f->split, NULL), BRAID_OK);
    assert_int_equal(train_data_open(paths, 1, 0, f->run.tokens, &f->data, &error), BRAID_OK);
    assert_int_equal(blobs_new(0, 1 << 20, &f->blobs, NULL), BRAID_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    char command[128];
    blobs_count count;
    blobs_look(f->blobs, &count);
    split_free(&f->split);
    train_data_free(f->data);
    blobs_free(f->blobs);
    snprintf(command, sizeof command, "rm -r %s", f->directory);
    int code = system(command);
    free(f);
    return code || count.live ? -1 : 0;  // every blob was released
}

static jobs *make(fixture *f, bool lead, const char *save, const char *resume, uint16_t place) {
    jobs_config config = {.run = &f->run, .split = &f->split, .saves = lead, .data = f->data, .blobs = f->blobs, .threads = 1,
                          .capacity = 2, .save = save, .resume = resume};
    jobs *j = NULL;
    braid_error error = {0};
    if (jobs_new(&config, &j, &error)) fail_msg("%s", error.text);
    jobs_place(j, place);
    return j;
}

static job_result run(jobs *j, job work) {
    static uint64_t next;
    job_result result = {0};
    work.id = ++next;
    jobs_run(j, &work, &result);
    return result;
}

// Passes all blocks of every stage to the leader, in pieces of two.
static braid_hash save_all(fixture *f, jobs *leader, jobs *const *each, uint64_t version, bool *failed) {
    *failed = false;
    for (uint16_t s = 0; s < STAGES; s++) {
        uint32_t blocks = split_count(&f->split, s);
        for (uint32_t b = 0; b < blocks; b += 2) {
            uint32_t count = blocks - b < 2 ? blocks - b : 2;
            job_result state = run(each[s], (job){.kind = JOB_STATE_GET, .stage = s, .first = b, .count = count, .version = version});
            assert_false(state.failed);
            job_result saved = run(leader, (job){.kind = JOB_SAVE, .stage = s, .first = b, .count = count, .version = version, .in = state.out});
            *failed = *failed || saved.failed;
            blobs_release(f->blobs, state.out);
        }
    }
    job_result end = run(leader, (job){.kind = JOB_SAVE_END, .version = version, .final = true});
    *failed = *failed || end.failed;
    return end.hash;
}

static braid_hash leaves_hash(fixture *f, jobs *const *each) {
    braid_hash *all = calloc(f->split.block_count, sizeof *all);
    for (uint16_t s = 0; s < STAGES; s++) {
        uint64_t bytes;
        job_result leaves = run(each[s], (job){.kind = JOB_LEAVES, .stage = s});
        const void *data = blobs_data(f->blobs, leaves.out, &bytes);
        assert_true(split_put_leaves(&f->split, s, data, bytes, all));
        blobs_release(f->blobs, leaves.out);
    }
    braid_hash hash = split_weights_hash(&f->split, all);
    free(all);
    return hash;
}

static void make_all(fixture *f, jobs *each[STAGES], const char *save) {
    for (uint16_t s = 0; s < STAGES; s++) {
        each[s] = make(f, s == 0, save, NULL, s);
        assert_false(run(each[s], (job){.kind = JOB_STATE_INIT, .stage = s}).failed);
    }
}

static void free_all(jobs *each[STAGES]) {
    for (uint16_t s = 0; s < STAGES; s++) jobs_free(each[s]);
}

static void the_hash_needs_no_directory(void **state) {
    fixture *f = *state;
    jobs *each[STAGES];
    bool failed;
    make_all(f, each, "");
    braid_hash hash = save_all(f, each[0], each, 0, &failed), leaves = leaves_hash(f, each);
    assert_false(failed);
    assert_memory_equal(&hash, &leaves, sizeof hash);
    free_all(each);
}

static void peers_start_from_the_leaders_checkpoint(void **state) {
    fixture *f = *state;
    jobs *each[STAGES];
    bool failed;
    make_all(f, each, f->saved);
    braid_hash hash = save_all(f, each[0], each, 0, &failed);
    assert_false(failed);
    job_result root = run(each[2], (job){.kind = JOB_STATE_ROOT, .stage = 2});
    free_all(each);

    jobs *leader = make(f, true, NULL, f->saved, 0), *relay = make(f, false, NULL, NULL, 2);
    assert_false(run(leader, (job){.kind = JOB_STATE_INIT, .stage = 0}).failed);
    uint32_t blocks = split_count(&f->split, 2);
    job_result got = run(leader, (job){.kind = JOB_STATE_GET, .stage = 2, .first = 0, .count = blocks});
    assert_false(got.failed);
    job_result put = run(relay, (job){.kind = JOB_STATE_PUT, .stage = 2, .first = 0, .count = blocks, .in = got.out});
    assert_false(put.failed);
    blobs_release(f->blobs, got.out);
    job_result again = run(relay, (job){.kind = JOB_STATE_ROOT, .stage = 2});
    assert_memory_equal(&again.hash, &root.hash, sizeof root.hash);
    assert_true(run(leader, (job){.kind = JOB_STATE_GET, .stage = 2, .first = blocks, .count = 1}).failed);
    assert_true(run(leader, (job){.kind = JOB_STATE_GET, .stage = 9, .first = 0, .count = 1}).failed);
    jobs_free(leader);
    jobs_free(relay);
    assert_int_not_equal(hash.bytes[0] | hash.bytes[1] | hash.bytes[2], 0);
}

static uint32_t open_files_below(const char *directory) {
    uint32_t n = 0;
    char path[300], target[4096];
    DIR *own = opendir("/proc/self/fd");
    assert_non_null(own);
    for (struct dirent *entry; (entry = readdir(own));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        n += strstr(target, directory) != NULL;
    }
    closedir(own);
    return n;
}

// Open files would keep their space on a full disk after the checkpoint is removed.
static void the_start_is_closed_after_the_first_iteration(void **state) {
    fixture *f = *state;
    jobs *each[STAGES];
    bool failed;
    make_all(f, each, f->saved);
    save_all(f, each[0], each, 0, &failed);
    assert_false(failed);
    free_all(each);

    jobs *leader = make(f, true, NULL, f->saved, 0);
    const job others = {.kind = JOB_NAMES_GET, .stage = 2};
    assert_false(run(leader, (job){.kind = JOB_STATE_INIT, .stage = 0}).failed);
    assert_true(open_files_below(f->saved) > 0);
    run(leader, (job){.kind = JOB_APPLY, .stage = 0, .skip = true});
    assert_int_equal(open_files_below(f->saved), 0);
    for (int twice = 0; twice < 2; twice++) {  // a rollback opens it again
        job_result names = run(leader, others);
        assert_false(names.failed);
        blobs_release(f->blobs, names.out);
        assert_true(open_files_below(f->saved) > 0);
        run(leader, (job){.kind = JOB_APPLY, .stage = 0, .skip = true});
        assert_int_equal(open_files_below(f->saved), 0);
    }
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", f->saved);
    assert_int_equal(system(command), 0);
    assert_true(run(leader, others).failed);
    jobs_free(leader);
}

static void a_disk_that_refuses_fails_the_checkpoint_and_not_the_hash(void **state) {
    fixture *f = *state;
    jobs *each[STAGES];
    bool failed;
    make_all(f, each, f->text);  // a file in place of the directory
    braid_hash hash = save_all(f, each[0], each, 0, &failed), leaves = leaves_hash(f, each);
    assert_true(failed);
    assert_memory_equal(&hash, &leaves, sizeof hash);
    assert_non_null(jobs_save_error(each[0]));
    assert_non_null(strstr(jobs_save_error(each[0])->text, f->text));
    free_all(each);
}

static void a_checkpoint_with_a_hole_is_not_finished(void **state) {
    fixture *f = *state;
    jobs *each[STAGES];
    make_all(f, each, f->saved);
    job_result got = run(each[1], (job){.kind = JOB_STATE_GET, .stage = 1, .first = 0, .count = 1});
    assert_false(run(each[0], (job){.kind = JOB_SAVE, .stage = 1, .first = 0, .count = 1, .in = got.out}).failed);
    assert_true(run(each[0], (job){.kind = JOB_SAVE, .stage = 1, .first = 1, .count = 1, .in = got.out}).failed);  // other blocks
    assert_true(run(each[0], (job){.kind = JOB_SAVE, .stage = 7, .first = 0, .count = 1, .in = got.out}).failed);
    blobs_release(f->blobs, got.out);
    job_result end = run(each[0], (job){.kind = JOB_SAVE_END, .version = 0});
    assert_true(end.failed);
    free_all(each);
    checkpoint *c = NULL;
    assert_int_not_equal(checkpoint_open(f->saved, &c, NULL), BRAID_OK);
}

static void too_little_memory_is_reported(void **state) {
    fixture *f = *state;
    jobs_config config = {.run = &f->run, .split = &f->split, .blobs = f->blobs, .threads = 1, .capacity = 2, .max_memory = 1000};
    jobs *j = NULL;
    assert_int_equal(jobs_new(&config, &j, NULL), BRAID_OK);
    jobs_place(j, 1);
    assert_true(run(j, (job){.kind = JOB_STATE_INIT, .stage = 1}).failed);
    assert_non_null(jobs_worker_error(j));
    jobs_free(j);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_hash_needs_no_directory),
        TEST(peers_start_from_the_leaders_checkpoint),
        TEST(the_start_is_closed_after_the_first_iteration),
        TEST(a_disk_that_refuses_fails_the_checkpoint_and_not_the_hash),
        TEST(a_checkpoint_with_a_hole_is_not_finished),
        TEST(too_little_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
