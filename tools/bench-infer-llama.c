// The side of llama.cpp in tools/bench-infer and tools/check-infer, by its C API:
//     bench-infer-llama MODEL THREADS FLASH CONTEXT < commands     FLASH: on or off; CONTEXT: tokens
// With CACHE_F32 in the environment, keys and values are fp32, which needs FLASH off to have an effect.
// Commands as in tools/bench-infer-braid.c, and before them, with an argument more,
//     bench-infer-llama MODEL THREADS FLASH CONTEXT PROMPT         prints the text of the likeliest token and ends
#define BENCH_NAME "bench-infer-llama"
#include "bench-llama.h"

#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST = 1 << 16 };

static struct llama_context *context;
static const struct llama_vocab *words;
static int vocab;
static llama_token ids[MOST];

static int read_ids(void) {
    int count = 0;
    for (char *word; (word = strtok(NULL, " \n")) && count < MOST;) ids[count++] = (llama_token)strtoul(word, NULL, 10);
    return count;
}

static llama_token likeliest(const float *logits) {
    int best = 0;
    for (int i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static const float *read_tokens(llama_token *tokens, int count) {
    int most = (int)llama_n_batch(context);
    for (int i = 0; i < count; i += most)
        if (llama_decode(context, llama_batch_get_one(tokens + i, count - i < most ? count - i : most)))
            fail("cannot decode");
    return llama_get_logits_ith(context, -1);
}

static void write_logits(void) {
    FILE *file = fopen(strtok(NULL, " \n"), "wb");
    if (!file) fail("cannot write the logits");
    int count = read_ids();
    for (int i = 0; i < count; i++) fwrite(read_tokens(ids + i, 1), sizeof(float), (size_t)vocab, file);
    fclose(file);
    puts("ok");
}

static void write_greedy(void) {
    int wanted = atoi(strtok(NULL, " \n")), count = read_ids();
    const float *logits = read_tokens(ids, count);
    for (int i = 0; i < wanted; i++) {
        llama_token token = likeliest(logits);
        printf("%d%c", token, i + 1 < wanted ? ' ' : '\n');
        if (i + 1 < wanted) logits = read_tokens(&token, 1);
    }
}

static void write_speed(void) {
    int prompt = atoi(strtok(NULL, " \n")), count = atoi(strtok(NULL, " \n"));
    for (int i = 0; i < prompt; i++) ids[i] = 1000 + i * 7919 % 40000;
    double wall[3], cpu[3];
    wall[0] = seconds(CLOCK_MONOTONIC), cpu[0] = seconds(CLOCK_PROCESS_CPUTIME_ID);
    const float *logits = read_tokens(ids, prompt);
    wall[1] = seconds(CLOCK_MONOTONIC), cpu[1] = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < count; i++) {
        llama_token token = likeliest(logits);
        logits = read_tokens(&token, 1);
    }
    wall[2] = seconds(CLOCK_MONOTONIC), cpu[2] = seconds(CLOCK_PROCESS_CPUTIME_ID);
    printf("%.6f %.6f %.6f %.6f\n", wall[1] - wall[0], wall[2] - wall[1], cpu[1] - cpu[0], cpu[2] - cpu[1]);
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

static void first_token(const char *prompt) {
    char piece[256];
    int count = llama_tokenize(words, prompt, (int)strlen(prompt), ids, MOST, true, true);
    if (count <= 0) fail("cannot tokenize");
    llama_token token = likeliest(read_tokens(ids, count));
    int length = llama_token_to_piece(words, token, piece, sizeof piece, 0, true);
    fwrite(piece, 1, length > 0 ? (size_t)length : 0, stdout);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static char line[1 << 20];
    if (argc < 5) fail("MODEL THREADS on|off CONTEXT are expected");
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) fail("cannot load the model");
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)atoi(argv[4]);
    p.n_threads = p.n_threads_batch = atoi(argv[2]);
    p.flash_attn_type = strcmp(argv[3], "on") == 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    if (getenv("CACHE_F32")) p.type_k = p.type_v = GGML_TYPE_F32;
    context = llama_init_from_model(model, p);
    words = llama_model_get_vocab(model);
    vocab = llama_vocab_n_tokens(words);
    if (!context) fail("cannot make a context");
    if (argc > 5) {
        first_token(argv[5]);
        return 0;
    }
    while (fgets(line, sizeof line, stdin)) {
        const char *verb = strtok(line, " \n");
        if (!verb) fail("no command");
        llama_memory_clear(llama_get_memory(context), true);
        if (strcmp(verb, "logits") == 0) write_logits();
        if (strcmp(verb, "greedy") == 0) write_greedy();
        if (strcmp(verb, "speed") == 0) write_speed();
        if (strcmp(verb, "memory") == 0) write_memory();
        fflush(stdout);
    }
    return 0;
}
