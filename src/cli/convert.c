// braid convert: a model in another form.
#include "cli/cli.h"
#include "cli/options.h"
#include "format/quantity.h"
#include "weights/convert.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char examples[] = "braid convert SmolLM2-135M-Instruct.Q4_1.gguf smol.gguf --to f32\n"
                               "braid convert models/SmolLM2-135M smol.gguf --to q8_0\n"
                               "braid convert checkpoints/latest my-model --to bf16\n"
                               "braid convert models/SmolLM2-135M smol-mixed8 --to mixed8\n";

typedef struct progress_line {
    unsigned percent;  // shown last
    bool live;
} progress_line;

static void show_progress(void *context, uint64_t done, uint64_t total) {
    progress_line *line = context;
    unsigned percent = total ? (unsigned)(done * 100 / total) : 100;
    if (!line->live || percent == line->percent) return;
    line->percent = percent;
    fprintf(stderr, "\r%3u %% written", percent);
    fflush(stderr);
}

static bool read_type(const char *text, weight_type *to) {
    static const char *const names[] = {"f32", "f16", "bf16", "q8_0", "mixed8"};
    static const weight_type types[] = {WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8_0, WEIGHT_MIXED8};
    uint32_t choice = 0;
    if (!options_read_choice("convert", "to", text, names, sizeof names / sizeof *names, &choice)) return false;
    *to = types[choice];
    return true;
}

static bool ends_with_gguf(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

static int convert(const char *in, const char *out, const char *to, uint64_t shard_bytes) {
    braid_error error = {0};
    model_file *f = NULL;
    progress_line line = {.live = isatty(STDERR_FILENO) == 1};
    convert_options wanted = {.shard_bytes = shard_bytes, .progress = {.tell = show_progress, .context = &line}};
    if (to && !read_type(to, &wanted.to)) return CLI_USAGE;
    braid_err err = output_check_free(out, &error);
    if (!err) err = model_file_open(in, &f, &error);
    if (!err && !to) wanted.to = convert_lossless(f, ends_with_gguf(out));
    if (!err) err = convert_write(f, out, &wanted, &error);
    model_file_close(f);
    if (line.live && wanted.progress.done > 0) fputc('\n', stderr);
    if (err)
        return cli_complain(err == BRAID_ARGUMENT || err == BRAID_STATE ? CLI_USAGE : CLI_FAILED, "convert", "%s",
                            error.text);
    char size[QUANTITY_TEXT];
    fprintf(stderr, "%s: %s of weights as %s\n", out, quantity_size_text(wanted.progress.total, size),
            weight_type_name(wanted.to));
    return CLI_OK;
}

int cli_convert(int argc, char **argv) {
    const char *to = NULL;
    uint64_t shard_bytes = 0;
    option table[] = {
        {"to", OPTION_TEXT, &to, .unit = "TYPE",
         .help = "f32, f16, bf16, q8_0 (GGUF only) or mixed8 (a directory only)",
         .fallback = "the model's own type, else f32"},
        {"shard-size", OPTION_SIZE, &shard_bytes, .help = "bytes of one file of a directory, at most",
         .fallback = "5 GB", .min = 1},
    };
    options o = {
        .verb = "convert",
        .arguments = "MODEL OUT",
        .summary = "Writes a model (a GGUF file, a Hugging Face directory or a checkpoint) as the GGUF file OUT.gguf, "
                   "or else as the directory OUT.",
        .examples = examples,
        .table = table,
        .count = sizeof table / sizeof *table,
        .min_given = 2,
        .max_given = 2};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = convert(o.given[0], o.given[1], to, shard_bytes);
    options_close(&o);
    return code;
}
