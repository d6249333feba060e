// Sums of gradients, a segment at a time: their additions, and the division that makes results of them.
#include "train/sum.h"
#include "train/swap_inside.h"

#include <math.h>
#include <string.h>

static size_t segment_first(const swap_unit *u, uint32_t segment) { return (size_t)segment * u->segment; }

static size_t segment_end(const swap_unit *u, uint32_t segment) {
    size_t end = segment_first(u, segment) + u->segment;
    return end < u->elements ? end : u->elements;
}

static uint32_t block_at(const swap_table *t, size_t offset) { return blocks_at(t->blocks, t->block_count, offset); }

void *swap_sum_begin(swap *s, swap_unit *u, uint32_t segment, bool first, braid_error *error) {
    tier_block *b = &u->sums[segment];
    size_t elements = segment_end(u, segment) - segment_first(u, segment);
    b->offset = u->at[SWAP_RESULTS] + segment_first(u, segment) * s->sum_bytes;
    b->bytes = block_file_padded(elements * s->sum_bytes);
    void *sum = tier_take(s->tier, b, first, error);
    if (sum && first) memset(sum, 0, b->bytes);
    return sum;
}

swap_sink swap_sink_of(swap *s, swap_unit *u, uint32_t segment, void *sum) {
    return (swap_sink){s, u, segment_first(u, segment), segment_end(u, segment), sum};
}

static void add(const swap_sink *k, size_t offset, const float *gradient, size_t count) {
    const swap *s = k->s;
    const swap_table *t = swap_table_of(s, k->unit);
    if (!s->fixed) {
        sum_add_plain((float *)k->sum + (offset - k->first), gradient, count, false);
        return;
    }
    for (uint32_t b = block_at(t, offset); count > 0; b++) {
        size_t left = t->blocks[b].offset + t->blocks[b].count - offset, n = count < left ? count : left;
        size_t lost = sum_add_fixed((int64_t *)k->sum + (offset - k->first), gradient, n, false);
        if (lost > 0)
            atomic_fetch_add_explicit(&s->lost[swap_block_number(s, k->unit, b)], (uint32_t)lost, memory_order_relaxed);
        offset += n;
        gradient += n;
        count -= n;
    }
}

void swap_take(void *sink, size_t offset, const float *gradient, size_t count) {
    const swap_sink *k = sink;
    size_t first = offset > k->first ? offset : k->first, end = offset + count < k->end ? offset + count : k->end;
    if (first < end) add(k, first, gradient + (first - offset), end - first);
}

// --- division

typedef struct division {
    swap *s;
    const swap_unit *u;
    size_t first, end;  // elements of the segment
    void *sum;
    uint64_t tokens;
    uint32_t from;  // block of the pass
} division;

typedef struct range {
    size_t first, end;
} range;

// The elements of block `b` in the segment.
static range piece_of(const division *d, uint32_t b) {
    const block *of = &swap_table_of(d->s, d->u)->blocks[b];
    range r = {of->offset, of->offset + of->count};
    if (r.first < d->first) r.first = d->first;
    if (r.end > d->end) r.end = d->end;
    return r;
}

// A block that two segments share is collected in `carry`.
static const float *whole_block(const division *d, uint32_t b, range r, const float *results) {
    const block *of = &swap_table_of(d->s, d->u)->blocks[b];
    if (r.end - r.first == of->count) return results;
    memcpy(d->s->room.carry + (r.first - of->offset), results, (r.end - r.first) * sizeof *results);
    return r.end == of->offset + of->count ? d->s->room.carry : NULL;
}

static void divide_piece(void *context, size_t index) {
    const division *d = context;
    swap *s = d->s;
    uint32_t b = d->from + (uint32_t)index, number = swap_block_number(s, d->u, b);
    range r = piece_of(d, b);
    size_t count = r.end - r.first;
    float *results = (float *)d->sum + (r.first - d->first);
    bool overflow = atomic_load_explicit(&s->lost[number], memory_order_relaxed) > 0;
    sum_part part = {.plain = (const uint8_t *)results};
    if (s->fixed) part = (sum_part){.own = (const int64_t *)d->sum + (r.first - d->first), .overflow = overflow};
    sum_reduce(&part, 1, count, s->fixed, d->tokens, results);
    const float *whole = whole_block(d, b, r, results);
    // Elements that did not fit may have come after a shared block's first segment was divided.
    if (whole)
        s->block_norm2[number] = overflow ? (double)NAN : sum_norm2(whole, swap_table_of(s, d->u)->blocks[b].count);
}

// Results of 4 bytes overwrite sums of 8 bytes from the front. Each pass divides as many pieces as fit
// over sums that are already divided. The first piece is alone in its pass, because it may read `carry`,
// and the last one may write it.
static void divide(division *d) {
    uint32_t first = d->from, last = block_at(swap_table_of(d->s, d->u), d->end - 1);
    for (uint32_t end; d->from <= last; d->from = end) {
        size_t divided = 2 * (piece_of(d, d->from).first - d->first);
        end = d->from + 1;
        if (!d->s->fixed && d->from > first) end = last + 1;
        while (end <= last && piece_of(d, end).end - d->first <= divided) end++;
        tensor_pool_run(d->s->pool, end - d->from, divide_piece, d);
    }
}

void swap_sum_end(swap *s, swap_unit *u, uint32_t segment, bool last, uint64_t tokens) {
    tier_block *b = &u->sums[segment];
    if (last) {
        division d = {
            .s = s, .u = u, .first = segment_first(u, segment), .end = segment_end(u, segment), .tokens = tokens};
        d.sum = tier_memory_of(s->tier, b);
        d.from = block_at(swap_table_of(s, u), d.first);
        divide(&d);
        b->offset = u->at[SWAP_RESULTS] + d.first * sizeof(float);
        b->bytes = block_file_padded((d.end - d.first) * sizeof(float));
    }
    tier_give(s->tier, b, TIER_WRITE);
}
