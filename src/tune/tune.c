#include "tune/tune.h"

#include "base/rng.h"
#include "base/sha256.h"
#include "format/json.h"
#include "train/optimizer.h"
#include "train/permutation.h"
#include "tune/claim.h"
#include "tune/targets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MICROBATCH_ROWS = 2048, PASSES = 3, MOST_WARMUP = 10, HELD_OUT_STREAM = 1, INIT_STREAM = 2 };

typedef struct tuning {
    const tune_config *config;
    tune_base *base;
    tune_state state;
    float *gradient;
    packing train, held;
    uint32_t *train_chosen, *held_chosen;
    uint32_t microbatch;  // sequences
    train_recipe recipe;
    char *settings;
    // of one iteration, [batch * sequence]
    int32_t *tokens, *targets;
    uint32_t *documents;
    tune_result *result;
    int lock;   // of the directory; -1: none
    bool drop;  // the iteration under way ends without a result
    braid_error *error;
} tuning;

// ---- data

static uint32_t held_of(const tune_config *c) {
    uint32_t all = c->examples->count, held = (uint32_t)(all * c->held_percent / 100);
    if (c->held_out) return 0;
    return held == 0 && c->held_percent > 0 && all > 1 ? 1 : held;
}

static bool is_alone(const tune_config *c) { return model_row_of(model_file_config(c->file)->arch)->learned_positions; }

// The examples in an order of the seed; the first ones are held out.
static braid_err choose(tuning *t) {
    const tune_config *c = t->config;
    const tune_examples *held = c->held_out ? c->held_out : c->examples;
    uint32_t all = c->examples->count, held_count = held_of(c);
    permutation order = permutation_of(all, rng_seed(c->seed, HELD_OUT_STREAM));
    t->train_chosen = calloc(all, sizeof *t->train_chosen);
    t->held_chosen = calloc(held->count, sizeof *t->held_chosen);
    if (!t->train_chosen || !t->held_chosen) return braid_fail(t->error, BRAID_MEMORY, "no memory for the examples");
    for (uint32_t i = 0; i < held_count; i++) t->held_chosen[i] = (uint32_t)permutation_at(&order, i);
    for (uint32_t i = held_count; i < all; i++) t->train_chosen[i - held_count] = (uint32_t)permutation_at(&order, i);
    for (uint32_t i = 0; c->held_out && i < held->count; i++) t->held_chosen[i] = i;
    t->train = (packing){c->examples, t->train_chosen, all - held_count, c->sequence, is_alone(c), c->seed};
    t->held = (packing){held, t->held_chosen, c->held_out ? held->count : held_count, c->sequence, is_alone(c), 0};
    if (t->train.count == 0)
        return braid_fail(t->error, BRAID_CONFIG, "all examples are held out; give more data or a lower --hold-out");
    return BRAID_OK;
}

// Sequences that are computed together: a divisor of the batch with few enough rows.
static uint32_t microbatch_of(const tune_config *c) {
    uint32_t m = c->batch;
    while (m > 1 && (c->batch % m || (uint64_t)m * c->sequence > MICROBATCH_ROWS)) m--;
    return m;
}

static packing_row sequence_at(const tuning *t, uint32_t i) {
    size_t at = (size_t)i * t->config->sequence;
    return (packing_row){t->tokens + at, t->targets + at, t->documents + at};
}

static tune_microbatch microbatch_at(const tuning *t, uint32_t first) {
    packing_row s = sequence_at(t, first);
    return (tune_microbatch){s.tokens, s.targets, s.documents};
}

// ---- settings

static void set_recipe(tuning *t) {
    const tune_config *c = t->config;
    uint64_t pass = packing_sequences(&t->train), iterations = c->iterations;
    if (iterations == 0) iterations = (PASSES * pass + c->batch - 1) / c->batch;
    uint64_t warmup = iterations / 10 < MOST_WARMUP ? iterations / 10 : MOST_WARMUP;
    t->recipe = (train_recipe){.iterations = iterations,
                               .warmup = warmup,
                               .learning_rate = c->learning_rate,
                               .min_learning_rate = c->learning_rate * 0.1f,
                               .beta1 = 0.9f,
                               .beta2 = 0.999f,
                               .eps = 1e-8f,
                               .clip = 1};
    t->result->of = iterations;
}

static void put_hash(json_out *o, const char *key, braid_hash hash) {
    char hex[2 * BRAID_ID_BYTES + 1];
    id_hex(hash.bytes, BRAID_ID_BYTES, hex);
    json_out_string(o, key, hex);
}

// The first row of each tensor: enough to tell two models apart.
static braid_hash model_hash(const model_file *f) {
    sha256 s;
    sha256_init(&s);
    for (uint32_t i = 0; i < model_file_count(f); i++) {
        const model_file_tensor *t = model_file_at(f, i);
        sha256_update(&s, t->name, strlen(t->name));
        sha256_update(&s, t->weights.data, weight_row_bytes(t->weights.type, t->weights.cols));
    }
    return sha256_final(&s);
}

static braid_hash start_hash(const peft_adapter *p) {
    sha256 s;
    sha256_init(&s);
    for (uint32_t i = 0; p && i < p->count; i++) {
        const peft_matrix *m = &p->matrix[i];
        sha256_update(&s, m->a, (size_t)m->rank * m->in * sizeof *m->a);
        sha256_update(&s, m->b, (size_t)m->rank * m->out * sizeof *m->b);
    }
    return sha256_final(&s);
}

static braid_err write_settings(tuning *t) {
    const tune_config *c = t->config;
    json_out o = {0};
    size_t length;
    json_out_open(&o, NULL, '{');
    put_hash(&o, "model", model_hash(c->file));
    put_hash(&o, "data", examples_hash(c->examples));
    if (c->held_out) put_hash(&o, "validation", examples_hash(c->held_out));
    if (!c->held_out) json_out_double(&o, "hold-out", c->held_percent);
    if (c->from) put_hash(&o, "from-adapter", start_hash(c->from));
    json_out_u64(&o, "rank", c->adapter.rank);
    json_out_float(&o, "alpha", c->adapter.alpha);
    json_out_bool(&o, "rslora", c->adapter.rank_stabilised);
    json_out_u64(&o, "targets", c->adapter.roles);
    json_out_u64(&o, "iterations", t->recipe.iterations);
    json_out_float(&o, "learning-rate", c->learning_rate);
    json_out_u64(&o, "sequence", c->sequence);
    json_out_u64(&o, "batch", c->batch);
    json_out_u64(&o, "validate-every", c->validate_every);
    json_out_u64(&o, "patience", c->patience);
    json_out_u64(&o, "seed", c->seed);
    json_out_close(&o, '}');
    t->settings = json_out_take(&o, &length);
    return t->settings ? BRAID_OK : braid_fail(t->error, BRAID_MEMORY, "no memory for tuning");
}

// ---- start

static braid_err copy_start(tuning *t) {
    const peft_adapter *from = t->config->from;
    uint32_t count = tune_base_matrices(t->base);
    if (from->count != count)
        return braid_fail(t->error, BRAID_CONFIG,
                          "the adapter of --from-adapter has %u matrices and not %u: braid goes on with adapters that "
                          "have the same modules in every layer",
                          from->count, count);
    for (uint32_t i = 0; i < count; i++) {
        peft_matrix m = tune_base_matrix(t->base, i, t->state.now);
        for (uint32_t k = 0; k < from->count; k++) {
            const peft_matrix *f = &from->matrix[k];
            if (strcmp(f->name, m.name) != 0) continue;
            memcpy(m.a, f->a, (size_t)m.rank * m.in * sizeof *m.a);
            memcpy(m.b, f->b, (size_t)m.rank * m.out * sizeof *m.b);
        }
    }
    return BRAID_OK;
}

static braid_err take_directory(tuning *t) {
    const char *path = t->config->directory;
    braid_err err = tune_claim(path, &t->lock, t->error);
    if (err) return err;
    if (!t->config->resume && tune_state_exists(path))
        return braid_fail(t->error, BRAID_STATE,
                          "%s has a run or an adapter already: --resume goes on with the run; else give another --out",
                          path);
    return BRAID_OK;
}

static braid_err begin_state(tuning *t) {
    const tune_config *c = t->config;
    bool there = false;
    braid_err err = tune_state_new(tune_base_parameters(t->base), &t->state, t->error);
    if (!err && c->resume) err = tune_state_load(&t->state, t->settings, c->directory, &there, t->error);
    if (there) t->result->saved = true;
    if (err || there) return err;
    if (c->from) return copy_start(t);
    tune_base_init(t->base, t->state.now, rng_seed(c->seed, INIT_STREAM));
    return BRAID_OK;
}

static braid_err reserve(tuning *t) {
    size_t rows = (size_t)t->config->batch * t->config->sequence;
    t->gradient = calloc(t->state.parameters, sizeof *t->gradient);
    t->tokens = calloc(rows, sizeof *t->tokens);
    t->targets = calloc(rows, sizeof *t->targets);
    t->documents = calloc(rows, sizeof *t->documents);
    return t->gradient && t->tokens && t->targets && t->documents
               ? BRAID_OK
               : braid_fail(t->error, BRAID_MEMORY, "no memory for a batch of %zu tokens", rows);
}

static braid_err open_base(tuning *t) {
    const tune_config *c = t->config;
    t->microbatch = microbatch_of(c);
    const tune_base_config config = {.file = c->file,
                                     .pool = c->pool,
                                     .adapter = c->adapter,
                                     .remote = c->remote,
                                     .sequences = t->microbatch,
                                     .tokens = c->sequence,
                                     .max_memory = c->max_memory};
    return tune_base_new(&config, &t->base, t->error);
}

// ---- events and requests

static void tell(const tuning *t, const solo_event *event) {
    if (t->config->tell) t->config->tell(t->config->context, event);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// True when the work under way is to end.
static bool look(tuning *t) {
    solo_wish wish = t->config->wish ? t->config->wish(t->config->context) : SOLO_GO_ON;
    if (wish == SOLO_FINISH || wish == SOLO_DROP || wish == SOLO_ABANDON) t->result->stopped = true;
    if (wish == SOLO_ABANDON) t->result->abandoned = true;
    t->drop = wish == SOLO_DROP || wish == SOLO_ABANDON;
    return t->drop;
}

static braid_err save(tuning *t) {
    braid_err err = tune_state_save(&t->state, t->settings, t->config->directory, t->error);
    solo_event e = {.kind = SOLO_CHECKPOINT, .iteration = t->state.iteration, .path = t->config->directory};
    if (err) return err;
    t->result->saved = true;
    tell(t, &e);
    return BRAID_OK;
}

// ---- held-out loss

// The next microbatch of the held-out examples; returns its targets.
static uint32_t fill_held(tuning *t, packing_place *at) {
    uint32_t counted = 0;
    for (uint32_t i = 0; i < t->microbatch; i++) {
        packing_row s = sequence_at(t, i);
        counted += packing_next_of_pass(&t->held, at, &s);
    }
    return counted;
}

// The mean loss of a token. Sets t->drop when the process is to end before.
static braid_err held_loss(tuning *t, double *mean, uint64_t *tokens) {
    packing_place at = {0};
    double loss = 0;
    braid_err err = BRAID_OK;
    tune_base_begin(t->base, t->state.now);
    while (at.epoch == 0 && !err && !look(t)) {
        double one = 0;
        *tokens += fill_held(t, &at);
        const tune_microbatch m = microbatch_at(t, 0);
        err = tune_base_run(t->base, &m, t->state.now, NULL, &one, t->error);
        loss += one;
    }
    tune_base_end(t->base);
    *mean = loss / (double)*tokens;
    return err && look(t) ? BRAID_OK : err;
}

static braid_err evaluate(tuning *t) {
    double loss = 0;
    uint64_t tokens = 0;
    tune_state *s = &t->state;
    if (t->held.count == 0 || s->evaluations == s->iteration + 1) return BRAID_OK;
    braid_err err = held_loss(t, &loss, &tokens);
    if (err || t->drop) return err;
    s->evaluations = s->iteration + 1;
    tell(t,
         &(solo_event){
             .kind = SOLO_EVAL, .iteration = s->iteration, .of = t->recipe.iterations, .loss = loss, .tokens = tokens});
    if (loss < s->best_loss) {
        s->best_loss = loss;
        s->best_iteration = s->iteration;
        s->without_gain = 0;
        memcpy(s->best, s->now, s->parameters * sizeof *s->best);
    } else {
        s->without_gain++;
    }
    return BRAID_OK;
}

// ---- iterations

static double apply(tuning *t, uint64_t targets, double *rate) {
    tune_state *s = &t->state;
    double norm2 = 0;
    float mean = targets > 0 ? 1.0f / (float)targets : 0;
    for (size_t i = 0; i < s->parameters; i++) {
        t->gradient[i] *= mean;
        norm2 += (double)t->gradient[i] * (double)t->gradient[i];
    }
    train_step step = train_decide(&t->recipe, s->iteration, norm2, targets);
    *rate = (double)step.learning_rate;
    if (!step.skip) adamw_apply(&t->recipe, &step, false, s->parameters, t->gradient, s->now, s->moment1, s->moment2);
    return sqrt(norm2);
}

// The losses and gradients of all microbatches. Sets t->drop when the process is to end before.
static braid_err run_microbatches(tuning *t, double *loss) {
    braid_err err = BRAID_OK;
    memset(t->gradient, 0, t->state.parameters * sizeof *t->gradient);
    tune_base_begin(t->base, t->state.now);
    for (uint32_t i = 0; i < t->config->batch && !err && !look(t); i += t->microbatch) {
        double one = 0;
        const tune_microbatch m = microbatch_at(t, i);
        err = tune_base_run(t->base, &m, t->state.now, t->gradient, &one, t->error);
        *loss += one;
    }
    tune_base_end(t->base);
    return err && look(t) ? BRAID_OK : err;
}

// Without effect when it is dropped.
static braid_err iterate(tuning *t, packing_place *at) {
    const tune_config *c = t->config;
    uint64_t targets = 0;
    double loss = 0, start = seconds_now();
    packing_place before = *at;
    for (uint32_t i = 0; i < c->batch; i++) {
        packing_row s = sequence_at(t, i);
        targets += packing_next(&t->train, at, &s);
    }
    braid_err err = run_microbatches(t, &loss);
    if (err || t->drop) {
        *at = before;
        return err;
    }
    solo_event e = {.kind = SOLO_ITERATION, .of = t->recipe.iterations, .tokens = (uint64_t)c->batch * c->sequence};
    e.norm = apply(t, targets, &e.learning_rate);
    e.loss = t->result->loss = loss / (double)(targets ? targets : 1);
    e.microbatches = c->batch / t->microbatch;
    e.tokens_per_second = (double)e.tokens / (seconds_now() - start);
    e.skip = !isfinite(e.norm);
    e.iteration = ++t->state.iteration;
    t->result->tokens += e.tokens;
    tell(t, &e);
    return BRAID_OK;
}

static braid_err run_iterations(tuning *t) {
    const tune_config *c = t->config;
    tune_state *s = &t->state;
    packing_place at = {0};
    braid_err err = BRAID_OK;
    for (uint64_t i = 0; i < s->iteration * c->batch; i++) packing_skip(&t->train, &at);
    while (!err && !t->drop) {
        bool last = s->iteration >= t->recipe.iterations;
        if (t->result->stopped) break;
        if (last || s->iteration % c->validate_every == 0) err = evaluate(t);
        t->result->early = !last && c->patience > 0 && s->without_gain >= c->patience;
        if (err || last || t->result->stopped || t->result->early) break;
        err = iterate(t, &at);
        if (err || t->drop) break;
        if (s->iteration % c->save_every == 0 && !t->result->stopped) err = save(t);
    }
    return err;
}

// ---- the adapter's files

static braid_err write_adapter(tuning *t) {
    const tune_config *c = t->config;
    const char *targets[MODEL_ROLES];
    static char kept[MODEL_ROLES][MODEL_TENSOR_NAME];
    peft_about about = {.base = c->base_name, .targets = targets};
    peft_adapter p = {.alpha = c->adapter.alpha,
                      .rank = c->adapter.rank,
                      .rank_stabilised = c->adapter.rank_stabilised,
                      .count = tune_base_matrices(t->base)};
    float *values = isfinite(t->state.best_loss) ? t->state.best : t->state.now;
    for (uint32_t i = 0; i < MODEL_ROLES; i++) {
        if ((c->adapter.roles >> i & 1) == 0) continue;
        snprintf(kept[i], sizeof kept[i], "%s", targets_name(model_file_config(c->file), (model_role)i));
        targets[about.target_count++] = kept[i];
    }
    p.matrix = calloc(p.count, sizeof *p.matrix);
    if (!p.matrix) return braid_fail(t->error, BRAID_MEMORY, "no memory to write the adapter");
    for (uint32_t i = 0; i < p.count; i++) p.matrix[i] = tune_base_matrix(t->base, i, values);
    braid_err err = peft_write(&p, &about, c->file, c->directory, t->error);
    free(p.matrix);
    t->result->weights = sha256_of(values, t->state.parameters * sizeof *values);
    return err;
}

static braid_err finish(tuning *t) {
    if (t->result->abandoned) return BRAID_OK;
    braid_err err = save(t);
    return err ? err : write_adapter(t);
}

static void close_tuning(tuning *t) {
    tune_state_free(&t->state);
    tune_base_free(t->base);
    free(t->gradient);
    free(t->train_chosen);
    free(t->held_chosen);
    free(t->tokens);
    free(t->targets);
    free(t->documents);
    free(t->settings);
}

braid_err tune_run(const tune_config *config, tune_result *out, braid_error *error) {
    tuning t = {.config = config, .result = out, .lock = -1, .error = error};
    *out = (tune_result){.loss = NAN, .best_loss = INFINITY};
    braid_err err = take_directory(&t);
    if (!err) err = choose(&t);
    if (!err) set_recipe(&t);
    if (!err) err = write_settings(&t);
    if (!err) err = open_base(&t);
    if (!err) err = begin_state(&t);
    if (!err) err = reserve(&t);
    if (!err) {
        out->begun = true;
        tell(&t, &(solo_event){.kind = SOLO_STARTED,
                               .iteration = t.state.iteration,
                               .of = t.recipe.iterations,
                               .parameters = t.state.parameters,
                               .microbatches = config->batch / t.microbatch,
                               .tokens = (uint64_t)config->batch * config->sequence});
        err = run_iterations(&t);
    }
    if (!err) err = finish(&t);
    out->iteration = t.state.iteration;
    out->best_iteration = t.state.best_iteration;
    out->best_loss = t.state.best_loss;
    close_tuning(&t);
    tune_release(config->directory, t.lock);
    return err;
}
