#include "plan/swap.h"

#include <string.h>

#define NEVER __builtin_inf()

// Sums of the items before index i, so that a sub-model's figures are differences.
typedef struct sums {
    double forward[SWAP_MAX_ITEMS + 1], backward[SWAP_MAX_ITEMS + 1], load[SWAP_MAX_ITEMS + 1];
    double again[SWAP_MAX_ITEMS + 1], store[SWAP_MAX_ITEMS + 1], apply[SWAP_MAX_ITEMS + 1], bytes[SWAP_MAX_ITEMS + 1];
} sums;

static void sum_up(const swap_item *item, uint32_t count, sums *s) {
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < count; i++) {
        s->forward[i + 1] = s->forward[i] + item[i].forward_s;
        s->backward[i + 1] = s->backward[i] + item[i].backward_s;
        s->load[i + 1] = s->load[i] + item[i].load_s;
        s->again[i + 1] = s->again[i] + item[i].again_s;
        s->store[i + 1] = s->store[i] + item[i].store_s;
        s->apply[i + 1] = s->apply[i] + item[i].apply_s;
        s->bytes[i + 1] = s->bytes[i] + item[i].bytes;
    }
}

static double of(const double *sum, uint32_t from, uint32_t to) { return sum[to] - sum[from]; }

static double larger(double a, double b) { return a > b ? a : b; }

// ---- the steps, for sub-models a = [i, j), b = [j, k), c = [k, l)

// While b computes forward, c is read.
static double forward_step(const sums *s, uint32_t j, uint32_t k, uint32_t l) {
    return larger(of(s->forward, j, k), of(s->load, k, l));
}

// While b computes backward, c is written and a is read. Without room for all three, a waits until c
// is written.
static double transfer(const sums *s, const swap_machine *m, double memory, uint32_t i, uint32_t j, uint32_t k,
                       uint32_t l) {
    double written = of(s->store, k, l), read = of(s->again, i, j);
    bool together = m->duplex && of(s->bytes, i, l) <= memory;
    return together ? larger(written, read) : written + read;
}

static double backward_step(const sums *s, const swap_machine *m, double memory, uint32_t i, uint32_t j, uint32_t k,
                            uint32_t l) {
    return larger(of(s->backward, j, k), transfer(s, m, memory, i, j, k, l));
}

// ---- the time of a plan

typedef struct walk {
    const sums *s;
    const swap_machine *machine;
    const swap_plan *plan;
    double memory, seconds, compute;
    swap_step_fn each;
    void *context;
} walk;

static void take(walk *w, swap_step step, double moving_s) {
    step.seconds = larger(step.compute_s, moving_s);
    w->seconds += step.seconds;
    w->compute += step.compute_s;
    if (w->each) w->each(w->context, &step);
}

static double group_of(const walk *w, const double *sum, uint32_t g) {
    return of(sum, w->plan->begin[g], w->plan->begin[g + 1]);
}

static void walk_forward(walk *w, double first_store_s) {
    const swap_plan *p = w->plan;
    double resident = w->s->forward[p->resident];
    uint32_t written = p->groups > 1 ? 0 : SWAP_NONE;
    take(w, (swap_step){.group = SWAP_RESIDENT, .read = SWAP_NONE, .written = SWAP_NONE, .compute_s = resident}, 0);
    for (uint32_t g = 0; g < p->groups; g++) {
        swap_step step = {
            .group = g, .read = SWAP_NONE, .written = SWAP_NONE, .compute_s = group_of(w, w->s->forward, g)};
        if (g > 0 && g + 1 < p->groups) step.read = g + 1, step.read_s = group_of(w, w->s->load, g + 1);
        double moving = step.read_s;
        // the first sub-model is written while the resident items and itself compute
        if (g == 0 && p->groups > 1) {
            double passed = resident + w->s->backward[p->resident];
            step.written = written;
            step.write_s = first_store_s;
            moving = larger(first_store_s - passed, 0);
        }
        take(w, step, moving);
    }
}

static void walk_backward(walk *w) {
    const swap_plan *p = w->plan;
    for (uint32_t g = p->groups; g-- > 0;) {
        swap_step step = {.backward = true,
                          .group = g,
                          .read = SWAP_NONE,
                          .written = SWAP_NONE,
                          .compute_s = group_of(w, w->s->backward, g)};
        double moving = 0;
        if (g + 1 < p->groups) {
            step.written = g + 1;
            step.write_s = moving = group_of(w, w->s->store, g + 1);
            if (g > 0) {
                step.read = g - 1;
                step.read_s = group_of(w, w->s->again, g - 1);
                moving = transfer(w->s, w->machine, w->memory, p->begin[g - 1], p->begin[g], p->begin[g + 1],
                                  p->begin[g + 2]);
            }
        }
        take(w, step, moving);
    }
    take(w,
         (swap_step){.backward = true,
                     .group = SWAP_RESIDENT,
                     .read = SWAP_NONE,
                     .written = SWAP_NONE,
                     .compute_s = w->s->backward[p->resident]},
         0);
}

static bool fits(const sums *s, const swap_machine *m, const swap_plan *p, uint32_t count) {
    double memory = m->memory - s->bytes[p->resident];
    if (p->groups < 2) return s->bytes[count] <= m->memory;
    for (uint32_t g = 0; g + 1 < p->groups; g++)
        if (of(s->bytes, p->begin[g], p->begin[g + 2]) > memory) return false;
    return true;
}

bool swap_plan_time(const swap_item *item, uint32_t count, const swap_machine *machine, swap_plan *plan,
                    swap_step_fn each, void *context) {
    sums s;
    if (count > SWAP_MAX_ITEMS) return false;
    sum_up(item, count, &s);
    if (!fits(&s, machine, plan, count)) return false;
    walk w = {&s, machine, plan, machine->memory - s.bytes[plan->resident], 0, 0, each, context};
    bool moves = plan->groups > 1;
    walk_forward(&w, moves ? of(s.store, plan->begin[0], plan->begin[1]) : 0);
    walk_backward(&w);
    if (moves && of(s.apply, plan->resident, count) > 0)
        take(&w, (swap_step){.apply = true, .group = SWAP_NONE, .read = SWAP_NONE, .written = SWAP_NONE},
             of(s.apply, plan->resident, count));
    plan->seconds = w.seconds;
    plan->compute_s = w.compute;
    return true;
}

// ---- the best plan

// The best time of all steps that are known once [j, k) follows [i, j), and the sub-model before.
typedef struct table {
    double *best;
    uint8_t *before;
    uint32_t side;
} table;

static size_t cell(const table *t, uint32_t i, uint32_t j, uint32_t k) {
    return ((size_t)i * t->side + j) * t->side + k;
}

size_t swap_plan_room(uint32_t count) {
    size_t cells = ((size_t)count + 1) * (count + 1) * (count + 1);
    return cells * (sizeof(double) + sizeof(uint8_t));
}

static void clear(table *t, uint32_t first, uint32_t count) {
    for (uint32_t i = first; i <= count; i++)
        for (uint32_t j = i + 1; j <= count; j++)
            for (uint32_t k = j + 1; k <= count; k++) t->best[cell(t, i, j, k)] = NEVER;
}

// The first two sub-models. The first one is written during the steps of the resident items and
// its own forward step; the second one while the first one computes backward.
static void begin_pairs(table *t, const sums *s, uint32_t first, uint32_t count, double memory) {
    double resident = s->forward[first] + s->backward[first];
    for (uint32_t j = first + 1; j < count; j++)
        for (uint32_t k = j + 1; k <= count && of(s->bytes, first, k) <= memory; k++) {
            double turn = resident + larger(of(s->forward, first, j), larger(of(s->store, first, j) - resident, 0));
            t->best[cell(t, first, j, k)] = turn + larger(of(s->backward, first, j), of(s->store, j, k));
            t->before[cell(t, first, j, k)] = 0;
        }
}

static void extend(table *t, const sums *s, const swap_machine *m, double memory, uint32_t i, uint32_t j, uint32_t k,
                   uint32_t count) {
    double so_far = t->best[cell(t, i, j, k)];
    if (so_far == NEVER) return;
    for (uint32_t l = k + 1; l <= count && of(s->bytes, j, l) <= memory; l++) {
        double with = so_far + forward_step(s, j, k, l) + backward_step(s, m, memory, i, j, k, l);
        size_t at = cell(t, j, k, l);
        if (with >= t->best[at]) continue;
        t->best[at] = with;
        t->before[at] = (uint8_t)i;
    }
}

// From the last two sub-models back to the first.
static void trace_back(const table *t, uint32_t first, uint32_t i, uint32_t j, uint32_t k, swap_plan *out) {
    uint32_t ends[SWAP_MAX_ITEMS + 1], count = 0;
    ends[count++] = k;
    ends[count++] = j;
    while (i != first) {
        uint32_t before = t->before[cell(t, i, j, k)];
        ends[count++] = i;
        k = j, j = i, i = before;
    }
    ends[count++] = first;
    out->resident = first;
    out->groups = count - 1;
    for (uint32_t g = 0; g < count; g++) out->begin[g] = ends[count - 1 - g];
}

static void best_with(table *t, const sums *s, const swap_machine *m, uint32_t first, uint32_t count, swap_plan *best) {
    double memory = m->memory - s->bytes[first];
    clear(t, first, count);
    begin_pairs(t, s, first, count, memory);
    for (uint32_t i = first; i + 2 <= count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            for (uint32_t k = j + 1; k < count; k++) extend(t, s, m, memory, i, j, k, count);
    for (uint32_t i = first; i + 2 <= count; i++)
        for (uint32_t j = i + 1; j < count; j++) {
            double last = of(s->forward, j, count) + of(s->backward, j, count);
            double with = t->best[cell(t, i, j, count)] + last + of(s->apply, first, count);
            if (with >= best->seconds) continue;
            trace_back(t, first, i, j, count, best);
            best->seconds = with;
        }
}

braid_err swap_plan_best(const swap_item *item, uint32_t count, const swap_machine *machine, void *room,
                         swap_plan *best, braid_error *error) {
    if (count == 0 || count > SWAP_MAX_ITEMS)
        return braid_fail(error, BRAID_LIMIT, "a plan has at most %d layers and ends", SWAP_MAX_ITEMS);
    sums s;
    table t = {.best = room, .side = count + 1};
    t.before = (uint8_t *)room + (size_t)t.side * t.side * t.side * sizeof(double);
    sum_up(item, count, &s);
    *best = (swap_plan){.seconds = NEVER};
    if (s.bytes[count] <= machine->memory) {
        best->resident = best->begin[0] = count;
    } else {
        for (uint32_t first = 0; first < count && s.bytes[first] < machine->memory; first++)
            best_with(&t, &s, machine, first, count, best);
        if (best->seconds == NEVER)
            return braid_fail(error, BRAID_LIMIT, "no two neighbouring layers fit into %.0f bytes together",
                              machine->memory);
    }
    double planned = best->seconds;
    bool fine = swap_plan_time(item, count, machine, best, NULL, NULL);
    BRAID_ASSERT(fine && (planned == NEVER ||
                          (best->seconds - planned) * (best->seconds - planned) < 1e-12 * planned * planned + 1e-18));
    return BRAID_OK;
}

// ---- Algorithm 1

typedef struct search {
    const sums *s;
    const swap_item *item;
    double memory, least_cut;
    uint32_t count;
    uint64_t visited, most;
    swap_plan now, *out;
} search;

static void keep_if_smaller(search *x, uint32_t groups) {
    double cut = 0;
    for (uint32_t g = 1; g < groups; g++) cut += x->item[x->now.begin[g] - 1].cut;
    if (cut >= x->least_cut) return;
    x->least_cut = cut;
    *x->out = x->now;
    x->out->groups = groups;
    x->out->begin[groups] = x->count;
}

// The paper's PartitionModel: [c, l) computes while [l, e) is read; `groups` begin before e.
static void partition(search *x, uint32_t c, uint32_t l, uint32_t e, uint32_t groups) {
    if (x->visited >= x->most) return;
    x->visited++;
    if (of(x->s->bytes, c, l) > x->memory || of(x->s->bytes, l, e) > x->memory) return;
    if (of(x->s->forward, c, l) < of(x->s->load, l, e)) return;
    if (e == x->count) {
        keep_if_smaller(x, groups);
        return;
    }
    x->now.begin[groups] = e;
    for (uint32_t next = x->count; next > e; next--) partition(x, l, e, next, groups + 1);
}

braid_err swap_plan_published(const swap_item *item, uint32_t count, const swap_machine *machine, uint64_t most,
                              uint64_t *visited, swap_plan *out, braid_error *error) {
    if (count < 2 || count > SWAP_MAX_ITEMS)
        return braid_fail(error, BRAID_LIMIT, "Algorithm 1 needs 2 to %d layers and ends", SWAP_MAX_ITEMS);
    sums s;
    sum_up(item, count, &s);
    search x = {&s, item, machine->memory, NEVER, count, 0, most, {0}, out};
    *out = (swap_plan){0};
    for (uint32_t l = count - 1; l > 0; l--)
        for (uint32_t e = count; e > l; e--) {
            x.now.begin[1] = l;
            partition(&x, 0, l, e, 2);
        }
    *visited = x.visited;
    if (x.least_cut == NEVER)
        return braid_fail(error, BRAID_LIMIT, "Algorithm 1 finds no partition%s",
                          x.visited >= most ? " within its budget" : "");
    if (!swap_plan_time(item, count, machine, out, NULL, NULL)) out->seconds = NEVER;
    return BRAID_OK;
}
