// llama.cpp over RPC workers in tools/serve-delay, by its C API:
//     bench-rpc-llama MODEL WORKERS CONTEXT < commands     WORKERS: HOST:PORT,HOST:PORT...
// All layers and the head are on the workers, in equal shares. A command is a line: the number of tokens and the prompt.
// The answer is a line: the seconds until the likeliest tokens were written after the prompt.
#include "ggml-rpc.h"
#define BENCH_NAME "bench-rpc-llama"
#include "bench-llama.h"

#include <stdint.h>
#include <string.h>

enum { MOST = 1 << 16, ALL_LAYERS = 999 };

static struct llama_context *context;
static const struct llama_vocab *words;
static int vocab;

static llama_token read_tokens(llama_token *tokens, int count) {
    if (llama_decode(context, llama_batch_get_one(tokens, count))) fail("cannot decode");
    const float *logits = llama_get_logits_ith(context, -1);
    int best = 0;
    for (int i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void write_text(int tokens, const char *prompt) {
    static llama_token ids[MOST];
    int count = llama_tokenize(words, prompt, (int)strlen(prompt), ids, MOST, true, true);
    if (count <= 0 || count > (int)llama_n_batch(context)) fail("cannot tokenize");
    llama_memory_clear(llama_get_memory(context), true);
    double start = seconds(CLOCK_MONOTONIC);
    llama_token token = read_tokens(ids, count);
    for (int i = 1; i < tokens; i++) token = read_tokens(&token, 1);
    printf("%.6f\n", seconds(CLOCK_MONOTONIC) - start);
    fflush(stdout);
}

static void open_model(const char *path, char *workers, uint32_t tokens) {
    llama_log_set(quiet, NULL);
    llama_backend_init();
    for (char *worker = strtok(workers, ","); worker; worker = strtok(NULL, ",")) {
        ggml_backend_reg_t found = ggml_backend_rpc_add_server(worker);
        if (!found) fail("cannot reach a worker");
        ggml_backend_register(found);
    }
    struct llama_model_params m = llama_model_default_params();
    float split[GGML_RPC_MAX_SERVERS];
    for (int i = 0; i < GGML_RPC_MAX_SERVERS; i++) split[i] = 1;
    m.n_gpu_layers = ALL_LAYERS;
    m.tensor_split = split;
    struct llama_model *model = llama_model_load_from_file(path, m);
    if (!model) fail("cannot load the model");
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = tokens;
    p.n_threads = p.n_threads_batch = 1;
    context = llama_init_from_model(model, p);
    if (!context) fail("cannot make a context");
    words = llama_model_get_vocab(model);
    vocab = llama_vocab_n_tokens(words);
}

int main(int argc, char **argv) {
    static char line[MOST];
    if (argc != 4) fail("MODEL WORKERS CONTEXT are expected");
    open_model(argv[1], argv[2], (uint32_t)atoi(argv[3]));
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char *prompt = line;
        long tokens = strtol(line, &prompt, 10);
        line[strcspn(line, "\n")] = 0;
        write_text((int)tokens, prompt + (*prompt == ' '));
    }
    return 0;
}
