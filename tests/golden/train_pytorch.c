// Training compared with PyTorch (tools/make-train-fixture.py): samples, losses, averaging, clip,
// schedule and AdamW together, for both architectures, in one stage and in three.
#include "../unit/train_tiny.h"

#include "train_pytorch.h"

#include <math.h>

// Computed here and in the script, so that no fixture has to contain them.
static float first_weight(const stage_tensor *t, size_t i) {
    rng r = {rng_seed(rng_seed(9, t->canonical), i)};
    float value = (float)((double)(rng_next(&r) >> 40) * 0x1p-24 * 0.2 - 0.1);
    bool bias = strstr(t->name, ".bias") != NULL;
    return t->dims == 1 && !bias ? value + 1 : value;
}

static void set_weights(worker *w) {
    const stage_tensor *tensors = stage_tensors(worker_stage(w));
    for (uint32_t t = 0; t < stage_tensor_count(worker_stage(w)); t++)
        for (size_t i = 0; i < tensors[t].elements; i++)
            worker_weights(w)[tensors[t].offset + i] = first_weight(&tensors[t], i);
}

static void assert_close(double got, double expected, double relative, const char *what) {
    if (fabs(got - expected) > relative * fabs(expected)) fail_msg("%s: %.9g instead of %.9g", what, got, expected);
}

// A bias of keys shifts all scores of a query equally: its gradient is rounding noise, from which
// AdamW makes full steps.
static bool is_noise(const stage_tensor *t, size_t i) {
    return strstr(t->name, "c_attn.bias") && i / (t->elements / 3) == 1;
}

static void check_norms(tiny_line *l, const double *norms) {
    for (uint32_t s = 0; s < l->stages; s++) {
        const stage_tensor *tensors = stage_tensors(worker_stage(l->worker[s]));
        for (uint32_t t = 0; t < stage_tensor_count(worker_stage(l->worker[s])); t++) {
            double sum = 0;
            for (size_t i = 0; i < tensors[t].elements; i++) {
                double x = (double)worker_weights(l->worker[s])[tensors[t].offset + i];
                if (!is_noise(&tensors[t], i)) sum += x * x;
            }
            assert_close(sqrt(sum), norms[tensors[t].canonical], 1e-4, tensors[t].name);
        }
    }
}

static void check(model_arch arch, uint32_t stages, const uint32_t *layers, const double *losses, const double *norms) {
    char directory[64];
    tiny_directory(directory);
    tiny_config config = {tiny_model(arch), tiny_recipe(true), tiny_data(directory), NULL, false, false, NULL};
    assert_int_equal(tensor_pool_new(2, &config.pool, NULL), BRAID_OK);
    tiny_line line;
    tiny_open(&line, &config, stages, layers);
    tiny_init(&line);
    for (uint32_t s = 0; s < stages; s++) set_weights(line.worker[s]);
    for (uint64_t t = 0; t < PYTORCH_ITERATIONS; t++) assert_close(tiny_iteration(&line, t), losses[t], 1e-5, "loss");
    check_norms(&line, norms);
    tiny_close(&line);
    tensor_pool_free(config.pool);
    train_data_free((train_data *)(uintptr_t)config.data);
    tiny_remove(directory);
}

static const uint32_t whole[] = {3}, three[] = {0, 1, 2};

static void test_llama(void **state) {
    (void)state;
    check(MODEL_LLAMA, 1, whole, pytorch_llama_losses, pytorch_llama_norms);
    check(MODEL_LLAMA, 3, three, pytorch_llama_losses, pytorch_llama_norms);
}

static void test_gpt(void **state) {
    (void)state;
    check(MODEL_GPT, 1, whole, pytorch_gpt_losses, pytorch_gpt_norms);
    check(MODEL_GPT, 3, three, pytorch_gpt_losses, pytorch_gpt_norms);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_llama), cmocka_unit_test(test_gpt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
