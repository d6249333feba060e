// Rotary positions. The tables are extended as texts grow, because those of a whole context would take longer
// than a short prompt. Their values are those of model_rope_tables.
#include "infer/inside.h"

#include "model/rope.h"
#include "tensor/elementary.h"

#include <stdlib.h>

enum { LEAST_POSITIONS = 256 };

static bool fill_rates(const engine *e, bool local, engine_rotation *to) {
    to->rates = malloc(e->width / 2 * sizeof *to->rates);
    if (!to->rates) return false;
    for (size_t i = 0; i < e->width / 2; i++) to->rates[i] = model_rope_rate(&e->config, local, i);
    to->scale = model_rope_scale(&e->config, local);
    return true;
}

braid_err rotation_new(engine *e, braid_error *error) {
    if (e->row->learned_positions) return BRAID_OK;
    bool good = fill_rates(e, false, &e->rotation[0]);
    if (good && model_rope_has_local(&e->config)) good = fill_rates(e, true, &e->rotation[1]);
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
        at[i] = (float)(cosine * r->scale);
        at[half + i] = (float)(sine * r->scale);
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
    return &e->rotation[model_rope_is_local(&e->config, layer) ? 1 : 0];
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
