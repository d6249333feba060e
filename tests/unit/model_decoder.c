// Memory of a decoder, and its independence of the memory's content. For its results see
// tests/golden/model_pytorch.c.
#include "model/decoder.h"

#include "model/stage.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { VOCABULARY = 60, LONG = 1 << 18, SOILED = 8 << 20 };

static model_config some(uint32_t context) {
    return (model_config){.arch = MODEL_GPT, .dim = 72, .layers = 3, .heads = 4, .kv_heads = 4, .ffn_dim = 200, .vocab = VOCABULARY,
                          .context = context, .norm_eps = 1e-5f, .tied = true};
}

static size_t resident_bytes(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

typedef struct fixture {
    model_config config;
    tensor_pool *pool;
    float *parameters;
    decoder *d;
} fixture;

static void fixture_open(fixture *f, uint32_t context) {
    *f = (fixture){.config = some(context)};
    stage_shape whole = {.layer_end = f->config.layers, .ends = true, .sequences = 1, .tokens = 1};
    stage *s;
    assert_int_equal(tensor_pool_new(1, &f->pool, NULL), BRAID_OK);
    assert_int_equal(stage_new(&f->config, &whole, f->pool, &s, NULL), BRAID_OK);
    f->parameters = calloc(stage_parameters(s), sizeof *f->parameters);
    assert_non_null(f->parameters);
    if (context < LONG) stage_init(s, f->parameters, 3);
    stage_free(s);
    assert_int_equal(decoder_new(&f->config, f->parameters, context < LONG, f->pool, &f->d, NULL), BRAID_OK);
}

static void fixture_close(fixture *f) {
    decoder_free(f->d);
    free(f->parameters);
    tensor_pool_free(f->pool);
}

// Keys and values of a quarter of a million tokens take 453 MB, but no token has been read yet.
static void test_unread_positions_cost_no_memory(void **state) {
    (void)state;
    fixture f;
    size_t before = resident_bytes();
    fixture_open(&f, LONG);
    float logits[VOCABULARY];
    decoder_read(f.d, 1, logits);
    size_t after = resident_bytes();
    print_message("%zu KiB\n", (after - before) / 1024);
    assert_true(after - before < (size_t)32 << 20);
    fixture_close(&f);
}

static void test_uninitialised_memory_does_not_matter(void **state) {
    (void)state;
    mallopt(M_MMAP_THRESHOLD, 2 * SOILED);
    mallopt(M_TRIM_THRESHOLD, 2 * SOILED);
    volatile unsigned char *soil = malloc(SOILED);  // volatile, so that the compiler keeps the write
    assert_non_null(soil);
    for (size_t i = 0; i < SOILED; i++) soil[i] = 0xff;  // NaNs
    free((void *)soil);
    fixture f;
    float logits[VOCABULARY];
    fixture_open(&f, 40);
    for (uint32_t i = 0; i < 20; i++) decoder_read(f.d, i * 7 % VOCABULARY, logits);
    for (uint32_t i = 0; i < VOCABULARY; i++) assert_true(isfinite(logits[i]));
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unread_positions_cost_no_memory),
        cmocka_unit_test(test_uninitialised_memory_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
