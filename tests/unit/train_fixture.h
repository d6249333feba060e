// The fixture of tests that train a tiny LLaMA: a text, two threads and a reproducible recipe.
#ifndef BRAID_TEST_TRAIN_FIXTURE_H
#define BRAID_TEST_TRAIN_FIXTURE_H

#include "train_tiny.h"

typedef struct fixture {
    char directory[64];
    train_data *data;
    tensor_pool *pool;
    tiny_config config;
} fixture;

static inline int set_up(void **state) {
    static fixture f;
    tiny_directory(f.directory);
    f.data = tiny_data(f.directory);
    assert_int_equal(tensor_pool_new(2, &f.pool, NULL), BRAID_OK);
    f.config =
        (tiny_config){.model = tiny_model(MODEL_LLAMA), .recipe = tiny_recipe(true), .data = f.data, .pool = f.pool};
    *state = &f;
    return 0;
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    train_data_free(f->data);
    tensor_pool_free(f->pool);
    tiny_remove(f->directory);
    return 0;
}

#endif
