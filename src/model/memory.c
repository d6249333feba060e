// The division of a stage's memory: the work area (one per stage) and the stash (one per
// microbatch).
#include "model/rope.h"
#include "model/stage_inner.h"
#include "tensor/sizes.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, LARGE_PAGE = 1 << 21 };

// Takes pieces from `base`; with base NULL it only computes the size.
typedef struct cutter {
    char *base;
    size_t used;
} cutter;

static size_t aligned(size_t bytes) { return size_up(bytes, ALIGNMENT); }

static void *cut_bytes(cutter *c, size_t bytes) {
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += aligned(bytes);
    return piece;
}

static float *cut_floats(cutter *c, size_t count) { return cut_bytes(c, count * sizeof(float)); }

static uint32_t *cut_numbers(cutter *c, size_t count) { return cut_bytes(c, count * sizeof(uint32_t)); }

// NULL unless `wanted`.
static float *cut_if(bool wanted, cutter *c, size_t count) { return wanted ? cut_floats(c, count) : NULL; }

static void cut_vectors(const stage *s, cutter *c, block_memory *m) {
    const model_config *config = &s->config;
    size_t dim = config->dim;
    bool centred = s->row->layer_norm, heads = model_has(config, ROLE_Q_NORM);
    m->d_norm1 = cut_floats(c, dim);
    m->d_norm2 = cut_floats(c, dim);
    m->mean1 = cut_if(centred, c, s->rows);
    m->mean2 = cut_if(centred, c, s->rows);
    m->d_norm1_bias = cut_if(centred, c, dim);
    m->d_norm2_bias = cut_if(centred, c, dim);
    m->d_post1 = cut_if(s->post_norms, c, dim);
    m->d_post2 = cut_if(s->post_norms, c, dim);
    m->d_q_norm = cut_if(heads, c, model_head_dim(config));
    m->d_k_norm = cut_if(heads, c, model_head_dim(config));
    m->d_qkv_bias = cut_if(model_has(config, ROLE_QKV_BIAS) || model_has(config, ROLE_Q_BIAS), c, s->qkv_dim);
    m->d_o_bias = cut_if(model_has(config, ROLE_O_BIAS), c, dim);
    m->d_up_bias = cut_if(model_has(config, ROLE_UP_BIAS), c, s->up_dim);
    m->d_down_bias = cut_if(model_has(config, ROLE_DOWN_BIAS), c, dim);
}

static void cut_mixture(const stage *s, cutter *c, block_memory *m) {
    if (!s->row->mixture) return;
    m->router = cut_floats(c, s->rows * s->config.experts);
    m->chosen = cut_numbers(c, s->mlp_rows);
    m->weights = cut_floats(c, s->mlp_rows);
    m->place = cut_numbers(c, s->mlp_rows);
    m->source = cut_numbers(c, s->mlp_rows);
    m->begin = cut_numbers(c, s->config.experts + 1);
    m->gathered = cut_floats(c, s->mlp_rows * s->config.dim);
    m->gathered_dy = cut_floats(c, s->mlp_rows * s->config.dim);
}

static block_memory cut_block(const stage *s, cutter *c) {
    block_memory m = {0};
    size_t dim = s->config.dim;
    m.x = cut_floats(c, s->rows * dim);
    m.normed1 = cut_floats(c, s->rows * dim);
    m.qkv = cut_floats(c, s->rows * s->qkv_dim);
    m.attention = cut_floats(c, s->rows * s->q_dim);
    m.middle = cut_floats(c, s->rows * dim);
    m.normed2 = cut_floats(c, s->rows * dim);
    m.up = cut_floats(c, s->mlp_rows * s->up_dim);
    m.act = cut_floats(c, s->mlp_rows * s->act_dim);
    m.post1 = cut_if(s->post_norms, c, s->rows * dim);
    m.post2 = cut_if(s->post_norms, c, s->rows * dim);
    m.inverse1 = cut_floats(c, s->rows);
    m.inverse2 = cut_floats(c, s->rows);
    m.post_inverse1 = cut_if(s->post_norms, c, s->rows);
    m.post_inverse2 = cut_if(s->post_norms, c, s->rows);
    m.softmax_maximum = cut_floats(c, s->rows * s->config.heads);
    m.softmax_inverse = cut_floats(c, s->rows * s->config.heads);
    tensor_attention attention = stage_attention(s, 0, NULL);
    size_t kept = tensor_attention_kept(&attention);
    m.softmax_kept = cut_if(kept > 0, c, kept);
    cut_vectors(s, c, &m);
    cut_mixture(s, c, &m);
    return m;
}

static stage_body cut_body(const stage *s, cutter *c) {
    stage_body body = {0};
    if (s->shape.ends) body.d_embedding = cut_floats(c, s->rows * s->config.dim);
    body.blocks = cut_floats(c, s->layout.blocks * s->block_floats);
    return body;
}

static stash_view cut_stash(const stage *s, cutter *c) {
    stash_view v = {0};
    size_t activation = s->rows * s->config.dim;
    v.header = cut_bytes(c, sizeof *v.header);
    if (s->shape.documents) v.documents = cut_numbers(c, s->rows);
    if (s->shape.ends) {
        v.tokens = cut_bytes(c, s->rows * sizeof *v.tokens);
        v.targets = cut_bytes(c, s->rows * sizeof *v.targets);
        v.head_input = cut_floats(c, activation);
        v.head_maximum = cut_floats(c, s->rows);
        v.head_inverse = cut_floats(c, s->rows);
        v.d_head = s->shape.recompute || s->shape.frozen ? NULL
                                                         : cut_floats(c, (size_t)s->config.vocab * s->config.dim);
        v.d_norm = cut_floats(c, s->config.dim);
        v.d_norm_bias = cut_if(s->row->layer_norm, c, s->config.dim);
    }
    if (!s->shape.recompute) {
        v.body = cut_body(s, c);
        return v;
    }
    if (!s->shape.ends) v.x = cut_floats(c, activation);
    v.dy = cut_floats(c, activation);
    v.body = s->body;
    return v;
}

static void cut_ends(stage *s, cutter *c) {
    const head_cut *h = &s->head;
    s->ends.logits = cut_floats(c, h->rows * s->config.vocab);
    s->ends.slopes = cut_if(s->config.logit_softcap > 0, c, h->rows * s->config.vocab);
    s->ends.tops = cut_floats(c, h->tiles * h->rows);
    s->ends.sums = cut_floats(c, h->tiles * h->rows);
    s->ends.targets = cut_floats(c, h->rows);
    s->ends.parts = cut_floats(c, h->groups * h->rows * s->config.dim);
    s->ends.losses = cut_bytes(c, s->rows * sizeof *s->ends.losses);
    s->ends.mean = cut_floats(c, s->rows);
    s->ends.scale = cut_floats(c, s->rows);
}

// The floats that packed weights of a block need, in forward or transposed order: of all matrices,
// or of the largest one if some are too large to be packed.
static size_t packed_one_way(const layout_block *b, bool forward) {
    const layout_linear *linears[] = {&b->qkv, &b->o, &b->up, &b->down};
    size_t sum = 0, most = 0;
    bool all = true;
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
        const layout_linear *l = linears[i];
        if (l->out == 0) continue;  // a mixture has none
        size_t floats = forward ? tensor_gemm_packed(l->out, l->in) : tensor_gemm_packed(l->in, l->out);
        all = all && floats > 0;
        sum += floats;
        if (floats > most) most = floats;
    }
    return all ? sum : most;
}

static size_t packed_floats(const stage *s) {
    if (s->layout.blocks == 0) return 0;
    size_t forward = packed_one_way(s->layout.block, true), backward = packed_one_way(s->layout.block, false);
    return forward > backward ? forward : backward;
}

static void cut_norms(stage *s, cutter *c) {
    size_t width = model_head_dim(&s->config), most = s->config.dim > width ? s->config.dim : width;
    s->norms.pieces = chain_norm_pieces(&s->shape);
    for (int i = 0; i < (s->post_norms ? NORM_PARTS : NORM_POST1); i++) {
        s->norms.parts[i][0] = cut_floats(c, s->norms.pieces * s->config.dim);
        s->norms.parts[i][1] = cut_if(s->row->layer_norm, c, s->norms.pieces * s->config.dim);
    }
    bool heads = model_has(&s->config, ROLE_Q_NORM);
    s->norms.head_parts[0] = cut_if(heads, c, s->shape.sequences * s->config.heads * width);
    s->norms.head_parts[1] = cut_if(heads, c, s->shape.sequences * s->config.kv_heads * width);
    for (int i = 0; i < NORM_SLOTS; i++) s->norms.weights[i] = cut_if(s->row->norm_plus_one, c, most);
}

static void cut_rotation(stage *s, cutter *c, int which) {
    size_t width = model_head_dim(&s->config);
    stage_rotation *r = &s->rotation[which];
    r->cosines = cut_floats(c, s->shape.tokens * (width / 2));
    r->sines = cut_floats(c, s->shape.tokens * (width / 2));
    r->rope = (tensor_rope){width, r->cosines, r->sines};
}

static void cut_work(stage *s, cutter *c) {
    size_t activation = s->rows * s->config.dim, threads = tensor_pool_threads(s->pool);
    tensor_attention attention = stage_attention(s, 0, NULL);
    for (size_t i = 0; i < 2; i++) s->grad[i] = cut_floats(c, activation);
    s->narrow = cut_floats(c, activation);
    s->d_attention = s->q_dim == s->config.dim ? s->narrow : cut_floats(c, s->rows * s->q_dim);
    s->wide = cut_floats(c, s->mlp_rows * s->act_dim);
    s->packed = cut_floats(c, packed_floats(s));
    cut_norms(s, c);
    s->attention_scratch = cut_floats(c, threads * tensor_attention_scratch(&attention));
    s->tile_floats = tiles_scratch_floats(s);
    s->tile_scratch = cut_floats(c, threads * s->tile_floats);
    s->mixture.out = cut_if(s->row->mixture, c, s->mlp_rows * s->config.dim);
    s->mixture.d_weights = cut_if(s->row->mixture, c, s->mlp_rows);
    if (!s->row->learned_positions) cut_rotation(s, c, 0);
    if (model_rope_has_local(&s->config)) cut_rotation(s, c, 1);
    if (s->shape.ends) cut_ends(s, c);
    if (s->shape.recompute) s->body = cut_body(s, c);
}

braid_err stage_reserve(stage *s, braid_error *error) {
    cutter c = {0};
    cut_block(s, &c);
    s->block_floats = c.used / sizeof(float);
    c = (cutter){0};
    cut_work(s, &c);
    s->work_bytes = c.used;
    c = (cutter){0};
    cut_stash(s, &c);
    s->stash_bytes = c.used;
    size_t alignment = s->work_bytes < LARGE_PAGE ? ALIGNMENT : LARGE_PAGE;
    s->work = aligned_alloc(alignment, size_up(s->work_bytes, alignment));
    if (!s->work)
        return braid_fail(error, BRAID_MEMORY,
                          "no memory for a stage's work area of %zu bytes: use smaller microbatches", s->work_bytes);
#ifdef MADV_HUGEPAGE
    if (s->work_bytes >= LARGE_PAGE) madvise(s->work, s->work_bytes, MADV_HUGEPAGE);
#endif
    c = (cutter){.base = s->work};
    cut_work(s, &c);
    return BRAID_OK;
}

uint32_t stage_blocks_from(const stage *s, uint32_t end) {
    return end > s->blocks_at_once ? end - s->blocks_at_once : 0;
}

size_t stage_sum_overhang(const stage *s, size_t element_bytes) {
    size_t sum = aligned(s->layout.parameters * element_bytes), block = s->block_floats * sizeof(float);
    if (s->shape.recompute) return sum;
    uint32_t blocks = s->layout.blocks;
    // The stash memory in front of the blocks serves the ends; their gradients are computed last.
    size_t over = sum > blocks * block ? sum - blocks * block : 0;
    for (uint32_t end = blocks, first; end > 0; end = first) {
        first = stage_blocks_from(s, end);
        size_t made = sum - s->layout.block[first].first * element_bytes, free_now = (blocks - end) * block;
        if (made > over + free_now) over = made - free_now;
    }
    return aligned(over);
}

stash_view stage_stash_view(const stage *s, void *stash) {
    cutter c = {.base = stash};
    return cut_stash(s, &c);
}

block_memory stage_block_memory(const stage *s, const stage_body *body, uint32_t block) {
    cutter c = {.base = (char *)(body->blocks + block * s->block_floats)};
    return cut_block(s, &c);
}
