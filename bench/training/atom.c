#include "bench/training/atom.h"

#include <stdlib.h>

enum { WORDS = 50257, FLOAT_BYTES = 4, MOST_PARTS = 72, MOST_VISITS = 1 << 22 };
#define EFFICIENCY 0.5  // share of the data sheet's rate that products reach

const atom_model atom_models[ATOM_MODELS] = {
    {"Small", 12, 768, 12}, {"Medium", 24, 1024, 16}, {"Large", 24, 1536, 16},  {"XL", 24, 2048, 24},
    {"2.7B", 32, 2560, 32}, {"6.7B", 32, 4096, 32},   {"13B/18", 18, 5120, 40}, {"175B/2", 2, 12288, 96}};
const atom_device atom_devices[ATOM_DEVICES] = {
    {"GTX 1080", 8.9e12, 8e9, 12.5e9}, {"GTX 1080 Ti", 11.3e12, 11e9, 12.5e9}, {"V100", 14.0e12, 32e9, 12.5e9}};
const char *const atom_policy_names[ATOM_POLICIES] = {"gpipe", "pipedream", "swap", "algorithm-1"};

// ---- the model's parts: the embedding, attention and feed-forward of each layer, the head

typedef struct parts {
    uint32_t count;
    double flops[MOST_PARTS], parameters[MOST_PARTS];  // flops: forward, of a mini-batch
    double activation, work;                           // bytes between parts; bytes of a layer's own activations
} parts;

static void take_parts(const atom_model *m, parts *p) {
    double d = m->dim, t = ATOM_TOKENS, words = WORDS;
    *p = (parts){.count = 2 * m->layers + 2, .activation = FLOAT_BYTES * t * d};
    p->work = FLOAT_BYTES * (16 * t * d + 2 * m->heads * t * t);
    p->parameters[0] = (words + t) * d;
    for (uint32_t i = 1; i <= 2 * m->layers; i += 2) {
        p->parameters[i] = 4 * d * d;
        p->flops[i] = t * (8 * d * d + 4 * t * d);
        p->parameters[i + 1] = 8 * d * d;
        p->flops[i + 1] = t * 16 * d * d;
    }
    p->parameters[p->count - 1] = words * d;
    p->flops[p->count - 1] = t * 2 * words * d;
}

uint64_t atom_parameters(const atom_model *m) {
    parts p;
    double sum = 0;
    take_parts(m, &p);
    for (uint32_t i = 0; i < p.count; i++) sum += p.parameters[i];
    return (uint64_t)sum;
}

// With recomputation a backward pass is three forward passes: every policy here keeps only the
// activations between its parts.
static double forward_s(const parts *p, const atom_device *d, uint32_t i) {
    return p->flops[i] / (d->flops * EFFICIENCY);
}

// ---- pipelines

typedef struct pipeline {
    double forward[ATOM_GPUS], backward[ATOM_GPUS], bytes[ATOM_GPUS], transfer;
} pipeline;

// Contiguous stages with the smallest largest time: filled up to a limit, which is bisected.
static bool fill(const parts *p, const atom_device *d, double limit, pipeline *out) {
    uint32_t stage = 0;
    for (int s = 0; s < ATOM_GPUS; s++) out->forward[s] = out->bytes[s] = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        double s = forward_s(p, d, i);
        if (out->forward[stage] + s > limit && out->forward[stage] > 0) stage++;
        if (stage == ATOM_GPUS || s > limit) return false;
        out->forward[stage] += s;
        out->bytes[stage] += 2 * FLOAT_BYTES * p->parameters[i];  // weights and gradients
    }
    return true;
}

static void cut(const parts *p, const atom_device *d, double network, pipeline *out) {
    double low = 0, high = 0;
    for (uint32_t i = 0; i < p->count; i++) high += forward_s(p, d, i);
    for (int n = 0; n < 60; n++) {
        double middle = (low + high) / 2;
        if (fill(p, d, middle, out))
            high = middle;
        else
            low = middle;
    }
    fill(p, d, high, out);
    for (int s = 0; s < ATOM_GPUS; s++) {
        out->backward[s] = 3 * out->forward[s];
        out->bytes[s] += p->work + ATOM_ROUNDS * p->activation;
    }
    out->transfer = p->activation / network;
}

// All mini-batches forward, then all backward; a link carries one tensor at a time.
static double gpipe_s(const pipeline *l) {
    double gpu[ATOM_GPUS] = {0}, link[ATOM_GPUS] = {0}, there[ATOM_ROUNDS] = {0}, end = 0;
    for (int s = 0; s < ATOM_GPUS; s++)
        for (int m = 0; m < ATOM_ROUNDS; m++) {
            double start = gpu[s] > there[m] ? gpu[s] : there[m];
            gpu[s] = start + l->forward[s];
            double leaves = link[s] > gpu[s] ? link[s] : gpu[s];
            link[s] = leaves + l->transfer;
            there[m] = s + 1 < ATOM_GPUS ? link[s] : gpu[s];
        }
    for (int s = 0; s < ATOM_GPUS; s++) link[s] = 0;
    for (int s = ATOM_GPUS; s-- > 0;)
        for (int m = 0; m < ATOM_ROUNDS; m++) {
            double start = gpu[s] > there[m] ? gpu[s] : there[m];
            gpu[s] = start + l->backward[s];
            double leaves = link[s] > gpu[s] ? link[s] : gpu[s];
            link[s] = leaves + l->transfer;
            there[m] = link[s];
            if (gpu[s] > end) end = gpu[s];
        }
    return end;
}

// One forward, one backward, without a flush: the slowest stage or link sets the rate.
static double pipedream_s(const pipeline *l) {
    double slowest = l->transfer;
    for (int s = 0; s < ATOM_GPUS; s++)
        if (l->forward[s] + l->backward[s] > slowest) slowest = l->forward[s] + l->backward[s];
    return ATOM_ROUNDS * slowest;
}

static atom_result pipeline_time(const parts *p, const atom_device *d, atom_policy policy, double network) {
    pipeline l;
    double compute = 0;
    atom_result r = {.fits = true};
    cut(p, d, network, &l);
    double time = policy == ATOM_GPIPE ? gpipe_s(&l) : pipedream_s(&l);
    for (int s = 0; s < ATOM_GPUS; s++) {
        compute += l.forward[s] + l.backward[s];
        r.fits = r.fits && l.bytes[s] <= d->memory_bytes;
    }
    r.seconds = ATOM_GPUS * time / ATOM_ROUNDS;
    r.utilisation = compute / r.seconds;
    return r;
}

// ---- swapping

static atom_result swap_time(const parts *p, const atom_device *d, bool published) {
    swap_item item[MOST_PARTS];
    swap_machine machine = {.memory = d->memory_bytes - p->work - 4 * p->activation, .duplex = true};
    swap_plan plan;
    braid_error error;
    uint64_t visited;
    for (uint32_t i = 0; i < p->count; i++) {
        double forward = ATOM_ROUNDS * forward_s(p, d, i), weights = FLOAT_BYTES * p->parameters[i],
               boundaries = ATOM_ROUNDS * p->activation;
        item[i] =
            (swap_item){.forward_s = forward, .backward_s = 3 * forward, .bytes = 2 * weights, .cut = p->activation};
        item[i].load_s = weights / d->bus_bytes_s;
        item[i].again_s = (weights + boundaries) / d->bus_bytes_s;
        item[i].store_s = weights / d->bus_bytes_s;
    }
    void *room = malloc(swap_plan_room(p->count));
    if (!room) return (atom_result){0};
    braid_err err = published ? swap_plan_published(item, p->count, &machine, MOST_VISITS, &visited, &plan, &error)
                              : swap_plan_best(item, p->count, &machine, room, &plan, &error);
    free(room);
    if (err || plan.seconds > 1e30) return (atom_result){0};
    return (atom_result){plan.seconds / ATOM_ROUNDS, plan.compute_s / plan.seconds, true};
}

atom_result atom_time(const atom_model *m, const atom_device *d, atom_policy policy, double network) {
    parts p;
    take_parts(m, &p);
    bool pipe = policy == ATOM_GPIPE || policy == ATOM_PIPEDREAM;
    return pipe ? pipeline_time(&p, d, policy, network) : swap_time(&p, d, policy == ATOM_SWAP_PUBLISHED);
}

// ---- a global batch

atom_total atom_global_batch(const atom_model *m, uint32_t servers, atom_policy policy, double network, double between,
                             uint32_t batch) {
    double rate = 0;
    for (uint32_t s = 0; s < servers; s++) {
        atom_result r = atom_time(m, &atom_devices[ATOM_DEVICES - 1 - s], policy, network);
        if (r.seconds > 0) rate += ATOM_GPUS / r.seconds;
    }
    // ring: each server sends and receives 2 (n - 1) / n of the gradients
    double bytes = FLOAT_BYTES * (double)atom_parameters(m),
           reduction = 2.0 * (servers - 1) / servers * bytes / between;
    return (atom_total){batch / rate + reduction, reduction};
}
