#include "serve/drafter.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct drafter {
    engine *engine;
    float *logits;  // [vocab]
    double seconds;
};

static const double NEWEST = 0.05;  // weight of the newest measurement

drafter *drafter_new(engine *e) {
    drafter *d = calloc(1, sizeof *d);
    if (d) d->logits = malloc(engine_config(e)->vocab * sizeof *d->logits);
    if (!d || !d->logits) {
        free(d);
        return NULL;
    }
    d->engine = e;
    return d;
}

void drafter_free(drafter *d) {
    if (!d) return;
    free(d->logits);
    free(d);
}

double drafter_seconds(const drafter *d) { return d->seconds; }

void drafter_text_end(drafter_text *t) {
    sequence_free(t->sequence);
    *t = (drafter_text){0};
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// The sequence keeps the tokens that are the text's.
static void keep_text(drafter_text *t, const uint32_t *tokens, uint32_t count) {
    uint32_t same = 0, read = sequence_length(t->sequence);
    while (same < t->guesses && t->known + same < count && t->guess[same] == tokens[t->known + same]) same++;
    uint32_t kept = t->known + same;
    if (kept >= count) kept = count - 1;  // its row gives the next token
    if (kept < read) sequence_truncate(t->sequence, kept);
}

static uint32_t likeliest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

uint32_t drafter_guess(drafter *d, drafter_text *t, const uint32_t *tokens, uint32_t count, uint32_t vocab,
                       uint32_t *draft, uint32_t most) {
    uint32_t own = engine_config(d->engine)->vocab, context = engine_context(d->engine), made = 0;
    if (own < vocab) vocab = own;
    if (count == 0 || count >= context) return 0;
    if (most > context - count) most = context - count;
    if (!t->sequence && sequence_new(d->engine, &t->sequence, NULL)) return 0;
    keep_text(t, tokens, count);
    uint32_t read = sequence_length(t->sequence);
    for (uint32_t i = read; i < count; i++)
        if (tokens[i] >= own) return 0;
    t->known = count;
    t->guesses = 0;
    engine_part part = {t->sequence, count - read, tokens + read};
    double start = 0;  // of the guesses after the first, which may have to read a prompt
    while (made < most && !engine_read(d->engine, &part, 1, d->logits, NULL)) {
        draft[made] = likeliest(d->logits, vocab);
        t->guesses = made;  // the last one is not read
        memcpy(t->guess, draft, made * sizeof *draft);
        part = (engine_part){t->sequence, 1, &draft[made++]};
        if (made == 1) start = seconds_now();
    }
    if (made > 1) {
        double each = (seconds_now() - start) / (made - 1);
        d->seconds = d->seconds > 0 ? d->seconds + NEWEST * (each - d->seconds) : each;
    }
    return made;
}
