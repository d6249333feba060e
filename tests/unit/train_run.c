#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text.h"
#include "train/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char small[] = "name: small\n"
                            "seed: 7\n"
                            "stages: [0, 2, 2, 2]\n"
                            "model:\n"
                            "  dim: 64\n"
                            "  layers: 6\n"
                            "  heads: 4\n"
                            "data:\n"
                            "  text: words.txt\n"
                            "train:\n"
                            "  iterations: 50\n";

static run_config run, other;

static void parse(const char *text) {
    braid_error error = {0};
    if (run_config_parse(text, strlen(text), "run.yaml", "/base", &run, &error) != BRAID_OK) fail_msg("%s", error.text);
}

static void expect_refused(const char *text, const char *message) {
    braid_error error = {0};
    assert_int_equal(run_config_parse(text, strlen(text), "run.yaml", "/base", &other, &error), BRAID_CONFIG);
    assert_text_holds(error.text, message);
}

// `small` with its first `old` replaced.
static const char *changed(const char *old, const char *new) { return text_changed(small, old, new); }

static void test_defaults(void **state) {
    (void)state;
    parse(small);
    assert_string_equal(run.name, "small");
    assert_int_equal(run.seed, 7);
    assert_int_equal(run.stages, 4);
    assert_int_equal(run.blocks[1], 2);
    assert_int_equal(run.model.arch, MODEL_LLAMA);
    assert_int_equal(run.model.kv_heads, 4);
    assert_int_equal(run.model.ffn_dim, 192);
    assert_int_equal(run.model.vocab, 256);
    assert_int_equal(run.tokens, run.model.context);
    assert_string_equal(run.text[0], "/base/words.txt");
    assert_true(run.recipe.min_learning_rate == run.recipe.learning_rate / 10);
    assert_int_equal(run.recipe.warmup, 2);
    assert_int_equal(run.max_skipped, 10);
    assert_true(run.recipe.reproducible);
    assert_int_equal(run.eval_every, 5);
    assert_int_equal(run.slots, 8);
    assert_int_equal(run.data_peers, 1);
    assert_string_equal(run.checkpoint, "");
}

static void test_layers_are_distributed_over_stages(void **state) {
    (void)state;
    static const uint32_t layers[] = {1, 2, 3, 7}, expected[][4] = {{0, 1}, {0, 1, 1}, {0, 1, 1, 1}, {0, 3, 2, 2}};
    for (size_t i = 0; i < 4; i++) {
        char text[256];
        snprintf(text, sizeof text, "model: {dim: 64, layers: %u, heads: 4}\ndata: {text: a}\n", layers[i]);
        parse(text);
        assert_int_equal(run.stages, layers[i] < 3 ? layers[i] + 1 : 4);
        for (uint32_t j = 0; j < run.stages; j++) assert_int_equal(run.blocks[j], expected[i][j]);
    }
}

static void test_every_key(void **state) {
    (void)state;
    parse("name: all\nseed: 18446744073709551615\nstages: [1, 1]\n"
          "model: {arch: gpt, dim: 32, layers: 2, heads: 2, kv_heads: 2, ffn_dim: 96, vocab: 300, context: 64, "
          "rope_theta: 5000, norm_eps: 1e-6, tied: false}\n"
          "data: {text: [/abs/a, b], holdout: 0.1}\n"
          "train: {iterations: 9, microbatches: 6, sequences: 2, tokens: 32, learning_rate: 0.01, min_learning_rate: "
          "0, warmup: 0, betas: [0.8, 0.9],\n"
          "  eps: 1e-6, weight_decay: 0, clip: 0, mode: fast, products: common, recompute: true, max_skipped: 3}\n"
          "eval: {every: 0, microbatches: 3}\ncheckpoint: {dir: out, every: 4}\n"
          "swarm: {data_peers: 2, slots: 3, capacity: 5, max_memory: 1.5G, routing: gwtf, objective: worst}\n");
    assert_true(run.seed == UINT64_MAX);
    assert_int_equal(run.model.arch, MODEL_GPT);
    assert_int_equal(run.model.ffn_dim, 96);
    assert_int_equal(run.model.vocab, 300);
    assert_false(run.model.tied);
    assert_int_equal(run.text_count, 2);
    assert_string_equal(run.text[0], "/abs/a");
    assert_string_equal(run.text[1], "/base/b");
    assert_true(run.holdout == 0.1);
    assert_int_equal(run.recipe.warmup, 0);
    assert_true(run.recipe.beta1 == 0.8f && run.recipe.beta2 == 0.9f);
    assert_true(run.recipe.clip == 0 && run.recipe.min_learning_rate == 0);
    assert_false(run.recipe.reproducible);
    assert_false(run_multiplies_fastest(&run));
    assert_true(run.recompute);
    assert_int_equal(run.max_skipped, 3);
    assert_int_equal(run.eval_every, 0);
    assert_string_equal(run.checkpoint, "/base/out");
    assert_int_equal(run.checkpoint_every, 4);
    assert_int_equal(run.data_peers, 2);
    assert_int_equal(run.capacity, 5);
    assert_int_equal(run.max_memory, 1610612736);
    assert_int_equal(run.routing, RUN_ROUTING_GWTF);
    assert_int_equal(run.objective, RUN_OBJECTIVE_WORST);
}

#define ROW(arch, more) "model: {arch: " arch ", dim: 64, layers: 6, heads: 4, kv_heads: 2" more "}\ndata: {text: a}\n"

// The description that peers receive carries every member of the model, so that the run's hash covers
// it.
static void expect_carried(const char *text, model_arch arch) {
    char described[WIRE_MAX_DESCRIPTION_BYTES];
    const braid_hash data = {{1}};
    braid_hash back;
    braid_error error = {0};
    model_difference d;
    parse(text);
    assert_int_equal(run.model.arch, arch);
    size_t length = run_config_describe(&run, &data, described, sizeof described);
    assert_true(length > 0);
    if (run_config_from_description(described, length, &other, &back, &error)) fail_msg("%s in %s", error.text, described);
    if (model_config_differ(&run.model, &other.model, &d)) fail_msg("%s: %g became %g", d.member, d.first, d.second);
    braid_hash first = run_config_hash(&run, &data), second = run_config_hash(&other, &data);
    assert_memory_equal(&first, &second, sizeof first);
}

static void test_architectures(void **state) {
    (void)state;
    expect_carried(ROW("llama", ", head_dim: 10, attention_bias: true, mlp_bias: true, rope_scaling: llama3, rope_factor: 8, rope_low_freq_factor: 1, rope_high_freq_factor: 4, rope_original_context: 100"), MODEL_LLAMA);
    assert_true(run.model.qkv_bias && run.model.o_bias && run.model.mlp_bias);
    assert_int_equal(run.model.rope.original_context, 100);
    expect_carried(ROW("llama", ", rope_scaling: yarn, rope_factor: 8, rope_beta_fast: 20, rope_beta_slow: 2, rope_attention_factor: 1.5"), MODEL_LLAMA);
    assert_int_equal(run.model.rope.original_context, 256);
    expect_carried(ROW("mistral", ", window: 32"), MODEL_MISTRAL);
    assert_true(run.model.windowed[0] == 63);
    expect_carried(ROW("qwen2", ", window: 32, windowed: [4, 5]"), MODEL_QWEN2);
    assert_true(run.model.windowed[0] == 48 && run.model.qkv_bias && !run.model.o_bias);
    expect_carried(ROW("qwen3", ", head_dim: 32"), MODEL_QWEN3);
    expect_carried(ROW("smollm3", ""), MODEL_SMOLLM3);
    assert_true(run.model.unrotated[0] == 8);
    expect_carried(ROW("smollm3", ", unrotated: [], window: 9, windowed: all"), MODEL_SMOLLM3);
    assert_true(run.model.unrotated[0] == 0 && run.model.windowed[0] == 63);
    expect_carried(ROW("gemma3", ", window: 32, attention_scale: 0.125, logit_softcap: 30"), MODEL_GEMMA3);
    assert_true(run.model.windowed[0] == 31 && run.model.embedding_scale == 8 && run.model.local_rope_theta == 10000);
    expect_carried(ROW("gemma2", ", window: 32, attention_softcap: 50"), MODEL_GEMMA2);
    assert_true(run.model.windowed[0] == 21);
    expect_carried(ROW("mixtral", ", experts: 4, experts_used: 2"), MODEL_MIXTRAL);
    assert_true(run.model.normalised_experts && run.model.expert_ffn_dim == run.model.ffn_dim);
    expect_carried(ROW("qwen3-moe", ", experts: 12, experts_used: 3, expert_ffn_dim: 24, normalised_experts: true"), MODEL_QWEN3_MOE);
    assert_true(run.model.normalised_experts);
    expect_refused(ROW("llama", ", window: 32"), "llama has no window");
    expect_refused(ROW("mixtral", ""), "experts is 0");
    expect_refused(ROW("qwen3", ", window: 5, windowed: [6]"), "model.windowed");
    expect_refused(ROW("qwen3", ", window: 5, windowed: some"), "must be all, or a list");
    expect_refused(ROW("bert", ""), "model.arch");
}

// Descriptions of plain models are those of earlier versions, and so are their hashes.
static void test_plain_descriptions_have_no_other_keys(void **state) {
    (void)state;
    char described[WIRE_MAX_DESCRIPTION_BYTES];
    const braid_hash data = {{1}};
    parse(small);
    assert_true(run_config_describe(&run, &data, described, sizeof described) > 0);
    const char *model = strstr(described, "model:\n"), *end = strstr(described, "data:\n");
    assert_true(model && end && end > model);
    size_t lines = 0;
    for (const char *c = model; c < end; c++) lines += *c == '\n';
    assert_int_equal(lines, 12);  // the section, and eleven keys
}

static void test_private_data(void **state) {
    (void)state;
    const char *all = "model: {dim: 64, layers: 2, heads: 4}\ndata: {text: [a, b, c], private: 3}\ntrain: {batches: elastic, patience: 5}\n";
    braid_error error;
    parse(all);
    assert_int_equal(run.private_data, 3);
    assert_int_equal(run.slots, 3);
    assert_int_equal(run.data_peers, 3);
    assert_true(run.elastic);
    assert_int_equal(run.patience, 5);
    assert_int_equal(run_config_has_all_texts(&run, &error), BRAID_OK);
    // the text's content is not part of the run
    const braid_hash one = {{1}}, another = {{2}};
    braid_hash first = run_config_hash(&run, &one), second = run_config_hash(&run, &another);
    assert_true(hash_equal(&first, &second));
    parse("model: {dim: 64, layers: 2, heads: 4}\ndata: {text: a, private: 3}\ntrain: {batches: elastic, patience: 5}\n");
    second = run_config_hash(&run, &one);
    assert_true(hash_equal(&first, &second));
    assert_int_equal(run_config_has_all_texts(&run, &error), BRAID_CONFIG);
    parse(small);
    assert_false(run.elastic);
    assert_int_equal(run.private_data, 0);
    expect_refused(changed("data:", "data:\n  private: 9"), "data.private is 9 but there are 8 microbatches");
    expect_refused("model: {dim: 64, layers: 2, heads: 4}\ndata: {text: [a, b], private: 3}\n", "data.private is 3 and data.text names 2 files");
    expect_refused("model: {dim: 64, layers: 2, heads: 4}\ndata: {text: a, private: 3}\nswarm: {slots: 2}\n", "data.private is 3 but swarm.slots is 2");
    expect_refused("model: {dim: 64, layers: 2, heads: 4}\ndata: {text: a, private: 3}\nswarm: {data_peers: 2}\n", "swarm.data_peers is 2");
    expect_refused(changed("train:", "train:\n  batches: elastic"), "train.batches is elastic");
}

static void test_paths(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"a", "/base/in/a"},         {"./a", "/base/in/a"},   {"../a", "/base/a"},
                                           {"../../b/../a", "/b/../a"}, {"../../../a", "/../a"}, {"/a", "/a"}};
    for (size_t i = 0; i < 6; i++) {
        braid_error error = {0};
        char text[128];
        snprintf(text, sizeof text, "model: {dim: 64, layers: 1, heads: 4}\ndata: {text: %s}\n", cases[i][0]);
        assert_int_equal(run_config_parse(text, strlen(text), "run.yaml", "/base/in", &run, &error), BRAID_OK);
        assert_string_equal(run.text[0], cases[i][1]);
    }
}

static void test_mistakes(void **state) {
    (void)state;
    expect_refused(changed("  iterations: 50", "  iteration: 50"),
                   "run.yaml:11:3: unknown key 'iteration' in 'train'; did you mean 'iterations'?");
    expect_refused(changed("train:", "trian:"), "run.yaml:10:1: unknown key 'trian'; did you mean 'train'?");
    expect_refused(changed("  iterations: 50", "  iterations: many"),
                   "run.yaml:11:15: train.iterations must be a whole number, not 'many'");
    expect_refused(changed("  iterations: 50", "  iterations: 0"), "train.iterations must be from 1 to");
    expect_refused(changed("  dim: 64\n", ""),
                   "run.yaml:5:3: model.dim is missing: the model's width; add for example 'dim: 256' under 'model:'");
    expect_refused(changed("  text: words.txt", "  holdout: 0.1"), "data.text is missing: add 'text: FILE'");
    expect_refused(changed("data:\n  text: words.txt\n", ""), "run.yaml:1:1: data.text is missing");
    expect_refused(changed("[0, 2, 2, 2]", "[0, 2, 2, 1]"),
                   "run.yaml:3:9: stages add up to 5 blocks but model.layers is 6: make the two equal");
    expect_refused(changed("[0, 2, 2, 2]", "[0, 3, 0, 3]"), "run.yaml:3:16: stages must be from 1 to");
    expect_refused(changed("[0, 2, 2, 2]", "4"), "stages must be a list");
    expect_refused(changed("[0, 2, 2, 2]", "[]"), "stages must be a list");
    expect_refused(changed("  heads: 4", "  heads: 5"), "run.yaml:5:3: model: ");
    expect_refused(changed("train:", "train:\n  tokens: 257"),
                   "run.yaml:11:11: train.tokens is 257 but model.context is 256: a sequence must fit the context");
    expect_refused(changed("train:", "train:\n  mode: quick"), "train.mode must be reproducible or fast, not 'quick'");
    expect_refused(changed("train:", "train:\n  betas: [0.9]"), "train.betas must be two numbers");
    expect_refused(changed("train:", "train:\n  learning_rate: 1e-5\n  min_learning_rate: 1e-3"),
                   "min_learning_rate is above");
    expect_refused(changed("data:", "swarm: {slots: 9}\ndata:"), "swarm.slots is 9 but there are 8 microbatches");
    expect_refused(changed("data:", "swarm: {data_peers: 9}\ndata:"), "swarm.data_peers is 9 but swarm.slots is 8");
    expect_refused(changed("train:", "train:\n  products: slow"), "run.yaml:11:13: train.products must be common or fastest, not 'slow'");
    expect_refused(changed("data:", "swarm: {objective: least}\ndata:"),
                   "run.yaml:8:20: swarm.objective must be sum or worst, not 'least'");
    expect_refused(changed("data:", "swarm: {routing: swarm}\ndata:"),
                   "run.yaml:8:18: swarm.routing 'swarm' is a baseline for comparisons, which only braid-bench runs; write braid or gwtf");
    expect_refused(changed("data:", "swarm: {placement: shuffle}\ndata:"), "run.yaml:8:20: swarm.placement must be");
    expect_refused(changed("data:", "swarm: {routing: bread}\ndata:"), "swarm.routing must be braid or gwtf, not 'bread'");
    expect_refused(changed("data:", "swarm: {routing: gwtf, plan_first: true}\ndata:"),
                   "run.yaml:8:36: swarm.plan_first is for the routing braid with the objective sum; leave it out");
    expect_refused(changed("data:", "swarm: {objective: worst, plan_first: true}\ndata:"), "swarm.plan_first is for the routing braid");
    expect_refused(changed("data:", "eval: {every: 3}\ndata:\n  holdout: 0"), "eval.every needs held-out text");
    expect_refused(changed("data:", "checkpoint: out\ndata:"),
                   "run.yaml:8:13: checkpoint must be a group of keys, not 'out'");
    expect_refused(changed("name: small", "name: \"a\\x1b[2J\""), "name may hold letters");
    expect_refused(changed("name: small", "hash: 00"), "unknown key 'hash'");
}

static void test_payload_fits_the_wire(void **state) {
    (void)state;
    expect_refused("model: {dim: 1024, layers: 1, heads: 8, context: 4096}\ntrain: {sequences: 128}\ndata: {text: a}\n",
                   "one microbatch between two stages is 2048 MiB, at most 1024");
}

static void test_description_returns(void **state) {
    (void)state;
    static char text[WIRE_MAX_DESCRIPTION_BYTES], again[WIRE_MAX_DESCRIPTION_BYTES];
    braid_error error = {0};
    braid_hash data = {{1, 2, 3, 255}}, found = {{0}};
    parse(changed("train:", "swarm: {objective: worst}\ntrain:\n  learning_rate: 0.3\n  clip: 0.1"));
    size_t length = run_config_describe(&run, &data, text, sizeof text);
    assert_true(length > 0);
    assert_null(strstr(text, "words.txt"));
    if (run_config_from_description(text, length, &other, &found, &error) != BRAID_OK) fail_msg("%s", error.text);
    assert_true(hash_equal(&data, &found));
    assert_true(other.recipe.learning_rate == run.recipe.learning_rate);
    assert_true(other.recipe.clip == run.recipe.clip);
    assert_int_equal(other.objective, RUN_OBJECTIVE_WORST);
    assert_memory_equal(&other.model, &run.model, sizeof run.model);
    assert_memory_equal(&other.recipe, &run.recipe, sizeof run.recipe);
    assert_int_equal(run_config_describe(&other, &found, again, sizeof again), length);
    assert_memory_equal(text, again, length);
    assert_int_equal(run_config_describe(&run, &data, text, length), 0);
}

static void test_hash_names_the_result(void **state) {
    (void)state;
    braid_hash data = {{1}}, other_data = {{2}};
    parse(small);
    braid_hash plain = run_config_hash(&run, &data), elsewhere = run_config_hash(&run, &other_data);
    assert_false(hash_equal(&plain, &elsewhere));
    // Settings that are local to each machine do not change the run; a seed does.
    parse(changed("data:\n  text: words.txt",
                  "checkpoint: {dir: x}\nswarm: {capacity: 3, max_memory: 1G}\ndata:\n  text: [/other/place.txt]"));
    braid_hash local = run_config_hash(&run, &data);
    assert_true(hash_equal(&plain, &local));
    parse(changed("seed: 7", "seed: 8"));
    braid_hash seeded = run_config_hash(&run, &data);
    assert_false(hash_equal(&plain, &seeded));
    // peers with different values cannot work together
    parse(changed("data:", "swarm: {objective: worst}\ndata:"));
    braid_hash routed = run_config_hash(&run, &data);
    assert_false(hash_equal(&plain, &routed));
    parse(changed("data:", "swarm: {plan_first: true}\ndata:"));
    assert_true(run.plan.first);
    braid_hash planned = run_config_hash(&run, &data);
    assert_false(hash_equal(&plain, &planned));
    parse(changed("data:", "swarm: {placement: stay}\ndata:"));
    assert_int_equal(run.plan.placement, RUN_PLACEMENT_STAY);
    braid_hash staying = run_config_hash(&run, &data);
    assert_false(hash_equal(&plain, &staying));
    parse(changed("data:", "swarm: {placement: braid}\ndata:"));
    braid_hash by_gain = run_config_hash(&run, &data);
    assert_true(hash_equal(&plain, &by_gain));
}

static void expect_description_refused(const char *text, const char *message) {
    braid_error error = {0};
    braid_hash data;
    assert_int_not_equal(run_config_from_description(text, strlen(text), &other, &data, &error), BRAID_OK);
    assert_text_holds(error.text, message);
}

static void test_strange_descriptions(void **state) {
    (void)state;
    expect_description_refused(small, "not a run's canonical description");
    expect_description_refused("braid: 2\n", "braid must be from 1 to 1");
    expect_description_refused("braid: 1\nmodel: {dim: 64, layers: 1, heads: 4}\ndata: {text: /etc/passwd}\n",
                               "unknown key 'text'");
    expect_description_refused("braid: 1\nmodel: {dim: 64, layers: 1, heads: 4}\ndata: {hash: 00ff}\n",
                               "64 hexadecimal digits");
    expect_description_refused("braid: 1\nmodel: {dim: 64, layers: 1, heads: 4}\n", "data.hash");
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void expect_load(const char *path, braid_err code, const char *message) {
    braid_error error = {0};
    assert_int_equal(run_config_load(path, NULL, &other, &error), code);
    assert_text_holds(error.text, message);
}

static void test_files(void **state) {
    (void)state;
    char name[] = "train-run-XXXXXX", path[PATH_MAX + 16], words[PATH_MAX + 16], directory[PATH_MAX];
    assert_non_null(mkdtemp(name));
    assert_non_null(realpath(name, directory));
    snprintf(path, sizeof path, "%s/run.yaml", directory);
    snprintf(words, sizeof words, "%s/words.txt", directory);
    expect_load(path, BRAID_IO, "No such file or directory");
    write_file(path, small);
    expect_load(path, BRAID_CONFIG, "run.yaml:9:9: data.text: cannot use '");
    write_file(words, "");
    expect_load(path, BRAID_CONFIG, "it is empty");
    write_file(words, "some words\n");
    expect_load(path, BRAID_OK, "");
    assert_string_equal(other.text[0], words);
    assert_int_equal(unlink(words), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

// braid-bench accepts runs of the baseline, and their descriptions reach all peers.
static void test_baselines(void **state) {
    (void)state;
    braid_error error = {0};
    braid_hash data = {{1}}, found;
    char name[] = "train-run-XXXXXX", path[PATH_MAX], text[WIRE_MAX_DESCRIPTION_BYTES];
    assert_non_null(mkdtemp(name));
    snprintf(path, sizeof path, "%s/run.yaml", name);
    write_file(path, "model: {dim: 64, layers: 1, heads: 4}\ndata: {text: run.yaml}\nswarm: {routing: swarm}\n");
    expect_load(path, BRAID_CONFIG, "run.yaml:3:18: swarm.routing 'swarm' is a baseline");
    assert_int_equal(run_config_load_with_baselines(path, NULL, &other, &error), BRAID_OK);
    assert_int_equal(other.routing, RUN_ROUTING_SWARM);
    size_t length = run_config_describe(&other, &data, text, sizeof text);
    assert_int_equal(run_config_from_description(text, length, &other, &found, &error), BRAID_OK);
    assert_int_equal(other.routing, RUN_ROUTING_SWARM);
    write_file(path, "model: {dim: 64, layers: 1, heads: 4}\ndata: {text: run.yaml}\nswarm: {routing: swarm, objective: worst}\n");
    assert_int_equal(run_config_load_with_baselines(path, NULL, &other, &error), BRAID_CONFIG);
    assert_text_holds(error.text, "run.yaml:3:36: swarm.objective is for the routings braid and gwtf");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(name), 0);
}

static void test_shapes(void **state) {
    (void)state;
    stage_shape shape;
    parse(changed("[0, 2, 2, 2]", "[1, 2, 3]"));
    run_stage_shape(&run, 0, &shape);
    assert_true(shape.ends && shape.layer_begin == 0 && shape.layer_end == 1);
    run_stage_shape(&run, 2, &shape);
    assert_true(!shape.ends && shape.layer_begin == 3 && shape.layer_end == 6);
    assert_int_equal(shape.tokens, run.tokens);
    run_solo_shape(&run, &shape);
    assert_true(shape.ends && shape.layer_begin == 0 && shape.layer_end == 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_layers_are_distributed_over_stages),
        cmocka_unit_test(test_every_key), cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_plain_descriptions_have_no_other_keys),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_payload_fits_the_wire),
        cmocka_unit_test(test_description_returns),
        cmocka_unit_test(test_hash_names_the_result),
        cmocka_unit_test(test_strange_descriptions),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_baselines),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_private_data), cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
