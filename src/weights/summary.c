#include "weights/summary.h"

#include "weights/inside.h"

static uint64_t bytes_of(const model_file_tensor *t) {
    return weight_bytes(t->weights.type, t->weights.rows, t->weights.cols);
}

static uint64_t cache_of_block(const model_config *c) { return 2ull * model_head_dim(c) * c->kv_heads; }

void summary_of(const model_file *f, summary *out) {
    *out = (summary){
        .gguf = !f->directory, .files = f->shards, .cache_values = cache_of_block(&f->config) * f->config.layers};
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
        const model_tensor *e = &f->expected.tensor[k];
        bool in_block = e->role >= ROLE_NORM1 && e->role <= ROLE_POST2;
        bool held = in_block ? e->layer >= begin && e->layer < end : i == 0;
        if (held) out->bytes += bytes_of(&f->tensor[k]);
    }
}
