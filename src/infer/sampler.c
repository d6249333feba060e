#include "infer/sampler.h"

#include "base/rng.h"
#include "tensor/cpu/wide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct choice {
    float logit;
    uint32_t token;
} choice;

struct sampler {
    sampler_settings settings;
    sampler_bias *biases;
    uint32_t vocab;
    rng random;
    uint32_t *seen;       // [vocab]: bit 0: in the prompt or the text; the rest: how often in the text
    uint32_t *different;  // tokens with seen > 0
    uint32_t different_count;
    choice *choices;  // [vocab]
    double *weights;  // [vocab]
};

sampler_settings sampler_defaults(void) {
    return (sampler_settings){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
}

static const char *bad_range(const sampler_settings *s) {
    if (!(s->temperature >= 0 && s->temperature <= 1e6)) return "temperature must be from 0 to 1000000";
    if (!(s->top_p >= 0 && s->top_p <= 1)) return "top_p must be from 0 to 1";
    if (!(s->min_p >= 0 && s->min_p <= 1)) return "min_p must be from 0 to 1";
    if (!(s->repetition_penalty > 0 && s->repetition_penalty <= 1e6)) return "repetition_penalty must be above 0";
    if (!(fabs(s->presence_penalty) <= 1e6)) return "presence_penalty must be a number up to 1000000";
    if (!(fabs(s->frequency_penalty) <= 1e6)) return "frequency_penalty must be a number up to 1000000";
    return s->bias_count > SAMPLER_MAX_BIASES ? "too many biases of logits" : NULL;
}

static braid_err check(const sampler_settings *s, uint32_t vocab, braid_error *error) {
    const char *bad = bad_range(s);
    if (bad) return braid_fail(error, BRAID_CONFIG, "sampling: %s", bad);
    for (uint32_t i = 0; i < s->bias_count; i++) {
        if (s->biases[i].token >= vocab)
            return braid_fail(error, BRAID_CONFIG, "sampling: a bias is for token %u; the model has %u tokens",
                              s->biases[i].token, vocab);
        if (isnan(s->biases[i].bias) || s->biases[i].bias == INFINITY)
            return braid_fail(error, BRAID_CONFIG, "sampling: the bias of token %u is not a number",
                              s->biases[i].token);
    }
    return BRAID_OK;
}

braid_err sampler_new(const sampler_settings *settings, uint32_t vocab, sampler **out, braid_error *error) {
    *out = NULL;
    BRAID_ASSERT(vocab > 0);
    braid_err err = check(settings, vocab, error);
    if (err) return err;
    sampler *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for sampling");
    s->settings = *settings;
    s->vocab = vocab;
    s->random.state = rng_seed(settings->seed, 0);
    s->biases = calloc(settings->bias_count + 1, sizeof *s->biases);
    s->seen = calloc(vocab, sizeof *s->seen);
    s->different = calloc(vocab, sizeof *s->different);
    s->choices = calloc(vocab, sizeof *s->choices);
    s->weights = calloc(vocab, sizeof *s->weights);
    if (!s->biases || !s->seen || !s->different || !s->choices || !s->weights) {
        sampler_free(s);
        return braid_fail(error, BRAID_MEMORY, "no memory for sampling");
    }
    if (settings->bias_count) memcpy(s->biases, settings->biases, settings->bias_count * sizeof *s->biases);
    s->settings.biases = s->biases;
    *out = s;
    return BRAID_OK;
}

void sampler_free(sampler *s) {
    if (!s) return;
    free(s->biases);
    free(s->seen);
    free(s->different);
    free(s->choices);
    free(s->weights);
    free(s);
}

static void see(sampler *s, uint32_t token, uint32_t times) {
    BRAID_ASSERT(token < s->vocab);
    if (s->seen[token] == 0) s->different[s->different_count++] = token;
    s->seen[token] = (s->seen[token] | 1) + 2 * times;
}

void sampler_prompt(sampler *s, const uint32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++) see(s, tokens[i], 0);
}

void sampler_accept(sampler *s, uint32_t token) { see(s, token, 1); }

// --- changes of logits

static float penalised(const sampler_settings *set, float logit, uint32_t times) {
    double x = (double)logit;
    x = x < 0 ? x * set->repetition_penalty : x / set->repetition_penalty;
    if (times > 0) x -= set->presence_penalty + set->frequency_penalty * (double)times;
    return (float)x;
}

static void change(const sampler *s, float *logits) {
    const sampler_settings *set = &s->settings;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (isnan(logits[i])) logits[i] = -INFINITY;
    for (uint32_t i = 0; i < set->bias_count; i++) logits[set->biases[i].token] += set->biases[i].bias;
    if (set->repetition_penalty == 1 && set->presence_penalty == 0 && set->frequency_penalty == 0) return;
    for (uint32_t i = 0; i < s->different_count; i++) {
        uint32_t t = s->different[i];
        logits[t] = penalised(set, logits[t], s->seen[t] / 2);
    }
}

static uint32_t largest(const float *logits, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

// --- selection

enum { LEAST_POWER = -700 };  // below it, e^x counts as 0

// e^x for LEAST_POWER <= x <= 0 with additions and multiplications alone, so that the bits are the
// same everywhere. Without branches, so that compilers can compute several at once.
LANES_INLINE double power_in_range(double x) {
    static const double inverse[] = {1.0 / 6227020800,
                                     1.0 / 479001600,
                                     1.0 / 39916800,
                                     1.0 / 3628800,
                                     1.0 / 362880,
                                     1.0 / 40320,
                                     1.0 / 5040,
                                     1.0 / 720,
                                     1.0 / 120,
                                     1.0 / 24,
                                     1.0 / 6,
                                     1.0 / 2,
                                     1,
                                     1};  // 1 / 13!, ..., 1 / 0!
    int n = (int)(x * 1.44269504088896340736 - 0.5);
    double r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10, sum = inverse[0], scale;
    _Pragma("GCC unroll 16") for (size_t i = 1; i < sizeof inverse / sizeof *inverse; i++) sum = sum * r + inverse[i];
    int64_t bits = (int64_t)((uint64_t)(int64_t)(n + 1023) << 52);
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

static double power_of_e(double x) { return x > LEAST_POWER ? power_in_range(x) : 0; }

// Larger logits first, then lower tokens.
static bool before(const choice *a, const choice *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

static int compare(const void *a, const void *b) { return before(a, b) ? -1 : 1; }

static void swap(choice *a, choice *b) {
    choice c = *a;
    *a = *b;
    *b = c;
}

// Moves the first `count` in the order of `before` to the front, in any order (quickselect with the
// median of three). The order is total, so the set does not depend on how it is found.
static void select_first(choice *c, uint32_t total, uint32_t count) {
    uint32_t begin = 0, end = total;
    while (end - begin > 1 && count > begin && count < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (before(&c[middle], &c[begin])) swap(&c[middle], &c[begin]);
        if (before(&c[end - 1], &c[begin])) swap(&c[end - 1], &c[begin]);
        if (before(&c[end - 1], &c[middle])) swap(&c[end - 1], &c[middle]);
        if (end - begin <= 3) return;  // sorted
        choice pivot = c[middle];
        uint32_t i = begin, j = end - 1;
        for (;;) {
            while (before(&c[i], &pivot)) i++;
            while (before(&pivot, &c[j])) j--;
            if (i >= j) break;
            swap(&c[i++], &c[j--]);
        }
        // [begin, j] are not behind the pivot, [j + 1, end) not before it
        if (count <= j + 1)
            end = j + 1;
        else
            begin = j + 1;
    }
}

// Keeps the k largest and those equal to the k-th.
static uint32_t keep_top_k(choice *c, uint32_t count, uint32_t k) {
    if (k == 0 || k >= count) return count;
    select_first(c, count, k);
    float least = c[0].logit;
    for (uint32_t i = 1; i < k; i++) least = c[i].logit < least ? c[i].logit : least;
    uint32_t kept = k;
    for (uint32_t i = k; i < count; i++)
        if (c[i].logit == least) swap(&c[kept++], &c[i]);
    return kept;
}

static double weight_of(const sampler *s, float logit, float top) {
    return power_of_e(((double)logit - (double)top) / s->settings.temperature);
}

// Sum of weights in the order of tokens, so that it does not depend on the selection.
static double total_weight(const sampler *s, const float *logits, float top, float least) {
    double sum = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (logits[i] >= least) sum += weight_of(s, logits[i], top);
    return sum;
}

// The first in order that together have the share `p` of `sum`; sorts as few as necessary.
static uint32_t keep_top_p(const sampler *s, choice *c, uint32_t count, float top, double p, double sum) {
    enum { FIRST = 64, GROWTH = 8 };
    double have = 0;
    uint32_t sorted = 0;
    for (uint32_t size = FIRST; sorted < count; size = size < count / GROWTH ? size * GROWTH : count) {
        uint32_t end = size < count ? size : count;
        if (end <= sorted) continue;
        select_first(c + sorted, count - sorted, end - sorted);
        qsort(c + sorted, end - sorted, sizeof *c, compare);
        for (; sorted < end; sorted++) {
            have += weight_of(s, c[sorted].logit, top);
            if (have >= p * sum) return sorted + 1;
        }
    }
    return count;
}

static uint32_t keep_min_p(const sampler *s, choice *c, uint32_t count, float top) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (weight_of(s, c[i].logit, top) >= s->settings.min_p) c[kept++] = c[i];
    return kept;
}

LANES_INLINE uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LANES_INLINE double with_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// weight_of each choice. The conditions compare bits, because compilers do not compute several
// comparisons of numbers at once: of numbers <= 0, the least has the largest bits.
TENSOR_WIDE
static void compute_weights(double *weights, const choice *c, uint32_t count, float top, double temperature) {
    const uint64_t least = bits_of(LEAST_POWER);
    LANES_APART for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = bits_of(((double)c[i].logit - (double)top) / temperature);
        uint64_t mask = bits < least ? ~UINT64_C(0) : 0;
        double power = power_in_range(with_bits(bits < least ? bits : least));
        weights[i] = with_bits(bits_of(power) & mask);
    }
}

static uint32_t draw(sampler *s, const choice *c, uint32_t count, float top) {
    double sum = 0;
    compute_weights(s->weights, c, count, top, s->settings.temperature);
    for (uint32_t i = 0; i < count; i++) sum += s->weights[i];
    double at = rng_unit(&s->random) * sum;
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (s->weights[i] == 0) continue;
        last = i;
        at -= s->weights[i];
        if (at < 0) break;
    }
    return c[last].token;
}

uint32_t sampler_next(sampler *s, float *logits) {
    const sampler_settings *set = &s->settings;
    change(s, logits);
    uint32_t best = largest(logits, s->vocab), count = 0;
    float top = logits[best], least = -INFINITY;
    if (set->temperature == 0 || !(top < INFINITY) || top == -INFINITY) return best;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (logits[i] > -INFINITY) s->choices[count++] = (choice){logits[i], i};
    uint32_t kept = keep_top_k(s->choices, count, set->top_k);
    if (kept < count) {
        least = top;
        for (uint32_t i = 0; i < kept; i++) least = s->choices[i].logit < least ? s->choices[i].logit : least;
    }
    if (set->top_p < 1) kept = keep_top_p(s, s->choices, kept, top, set->top_p, total_weight(s, logits, top, least));
    if (set->min_p > 0) kept = keep_min_p(s, s->choices, kept, top);
    return draw(s, s->choices, kept, top);
}

// --- log-probabilities

static double log_of_sum(const float *logits, uint32_t vocab, float top) {
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        if (!isnan(logits[i])) sum += exp((double)logits[i] - (double)top);
    return log(sum);
}

float sampler_logprob(const float *logits, uint32_t vocab, uint32_t token) {
    BRAID_ASSERT(token < vocab);
    float top = logits[largest(logits, vocab)];
    return (float)((double)logits[token] - (double)top - log_of_sum(logits, vocab, top));
}

uint32_t sampler_likeliest(const float *logits, uint32_t vocab, uint32_t count, sampler_top *out) {
    BRAID_ASSERT(count <= SAMPLER_MAX_TOP);
    uint32_t found = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        if (isnan(logits[i]) || (found == count && (count == 0 || !(logits[i] > out[count - 1].logprob)))) continue;
        uint32_t at = found < count ? found++ : count - 1;
        for (; at > 0 && logits[i] > out[at - 1].logprob; at--) out[at] = out[at - 1];
        out[at] = (sampler_top){i, logits[i]};
    }
    float top = found ? out[0].logprob : 0;
    double rest = found ? log_of_sum(logits, vocab, top) : 0;
    for (uint32_t i = 0; i < found; i++) out[i].logprob = (float)((double)out[i].logprob - (double)top - rest);
    return found;
}
