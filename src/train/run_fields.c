#include "train/run_fields.h"

#include "model/rows.h"

#include <math.h>
#include <string.h>

#define AT(member) .offset = offsetof(run_config, member)

enum { RUN_MAX_WIDTH = 1 << 16, RUN_MAX_LAYERS = 1024, RUN_MAX_VOCAB = 1 << 20, RUN_MAX_ITERATIONS = 1 << 30, RUN_MAX_PATIENCE = 7 * 24 * 3600, RUN_MAX_LOCAL_STEPS = 1024 };

// Default values that run_fill_defaults computes are not listed.
static const uint64_t unset_long = UINT64_MAX;
static const uint32_t unset_count = UINT32_MAX;
static const float unset_float = -1;

// clang-format off
const run_field run_fields[] = {
    {"", "name", FIELD_NAME, AT(name)},
    {"", "seed", FIELD_LONG, AT(seed), .most = UINT64_MAX},
    {"", "stages", FIELD_STAGES, AT(blocks), .most = RUN_MAX_LAYERS},
    {"model", "from", FIELD_PATH, AT(from), .local = true},
    {"model", "arch", FIELD_ARCH, AT(model.arch)},
    {"model", "dim", FIELD_COUNT, AT(model.dim), 1, RUN_MAX_WIDTH, .missing = "the model's width; add for example 'dim: 256' under 'model:', or 'from: MODEL' to start from a model"},
    {"model", "layers", FIELD_COUNT, AT(model.layers), 1, RUN_MAX_LAYERS, .missing = "how many blocks; add for example 'layers: 6' under 'model:'"},
    {"model", "heads", FIELD_COUNT, AT(model.heads), 1, RUN_MAX_WIDTH, .missing = "attention heads; add for example 'heads: 8' under 'model:'"},
    {"model", "kv_heads", FIELD_COUNT, AT(model.kv_heads), 1, RUN_MAX_WIDTH},
    {"model", "ffn_dim", FIELD_COUNT, AT(model.ffn_dim), 1, RUN_MAX_WIDTH * 4},
    {"model", "vocab", FIELD_COUNT, AT(model.vocab), 1, RUN_MAX_VOCAB},
    {"model", "context", FIELD_COUNT, AT(model.context), 2, MODEL_MAX_CONTEXT},
    {"model", "rope_theta", FIELD_FLOAT, AT(model.rope_theta), .from = 0, .to = 1e12},
    {"model", "norm_eps", FIELD_FLOAT, AT(model.norm_eps), .from = 1e-12, .to = 1e-1},
    {"model", "tied", FIELD_SWITCH, AT(model.tied)},
    {"model", "head_dim", FIELD_COUNT, AT(model.head_dim), 1, MODEL_MAX_HEAD_DIM, .optional = true},
    {"model", "attention_bias", FIELD_SWITCH, AT(model.o_bias), .optional = true},
    {"model", "mlp_bias", FIELD_SWITCH, AT(model.mlp_bias), .optional = true},
    {"model", "rope_scaling", FIELD_SCALING, AT(model.rope.kind), .optional = true},
    {"model", "rope_factor", FIELD_FLOAT, AT(model.rope.factor), .from = 1, .to = 1e6, .optional = true},
    {"model", "rope_original_context", FIELD_COUNT, AT(model.rope.original_context), 1, MODEL_MAX_CONTEXT, .optional = true},
    {"model", "rope_low_freq_factor", FIELD_FLOAT, AT(model.rope.low_freq_factor), .from = 1e-6, .to = 1e6, .optional = true},
    {"model", "rope_high_freq_factor", FIELD_FLOAT, AT(model.rope.high_freq_factor), .from = 1e-6, .to = 1e6, .optional = true},
    {"model", "rope_beta_fast", FIELD_FLOAT, AT(model.rope.beta_fast), .from = 1e-6, .to = 1e6, .optional = true},
    {"model", "rope_beta_slow", FIELD_FLOAT, AT(model.rope.beta_slow), .from = 1e-6, .to = 1e6, .optional = true},
    {"model", "rope_attention_factor", FIELD_FLOAT, AT(model.rope.attention_factor), .from = 1e-6, .to = 1e6, .optional = true},
    {"model", "local_rope_theta", FIELD_FLOAT, AT(model.local_rope_theta), .from = 1, .to = 1e9, .optional = true},
    {"model", "attention_scale", FIELD_FLOAT, AT(model.attention_scale), .from = 1e-6, .to = 1, .optional = true},
    {"model", "attention_softcap", FIELD_FLOAT, AT(model.attention_softcap), .from = 1e-6, .to = 1e6, .optional = true},
    {"model", "logit_softcap", FIELD_FLOAT, AT(model.logit_softcap), .from = 1e-6, .to = 1e6, .optional = true},
    {"model", "experts", FIELD_COUNT, AT(model.experts), 1, MODEL_MAX_EXPERTS, .optional = true},
    {"model", "experts_used", FIELD_COUNT, AT(model.experts_used), 1, MODEL_MAX_EXPERTS_USED, .optional = true},
    {"model", "expert_ffn_dim", FIELD_COUNT, AT(model.expert_ffn_dim), 1, MODEL_MAX_FFN_DIM, .optional = true},
    {"model", "normalised_experts", FIELD_SWITCH, AT(model.normalised_experts), .optional = true},
    {"model", "unrotated", FIELD_LAYERS, AT(model.unrotated), .optional = true},
    {"model", "window", FIELD_COUNT, AT(model.window), 1, MODEL_MAX_CONTEXT, .optional = true},
    {"model", "windowed", FIELD_LAYERS, AT(model.windowed), .optional = true},
    {"model", "weights", FIELD_HASH, AT(weights), .optional = true, .derived = true},
    {"adapter", "rank", FIELD_COUNT, AT(recipe.adapter.rank), 1, ADAPTER_MAX_RANK, .optional = true},
    {"adapter", "alpha", FIELD_FLOAT, AT(recipe.adapter.alpha), .from = 1e-6, .to = 1e6, .optional = true},
    {"adapter", "rslora", FIELD_SWITCH, AT(recipe.adapter.rank_stabilised), .optional = true},
    {"adapter", "targets", FIELD_TARGETS, AT(recipe.adapter.roles), .optional = true},
    {"data", "tokenizer", FIELD_TOKENIZER, AT(tokenizer), .local = true},
    {"data", "tokenizer_hash", FIELD_HASH, AT(tokenizer_hash), .optional = true, .derived = true},
    {"data", "field", FIELD_NAME, AT(field), .local = true},
    {"data", "end", FIELD_NAME, AT(end), .local = true},
    {"data", "cache", FIELD_PATH, AT(cache), .local = true},
    {"data", "mix", FIELD_MIX, AT(source), .local = true},
    {"data", "document_attention", FIELD_SWITCH, AT(documents), .optional = true},
    {"data", "text", FIELD_TEXTS, AT(text), .local = true},
    {"data", "private", FIELD_COUNT, AT(private_data), 0, WIRE_MAX_STAGE_MEMBERS},
    {"data", "holdout", FIELD_REAL, AT(holdout), .from = 0, .to = 0.5},
    {"train", "iterations", FIELD_LONG, AT(recipe.iterations), 1, RUN_MAX_ITERATIONS},
    {"train", "microbatches", FIELD_COUNT, AT(microbatches), 1, WIRE_MAX_MICROBATCHES},
    {"train", "sequences", FIELD_COUNT, AT(sequences), 1, 4096},
    {"train", "tokens", FIELD_COUNT, AT(tokens), 1, RUN_MAX_WIDTH},
    {"train", "learning_rate", FIELD_FLOAT, AT(recipe.learning_rate), .from = 0, .to = 10},
    {"train", "min_learning_rate", FIELD_FLOAT, AT(recipe.min_learning_rate), .from = 0, .to = 10},
    {"train", "warmup", FIELD_LONG, AT(recipe.warmup), 0, RUN_MAX_ITERATIONS},
    {"train", "betas", FIELD_BETAS, AT(recipe.beta1), .from = 0, .to = 0.99999},
    {"train", "eps", FIELD_FLOAT, AT(recipe.eps), .from = 1e-20, .to = 1},
    {"train", "weight_decay", FIELD_FLOAT, AT(recipe.weight_decay), .from = 0, .to = 10},
    {"train", "clip", FIELD_FLOAT, AT(recipe.clip), .from = 0, .to = 1e9},
    {"train", "local_steps", FIELD_COUNT, AT(recipe.local_steps), 0, RUN_MAX_LOCAL_STEPS, .optional = true},
    {"train", "outer_learning_rate", FIELD_FLOAT, AT(recipe.outer_rate), .from = 1e-3, .to = 10, .optional = true},
    {"train", "outer_momentum", FIELD_FLOAT, AT(recipe.outer_momentum), .from = 1e-3, .to = 0.99999, .optional = true},
    {"train", "mode", FIELD_MODE, AT(recipe.reproducible)},
    {"train", "products", FIELD_PRODUCTS, AT(products)},
    {"train", "batches", FIELD_BATCHES, AT(elastic)},
    {"train", "patience", FIELD_COUNT, AT(patience), 1, RUN_MAX_PATIENCE},
    {"train", "max_skipped", FIELD_COUNT, AT(max_skipped), 0, RUN_MAX_ITERATIONS},
    {"train", "recompute", FIELD_SWITCH, AT(recompute)},
    {"eval", "every", FIELD_COUNT, AT(eval_every), 0, RUN_MAX_ITERATIONS},
    {"eval", "microbatches", FIELD_COUNT, AT(eval_microbatches), 1, WIRE_MAX_MICROBATCHES},
    {"checkpoint", "dir", FIELD_PATH, AT(checkpoint), .local = true},
    {"checkpoint", "every", FIELD_COUNT, AT(checkpoint_every), 0, RUN_MAX_ITERATIONS},
    {"swarm", "slots", FIELD_COUNT, AT(slots), 1, WIRE_MAX_SLOTS},
    {"swarm", "routing", FIELD_ROUTING, AT(routing)},
    {"swarm", "objective", FIELD_OBJECTIVE, AT(objective)},
    {"swarm", "placement", FIELD_PLACEMENT, AT(plan.placement), .optional = true},
    {"swarm", "links", FIELD_LINKS, AT(links), .optional = true},
    {"swarm", "sums", FIELD_SUMS, AT(recipe.byte_sums), .optional = true},
    {"swarm", "plan_first", FIELD_SWITCH, AT(plan.first)},
    {"swarm", "data_peers", FIELD_COUNT, AT(data_peers), 1, WIRE_MAX_STAGE_MEMBERS, .local = true},
    {"swarm", "capacity", FIELD_COUNT, AT(capacity), 0, WIRE_MAX_MICROBATCHES, .local = true},
    {"swarm", "max_memory", FIELD_SIZE, AT(max_memory), .local = true},
};
// clang-format on
const size_t run_field_count = sizeof run_fields / sizeof *run_fields;

const char *const run_sections[] = {"", "model", "adapter", "data", "train", "eval", "checkpoint", "swarm"};
const size_t run_section_count = sizeof run_sections / sizeof *run_sections;
const char *const run_scaling_names[MODEL_ROPE_YARN + 1] = {"plain", "linear", "llama3", "yarn"};
const char *const run_mode_names[2] = {"reproducible", "fast"};
const char *const run_sum_names[2] = {"exact", "int8"};
const char *const run_batch_names[2] = {"strict", "elastic"};
const char *const run_product_names[RUN_PRODUCTS - 1] = {"common", "fastest"};
const char *const run_routing_names[RUN_ROUTINGS] = {"braid", "gwtf", "swarm"};
const char *const run_placement_names[RUN_PLACEMENTS] = {"braid", "gwtf", "stay", "shuffle"};
const char *const run_objective_names[RUN_OBJECTIVES] = {"sum", "worst"};

void run_set_defaults(run_config *run) {
    *run = (run_config){
        .name = "run",
        .seed = 1,
        .model =
            {.arch = MODEL_LLAMA, .context = 256, .rope_theta = 10000, .norm_eps = 1e-5f, .tied = true},
        .field = "text",
        .holdout = 0.02,
        .recipe = {.iterations = 1000,
                   .warmup = unset_long,
                   .learning_rate = 1e-3f,
                   .min_learning_rate = unset_float,
                   .beta1 = 0.9f,
                   .beta2 = 0.95f,
                   .eps = 1e-8f,
                   .weight_decay = 0.1f,
                   .clip = 1,
                   .outer_momentum = unset_float,
                   .reproducible = true},
        .microbatches = 8,
        .sequences = 4,
        .eval_every = unset_count,
        .eval_microbatches = 4,
        .data_peers = 1,
        .patience = 30,
        .max_skipped = RUN_MAX_SKIPPED,
    };
}

static uint32_t smaller(uint64_t a, uint64_t b) { return (uint32_t)(a < b ? a : b); }

// Stage 0 gets only the two ends. Up to three relay stages share the blocks; the first ones get the
// remainder.
static void fill_stages(run_config *run) {
    uint32_t relays = smaller(run->model.layers, 3);
    run->stages = relays + 1;
    run->blocks[0] = 0;
    for (uint32_t i = 0; i < relays; i++)
        run->blocks[i + 1] = run->model.layers / relays + (i < run->model.layers % relays);
}

static bool is_zero(const void *at, size_t size) {
    const char *bytes = at;
    for (size_t i = 0; i < size; i++)
        if (bytes[i]) return false;
    return true;
}

bool run_field_is_written(const run_config *run, const run_field *f) {
    const void *place = (const char *)run + f->offset;
    const model_row *row = model_row_of(run->model.arch);
    if (f->local) return false;
    if (!f->optional) return true;
    switch (f->kind) {
    // An empty set differs from none where the row has such layers.
    case FIELD_LAYERS:
        return f->offset == offsetof(run_config, model.unrotated) ? row->may_unrotated : run->model.window > 0;
    case FIELD_SUMS:
    case FIELD_SWITCH: return *(const bool *)place;
    case FIELD_LINKS: return run->links.forward != CODEC_FP32 || run->links.backward != CODEC_FP32;
    case FIELD_HASH: return !is_zero(place, sizeof(braid_hash));
    case FIELD_FLOAT: return *(const float *)place > 0;
    case FIELD_TARGETS: return *(const uint64_t *)place != 0;
    default: return !is_zero(place, sizeof(uint32_t));
    }
}

void run_default_layers(run_config *run, const run_field *f) {
    model_config *model = &run->model;
    const model_row *row = model_row_of(model->arch);
    bool windowed = f->offset == offsetof(run_config, model.windowed);
    uint32_t period = windowed ? row->absent.window_period : 4;
    if (windowed ? model->window == 0 : !row->may_unrotated) return;
    if (windowed && row->may_unrotated) {
        memcpy(model->windowed, model->unrotated, sizeof model->windowed);
        return;
    }
    // Windows: all layers but the last of each period. Unrotated: the last of each period.
    for (uint32_t i = 0; i < model->layers && i < MODEL_MAX_LAYERS; i++) {
        bool last = period > 0 && (i + 1) % period == 0;
        if (windowed && !last) model_set_layer(model->windowed, i);
        if (!windowed && last) model_set_layer(model->unrotated, i);
    }
}

// Members that the architecture fixes, and those that follow from others.
static void fill_model(model_config *model) {
    const model_row *row = model_row_of(model->arch);
    if (model->kv_heads == 0) model->kv_heads = model->heads;
    if (model->ffn_dim == 0) model->ffn_dim = row->gated ? (8 * model->dim / 3 + 31) / 32 * 32 : 4 * model->dim;
    if (model->head_dim && model->dim % model->heads == 0 && model->head_dim == model->dim / model->heads)
        model->head_dim = 0;
    model->qkv_bias = model->o_bias || row->always_qkv_bias;
    if (row->scaled_embedding) model->embedding_scale = sqrtf((float)model->dim);
    if (row->local_theta && !(model->local_rope_theta > 0)) model->local_rope_theta = row->absent.local_rope_theta;
    if (row->mixture && model->expert_ffn_dim == 0) model->expert_ffn_dim = model->ffn_dim;
    if (row->always_normalised) model->normalised_experts = true;
    model_rope *rope = &model->rope;
    bool stretched = rope->kind == MODEL_ROPE_LLAMA3 || rope->kind == MODEL_ROPE_YARN;
    if (stretched && rope->original_context == 0) rope->original_context = model->context;
}

// alpha = 2 rank and all matrices are what adapters are usually trained with.
static void fill_adapter(run_config *run) {
    adapter_config *a = &run->recipe.adapter;
    if (a->rank == 0) return;
    if (!(a->alpha > 0)) a->alpha = 2 * (float)a->rank;
    if (a->roles == 0) a->roles = adapter_all_roles(&run->model);
}

// Without data.mix the texts are one source.
static void fill_sources(run_config *run) {
    for (uint32_t i = 0; i < run->source_count; i++)
        if (!run->source[i].field[0]) memcpy(run->source[i].field, run->field, sizeof run->field);
    if (run->source_count > 0 || run->text_count == 0) return;
    run->source_count = 1;
    run->source[0] = (run_source){.weight = 1, .count = run->text_count};
    memcpy(run->source[0].field, run->field, sizeof run->field);
}

// The outer step's defaults are DiLoCo's. Local steps need the whole model in one stage.
static void fill_local(run_config *run) {
    train_recipe *recipe = &run->recipe;
    if (recipe->local_steps == 0) return;
    if (!(recipe->outer_rate > 0)) recipe->outer_rate = 0.7f;
    if (recipe->outer_momentum < 0) recipe->outer_momentum = 0.9f;
    recipe->local_rows = run->sequences * run->tokens;
    if (run->stages > 0) return;
    run->stages = 1;
    run->blocks[0] = run->model.layers;
}

void run_fill_defaults(run_config *run) {
    model_config *model = &run->model;
    train_recipe *recipe = &run->recipe;
    fill_sources(run);
    fill_model(model);
    fill_adapter(run);
    if (model->vocab == 0) model->vocab = 256;
    // models have contexts far longer than the sequences that they are usually tuned on
    if (run->tokens == 0) run->tokens = run->from[0] ? smaller(model->context, RUN_FROM_TOKENS) : model->context;
    fill_local(run);
    if (run->stages == 0) fill_stages(run);
    if (recipe->warmup == unset_long) recipe->warmup = recipe->iterations / 20;
    if (recipe->min_learning_rate < 0) recipe->min_learning_rate = recipe->learning_rate / 10;
    if (run->eval_every == unset_count)
        run->eval_every = run->holdout > 0 ? smaller((recipe->iterations + 9) / 10, unset_count) : 0;
    if (run->slots == 0) run->slots = run->private_data > 0 ? run->private_data : smaller(run->microbatches, 8);
    if (run->private_data > 0 && run->data_peers == 1) run->data_peers = run->private_data;
}
