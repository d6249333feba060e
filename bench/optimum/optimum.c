// Optima of routing instances: our planner for one data peer, an integer program for several.
#include "bench/optimum/optimum.h"

#include <stdlib.h>

enum { MOST_LOADS = 64 };  // loads that are tried as the heaviest, from the bound upward

#ifdef BRAID_HAVE_GLPK
#include <glpk.h>
#include <math.h>
#endif

// The optimum when a unit may end at any data peer.
static braid_err relaxed(const routing_instance *instance, bool worst, routing_optimum *out, braid_error *error) {
    const plan_problem *p = &instance->problem;
    void *memory = malloc(plan_relaxed_bytes(p));
    out->flow = calloc((size_t)p->links * instance->sources, sizeof *out->flow);
    if (memory == NULL || out->flow == NULL) {
        free(memory);
        return braid_fail(error, BRAID_MEMORY, "no memory for the optimum of %u links", p->links);
    }
    plan_answer answer;
    braid_err err = worst ? plan_worst(p, INT64_MAX, memory, out->flow, &out->relaxed, &answer, error)
                          : plan_relaxed(p, INT64_MAX, memory, out->flow, &answer, error);
    out->units = answer.units;
    if (!worst) out->relaxed = answer.cost;
    out->sum = answer.cost;
    out->bound = (double)out->relaxed;
    free(memory);
    return err;
}

#ifdef BRAID_HAVE_GLPK
// Variable f(k, l): units of data peer k on link l; 0 where a link belongs to another data peer.
typedef struct program {
    const routing_instance *instance;
    int64_t most;  // largest load of a link
    glp_prob *glpk;
    int *column;  // [sources][links], 0: none
    int *row;     // scratch of a matrix row
    double *value;
} program;

static bool usable(const plan_problem *p, uint32_t k, uint32_t l) {
    const plan_link *link = &p->link[l];
    if (p->peer[link->from].stage == 0 && link->from != k) return false;
    return p->peer[link->to].stage != 0 || link->to == k;
}

static void add_columns(program *g) {
    const plan_problem *p = &g->instance->problem;
    for (uint32_t k = 0; k < g->instance->sources; k++)
        for (uint32_t l = 0; l < p->links; l++) {
            if (!usable(p, k, l)) continue;
            int c = glp_add_cols(g->glpk, 1);
            g->column[k * p->links + l] = c;
            glp_set_col_kind(g->glpk, c, GLP_IV);
            glp_set_col_bnds(g->glpk, c, GLP_LO, 0, 0);
            glp_set_obj_coef(g->glpk, c, (double)p->link[l].cost / ROUTING_SCALE);
        }
}

// Adds a row over the links into (sign_in) and out of (sign_out) a peer, for the units of one data
// peer or (all) of all.
static void add_row(program *g, uint32_t peer, uint32_t only, bool all, double sign_in, double sign_out, int kind,
                    double low, double high) {
    const plan_problem *p = &g->instance->problem;
    int n = 0;
    for (uint32_t k = 0; k < g->instance->sources; k++)
        for (uint32_t l = 0; (all || k == only) && l < p->links; l++) {
            double sign = p->link[l].to == peer ? sign_in : p->link[l].from == peer ? sign_out : 0;
            int c = g->column[k * p->links + l];
            if (c == 0 || (sign >= 0 && sign <= 0)) continue;
            g->row[++n] = c;
            g->value[n] = sign;
        }
    int r = glp_add_rows(g->glpk, 1);
    glp_set_row_bnds(g->glpk, r, kind, low, high);
    glp_set_mat_row(g->glpk, r, n, g->row, g->value);
}

// Limits each link to a load of at most `most`.
static void add_loads(program *g) {
    const plan_problem *p = &g->instance->problem;
    for (uint32_t l = 0; l < p->links && g->most < INT64_MAX; l++) {
        int n = 0;
        for (uint32_t k = 0; k < g->instance->sources; k++) {
            int c = g->column[k * p->links + l];
            if (c == 0) continue;
            g->row[++n] = c;
            g->value[n] = (double)p->link[l].cost;
        }
        int r = glp_add_rows(g->glpk, 1);
        glp_set_row_bnds(g->glpk, r, GLP_UP, 0, (double)(p->link[l].cost > 0 ? g->most / p->link[l].cost * p->link[l].cost : 0));
        glp_set_mat_row(g->glpk, r, n, g->row, g->value);
    }
}

static void add_rows(program *g, int64_t units) {
    const plan_problem *p = &g->instance->problem;
    uint32_t sources = g->instance->sources;
    for (uint32_t i = 0; i < p->peers; i++) {
        double capacity = p->peer[i].capacity;
        if (p->peer[i].stage == 0) {
            add_row(g, i, i, false, 0, 1, capacity > 0 ? GLP_DB : GLP_FX, 0, capacity);
            continue;
        }
        for (uint32_t k = 0; k < sources; k++) add_row(g, i, k, false, 1, -1, GLP_FX, 0, 0);
        add_row(g, i, 0, true, 1, 0, capacity > 0 ? GLP_DB : GLP_FX, 0, capacity);
    }
    int n = 0;
    for (uint32_t l = 0; l < p->links; l++)
        if (p->peer[p->link[l].from].stage == 0) {
            g->row[++n] = g->column[p->link[l].from * p->links + l];
            g->value[n] = 1;
        }
    int r = glp_add_rows(g->glpk, 1);
    glp_set_row_bnds(g->glpk, r, GLP_FX, (double)units, (double)units);
    glp_set_mat_row(g->glpk, r, n, g->row, g->value);
}

typedef enum verdict { FOUND, PROVEN, IMPOSSIBLE, UNKNOWN } verdict;

// Solves the linear program (a bound of the sum). If its answer is not integral, solves the integer
// program, and keeps that sum and flow.
static verdict solve(program *g, uint32_t seconds, double *bound, int64_t *sum, int64_t *flow) {
    const plan_problem *p = &g->instance->problem;
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    simplex.presolve = GLP_ON;
    int code = glp_simplex(g->glpk, &simplex);
    if (code == GLP_ENOPFS || (code == 0 && glp_get_status(g->glpk) == GLP_NOFEAS)) return IMPOSSIBLE;
    if (code != 0 || glp_get_status(g->glpk) != GLP_OPT) return UNKNOWN;
    *bound = glp_get_obj_val(g->glpk) * ROUTING_SCALE;
    glp_iocp integer;
    glp_init_iocp(&integer);
    integer.msg_lev = GLP_MSG_OFF;
    integer.br_tech = GLP_BR_PCH;
    integer.mir_cuts = integer.clq_cuts = integer.gmi_cuts = GLP_ON;
    integer.fp_heur = GLP_ON;
    integer.tm_lim = (int)seconds * 1000;
    code = glp_intopt(g->glpk, &integer);
    int status = glp_mip_status(g->glpk);
    if (code == 0 && status == GLP_NOFEAS) return IMPOSSIBLE;
    if (status != GLP_OPT && status != GLP_FEAS) return UNKNOWN;
    *sum = 0;
    for (size_t i = 0; i < (size_t)g->instance->sources * p->links; i++) {
        flow[i] = g->column[i] == 0 ? 0 : llround(glp_mip_col_val(g->glpk, g->column[i]));
        *sum += flow[i] * p->link[i % p->links].cost;
    }
    return code == 0 && status == GLP_OPT ? PROVEN : FOUND;
}

// As many units as `out` says, no load above `most`, at the least sum of costs.
static verdict program_run(program *g, int64_t most, uint32_t seconds, routing_optimum *out, double *bound) {
    size_t variables = (size_t)g->instance->problem.links * g->instance->sources;
    for (size_t i = 0; i < variables; i++) g->column[i] = 0;
    g->most = most;
    glp_term_out(GLP_OFF);
    g->glpk = glp_create_prob();
    glp_set_obj_dir(g->glpk, GLP_MIN);
    add_columns(g);
    add_rows(g, out->units);
    add_loads(g);
    verdict v = solve(g, seconds, bound, &out->sum, out->flow);
    glp_delete_prob(g->glpk);
    return v;
}

static void least_sum(program *g, uint32_t seconds, routing_optimum *out) {
    double linear = 0;
    verdict v = program_run(g, INT64_MAX, seconds, out, &linear);
    if (linear > out->bound) out->bound = linear;
    out->proven = v == PROVEN;
    if (v == PROVEN || v == FOUND) out->cost = out->sum;
}

// The next load at which some link may carry one more unit.
static int64_t next_load(const plan_problem *p, int64_t load) {
    int64_t next = INT64_MAX;
    for (uint32_t l = 0; l < p->links; l++) {
        int64_t cost = p->link[l].cost, step = cost > 0 ? (load / cost + 1) * cost : next;
        if (step < next) next = step;
    }
    return next;
}

// Raises the load from the bound upward until a program has a solution. Each proven failure raises
// the bound.
static void least_load(program *g, uint32_t seconds, routing_optimum *out) {
    bool certain = true;
    int64_t most = out->relaxed;
    for (int tries = 0; tries < MOST_LOADS && most < INT64_MAX; tries++, most = next_load(&g->instance->problem, most)) {
        double linear;
        verdict v = program_run(g, most, seconds, out, &linear);
        certain &= v != UNKNOWN;
        if (certain) out->bound = (double)most;
        if (v != PROVEN && v != FOUND) continue;
        out->proven = certain;
        out->cost = most;
        return;
    }
}

static braid_err several(const routing_instance *instance, bool worst, uint32_t seconds, routing_optimum *out,
                         braid_error *error) {
    size_t variables = (size_t)instance->problem.links * instance->sources;
    program g = {.instance = instance,
                 .column = calloc(variables, sizeof(int)),
                 .row = calloc(variables + 1, sizeof(int)),
                 .value = calloc(variables + 1, sizeof(double))};
    braid_err err = BRAID_OK;
    out->cost = -1;
    if (g.column == NULL || g.row == NULL || g.value == NULL)
        err = braid_fail(error, BRAID_MEMORY, "no memory for an integer program of %zu variables", variables);
    else if (worst)
        least_load(&g, seconds, out);
    else
        least_sum(&g, seconds, out);
    free(g.column);
    free(g.row);
    free(g.value);
    return err;
}
#else
static braid_err several(const routing_instance *instance, bool worst, uint32_t seconds, routing_optimum *out,
                         braid_error *error) {
    (void)instance, (void)worst, (void)seconds, (void)error;
    out->cost = -1;
    return BRAID_OK;
}
#endif

static braid_err keep_flow(routing_optimum *out, braid_err err) {
    if (!err && out->cost >= 0) return BRAID_OK;
    free(out->flow);
    out->flow = NULL;
    return err;
}

static void is_exact(routing_optimum *out) {
    out->cost = out->relaxed;
    out->proven = true;
}

braid_err routing_optimum_find(const routing_instance *instance, uint32_t seconds, routing_optimum *out,
                               braid_error *error) {
    *out = (routing_optimum){0};
    braid_err err = relaxed(instance, false, out, error);
    if (!err && instance->sources == 1)
        is_exact(out);
    else if (!err)
        err = several(instance, false, seconds, out, error);
    return keep_flow(out, err);
}

braid_err routing_optimum_worst(const routing_instance *instance, uint32_t seconds, routing_optimum *out,
                                braid_error *error) {
    *out = (routing_optimum){0};
    braid_err err = relaxed(instance, true, out, error);
    if (!err && instance->sources == 1)
        is_exact(out);
    else if (!err)
        err = several(instance, true, seconds, out, error);
    return keep_flow(out, err);
}

void routing_optimum_close(routing_optimum *optimum) {
    free(optimum->flow);
    *optimum = (routing_optimum){0};
}
