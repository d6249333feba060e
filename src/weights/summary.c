#include "weights/summary.h"

#include "weights/inside.h"

#include <stdlib.h>
#include <string.h>

uint32_t summary_block(const char *name) {
    static const char *const prefixes[] = {"model.layers.", "transformer.h."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return (uint32_t)strtoul(name + strlen(prefixes[i]), NULL, 10);
    return UINT32_MAX;
}

static uint64_t bytes_of(const model_file_tensor *t) {
    return weight_bytes(t->weights.type, t->weights.rows, t->weights.cols);
}

static uint64_t cache_of_block(const model_config *c) { return 2ull * model_head_dim(c) * c->kv_heads; }

void summary_of(const model_file *f, summary *out) {
    *out = (summary){.gguf = !f->directory, .files = f->shards, .cache_values = cache_of_block(&f->config) * f->config.layers};
    for (uint32_t i = 0; i < f->shards; i++) out->file_bytes += f->map[i].bytes;
    for (uint32_t i = 0; i < f->count; i++) {
        const model_file_tensor *t = &f->tensor[i];
        uint64_t values = (uint64_t)t->weights.rows * t->weights.cols, bytes = bytes_of(t);
        summary_type *type = &out->type[t->weights.type];
        type->tensors++;
        type->values += values;
        type->bytes += bytes;
        out->values += values;
        out->bytes += bytes;
    }
}

void summary_of_peer(const model_file *f, uint32_t peers, uint32_t i, summary_peer *out) {
    uint32_t each = f->config.layers / peers, more = f->config.layers % peers;
    uint32_t begin = i * each + (i < more ? i : more), end = begin + each + (i < more);
    *out = (summary_peer){.begin = begin, .end = end, .cache_values = cache_of_block(&f->config) * (end - begin)};
    for (uint32_t k = 0; k < f->count; k++) {
        uint32_t block = summary_block(f->tensor[k].name);
        bool held = block == UINT32_MAX ? i == 0 : block >= begin && block < end;
        if (held) out->bytes += bytes_of(&f->tensor[k]);
    }
}
