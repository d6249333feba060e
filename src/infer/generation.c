#include "infer/generation.h"

#include "infer/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 };

struct generation {
    engine *engine;  // NULL: without a sequence
    uint32_t vocab, context;
    const tokenizer *tokenizer;
    generation_settings settings;
    sampler *sampler;
    stop_filter *stops;
    char **stop_texts;
    tokenizer_stream *stream;
    sequence *sequence;
    float *logits;   // [vocab], with an engine
    float *changed;  // [vocab], by the sampler, where the logits are needed later
    uint32_t *tokens;
    size_t count, capacity;
    size_t reused;
    uint64_t drawn;
    char *last;  // text of the last step, where it is put together
    size_t last_capacity;
};

// --- start and end

static braid_err copy_stops(generation *g, braid_error *error) {
    generation_settings *s = &g->settings;
    g->stop_texts = calloc(s->stop_count + 1, sizeof *g->stop_texts);
    bool good = g->stop_texts != NULL;
    for (uint32_t i = 0; i < s->stop_count && good; i++) good = (g->stop_texts[i] = strdup(s->stops[i])) != NULL;
    s->stops = (const char *const *)g->stop_texts;
    return good ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the stop strings");
}

// The parts that begin anew with each text.
static braid_err begin_text(generation *g, braid_error *error) {
    sampler_free(g->sampler);
    stop_filter_free(g->stops);
    tokenizer_stream_free(g->stream);
    g->sampler = NULL;
    g->stops = NULL;
    g->stream = NULL;
    g->drawn = 0;
    braid_err err = sampler_new(&g->settings.sampler, g->vocab, &g->sampler, error);
    if (!err) err = stop_filter_new(g->settings.stops, g->settings.stop_count, &g->stops, error);
    if (!err && g->tokenizer && !(g->stream = tokenizer_stream_new(g->tokenizer, !g->settings.show_special)))
        err = braid_fail(error, BRAID_MEMORY, "no memory for the text");
    return err;
}

static braid_err check_settings(uint32_t vocab, const tokenizer *t, const generation_settings *settings,
                                braid_error *error) {
    if (!t && vocab < BYTES)
        return braid_fail(error, BRAID_CONFIG, "this model knows %u tokens; to read and write bytes it needs %d", vocab,
                          BYTES);
    if (settings->top_logprobs > SAMPLER_MAX_TOP)
        return braid_fail(error, BRAID_CONFIG, "%u log-probabilities a token are too many: ask for at most %d",
                          settings->top_logprobs, SAMPLER_MAX_TOP);
    return BRAID_OK;
}

braid_err generation_new_apart(uint32_t vocab, uint32_t context, const tokenizer *t,
                               const generation_settings *settings, generation **out, braid_error *error) {
    *out = NULL;
    braid_err err = check_settings(vocab, t, settings, error);
    if (err) return err;
    generation *g = calloc(1, sizeof *g);
    if (!g) return braid_fail(error, BRAID_MEMORY, "no memory for a text");
    g->vocab = vocab;
    g->context = context;
    g->tokenizer = t;
    g->settings = *settings;
    if (settings->top_logprobs) g->changed = malloc(vocab * sizeof *g->changed);
    err = !settings->top_logprobs || g->changed ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for a text");
    if (!err) err = copy_stops(g, error);
    if (!err) err = begin_text(g, error);
    if (err)
        generation_free(g);
    else
        *out = g;
    return err;
}

braid_err generation_new(engine *e, const tokenizer *t, const generation_settings *settings, generation **out,
                         braid_error *error) {
    braid_err err = generation_new_apart(engine_config(e)->vocab, engine_context(e), t, settings, out, error);
    generation *g = *out;
    if (err) return err;
    g->engine = e;
    g->logits = malloc(g->vocab * sizeof *g->logits);
    err = g->logits ? sequence_new(e, &g->sequence, error) : braid_fail(error, BRAID_MEMORY, "no memory for a text");
    if (!err) sequence_set_adapter(g->sequence, settings->adapter);
    if (err) {
        generation_free(g);
        *out = NULL;
    }
    return err;
}

void generation_free(generation *g) {
    if (!g) return;
    sampler_free(g->sampler);
    stop_filter_free(g->stops);
    tokenizer_stream_free(g->stream);
    sequence_free(g->sequence);
    for (uint32_t i = 0; g->stop_texts && i < g->settings.stop_count; i++) free(g->stop_texts[i]);
    free(g->stop_texts);
    free(g->logits);
    free(g->changed);
    free(g->tokens);
    free(g->last);
    free(g);
}

const uint32_t *generation_tokens(const generation *g, size_t *count) {
    *count = g->count;
    return g->tokens;
}

size_t generation_reused(const generation *g) { return g->reused; }

uint32_t generation_left(const generation *g) {
    uint64_t room = g->count <= g->context ? g->context + UINT64_C(1) - g->count : 0, most = g->settings.max_tokens;
    if (most > 0 && most - g->drawn < room) room = most - g->drawn;
    return (uint32_t)room;
}

// --- tokens

static bool reach(generation *g, size_t count) {
    if (count <= g->capacity) return true;
    size_t capacity = 2 * count;
    uint32_t *more = realloc(g->tokens, capacity * sizeof *more);
    if (!more) return false;
    g->tokens = more;
    g->capacity = capacity;
    return true;
}

// Without a sequence, nothing. The sequence keeps the tokens that both have; at least one token is left to read, because its
// logits are needed.
static void keep_common(generation *g, const uint32_t *tokens, size_t count) {
    size_t same = 0, read = g->sequence ? sequence_length(g->sequence) : 0;
    while (same < read && same + 1 < count && g->tokens[same] == tokens[same]) same++;
    if (g->sequence) sequence_truncate(g->sequence, (uint32_t)same);
    g->reused = same;
}

braid_err generation_prompt(generation *g, const uint32_t *tokens, size_t count, braid_error *error) {
    uint32_t context = g->context, vocab = g->vocab;
    if (count == 0) return braid_fail(error, BRAID_ARGUMENT, "the prompt is empty: give at least one token");
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= vocab)
            return braid_fail(error, BRAID_FORMAT,
                              "the tokenizer gives token %u, but the model has %u tokens: they do not belong"
                              " together",
                              tokens[i], vocab);
    if (count >= context && g->settings.shift) {
        size_t kept = context > 1 ? context / 2 : 1;
        tokens += count - kept;
        count = kept;
    }
    if (count > context)
        return braid_fail(error, BRAID_LIMIT,
                          "the prompt has %zu tokens, the context is %u: give a shorter prompt or a longer context",
                          count, context);
    if (!reach(g, count)) return braid_fail(error, BRAID_MEMORY, "no memory for a prompt of %zu tokens", count);
    keep_common(g, tokens, count);
    memmove(g->tokens, tokens, count * sizeof *tokens);
    g->count = count;
    braid_err err = begin_text(g, error);
    if (!err) sampler_prompt(g->sampler, tokens, count);
    return err;
}

static void drop_older_half(generation *g) {
    uint32_t context = g->context;
    size_t kept = context > 1 ? context / 2 : 1;
    memmove(g->tokens, g->tokens + g->count - kept, kept * sizeof *g->tokens);
    g->count = kept;
    sequence_truncate(g->sequence, 0);
}

braid_err generation_unread(generation *g, engine_part *part, braid_error *error) {
    BRAID_ASSERT(g->engine);
    if (g->count > g->context && g->settings.shift) drop_older_half(g);
    uint32_t read = sequence_length(g->sequence);
    if (g->count <= read) return braid_fail(error, BRAID_STATE, "a text needs a prompt before it can go on");
    *part = (engine_part){g->sequence, (uint32_t)(g->count - read), g->tokens + read};
    return BRAID_OK;
}

// --- text

static bool is_stop_id(const generation *g, uint32_t token) {
    uint32_t count = 0;
    const uint32_t *ids = g->tokenizer ? tokenizer_stops(g->tokenizer, &count) : NULL;
    for (uint32_t i = 0; i < count && !g->settings.ignore_stop_ids; i++)
        if (ids[i] == token) return true;
    return false;
}

// Appends to the text of this step; a filter's text is valid until its next call only.
static braid_err append(generation *g, const char *text, size_t length, generation_step *step, braid_error *error) {
    if (step->length + length > g->last_capacity) {
        size_t capacity = 2 * (step->length + length);
        char *more = realloc(g->last, capacity);
        if (!more) return braid_fail(error, BRAID_MEMORY, "no memory for the text");
        g->last = more;
        g->last_capacity = capacity;
    }
    if (length) memcpy(g->last + step->length, text, length);
    step->length += length;
    return BRAID_OK;
}

static braid_err filter(generation *g, const char *piece, size_t length, generation_step *step, braid_error *error) {
    const char *text;
    size_t shown;
    bool stopped;
    braid_err err = stop_filter_add(g->stops, piece, length, &text, &shown, &stopped, error);
    if (!err) err = append(g, text, shown, step, error);
    if (stopped) step->end = GENERATION_STOP_STRING;
    return err;
}

static braid_err token_text(generation *g, uint32_t token, generation_step *step, braid_error *error) {
    char byte = (char)token;
    const char *piece = &byte;
    size_t length = token < BYTES;
    if (g->tokenizer) {
        braid_err err = tokenizer_stream_next(g->stream, token, &piece, &length, error);
        if (err) return err;
    }
    return filter(g, piece, length, step, error);
}

// Everything that was held back.
static braid_err rest_of_text(generation *g, generation_step *step, braid_error *error) {
    const char *text = "";
    size_t length = 0;
    braid_err err = BRAID_OK;
    if (g->stream) err = tokenizer_stream_end(g->stream, &text, &length, error);
    generation_end end = step->end;
    if (!err) err = filter(g, text, length, step, error);
    if (err || step->end == GENERATION_STOP_STRING) return err;
    step->end = end;
    stop_filter_end(g->stops, &text, &length);
    return append(g, text, length, step, error);
}

static void log_probabilities(const generation *g, const float *logits, generation_step *step) {
    uint32_t vocab = g->vocab;
    step->logprob = sampler_logprob(logits, vocab, step->token);
    step->top_count = sampler_likeliest(logits, vocab, g->settings.top_logprobs, step->top);
}

// A byte-level model writes bytes only, whatever else is in its vocabulary.
static uint32_t draw(generation *g, float *logits) {
    uint32_t vocab = g->vocab;
    for (uint32_t i = g->tokenizer ? vocab : BYTES; i < vocab; i++) logits[i] = -INFINITY;
    return sampler_next(g->sampler, logits);
}

braid_err generation_draw(generation *g, float *logits, generation_step *step, braid_error *error) {
    step->length = 0;
    step->top_count = 0;
    step->end = GENERATION_GOES_ON;
    if (!reach(g, g->count + 1)) return braid_fail(error, BRAID_MEMORY, "no memory for the text");
    float *changed = logits;
    if (g->settings.top_logprobs) memcpy(changed = g->changed, logits, g->vocab * sizeof *logits);
    step->token = draw(g, changed);
    if (g->settings.top_logprobs) log_probabilities(g, logits, step);
    sampler_accept(g->sampler, step->token);
    g->tokens[g->count++] = step->token;
    g->drawn++;
    braid_err err = BRAID_OK;
    if (is_stop_id(g, step->token))
        step->end = GENERATION_STOP_ID;
    else
        err = token_text(g, step->token, step, error);
    if (!step->end && g->drawn == g->settings.max_tokens) step->end = GENERATION_MAX_TOKENS;
    if (!step->end && g->count > g->context && !(g->settings.shift && g->engine)) step->end = GENERATION_CONTEXT;
    if (!err && step->end && step->end != GENERATION_STOP_STRING) err = rest_of_text(g, step, error);
    step->text = step->length ? g->last : "";
    return err;
}

braid_err generation_next(generation *g, generation_step *step, braid_error *error) {
    engine_part part;
    braid_err err = generation_unread(g, &part, error);
    if (!err) err = engine_read(g->engine, &part, 1, g->logits, error);
    return err ? err : generation_draw(g, g->logits, step, error);
}
