// The delays before processes that died are restarted, and the messages about their ends.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/up_cause.h"
#include "cli/up_restart.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_delays_grow_until_restarts_stop(void **state) {
    (void)state;
    static const uint64_t pauses[] = {1000, 2000, 4000, 8000, 8000};
    restart_record r = {0};
    uint64_t now = 100000;
    for (int i = 0; i < 5; i++) {
        assert_false(restart_is_hopeless(&r));
        restart_note_death(&r, now += 500, 400, true);
        restart_note_death(&r, now += 500, 900, true);
        assert_int_equal(restart_note_loss(&r), pauses[i]);
    }
    assert_true(restart_is_hopeless(&r));
    assert_int_equal(r.deaths, 10);
    assert_int_equal(r.first_ms, 100100);  // when the first one started
    assert_int_equal(r.last_ms, 105000);
}

// A relay that dies once an hour is always replaced.
static void test_a_long_lifetime_resets_the_count(void **state) {
    (void)state;
    restart_record r = {0};
    for (uint64_t hour = 1; hour <= 1000; hour++) {
        restart_note_death(&r, hour * 3600000, 3599000, true);
        assert_int_equal(restart_note_loss(&r), RESTART_FIRST_MS);
        assert_false(restart_is_hopeless(&r));
    }
}

// It loads for minutes and dies before its first iteration is complete: that is no long lifetime.
static void test_a_long_lifetime_without_work_counts(void **state) {
    (void)state;
    restart_record r = {0};
    for (uint64_t i = 1; i <= RESTART_MOST; i++) {
        assert_false(restart_is_hopeless(&r));
        restart_note_death(&r, i * 300000, 290000, false);
        restart_note_loss(&r);
    }
    assert_true(restart_is_hopeless(&r));
}

// Ordered deaths are not counted.
static void test_losses_without_a_death_do_not_count(void **state) {
    (void)state;
    restart_record r = {0};
    for (int i = 0; i < 100; i++) assert_int_equal(restart_note_loss(&r), RESTART_FIRST_MS);
    assert_false(restart_is_hopeless(&r));
}

// ---- causes ----

static const char *cause(int64_t status, int number, const char *complaint, uint64_t limit, int oom) {
    static char text[CAUSE_TEXT];
    const cause_memory memory = {.limit = limit};
    cause_text(status, number, complaint, &memory, oom, text);
    return text;
}

static void assert_says(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' does not say '%s'", text, part);
}

static void test_a_cause_is_named(void **state) {
    (void)state;
    const char *killed = cause(0, SIGKILL, "", UINT64_C(512) << 20, 1);
    assert_says(killed, "signal 9 (SIGKILL), the kernel killed it for lack of memory (the limit of this container is 512 MiB)");
    killed = cause(0, SIGKILL, "", UINT64_MAX, 0);
    assert_says(killed, "most likely");
    assert_null(strstr(killed, "container"));
    assert_says(cause(0, SIGILL, "", UINT64_MAX, 0), "signal 4 (SIGILL), this processor most likely lacks instructions");
    assert_says(cause(0, SIGBUS, "", UINT64_MAX, 0), "/dev/shm is most likely full");
    assert_says(cause(0, SIGXFSZ, "", UINT64_MAX, 0), "ulimit -f");
    assert_says(cause(0, SIGRTMIN, "", UINT64_MAX, 0), "was ended by signal");
    assert_string_equal(cause(1, 0, "braid node: no room", UINT64_MAX, 0), "ended with code 1: braid node: no room");
    assert_says(cause(127, 0, "", UINT64_MAX, 0), "cannot be executed");
    assert_says(cause(127, 0, "libuv.so.1: cannot open shared object file", UINT64_MAX, 0), "libuv.so.1");
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void test_the_limit_may_belong_to_a_parent_group(void **state) {
    (void)state;
    char root[64] = "/tmp/braid-test-XXXXXX", path[128], self[128];
    assert_non_null(mkdtemp(root));
    const char *const folders[] = {"/a", "/a/b", "/memory", "/memory/c"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    const char *const files[][2] = {{"/a/memory.max", "268435456\n"}, {"/a/b/memory.max", "max\n"}, {"/a/b/memory.events", "low 0\nhigh 7\nmax 3\noom 4\noom_kill 2\noom_group_kill 0\n"},
                                    {"/memory/c/memory.limit_in_bytes", "9223372036854771712\n"}, {"/memory/c/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"}};
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s%s", root, files[i][0]);
        write_file(path, files[i][1]);
    }
    cause_memory memory;
    snprintf(self, sizeof self, "%s/self", root);
    write_file(self, "0::/a/b\n");
    cause_memory_read(self, root, &memory);
    assert_int_equal(memory.limit, 268435456);
    assert_int_equal(memory.oom_kills, 2);
    write_file(self, "9:name=systemd:/x\n4:memory:/c\n");
    cause_memory_read(self, root, &memory);
    assert_true(memory.limit == UINT64_MAX);
    assert_int_equal(memory.oom_kills, 5);
    cause_memory_read("/nowhere", root, &memory);
    assert_true(memory.limit == UINT64_MAX && memory.oom_kills == 0);
    unlink(self);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s%s", root, files[i][0]);
        unlink(path);
    }
    for (int i = 3; i >= 0; i--) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        rmdir(path);
    }
    assert_int_equal(rmdir(root), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delays_grow_until_restarts_stop),
        cmocka_unit_test(test_a_long_lifetime_resets_the_count),
        cmocka_unit_test(test_a_long_lifetime_without_work_counts),
        cmocka_unit_test(test_losses_without_a_death_do_not_count),
        cmocka_unit_test(test_a_cause_is_named),
        cmocka_unit_test(test_the_limit_may_belong_to_a_parent_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
