// The cache gives the written ids back, and every kind of damage is noticed.
#include "base/rng.h"
#include "data/cache.h"
#include "data/cache_inside.h"

#include "data_files.h"

enum { DOCUMENTS = 3000, MAX_IDS = 400000 };

static uint32_t ids[MAX_IDS];
static uint64_t ends[DOCUMENTS];
static const braid_hash key = {{1, 2, 3}}, other_key = {{4}};

static void write_cache(const char *path, uint32_t width, cache_summary *about) {
    cache_writer *w = NULL;
    braid_error error;
    rng r = {9};
    uint64_t at = 0;
    if (cache_writer_new(path, width, &w, &error)) fail_msg("%s", error.text);
    assert_int_equal(cache_end_document(w, &error), BRAID_OK);  // one without tokens does not count
    for (uint32_t d = 0; d < DOCUMENTS; d++) {
        uint64_t count = 1 + rng_below(&r, 200), first = rng_below(&r, count);
        for (uint64_t i = 0; i < count; i++)
            ids[at + i] = (uint32_t)rng_below(&r, width == 1 ? 200 : width == 2 ? 60000 : 3000000);
        cache_put(w, ids + at, (size_t)first);
        cache_put(w, ids + at + first, (size_t)(count - first));
        ends[d] = at += count;
        assert_int_equal(cache_end_document(w, &error), BRAID_OK);
    }
    *about = (cache_summary){.key = key, .text_bytes = 12345, .rows_without = 3};
    if (cache_writer_end(w, about, &error)) fail_msg("%s", error.text);
}

static void assert_holds(cache *c) {
    int32_t *got = malloc(MAX_IDS * sizeof *got);
    rng r = {4};
    assert_non_null(got);
    const cache_summary *about = cache_about(c);
    assert_int_equal(about->documents, DOCUMENTS);
    assert_int_equal(about->tokens, ends[DOCUMENTS - 1]);
    assert_int_equal(about->text_bytes, 12345);
    assert_memory_equal(cache_ends(c), ends, sizeof ends);
    for (int i = 0; i < 200; i++) {
        uint64_t at = rng_below(&r, about->tokens);
        uint32_t count = (uint32_t)rng_below(&r, about->tokens - at < 3000 ? about->tokens - at + 1 : 3000);
        assert_true(cache_read(c, at, count, got));
        for (uint32_t k = 0; k < count; k++) assert_int_equal(got[k], ids[at + k]);
    }
    free(got);
}

static void ids_come_back(void **state) {
    static const uint32_t widths[] = {1, 2, 4};
    braid_hash content[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char path[DATA_PATH];
        cache_summary about, again;
        cache *c = NULL;
        braid_error error;
        write_cache(data_path("a.tokens", path), widths[i], &about);
        if (cache_open(path, &key, &c, &error)) fail_msg("%s", error.text);
        assert_holds(c);
        assert_memory_equal(&cache_about(c)->content, &about.content, sizeof about.content);
        cache_close(c);
        write_cache(path, widths[i], &again);
        assert_memory_equal(&again.content, &about.content, sizeof about.content);
        content[i] = about.content;
        assert_int_equal(cache_open(path, &other_key, &c, &error), BRAID_FORMAT);
    }
    assert_memory_not_equal(&content[0], &content[1], sizeof content[0]);
}

static void set_byte(const char *path, long at, int flip) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int byte = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_true(fputc(byte ^ flip, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

// True if opening or reading all of it fails.
static bool is_refused(const char *path) {
    cache *c = NULL;
    braid_error error;
    int32_t *got = malloc(MAX_IDS * sizeof *got);
    assert_non_null(got);
    braid_err err = cache_open(path, &key, &c, &error);
    bool refused = err || !cache_read(c, 0, (uint32_t)cache_about(c)->tokens, got);
    if (err) assert_true(err == BRAID_FORMAT || err == BRAID_IO);
    cache_close(c);
    free(got);
    return refused;
}

static void damage_is_noticed(void **state) {
    char path[DATA_PATH];
    cache_summary about;
    struct stat info;
    rng r = {6};
    (void)state;
    write_cache(data_path("b.tokens", path), 2, &about);
    assert_false(is_refused(path));
    assert_int_equal(stat(path, &info), 0);
    for (int i = 0; i < 300; i++) {
        long at = i % 3 == 0 ? (long)rng_below(&r, sizeof(cache_header))
                             : CACHE_HEADER_BYTES + (long)rng_below(&r, (uint64_t)info.st_size - CACHE_HEADER_BYTES);
        int flip = 1 << rng_below(&r, 8);
        set_byte(path, at, flip);
        if (!is_refused(path)) fail_msg("byte %ld", at);
        set_byte(path, at, flip);
    }
    assert_false(is_refused(path));
    for (int i = 1; i < 5; i++) {
        assert_int_equal(truncate(path, info.st_size / 5 * i), 0);
        assert_true(is_refused(path));
    }
    assert_int_equal(truncate(path, 0), 0);
    assert_true(is_refused(path));
}

static void an_abandoned_file_is_gone(void **state) {
    char path[DATA_PATH];
    cache_writer *w = NULL;
    cache *c = NULL;
    braid_error error;
    const uint32_t one = 1;
    (void)state;
    data_path("c.tokens", path);
    assert_int_equal(cache_writer_new(path, 2, &w, &error), BRAID_OK);
    cache_put(w, &one, 1);
    cache_writer_abort(w);
    assert_int_equal(cache_open(path, &key, &c, &error), BRAID_IO);
    assert_int_equal(access(data_path("c.tokens.part", path), F_OK), -1);
    assert_int_equal(cache_writer_new("/proc/none/c.tokens", 2, &w, &error), BRAID_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_come_back),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(an_abandoned_file_is_gone),
    };
    return cmocka_run_group_tests(tests, data_setup, data_teardown);
}
