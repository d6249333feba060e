// braid inspect: what a model is.
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/options.h"
#include "format/quantity.h"
#include "model/rows.h"
#include "weights/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char examples[] = "braid inspect SmolLM2-135M-Instruct.Q4_1.gguf\n"
                               "braid inspect models/SmolLM2-135M --peers 4\n"
                               "braid inspect checkpoints --tensors\n";

typedef struct inspection {
    const model_file *f;
    const tokenizer *t;  // NULL: none
    const char *no_tokenizer;
    summary s;
    uint64_t peers;
    bool tensors;
} inspection;

// ---- for people

static void print_shape(const model_config *c) {
    printf("architecture   %s: %u blocks of width %u, %u heads of width %u, %u of them with keys and values\n",
           model_row_of(c->arch)->type, c->layers, c->dim, c->heads, model_head_dim(c), c->kv_heads);
    printf("               feed-forward %u, %u positions, %u tokens, %s\n", c->ffn_dim, c->context, c->vocab,
           c->tied ? "the head is the embedding" : "a head of its own");
    if (c->experts)
        printf("               %u experts of width %u, %u for each token\n", c->experts, c->expert_ffn_dim,
               c->experts_used);
}

static void print_weights(const inspection *p) {
    char count[QUANTITY_TEXT], size[QUANTITY_TEXT];
    printf("parameters     %s (%" PRIu64 "), %s\n", quantity_count_text((double)p->s.values, count), p->s.values,
           quantity_size_text(p->s.bytes, size));
    for (int i = 0; i < WEIGHT_TYPES; i++) {
        const summary_type *t = &p->s.type[i];
        if (t->tensors == 0) continue;
        printf("%-14s %-6s %4u tensor%s, %" PRIu64 " values, %s\n", "", weight_type_name((weight_type)i), t->tensors,
               t->tensors == 1 ? " " : "s", t->values, quantity_size_text(t->bytes, size));
    }
}

// Control characters in a token must not reach the terminal.
static void print_token(const tokenizer *t, uint32_t id) {
    size_t length;
    const char *text = tokenizer_token(t, id, &length);
    printf(" %u", id);
    if (!text) return;
    printf(" '");
    for (size_t i = 0; i < length && i < 40; i++)
        putchar((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i]);
    printf("'");
}

static void print_tokenizer(const inspection *p) {
    if (!p->t) {
        printf("tokenizer      none: %s\n", p->no_tokenizer);
        return;
    }
    uint32_t count;
    const uint32_t *stops = tokenizer_stops(p->t, &count);
    printf("tokenizer      %u tokens, first", tokenizer_size(p->t));
    if (tokenizer_bos(p->t) == TOKENIZER_NO_ID)
        printf(" none");
    else
        print_token(p->t, tokenizer_bos(p->t));
    printf(", last");
    for (uint32_t i = 0; i < count; i++) print_token(p->t, stops[i]);
    printf("%s\n", count ? "" : " none");
}

static void print_peers(const inspection *p) {
    char size[QUANTITY_TEXT];
    for (uint32_t i = 0; i < p->peers; i++) {
        summary_peer peer;
        summary_of_peer(p->f, (uint32_t)p->peers, i, &peer);
        printf("peer %-9u blocks %u to %u%s: %s of weights, %" PRIu64 " bytes of cache a token\n", i + 1,
               peer.begin + 1, peer.end, i == 0 ? " and both ends" : "", quantity_size_text(peer.bytes, size),
               2 * peer.cache_values);
    }
}

static void print_tensors(const inspection *p) {
    for (uint32_t i = 0; i < model_file_count(p->f); i++) {
        const model_file_tensor *t = model_file_at(p->f, i);
        printf("%-60s %-6s ", t->name, weight_type_name(t->weights.type));
        if (t->vector)
            printf("[%zu]\n", t->weights.cols);
        else
            printf("[%zu, %zu]\n", t->weights.rows, t->weights.cols);
    }
}

static void print_text(const inspection *p) {
    char size[QUANTITY_TEXT];
    const char *template = model_file_chat_template(p->f);
    printf("form           %s, %u file%s, %s\n", p->s.gguf ? "GGUF" : "safetensors", p->s.files,
           p->s.files == 1 ? "" : "s", quantity_size_text(p->s.file_bytes, size));
    print_shape(model_file_config(p->f));
    print_weights(p);
    print_tokenizer(p);
    if (template)
        printf("chat template  %zu bytes\n", strlen(template));
    else
        printf("chat template  none\n");
    printf("cache          %" PRIu64 " values a token: %" PRIu64 " bytes at 16 bits, %" PRIu64 " at 32\n",
           p->s.cache_values, 2 * p->s.cache_values, 4 * p->s.cache_values);
    print_peers(p);
    if (p->tensors) print_tensors(p);
}

// ---- for programs

static void put_shape(json_out *o, const model_config *c) {
    json_out_string(o, "architecture", model_row_of(c->arch)->type);
    json_out_u64(o, "layers", c->layers);
    json_out_u64(o, "dim", c->dim);
    json_out_u64(o, "heads", c->heads);
    json_out_u64(o, "kv_heads", c->kv_heads);
    json_out_u64(o, "head_dim", model_head_dim(c));
    json_out_u64(o, "ffn_dim", c->ffn_dim);
    json_out_u64(o, "vocab", c->vocab);
    json_out_u64(o, "context", c->context);
    json_out_bool(o, "tied", c->tied);
}

static void put_types(json_out *o, const summary *s) {
    json_out_open(o, "types", '{');
    for (int i = 0; i < WEIGHT_TYPES; i++) {
        if (s->type[i].tensors == 0) continue;
        json_out_open(o, weight_type_name((weight_type)i), '{');
        json_out_u64(o, "tensors", s->type[i].tensors);
        json_out_u64(o, "values", s->type[i].values);
        json_out_u64(o, "bytes", s->type[i].bytes);
        json_out_close(o, '}');
    }
    json_out_close(o, '}');
}

static void put_peers(json_out *o, const inspection *p) {
    json_out_open(o, "peers", '[');
    for (uint32_t i = 0; i < p->peers; i++) {
        summary_peer peer;
        summary_of_peer(p->f, (uint32_t)p->peers, i, &peer);
        json_out_open(o, NULL, '{');
        json_out_u64(o, "begin", peer.begin);
        json_out_u64(o, "end", peer.end);
        json_out_u64(o, "bytes", peer.bytes);
        json_out_u64(o, "cache_values", peer.cache_values);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static bool print_json(const inspection *p) {
    json_out o = {0};
    const char *template = model_file_chat_template(p->f);
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "form", p->s.gguf ? "gguf" : "safetensors");
    json_out_u64(&o, "files", p->s.files);
    json_out_u64(&o, "file_bytes", p->s.file_bytes);
    put_shape(&o, model_file_config(p->f));
    json_out_u64(&o, "parameters", p->s.values);
    json_out_u64(&o, "bytes", p->s.bytes);
    put_types(&o, &p->s);
    if (p->t) json_out_u64(&o, "tokens", tokenizer_size(p->t));
    json_out_u64(&o, "chat_template_bytes", template ? strlen(template) : 0);
    json_out_u64(&o, "cache_values", p->s.cache_values);
    put_peers(&o, p);
    return figures_print_line(&o);
}

static int inspect(const char *path, inspection *p, bool as_json) {
    braid_error error = {0}, why = {0};
    model_file *f = NULL;
    tokenizer *t = NULL;
    if (model_file_open(path, &f, &error)) return cli_complain(CLI_FAILED, "inspect", "%s", error.text);
    uint32_t layers = model_file_config(f)->layers;
    braid_err err = model_file_tokenizer(f, &t, &why);
    p->f = f;
    p->t = t;
    p->no_tokenizer = why.text;
    summary_of(f, &p->s);
    int code = CLI_OK;
    // without a tokenizer, or with one of a kind that braid does not know, the weights are of use
    if (err && err != BRAID_CONFIG)
        code = cli_complain(CLI_FAILED, "inspect", "%s", why.text);
    else if (p->peers > layers)
        code = cli_complain(CLI_USAGE, "inspect", "--peers %" PRIu64 ": the model has %u blocks, a peer needs one",
                            p->peers, layers);
    else if (as_json)
        code = print_json(p) ? CLI_OK : cli_complain(CLI_FAILED, "inspect", "out of memory");
    else
        print_text(p);
    tokenizer_free(t);
    model_file_close(f);
    return code;
}

int cli_inspect(int argc, char **argv) {
    inspection p = {0};
    bool as_json = false;
    option table[] = {
        {"peers", OPTION_COUNT, &p.peers, .help = "show what each of N peers would hold", .fallback = "", .min = 1,
         .max = MODEL_MAX_LAYERS},
        {"tensors", OPTION_SWITCH, &p.tensors, .help = "list the tensors"},
        {"json", OPTION_SWITCH, &as_json, .help = "print one JSON object"},
    };
    options o = {
        .verb = "inspect",
        .arguments = "MODEL",
        .summary =
            "Shows the architecture, the weights, the tokenizer and the cache of a model: a GGUF file, a Hugging "
            "Face directory or a checkpoint.",
        .examples = examples,
        .table = table,
        .count = sizeof table / sizeof *table,
        .min_given = 1,
        .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = inspect(o.given[0], &p, as_json);
    options_close(&o);
    return code;
}
