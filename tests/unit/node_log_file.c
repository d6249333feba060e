// The log's file: synced data is read back, a torn tail is truncated, and a damaged or foreign file
// is refused.
#include "base/sha256.h"
#include "node/log_file.h"
#include "node/log_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], path[96];
static const braid_hash run_a = {{1, 2, 3}}, run_b = {{1, 2, 4}};
static const uint64_t start_a = 5;

static int set_up(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "braid-test-XXXXXX");
    char *made = mkdtemp(directory);
    snprintf(path, sizeof path, "%s/log", directory);
    return made ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static log_entry entry_make(uint64_t index) {
    log_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.index = index;
    entry.term = 1;
    entry.kind = LOG_EXPEL;
    entry.u.expel = (log_expel){.member = index * 7, .reason = EXPEL_DEAD};
    return entry;
}

static bool expect_next(void *context, const log_entry *entry) {
    uint64_t *next = context;
    assert_int_equal(entry->index, *next);
    assert_int_equal(entry->kind, LOG_EXPEL);
    assert_int_equal(entry->u.expel.member, *next * 7);
    ++*next;
    return true;
}

static void write_entries(uint64_t first, uint64_t count) {
    log_file *log = NULL;
    braid_error error = {0};
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, &error), BRAID_OK);
    for (uint64_t i = 0; i < count; i++) {
        log_entry entry = entry_make(first + i);
        assert_int_equal(log_file_append(log, &entry, &error), BRAID_OK);
    }
    assert_int_equal(log_file_sync(log, &error), BRAID_OK);
    log_file_close(log);
}

static off_t size_of(void) {
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

// Opens the file and expects the entries 1 .. count.
static log_file_found expect_entries(uint64_t count) {
    log_file *log = NULL;
    log_file_found found;
    uint64_t next = 1;
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, &found, NULL), BRAID_OK);
    log_file_recall(log, expect_next, &next);
    assert_int_equal(found.entries, count);
    assert_int_equal(next, count + 1);
    log_file_close(log);
    return found;
}

static void what_was_synced_is_read_back(void **state) {
    (void)state;
    write_entries(1, 10);
    write_entries(11, 5);
    assert_int_equal(expect_entries(15).cut_bytes, 0);
}

static void every_torn_tail_is_cut(void **state) {
    (void)state;
    write_entries(1, 2);
    off_t two = size_of();
    write_entries(3, 1);
    off_t three = size_of();
    for (off_t size = three - 1; size > two; size--) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(expect_entries(2).cut_bytes, size - two);
        assert_int_equal(size_of(), two);
        write_entries(3, 1);
        assert_int_equal(size_of(), three);
        expect_entries(3);
    }
    assert_int_equal(truncate(path, 5), 0);  // torn in its first line: nothing was promised yet
    expect_entries(0);
}

static void flip_byte(off_t at) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, (long)at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, (long)at, SEEK_SET);
    fputc(byte ^ 0x40, file);
    assert_int_equal(fclose(file), 0);
}

static void expect_refused(const braid_hash *run, const char *words) {
    log_file *log = NULL;
    braid_error error = {0};
    off_t before = size_of();
    assert_int_not_equal(log_file_open(path, run, start_a, &log, NULL, &error), BRAID_OK);
    assert_non_null(strstr(error.text, words));
    assert_non_null(strstr(error.text, path));
    assert_int_equal(size_of(), before);
}

static void damage_before_the_end_is_refused(void **state) {
    (void)state;
    write_entries(1, 1);
    off_t one = size_of();
    write_entries(2, 3);
    write_entries(5, 1);  // started when those were on the disk
    flip_byte(one + 20);
    expect_refused(&run_a, "damaged");
}

static void lose_bytes(off_t at, off_t count) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, (long)at, SEEK_SET);
    for (off_t i = 0; i < count; i++) fputc(0, file);
    assert_int_equal(fclose(file), 0);
}

// The disk writes the sectors of unsynced data in any order.
static void a_power_cut_amid_a_batch_is_a_torn_tail(void **state) {
    (void)state;
    enum { PROMISED = 30, BATCH = 40, SECTOR = 512 };
    write_entries(1, PROMISED);
    off_t promised = size_of();
    write_entries(PROMISED + 1, BATCH);
    off_t all = size_of();
    assert_true(all - promised > 2 * SECTOR);
    for (off_t lost = promised / SECTOR * SECTOR; lost < all; lost += SECTOR) {
        off_t from = lost < promised ? promised : lost, end = lost + SECTOR < all ? lost + SECTOR : all;
        lose_bytes(from, end - from);
        log_file_found found = expect_entries(PROMISED + (uint64_t)((from - promised) / ((all - promised) / BATCH)));
        write_entries(found.entries + 1, PROMISED + BATCH - found.entries);
        assert_int_equal(size_of(), all);
        expect_entries(PROMISED + BATCH);
    }
}

static void a_damaged_header_is_refused(void **state) {
    (void)state;
    enum { MAGIC_AND_VERSION = 12, HEADER = 64 };
    write_entries(1, 2);
    for (int i = MAGIC_AND_VERSION; i < HEADER; i++) {
        flip_byte(i);
        expect_refused(&run_a, "damaged in its first 64 bytes");
        flip_byte(i);
    }
    FILE *file = fopen(path, "r+");  // as older versions wrote it
    assert_non_null(file);
    assert_true(fseek(file, MAGIC_AND_VERSION, SEEK_SET) == 0 && fwrite("\0\0\0", 4, 1, file) == 1 && fclose(file) == 0);
    expect_entries(2);
}

// Written by a version with another layout: nothing in it is torn, and it may have been acted on.
static void an_unknown_last_record_is_refused(void **state) {
    (void)state;
    enum { LENGTH = 9, HEAD = 16 };
    uint8_t record[HEAD + LENGTH] = {LENGTH, 0, 0, 0, (uint8_t)~LENGTH, 0xff, 0xff, 0xff};
    memset(record + HEAD, 0xee, LENGTH);
    uint64_t checksum = sha256_short(record + HEAD, LENGTH);
    for (int i = 0; i < 8; i++) record[8 + i] = (uint8_t)(checksum >> (8 * i));
    write_entries(1, 2);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_int_equal(fwrite(record, sizeof record, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    expect_refused(&run_a, "damaged");
}

static void a_damaged_last_record_is_a_torn_one(void **state) {
    (void)state;
    write_entries(1, 2);
    off_t two = size_of();
    write_entries(3, 1);
    flip_byte(size_of() - 1);
    assert_true(expect_entries(2).cut_bytes > 0);
    assert_int_equal(size_of(), two);
}

static void a_foreign_file_is_refused(void **state) {
    (void)state;
    write_entries(1, 1);
    expect_refused(&run_b, "another run");
    flip_byte(0);
    expect_refused(&run_a, "not a log");
}

static void two_leaders_cannot_share_it(void **state) {
    (void)state;
    log_file *log = NULL;
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    expect_refused(&run_a, "in use");
    log_file_close(log);
    expect_entries(0);
}

static void write_one(log_file *log, log_entry entry) {
    braid_error error = {0};
    assert_int_equal(log_file_append(log, &entry, &error), BRAID_OK);
    assert_int_equal(log_file_sync(log, &error), BRAID_OK);
}

typedef struct recalled {
    uint32_t count, most;
    uint8_t kind[16];
    uint64_t index[16];
} recalled;

static bool note_record(void *context, const log_entry *entry) {
    recalled *r = context;
    assert_true(r->count < 16);
    r->kind[r->count] = entry->kind;
    r->index[r->count++] = entry->index;
    return r->count != r->most;
}

static recalled recall_all(uint64_t start, uint64_t *store) {
    log_file *log = NULL;
    log_file_found found;
    recalled r = {.count = 0};
    assert_int_equal(log_file_open(path, &run_a, start, &log, &found, NULL), BRAID_OK);
    log_file_recall(log, note_record, &r);
    log_file_close(log);
    *store = found.store;
    return r;
}

// A snapshot with its state replaces everything before it except the votes; an incomplete snapshot
// is ignored.
static void a_base_counts_with_all_of_its_state(void **state) {
    (void)state;
    log_file *log = NULL;
    uint64_t store, same;
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    write_one(log, (log_entry){.kind = LOG_VOTE, .term = 3});
    write_one(log, entry_make(1));
    write_one(log, (log_entry){.kind = LOG_BASE, .index = 7, .u.base = {.applied = 8, .entries = 2, .voters = {.count = 1}}});
    write_one(log, entry_make(2));
    log_file_close(log);
    recalled torn = recall_all(start_a, &store);
    assert_int_equal(torn.count, 2);
    assert_int_equal(torn.kind[1], LOG_EXPEL);
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    write_one(log, (log_entry){.kind = LOG_BASE, .index = 7, .u.base = {.applied = 8, .entries = 2, .voters = {.count = 1}}});
    for (uint64_t i = 2; i <= 4; i++) write_one(log, entry_make(i));
    log_file_close(log);
    recalled whole = recall_all(start_a, &same);
    assert_int_equal(store, same);
    assert_int_equal(whole.count, 5);
    assert_int_equal(whole.kind[0], LOG_VOTE);
    assert_int_equal(whole.kind[1], LOG_BASE);
    assert_int_equal(whole.index[4], 4);
}

// More entries than are kept, and then a snapshot.
static void write_long(log_file *log, uint64_t first) {
    enum { ENTRIES = 3000 };
    braid_error error = {0};
    for (uint64_t i = 0; i < ENTRIES; i++) {
        log_entry entry = i == ENTRIES / 2 ? (log_entry){.kind = LOG_VOTE, .term = first} : entry_make(first + i);
        assert_int_equal(log_file_append(log, &entry, &error), BRAID_OK);
    }
    assert_int_equal(log_file_sync(log, &error), BRAID_OK);
    write_one(log, (log_entry){.kind = LOG_BASE, .index = first + ENTRIES, .u.base = {.applied = first + ENTRIES, .entries = 2, .voters = {.count = 1}}});
    assert_true(size_of() > 64 << 10);
    write_one(log, entry_make(5));
    assert_true(size_of() > 64 << 10);  // the state is incomplete
    write_one(log, entry_make(6));
}

static void expect_short(uint64_t base) {
    uint64_t store;
    recalled all = recall_all(start_a, &store);
    static const uint8_t kinds[] = {LOG_VOTE, LOG_BASE, LOG_EXPEL, LOG_EXPEL, LOG_EXPEL};
    assert_int_equal(all.count, 5);
    assert_memory_equal(all.kind, kinds, sizeof kinds);
    assert_int_equal(all.index[1], base);
    assert_int_equal(all.index[4], base + 1);
}

static void a_long_log_is_begun_anew(void **state) {
    (void)state;
    log_file *log = NULL;
    char other[sizeof path + 4];
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    write_long(log, 1);
    assert_true(size_of() < 1024);
    expect_refused(&run_a, "in use");  // also the new one
    write_one(log, entry_make(3002));
    snprintf(other, sizeof other, "%s.new", path);
    assert_int_not_equal(access(other, F_OK), 0);
    log_file_close(log);
    expect_short(3001);
    // reopened, and long again
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    write_long(log, 4000);
    assert_true(size_of() < 1024);
    write_one(log, entry_make(7001));
    log_file_close(log);
    expect_short(7000);
}

static void where_no_other_can_be_made_it_stays_long(void **state) {
    (void)state;
    log_file *log = NULL;
    char other[sizeof path + 4];
    snprintf(other, sizeof other, "%s.new", path);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    write_long(log, 1);
    assert_true(size_of() > 64 << 10);
    write_one(log, entry_make(3002));
    log_file_close(log);
    expect_short(3001);
    assert_int_equal(rmdir(other), 0);
}

static void a_log_of_another_start_is_kept_aside(void **state) {
    (void)state;
    char old[sizeof path + 4];
    uint64_t store, other;
    write_entries(1, 3);
    assert_int_equal(recall_all(start_a, &store).count, 3);
    assert_int_equal(recall_all(start_a + 1, &other).count, 0);
    assert_int_not_equal(store, other);
    snprintf(old, sizeof old, "%s.old", path);
    assert_int_equal(unlink(old), 0);
}

static void a_retired_log_is_kept_aside(void **state) {
    (void)state;
    char old[sizeof path + 4];
    bool there;
    uint64_t start;
    braid_error error;
    write_entries(1, 3);
    assert_int_equal(log_file_retire(path, &error), BRAID_OK);
    assert_int_equal(log_file_look(path, &run_a, &there, &start, NULL), BRAID_OK);
    assert_false(there);
    snprintf(old, sizeof old, "%s.old", path);
    assert_int_equal(unlink(old), 0);
    assert_int_equal(log_file_retire(path, &error), BRAID_IO);
    assert_non_null(strstr(error.text, path));
}

// A reader that has seen contradicting entries stops, and gets no more of them.
static void what_is_recalled_can_be_refused(void **state) {
    (void)state;
    log_file *log = NULL;
    recalled r = {.most = 2};
    write_entries(1, 5);
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    log_file_recall(log, note_record, &r);
    log_file_close(log);
    assert_int_equal(r.count, 2);
}

// A path of the system's maximum length is never truncated: neither the log's nor the one that it
// is moved to.
static void a_long_path_is_kept_whole(void **state) {
    (void)state;
    enum { DEEP = 6, NAME = 200 };
    char name[NAME + 1], long_path[DEEP * (NAME + 1) + 8], old[sizeof long_path + 4];
    log_file *log = NULL;
    size_t used = (size_t)snprintf(long_path, sizeof long_path, "%s", directory);
    memset(name, 'd', NAME);
    name[NAME] = '\0';
    for (int i = 1; i < DEEP; i++) {
        used += (size_t)snprintf(long_path + used, sizeof long_path - used, "/%s", name);
        assert_int_equal(mkdir(long_path, 0700), 0);
    }
    snprintf(long_path + used, sizeof long_path - used, "/log");
    snprintf(old, sizeof old, "%s.old", long_path);
    for (uint64_t start = 1; start <= 2; start++) {
        assert_int_equal(log_file_open(long_path, &run_a, start, &log, NULL, NULL), BRAID_OK);
        log_file_close(log);
    }
    assert_int_equal(unlink(old), 0);
    assert_int_equal(unlink(long_path), 0);
    for (int i = 1; i < DEEP; i++) {
        *strrchr(long_path, '/') = '\0';
        assert_int_equal(rmdir(long_path), 0);
    }
}

typedef struct writing {
    uv_loop_t loop;
    log_writer *writer;
    uint64_t next, wanted;
} writing;

static void committed(void *context, const log_entry *entry) {
    writing *w = context;
    (void)expect_next(&w->next, entry);
    if (w->next <= 60) {  // an append from within the callback
        log_entry more = entry_make(w->next + 39);
        log_writer_append(w->writer, &more, false);
    }
    if (w->next == w->wanted) log_writer_close(w->writer);
}

static void failed(void *context, const braid_error *error) {
    (void)context;
    fail_msg("%s", error->text);
}

static void entries_are_committed_in_order(void **state) {
    (void)state;
    writing w = {.next = 1, .wanted = 100};
    log_file *log = NULL;
    uv_loop_init(&w.loop);
    assert_int_equal(log_file_open(path, &run_a, start_a, &log, NULL, NULL), BRAID_OK);
    assert_int_equal(log_writer_new(&w.loop, log, committed, failed, &w, &w.writer, NULL), BRAID_OK);
    for (uint64_t i = 1; i <= 40; i++) {
        log_entry entry = entry_make(i);
        log_writer_append(w.writer, &entry, false);
    }
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.next, w.wanted);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    assert_int_equal(expect_entries(99).last_index, 99);
}

static log_file *open_unkept(uint64_t *store) {
    log_file *log = NULL;
    log_file_found found;
    braid_error error = {0};
    assert_int_equal(log_file_open_unkept(&log, &found, &error), BRAID_OK);
    *store = found.store;
    return log;
}

static int next_descriptor(void) {
    int fd = dup(0);
    assert_int_equal(close(fd), 0);
    return fd;
}

// A log without a file needs no descriptor, no directory and no iteration of the loop. It never
// reports from within an append.
static void a_log_without_a_file_waits_for_no_disk(void **state) {
    (void)state;
    writing w = {.next = 1, .wanted = 100};
    recalled all = {.count = 0};
    uint64_t store, other;
    assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
    int descriptor = next_descriptor();
    log_file_close(open_unkept(&other));
    log_file *log = open_unkept(&store);
    assert_int_equal(next_descriptor(), descriptor);
    assert_int_not_equal(store, other);
    log_file_recall(log, note_record, &all);
    assert_int_equal(all.count, 0);
    uv_loop_init(&w.loop);
    assert_int_equal(log_writer_new(&w.loop, log, committed, failed, &w, &w.writer, NULL), BRAID_OK);
    for (uint64_t i = 1; i <= 40; i++) {
        log_entry entry = entry_make(i);
        log_writer_append(w.writer, &entry, false);
    }
    assert_int_equal(w.next, 1);
    log_writer_deliver(w.writer);  // the last callback closes it
    assert_int_equal(w.next, w.wanted);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static void a_look_changes_nothing(void **state) {
    (void)state;
    bool there = true;
    uint64_t start = 0;
    braid_error error = {0};
    assert_int_equal(log_file_look(path, &run_a, &there, &start, &error), BRAID_OK);
    assert_false(there);
    assert_int_not_equal(access(path, F_OK), 0);
    write_entries(1, 3);
    off_t before = size_of();
    assert_int_equal(log_file_look(path, &run_a, &there, &start, &error), BRAID_OK);
    assert_true(there);
    assert_int_equal(start, start_a);
    assert_int_equal(log_file_look(path, &run_b, &there, &start, &error), BRAID_FORMAT);
    assert_false(there);
    assert_non_null(strstr(error.text, "another run"));
    assert_int_equal(size_of(), before);
    assert_int_equal(truncate(path, 5), 0);  // torn in its first line
    assert_int_equal(log_file_look(path, &run_a, &there, &start, &error), BRAID_OK);
    assert_false(there);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_synced_is_read_back), TEST(every_torn_tail_is_cut),
        TEST(damage_before_the_end_is_refused), TEST(a_power_cut_amid_a_batch_is_a_torn_tail), TEST(a_damaged_header_is_refused), TEST(a_damaged_last_record_is_a_torn_one), TEST(an_unknown_last_record_is_refused),
        TEST(a_foreign_file_is_refused), TEST(two_leaders_cannot_share_it),
        TEST(a_base_counts_with_all_of_its_state), TEST(a_long_log_is_begun_anew),
        TEST(where_no_other_can_be_made_it_stays_long), TEST(a_log_without_a_file_waits_for_no_disk),
        TEST(a_log_of_another_start_is_kept_aside), TEST(a_retired_log_is_kept_aside),
        TEST(what_is_recalled_can_be_refused), TEST(a_long_path_is_kept_whole),
        TEST(entries_are_committed_in_order), TEST(a_look_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
