// Files, directories and patterns, in an order that depends on names alone.
#include "data/sources.h"

#include "data_files.h"

static const char *const names[] = {"d/b.txt",           "d/a.txt", "d/sub/deep/x.jsonl",
                                    "d/sub/y.txt",       "d/B.txt", "d/.hidden",
                                    "d/sub/.git/config", "e/z.txt", "w[1].txt"};

static void assert_finds(const char *pattern, const char *expected) {
    char path[DATA_PATH], found[2048] = "";
    data_files files;
    braid_error error = {0};
    const char *paths[] = {path};
    snprintf(path, sizeof path, "%s/%s", data_directory, pattern);
    if (data_files_find(paths, 1, &files, &error)) fail_msg("%s", error.text);
    for (size_t i = 0; i < files.count; i++) {
        strcat(found, i ? " " : "");
        strcat(found, files.file[i].path + strlen(data_directory) + 1);
        assert_int_equal(files.file[i].bytes, 1);
    }
    assert_int_equal(files.bytes, files.count);
    data_files_free(&files);
    assert_string_equal(found, expected);
}

static void patterns_mean_files(void **state) {
    (void)state;
    assert_finds("d/a.txt", "d/a.txt");
    assert_finds("d", "d/B.txt d/a.txt d/b.txt d/sub/deep/x.jsonl d/sub/y.txt");
    assert_finds("d/", "d/B.txt d/a.txt d/b.txt d/sub/deep/x.jsonl d/sub/y.txt");
    assert_finds("d/*.txt", "d/B.txt d/a.txt d/b.txt");
    assert_finds("?/[ab].txt", "d/a.txt d/b.txt");
    assert_finds("*/sub", "d/sub/deep/x.jsonl d/sub/y.txt");
    assert_finds("**/*.txt", "w[1].txt d/B.txt d/a.txt d/b.txt d/sub/y.txt e/z.txt");
    assert_finds("d/**", "d/B.txt d/a.txt d/b.txt d/sub/deep/x.jsonl d/sub/y.txt");
    assert_finds("**/deep/*", "d/sub/deep/x.jsonl");
    assert_finds("w[1].txt", "w[1].txt");  // a file of that very name
}

static void nothing_is_an_error(void **state) {
    static const char *const missing[] = {"none", "none/*.txt", "d/*.bin", "empty", "*/*/*/*/*/*"};
    char path[DATA_PATH];
    data_files files;
    braid_error error;
    const char *paths[] = {path};
    (void)state;
    mkdir(data_path("empty", path), 0777);
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        snprintf(path, sizeof path, "%s/%s", data_directory, missing[i]);
        assert_int_not_equal(data_files_find(paths, 1, &files, &error), BRAID_OK);
        assert_non_null(strstr(error.text, path));
        data_files_free(&files);
    }
}

static void a_loop_of_links_ends(void **state) {
    char path[DATA_PATH];
    data_files files;
    braid_error error;
    const char *paths[] = {path};
    (void)state;
    data_text("loop/a.txt", "x", path);
    assert_int_equal(symlink(".", data_path("loop/again", path)), 0);
    snprintf(path, sizeof path, "%s/loop", data_directory);
    assert_int_not_equal(data_files_find(paths, 1, &files, &error), BRAID_OK);
    data_files_free(&files);
    data_path("loop", path);
    data_remove(path);
}

static int setup(void **state) {
    char path[DATA_PATH];
    if (data_setup(state)) return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) data_text(names[i], "x", path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_mean_files),
        cmocka_unit_test(nothing_is_an_error),
        cmocka_unit_test(a_loop_of_links_ends),
    };
    return cmocka_run_group_tests(tests, setup, data_teardown);
}
