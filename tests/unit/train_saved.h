// Shared by the tests of checkpoints: a small model in training, saved block by block.
#ifndef BRAID_TEST_TRAIN_SAVED_H
#define BRAID_TEST_TRAIN_SAVED_H

#include "train/checkpoint.h"
#include "train_tiny.h"

typedef struct fixture {
    char directory[64];
    char saved[128];
    train_data *data;
    tensor_pool *pool;
    tiny_config config;
} fixture;

static inline int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tiny_directory(f->directory);
    snprintf(f->saved, sizeof f->saved, "%s/checkpoints", f->directory);
    f->data = tiny_data(f->directory);
    assert_int_equal(tensor_pool_new(1, &f->pool, NULL), BRAID_OK);
    f->config = (tiny_config){tiny_model(MODEL_LLAMA), tiny_recipe(true), f->data, f->pool, false, false, NULL};
    *state = f;
    return 0;
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    train_data_free(f->data);
    tensor_pool_free(f->pool);
    tiny_remove(f->directory);
    free(f);
    return 0;
}

static inline void train_to(tiny_line *l, uint64_t version) {
    while (l->version < version) tiny_iteration(l, l->version);
}

static inline checkpoint_writer *begin(fixture *f, const tiny_line *l) {
    checkpoint_config config = {
        .directory = f->saved, .model = &l->config.model, .split = &l->split, .run = {{9}}, .version = l->version};
    config.adapter.config = l->config.recipe.adapter;
    if (l->config.base) config.adapter.base = *checkpoint_weights(l->config.base);
    checkpoint_writer *writer = NULL;
    braid_error error = {0};
    if (checkpoint_begin(&config, &writer, &error)) fail_msg("%s", error.text);
    return writer;
}

static inline braid_err put(tiny_line *l, checkpoint_writer *writer, uint32_t number, uint32_t first, uint32_t count,
                            braid_error *error) {
    job_result got = tiny_job(
        l, number, &(job){.id = 1, .kind = JOB_STATE_GET, .first = first, .count = count, .version = l->version});
    braid_err err =
        checkpoint_put(writer, number, first, count, l->blobs.data[got.out - 1], l->blobs.bytes[got.out - 1], error);
    tiny_release(&l->blobs, got.out);
    return err;
}

// The last stage and the last block first, because the order does not matter.
static inline braid_err put_all(tiny_line *l, checkpoint_writer *writer, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = l->stages; i-- > 0;)
        for (uint32_t b = worker_blocks(l->worker[i]); b-- > 0 && !err;) err = put(l, writer, i, b, 1, error);
    return err;
}

static inline checkpoint_summary save(fixture *f, tiny_line *l) {
    checkpoint_summary summary = {0};
    braid_error error = {0};
    checkpoint_writer *writer = begin(f, l);
    braid_err err = put_all(l, writer, &error);
    if (!err) err = checkpoint_end(writer, &summary, &error);
    if (err) fail_msg("%s", error.text);
    return summary;
}

static inline checkpoint *open_saved(const char *path) {
    checkpoint *c = NULL;
    braid_error error = {0};
    if (checkpoint_open(path, &c, &error)) fail_msg("%s", error.text);
    return c;
}

static inline uint32_t count_entries(const char *path, const char *containing) {
    uint32_t n = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) n += strstr(entry->d_name, containing) != NULL;
    closedir(directory);
    return n;
}

static inline void expect_refused(const char *path, const char *named) {
    checkpoint *c = NULL;
    braid_error error = {0};
    braid_err err = checkpoint_open(path, &c, &error);
    if (!err) fail_msg("accepted although %s", named);
    if (!strstr(error.text, named)) fail_msg("'%s' does not name %s", error.text, named);
}

#endif
