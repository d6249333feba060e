// llama.cpp with many texts in each batch, by its C API: what llama-server does without HTTP, its queue and its sampling.
//     bench-batch-llama MODEL THREADS TEXTS PROMPT TOKENS
// Reads TEXTS prompts of PROMPT tokens together, then writes the likeliest token of each text in each step.
// Prints seconds until the first tokens, until the end, and the processor time.
#define BENCH_NAME "bench-batch-llama"
#include "bench-llama.h"

#include <stdint.h>
#include <string.h>

enum { MOST_TEXTS = 256, AT_ONCE = 2048 };

static struct llama_context *context;
static int vocab;
static llama_token next[MOST_TEXTS];

static void add(struct llama_batch *b, llama_token token, int position, int text, bool wanted) {
    int i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = position;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = text;
    b->logits[i] = wanted;
}

// Computes the batch, takes the likeliest tokens and empties it.
static void flush(struct llama_batch *b) {
    if (b->n_tokens > 0 && llama_decode(context, *b)) fail("cannot decode");
    for (int i = 0; i < b->n_tokens; i++) {
        if (!b->logits[i]) continue;
        const float *logits = llama_get_logits_ith(context, i);
        int best = 0;
        for (int k = 1; k < vocab; k++)
            if (logits[k] > logits[best]) best = k;
        next[b->seq_id[i][0]] = best;
    }
    b->n_tokens = 0;
}

static void read_prompts(struct llama_batch *b, int texts, int prompt) {
    for (int t = 0; t < texts; t++)
        for (int i = 0; i < prompt; i++) {
            if (b->n_tokens == AT_ONCE) flush(b);
            add(b, 1000 + (i + 131 * t) * 7919 % 40000, i, t, i + 1 == prompt);
        }
    flush(b);
}

int main(int argc, char **argv) {
    if (argc != 6) fail("MODEL THREADS TEXTS PROMPT TOKENS are expected");
    int texts = atoi(argv[3]), prompt = atoi(argv[4]), tokens = atoi(argv[5]);
    if (texts > MOST_TEXTS) fail("too many texts");
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) fail("cannot load the model");
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)(texts * (prompt + tokens));
    p.n_seq_max = (uint32_t)texts;
    p.n_batch = AT_ONCE;
    p.n_threads = p.n_threads_batch = atoi(argv[2]);
    p.kv_unified = true;
    context = llama_init_from_model(model, p);
    if (!context) fail("cannot make a context");
    vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    struct llama_batch b = llama_batch_init(AT_ONCE, 0, 1);
    read_prompts(&b, texts, 16);  // warm
    llama_memory_clear(llama_get_memory(context), true);
    double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    read_prompts(&b, texts, prompt);
    double first = seconds(CLOCK_MONOTONIC) - wall, first_processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    for (int i = 1; i < tokens; i++) {
        for (int t = 0; t < texts; t++) add(&b, next[t], prompt + i - 1, t, true);
        flush(&b);
    }
    printf("{\"first_s\":%.6f,\"wall_s\":%.6f,\"first_processor_s\":%.6f,\"processor_s\":%.6f}\n", first,
           seconds(CLOCK_MONOTONIC) - wall, first_processor, seconds(CLOCK_PROCESS_CPUTIME_ID) - processor);
    return 0;
}
