// The keys of tokenised data and of the model to start from, and what of them identifies the run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text.h"
#include "train/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static run_config run, other;
static char directory[] = "train-run-XXXXXX", path[64];

static braid_err read_vocabulary(const char *tokenizer, uint32_t *tokens, braid_error *error) {
    if (strstr(tokenizer, "missing")) return braid_fail(error, BRAID_IO, "no such tokenizer");
    *tokens = 300;
    return BRAID_OK;
}

static model_config given;

static braid_err read_model(const char *model, model_config *out, braid_error *error) {
    if (strstr(model, "missing")) return braid_fail(error, BRAID_IO, "no such model");
    *out = given;
    return BRAID_OK;
}

static braid_err load(const char *text, const char *from, braid_error *error) {
    const run_readers readers = {.vocabulary = read_vocabulary, .model = read_model, .from = from};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return run_config_load(path, &readers, &run, error);
}

static void accept(const char *text, const char *from) {
    braid_error error = {0};
    if (load(text, from, &error)) fail_msg("%s", error.text);
}

static void refuse(const char *text, const char *from, const char *message) {
    braid_error error = {0};
    assert_int_not_equal(load(text, from, &error), BRAID_OK);
    assert_text_holds(error.text, message);
}

#define MODEL "model: {dim: 64, layers: 2, heads: 4}\n"

static void a_tokenizer_gives_the_vocabulary(void **state) {
    (void)state;
    accept(MODEL "data: {text: ['*.jsonl', a/], tokenizer: tok, field: body, end: <e>}\n", NULL);
    assert_int_equal(run.model.vocab, 300);
    assert_int_equal(run.source_count, 1);
    assert_int_equal(run.source[0].count, 2);
    assert_string_equal(run.source[0].field, "body");
    assert_string_equal(run.end, "<e>");
    assert_text_holds(run.tokenizer, "/tok");
    accept("model: {dim: 64, layers: 2, heads: 4, vocab: 320}\ndata: {text: a, tokenizer: tok}\n", NULL);
    assert_int_equal(run.model.vocab, 320);
    accept(MODEL "data: {text: a, tokenizer: bytes}\n", NULL);
    assert_string_equal(run.tokenizer, "bytes");
    assert_int_equal(run.model.vocab, 256);
    refuse("model: {dim: 64, layers: 2, heads: 4, vocab: 299}\ndata: {text: a, tokenizer: tok}\n", NULL,
           "run.yaml:1:46: model.vocab is 299 and the tokenizer has 300");
    refuse(MODEL "data: {text: a, tokenizer: bytes, end: x}\n", NULL, "data.end is for tokenizers");
    refuse(MODEL "data: {text: a, tokenizer: missing}\n", NULL, "run.yaml:2:28: data.tokenizer: no such tokenizer");
    refuse("model: {dim: 64, layers: 2, heads: 4, vocab: 255}\ndata: {text: run.yaml}\n", NULL,
           "model.vocab must be at least 256");
}

static void sources_have_weights(void **state) {
    (void)state;
    accept(
        MODEL
        "data:\n  tokenizer: tok\n  field: f\n  mix:\n    b: {text: [x, y], weight: 2.5}\n    a: {text: z, field: g}\n",
        NULL);
    assert_int_equal(run.source_count, 2);
    assert_string_equal(run.source[0].name, "b");
    assert_int_equal(run.source[0].count, 2);
    assert_true(run.source[0].weight == 2.5);
    assert_string_equal(run.source[0].field, "f");
    assert_string_equal(run.source[1].field, "g");
    assert_int_equal(run.source[1].first, 2);
    assert_text_holds(run.text[2], "/z");
    refuse(MODEL "data: {tokenizer: t, text: a, mix: {b: {text: c}}}\n", NULL, "data.text and data.mix are both set");
    refuse(MODEL "data: {mix: {b: {text: c}}}\n", NULL, "data.mix needs tokenised texts");
    refuse(MODEL "data: {tokenizer: t, mix: {b: {weight: 1}}}\n", NULL, "data.mix.b.text is missing");
    refuse(MODEL "data: {tokenizer: t, mix: {b: {text: c, weight: 0}}}\n", NULL, "a weight in data.mix");
    refuse(MODEL "data: {tokenizer: t, mix: {b: {txt: c}}}\n", NULL, "unknown key 'txt'");
    refuse(MODEL "data: {tokenizer: t, mix: {}}\n", NULL, "data.mix has 0 sources");
    refuse(MODEL "data: {tokenizer: t, mix: {b: {text: c}}, private: 2}\n", NULL, "cannot be combined");
    refuse(MODEL "data: {tokenizer: t}\n", NULL, "data.text is missing");
    refuse(MODEL "data: {text: run.yaml, field: f}\n", NULL, "data.field is for tokenised texts");
    refuse(MODEL "data: {text: run.yaml, document_attention: true}\n", NULL,
           "data.document_attention is for tokenised texts");
}

static void describe(const run_config *from, char text[WIRE_MAX_DESCRIPTION_BYTES]) {
    const braid_hash data = {{5}};
    braid_hash found;
    braid_error error = {0};
    size_t length = run_config_describe(from, &data, text, WIRE_MAX_DESCRIPTION_BYTES - 1);
    assert_true(length > 0);
    text[length] = 0;
    if (run_config_from_description(text, length, &other, &found, &error)) fail_msg("%s in\n%s", error.text, text);
    assert_memory_equal(&found, &data, sizeof data);
}

// Paths do not travel; the attention does. Descriptions of byte runs have none of the newer keys.
static void the_description_has_what_peers_need(void **state) {
    char text[WIRE_MAX_DESCRIPTION_BYTES];
    (void)state;
    accept(MODEL "data: {text: run.yaml}\n", NULL);
    describe(&run, text);
    for (size_t i = 0; i < 6; i++) {
        static const char *const newer[] = {"tokenizer", "document", "weights", "head_dim", "window", "mix"};
        if (strstr(text, newer[i])) fail_msg("'%s' in\n%s", newer[i], text);
    }
    accept(MODEL "data: {text: a, tokenizer: tok, document_attention: true}\n", NULL);
    describe(&run, text);
    assert_text_holds(text, "document_attention: true");
    assert_null(strstr(text, "tok:"));
    assert_null(strstr(text, "tokenizer"));
    assert_true(other.documents);
    assert_int_equal(run_activation_bytes(&other), run_activation_bytes(&run));
    assert_int_equal(run_activation_bytes(&run), (uint64_t)run.sequences * run.tokens * (64 * 4 + 4));
}

static model_config gemma(void) {
    model_config m = {.arch = MODEL_GEMMA3,
                      .dim = 64,
                      .layers = 6,
                      .heads = 4,
                      .kv_heads = 2,
                      .ffn_dim = 128,
                      .vocab = 400,
                      .context = 4096,
                      .rope_theta = 1e6f,
                      .norm_eps = 1e-6f,
                      .tied = true};
    m.head_dim = 32;
    m.rope = (model_rope){.kind = MODEL_ROPE_LINEAR, .factor = 8};
    m.local_rope_theta = 10000;
    m.window = 512;
    m.windowed[0] = 0x1f;
    m.attention_scale = 0.0625f;
    m.embedding_scale = 8;
    return m;
}

static void a_model_gives_the_shape(void **state) {
    char text[WIRE_MAX_DESCRIPTION_BYTES];
    (void)state;
    given = gemma();
    accept("model: {from: m}\ndata: {text: a}\n", NULL);
    assert_memory_equal(&run.model, &given, sizeof given);
    assert_text_holds(run.from, "/m");
    assert_string_equal(run.tokenizer, run.from);
    assert_int_equal(run.tokens, RUN_FROM_TOKENS);
    assert_false(run_has_model(&run));
    run.weights.bytes[3] = 7;  // as after the conversion
    assert_true(run_has_model(&run));
    describe(&run, text);
    assert_memory_equal(&other.model, &given, sizeof given);
    assert_memory_equal(&other.weights, &run.weights, sizeof run.weights);
    assert_null(strstr(text, "from"));
    accept("model: {from: m, context: 64}\ndata: {text: a, tokenizer: tok}\n", NULL);
    assert_int_equal(run.model.context, 64);
    assert_int_equal(run.tokens, 64);
    accept("data: {text: a, tokenizer: tok}\n", "/elsewhere");
    assert_string_equal(run.from, "/elsewhere");
    refuse("model: {from: m, dim: 64}\ndata: {text: a}\n", NULL, "model.dim: the model");
    refuse("model: {from: missing}\ndata: {text: a}\n", NULL, "run.yaml:1:15: model.from: no such model");
    refuse("data: {text: a}\n", "missing", "--from: no such model");
    given = (model_config){.arch = MODEL_GPT,
                           .dim = 64,
                           .layers = 2,
                           .heads = 4,
                           .kv_heads = 4,
                           .ffn_dim = 256,
                           .vocab = 400,
                           .context = 128,
                           .norm_eps = 1e-5f,
                           .tied = true};
    accept("model: {from: m}\ndata: {text: a}\n", NULL);
    describe(&run, text);
    refuse("model: {from: m, context: 64}\ndata: {text: a}\n", NULL, "learned positions");
    given.vocab = 200;
    refuse("model: {from: m}\ndata: {text: a}\n", NULL, "the tokenizer has 300 tokens");
    // only a leader writes the weights' hash
    refuse(MODEL "  weights: 00\n", NULL, "run.yaml");
    refuse("model: {dim: 64, layers: 2, heads: 4, weights: x}\ndata: {text: run.yaml}\n", NULL,
           "unknown key 'weights'");
}

static void an_adapter_is_part_of_the_run(void **state) {
    char text[WIRE_MAX_DESCRIPTION_BYTES];
    (void)state;
    given = gemma();
    accept("model: {from: m}\ndata: {text: a}\n", NULL);
    describe(&run, text);
    assert_null(strstr(text, "adapter"));
    accept("model: {from: m}\nadapter: {rank: 8}\ndata: {text: a}\n", NULL);
    assert_true(run.recipe.adapter.rank == 8 && run.recipe.adapter.alpha == 16 && !run.recipe.adapter.rank_stabilised);
    assert_int_equal(run.recipe.adapter.roles, adapter_all_roles(&given));
    accept("model: {from: m}\nadapter: {rank: 8, alpha: 4, rslora: true, targets: [q_proj, mlp.up_proj]}\ndata: {text: "
           "a}\n",
           NULL);
    run.weights.bytes[3] = 7;           // as after the conversion
    assert_false(run_has_model(&run));  // the first parameters come from the seed
    describe(&run, text);
    assert_text_holds(
        text, "adapter:\n  rank: 8\n  alpha: 4\n  rslora: true\n  targets: [\"self_attn.q_proj\", \"mlp.up_proj\"]\n");
    assert_memory_equal(&other.weights, &run.weights, sizeof run.weights);
    assert_int_equal(other.recipe.adapter.roles, 1u << ROLE_Q | 1u << ROLE_UP);
    assert_true(other.recipe.adapter.rank == 8 && other.recipe.adapter.alpha == 4 &&
                other.recipe.adapter.rank_stabilised);
    refuse("model: {from: m}\nadapter: {alpha: 8}\ndata: {text: a}\n", NULL, "run.yaml:2:10: adapter.rank is missing");
    refuse("model: {from: m}\nadapter: {rank: 0}\ndata: {text: a}\n", NULL, "adapter.rank");
    refuse("model: {from: m}\nadapter: {rank: 5000}\ndata: {text: a}\n", NULL, "adapter.rank");
    refuse("model: {from: m}\nadapter: {rank: 8, alpha: -1}\ndata: {text: a}\n", NULL, "adapter.alpha");
    refuse("model: {from: m}\nadapter: {rank: 8, dropout: 0.1}\ndata: {text: a}\n", NULL, "unknown key 'dropout'");
    refuse("model: {from: m}\nadapter: {rank: 8, targets: [q_proj, embed_tokens]}\ndata: {text: a}\n", NULL,
           "run.yaml:2:38: adapter.targets: the model has no matrix 'embed_tokens'; name some of self_attn.q_proj, ");
    refuse("model: {from: m}\nadapter: {rank: 8, targets: []}\ndata: {text: a}\n", NULL, "empty list");
    refuse(MODEL "adapter: {rank: 8}\ndata: {text: run.yaml}\n", NULL,
           "an adapter adapts a model: name one with 'from: MODEL'");
}

static int setup(void **state) {
    (void)state;
    if (!mkdtemp(directory)) return 1;
    snprintf(path, sizeof path, "%s/run.yaml", directory);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tokenizer_gives_the_vocabulary),    cmocka_unit_test(sources_have_weights),
        cmocka_unit_test(the_description_has_what_peers_need), cmocka_unit_test(a_model_gives_the_shape),
        cmocka_unit_test(an_adapter_is_part_of_the_run),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
