// Rotary positions (Su et al. 2021) with the scalings of Hugging Face's rope_parameters. The tables are
// extended as texts grow, because those of a whole context would take longer than a short prompt.
#include "infer/inside.h"

#include "tensor/elementary.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_POSITIONS = 256 };

static const double pi = 3.14159265358979323846;

// llama3: long waves are slowed by `factor`, short ones are not, those between are mixed.
static double rate_llama3(const model_rope *r, double rate) {
    double turns = (double)r->original_context * rate / (2 * pi);
    double low = (double)r->low_freq_factor, high = (double)r->high_freq_factor;
    if (turns < low) return rate / (double)r->factor;
    if (turns > high) return rate;
    double share = (turns - low) / (high - low);
    return (1 - share) * rate / (double)r->factor + share * rate;
}

// The index of the pair that makes `turns` turns within the original context.
static double pair_of_turns(const model_rope *r, double width, double theta, double turns) {
    return width * elementary_log((double)r->original_context / (turns * 2 * pi)) / (2 * elementary_log(theta));
}

// YaRN (Peng et al. 2023): fast pairs keep their rate, slow ones are divided, with a ramp between.
static double rate_yarn(const model_rope *r, double rate, double width, double theta, double i) {
    double fast = r->beta_fast > 0 ? (double)r->beta_fast : 32, slow = r->beta_slow > 0 ? (double)r->beta_slow : 1;
    double low = fmax(floor(pair_of_turns(r, width, theta, fast)), 0);
    double high = fmin(ceil(pair_of_turns(r, width, theta, slow)), width - 1);
    if (low == high) high += 0.001;
    double slowed = fmin(fmax((i - low) / (high - low), 0), 1);
    return rate / (double)r->factor * slowed + rate * (1 - slowed);
}

static double rate_of(const model_rope *r, double width, double theta, double i) {
    double rate = elementary_exp(-2.0 * i / width * elementary_log(theta));
    switch (r->kind) {
    case MODEL_ROPE_LINEAR: return rate / (double)r->factor;
    case MODEL_ROPE_LLAMA3: return rate_llama3(r, rate);
    case MODEL_ROPE_YARN: return rate_yarn(r, rate, width, theta, i);
    default: return rate;
    }
}

static float scale_of(const model_rope *r) {
    if (r->kind != MODEL_ROPE_YARN) return 1;
    if (r->attention_factor > 0) return r->attention_factor;
    return r->factor > 1 ? (float)(0.1 * elementary_log((double)r->factor) + 1) : 1;
}

static bool fill_rates(engine_rotation *to, const model_rope *rope, size_t width, float theta) {
    to->rates = malloc(width / 2 * sizeof *to->rates);
    if (!to->rates) return false;
    for (size_t i = 0; i < width / 2; i++) to->rates[i] = rate_of(rope, (double)width, (double)theta, (double)i);
    to->scale = scale_of(rope);
    return true;
}

braid_err rotation_new(engine *e, braid_error *error) {
    const model_config *c = &e->config;
    if (e->row->learned_positions) return BRAID_OK;
    static const model_rope plain = {.kind = MODEL_ROPE_PLAIN};
    bool good = fill_rates(&e->rotation[0], &c->rope, e->width, c->rope_theta);
    if (good && c->local_rope_theta > 0) good = fill_rates(&e->rotation[1], &plain, e->width, c->local_rope_theta);
    return good ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the positions");
}

void rotation_free(engine *e) {
    for (int i = 0; i < 2; i++) {
        free(e->rotation[i].rates);
        free(e->rotation[i].tables);
    }
}

static void fill_position(const engine_rotation *r, size_t half, uint32_t position) {
    float *at = r->tables + (size_t)position * 2 * half;
    for (size_t i = 0; i < half; i++) {
        double sine, cosine;
        elementary_sin_cos((double)position * r->rates[i], &sine, &cosine);
        at[i] = (float)cosine * r->scale;
        at[half + i] = (float)sine * r->scale;
    }
}

static bool reach(engine_rotation *r, size_t half, uint32_t positions) {
    if (!r->rates || positions <= r->positions) return true;
    if (positions > r->capacity) {
        uint32_t capacity = r->capacity ? r->capacity : LEAST_POSITIONS;
        while (capacity < positions) capacity *= 2;
        float *more = realloc(r->tables, (size_t)capacity * 2 * half * sizeof *more);
        if (!more) return false;
        r->tables = more;
        r->capacity = capacity;
    }
    for (; r->positions < positions; r->positions++) fill_position(r, half, r->positions);
    return true;
}

braid_err rotation_reach(engine *e, uint32_t positions, braid_error *error) {
    for (int i = 0; i < 2; i++)
        if (!reach(&e->rotation[i], e->width / 2, positions))
            return braid_fail(error, BRAID_MEMORY, "no memory for a text of %u tokens", positions);
    return BRAID_OK;
}

static const engine_rotation *rotation_of(const engine *e, uint32_t layer) {
    if (!model_layer_rotated(&e->config, layer)) return NULL;
    return &e->rotation[model_layer_windowed(&e->config, layer) && e->rotation[1].rates ? 1 : 0];
}

void rotation_apply(const engine *e, uint32_t layer, uint32_t position, bool pairs, const float *from, float *to) {
    const engine_rotation *r = rotation_of(e, layer);
    size_t half = e->width / 2;
    const float *cosines = r ? r->tables + (size_t)position * 2 * half : NULL, *sines = r ? cosines + half : NULL;
    for (size_t i = 0; i < half; i++) {
        float a = pairs ? from[2 * i] : from[i], b = pairs ? from[2 * i + 1] : from[half + i];
        to[i] = r ? a * cosines[i] - b * sines[i] : a;
        to[half + i] = r ? b * cosines[i] + a * sines[i] : b;
    }
    if (e->width % 2) to[e->width - 1] = from[e->width - 1];
}
