// One run per directory, and a run does not start over newer versions.
#include "train/checkpoint_claim.h"

#include "train/checkpoint_directory.h"
#include "train/checkpoint_manifest.h"
#include "train_tiny.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

// Replaces the C library's function: a file system without locks.
static bool locks = true;
int flock(int fd, int operation) {
    if (locks) return (int)syscall(SYS_flock, fd, operation);
    errno = ENOLCK;
    return -1;
}

static const braid_hash own = {{1}}, other = {{2}};
static char root[64], directory[80], noted[1024];

static int set_up(void **state) {
    (void)state;
    locks = true;
    noted[0] = 0;
    tiny_directory(root);
    snprintf(directory, sizeof directory, "%s/saved", root);
    assert_int_equal(mkdir(directory, 0777), 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tiny_remove(root);
    return 0;
}

static void keep_note(void *context, const char *text) {
    (void)context;
    snprintf(noted, sizeof noted, "%s", text);
}

static void put_step(uint64_t version, const braid_hash *run) {
    char path[160], file[200];
    manifest *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->version = version;
    m->run = *run;
    snprintf(path, sizeof path, "%s/" CHECKPOINT_STEP, directory, version);
    snprintf(file, sizeof file, "%s/" MANIFEST_FILE, path);
    assert_int_equal(mkdir(path, 0777), 0);
    char *text = manifest_text(m, NULL);
    tiny_file(file, text, strlen(text));
    free(text);
    free(m);
}

static checkpoint_start start_of(uint64_t version, const char *from) {
    return (checkpoint_start){.directory = directory, .run = own, .version = version, .from = from, .note = keep_note};
}

static int claim(const checkpoint_start *start) {
    int lock;
    braid_error error = {0};
    if (checkpoint_claim(start, &lock, &error)) fail_msg("%s", error.text);
    return lock;
}

static bool lock_file_is_there(void) {
    char path[100];
    snprintf(path, sizeof path, "%s/braid.lock", directory);
    return access(path, F_OK) == 0;
}

static void expect_claimed(const checkpoint_start *start) {
    int lock = claim(start);
    assert_true(lock >= 0 && lock_file_is_there());
    checkpoint_release(directory, lock);
    assert_false(lock_file_is_there());
}

static void expect_refused(const checkpoint_start *start, const char *const *says) {
    int lock;
    braid_error error = {0};
    if (!checkpoint_claim(start, &lock, &error)) fail_msg("accepted, without '%s'", says[0]);
    assert_int_equal(error.code, BRAID_STATE);
    assert_int_equal(lock, -1);
    for (; *says; says++)
        if (!strstr(error.text, *says)) fail_msg("'%s' does not say '%s'", error.text, *says);
}

static const char *const newer_own[] = {"has iteration 12 of this run", "--resume", "--anew", NULL};
static const char *const newer_other[] = {"has iteration 12 of another run (020000000000)", "--resume", "--anew",
                                          "choose another directory", NULL};

static void test_newer_versions_refuse_a_start(void **state) {
    (void)state;
    checkpoint_start anew = start_of(0, NULL);
    expect_claimed(&anew);
    put_step(0, &own);  // stopped before its first iteration: nothing is lost
    expect_claimed(&anew);
    put_step(12, &own);
    expect_refused(&anew, newer_own);
    anew.run = other;
    anew.run.bytes[0] = 1;
    anew.run.bytes[1] = 9;
    expect_refused(&anew, (const char *const[]){"has iteration 12 of another run (010000000000)", NULL});
}

static void test_versions_of_another_run_refuse_a_start(void **state) {
    (void)state;
    put_step(4, &own);
    put_step(12, &other);
    checkpoint_start anew = start_of(0, NULL);
    expect_refused(&anew, newer_other);
    char from[160];
    snprintf(from, sizeof from, "%s/step-000004", directory);
    checkpoint_start older = start_of(4, from);  // it would overwrite a version of the other run
    expect_refused(&older, newer_other);
    snprintf(from, sizeof from, "%s/step-000012", directory);
    checkpoint_start newest = start_of(12, from);
    expect_claimed(&newest);
    assert_string_equal(noted, "");
}

static void test_an_older_version_may_be_chosen(void **state) {
    (void)state;
    char from[160];
    put_step(4, &own);
    put_step(12, &own);
    snprintf(from, sizeof from, "%s/step-000004", directory);
    checkpoint_start older = start_of(4, from);
    expect_claimed(&older);
    assert_non_null(strstr(noted, "has iteration 12 of this run, which is newer"));
    checkpoint_start elsewhere = start_of(4, root);  // the same command again, after a crash
    expect_refused(&elsewhere, newer_own);
}

static void test_a_start_from_the_newest_refuses_one_that_came_meanwhile(void **state) {
    (void)state;
    char from[160];
    put_step(4, &own);
    snprintf(from, sizeof from, "%s/step-000004", directory);
    checkpoint_start newest = start_of(4, from);
    newest.newest = true;
    expect_claimed(&newest);
    put_step(12, &own);  // by a process of the same run that was about to end
    expect_refused(&newest, newer_own);
}

static void test_restart_sets_newer_versions_aside(void **state) {
    (void)state;
    char aside[160];
    put_step(4, &own);
    put_step(12, &other);
    checkpoint_start anew = start_of(0, NULL);
    anew.anew = true;
    expect_claimed(&anew);
    assert_non_null(strstr(noted, "2 newer checkpoints were moved to '"));
    assert_non_null(strstr(noted, "set-aside-1"));
    snprintf(aside, sizeof aside, "%s/set-aside-1/step-000012/" MANIFEST_FILE, directory);
    assert_int_equal(access(aside, R_OK), 0);
    noted[0] = 0;
    expect_claimed(&anew);
    assert_string_equal(noted, "");
}

static void test_a_run_resumed_from_its_log_accepts_its_versions(void **state) {
    (void)state;
    put_step(12, &own);
    checkpoint_start on = start_of(0, NULL);
    on.goes_on = true;
    expect_claimed(&on);
}

static pid_t hold_elsewhere(const braid_hash *run) {
    pid_t child = fork();
    if (child == 0) {
        checkpoint_start start = start_of(0, NULL);
        start.run = *run;
        claim(&start);
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static void kill_it(pid_t child) {
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void test_a_second_run_is_refused_until_the_first_one_ends(void **state) {
    (void)state;
    char process[64];
    pid_t child = hold_elsewhere(&own);
    snprintf(process, sizeof process, "process %ld on ", (long)child);
    checkpoint_start start = start_of(0, NULL);
    expect_refused(&start, (const char *const[]){process, "end it first", "choose another directory", NULL});
    kill_it(child);
    expect_claimed(&start);
    assert_string_equal(noted, "");
}

static void test_another_peer_of_the_run_may_save(void **state) {
    (void)state;
    int lock;
    pid_t child = hold_elsewhere(&own);
    assert_int_equal(checkpoint_claim_to_save(directory, &own, &lock, NULL), BRAID_OK);
    assert_int_equal(lock, -1);
    assert_int_equal(checkpoint_claim_to_save(directory, &other, &lock, NULL), BRAID_STATE);
    checkpoint_start on = start_of(0, NULL);
    on.goes_on = true;
    assert_int_equal(claim(&on), -1);
    kill_it(child);
    assert_int_equal(checkpoint_claim_to_save(directory, &other, &lock, NULL), BRAID_OK);
    checkpoint_release(directory, lock);
}

// On a full disk the lock file is empty, and must not keep the run's own peers from saving.
static void test_an_unnamed_lock_is_not_another_runs(void **state) {
    (void)state;
    char path[100];
    pid_t child = hold_elsewhere(&other);
    snprintf(path, sizeof path, "%s/braid.lock", directory);
    assert_int_equal(truncate(path, 0), 0);
    int lock;
    assert_int_equal(checkpoint_claim_to_save(directory, &own, &lock, NULL), BRAID_OK);
    assert_int_equal(lock, -1);
    checkpoint_start start = start_of(0, NULL);
    expect_refused(&start, (const char *const[]){"another process saves a run into", NULL});
    kill_it(child);
}

static void test_a_file_system_without_locks_is_noted(void **state) {
    (void)state;
    locks = false;
    checkpoint_start start = start_of(0, NULL);
    assert_int_equal(claim(&start), -1);
    assert_non_null(strstr(noted, "cannot be locked"));
    assert_non_null(strstr(noted, "no other run"));
    assert_false(lock_file_is_there());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_newer_versions_refuse_a_start),
        TEST(test_versions_of_another_run_refuse_a_start),
        TEST(test_an_older_version_may_be_chosen),
        TEST(test_restart_sets_newer_versions_aside),
        TEST(test_a_run_resumed_from_its_log_accepts_its_versions),
        TEST(test_a_start_from_the_newest_refuses_one_that_came_meanwhile),
        TEST(test_a_second_run_is_refused_until_the_first_one_ends),
        TEST(test_another_peer_of_the_run_may_save),
        TEST(test_an_unnamed_lock_is_not_another_runs),
        TEST(test_a_file_system_without_locks_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
