#include "model/rope.h"

#include "tensor/elementary.h"
#include "tensor/kernels.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

bool model_rope_has_local(const model_config *c) { return c->window > 0 && c->local_rope_theta > 0; }

bool model_rope_is_local(const model_config *c, uint32_t layer) {
    return model_rope_has_local(c) && model_layer_windowed(c, layer);
}

// Slow pairs turn `factor` times slower, fast ones as before, those in between by a mixture.
static double llama3_rate(const model_rope *r, double rate) {
    double turns = r->original_context * rate / (2 * pi);  // of the pair within the original context
    double low = (double)r->low_freq_factor, high = (double)r->high_freq_factor, factor = (double)r->factor;
    if (turns < low) return rate / factor;
    if (turns > high) return rate;
    double smooth = (turns - low) / (high - low);
    return (1 - smooth) * rate / factor + smooth * rate;
}

// The pair, as a real number, that turns so many times within the original context.
static double yarn_pair(const model_config *c, double turns) {
    double context = c->rope.original_context;
    return model_head_dim(c) * elementary_log(context / (turns * 2 * pi)) / (2 * elementary_log((double)c->rope_theta));
}

static double yarn_rate(const model_config *c, size_t pair, double rate) {
    const model_rope *r = &c->rope;
    double low = floor(yarn_pair(c, r->beta_fast > 0 ? (double)r->beta_fast : 32)),
           high = ceil(yarn_pair(c, r->beta_slow > 0 ? (double)r->beta_slow : 1));
    low = fmax(low, 0);
    high = fmin(high, model_head_dim(c) - 1.0);
    if (!(low < high || low > high)) high += 0.001;
    double slow = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return rate / (double)r->factor * slow + rate * (1 - slow);
}

static double scaled_rate(const model_config *c, size_t pair, double rate) {
    switch (c->rope.kind) {
    case MODEL_ROPE_LINEAR: return rate / (double)c->rope.factor;
    case MODEL_ROPE_LLAMA3: return llama3_rate(&c->rope, rate);
    case MODEL_ROPE_YARN: return yarn_rate(c, pair, rate);
    default: return rate;
    }
}

static double table_scale(const model_rope *r) {
    if (r->kind != MODEL_ROPE_YARN) return 1;
    return r->attention_factor > 0 ? (double)r->attention_factor : 0.1 * elementary_log((double)r->factor) + 1;
}

double model_rope_rate(const model_config *c, bool local, size_t pair) {
    double rate = tensor_rope_rate(pair, model_head_dim(c), local ? c->local_rope_theta : c->rope_theta);
    return local ? rate : scaled_rate(c, pair, rate);
}

double model_rope_scale(const model_config *c, bool local) { return local ? 1 : table_scale(&c->rope); }

void model_rope_tables(const model_config *c, bool local, size_t tokens, float *cosines, float *sines) {
    size_t half = model_head_dim(c) / 2;
    double scale = model_rope_scale(c, local);
    for (size_t i = 0; i < half; i++)
        tensor_rope_table(tokens, half, i, model_rope_rate(c, local, i), scale, cosines, sines);
}
