#include "model/config.h"

typedef struct bound {
    const char *name;
    uint32_t value, most;
} bound;

static braid_err check_ranges(const model_config *c, braid_error *error) {
    const bound bounds[] = {
        {"dim", c->dim, MODEL_MAX_DIM},
        {"layers", c->layers, MODEL_MAX_LAYERS},
        {"heads", c->heads, c->dim},
        {"kv_heads", c->kv_heads, c->heads},
        {"ffn_dim", c->ffn_dim, MODEL_MAX_FFN_DIM},
        {"vocab", c->vocab, MODEL_MAX_VOCAB},
        {"context", c->context, MODEL_MAX_CONTEXT},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const bound *b = &bounds[i];
        if (b->value < 1 || b->value > b->most)
            return braid_fail(error, BRAID_CONFIG, "model: %s is %u, it must be between 1 and %u", b->name, b->value,
                              b->most);
    }
    return BRAID_OK;
}

static braid_err check_llama(const model_config *c, braid_error *error) {
    if (c->dim / c->heads % 2 != 0)
        return braid_fail(error, BRAID_CONFIG,
                          "model: heads of width %u (dim %u / heads %u), rotary positions need an even width",
                          c->dim / c->heads, c->dim, c->heads);
    if (c->heads % c->kv_heads != 0)
        return braid_fail(error, BRAID_CONFIG, "model: heads (%u) must be a multiple of kv_heads (%u)", c->heads,
                          c->kv_heads);
    if (!(c->rope_theta >= 1.0f && c->rope_theta <= 1e9f))
        return braid_fail(error, BRAID_CONFIG, "model: rope_theta is %g, it must be between 1 and 1e9",
                          (double)c->rope_theta);
    return BRAID_OK;
}

braid_err model_config_check(const model_config *config, braid_error *error) {
    if (config->arch != MODEL_LLAMA && config->arch != MODEL_GPT)
        return braid_fail(error, BRAID_CONFIG, "model: the architecture must be llama or gpt");
    braid_err err = check_ranges(config, error);
    if (err) return err;
    if (config->dim % config->heads != 0)
        return braid_fail(error, BRAID_CONFIG, "model: dim (%u) must be a multiple of heads (%u)", config->dim,
                          config->heads);
    if (!(config->norm_eps > 0.0f && config->norm_eps < 1.0f))
        return braid_fail(error, BRAID_CONFIG, "model: norm_eps is %g, it must be above 0 and below 1",
                          (double)config->norm_eps);
    if (config->arch == MODEL_LLAMA) return check_llama(config, error);
    if (config->kv_heads != config->heads)
        return braid_fail(error, BRAID_CONFIG, "model: a gpt has kv_heads equal to heads (%u), not %u", config->heads,
                          config->kv_heads);
    return BRAID_OK;
}
