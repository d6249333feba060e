// The MLP of a block with a mixture of experts (Shazeer et al. 2017), without an auxiliary loss:
// each row is computed by the experts that the router selects, and their outputs are added with its
// weights. Positions are pairs of a row and one of its experts, sorted by expert and then by row,
// so that an expert's rows are contiguous. A thread takes some positions of one expert at a time.
// Each row adds its experts' outputs in the order of their numbers, so the bits do not depend on
// threads.
#include "model/stage_inner.h"
#include "tensor/sizes.h"

#include <string.h>

enum { POSITIONS_PER_TASK = 192, ROWS_PER_TASK = 32 };

typedef struct mixture_job {
    stage *s;
    const layout_block *b;
    const block_memory *m;
    const float *dy;
    float *y;
} mixture_job;

// --- routing

static tensor_router router_of(const stage *s) {
    return (tensor_router){s->config.experts, s->config.experts_used, s->config.normalised_experts};
}

static void route_rows(const void *context, size_t begin, size_t end) {
    const mixture_job *job = context;
    const block_memory *m = job->m;
    tensor_router r = router_of(job->s);
    tensor_route_rows(&r, end - begin, m->router + begin * r.experts, m->chosen + begin * r.used,
                      m->weights + begin * r.used);
}

// Sorts the pairs by expert.
static void sort_positions(const stage *s, const block_memory *m) {
    uint32_t experts = s->config.experts, next = 0;
    memset(m->begin, 0, (experts + 1) * sizeof *m->begin);
    for (size_t i = 0; i < s->mlp_rows; i++) m->begin[m->chosen[i]]++;
    for (uint32_t e = 0; e <= experts; e++) {
        uint32_t count = m->begin[e];
        m->begin[e] = next;
        next += count;
    }
    for (size_t i = 0; i < s->mlp_rows; i++) {
        m->place[i] = m->begin[m->chosen[i]]++;
        m->source[m->place[i]] = (uint32_t)i;
    }
    for (uint32_t e = experts; e > 0; e--) m->begin[e] = m->begin[e - 1];
    m->begin[0] = 0;
}

// --- tasks: positions [first, first + count) of one expert

typedef struct positions {
    uint32_t expert;
    size_t first, count;
} positions;

static size_t task_count(const stage *s, const block_memory *m) {
    size_t count = 0;
    for (uint32_t e = 0; e < s->config.experts; e++)
        count += size_pieces(m->begin[e + 1] - m->begin[e], POSITIONS_PER_TASK);
    return count;
}

static positions task_at(const block_memory *m, size_t index) {
    for (uint32_t e = 0;; e++) {
        size_t all = m->begin[e + 1] - m->begin[e], pieces = size_pieces(all, POSITIONS_PER_TASK);
        if (index >= pieces) {
            index -= pieces;
            continue;
        }
        size_t from = index * POSITIONS_PER_TASK;
        return (positions){e, m->begin[e] + from, size_least(POSITIONS_PER_TASK, all - from)};
    }
}

// to[positions, dim] = the rows of from[rows, dim].
static void gather(const mixture_job *job, const positions *p, const float *from, float *to) {
    size_t dim = job->s->config.dim, used = job->s->config.experts_used;
    for (size_t i = p->first; i < p->first + p->count; i++)
        memcpy(to + i * dim, from + job->m->source[i] / used * dim, dim * sizeof *to);
}

// to[positions, columns] = from[positions, depth] times a weight.
static void multiply(const stage *s, const positions *p, const float *from, size_t depth, tensor_matrix weight,
                     float *to, size_t columns) {
    tensor_gemm_tile(&(tensor_gemm){.m = p->count,
                                    .n = columns,
                                    .k = depth,
                                    .a = tensor_plain(from + p->first * depth, depth),
                                    .b = weight,
                                    .c = to + p->first * columns,
                                    .c_stride = columns,
                                    .fastest = s->shape.fastest});
}

static void forward_task(void *context, size_t index) {
    const mixture_job *job = context;
    const stage *s = job->s;
    const block_memory *m = job->m;
    positions p = task_at(m, index);
    layout_linear up = layout_expert(job->b, job->b->expert_up, p.expert),
                  down = layout_expert(job->b, job->b->expert_down, p.expert);
    gather(job, &p, m->normed2, m->gathered);
    multiply(s, &p, m->gathered, up.in, stage_weight(s, &up, true), m->up, up.out);
    size_t at = p.first * s->act_dim;
    stage_activate(s, m->up + p.first * s->up_dim, s->wide + at, m->act + at, p.count);
    multiply(s, &p, s->wide, down.in, stage_weight(s, &down, true), s->mixture.out, down.out);
}

static void combine_rows(const void *context, size_t begin, size_t end) {
    const mixture_job *job = context;
    const stage *s = job->s;
    const block_memory *m = job->m;
    size_t dim = s->config.dim, used = s->config.experts_used;
    for (size_t r = begin; r < end; r++) {
        float *y = job->y + r * dim;
        memcpy(y, m->middle + r * dim, dim * sizeof *y);
        for (size_t i = r * used; i < (r + 1) * used; i++)
            tensor_add_scaled(y, s->mixture.out + m->place[i] * dim, m->weights[i], dim);
    }
}

void mixture_forward(stage *s, uint32_t block, const block_memory *m, float *y) {
    const layout_block *b = &s->layout.block[block];
    tensor_norm norm2 = stage_norm(s, &b->norm2, NORM_2, m->mean2, m->inverse2);
    mixture_job job = {.s = s, .b = b, .m = m};
    job.y = y;
    tensor_norm_forward(s->pool, &norm2, m->middle, m->normed2);
    tensor_gemm_run(s->pool, &(tensor_gemm){.m = s->rows,
                                            .n = b->router.out,
                                            .k = b->router.in,
                                            .a = tensor_plain(m->normed2, b->router.in),
                                            .b = stage_weight(s, &b->router, true),
                                            .c = m->router,
                                            .c_stride = b->router.out,
                                            .fastest = s->shape.fastest});
    tensor_pool_ranges(s->pool, s->rows, ROWS_PER_TASK, route_rows, &job);
    sort_positions(s, m);
    tensor_pool_run(s->pool, task_count(s, m), forward_task, &job);
    tensor_pool_ranges(s->pool, s->rows, ROWS_PER_TASK, combine_rows, &job);
}

// --- gradient

// Scales the gradients of one position by its weight. The weight's own gradient is dy . down(act),
// which is act . (dy W): the output of down need not be kept.
static void weigh_position(const mixture_job *job, size_t position) {
    const stage *s = job->s;
    const block_memory *m = job->m;
    uint32_t pair = m->source[position];
    float weight = m->weights[pair], *d_up = m->up + position * s->up_dim,
          *dy = m->gathered_dy + position * s->config.dim;
    s->mixture.d_weights[pair] =
        tensor_dot(s->wide + position * s->act_dim, m->act + position * s->act_dim, s->act_dim);
    tensor_scale(d_up, weight, d_up, s->up_dim);
    tensor_scale(dy, weight, dy, s->config.dim);
}

static void gradient_task(void *context, size_t index) {
    const mixture_job *job = context;
    const stage *s = job->s;
    const block_memory *m = job->m;
    positions p = task_at(m, index);
    layout_linear up = layout_expert(job->b, job->b->expert_up, p.expert),
                  down = layout_expert(job->b, job->b->expert_down, p.expert);
    size_t at = p.first * s->act_dim;
    gather(job, &p, job->dy, m->gathered_dy);
    multiply(s, &p, m->gathered_dy, down.out, stage_weight(s, &down, false), s->wide, down.in);
    stage_activation_gradient(s, m->up + p.first * s->up_dim, m->act + at, s->wide + at, p.count);
    for (size_t i = p.first; i < p.first + p.count; i++) weigh_position(job, i);
    multiply(s, &p, m->up, up.out, stage_weight(s, &up, false), s->mixture.out, up.in);
}

static void route_gradient_rows(const void *context, size_t begin, size_t end) {
    const mixture_job *job = context;
    const block_memory *m = job->m;
    tensor_router r = router_of(job->s);
    size_t first = begin * r.used;
    tensor_route_gradient_rows(&r, end - begin, m->router + begin * r.experts, m->chosen + first, m->weights + first,
                               job->s->mixture.d_weights + first);
}

static void add_gradients(const void *context, size_t begin, size_t end) {
    const mixture_job *job = context;
    const stage *s = job->s;
    size_t dim = s->config.dim, used = s->config.experts_used;
    for (size_t i = begin * used; i < end * used; i++)
        tensor_add(s->narrow + i / used * dim, s->mixture.out + job->m->place[i] * dim, dim);
}

void mixture_input_gradient(stage *s, uint32_t block, const block_memory *m, const float *dy) {
    const layout_block *b = &s->layout.block[block];
    mixture_job job = {.s = s, .b = b, .m = m, .dy = dy};
    tensor_pool_run(s->pool, task_count(s, m), gradient_task, &job);
    tensor_pool_ranges(s->pool, s->rows, ROWS_PER_TASK, route_gradient_rows, &job);
    tensor_gemm_run(s->pool, &(tensor_gemm){.m = s->rows,
                                            .n = b->router.in,
                                            .k = b->router.out,
                                            .a = tensor_plain(m->router, b->router.out),
                                            .b = stage_weight(s, &b->router, false),
                                            .c = s->narrow,
                                            .c_stride = b->router.in,
                                            .fastest = s->shape.fastest});
    tensor_pool_ranges(s->pool, s->rows, ROWS_PER_TASK, add_gradients, &job);
}
