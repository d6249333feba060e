// Caches of sources: made once, found again, made anew when a source changes; the ids do not depend
// on threads or parts.
#include "base/rng.h"
#include "data/build.h"
#include "data/documents.h"
#include "data/ends.h"

#include "data_files.h"

#include <sys/wait.h>

static tokenizer *gpt2;
static char cache_place[DATA_PATH];

typedef struct notes {
    char text[4096];
    int tokenised;
} notes;

static void take_note(void *context, const char *text) {
    notes *n = context;
    if (strncmp(text, "tokenised", 9) == 0) n->tokenised++;
    strncat(n->text, text, sizeof n->text - strlen(n->text) - 1);
}

static bool stop_wanted;

static bool is_stopped(void *context) {
    (void)context;
    return stop_wanted;
}

static data_source source_of(const char *const *paths, uint32_t count, const tokenizer *t, notes *n) {
    memset(n, 0, sizeof *n);
    return (data_source){.paths = paths,
                         .count = count,
                         .field = "text",
                         .tokenizer = t,
                         .end = t ? "<|endoftext|>" : NULL,
                         .directory = cache_place,
                         .threads = 1,
                         .host = {.context = n, .note = take_note, .stopped = is_stopped}};
}

static cache *get(const data_source *s) {
    cache *c = NULL;
    braid_error error = {0};
    if (data_cache_get(s, &c, &error)) fail_msg("%s", error.text);
    return c;
}

static void assert_ids(cache *c, const int32_t *ids, size_t count) {
    int32_t got[256];
    assert_int_equal(cache_about(c)->tokens, count);
    assert_true(cache_read(c, 0, (uint32_t)count, got));
    for (size_t i = 0; i < count; i++) assert_int_equal(got[i], ids[i]);
}

static void bytes_are_ids(void **state) {
    static const int32_t expected[] = {'a', 'b', 0, 'c', 0, 'd', 0xc3, 0xa4, 0};
    char paths[2][DATA_PATH];
    const char *list[] = {paths[0], paths[1]};
    notes n;
    (void)state;
    data_text("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"\"}\n{\"text\": \"c\"}\n", paths[0]);
    data_text("b.txt", "d\xc3\xa4", paths[1]);
    const data_source s = source_of(list, 2, NULL, &n);
    cache *c = get(&s);
    assert_ids(c, expected, 9);
    assert_int_equal(cache_about(c)->documents, 3);
    assert_int_equal(cache_about(c)->text_bytes, 6);
    assert_non_null(strstr(n.text, "1 of 3 rows have no text"));
    cache_close(c);
}

static void a_cache_is_made_once(void **state) {
    char path[DATA_PATH], first[DATA_PATH];
    const char *list[] = {path};
    notes n;
    (void)state;
    data_text("once.txt", "one text", path);
    const data_source s = source_of(list, 1, gpt2, &n);
    cache *c = get(&s);
    braid_hash content = cache_about(c)->content;
    snprintf(first, sizeof first, "%s", cache_path(c));
    cache_close(c);
    cache_close(get(&s));
    assert_int_equal(n.tokenised, 1);
    // another content, another cache
    data_text("once.txt", "one other text", path);
    c = get(&s);
    assert_int_equal(n.tokenised, 2);
    assert_memory_not_equal(&content, &cache_about(c)->content, sizeof content);
    assert_string_not_equal(first, cache_path(c));
    snprintf(first, sizeof first, "%s", cache_path(c));
    cache_close(c);
    // a damaged one is made anew
    assert_int_equal(truncate(first, 5000), 0);
    c = get(&s);
    assert_int_equal(n.tokenised, 3);
    assert_non_null(strstr(n.text, "damaged"));
    cache_close(c);
}

static void bad_sources_are_refused(void **state) {
    char path[DATA_PATH];
    const char *list[] = {path};
    notes n;
    cache *c = NULL;
    braid_error error;
    (void)state;
    data_text("empty.txt", "", path);
    data_source s = source_of(list, 1, gpt2, &n);
    assert_int_equal(data_cache_get(&s, &c, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "no text"));
    data_text("bad.jsonl", "{\"text\": \"a\"}\n{\n", path);
    assert_int_equal(data_cache_get(&s, &c, &error), BRAID_FORMAT);
    assert_non_null(strstr(error.text, "line 2"));
    s.end = "<|nothing|>";
    assert_int_equal(data_cache_get(&s, &c, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "data.end"));
    data_text("file", "x", path);
    s = source_of(list, 1, gpt2, &n);
    s.directory = path;
    assert_int_equal(data_cache_get(&s, &c, &error), BRAID_IO);
    assert_non_null(strstr(error.text, "data.cache"));
}

// Lines of words and blanks, more than a part.
static size_t make_text(char *text, size_t room) {
    static const char *const words[] = {"the ", "river",      "  braids ", "and\n", "\n\n", "it's ",
                                        "1234", "\xc3\xa4h ", ".\n",       "x",     "\t",   " \n  "};
    rng r = {8};
    size_t n = 0;
    while (n + 16 < room) {
        const char *w = words[rng_below(&r, sizeof words / sizeof *words)];
        memcpy(text + n, w, strlen(w));
        n += strlen(w);
    }
    return n;
}

// The parts of a long text and the number of threads change nothing.
static void ids_are_those_of_the_whole_text(void **state) {
    size_t room = 5 * (size_t)DOCUMENTS_PART_BYTES / 2, count;
    char *text = malloc(room), path[DATA_PATH];
    const char *list[] = {path};
    tokenizer_encoder *e = tokenizer_encoder_new(gpt2);
    tokenizer_ids ids = {0};
    notes n;
    (void)state;
    count = make_text(text, room);
    assert_int_equal(tokenizer_encode(e, text, count, 0, &ids, NULL), BRAID_OK);
    for (unsigned threads = 1; threads <= 3; threads++) {
        char name[32];
        snprintf(name, sizeof name, "whole%u.txt", threads);
        data_write(name, text, count, path);
        data_source s = source_of(list, 1, gpt2, &n);
        s.threads = threads;
        cache *c = get(&s);
        int32_t *got = malloc((ids.count + 1) * sizeof *got);
        assert_int_equal(cache_about(c)->tokens, ids.count + 1);
        assert_true(cache_read(c, 0, (uint32_t)ids.count + 1, got));
        for (size_t i = 0; i < ids.count; i++)
            if (got[i] != (int32_t)ids.at[i]) fail_msg("id %zu is %d and not %u", i, got[i], ids.at[i]);
        assert_int_equal(got[ids.count], tokenizer_id(gpt2, "<|endoftext|>", 13));
        free(got);
        cache_close(c);
    }
    tokenizer_ids_free(&ids);
    tokenizer_encoder_free(e);
    free(text);
}

// A start that is stopped leaves no cache.
static void a_stop_leaves_nothing(void **state) {
    size_t count = 6 * (size_t)DOCUMENTS_PART_BYTES;
    char *text = malloc(count), path[DATA_PATH];
    const char *list[] = {path};
    notes n;
    cache *c = NULL;
    braid_error error;
    (void)state;
    count = make_text(text, count);
    data_write("stopped.txt", text, count, path);
    free(text);
    const data_source s = source_of(list, 1, NULL, &n);
    stop_wanted = true;
    assert_int_equal(data_cache_get(&s, &c, &error), BRAID_STATE);
    stop_wanted = false;
    assert_int_equal(n.tokenised, 0);
    cache_close(get(&s));
    assert_int_equal(n.tokenised, 1);
}

// Of several processes one tokenises, and the others wait.
static void processes_share_one(void **state) {
    enum { PROCESSES = 4 };
    char path[DATA_PATH], *text = malloc(DOCUMENTS_PART_BYTES);
    const char *list[] = {path};
    pid_t child[PROCESSES];
    int made = 0;
    (void)state;
    size_t count = make_text(text, DOCUMENTS_PART_BYTES);
    data_write("shared.txt", text, count, path);
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] > 0) continue;
        notes n;
        cache *c = NULL;
        const data_source s = source_of(list, 1, gpt2, &n);
        _exit(data_cache_get(&s, &c, NULL) || cache_about(c)->tokens == 0 ? 99 : n.tokenised);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
        made += WEXITSTATUS(status);
    }
    assert_int_equal(made, 1);
    free(text);
}

static int setup(void **state) {
    char path[DATA_PATH];
    if (data_setup(state)) return 1;
    data_path("cache/inner", cache_place);
    snprintf(path, sizeof path, "%s/golden/fixtures/tokenizers/gpt2.json", BRAID_TEST_FIXTURES);
    return tokenizer_open(path, &gpt2, NULL) ? 1 : 0;
}

static int teardown(void **state) {
    tokenizer_free(gpt2);
    return data_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_ids),           cmocka_unit_test(a_cache_is_made_once),
        cmocka_unit_test(bad_sources_are_refused), cmocka_unit_test(ids_are_those_of_the_whole_text),
        cmocka_unit_test(a_stop_leaves_nothing),   cmocka_unit_test(processes_share_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
