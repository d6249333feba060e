// braid bench generate: speed and loss of a trained model on unseen text, byte by byte as `braid
// generate` does. It compares weights in fp32 with 8-bit integers.
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/options.h"
#include "format/json.h"
#include "train/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_BYTES = 1 << 20, MOST_THREADS = 1024, WAYS = 2 };

static const char examples[] = "braid bench generate checkpoints --text unseen.txt\n"
                               "braid bench generate checkpoints --text unseen.txt --bytes 2000 --threads 2 --json\n";
static const char *const way_names[WAYS] = {"fp32", "int8"};

typedef struct generate_bench {
    const char *text;
    uint64_t bytes, threads;
    bool json;
    size_t read;
    double seconds[WAYS], loss[WAYS];
} generate_bench;

// Processor time of one thread, so that other processes have no influence.
static double now(const generate_bench *b) {
    struct timespec t;
    clock_gettime(b->threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static braid_err read_text(generate_bench *b, uint8_t *bytes, braid_error *error) {
    FILE *file = fopen(b->text, "rb");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open the text %s", b->text);
    b->read = fread(bytes, 1, b->bytes, file);
    fclose(file);
    return b->read > 0 ? BRAID_OK : braid_fail(error, BRAID_IO, "the text %s is empty; name another one", b->text);
}

static braid_err measure(generate_bench *b, checkpoint *from, int way, const uint8_t *bytes, braid_error *error) {
    generator *g = NULL;
    braid_err err = generator_new(from, way == 1, (unsigned)b->threads, &g, error);
    if (err) return err;
    double start = now(b), sum = 0;
    for (size_t i = 0; i < b->read; i++) sum += generator_surprise(g, bytes[i]);
    b->seconds[way] = now(b) - start;
    b->loss[way] = sum / (double)b->read;
    generator_free(g);
    return BRAID_OK;
}

static bool show(const generate_bench *b) {
    if (!b->json) {
        printf("%zu bytes, %llu thread%s\n\nweights   bytes/s   loss a byte (nats)\n", b->read,
               (unsigned long long)b->threads, figures_s(b->threads));
        for (int way = 0; way < WAYS; way++)
            printf("%-7s %9.1f   %.4f\n", way_names[way], (double)b->read / b->seconds[way], b->loss[way]);
        return true;
    }
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_u64(&o, "bytes", b->read);
    json_out_u64(&o, "threads", b->threads);
    for (int way = 0; way < WAYS; way++) {
        json_out_open(&o, way_names[way], '{');
        json_out_double(&o, "bytes_per_second", (double)b->read / b->seconds[way]);
        json_out_double(&o, "loss", b->loss[way]);
        json_out_close(&o, '}');
    }
    return figures_print_line(&o);
}

static int run(generate_bench *b, const char *path) {
    static uint8_t bytes[MOST_BYTES];
    braid_error error = {0};
    checkpoint *from = NULL;
    braid_err err = read_text(b, bytes, &error);
    if (!err) err = checkpoint_open_weights(path, &from, &error);
    for (int way = 0; way < WAYS && !err; way++) err = measure(b, from, way, bytes, &error);
    checkpoint_close(from);
    if (err) return cli_complain(CLI_FAILED, "bench generate", "%s", error.text);
    return show(b) ? CLI_OK : cli_complain(CLI_FAILED, "bench generate", "out of memory");
}

int bench_generate(int argc, char **argv) {
    generate_bench b = {.bytes = 4096, .threads = 1};
    option table[] = {
        {"text", OPTION_TEXT, &b.text, .unit = "FILE", .help = "a text that the model was not trained on"},
        {"bytes", OPTION_COUNT, &b.bytes, .help = "bytes of it to read", .min = 1, .max = MOST_BYTES},
        {"threads", OPTION_COUNT, &b.threads, .help = "compute threads", .min = 1, .max = MOST_THREADS},
        {"json", OPTION_SWITCH, &b.json, .help = "print one JSON object"},
    };
    options o = {.verb = "bench generate",
                 .arguments = "CHECKPOINT",
                 .summary = "Measures a trained model on a text, byte by byte: bytes per second and loss.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = b.text ? run(&b, o.given[0])
                  : cli_complain(CLI_USAGE, "bench generate",
                                 "--text FILE is missing; name a text that the model was not trained on");
    options_close(&o);
    return code;
}
