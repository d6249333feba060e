// The side of braid in tools/bench-infer, tools/check-infer and tools/check-peft:
//     bench-infer-braid MODEL THREADS WAY [ADAPTER] < commands    WAY: rounded or exact (engine_settings.exact)
// Commands, a line each; answers on standard output, a line each:
//     logits FILE ID...       fp32 logits after each token into FILE         -> ok
//     greedy COUNT ID...      COUNT likeliest tokens, one after the other    -> their ids
//     speed PROMPT COUNT      a prompt of PROMPT tokens, then COUNT tokens   -> seconds of both, processor seconds of both
//     memory                                                                 -> resident KiB now, and at most
//     tokens TEXT             with the tokens that the tokenizer adds        -> their ids
#include "infer/adapters.h"
#include "infer/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST = 1 << 16 };

static engine *e;
static uint32_t vocab, ids[MOST];

static void fail(const char *text) {
    fprintf(stderr, "bench-infer-braid: %s\n", text);
    exit(1);
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t read_ids(void) {
    uint32_t count = 0;
    for (char *word; (word = strtok(NULL, " \n")) && count < MOST;) ids[count++] = (uint32_t)strtoul(word, NULL, 10);
    return count;
}

static uint32_t likeliest(const float *logits) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void read_tokens(sequence *s, const uint32_t *tokens, uint32_t count, float *logits) {
    braid_error error;
    if (engine_read(e, &(engine_part){s, count, tokens}, 1, logits, &error)) fail(error.text);
}

static void write_logits(sequence *s) {
    FILE *file = fopen(strtok(NULL, " \n"), "wb");
    uint32_t count = read_ids();
    braid_error error;
    float *logits = malloc((size_t)count * vocab * sizeof *logits);
    if (!file || !logits) fail("cannot write the logits");
    if (engine_read_all(e, &(engine_part){s, count, ids}, 1, logits, &error)) fail(error.text);
    fwrite(logits, sizeof *logits, (size_t)count * vocab, file);
    fclose(file);
    free(logits);
    puts("ok");
}

static void write_greedy(sequence *s, float *logits) {
    uint32_t wanted = (uint32_t)strtoul(strtok(NULL, " \n"), NULL, 10), count = read_ids();
    read_tokens(s, ids, count, logits);
    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t token = likeliest(logits);
        printf("%u%c", token, i + 1 < wanted ? ' ' : '\n');
        if (i + 1 < wanted) read_tokens(s, &token, 1, logits);
    }
}

static void write_speed(sequence *s, float *logits) {
    uint32_t prompt = (uint32_t)strtoul(strtok(NULL, " \n"), NULL, 10),
             count = (uint32_t)strtoul(strtok(NULL, " \n"), NULL, 10);
    for (uint32_t i = 0; i < prompt; i++) ids[i] = 1000 + i * 7919 % 40000;
    double wall[3], cpu[3];
    wall[0] = seconds(CLOCK_MONOTONIC), cpu[0] = seconds(CLOCK_PROCESS_CPUTIME_ID);
    read_tokens(s, ids, prompt, logits);
    wall[1] = seconds(CLOCK_MONOTONIC), cpu[1] = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = likeliest(logits);
        read_tokens(s, &token, 1, logits);
    }
    wall[2] = seconds(CLOCK_MONOTONIC), cpu[2] = seconds(CLOCK_PROCESS_CPUTIME_ID);
    printf("%.6f %.6f %.6f %.6f\n", wall[1] - wall[0], wall[2] - wall[1], cpu[1] - cpu[0], cpu[2] - cpu[1]);
}

static void write_tokens(const model_file *file, const char *text) {
    braid_error error;
    tokenizer *t;
    tokenizer_ids found = {0};
    if (model_file_tokenizer(file, &t, &error)) fail(error.text);
    tokenizer_encoder *encoder = tokenizer_encoder_new(t);
    if (!encoder || tokenizer_encode(encoder, text, strlen(text), TOKENIZER_ADD_SPECIAL, &found, &error))
        fail("cannot tokenize");
    for (size_t i = 0; i < found.count; i++) printf("%u%c", found.at[i], i + 1 < found.count ? ' ' : '\n');
    tokenizer_ids_free(&found);
    tokenizer_encoder_free(encoder);
    tokenizer_free(t);
}

static void write_memory(void) {
    unsigned long pages = 0;
    struct rusage use;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*u %lu", &pages) != 1) fail("cannot read /proc/self/statm");
    fclose(f);
    getrusage(RUSAGE_SELF, &use);
    printf("%lu %ld\n", pages * 4, use.ru_maxrss);
}

int main(int argc, char **argv) {
    static char line[1 << 20];
    braid_error error;
    model_file *file;
    tensor_pool *pool;
    if (argc < 4 || argc > 5) fail("MODEL THREADS rounded|exact [ADAPTER] are expected");
    if (model_file_open(argv[1], &file, &error)) fail(error.text);
    if (tensor_pool_new((unsigned)atoi(argv[2]), &pool, &error)) fail(error.text);
    engine_source source = engine_source_file(file);
    engine_settings settings = {.pool = pool, .exact = strcmp(argv[3], "exact") == 0};
    if (engine_new(&source, &settings, &e, &error)) fail(error.text);
    vocab = engine_config(e)->vocab;
    engine_adapter *adapter = NULL;
    peft_adapter *parts = NULL;
    if (argc == 5 && (peft_open(argv[4], file, &parts, &error) || engine_adapter_new(e, parts, &adapter, &error)))
        fail(error.text);
    peft_close(parts);
    float *logits = malloc(vocab * sizeof *logits);
    while (logits && fgets(line, sizeof line, stdin)) {
        const char *verb = strtok(line, " \n");
        sequence *s;
        if (!verb || sequence_new(e, &s, &error)) fail("no command");
        sequence_set_adapter(s, adapter);
        if (strcmp(verb, "logits") == 0) write_logits(s);
        if (strcmp(verb, "greedy") == 0) write_greedy(s, logits);
        if (strcmp(verb, "speed") == 0) write_speed(s, logits);
        if (strcmp(verb, "memory") == 0) write_memory();
        if (strcmp(verb, "tokens") == 0) write_tokens(file, strtok(NULL, "\n"));
        fflush(stdout);
        sequence_free(s);
    }
    return 0;
}
