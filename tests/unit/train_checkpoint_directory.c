// Checkpoint directories: finding versions, removing versions, and leaving other entries alone. The
// versions here have files of a few bytes.
#include "train/checkpoint_directory.h"

#include "train/checkpoint.h"
#include "train/checkpoint_manifest.h"
#include "train_tiny.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#define MODEL_FILE     "model-00001-of-00001.safetensors"
#define OPTIMIZER_FILE "optimizer-00001-of-00001.safetensors"

// Replaces the C library's function: a file system without symbolic links.
static bool links = true;
int symlink(const char *target, const char *path) {
    if (links) return (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
    errno = EPERM;
    return -1;
}

static const braid_hash own = {{1}}, other = {{2}};
static char root[64];

static int set_up(void **state) {
    (void)state;
    links = true;
    tiny_directory(root);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tiny_remove(root);
    return 0;
}

static const char *in(const char *name) {
    static char path[4][256];
    static unsigned next;
    char *out = path[next++ % 4];
    snprintf(out, 256, "%s/%s", root, name);
    return out;
}

static bool there(const char *name) {
    struct stat info;
    return lstat(in(name), &info) == 0;
}

static void put_file(const char *name, const char *text) { tiny_file(in(name), text, strlen(text)); }

static void put_step_as(const char *name, uint64_t version, const braid_hash *run) {
    char file[256];
    manifest *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->version = version;
    m->run = *run;
    m->count = 2;
    m->files[0] = (manifest_file){.name = MODEL_FILE, .bytes = 4};
    m->files[1] = (manifest_file){.name = OPTIMIZER_FILE, .bytes = 8};
    assert_int_equal(mkdir(in(name), 0777), 0);
    snprintf(file, sizeof file, "%s/" MODEL_FILE, name);
    put_file(file, "1234");
    snprintf(file, sizeof file, "%s/" OPTIMIZER_FILE, name);
    put_file(file, "12345678");
    char *text = manifest_text(m, NULL);
    snprintf(file, sizeof file, "%s/" MANIFEST_FILE, name);
    put_file(file, text);
    free(text);
    free(m);
}

static void put_step(uint64_t version, const braid_hash *run) {
    char name[STEP_NAME];
    snprintf(name, sizeof name, CHECKPOINT_STEP, version);
    put_step_as(name, version, run);
}

// `names` are separated by ' ': exactly these, in any order.
static void expect_entries(const char *names) {
    uint32_t found = 0, wanted = 0;
    char padded[512];
    snprintf(padded, sizeof padded, " %s ", names);
    for (const char *at = padded; (at = strchr(at + 1, ' '));) wanted++;
    DIR *directory = opendir(root);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char name[300];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(name, sizeof name, " %s ", entry->d_name);
        if (!strstr(padded, name)) fail_msg("%s is left, wanted: %s", entry->d_name, names);
        found++;
    }
    closedir(directory);
    if (found != wanted) fail_msg("%u entries are left, wanted: %s", found, names);
}

static void expect_located(const char *path, const char *step) {
    char found[FILES_MAX_PATH];
    braid_error error = {0};
    if (checkpoint_locate(path, found, &error)) fail_msg("%s: %s", path, error.text);
    assert_string_equal(found, in(step));
}

static void expect_lost(const char *path, const char *says) {
    char found[FILES_MAX_PATH];
    braid_error error = {0};
    if (!checkpoint_locate(path, found, &error)) fail_msg("%s was found", found);
    if (!strstr(error.text, says)) fail_msg("'%s' does not say '%s'", error.text, says);
}

// ---- names ----

static void test_only_exact_names_are_versions(void **state) {
    (void)state;
    uint64_t version;
    assert_true(checkpoint_step_name("step-000004", &version) && version == 4);
    assert_true(checkpoint_step_name("step-1234567", &version) && version == 1234567);
    static const char *const others[] = {"step-4",
                                         "step-0000004",
                                         "step-000004-backup",
                                         "step-000004.other",
                                         "step-00000x",
                                         "step-",
                                         "step-000004 (1)",
                                         "Step-000004",
                                         "step-+00004",
                                         "step--00004",
                                         "step-99999999999999999999",
                                         "checkpoint-000004",
                                         "step-000004.tmp-00000000-1.0",
                                         ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (checkpoint_step_name(others[i], &version)) fail_msg("%s is taken for a version", others[i]);
}

// ---- resolving `latest` ----

static void test_latest_is_a_link_or_a_file(void **state) {
    (void)state;
    put_step(4, &own);
    put_step(8, &own);
    expect_located(root, "step-000008");
    assert_int_equal(symlink("step-000004", in("latest")), 0);
    expect_located(root, "step-000004");
    expect_located(in("latest"), "step-000004");
    expect_located(in("latest/"), "step-000004");
    assert_int_equal(unlink(in("latest")), 0);
    put_file("latest", "step-000004\r\n");
    expect_located(root, "step-000004");
    expect_located(in("latest"), "step-000004");
    expect_located(in("latest/"), "step-000004");
}

static void test_a_dangling_latest_means_the_newest(void **state) {
    (void)state;
    static const char *const files[] = {"step-000099", "", "\n", "../elsewhere", "/etc", ".", "no such"};
    put_step(4, &own);
    put_step(8, &other);
    expect_located(in("latest"), "step-000008");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        put_file("latest", files[i]);
        expect_located(root, "step-000008");
        expect_located(in("latest"), "step-000008");
    }
    assert_int_equal(unlink(in("latest")), 0);
    assert_int_equal(symlink("step-000099", in("latest")), 0);
    expect_located(root, "step-000008");
    expect_located(in("latest"), "step-000008");
}

static void test_links_may_point_anywhere(void **state) {
    (void)state;
    assert_int_equal(mkdir(in("run"), 0777), 0);
    assert_int_equal(mkdir(in("disk"), 0777), 0);
    put_step_as("disk/best", 12, &own);
    put_step_as("run/step-000008", 8, &own);
    assert_int_equal(symlink("../disk/best", in("run/latest")), 0);
    expect_located(in("run"), "run/../disk/best");
    assert_int_equal(unlink(in("run/latest")), 0);
    assert_int_equal(symlink(in("disk/best"), in("run/latest")), 0);
    expect_located(in("run"), "disk/best");
    assert_int_equal(symlink("run", in("again")), 0);
    expect_located(in("again"), "disk/best");
    assert_int_equal(unlink(in("run/latest")), 0);  // as in a copy that followed the link
    put_step_as("run/latest", 4, &own);
    expect_located(in("run"), "run/latest");
}

static void test_a_step_directory_is_read_under_any_name(void **state) {
    (void)state;
    put_step_as("my model (2)", 7, &own);
    expect_located(in("my model (2)"), "my model (2)");
    expect_lost(root, "is no checkpoint");
}

static void test_the_newest_complete_version_is_taken(void **state) {
    (void)state;
    put_step(4, &own);
    put_step(8, &own);
    put_step(12, &own);
    put_step_as("step-000016", 15, &own);  // renamed: its content is of another version
    put_step_as("step-000020-copy", 20, &own);
    put_file("step-000012/" MODEL_FILE, "12");  // still being copied
    put_file(".DS_Store", "x");
    put_file("._step-000024", "x");
    assert_int_equal(mkdir(in("step-000028"), 0777), 0);
    expect_located(root, "step-000008");
    assert_int_equal(unlink(in("step-000008/" OPTIMIZER_FILE)), 0);  // enough to generate text
    expect_located(root, "step-000008");
    assert_int_equal(unlink(in("step-000008/" MODEL_FILE)), 0);
    assert_int_equal(unlink(in("step-000004/" MODEL_FILE)), 0);
    expect_lost(root, "files of 'step-000012' are missing or truncated");
}

static void test_latest_is_written_without_links(void **state) {
    (void)state;
    char name[STEP_NAME];
    put_step(4, &own);
    put_step(8, &own);
    for (int i = 0; i < 2; i++) {
        links = i == 0;
        assert_int_equal(checkpoint_latest_point(root, "step-000004", NULL), BRAID_OK);
        checkpoint_latest_read(root, name);
        assert_string_equal(name, "step-000004");
        expect_located(root, "step-000004");
        expect_entries("latest step-000004 step-000008");
    }
    links = true;
    assert_int_equal(checkpoint_latest_point(root, "step-000008", NULL), BRAID_OK);
    expect_located(root, "step-000008");
}

static void test_a_latest_that_was_copied_as_a_directory_is_kept(void **state) {
    (void)state;
    put_step(4, &own);
    put_step_as("latest", 4, &own);
    assert_int_equal(checkpoint_try(root, NULL), BRAID_OK);
    assert_int_equal(checkpoint_latest_point(root, "step-000004", NULL), BRAID_OK);
    expect_entries("latest latest.other step-000004");
    expect_located(root, "step-000004");
}

// ---- clearing ----

static void test_only_older_versions_of_the_run_are_cleared(void **state) {
    (void)state;
    for (uint64_t v = 4; v <= 24; v += 4) put_step(v, v == 12 ? &other : &own);
    put_step_as("step-000004-backup", 4, &own);
    put_step_as("step-000003", 2, &own);
    put_step_as("checkpoint-4", 4, &own);
    assert_int_equal(mkdir(in("step-000002"), 0777), 0);
    put_file("step-000001", "a file");
    put_file("notes.txt", "mine");
    checkpoint_clear_older(root, &own, 20);
    expect_entries("step-000012 step-000016 step-000020 step-000024 step-000004-backup step-000003 checkpoint-4 "
                   "step-000002 step-000001 notes.txt");
}

static void test_a_broken_version_does_not_count_as_kept(void **state) {
    (void)state;
    for (uint64_t v = 4; v <= 16; v += 4) put_step(v, &own);
    assert_int_equal(unlink(in("step-000012/" MODEL_FILE)), 0);
    checkpoint_clear_older(root, &own, 16);
    expect_entries("step-000008 step-000012 step-000016");
}

static void test_foreign_files_survive_removal(void **state) {
    (void)state;
    for (uint64_t v = 4; v <= 12; v += 4) put_step(v, &own);
    put_file("step-000004/model-f16.gguf", "converted");
    put_file("step-000004/.DS_Store", "x");
    put_file("step-000004/config.json", "edited");
    checkpoint_clear_older(root, &own, 12);
    expect_entries("step-000004.other step-000008 step-000012");
    assert_true(there("step-000004.other/model-f16.gguf"));
    assert_false(there("step-000004.other/" MODEL_FILE) || there("step-000004.other/.DS_Store") ||
                 there("step-000004.other/config.json"));
}

static void test_removal_does_not_follow_links(void **state) {
    (void)state;
    assert_int_equal(mkdir(in("disk"), 0777), 0);
    put_step_as("disk/step-000004", 4, &own);
    assert_int_equal(symlink("disk/step-000004", in("step-000004")), 0);
    put_step(8, &own);
    put_step(12, &own);
    checkpoint_clear_older(root, &own, 12);
    expect_entries("disk step-000008 step-000012");
    assert_true(there("disk/step-000004/" MODEL_FILE));
}

static void test_making_room_removes_the_oldest(void **state) {
    (void)state;
    put_step(2, &other);
    for (uint64_t v = 4; v <= 12; v += 4) put_step(v, &own);
    assert_true(checkpoint_make_room(root, &own, 12));
    expect_entries("step-000002 step-000008 step-000012");
    assert_true(checkpoint_make_room(root, &own, 12));
    assert_false(checkpoint_make_room(root, &own, 12));  // newer, or of another run
    expect_entries("step-000002 step-000012");
}

static void test_making_room_keeps_the_only_complete_one(void **state) {
    (void)state;
    put_step(4, &own);
    assert_false(checkpoint_make_room(root, &own, 12));
    put_step(8, &own);
    assert_int_equal(unlink(in("step-000008/" OPTIMIZER_FILE)), 0);
    assert_false(checkpoint_make_room(root, &own, 12));
    expect_entries("step-000004 step-000008");
}

// ---- replacing a version ----

static void test_an_entry_with_a_new_versions_name_is_kept(void **state) {
    (void)state;
    char temporary[STEP_TEMPORARY];
    for (unsigned i = 0; i < 3; i++) {
        checkpoint_temporary_name(4, &own, i, temporary);
        if (i == 0) put_step(4, &other);
        if (i == 2) {
            tiny_remove(in("step-000004"));
            put_file("step-000004", "a file");
        }
        put_step_as(temporary, 4, &own);
        assert_int_equal(checkpoint_publish(root, in(temporary), "step-000004", &own, NULL), BRAID_OK);
    }
    expect_entries("step-000004 step-000004.other step-000004.other-2");
    assert_true(there("step-000004.other/" MODEL_FILE));
}

static void test_foreign_files_survive_replacement(void **state) {
    (void)state;
    char temporary[STEP_TEMPORARY];
    put_step(4, &own);
    put_file("step-000004/eval.json", "mine");
    checkpoint_temporary_name(4, &own, 0, temporary);
    put_step_as(temporary, 4, &own);
    assert_int_equal(checkpoint_publish(root, in(temporary), "step-000004", &own, NULL), BRAID_OK);
    expect_entries("step-000004 step-000004.other");
    assert_true(there("step-000004.other/eval.json"));
}

static void test_leftovers_of_killed_writers_are_removed(void **state) {
    (void)state;
    char temporary[STEP_TEMPORARY];
    checkpoint_temporary_name(8, &own, 0, temporary);
    put_step_as(temporary, 8, &own);
    put_step_as("step-000004.tmp-01000000-old-77", 4, &own);  // between two renames: the only copy
    put_step(12, &own);
    put_step_as("step-000012.tmp-01000000-old-77", 12, &own);  // before its removal
    put_step_as("step-000004.tmp-mine", 4, &own);
    put_step_as("step-000004.tmp-01000000-old", 4, &own);
    checkpoint_clear_leftovers(root, &own, false, NULL);
    assert_true(there(temporary));
    checkpoint_clear_leftovers(root, &own, true, NULL);
    expect_entries("step-000004 step-000012 step-000004.tmp-mine step-000004.tmp-01000000-old");
}

// ---- set aside ----

static void test_newer_versions_are_set_aside(void **state) {
    (void)state;
    char place[FILES_MAX_PATH];
    uint32_t moved;
    for (uint64_t v = 4; v <= 12; v += 4) put_step(v, v == 8 ? &other : &own);
    put_file("notes.txt", "mine");
    assert_int_equal(symlink("step-000012", in("latest")), 0);
    assert_int_equal(checkpoint_set_aside(root, 12, place, &moved, NULL), BRAID_OK);
    assert_true(moved == 0 && place[0] == 0);
    assert_int_equal(checkpoint_set_aside(root, 4, place, &moved, NULL), BRAID_OK);
    assert_int_equal(moved, 2);
    assert_string_equal(place, in("set-aside-1"));
    expect_entries("step-000004 set-aside-1 notes.txt");
    expect_located(place, "set-aside-1/step-000012");
    assert_int_equal(checkpoint_set_aside(root, 0, place, &moved, NULL), BRAID_OK);
    assert_int_equal(moved, 1);
    expect_entries("set-aside-1 set-aside-2 notes.txt");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void test_the_newest_of_a_run_is_complete_and_its_own(void **state) {
    (void)state;
    char found[FILES_MAX_PATH];
    uint64_t version = 0;
    assert_false(checkpoint_find_newest(in("nowhere"), &own, found, &version));
    put_step(4, &own);
    put_step(8, &own);
    put_step(12, &own);
    put_step(16, &other);
    unlink(in("step-000012/" OPTIMIZER_FILE));
    assert_true(checkpoint_find_newest(root, &own, found, &version));
    assert_int_equal(version, 8);
    assert_string_equal(found, in("step-000008"));
    assert_true(checkpoint_find_newest(root, &other, found, &version));
    assert_int_equal(version, 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_only_exact_names_are_versions),
        TEST(test_latest_is_a_link_or_a_file),
        TEST(test_a_dangling_latest_means_the_newest),
        TEST(test_links_may_point_anywhere),
        TEST(test_a_step_directory_is_read_under_any_name),
        TEST(test_the_newest_complete_version_is_taken),
        TEST(test_the_newest_of_a_run_is_complete_and_its_own),
        TEST(test_latest_is_written_without_links),
        TEST(test_a_latest_that_was_copied_as_a_directory_is_kept),
        TEST(test_only_older_versions_of_the_run_are_cleared),
        TEST(test_a_broken_version_does_not_count_as_kept),
        TEST(test_foreign_files_survive_removal),
        TEST(test_removal_does_not_follow_links),
        TEST(test_making_room_removes_the_oldest),
        TEST(test_making_room_keeps_the_only_complete_one),
        TEST(test_an_entry_with_a_new_versions_name_is_kept),
        TEST(test_foreign_files_survive_replacement),
        TEST(test_leftovers_of_killed_writers_are_removed),
        TEST(test_newer_versions_are_set_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
