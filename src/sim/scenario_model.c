// The model of a scenario and its stages: shapes from a preset, from keys or from a run's
// description, and bytes and operations from the shapes.
#include "sim/scenario_read.h"

#include "format/quantity.h"
#include "format/suggest.h"
#include "model/layout.h"
#include "train/byte_sum.h"
#include "train/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct preset {
    const char *name;
    model_config model;
} preset;

// clang-format off
static const preset presets[] = {
    {"demo",        {.arch = MODEL_LLAMA, .dim = 128, .layers = 6, .heads = 4, .kv_heads = 2, .ffn_dim = 352, .vocab = 256, .context = 128, .rope_theta = 10000, .norm_eps = 1e-5f, .tied = true}},
    {"gpt2-small",  {.arch = MODEL_GPT, .dim = 768, .layers = 12, .heads = 12, .kv_heads = 12, .ffn_dim = 3072, .vocab = 50257, .context = 1024, .norm_eps = 1e-5f, .tied = true}},
    {"gpt2-medium", {.arch = MODEL_GPT, .dim = 1024, .layers = 24, .heads = 16, .kv_heads = 16, .ffn_dim = 4096, .vocab = 50257, .context = 1024, .norm_eps = 1e-5f, .tied = true}},
    {"gpt2-large",  {.arch = MODEL_GPT, .dim = 1280, .layers = 36, .heads = 20, .kv_heads = 20, .ffn_dim = 5120, .vocab = 50257, .context = 1024, .norm_eps = 1e-5f, .tied = true}},
    {"gpt2-xl",     {.arch = MODEL_GPT, .dim = 1600, .layers = 48, .heads = 25, .kv_heads = 25, .ffn_dim = 6400, .vocab = 50257, .context = 1024, .norm_eps = 1e-5f, .tied = true}},
    {"llama-300m",  {.arch = MODEL_LLAMA, .dim = 1024, .layers = 16, .heads = 16, .kv_heads = 16, .ffn_dim = 2752, .vocab = 32000, .context = 512, .rope_theta = 10000, .norm_eps = 1e-5f, .tied = true}},
    {"llama-1b",    {.arch = MODEL_LLAMA, .dim = 2048, .layers = 22, .heads = 32, .kv_heads = 4, .ffn_dim = 5632, .vocab = 32000, .context = 2048, .rope_theta = 10000, .norm_eps = 1e-5f, .tied = false}},
    {"llama-7b",    {.arch = MODEL_LLAMA, .dim = 4096, .layers = 32, .heads = 32, .kv_heads = 32, .ffn_dim = 11008, .vocab = 32000, .context = 4096, .rope_theta = 10000, .norm_eps = 1e-5f, .tied = false}},
};
// clang-format on
enum { PRESETS = sizeof presets / sizeof *presets };

// The keys of the model's map besides the shape.
typedef struct model_reader {
    const yaml_node *preset, *run, *arch, *links, *sums;
    bool recompute;
    bool described;  // a run's description gave the stages
    uint32_t layer_count[SCENARIO_MAX_STAGES];
    uint16_t stages;
} model_reader;

// ---- where the shape comes from

static braid_err read_preset(const scenario_reader *r, const yaml_node *node, const char *name) {
    char text[SCENARIO_MAX_NAME], all[160] = "";
    const char *names[PRESETS];
    braid_err code = yaml_read_text(r->file, node, name, text, sizeof text, r->error);
    if (code != BRAID_OK) return code;
    for (uint32_t i = 0; i < PRESETS; i++) {
        names[i] = presets[i].name;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? ", " : "", names[i]);
        if (strcmp(text, names[i]) != 0) continue;
        r->s->model = presets[i].model;
        return BRAID_OK;
    }
    const char *near = suggest_name(text, names, PRESETS);
    if (near != NULL)
        return yaml_fail(r->file, node, r->error, "%s: no model '%s' is built in; did you mean '%s'?", name, text,
                         near);
    return yaml_fail(r->file, node, r->error,
                     "%s: no model '%s' is built in; choose one of %s, or write its dim, layers and heads", name, text,
                     all);
}

// Reads the relevant parts of a description; its texts are not opened.
static braid_err read_run(scenario_reader *r, model_reader *m) {
    char path[SCENARIO_MAX_PATH], *text = NULL;
    size_t length = 0;
    braid_err code = scenario_read_file(r, m->run, "model.run", path, &text, &length);
    run_config *run = code == BRAID_OK ? calloc(1, sizeof *run) : NULL;
    if (code == BRAID_OK && run == NULL) code = braid_fail(r->error, BRAID_MEMORY, "out of memory");
    if (code == BRAID_OK) code = run_config_parse(text, length, path, NULL, run, r->error);
    if (code == BRAID_OK) {
        scenario *s = r->s;
        s->model = run->model;
        s->sequences = run->sequences;
        s->tokens = run->tokens;
        s->microbatches = run->microbatches;
        s->reproducible = run->recipe.reproducible;
        s->routing = (scenario_routing)run->routing;
        s->objective = (router_objective)run->objective;
        s->plan_first = run->plan.first;
        s->links = run->links;
        s->byte_sums = run->recipe.byte_sums;
        m->recompute = run->recompute;
        m->described = true;
        m->stages = (uint16_t)run->stages;
        memcpy(m->layer_count, run->blocks, sizeof m->layer_count);
    }
    free(run);
    free(text);
    return code;
}

static braid_err read_shape(const scenario_reader *r, const yaml_node *node, model_reader *m) {
    static const char *const archs[] = {"llama", "gpt"}, *const sums[] = {"exact", "int8"};
    scenario *s = r->s;
    model_config *c = &s->model;
    const scenario_key keys[] = {
        {"preset", KEY_NODE, &m->preset, 0, 0},
        {"run", KEY_NODE, &m->run, 0, 0},
        {"arch", KEY_NODE, &m->arch, 0, 0},
        {"dim", KEY_COUNT, &c->dim, 1, MODEL_MAX_DIM},
        {"layers", KEY_COUNT, &c->layers, 1, MODEL_MAX_LAYERS},
        {"heads", KEY_COUNT, &c->heads, 1, MODEL_MAX_DIM},
        {"kv_heads", KEY_COUNT, &c->kv_heads, 1, MODEL_MAX_DIM},
        {"ffn_dim", KEY_COUNT, &c->ffn_dim, 1, MODEL_MAX_FFN_DIM},
        {"vocab", KEY_COUNT, &c->vocab, 1, MODEL_MAX_VOCAB},
        {"context", KEY_COUNT, &c->context, 2, MODEL_MAX_CONTEXT},
        {"tied", KEY_SWITCH, &c->tied, 0, 0},
        {"sequences", KEY_COUNT, &s->sequences, 1, 4096},
        {"tokens", KEY_COUNT, &s->tokens, 1, MODEL_MAX_CONTEXT},
        {"recompute", KEY_SWITCH, &m->recompute, 0, 0},
        {"links", KEY_NODE, &m->links, 0, 0},
        {"sums", KEY_NODE, &m->sums, 0, 0},
    };
    size_t arch = 0;
    braid_err code = scenario_read_keys(r, node, "model", keys, sizeof keys / sizeof *keys);
    if (code == BRAID_OK && m->arch != NULL) {
        code = yaml_read_choice(r->file, m->arch, "model.arch", archs, 2, &arch, r->error);
        if (code == BRAID_OK) c->arch = arch == 0 ? MODEL_LLAMA : MODEL_GPT;
    }
    if (code == BRAID_OK && m->links != NULL)
        code = run_read_links(r->file, m->links, "model.links", &s->links, r->error);
    size_t choice = s->byte_sums;
    if (code == BRAID_OK && m->sums != NULL)
        code = yaml_read_choice(r->file, m->sums, "model.sums", sums, 2, &choice, r->error);
    s->byte_sums = choice == 1;
    return code;
}

static braid_err read_sources(scenario_reader *r, const yaml_node *node, model_reader *m) {
    if (node->kind == YAML_SCALAR) return read_preset(r, node, "model");
    braid_err code = yaml_read_map(r->file, node, "model", r->error);
    if (code != BRAID_OK) return code;
    m->preset = yaml_find(node, "preset");
    m->run = yaml_find(node, "run");
    if (m->preset != NULL && m->run != NULL)
        return yaml_fail(r->file, m->run, r->error,
                         "model: 'preset' and 'run' both say what the model is: keep one of them");
    if (m->preset != NULL) code = read_preset(r, m->preset, "model.preset");
    if (m->run != NULL) code = read_run(r, m);
    return code == BRAID_OK ? read_shape(r, node, m) : code;
}

// Fills in the defaults of a shape, as for a run's description.
static void fill_shape(scenario *s) {
    model_config *c = &s->model;
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->ffn_dim == 0) c->ffn_dim = model_row_of(c->arch)->gated ? (8 * c->dim / 3 + 31) / 32 * 32 : 4 * c->dim;
    if (s->tokens == 0) s->tokens = c->context;
}

void scenario_set_codecs(scenario *s, tensor_links links, bool byte_sums) {
    size_t values = (size_t)s->sequences * s->tokens * s->model.dim;
    s->links = links;
    s->byte_sums = byte_sums;
    s->activation_bytes = (tensor_codec_bytes(links.forward, values) + tensor_codec_bytes(links.backward, values)) / 2;
}

uint64_t scenario_exchanged_bytes(const scenario *s, uint16_t number) {
    uint64_t parameters = s->stage[number].parameters;
    if (s->byte_sums) return 2 * byte_sum_bytes(parameters);
    return parameters * (s->reproducible ? 8 + 4 : 4 + 4);
}

static braid_err check_shape(const scenario_reader *r, const yaml_node *node) {
    static const char *const missing[][2] = {{"dim", "256"}, {"layers", "6"}, {"heads", "8"}};
    scenario *s = r->s;
    const uint32_t given[] = {s->model.dim, s->model.layers, s->model.heads};
    for (uint32_t i = 0; i < 3; i++) {
        if (given[i] > 0) continue;
        return yaml_fail(
            r->file, node, r->error,
            "model.%s is missing: add for example '%s: %s' under 'model:', or 'preset: gpt2-small' instead",
            missing[i][0], missing[i][0], missing[i][1]);
    }
    fill_shape(s);
    braid_error why = {0};
    char bytes[QUANTITY_TEXT];
    if (model_config_check(&s->model, &why) != BRAID_OK) return yaml_fail(r->file, node, r->error, "%s", why.text);
    if (s->tokens > s->model.context)
        return yaml_fail(r->file, node, r->error, "model.tokens is %u but the model's context is %u: lower it",
                         s->tokens, s->model.context);
    uint64_t rows = (uint64_t)s->sequences * s->tokens;
    scenario_set_codecs(s, s->links, s->byte_sums);
    if (rows > STAGE_MAX_ROWS || s->activation_bytes > WIRE_MAX_PAYLOAD_BYTES)
        return yaml_fail(
            r->file, node, r->error,
            "model: %u sequences of %u tokens are too much for one microbatch (%s between two stages, at most 1 "
            "GiB): lower 'sequences' or 'tokens'",
            s->sequences, s->tokens, quantity_size_text(s->activation_bytes, bytes));
    return BRAID_OK;
}

// ---- stages

// Distributes the blocks: stage 0 keeps embedding and head, the others share the blocks evenly, the
// first ones taking the remainder.
static void share_blocks(scenario *s) {
    uint32_t relays = s->stages - 1u, layers = s->model.layers;
    s->stage[0].blocks = relays == 0 ? layers : 0;
    for (uint32_t i = 0; i < relays; i++) s->stage[i + 1].blocks = layers / relays + (i < layers % relays);
}

static braid_err too_many(const scenario_reader *r, const yaml_node *node, uint64_t relays) {
    return yaml_fail(r->file, node, r->error,
                     "stages: %llu stages of relays share %u layers, and each needs one: write at most 'stages: %u'",
                     (unsigned long long)relays, r->s->model.layers, r->s->model.layers + 1);
}

static braid_err read_stage_number(const scenario_reader *r, const yaml_node *node) {
    uint64_t stages = 0;
    braid_err code = yaml_read_count(r->file, node, "stages", 1, SCENARIO_MAX_STAGES, &stages, r->error);
    if (code != BRAID_OK) return code;
    if (stages > r->s->model.layers + 1u) return too_many(r, node, stages - 1);
    r->s->stages = (uint16_t)stages;
    share_blocks(r->s);
    return BRAID_OK;
}

static braid_err read_block_list(const scenario_reader *r, const yaml_node *node) {
    uint32_t at = 0;
    for (const yaml_node *item = node->first; item != NULL; item = item->next, at++) {
        uint64_t blocks = 0;
        braid_err code = yaml_read_count(r->file, item, "stages", at == 0 ? 0 : 1, MODEL_MAX_LAYERS, &blocks, r->error);
        if (code != BRAID_OK) return code;
        r->s->stage[at].blocks = (uint32_t)blocks;
    }
    r->s->stages = (uint16_t)at;
    return BRAID_OK;
}

// Stages given as maps, in the order of the file.
typedef struct stage_list {
    uint32_t count, with_blocks;
    bool ordered;  // some stage has a 'next'
    const yaml_node *item[SCENARIO_MAX_STAGES], *next[SCENARIO_MAX_STAGES];
    scenario_stage stage[SCENARIO_MAX_STAGES];
} stage_list;

static uint32_t find_stage(const stage_list *l, const char *name) {
    uint32_t i = 0;
    while (i < l->count && strcmp(l->stage[i].name, name) != 0) i++;
    return i;
}

static braid_err read_stage_item(const scenario_reader *r, const yaml_node *item, stage_list *l) {
    char where[SCENARIO_MAX_WHERE];
    uint32_t at = l->count;
    scenario_stage *part = &l->stage[at];
    const scenario_key keys[] = {
        {"name", KEY_NAME, part->name, 0, 0},
        {"blocks", KEY_COUNT, &part->blocks, at == 0 ? 0 : 1, MODEL_MAX_LAYERS},
        {"next", KEY_NODE, &l->next[at], 0, 0},
    };
    scenario_where(item, "stages", at, where);
    braid_err code = scenario_read_keys(r, item, where, keys, sizeof keys / sizeof *keys);
    if (code != BRAID_OK) return code;
    if (part->name[0] == 0)
        return yaml_fail(r->file, item, r->error, "%s.name is missing: peers and 'next' call the stage by it", where);
    if (part->name[0] >= '0' && part->name[0] <= '9')
        return yaml_fail(r->file, yaml_find(item, "name"), r->error, "%s: a stage's name must begin with a letter",
                         where);
    if (find_stage(l, part->name) < at)
        return yaml_fail(r->file, yaml_find(item, "name"), r->error,
                         "two stages are called '%s': give each its own name", part->name);
    l->with_blocks += yaml_find(item, "blocks") != NULL;
    l->ordered = l->ordered || l->next[at] != NULL;
    l->item[at] = item;
    l->count++;
    return BRAID_OK;
}

// The index that follows `at`, or `count` at the end. Without any 'next' the order is that of the
// file. With them a stage without one is the last; a 'next' back to stage 0 ends the list, too.
static braid_err follow(const scenario_reader *r, const stage_list *l, uint32_t at, uint32_t *next) {
    char text[SCENARIO_MAX_NAME], where[SCENARIO_MAX_WHERE];
    const char *names[SCENARIO_MAX_STAGES];
    *next = l->ordered ? l->count : at + 1;
    if (l->next[at] == NULL) return BRAID_OK;
    snprintf(where, sizeof where, "stages[%s].next", l->stage[at].name);
    braid_err code = yaml_read_text(r->file, l->next[at], where, text, sizeof text, r->error);
    if (code != BRAID_OK) return code;
    uint32_t found = find_stage(l, text);
    *next = found == 0 ? l->count : found;
    if (found < l->count) return BRAID_OK;
    for (uint32_t i = 0; i < l->count; i++) names[i] = l->stage[i].name;
    const char *near = suggest_name(text, names, l->count);
    return yaml_fail(r->file, l->next[at], r->error, "%s: no stage is called '%s'%s%s%s", where, text,
                     near != NULL ? "; did you mean '" : ": name one of this list", near != NULL ? near : "",
                     near != NULL ? "'?" : "");
}

// Reports that `next` leads from `at` back to `at`, with the whole circle.
static braid_err refuse_circle(const scenario_reader *r, const stage_list *l, const uint32_t *next, uint32_t at) {
    char round[160];
    int length = snprintf(round, sizeof round, "%s", l->stage[at].name);
    for (uint32_t i = next[at], steps = 0; steps < 6 && length < (int)sizeof round; i = next[i], steps++) {
        length += snprintf(round + length, sizeof round - (size_t)length, " -> %s", l->stage[i].name);
        if (i == at) break;
    }
    return yaml_fail(r->file, l->next[at], r->error,
                     "stages go round in a circle (%s): each is passed once; leave 'next' out at the last one", round);
}

// Puts the stages into the order in which microbatches pass through them.
static braid_err order_stages(const scenario_reader *r, const stage_list *l) {
    scenario *s = r->s;
    uint32_t next[SCENARIO_MAX_STAGES];
    bool reached[SCENARIO_MAX_STAGES] = {false};
    for (uint32_t i = 0; i < l->count; i++) {
        braid_err code = follow(r, l, i, &next[i]);
        if (code != BRAID_OK) return code;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        uint32_t at = next[i];
        for (uint32_t steps = 0; steps < l->count && at < l->count && at != i; steps++) at = next[at];
        if (at == i) return refuse_circle(r, l, next, i);
    }
    for (uint32_t at = 0; at < l->count; at = next[at]) {
        reached[at] = true;
        s->stage[s->stages++] = l->stage[at];
    }
    for (uint32_t i = 0; i < l->count; i++) {
        if (reached[i]) continue;
        return yaml_fail(r->file, l->item[i], r->error,
                         "no stage leads to '%s': name it as the 'next' of one, or remove it", l->stage[i].name);
    }
    return BRAID_OK;
}

static braid_err read_stage_maps(const scenario_reader *r, const yaml_node *node) {
    stage_list l = {0};
    braid_err code = BRAID_OK;
    for (const yaml_node *item = node->first; item != NULL && code == BRAID_OK; item = item->next)
        code = read_stage_item(r, item, &l);
    if (code == BRAID_OK) code = order_stages(r, &l);
    if (code != BRAID_OK) return code;
    if (l.count > r->s->model.layers + 1u) return too_many(r, node, l.count - 1);
    if (l.with_blocks == 0) share_blocks(r->s);
    for (uint32_t i = 1; i < l.count && l.with_blocks > 0; i++) {
        if (l.stage[i].blocks > 0) continue;
        return yaml_fail(r->file, l.item[i], r->error,
                         "stages[%s].blocks is missing: give it for every stage, or for none", l.stage[i].name);
    }
    return BRAID_OK;
}

static braid_err check_blocks(const scenario_reader *r, const yaml_node *node, const yaml_node *model) {
    const scenario *s = r->s;
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < s->stages; i++) blocks += s->stage[i].blocks;
    if (blocks == s->model.layers) return BRAID_OK;
    return yaml_fail(r->file, node, r->error,
                     "stages have %llu blocks in all but the model at line %u has %u layers: make them add up",
                     (unsigned long long)blocks, model->line, s->model.layers);
}

static braid_err read_stages(const scenario_reader *r, const yaml_node *node, const model_reader *m,
                             const yaml_node *model) {
    scenario *s = r->s;
    if (node == NULL && m->described) {
        s->stages = m->stages;
        for (uint32_t i = 0; i < m->stages; i++) s->stage[i].blocks = m->layer_count[i];
        return check_blocks(r, model, model);
    }
    if (node == NULL)
        return yaml_fail(
            r->file, yaml_root(r->file), r->error,
            "stages is missing: into how many parts the model is cut, stage 0 of the data peers included; add "
            "for example 'stages: 4'");
    if (node->kind == YAML_SCALAR) return read_stage_number(r, node);
    if (node->kind == YAML_MAP || node->children == 0)
        return yaml_fail(
            r->file, node, r->error,
            "stages must be a number, a list of how many blocks each stage has, like [0, 4, 4], or a list of "
            "stages with names");
    if (node->children > SCENARIO_MAX_STAGES)
        return yaml_fail(r->file, node, r->error, "more than %d stages", SCENARIO_MAX_STAGES);
    braid_err code = node->first->kind == YAML_MAP ? read_stage_maps(r, node) : read_block_list(r, node);
    return code == BRAID_OK ? check_blocks(r, node, model) : code;
}

// ---- derived from shapes

// A product of r rows costs 2 r n for a matrix of n elements. Attention is causal and reads half of
// its square: 2 r t d for both of its products together. The input gradient repeats the products
// and twice the attention; the weight gradient repeats the products.
static void count_work(scenario *s, scenario_stage *part, bool ends, bool recompute) {
    const model_config *c = &s->model;
    const model_row *row = model_row_of(c->arch);
    double rows = (double)s->sequences * s->tokens, dim = c->dim, width = model_head_dim(c);
    double queries = width * c->heads, kv = width * c->kv_heads, mlp = row->gated ? 3 : 2;
    mlp *= row->mixture ? dim * c->expert_ffn_dim * c->experts_used : dim * c->ffn_dim;
    double matrices = 2 * dim * queries + 2 * dim * kv + mlp + dim * c->experts;
    double products = 2 * rows * matrices * part->blocks, attention = 2 * rows * s->tokens * queries * part->blocks;
    double head = ends ? 2 * rows * dim * c->vocab : 0;
    part->forward_flops = products + attention + (ends ? rows * dim : 0);
    part->backward_flops = products + 2 * attention + (recompute ? products + attention : 0);
    part->weight_flops = products + head;
    part->loss_flops = 2 * head;
}

static braid_err measure_stages(const scenario_reader *r, const yaml_node *node, bool recompute) {
    scenario *s = r->s;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < s->stages; i++) {
        scenario_stage *part = &s->stage[i];
        layout shapes;
        stage_shape shape = {.layer_begin = begin, .layer_end = begin + part->blocks, .ends = i == 0};
        braid_err code = layout_new(&s->model, &shape, &shapes, r->error);
        if (code != BRAID_OK) return code;
        part->parameters = shapes.parameters;
        part->tensors = shapes.tensors;
        layout_free(&shapes);
        if (part->tensors > WIRE_MAX_STAGE_TENSORS)
            return yaml_fail(r->file, node, r->error,
                             "stages: stage %u has %u tensors, at most %d are allowed: cut the model into more stages",
                             i, part->tensors, WIRE_MAX_STAGE_TENSORS);
        count_work(s, part, i == 0, recompute);
        if (part->name[0] == 0) snprintf(part->name, sizeof part->name, "%u", i);
        begin += part->blocks;
    }
    return BRAID_OK;
}

braid_err scenario_read_model(scenario_reader *r, const yaml_node *model, const yaml_node *stages) {
    model_reader m = {0};
    if (model == NULL)
        return yaml_fail(
            r->file, yaml_root(r->file), r->error,
            "model is missing: add for example 'model: gpt2-small', or 'model: {run: FILE}' with a run's description");
    r->s->model = (model_config){
        .arch = MODEL_LLAMA, .vocab = 256, .context = 256, .rope_theta = 10000, .norm_eps = 1e-5f, .tied = true};
    r->s->sequences = 1;
    braid_err code = read_sources(r, model, &m);
    if (code != BRAID_OK) return code;
    code = check_shape(r, model);
    if (code == BRAID_OK) code = read_stages(r, stages, &m, model);
    return code == BRAID_OK ? measure_stages(r, stages != NULL ? stages : model, m.recompute) : code;
}
