// The perplexity of a text.
#ifndef BRAID_EVAL_PERPLEXITY_H
#define BRAID_EVAL_PERPLEXITY_H

#include "infer/engine.h"

// A text longer than a window is read in windows that overlap: each begins `stride` tokens after the one before it, and the
// tokens are scored that the windows before it did not score. So each token but those of the first window has at least
// window - stride tokens before it. 1 <= stride < window.
typedef struct perplexity_settings {
    uint32_t window, stride;
    void (*progress)(void *context, uint64_t scored, uint64_t tokens);  // NULL: none
    void *context;
} perplexity_settings;

typedef struct perplexity {
    uint64_t tokens;  // scored: all but the first
    double nats;      // minus the sum of their log-probabilities
} perplexity;

// ids[count] with count >= 2. exp(nats / tokens) is the perplexity.
braid_err perplexity_measure(engine *e, const uint32_t *ids, size_t count, const perplexity_settings *settings,
                             perplexity *out, braid_error *error);

#endif
