// Groups of a model's tensors as bytes: they make the same tensors again, and no other bytes do.
#include "weights/parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_model.h"
#include "seed.h"

static const model_config shape = {.arch = MODEL_LLAMA,
                                   .dim = 64,
                                   .layers = 2,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .ffn_dim = 96,
                                   .vocab = 96,
                                   .context = 64,
                                   .rope_theta = 10000,
                                   .norm_eps = 1e-5f};
static model_file *from, *to;
static tiny_model model;
static uint8_t *bytes;
static uint64_t count;
static uint32_t first, end;

static int set_up(void **state) {
    (void)state;
    tiny_model_new(&model, &shape, WEIGHT_Q8_0, 5);
    engine_source source = tiny_source(&model);
    assert_int_equal(parts_new(&shape, &from, NULL), BRAID_OK);
    assert_int_equal(parts_new(&shape, &to, NULL), BRAID_OK);
    for (uint32_t i = 0; i < model_file_count(from); i++) {
        model_file_tensor *t = (model_file_tensor *)model_file_at(from, i);
        const model_file_tensor *known = source.find(source.context, t->name);
        assert_non_null(known);
        t->weights = known->weights;
        t->transposed = known->transposed;
        t->rope_pairs = known->rope_pairs;
    }
    first = model_tensors_before(&shape);
    end = first + model_tensors_per_block(&shape);
    count = parts_bytes(from, first, end);
    bytes = malloc(count);
    assert_non_null(bytes);
    parts_read(from, first, end, 0, count, bytes);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    model_file_close(from);
    model_file_close(to);
    tiny_model_free(&model);
    free(bytes);
    return 0;
}

static void a_group_is_the_same_again(void **state) {
    (void)state;
    assert_false(parts_has(to, first, end));
    assert_int_equal(parts_set(to, first, end, bytes, count, NULL), BRAID_OK);
    assert_true(parts_has(to, first, end));
    assert_false(parts_has(to, first, end + 1));
    for (uint32_t i = first; i < end; i++) {
        const model_file_tensor *a = model_file_at(from, i), *b = model_file_at(to, i);
        size_t length = weight_bytes(a->weights.type, a->weights.rows, a->weights.cols);
        assert_int_equal(a->weights.type, b->weights.type);
        assert_int_equal(a->weights.rows, b->weights.rows);
        assert_memory_equal(a->weights.data, b->weights.data, length);
    }
    parts_clear(to, first, end);
    assert_false(parts_has(to, first, first + 1));
}

static void pieces_are_parts_of_the_whole(void **state) {
    (void)state;
    rng r = seeded_rng("pieces", 3);
    uint8_t *piece = malloc(count);
    assert_non_null(piece);
    for (int round = 0; round < 200; round++) {
        uint64_t offset = rng_below(&r, count), length = 1 + rng_below(&r, count - offset);
        parts_read(from, first, end, offset, length, piece);
        assert_memory_equal(piece, bytes + offset, length);
    }
    free(piece);
}

static void refused(uint64_t length) {
    braid_error error = {0};
    assert_int_equal(parts_set(to, first, end, bytes, length, &error), BRAID_FORMAT);
    assert_false(parts_has(to, first, first + 1));
}

static void other_bytes_are_refused(void **state) {
    (void)state;
    for (uint64_t length = 0; length < count; length += 1 + length / 4) refused(length);
    refused(count - 1);
    rng r = seeded_rng("headers", 4);
    for (uint32_t i = 0; i < 32 * (end - first); i++) {
        if (i % 32 == 4 && i / 32 > 0) continue;  // a transposed square, or other pairs, is for the hash to notice
        uint8_t before = bytes[i];
        bytes[i] = (uint8_t)(before + 16 + rng_below(&r, 100));
        refused(count);
        bytes[i] = before;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group_is_the_same_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pieces_are_parts_of_the_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_bytes_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
