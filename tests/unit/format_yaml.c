#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static yaml *parse(const char *text) {
    yaml *file = NULL;
    braid_error error = {0};
    if (yaml_parse(text, strlen(text), "t.yaml", &file, &error) != BRAID_OK) fail_msg("%s", error.text);
    return file;
}

static void expect_refused(const char *text, size_t length, const char *message) {
    yaml *file = NULL;
    braid_error error = {0};
    assert_int_equal(yaml_parse(text, length, "t.yaml", &file, &error), BRAID_CONFIG);
    assert_null(file);
    if (strstr(error.text, message) == NULL) fail_msg("'%s' does not hold '%s'", error.text, message);
}

static void test_positions(void **state) {
    (void)state;
    yaml *file = parse("# a run\nname: x\ntrain:\n  steps: 5\n  list: [1, 'two']\n");
    const yaml_node *root = yaml_root(file), *train = yaml_find(root, "train");
    assert_int_equal(root->children, 2);
    assert_string_equal(yaml_find(root, "name")->text, "x");
    assert_null(yaml_find(root, "nam"));
    const yaml_node *steps = yaml_find(train, "steps");
    assert_int_equal(steps->line, 4);
    assert_int_equal(steps->column, 10);
    assert_int_equal(steps->key_column, 3);
    const yaml_node *list = yaml_find(train, "list");
    assert_int_equal(list->kind, YAML_LIST);
    assert_int_equal(list->children, 2);
    assert_false(list->first->quoted);
    assert_true(list->first->next->quoted);
    assert_string_equal(list->first->next->text, "two");
    yaml_free(file);
}

// The value is empty, but errors about it need a position.
static void test_empty_values(void **state) {
    (void)state;
    yaml *file = parse("a: 1\nempty:\nin: {x: , y: 2}\nlist:\n  -\n  - 3\n  -\nlast:\n");
    const yaml_node *root = yaml_root(file), *list = yaml_find(root, "list");
    uint64_t n = 0;
    braid_error error = {0};
    assert_int_equal(yaml_read_count(file, yaml_find(root, "empty"), "empty", 0, 5, &n, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:2:1: empty must be a whole number, not nothing");
    assert_int_equal(yaml_find(yaml_find(root, "in"), "x")->line, 3);
    assert_int_equal(yaml_find(yaml_find(root, "in"), "x")->column, 6);
    assert_int_equal(list->first->line, list->line);  // the first element of the list
    assert_int_equal(list->first->next->next->line, 6);
    assert_int_equal(yaml_find(root, "last")->line, 8);
    yaml_free(file);
    file = parse("in: 1\nmap: {: 2}\n");
    assert_int_equal(yaml_find(yaml_root(file), "map")->first->key_line, 2);
    yaml_free(file);
}

static void test_empty_is_a_map(void **state) {
    (void)state;
    static const char *const texts[] = {"", "# nothing\n", "---\n", "{}\n"};
    for (size_t i = 0; i < 4; i++) {
        yaml *file = parse(texts[i]);
        assert_int_equal(yaml_root(file)->kind, YAML_MAP);
        assert_int_equal(yaml_root(file)->children, 0);
        yaml_free(file);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"a: 1\nb:\n  c: [1, 2\nd: 3\n", "t.yaml:4:2: not YAML"},
        {"\ta: 1\n", "t.yaml:1:1: not YAML"},
        {"a: \"x\n", "closing quote"},
        {"a: &x 1\nb: *x\n", "t.yaml:2:5: aliases"},
        {"a: !!int 1\n", "tags"},
        {"- 1\n- 2\n", "t.yaml:1:1: a list of 'key: value' lines is expected"},
        {"just words\n", "t.yaml:1:1: a list of 'key: value' lines is expected"},
        {"a: 1\nb: 2\na: 3\n", "t.yaml:3:1: key 'a' is given twice"},
        {"a: 1\n---\nb: 2\n", "a second document"},
        {"[1, 2]: 3\n", "a key must be a plain word"},
        {"a: 1\nb: \x01\n", "t.yaml:2:4: not text: byte 0x01"},
        {"a: 1\nb: \xff\n", "t.yaml:2:4: not text: byte 0xff"},
        {"a: \xc0\xaf\n", "not text"},
        {"a: \xed\xa0\x80\n", "not text"},
        {"a: \"\\0\"\n", "a zero byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(cases[i][0], strlen(cases[i][0]), cases[i][1]);
}

static void test_limits(void **state) {
    (void)state;
    char deep[256] = "a: ";
    memset(deep + 3, '[', YAML_MAX_DEPTH + 1);
    memset(deep + 3 + YAML_MAX_DEPTH + 1, ']', YAML_MAX_DEPTH + 1);
    expect_refused(deep, strlen(deep), "levels deep");
    size_t length = 3 + 2 * (YAML_MAX_NODES + 1);
    char *many = malloc(length + 1);
    assert_non_null(many);
    size_t at = (size_t)sprintf(many, "a: [");
    for (size_t i = 0; i < YAML_MAX_NODES - 1; i++) at += (size_t)sprintf(many + at, "1,");
    memcpy(many + at, "]", 2);
    expect_refused(many, strlen(many), "values in one file");
    free(many);
    char *large = calloc(1, YAML_MAX_BYTES + 1);
    assert_non_null(large);
    memset(large, ' ', YAML_MAX_BYTES + 1);
    expect_refused(large, YAML_MAX_BYTES + 1, "larger than");
    free(large);
}

static void test_numbers(void **state) {
    (void)state;
    yaml *file = parse("n: 17\nbig: 99999999999999999999\nr: 2.5e-3\nt: '17'\nm: 512M\nneg: -1\nb: yes\nhex: "
                       "0x10\nnan: .nan\nempty:\n");
    const yaml_node *root = yaml_root(file);
    uint64_t n = 0;
    double r = 0;
    bool b = false;
    braid_error error = {0};
    assert_int_equal(yaml_read_count(file, yaml_find(root, "n"), "n", 1, 17, &n, &error), BRAID_OK);
    assert_int_equal(n, 17);
    assert_int_equal(yaml_read_count(file, yaml_find(root, "n"), "n", 18, 20, &n, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:1:4: n must be from 18 to 20, not 17");
    assert_int_equal(yaml_read_count(file, yaml_find(root, "big"), "big", 0, 5, &n, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:2:6: big must be from 0 to 5, not 99999999999999999999");
    assert_int_equal(yaml_read_real(file, yaml_find(root, "r"), "r", 0, 1, &r, &error), BRAID_OK);
    assert_true(r == 2.5e-3);
    static const char *const not_whole[] = {"r", "t", "neg", "hex", "nan", "empty", "m"};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(yaml_read_count(file, yaml_find(root, not_whole[i]), "k", 0, 100, &n, &error), BRAID_CONFIG);
        assert_non_null(strstr(error.text, "k must be a whole number, not"));
    }
    assert_int_equal(yaml_read_real(file, yaml_find(root, "nan"), "nan", 0, 1, &r, &error), BRAID_CONFIG);
    assert_int_equal(yaml_read_size(file, yaml_find(root, "m"), "m", &n, &error), BRAID_OK);
    assert_int_equal(n, 512u << 20);
    assert_int_equal(yaml_read_bool(file, yaml_find(root, "b"), "b", &b, &error), BRAID_OK);
    assert_true(b);
    assert_int_equal(yaml_read_bool(file, yaml_find(root, "n"), "n", &b, &error), BRAID_CONFIG);
    yaml_free(file);
}

static void test_words(void **state) {
    (void)state;
    yaml *file = parse("mode: fats\nname: abcdef\nmap: {a: 1}\nlits: 1\n");
    const yaml_node *root = yaml_root(file);
    static const char *const modes[] = {"reproducible", "fast"}, *const known[] = {"mode", "name", "map", "list"};
    size_t choice = 9;
    char text[6];
    braid_error error = {0};
    assert_int_equal(yaml_read_choice(file, yaml_find(root, "mode"), "mode", modes, 2, &choice, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:1:7: mode must be reproducible or fast, not 'fats'");
    assert_int_equal(yaml_read_text(file, yaml_find(root, "name"), "name", text, sizeof text, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "longer than 5 bytes"));
    assert_int_equal(yaml_read_text(file, yaml_find(root, "map"), "map", text, sizeof text, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:3:6: map must be text, not a group of keys");
    assert_int_equal(yaml_check_keys(file, root, "top", known, 4, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:4:1: unknown key 'lits' in 'top'; did you mean 'list'?");
    static const char *const others[] = {"mode", "name", "map"}, *many[64];
    assert_int_equal(yaml_check_keys(file, root, "", others, 3, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:4:1: unknown key 'lits'; choose one of mode, name, map");
    for (size_t i = 0; i < 64; i++) many[i] = i < 3 ? others[i] : "others";
    assert_int_equal(yaml_check_keys(file, root, "", many, 64, &error), BRAID_CONFIG);
    assert_string_equal(error.text, "t.yaml:4:1: unknown key 'lits'");
    yaml_free(file);
}

static void test_missing_file(void **state) {
    (void)state;
    yaml *file = NULL;
    braid_error error = {0};
    assert_int_equal(yaml_load("/nonexistent/x.yaml", &file, &error), BRAID_IO);
    assert_string_equal(error.text, "cannot read '/nonexistent/x.yaml': No such file or directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions),    cmocka_unit_test(test_empty_values),
        cmocka_unit_test(test_empty_is_a_map), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_numbers),        cmocka_unit_test(test_words),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
