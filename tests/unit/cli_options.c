#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 24, MAX_OUTPUT = 8192 };

// A verb's flags with their defaults.
typedef struct flags {
    bool json, color;
    const char *path;
    uint64_t relays, memory, patience;
    double rate;
    option_list kill;
    const char *page;
    option table[9];
    options o;
} flags;

static void flags_init(flags *f) {
    *f = (flags){.color = true, .relays = 6, .memory = 1 << 20, .patience = 60000000000u, .rate = 0.5};
    const option table[] = {
        {"json", OPTION_SWITCH, &f->json, .help = "one JSON object a line"},
        {"color", OPTION_SWITCH, &f->color, .help = "use colours"},
        {"path", OPTION_TEXT, &f->path, .unit = "PATH", .help = "a file", .fallback = "none"},
        {"relays", OPTION_COUNT, &f->relays, .help = "processes to start", .min = 1, .max = 100},
        {"max-memory", OPTION_SIZE, &f->memory, .help = "most memory", .min = 4096},
        {"patience", OPTION_DURATION, &f->patience, .help = "how long to wait", .max = 3600},
        {"rate", OPTION_REAL, &f->rate, .help = "a share", .max = 1},
        {"kill", OPTION_LIST, &f->kill, .help = "who dies", .fallback = ""},
        {"page", OPTION_ADDRESS, &f->page, .help = "a page", .fallback = ""},
    };
    memcpy(f->table, table, sizeof table);
    f->o = (options){.verb = "test",
                     .arguments = "RUN.yaml",
                     .summary = "Test the flags.",
                     .examples = "braid test --json RUN.yaml\n",
                     .table = f->table,
                     .count = 9,
                     .max_given = 2};
}

static char captured[MAX_OUTPUT];
static int result;

// Captures standard output and error in `captured` between these two calls.
static FILE *capture;
static int kept_out, kept_err;

static void capture_begin(void) {
    fflush(NULL);
    capture = tmpfile();
    assert_non_null(capture);
    kept_out = dup(STDOUT_FILENO);
    kept_err = dup(STDERR_FILENO);
    dup2(fileno(capture), STDOUT_FILENO);
    dup2(fileno(capture), STDERR_FILENO);
}

static void capture_end(void) {
    fflush(NULL);
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_err, STDERR_FILENO);
    close(kept_out);
    close(kept_err);
    rewind(capture);
    size_t length = fread(captured, 1, sizeof captured - 1, capture);
    captured[length] = 0;
    fclose(capture);
}

static bool parse(flags *f, const char *words) {
    static char text[512], *argv[MAX_WORDS];  // the flags point into this buffer
    int argc = 0;
    snprintf(text, sizeof text, "test %s", words);
    for (char *word = strtok(text, " "); word != NULL && argc < MAX_WORDS; word = strtok(NULL, " "))
        argv[argc++] = word;
    capture_begin();
    flags_init(f);
    bool good = options_parse(&f->o, argc, argv, &result);
    capture_end();
    return good;
}

static void expect_refused(const char *words, const char *message) {
    flags f;
    assert_false(parse(&f, words));
    assert_int_equal(result, CLI_USAGE);
    if (strstr(captured, message) == NULL) fail_msg("%s: '%s' does not hold '%s'", words, captured, message);
}

static void test_flags(void **state) {
    (void)state;
    flags f;
    assert_true(parse(&f, "--json --relays 8 --max-memory=1.5G --no-color --patience 250ms --rate=0.25 --path p --kill "
                          "a --kill b,c run.yaml"));
    assert_true(f.json);
    assert_false(f.color);
    assert_int_equal(f.relays, 8);
    assert_int_equal(f.memory, 1610612736);
    assert_int_equal(f.patience, 250000000);
    assert_true(f.rate == 0.25);
    assert_string_equal(f.path, "p");
    assert_int_equal(f.kill.count, 2);
    assert_string_equal(f.kill.item[1], "b,c");
    assert_int_equal(f.o.given_count, 1);
    assert_string_equal(f.o.given[0], "run.yaml");
    assert_true(option_is_set(&f.o, "relays"));
    options_close(&f.o);
}

// The word after the flag is its address only if it has the form of one.
static void test_addresses(void **state) {
    (void)state;
    static const struct {
        const char *words, *page;
        uint32_t given;
    } cases[] = {
        {"--page RUN.yaml", "", 1},
        {"--page", "", 0},
        {"--page 8081 RUN.yaml", "8081", 1},
        {"--page 0.0.0.0:80 RUN.yaml", "0.0.0.0:80", 1},
        {"--page=[::1]:5 RUN.yaml", "[::1]:5", 1},
        {"--page --json RUN.yaml", "", 1},
        {"RUN.yaml", NULL, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flags f;
        flags_init(&f);
        assert_true(parse(&f, cases[i].words));
        assert_int_equal(f.o.given_count, cases[i].given);
        if (cases[i].page)
            assert_string_equal(f.page, cases[i].page);
        else
            assert_null(f.page);
        options_close(&f.o);
    }
}

static void test_defaults_and_end_of_flags(void **state) {
    (void)state;
    flags f;
    assert_true(parse(&f, "-- --json"));
    assert_false(f.json);
    assert_int_equal(f.relays, 6);
    assert_false(option_is_set(&f.o, "relays"));
    assert_string_equal(f.o.given[0], "--json");
    options_close(&f.o);
}

static void test_mistakes(void **state) {
    (void)state;
    expect_refused("--max-memroy 5M", "unknown flag --max-memroy; did you mean --max-memory?");
    expect_refused("--banana", "unknown flag --banana; 'braid test --help' lists them");
    expect_refused("-j", "unknown flag -j");
    expect_refused("--relays", "--relays needs a value");
    expect_refused("--relays many", "--relays: 'many' is not a whole number");
    expect_refused("--relays 0", "--relays: 0 is too small: at least 1");
    expect_refused("--relays 101", "--relays: 101 is too large: at most 100");
    expect_refused("--max-memory 1K", "--max-memory: 1K is too small: at least 4 KiB");
    expect_refused("--patience 2h", "--patience: 2h is too large: at most 1 h 0 min");
    expect_refused("--json=perhaps", "--json: 'perhaps' is neither yes nor no");
    expect_refused("--no-relays", "unknown flag --no-relays");
    expect_refused("a b c", "unexpected argument 'c'");
}

static void test_environment(void **state) {
    (void)state;
    flags f;
    setenv("BRAID_MAX_MEMORY", "2M", 1);
    setenv("BRAID_KILL", "a,b", 1);
    setenv("BRAID_RELAYS", "9", 1);
    assert_true(parse(&f, "--relays 3 --kill x"));
    assert_int_equal(f.memory, 2 << 20);
    assert_int_equal(f.relays, 3);
    assert_int_equal(f.kill.count, 1);
    assert_string_equal(f.kill.item[0], "x");
    options_close(&f.o);
    setenv("BRAID_RELAYS", "no", 1);
    expect_refused("", "BRAID_RELAYS: 'no' is not a whole number");
    unsetenv("BRAID_RELAYS");
    assert_true(parse(&f, ""));
    assert_int_equal(f.kill.count, 2);
    options_close(&f.o);
    unsetenv("BRAID_MAX_MEMORY");
    unsetenv("BRAID_KILL");
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_file(void **state) {
    (void)state;
    flags f;
    char path[] = "cli-options-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "relays: 4\nrate: 0.75\nkill: [p, q]\nwait-relays: 1\n");
    setenv("BRAID_CONFIG", path, 1);
    setenv("BRAID_RATE", "0.125", 1);
    assert_true(parse(&f, ""));
    assert_int_equal(f.relays, 4);
    assert_true(f.rate == 0.125);
    assert_int_equal(f.kill.count, 2);
    assert_string_equal(f.kill.item[1], "q");
    assert_true(option_is_set(&f.o, "relays"));
    options_close(&f.o);
    // The flag that names the file takes precedence over the environment, and flags over the file's
    // content.
    char words[64];
    snprintf(words, sizeof words, "--config %s --relays 7", path);
    setenv("BRAID_CONFIG", "nowhere.yaml", 1);
    assert_true(parse(&f, words));
    assert_int_equal(f.relays, 7);
    assert_int_equal(f.kill.count, 2);
    options_close(&f.o);
    setenv("BRAID_CONFIG", path, 1);
    write_file(path, "json: yes\nrelays: 900\n");
    expect_refused("", ":2:9: relays: 900 is too large: at most 100");
    write_file(path, "relays: 4\nmax_memory: 1M\n");
    expect_refused("", ":2:1: unknown key 'max_memory'; did you mean 'max-memory'?");
    write_file(path, "wait-relay: 4\n");
    expect_refused("", ":1:1: unknown key 'wait-relay'; did you mean 'wait-relays'?");
    write_file(path, "nothing-like-it: 4\n");
    expect_refused("", ":1:1: unknown key 'nothing-like-it'");
    write_file(path, "json: {a: 1}\n");
    expect_refused("", "json must be one value");
    unlink(path);
    expect_refused("", "No such file or directory");
    unsetenv("BRAID_CONFIG");
    unsetenv("BRAID_RATE");
}

static void test_help(void **state) {
    (void)state;
    flags f;
    assert_false(parse(&f, "--relays 3 --help"));
    assert_int_equal(result, CLI_OK);
    static const char *const parts[] = {
        "Usage: braid test [FLAGS] RUN.yaml\n\nTest the flags.\n",
        "  --max-memory SIZE           most memory (default: 1 MiB)\n",
        "  --relays N                  processes to start (default: 6)\n",
        "--json                      one JSON object a line\n",
        "such as BRAID_JSON,",
        "Examples:\n  braid test --json RUN.yaml\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strstr(captured, parts[i]) == NULL) fail_msg("no '%s' in\n%s", parts[i], captured);
    }
}

static int clean_environment(void **state) {
    (void)state;
    unsetenv("BRAID_CONFIG");
    unsetenv("HOME");
    unsetenv("XDG_CONFIG_HOME");
    return 0;
}

static void expect_set(const char *text, const char *in, const char *message) {
    static const char *const names[] = {"swarm", "gwtf", "braid"};
    bool set[3] = {true, true, true};
    capture_begin();
    bool good = options_read_set("bench x", "systems", text, names, 3, set);
    capture_end();
    assert_true(good == (in != NULL));
    for (int i = 0; i < 3 && good; i++) assert_true(set[i] == (strstr(in, names[i]) != NULL));
    assert_string_equal(captured, message);
}

static void test_sets(void **state) {
    (void)state;
    expect_set("gwtf", "gwtf", "");
    expect_set("braid,swarm,braid", "swarm braid", "");
    expect_set(
        "", NULL,
        "braid bench x: --systems: there is no ''; name some of swarm, gwtf and braid, with commas between them\n");
    expect_set(
        "gwtf,", NULL,
        "braid bench x: --systems: there is no ''; name some of swarm, gwtf and braid, with commas between them\n");
    expect_set(
        ",gwtf", NULL,
        "braid bench x: --systems: there is no ''; name some of swarm, gwtf and braid, with commas between them\n");
    expect_set(
        "gwtf,brai,swarm", NULL,
        "braid bench x: --systems: there is no 'brai'; name some of swarm, gwtf and braid, with commas between them\n");
}

static void test_choices(void **state) {
    (void)state;
    static const char *const names[] = {"equal", "free"}, *const wrong[] = {"", "fre", "equal,free"};
    uint32_t choice = 9;
    assert_true(options_read_choice("bench x", "demand", "free", names, 2, &choice));
    assert_int_equal(choice, 1);
    for (size_t i = 0; i < 3; i++) {
        capture_begin();
        bool good = options_read_choice("bench x", "demand", wrong[i], names, 2, &choice);
        capture_end();
        assert_false(good);
        assert_non_null(strstr(captured, "braid bench x: --demand is equal or free, not '"));
    }
}

static void test_numbers(void **state) {
    (void)state;
    static const char *const wrong[] = {"",    ",",   "9",   "101",         "10,",   "10,,20",
                                        "ten", "-10", " 10", "10,20,30,40", "10;20", "99999999999999999999"};
    uint32_t number[3];
    option_numbers numbers = {.least = 10, .most = 100, .room = 3, .number = number};
    assert_true(options_read_numbers("bench x", "peers", "10,100,20", &numbers));
    assert_int_equal(numbers.count, 3);
    assert_int_equal(number[1], 100);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        capture_begin();
        bool good = options_read_numbers("bench x", "peers", wrong[i], &numbers);
        capture_end();
        if (good) fail_msg("'%s' is taken", wrong[i]);
        assert_non_null(
            strstr(captured, "--peers is a list of at most 3 numbers from 10 to 100, with commas between them, not '"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_defaults_and_end_of_flags),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, clean_environment, NULL);
}
