#include "eval/perplexity.h"

#include "eval/likelihood.h"

enum { ROWS_TOGETHER = 1024, MOST_WINDOWS = 64 };

typedef struct windows {
    const uint32_t *ids;
    size_t count, next;  // of the next window: its first token
    size_t scored;       // tokens that earlier windows scored; 1 at first, because nothing predicts the first token
} windows;

// The next window, or a part without tokens at the end of the text.
static likelihood_part next_window(windows *w, const perplexity_settings *s, sequence *own) {
    likelihood_part p = {.read = {.sequence = own, .tokens = w->ids + w->next}};
    if (w->scored == w->count) return p;
    size_t end = w->next + s->window < w->count ? w->next + s->window : w->count;
    // the last token of a window is a target only
    p.read.count = (uint32_t)(end - 1 - w->next);
    p.scored = (uint32_t)(end - w->scored);
    p.targets = w->ids + w->scored;
    w->scored = end;
    w->next += s->stride;
    return p;
}

static braid_err measure(likelihood *l, sequence *const *sequences, uint32_t together, windows *w,
                         const perplexity_settings *s, perplexity *out, braid_error *error) {
    braid_err err = BRAID_OK;
    while (!err && w->scored < w->count) {
        likelihood_part parts[MOST_WINDOWS];
        uint32_t count = 0;
        while (count < together && (parts[count] = next_window(w, s, sequences[count])).read.count > 0) {
            sequence_truncate(sequences[count], 0);
            count++;
        }
        err = likelihood_read(l, parts, count, error);
        for (uint32_t i = 0; i < count && !err; i++) {
            out->nats -= parts[i].sum;
            out->tokens += parts[i].scored;
        }
        if (s->progress && !err) s->progress(s->context, w->scored, w->count);
    }
    return err;
}

braid_err perplexity_measure(engine *e, const uint32_t *ids, size_t count, const perplexity_settings *s,
                             perplexity *out, braid_error *error) {
    *out = (perplexity){0};
    if (s->window < 2 || s->stride < 1 || s->stride >= s->window)
        return braid_fail(error, BRAID_CONFIG,
                          "a window of %u tokens with a stride of %u is not possible: the stride is at least 1 and "
                          "less than the window",
                          s->window, s->stride);
    if (s->window > engine_context(e))
        return braid_fail(error, BRAID_LIMIT, "a window of %u tokens is longer than the context of %u", s->window,
                          engine_context(e));
    if (count < 2) return braid_fail(error, BRAID_ARGUMENT, "the text has fewer than two tokens");
    uint32_t together = s->window < ROWS_TOGETHER ? ROWS_TOGETHER / s->window : 1;
    if (together > MOST_WINDOWS) together = MOST_WINDOWS;
    sequence *sequences[MOST_WINDOWS] = {0};
    likelihood *l = NULL;
    windows w = {ids, count, 0, 1};
    braid_err err = likelihood_new(e, &l, error);
    for (uint32_t i = 0; i < together && !err; i++) err = sequence_new(e, &sequences[i], error);
    if (!err) err = measure(l, sequences, together, &w, s, out, error);
    for (uint32_t i = 0; i < together; i++) sequence_free(sequences[i]);
    likelihood_free(l);
    return err;
}
