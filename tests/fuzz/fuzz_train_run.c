// Descriptions of runs: no text harms the reader, and the canonical text of an accepted run gives
// the same run.
#include "fuzz.h"

#include "base/rng.h"
#include "train/run.h"

#include <string.h>

// libfyaml 0.7.12 itself loses 2 KiB when a text ends inside a quoted scalar.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libfyaml"; }

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const extra[] = {
        "",
        "stages: [1, 2, 3]\n",
        "eval: {every: 3, microbatches: 2}\n",
        "checkpoint:\n  dir: out\n  every: 10\n",
        "swarm: {data_peers: 2, slots: 4, max_memory: 1.5G}\n",
        "adapter: {rank: 4, alpha: 0.5, rslora: true, targets: [q_proj, c_attn]}\n",
    };
    static const char *const recipe[] = {"", "  betas: [0.9, 0.95]\n", "  mode: fast\n  recompute: true\n",
                                         "  learning_rate: 3e-4\n  clip: 0.5\n  warmup: 7\n"};
    rng r = {rng_seed(45, number)};
    int length = snprintf((char *)bytes, capacity,
                          "# a run\nname: \"fuzz %u\"\nseed: %llu\n%smodel:\n  arch: %s\n  dim: %u\n  layers: 6\n  "
                          "heads: 4\ndata:\n  text:\n  - a.txt\n  - 'b'\n  holdout: 0.%u\ntrain:\n  iterations: %u\n%s",
                          (unsigned)rng_below(&r, 100), (unsigned long long)rng_next(&r), extra[rng_below(&r, 6)],
                          rng_below(&r, 2) ? "llama" : "gpt", 64u << rng_below(&r, 4), (unsigned)rng_below(&r, 50),
                          1 + (unsigned)rng_below(&r, 1000), recipe[rng_below(&r, 4)]);
    return length > 0 && (size_t)length < capacity ? (size_t)length : 0;
}

static void check_canonical(const run_config *run) {
    static char text[WIRE_MAX_DESCRIPTION_BYTES], again[WIRE_MAX_DESCRIPTION_BYTES];
    static run_config back;
    braid_hash data = {{7}}, found;
    size_t length = run_config_describe(run, &data, text, sizeof text);
    FUZZ_CHECK(length > 0);
    FUZZ_CHECK(run_config_from_description(text, length, &back, &found, NULL) == BRAID_OK);
    FUZZ_CHECK(hash_equal(&data, &found));
    FUZZ_CHECK(run_config_describe(&back, &found, again, sizeof again) == length);
    FUZZ_CHECK(memcmp(text, again, length) == 0);
    for (uint32_t i = 0; i < run->stages; i++) {
        stage_shape shape;
        run_stage_shape(run, i, &shape);
        FUZZ_CHECK(shape.layer_end <= run->model.layers);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static run_config run;
    braid_error error = {0};
    braid_hash hash;
    braid_err code = run_config_parse((const char *)data, size, "run.yaml", "/base", &run, &error);
    FUZZ_CHECK(code == BRAID_OK || error.text[0] != 0);
    if (code == BRAID_OK) check_canonical(&run);
    error = (braid_error){0};
    code = run_config_from_description((const char *)data, size, &run, &hash, &error);
    FUZZ_CHECK(code == BRAID_OK || error.text[0] != 0);
    return 0;
}
