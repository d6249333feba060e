#include "train/checkpoint.h"

#include "train/state_blob.h"
#include "train_saved.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Replaces the C library's function: a file system that cannot exchange two names (NFS).
static bool exchanges = true;
int renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    if (exchanges) return (int)syscall(SYS_renameat2, from, old, to, new, flags);
    errno = EINVAL;
    return -1;
}

static const uint32_t whole[] = {3}, two[] = {1, 2}, three[] = {0, 1, 2};

static void load_line(tiny_line *l, const tiny_config *config, uint32_t stages, const uint32_t *layers,
                      const char *path) {
    tiny_open(l, config, stages, layers);
    checkpoint *c = open_saved(path);
    l->version = checkpoint_version(c);
    for (uint32_t i = 0; i < stages; i++) {
        assert_int_equal(worker_load(l->worker[i], c, NULL), BRAID_OK);
        assert_int_equal(tiny_job(l, i, &(job){.id = 1, .kind = JOB_STATE_INIT, .version = l->version}).version,
                         l->version);
    }
    checkpoint_close(c);
}

static void test_resuming_after_three_of_six_iterations(void **state) {
    fixture *f = *state;
    const model_arch archs[] = {MODEL_LLAMA, MODEL_GPT, MODEL_GEMMA3, MODEL_QWEN3_MOE};
    for (size_t arch = 0; arch < sizeof archs / sizeof *archs; arch++) {
        tiny_line straight, saved, resumed;
        f->config.model = tiny_model(archs[arch]);
        tiny_open(&straight, &f->config, 1, whole);
        tiny_init(&straight);
        train_to(&straight, 6);
        tiny_open(&saved, &f->config, 3, three);
        tiny_init(&saved);
        train_to(&saved, 3);
        checkpoint_summary summary = save(f, &saved);
        assert_same_hash(summary.weights, tiny_hash(&saved));
        const struct {
            uint32_t stages;
            const uint32_t *layers;
        } splits[] = {{1, whole}, {2, two}, {3, three}};
        for (int i = 0; i < 3; i++) {
            load_line(&resumed, &f->config, splits[i].stages, splits[i].layers, f->saved);
            assert_same_hash(tiny_hash(&resumed), summary.weights);
            train_to(&resumed, 6);
            assert_same_hash(tiny_hash(&resumed), tiny_hash(&straight));
            tiny_close(&resumed);
        }
        tiny_close(&straight);
        tiny_close(&saved);
        tiny_remove(f->saved);
    }
}

static void test_the_weights_hash_is_independent_of_the_split(void **state) {
    fixture *f = *state;
    tiny_line one, other;
    tiny_open(&one, &f->config, 1, whole);
    tiny_init(&one);
    tiny_open(&other, &f->config, 3, three);
    tiny_init(&other);
    checkpoint_summary a = save(f, &one),
                       b = save(f, &other);  // the second replaces the first: both are step 0
    assert_same_hash(a.weights, b.weights);
    checkpoint *c = open_saved(f->saved);
    assert_same_hash(*checkpoint_weights(c), a.weights);
    assert_int_equal(checkpoint_run(c)->bytes[0], 9);
    checkpoint_close(c);
    tiny_close(&one);
    tiny_close(&other);
}

static void test_blocks_are_served_as_a_worker_would(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 2, two);
    tiny_init(&l);
    train_to(&l, 2);
    save(f, &l);
    checkpoint *c = open_saved(f->saved);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t blocks = worker_blocks(l.worker[i]);
        assert_int_equal(blocks, split_count(&l.split, i));
        job_result got = tiny_job(&l, i, &(job){.id = 1, .kind = JOB_STATE_GET, .first = 1, .count = blocks - 1});
        uint64_t bytes = checkpoint_state_bytes(&l.split, i, 1, blocks - 1);
        assert_int_equal(bytes, l.blobs.bytes[got.out - 1]);
        void *out = malloc(bytes);
        assert_non_null(out);
        assert_int_equal(checkpoint_state(c, &l.split, i, 1, blocks - 1, out, NULL), BRAID_OK);
        assert_memory_equal(out, l.blobs.data[got.out - 1], bytes);
        free(out);
    }
    checkpoint_close(c);
    tiny_close(&l);
}

static void test_the_newest_two_stay(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    for (uint64_t version = 1; version <= 4; version++) {
        train_to(&l, version);
        save(f, &l);
    }
    assert_int_equal(count_entries(f->saved, "step-"), CHECKPOINT_KEEP);
    checkpoint *c = open_saved(f->saved);
    assert_int_equal(checkpoint_version(c), 4);
    assert_non_null(strstr(checkpoint_path(c), "/step-000004"));  // `latest` is resolved once
    checkpoint_close(c);
    char older[256];
    snprintf(older, sizeof older, "%s/step-000003", f->saved);
    c = open_saved(older);
    assert_int_equal(checkpoint_version(c), 3);
    checkpoint_close(c);
    tiny_close(&l);
}

// The manifest and every file of tensors: missing, truncated, with one changed bit.
static void test_damage_is_noticed_and_named(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 2, two);
    tiny_init(&l);
    checkpoint_summary summary = save(f, &l);
    static const char *const files[] = {"model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors",
                                        "optimizer-00001-of-00002.safetensors",
                                        "optimizer-00002-of-00002.safetensors",
                                        "braid-manifest.json"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[FILES_MAX_PATH];
        char *bytes;
        size_t length;
        assert_int_equal(files_join(summary.path, files[i], path, NULL), BRAID_OK);
        assert_int_equal(files_read(path, 1 << 24, &bytes, &length, NULL), BRAID_OK);
        assert_int_equal(truncate(path, (off_t)length - 2), 0);  // the last byte may be a line end
        expect_refused(summary.path, files[i]);
        tiny_file(path, bytes, length);
        bytes[length / 2] ^= 1;
        tiny_file(path, bytes, length);
        bool manifest = strcmp(files[i], "braid-manifest.json") == 0;
        checkpoint *c = NULL;
        if (!manifest)
            expect_refused(summary.path, files[i]);
        else if (!checkpoint_open(summary.path, &c, NULL))
            fail_msg("a changed manifest was accepted");
        bytes[length / 2] ^= 1;
        assert_int_equal(unlink(path), 0);
        expect_refused(summary.path, manifest ? "neither" : files[i]);
        tiny_file(path, bytes, length);
        free(bytes);
        checkpoint_close(open_saved(summary.path));
    }
    tiny_close(&l);
}

// Texts for other programs may be edited or missing; only the model's description must exist.
static void test_edited_texts_are_accepted(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 2, two);
    tiny_init(&l);
    checkpoint_summary summary = save(f, &l);
    static const char *const texts[] = {"model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json", "config.json"};
    static const char *const others[] = {"generation_config.json", ".DS_Store", "Thumbs.db", "desktop.ini", "._config.json", "notes.txt"};
    char path[FILES_MAX_PATH], *text;
    size_t length;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(files_join(summary.path, others[i], path, NULL), BRAID_OK);
        tiny_file(path, "{}", 2);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(files_join(summary.path, texts[i], path, NULL), BRAID_OK);
        tiny_file(path, "edited", 6);
        checkpoint_close(open_saved(summary.path));
        assert_int_equal(unlink(path), 0);
        checkpoint_close(open_saved(summary.path));
    }
    assert_int_equal(files_join(summary.path, "config.json", path, NULL), BRAID_OK);
    assert_int_equal(files_read(path, 1 << 20, &text, &length, NULL), BRAID_OK);
    char *edited = malloc(length + 64);
    assert_non_null(edited);
    size_t count = (size_t)sprintf(edited, "{ \"pad_token_id\" :\t0,%.*s", (int)length - 1, text + 1);
    tiny_file(path, edited, count);
    checkpoint_close(open_saved(summary.path));
    tiny_file(path, text, length / 2);
    expect_refused(summary.path, "config.json");
    assert_int_equal(unlink(path), 0);
    expect_refused(summary.path, "config.json' is missing");
    free(text);
    free(edited);
    tiny_close(&l);
}

// A checkpoint with a manifest in which `to` overwrites `from` is refused, and the error has
// `named`.
static void expect_altered(const char *path, const char *from, const char *to, const char *named) {
    char file[FILES_MAX_PATH], *text;
    size_t length;
    assert_int_equal(files_join(path, "braid-manifest.json", file, NULL), BRAID_OK);
    assert_int_equal(files_read(file, 1 << 20, &text, &length, NULL), BRAID_OK);
    char *at = strstr(text, from);
    if (!at) fail_msg("no %s in %s", from, text);
    char before[128];
    memcpy(before, at, strlen(to));
    memcpy(at, to, strlen(to));
    tiny_file(file, text, length);
    expect_refused(path, named);
    memcpy(at, before, strlen(to));
    tiny_file(file, text, length);
    free(text);
}

static void hex_digit_changed(const char *key, const braid_hash *hash, char from[128], char to[128]) {
    char hex[2 * BRAID_ID_BYTES + 1];
    id_hex(hash->bytes, BRAID_ID_BYTES, hex);
    snprintf(from, 128, "\"%s\": \"%s\"", key, hex);
    hex[17] = hex[17] == 'a' ? 'b' : 'a';
    snprintf(to, 128, "\"%s\": \"%s\"", key, hex);
}

static void test_every_altered_field_of_the_manifest_is_noticed_and_named(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 2, two);
    tiny_init(&l);
    train_to(&l, 2);
    checkpoint_summary summary = save(f, &l);
    const char *path = summary.path;
    braid_hash run = {{9}};
    char from[128], to[128];
    expect_altered(path, "\"version\": 2", "\"version\": 3",
                   "braid-manifest.json' was altered: its 'version' is not that of '");
    hex_digit_changed("run", &run, from, to);
    expect_altered(path, from, to, "braid-manifest.json' was altered: its 'run' is not that of '");
    hex_digit_changed("weights", &summary.weights, from, to);
    expect_altered(path, from, to, "braid-manifest.json' was altered: its 'weights' is not the hash");
    expect_altered(path, "\"braid_checkpoint\": 1", "\"braid_checkpoint\": 2", "newer braid");
    expect_altered(path, "\"bytes\": ", "\"bytes\": 1", "bytes instead of");
    expect_altered(path, "\"sha256\": \"", "\"sha256\": '", "braid-manifest.json' is damaged");
    expect_altered(path, "\"optimizer-00001", "\"optimizer-00009", "optimizer-00009-of-00002.safetensors' is missing");
    expect_altered(path, "model-00001", "model-00002", "braid-manifest.json");
    checkpoint_close(open_saved(path));
    tiny_close(&l);
}

static void test_an_unlisted_file_is_not_trusted(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    checkpoint_summary summary = save(f, &l);
    char file[FILES_MAX_PATH], *text;
    size_t length;
    assert_int_equal(files_join(summary.path, "braid-manifest.json", file, NULL), BRAID_OK);
    assert_int_equal(files_read(file, 1 << 20, &text, &length, NULL), BRAID_OK);
    char *from = strstr(text, "\"model-00001-of-00001.safetensors\""), *to = strstr(text, "\"optimizer-00001-of-00001.safetensors\"");
    assert_true(from && to && from < to);
    memset(from, ' ', (size_t)(to - from));
    tiny_file(file, text, length);
    free(text);
    expect_refused(summary.path, "has no tensor");
    tiny_close(&l);
}

static void test_a_missing_checkpoint_is_explained(void **state) {
    fixture *f = *state;
    expect_refused("/nowhere/at/all", "no checkpoint at");
    expect_refused(f->directory, "is no checkpoint");
    char file[128], latest[128];
    snprintf(file, sizeof file, "%s/text.txt", f->directory);
    expect_refused(file, "is no checkpoint");
    snprintf(latest, sizeof latest, "%s/latest", f->directory);
    assert_int_equal(symlink("step-000009", latest), 0);
    expect_refused(f->directory, "is no checkpoint");
}

// Runs without the file permissions of root.
static void test_an_unreadable_directory_is_reported(void **state) {
    fixture *f = *state;
    bool root = geteuid() == 0;
    assert_int_equal(mkdir(f->saved, 0), 0);
    assert_int_equal(chmod(f->directory, 0711), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    expect_refused(f->saved, "cannot read the directory");
    expect_refused(f->saved, "Permission denied");
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(f->saved, 0700), 0);
}

static void test_another_model_is_refused(void **state) {
    fixture *f = *state;
    tiny_line l, other;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    save(f, &l);
    tiny_config config = f->config;
    config.model.ffn_dim = 40;
    tiny_open(&other, &config, 1, whole);
    checkpoint *c = open_saved(f->saved);
    braid_error error = {0};
    assert_int_equal(worker_load(other.worker[0], c, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "ffn_dim"));
    checkpoint_close(c);
    tiny_close(&l);
    tiny_close(&other);
}

static void test_foreign_blocks_are_refused(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 2, two);
    tiny_init(&l);
    checkpoint_writer *writer = begin(f, &l);
    job_result got = tiny_job(&l, 0, &(job){.id = 1, .kind = JOB_STATE_GET, .first = 0, .count = 2});
    uint8_t *bytes = l.blobs.data[got.out - 1];
    uint64_t length = l.blobs.bytes[got.out - 1];
    assert_int_equal(checkpoint_put(writer, 0, 0, 2, bytes, length - 1, NULL), BRAID_FORMAT);
    assert_int_equal(checkpoint_put(writer, 0, 0, 1, bytes, length, NULL), BRAID_FORMAT);
    assert_int_equal(checkpoint_put(writer, 2, 0, 2, bytes, length, NULL), BRAID_FORMAT);
    assert_int_equal(checkpoint_put(writer, 0, 1u << 30, 2, bytes, length, NULL), BRAID_FORMAT);
    assert_int_equal(checkpoint_put(writer, 0, 1, UINT32_MAX, bytes, length, NULL), BRAID_FORMAT);
    bytes[0] = 7;
    assert_int_equal(checkpoint_put(writer, 0, 0, 2, bytes, length, NULL), BRAID_FORMAT);
    checkpoint_summary summary;
    braid_error error = {0};
    assert_int_equal(checkpoint_end(writer, &summary, &error), BRAID_STATE);
    assert_non_null(strstr(error.text, "only 0 of"));
    assert_int_equal(count_entries(f->saved, "step-"), 0);
    tiny_close(&l);
}

static void test_another_run_cannot_write(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    checkpoint_writer *first = begin(f, &l), *second = NULL;
    checkpoint_config config = {.directory = f->saved, .model = &l.config.model, .split = &l.split, .version = 0, .run = {{1}}};
    braid_error error = {0};
    assert_int_equal(checkpoint_begin(&config, &second, &error), BRAID_STATE);
    assert_non_null(strstr(error.text, "another process"));
    checkpoint_abort(first);
    assert_int_equal(count_entries(f->saved, "step-"), 0);
    checkpoint_abort(begin(f, &l));
    tiny_close(&l);
}

// The old leader is paused during its write. The new leader can save, and after the old one resumes
// the newest version stays the newest.
static void test_a_paused_writer_does_not_block_others(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    train_to(&l, 1);
    pid_t child = fork();
    if (child == 0) {
        checkpoint_writer *writer = begin(f, &l);
        checkpoint_summary summary;
        braid_err err = put_all(&l, writer, NULL);
        raise(SIGSTOP);
        _exit(err == BRAID_OK && checkpoint_end(writer, &summary, NULL) == BRAID_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    train_to(&l, 3);
    save(f, &l);
    train_to(&l, 4);
    save(f, &l);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    checkpoint *c = open_saved(f->saved);
    assert_int_equal(checkpoint_version(c), 4);
    checkpoint_close(c);
    assert_int_equal(count_entries(f->saved, ".tmp"), 0);
    tiny_close(&l);
}

// After a rollback the run reaches the same version again: the newer copy replaces the older one,
// on every file system.
static void test_a_version_is_rewritten_after_a_rollback(void **state) {
    fixture *f = *state;
    for (uint32_t plain = 0; plain < 2; plain++) {
        tiny_line l;
        tiny_open(&l, &f->config, 1, whole);
        tiny_init(&l);
        train_to(&l, 1);
        save(f, &l);
        exchanges = plain == 0;
        const checkpoint_summary again = save(f, &l);
        exchanges = true;
        checkpoint *c = open_saved(f->saved);
        assert_int_equal(checkpoint_version(c), 1);
        checkpoint_close(c);
        assert_non_null(strstr(again.path, "step-000001"));
        assert_int_equal(count_entries(f->saved, ".tmp"), 0);
        assert_int_equal(count_entries(f->saved, "step-"), 1);
        tiny_close(&l);
    }
}

// A killed writer leaves its directory and the older checkpoint; the next writer removes the
// directory.
static void test_a_killed_writer_leaves_the_old_checkpoint(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    train_to(&l, 1);
    checkpoint_summary old = save(f, &l);
    train_to(&l, 2);
    pid_t child = fork();
    if (child == 0) {
        checkpoint_writer *writer = begin(f, &l);
        put(&l, writer, 0, 0, 2, NULL);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(count_entries(f->saved, ".tmp-"), 1);
    checkpoint *c = open_saved(f->saved);
    assert_same_hash(*checkpoint_weights(c), old.weights);
    checkpoint_close(c);
    save(f, &l);
    assert_int_equal(count_entries(f->saved, ".tmp"), 0);
    c = open_saved(f->saved);
    assert_int_equal(checkpoint_version(c), 2);
    checkpoint_close(c);
    tiny_close(&l);
}

// Saves with every limit on a file's size, in a child process with that limit. The old checkpoint
// stays until the new one is complete.
static void save_limited(fixture *f, tiny_line *l, uint64_t limit, bool *worked) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit r = {limit, limit};
        setrlimit(RLIMIT_FSIZE, &r);
        checkpoint_config config = {
            .directory = f->saved, .model = &l->config.model, .split = &l->split, .version = l->version};
        checkpoint_writer *writer = NULL;
        checkpoint_summary summary;
        braid_error error = {0};
        braid_err err = checkpoint_begin(&config, &writer, &error);
        if (!err && (err = put_all(l, writer, &error)))
            checkpoint_abort(writer);
        else if (!err)
            err = checkpoint_end(writer, &summary, &error);
        _exit(err == BRAID_OK ? 0 : err == BRAID_IO && strstr(error.text, "ulimit -f") ? 1 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    *worked = WEXITSTATUS(status) == 0;
}

static void test_a_full_disk_leaves_the_old_checkpoint(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    tiny_init(&l);
    train_to(&l, 1);
    checkpoint_summary old = save(f, &l);
    train_to(&l, 2);
    bool worked = false;
    uint32_t failures = 0;
    for (uint64_t limit = 0; !worked; limit += limit / 2 + 100) {
        save_limited(f, &l, limit, &worked);
        failures += !worked;
        checkpoint *c = open_saved(f->saved);
        assert_int_equal(checkpoint_version(c), worked ? 2 : 1);
        if (!worked) assert_same_hash(*checkpoint_weights(c), old.weights);
        checkpoint_close(c);
        assert_int_equal(count_entries(f->saved, ".tmp"), 0);
    }
    assert_true(failures > 5);
    tiny_close(&l);
}

static void test_a_directory_that_cannot_be_made(void **state) {
    fixture *f = *state;
    tiny_line l;
    tiny_open(&l, &f->config, 1, whole);
    char path[128];
    snprintf(path, sizeof path, "%s/text.txt/below-a-file", f->directory);
    checkpoint_config config = {.directory = path, .model = &l.config.model, .split = &l.split};
    checkpoint_writer *writer = NULL;
    braid_error error = {0};
    assert_int_equal(checkpoint_begin(&config, &writer, &error), BRAID_IO);
    assert_non_null(strstr(error.text, path));
    tiny_close(&l);
}

static void expect_unusable(const char *directory, const char *cause, const char *mend) {
    braid_error error = {0};
    assert_int_equal(checkpoint_try(directory, &error), BRAID_IO);
    if (!strstr(error.text, directory) || !strstr(error.text, cause) || !strstr(error.text, mend))
        fail_msg("'%s' does not name %s, '%s' and '%s'", error.text, directory, cause, mend);
}

static void test_a_directory_is_tried(void **state) {
    fixture *f = *state;
    char file[128], latest[256];
    snprintf(file, sizeof file, "%s/text.txt", f->directory);
    expect_unusable(file, "Not a directory", "choose another");
    expect_unusable("/nowhere/at/all", "No such file", "create its parent directory");
    expect_unusable("/proc/self", "cannot write into", "choose another");  // root cannot write there either
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(checkpoint_try(f->saved, NULL), BRAID_OK);
        assert_int_equal(count_entries(f->saved, ".tmp"), 0);
    }
    snprintf(latest, sizeof latest, "%s/latest", f->saved);
    assert_int_equal(mkdir(latest, 0777), 0);
    expect_unusable(f->saved, "latest' is a directory", "move it away");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_resuming_after_three_of_six_iterations),
        TEST(test_the_weights_hash_is_independent_of_the_split),
        TEST(test_blocks_are_served_as_a_worker_would),
        TEST(test_the_newest_two_stay),
        TEST(test_damage_is_noticed_and_named),
        TEST(test_edited_texts_are_accepted),
        TEST(test_every_altered_field_of_the_manifest_is_noticed_and_named),
        TEST(test_an_unlisted_file_is_not_trusted),
        TEST(test_a_missing_checkpoint_is_explained),
        TEST(test_an_unreadable_directory_is_reported),
        TEST(test_another_model_is_refused),
        TEST(test_foreign_blocks_are_refused),
        TEST(test_another_run_cannot_write),
        TEST(test_a_paused_writer_does_not_block_others),
        TEST(test_a_version_is_rewritten_after_a_rollback),
        TEST(test_a_killed_writer_leaves_the_old_checkpoint),
        TEST(test_a_full_disk_leaves_the_old_checkpoint),
        TEST(test_a_directory_that_cannot_be_made),
        TEST(test_a_directory_is_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
