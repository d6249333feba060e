// The forward and backward passes of a group of microbatches, layer by layer.
#include "train/swap_inside.h"

#include <math.h>
#include <string.h>

typedef struct pass {
    swap *s;
    uint64_t iteration;
    uint32_t first, count;  // microbatches [first, first + count)
    bool held_out;
    bool begins, ends;  // the iteration's first or last group
    swap_stop stop;
    swap_sum *sum;
    braid_error *error;
} pass;

static bool stopped(const pass *p) {
    if (!p->sum->stopped && p->stop.asked) p->sum->stopped = p->stop.asked(p->stop.context);
    return p->sum->stopped;
}

static braid_err failed(const pass *p) { return p->error->code ? p->error->code : BRAID_IO; }

static tier_block *input_of(const swap *s, uint32_t layer, uint32_t i) {
    return &s->inputs[(size_t)layer * s->group + i];
}

// True if the activations of this layer are kept from its forward to its backward pass.
static bool keeps(const pass *p, uint32_t layer) { return p->s->kept && !p->held_out && layer + 1 < p->s->layers; }

static tier_block *kept_of(const swap *s, uint32_t layer, uint32_t i) { return &s->kept[(size_t)layer * s->group + i]; }

// The backward pass needs a layer's input again, unless the layer is the last one or its activations
// are kept.
static bool input_returns(const pass *p, uint32_t layer) {
    return !p->held_out && layer + 1 < p->s->layers && !keeps(p, layer);
}

static braid_err draw(const pass *p) {
    swap *s = p->s;
    const run_config *run = s->run;
    for (uint32_t i = 0; i < p->count; i++) {
        int32_t *tokens = s->drawn.tokens + i * s->rows, *targets = s->drawn.targets + i * s->rows;
        uint32_t *documents = run->documents ? s->drawn.documents + i * s->rows : NULL;
        bool good = p->held_out ? train_data_held_out(s->config.data, run->seed, p->first + i, run->sequences,
                                                      run->tokens, tokens, targets, documents)
                                : train_data_sample(s->config.data, run->seed, p->iteration, p->first + i,
                                                    run->sequences, run->tokens, tokens, targets, documents);
        if (good) continue;
        train_data_why(s->config.data, p->error);
        return BRAID_IO;
    }
    return BRAID_OK;
}

static braid_err load_ends(const pass *p) {
    swap *s = p->s;
    const swap_unit *u = swap_ends(s);
    if (s->ends_loaded && !s->options.naive) return BRAID_OK;
    store_transfer t = {0};
    store_io_start(s->io, &t, false, u->at[SWAP_WEIGHTS], s->ends_weights,
                   (size_t)block_file_padded(u->elements * sizeof(float)));
    braid_err err = store_io_wait(s->io, &t, p->error);
    s->ends_loaded = !err;
    stage_bind(s->ends, s->ends_weights);
    return err;
}

static braid_err embed(const pass *p) {
    swap *s = p->s;
    braid_err err = load_ends(p);
    for (uint32_t i = 0; i < p->count && !err && !stopped(p); i++) {
        void *stash = tier_take(s->tier, &s->stashes[i], true, p->error);
        float *y = stash ? tier_take(s->tier, input_of(s, 0, i), true, p->error) : NULL;
        if (!y) return failed(p);
        stage_forward(s->ends, stash, s->drawn.tokens + i * s->rows, NULL, y);
        tier_give(s->tier, &s->stashes[i], TIER_DIRTY);
        tier_give(s->tier, input_of(s, 0, i), input_returns(p, 0) ? TIER_WRITE : TIER_DIRTY);
        err = swap_pause(s, p->error);
    }
    return err;
}

// Begins the use of a layer. `next` is read meanwhile.
static float *open_layer(const pass *p, uint32_t layer, uint32_t next) {
    swap *s = p->s;
    float *weights = tier_take(s->tier, &s->unit[layer].weights, false, p->error);
    if (!weights) return NULL;
    if (next < s->layers && !s->options.naive) tier_prefetch(s->tier, &s->unit[next].weights);
    stage_move(s->layer, layer);
    stage_bind(s->layer, weights);
    return weights;
}

// Memory for the activations of a layer and one microbatch; `fresh`: with any content.
static void *open_stash(const pass *p, uint32_t layer, uint32_t i, bool fresh) {
    swap *s = p->s;
    return s->kept ? tier_take(s->tier, kept_of(s, layer, i), fresh, p->error) : s->room.stash;
}

static void close_stash(const pass *p, uint32_t layer, uint32_t i, tier_end end) {
    if (p->s->kept) tier_give(p->s->tier, kept_of(p->s, layer, i), end);
}

typedef tier_block *(*needed_fn)(const pass *p, uint32_t layer, uint32_t i);

static tier_block *needed_forward(const pass *p, uint32_t layer, uint32_t i) { return input_of(p->s, layer, i); }

static tier_block *needed_backward(const pass *p, uint32_t layer, uint32_t i) {
    return keeps(p, layer) ? kept_of(p->s, layer, i) : input_of(p->s, layer, i);
}

// Reads what the next microbatches need; those behind the last are of the layer `next`.
static void read_ahead(const pass *p, needed_fn needed, uint32_t layer, uint32_t next, uint32_t i) {
    swap *s = p->s;
    for (uint32_t k = i + 1; k <= i + SWAP_AHEAD && !s->options.naive; k++) {
        if (k < p->count)
            tier_prefetch(s->tier, needed(p, layer, k));
        else if (next < s->layers && k - p->count < p->count)
            tier_prefetch(s->tier, needed(p, next, k - p->count));
    }
}

static void forward_one(const pass *p, uint32_t layer, uint32_t i, void *stash, const float *x, float *y) {
    swap *s = p->s;
    if (s->run->documents) stage_set_documents(s->layer, stash, s->drawn.documents + i * s->rows);
    stage_forward(s->layer, stash, NULL, x, y);
    if (layer + 1 == s->layers) tensor_codec_round(s->pool, s->links.forward, y, s->activation);
}

static tier_end end_of_output(const pass *p, uint32_t layer) {
    return input_returns(p, layer + 1) ? TIER_WRITE : TIER_DIRTY;
}

// With a buffer for each of them, activations need not be written.
static tier_end end_of_stash(const pass *p, uint32_t layer) {
    const swap *s = p->s;
    if (!keeps(p, layer)) return TIER_DROP;
    return s->shelf[SHELF_STASHES].buffers >= s->layers * s->group ? TIER_DIRTY : TIER_WRITE;
}

static braid_err forward_of(const pass *p, uint32_t layer, uint32_t i) {
    swap *s = p->s;
    const float *x = tier_take(s->tier, input_of(s, layer, i), false, p->error);
    float *y = x ? tier_take(s->tier, input_of(s, layer + 1, i), true, p->error) : NULL;
    void *stash = y ? open_stash(p, layer, i, true) : NULL;
    if (!stash) return failed(p);
    read_ahead(p, needed_forward, layer, layer + 1, i);
    forward_one(p, layer, i, stash, x, y);
    close_stash(p, layer, i, end_of_stash(p, layer));
    tier_give(s->tier, input_of(s, layer, i), input_returns(p, layer) ? TIER_KEEP : TIER_DROP);
    tier_give(s->tier, input_of(s, layer + 1, i), end_of_output(p, layer));
    return swap_pause(s, p->error);
}

static braid_err forward(const pass *p, uint32_t layer) {
    swap *s = p->s;
    braid_err err = BRAID_OK;
    if (!open_layer(p, layer, layer + 1)) return failed(p);
    for (uint32_t i = 0; i < p->count && !err && !stopped(p); i++) err = forward_of(p, layer, i);
    tier_give(s->tier, &s->unit[layer].weights, s->options.naive ? TIER_DROP : TIER_KEEP);
    return err;
}

// A microbatch without a finite loss is excluded from the sum.
static void count(const pass *p, uint32_t i, double loss, uint32_t tokens, const float *dx) {
    swap *s = p->s;
    s->drawn.counted[i] = p->held_out || (isfinite(loss) && blocks_finite(dx, s->activation));
    if (!s->drawn.counted[i]) return;
    p->sum->loss += loss;
    p->sum->tokens += tokens;
    p->sum->counted++;
}

// The loss of microbatch `i` and its gradient, from the output `x` of the last layer.
static braid_err loss_one(const pass *p, uint32_t i, const float *x) {
    swap *s = p->s;
    uint32_t tokens = 0;
    void *stash = tier_take(s->tier, &s->stashes[i], false, p->error);
    float *dx = stash && !p->held_out ? tier_take(s->tier, &s->gradients[i], true, p->error) : NULL;
    if (!stash || (!dx && !p->held_out)) return failed(p);
    double value = stage_loss(s->ends, stash, x, s->drawn.targets + i * s->rows, dx, &tokens);
    count(p, i, value, tokens, dx);
    if (dx) tensor_codec_round(s->pool, s->links.backward, dx, s->activation);
    tier_give(s->tier, &s->stashes[i], p->held_out ? TIER_DROP : TIER_DIRTY);
    if (dx) tier_give(s->tier, &s->gradients[i], TIER_DIRTY);
    return BRAID_OK;
}

// The gradients of a layer, after its forward pass of the same microbatch.
static braid_err descend_one(const pass *p, uint32_t i, void *stash, const stage_sink *sink) {
    swap *s = p->s;
    float *dy = tier_take(s->tier, &s->gradients[i], false, p->error);
    if (!dy) return failed(p);
    stage_gradients(s->layer, stash, dy, s->room.gradient, sink);
    memcpy(dy, s->room.gradient, s->activation * sizeof *dy);
    tier_give(s->tier, &s->gradients[i], TIER_DIRTY);
    return BRAID_OK;
}

// Repeats a layer's forward pass. In the last layer the loss follows, so that the pass is the first
// one.
static braid_err forward_again(const pass *p, uint32_t layer, uint32_t i, void *stash) {
    swap *s = p->s;
    const float *x = tier_take(s->tier, input_of(s, layer, i), false, p->error);
    if (!x) return failed(p);
    forward_one(p, layer, i, stash, x, s->room.output);
    tier_give(s->tier, input_of(s, layer, i), TIER_DROP);
    return layer + 1 == s->layers ? loss_one(p, i, s->room.output) : BRAID_OK;
}

static braid_err backward_one(const pass *p, uint32_t layer, uint32_t i, const stage_sink *sink) {
    bool kept = keeps(p, layer);
    void *stash = open_stash(p, layer, i, !kept);
    if (!stash) return failed(p);
    read_ahead(p, needed_backward, layer, layer - 1, i);
    braid_err err = kept ? BRAID_OK : forward_again(p, layer, i, stash);
    if (!err && p->s->drawn.counted[i]) err = descend_one(p, i, stash, sink);
    close_stash(p, layer, i, TIER_DROP);
    return err ? err : swap_pause(p->s, p->error);
}

static bool wanted(const pass *p, uint32_t layer, uint32_t i) {
    return layer + 1 == p->s->layers || p->s->drawn.counted[i];
}

static braid_err backward(const pass *p, uint32_t layer) {
    swap *s = p->s;
    swap_unit *u = &s->unit[layer];
    braid_err err = BRAID_OK;
    void *sum = open_layer(p, layer, layer - 1) ? swap_sum_begin(s, u, 0, p->begins, p->error) : NULL;
    if (!sum) return failed(p);
    swap_sink k = swap_sink_of(s, u, 0, sum);
    const stage_sink sink = {.take = swap_take, .context = &k};
    for (uint32_t i = 0; i < p->count && !err && !stopped(p); i++)
        if (wanted(p, layer, i)) err = backward_one(p, layer, i, &sink);
    swap_sum_end(s, u, 0, !err && p->ends && !p->sum->stopped, p->sum->tokens);
    tier_give(s->tier, &u->weights, s->options.naive ? TIER_DROP : TIER_KEEP);
    return err ? err : swap_pause(s, p->error);
}

static braid_err ends_gradients(const pass *p, uint32_t segment) {
    swap *s = p->s;
    swap_unit *u = swap_ends(s);
    void *sum = swap_sum_begin(s, u, segment, p->begins, p->error);
    if (!sum) return failed(p);
    swap_sink k = swap_sink_of(s, u, segment, sum);
    const stage_sink sink = {.take = swap_take, .context = &k};
    for (uint32_t i = 0; i < p->count && !stopped(p); i++) {
        if (!s->drawn.counted[i]) continue;
        void *stash = tier_take(s->tier, &s->stashes[i], false, p->error);
        const float *dy = stash ? tier_take(s->tier, &s->gradients[i], false, p->error) : NULL;
        if (!dy) return failed(p);
        stage_ends_gradients(s->ends, stash, dy, k.first, k.end, &sink);
        tier_give(s->tier, &s->stashes[i], TIER_KEEP);
        tier_give(s->tier, &s->gradients[i], TIER_KEEP);
    }
    swap_sum_end(s, u, segment, p->ends && !p->sum->stopped, p->sum->tokens);
    return swap_pause(s, p->error);
}

// The layers before `end`.
static braid_err ascend(const pass *p, uint32_t end) {
    braid_err err = draw(p);
    if (!err) err = embed(p);
    for (uint32_t layer = 0; layer < end && !err && !p->sum->stopped; layer++) err = forward(p, layer);
    return err;
}

static braid_err losses(const pass *p) {
    swap *s = p->s;
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < p->count && !err && !stopped(p); i++) {
        const float *x = tier_take(s->tier, input_of(s, s->layers, i), false, p->error);
        if (!x) return failed(p);
        err = loss_one(p, i, x);
        tier_give(s->tier, input_of(s, s->layers, i), TIER_DROP);
    }
    return err;
}

// Sums that a stop left unfinished, and stashes, are forgotten.
static void clean_up(const pass *p) {
    swap *s = p->s;
    for (size_t i = 0; i < (size_t)(s->layers + 1) * s->group; i++) tier_discard(s->tier, &s->inputs[i]);
    for (size_t i = 0; s->kept && i < (size_t)s->layers * s->group; i++) tier_discard(s->tier, &s->kept[i]);
    for (uint32_t i = 0; i < s->group; i++) {
        tier_discard(s->tier, &s->gradients[i]);
        tier_discard(s->tier, &s->stashes[i]);
    }
}

static braid_err both_passes(const pass *p) {
    swap *s = p->s;
    braid_err err = ascend(p, s->layers - 1);
    if (!err && !p->sum->stopped) err = load_ends(p);
    for (uint32_t layer = s->layers; layer-- > 0 && !err && !p->sum->stopped;) err = backward(p, layer);
    for (uint32_t i = 0; i < swap_ends(s)->segments && !err && !p->sum->stopped; i++) err = ends_gradients(p, i);
    if (!err) clean_up(p);
    return err;
}

// Adds the tensors in canonical order, as a swarm's leader does.
static double squared_norm(const swap *s) {
    const split *all = s->config.split;
    double total = 0;
    for (uint32_t b = 0; b < all->block_count;) {
        uint32_t tensor = all->blocks[b].tensor;
        double sum = 0;
        for (; b < all->block_count && all->blocks[b].tensor == tensor; b++) sum += s->block_norm2[b];
        total += sum;
    }
    return total;
}

braid_err swap_gradients(swap *s, uint64_t iteration, swap_stop stop, swap_sum *sum, double *norm2,
                         braid_error *error) {
    braid_error none = {0};
    pass p = {.s = s, .iteration = iteration, .stop = stop, .sum = sum, .error = error ? error : &none};
    braid_err err = BRAID_OK;
    *sum = (swap_sum){0};
    for (uint32_t b = 0; b < s->config.split->block_count; b++)
        atomic_store_explicit(&s->lost[b], 0, memory_order_relaxed);
    for (uint32_t m = 0; m < s->run->microbatches && !err && !sum->stopped; m += p.count) {
        p.first = m;
        p.count = s->run->microbatches - m < s->group ? s->run->microbatches - m : s->group;
        p.begins = m == 0;
        p.ends = m + p.count == s->run->microbatches;
        err = both_passes(&p);
    }
    *norm2 = !err && sum->tokens > 0 ? squared_norm(s) : (double)NAN;
    return err;
}

braid_err swap_held_out(swap *s, uint64_t iteration, uint32_t count, swap_stop stop, swap_sum *sum,
                        braid_error *error) {
    braid_error none = {0};
    pass p = {
        .s = s, .iteration = iteration, .held_out = true, .stop = stop, .sum = sum, .error = error ? error : &none};
    braid_err err = BRAID_OK;
    *sum = (swap_sum){0};
    for (uint32_t m = 0; m < count && !err && !sum->stopped; m += p.count) {
        p.first = m;
        p.count = count - m < s->group ? count - m : s->group;
        err = ascend(&p, s->layers);
        if (!err && !sum->stopped) err = losses(&p);
        if (!err) clean_up(&p);
    }
    return err;
}
