// Shared by the tests of src/train: tiny models, generated text, blobs in memory, and a pipeline of
// workers without a protocol.
#ifndef BRAID_TEST_TRAIN_TINY_H
#define BRAID_TEST_TRAIN_TINY_H

#include "base/rng.h"
#include "train/split.h"
#include "train/worker.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TINY_LAYERS = 3, TINY_TOKENS = 16, TINY_SEQUENCES = 2, TINY_MICROBATCHES = 4, TINY_BLOBS = 64, TINY_STAGES = 4 };

// ---- directories and text ----

static inline void tiny_remove(const char *path) {
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char inside[1024];
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) >= (int)sizeof inside) continue;
        if (lstat(inside, &info) == 0 && S_ISDIR(info.st_mode))
            tiny_remove(inside);
        else
            unlink(inside);
    }
    if (directory) closedir(directory);
    rmdir(path);
}

static inline void tiny_directory(char path[64]) {
    const char *parent = getenv("TMPDIR");
    snprintf(path, 64, "%.40s/braid-test-XXXXXX", parent ? parent : P_tmpdir);
    assert_non_null(mkdtemp(path));
}

static inline void tiny_file(const char *path, const void *bytes, size_t count) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

// Text with a learnable pattern: a few words in random order.
static inline void tiny_text(const char *path, size_t count) {
    static const char *const words[] = {"the ", "river ", "braids ", "and ", "splits ", "again ", "\n"};
    char *text = calloc(1, count + 16);
    assert_non_null(text);
    rng r = {5};
    for (size_t at = 0; at < count;) {
        const char *word = words[rng_below(&r, 7)];
        memcpy(text + at, word, strlen(word));
        at += strlen(word);
    }
    tiny_file(path, text, count);
    free(text);
}

static inline train_data *tiny_data(const char *directory) {
    char path[128];
    const char *paths[] = {path};
    train_data *data = NULL;
    snprintf(path, sizeof path, "%s/text.txt", directory);
    tiny_text(path, 20000);
    assert_int_equal(train_data_open(paths, 1, 0.1, TINY_TOKENS, &data, NULL), BRAID_OK);
    return data;
}

// ---- blobs ----

typedef struct tiny_blobs {
    void *data[TINY_BLOBS];
    uint64_t bytes[TINY_BLOBS];
} tiny_blobs;

static inline const void *tiny_read(void *context, blob_id blob, uint64_t *bytes) {
    tiny_blobs *b = context;
    if (blob == 0 || blob > TINY_BLOBS || !b->data[blob - 1]) return NULL;
    *bytes = b->bytes[blob - 1];
    return b->data[blob - 1];
}

static inline void *tiny_write(void *context, uint64_t bytes, blob_id *blob) {
    tiny_blobs *b = context;
    for (uint32_t i = 0; i < TINY_BLOBS; i++) {
        if (b->data[i]) continue;
        b->data[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(b->data[i]);
        b->bytes[i] = bytes;
        *blob = i + 1;
        return b->data[i];
    }
    return NULL;
}

static inline blob_id tiny_blob(tiny_blobs *b, const void *bytes, uint64_t count) {
    blob_id id = 0;
    memcpy(tiny_write(b, count, &id), bytes, count);
    return id;
}

static inline void tiny_release(tiny_blobs *b, blob_id id) {
    if (!id) return;
    free(b->data[id - 1]);
    b->data[id - 1] = NULL;
}

// ---- workers ----

static inline model_config tiny_model(model_arch arch) {
    model_config c = {.arch = arch,
                      .dim = 32,
                      .layers = TINY_LAYERS,
                      .heads = 4,
                      .kv_heads = 2,
                      .ffn_dim = 48,
                      .vocab = 256,
                      .context = 32,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5f,
                      .tied = true};
    if (arch == MODEL_GPT) c.kv_heads = 4;
    if (arch == MODEL_GEMMA3) {
        c.head_dim = 12;
        c.local_rope_theta = 100;
        c.embedding_scale = sqrtf(32);
        c.window = 5, c.windowed[0] = 3;
        c.logit_softcap = 20;
    }
    if (arch == MODEL_QWEN3_MOE) c.experts = 5, c.experts_used = 2, c.expert_ffn_dim = 24;
    return c;
}

static inline train_recipe tiny_recipe(bool reproducible) {
    return (train_recipe){.iterations = 12,
                          .warmup = 2,
                          .learning_rate = 0.01f,
                          .min_learning_rate = 0.001f,
                          .beta1 = 0.9f,
                          .beta2 = 0.95f,
                          .eps = 1e-8f,
                          .weight_decay = 0.1f,
                          .clip = 1,
                          .reproducible = reproducible};
}

typedef struct tiny_config {
    model_config model;
    train_recipe recipe;
    const train_data *data;
    tensor_pool *pool;
    bool alone, single;       // single: one microbatch and one stash
    struct checkpoint *base;  // of the recipe's adapter
} tiny_config;

static inline uint32_t tiny_microbatches(const tiny_config *c) { return c->single ? 1 : TINY_MICROBATCHES; }

static inline worker *tiny_worker(const tiny_config *c, bool ends, uint32_t first_layer, uint32_t last_layer) {
    worker_config config = {.model = c->model,
                            .recipe = c->recipe,
                            .seed = 3,
                            .microbatches = tiny_microbatches(c),
                            .capacity = c->single ? 1 : 2,
                            .alone = c->alone,
                            .data = c->data};
    config.shape = (stage_shape){.layer_begin = first_layer,
                                 .layer_end = last_layer,
                                 .ends = ends,
                                 .sequences = TINY_SEQUENCES,
                                 .tokens = TINY_TOKENS};
    worker *w = NULL;
    braid_error error = {0};
    if (worker_new(&config, c->pool, &w, &error)) fail_msg("%s", error.text);
    if (c->base && worker_load_base(w, c->base, &error)) fail_msg("%s", error.text);
    return w;
}

// All stages of a model with one worker each: the computation of a swarm without its messages.
typedef struct tiny_line {
    tiny_config config;
    uint32_t stages;
    uint32_t layers[TINY_STAGES];
    worker *worker[TINY_STAGES];
    tiny_blobs blobs;
    split split;
    uint64_t version;
} tiny_line;

static inline job_result tiny_try(tiny_line *l, uint32_t number, const job *work) {
    worker_blobs blobs = {.context = &l->blobs, .read = tiny_read, .write = tiny_write};
    job_result result;
    worker_run(l->worker[number], work, &blobs, &result);
    return result;
}

static inline job_result tiny_job(tiny_line *l, uint32_t number, const job *work) {
    job_result result = tiny_try(l, number, work);
    assert_false(result.failed);
    assert_true((result.out != 0) == (result.hash64 != 0));
    return result;
}

static inline void tiny_open(tiny_line *l, const tiny_config *config, uint32_t stages, const uint32_t *layers) {
    memset(l, 0, sizeof *l);
    l->config = *config;
    l->stages = stages;
    uint32_t at = 0;
    for (uint32_t i = 0; i < stages; i++) {
        l->layers[i] = layers[i];
        l->worker[i] = tiny_worker(config, i == 0, at, at + layers[i]);
        at += layers[i];
    }
    assert_int_equal(at, config->model.layers);
    assert_int_equal(split_new(&config->model, &config->recipe.adapter, layers, stages, &l->split, NULL), BRAID_OK);
}

static inline void tiny_init(tiny_line *l) {
    for (uint32_t i = 0; i < l->stages; i++) tiny_job(l, i, &(job){.id = 1, .kind = JOB_STATE_INIT});
}

static inline void tiny_close(tiny_line *l) {
    for (uint32_t i = 0; i < l->stages; i++) worker_free(l->worker[i]);
    for (blob_id i = 1; i <= TINY_BLOBS; i++) tiny_release(&l->blobs, i);
    split_free(&l->split);
}

// Forward, loss, backward and weight gradients of one microbatch through all stages, on slot m mod
// 2.
static inline job_result tiny_microbatch(tiny_line *l, uint64_t iteration, uint32_t m) {
    uint32_t slot = m % 2;
    blob_id at = 0;
    for (uint32_t i = 0; i < l->stages; i++) {
        job_result y = tiny_job(
            l, i, &(job){.id = 1, .kind = JOB_FORWARD, .iteration = iteration, .m = m, .slot = slot, .in = at});
        tiny_release(&l->blobs, at);
        at = y.out;
    }
    job_result loss =
        tiny_job(l, 0, &(job){.id = 1, .kind = JOB_LOSS, .iteration = iteration, .m = m, .slot = slot, .in = at});
    tiny_release(&l->blobs, at);
    at = loss.out;
    for (uint32_t i = l->stages; at && i-- > 0;) {
        job_result dx = tiny_job(
            l, i, &(job){.id = 1, .kind = JOB_BACKWARD, .iteration = iteration, .m = m, .slot = slot, .in = at});
        assert_true(dx.finite);
        tiny_release(&l->blobs, at);
        at = dx.out;
        assert_false(
            tiny_job(l, i, &(job){.id = 1, .kind = JOB_WEIGHT, .iteration = iteration, .m = m, .slot = slot}).overflow);
    }
    return loss;
}

static inline void tiny_apply(tiny_line *l, uint64_t iteration, uint64_t tokens) {
    double norm2[256] = {0}, total = 0;
    for (uint32_t i = 0; i < l->stages; i++) {
        job reduce = {.id = 1, .kind = JOB_REDUCE, .count = worker_blocks(l->worker[i]), .tokens = tokens, .inputs = 1};
        tiny_release(&l->blobs, tiny_job(l, i, &reduce).out);
        job_result norm = tiny_job(l, i, &(job){.id = 1, .kind = JOB_NORM});
        uint32_t next = 0;
        for (uint32_t t = 0; t < l->split.tensor_count; t++)
            if (l->split.tensor_stage[t] == i) norm2[t] = norm.norm2[next++];
        assert_int_equal(next, norm.norms);
    }
    for (uint32_t t = 0; t < l->split.tensor_count; t++) total += norm2[t];
    job_result d =
        tiny_job(l, 0, &(job){.id = 1, .kind = JOB_DECIDE, .iteration = iteration, .norm2 = total, .tokens = tokens});
    for (uint32_t i = 0; i < l->stages; i++)
        tiny_job(l, i,
                 &(job){.id = 1,
                        .kind = JOB_APPLY,
                        .iteration = iteration,
                        .clip = d.clip,
                        .learning_rate = d.learning_rate,
                        .bias1 = d.bias1,
                        .bias2 = d.bias2,
                        .skip = d.skip});
    l->version = iteration + 1;
}

// Returns the mean loss.
static inline double tiny_iteration(tiny_line *l, uint64_t iteration) {
    double loss = 0;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < l->stages; i++) tiny_job(l, i, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
    for (uint32_t m = 0; m < tiny_microbatches(&l->config); m++) {
        job_result one = tiny_microbatch(l, iteration, m);
        assert_true(one.finite);
        loss += one.loss;
        tokens += one.tokens;
    }
    tiny_apply(l, iteration, tokens);
    return loss / (double)tokens;
}

static inline braid_hash tiny_hash(tiny_line *l) {
    braid_hash *leaves = calloc(l->split.block_count, sizeof *leaves);
    assert_non_null(leaves);
    for (uint32_t i = 0; i < l->stages; i++) {
        job_result r = tiny_job(l, i, &(job){.id = 1, .kind = JOB_LEAVES});
        assert_true(split_put_leaves(&l->split, i, l->blobs.data[r.out - 1], l->blobs.bytes[r.out - 1], leaves));
        tiny_release(&l->blobs, r.out);
    }
    braid_hash all = split_weights_hash(&l->split, leaves);
    free(leaves);
    return all;
}

static inline void assert_same_hash(braid_hash a, braid_hash b) {
    assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
}

#endif
