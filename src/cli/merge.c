// braid merge: a model with an adapter added to its weights.
#include "cli/cli.h"
#include "cli/options.h"
#include "weights/convert.h"
#include "weights/peft.h"

#include <stdio.h>
#include <string.h>

static const char examples[] = "braid merge models/SmolLM2-135M my-adapter merged\n"
                               "braid merge SmolLM2-135M-Instruct.Q4_1.gguf my-adapter merged.gguf --to q8_0\n";

static bool read_type(const char *text, weight_type *to) {
    static const char *const names[] = {"f32", "f16", "bf16", "q8_0"};
    static const weight_type types[] = {WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8_0};
    uint32_t choice = 0;
    if (!options_read_choice("merge", "to", text, names, sizeof names / sizeof *names, &choice)) return false;
    *to = types[choice];
    return true;
}

static bool ends_with_gguf(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

static int merge(const char *model, const char *directory, const char *out, const char *to) {
    braid_error error = {0};
    model_file *f = NULL;
    peft_adapter *p = NULL;
    convert_options wanted = {.to = WEIGHT_F32};
    if (to && !read_type(to, &wanted.to)) return CLI_USAGE;
    braid_err err = output_check_free(out, &error);
    if (!err) err = model_file_open(model, &f, &error);
    if (!err) err = peft_open(directory, f, &p, &error);
    if (!err && !to) wanted.to = convert_lossless(f, ends_with_gguf(out));
    if (!err) err = peft_merge(p, f, &error);
    if (!err) err = convert_write(f, out, &wanted, &error);
    if (!err)
        fprintf(stderr, "%s: %u matrices of %s with the adapter %s, as %s\n", out, p->count, model, directory,
                weight_type_name(wanted.to));
    peft_close(p);
    model_file_close(f);
    if (!err) return CLI_OK;
    bool usage = err == BRAID_ARGUMENT || err == BRAID_STATE || err == BRAID_CONFIG || err == BRAID_FORMAT;
    return cli_complain(usage ? CLI_USAGE : CLI_FAILED, "merge", "%s", error.text);
}

int cli_merge(int argc, char **argv) {
    const char *to = NULL;
    option table[] = {
        {"to", OPTION_TEXT, &to, .unit = "TYPE", .help = "f32, f16, bf16 or q8_0 (GGUF only)",
         .fallback = "the model's own type, else f32"},
    };
    options o = {.verb = "merge",
                 .arguments = "MODEL ADAPTER OUT",
                 .summary = "Adds a LoRA adapter (a directory of peft) to the weights of a model, and writes the "
                            "result as the GGUF file OUT.gguf, or else as the directory OUT.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 3,
                 .max_given = 3};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = merge(o.given[0], o.given[1], o.given[2], to);
    options_close(&o);
    return code;
}
