// The optimum of a small serving swarm as an integer program.
//
// For each peer i and span [a, b): sessions f (integer, one variable per origin), a placement x (binary)
// of at most one span, and time z of the peer. For each layer boundary and pair of peers: sessions h on
// that hop. Rows: sessions are conserved at (peer, boundary); a visit needs a span that contains it;
// memory; z is at least each secant of the peer's convex time between neighbouring loads, which is
// exact at whole loads. A walk may visit a peer twice within its span, which only lowers the bound.
#include "bench/serving/serving.h"

#ifdef BRAID_HAVE_GLPK
#include <glpk.h>
#include <stdlib.h>

typedef struct program {
    const placement_problem *p;
    glp_prob *glpk;
    uint32_t origin[PLACEMENT_MAX_PEERS], origins, from[PLACEMENT_MAX_PEERS];
    int *visit;  // [origins][peers][layers][layers + 1], first column of a visit
    int *span;   // [peers][layers][layers + 1]
    int *hop;    // [origins][layers + 1][peers][peers]; at boundaries 0 and `layers` [peer][0]
    int *row;
    double *value;
    int count;
} program;

static int *visit_at(program *g, uint32_t o, uint32_t i, uint32_t a, uint32_t b) {
    uint32_t n = g->p->layers;
    return &g->visit[((o * g->p->peers + i) * n + a) * (n + 1) + b];
}

static int *span_at(program *g, uint32_t i, uint32_t a, uint32_t b) {
    uint32_t n = g->p->layers;
    return &g->span[(i * n + a) * (n + 1) + b];
}

static int *hop_at(program *g, uint32_t o, uint32_t l, uint32_t i, uint32_t j) {
    return &g->hop[((o * (g->p->layers + 1) + l) * g->p->peers + i) * g->p->peers + j];
}

static int add_column(program *g, int kind, double most, double cost) {
    int c = glp_add_cols(g->glpk, 1);
    glp_set_col_kind(g->glpk, c, kind);
    if (kind != GLP_BV) glp_set_col_bnds(g->glpk, c, most > 0 ? GLP_DB : GLP_LO, 0, most);
    glp_set_obj_coef(g->glpk, c, cost);
    return c;
}

static void put(program *g, int column, double value) {
    if (column == 0) return;
    g->row[++g->count] = column;
    g->value[g->count] = value;
}

static void end_row(program *g, int kind, double low, double high) {
    int r = glp_add_rows(g->glpk, 1);
    glp_set_row_bnds(g->glpk, r, kind, low, high);
    glp_set_mat_row(g->glpk, r, g->count, g->row, g->value);
    g->count = 0;
}

static void add_hops(program *g, uint32_t o) {
    const placement_problem *p = g->p;
    uint32_t home = g->origin[o];
    for (uint32_t i = 0; i < p->peers; i++) {
        *hop_at(g, o, 0, i, 0) = add_column(g, GLP_CV, g->from[o], p->hop_us[home][i]);
        *hop_at(g, o, p->layers, i, 0) = add_column(g, GLP_CV, g->from[o], p->hop_us[i][home]);
        for (uint32_t l = 1; l < p->layers; l++)
            for (uint32_t j = 0; j < p->peers; j++)
                if (j != i) *hop_at(g, o, l, i, j) = add_column(g, GLP_CV, g->from[o], p->hop_us[i][j]);
    }
}

static void add_columns(program *g) {
    const placement_problem *p = g->p;
    for (uint32_t o = 0; o < g->origins; o++) add_hops(g, o);
    for (uint32_t i = 0; i < p->peers; i++)
        for (uint32_t a = 0; a < p->layers; a++)
            for (uint32_t b = a + 1; b <= p->layers && placement_fits(p, i, b - a, b - a); b++) {
                *span_at(g, i, a, b) = add_column(g, GLP_BV, 1, 0);
                for (uint32_t o = 0; o < g->origins; o++)
                    *visit_at(g, o, i, a, b) = add_column(g, GLP_IV, g->from[o], 0);
            }
}

// Sessions that enter peer i at boundary l visit it from l on. Sessions leave where their visit ends.
static void conserve(program *g, uint32_t o) {
    const placement_problem *p = g->p;
    for (uint32_t i = 0; i < p->peers; i++)
        for (uint32_t l = 0; l <= p->layers; l++) {
            if (l < p->layers) {
                for (uint32_t j = 0; j < p->peers; j++)
                    put(g, l == 0 ? (j == 0 ? *hop_at(g, o, 0, i, 0) : 0) : *hop_at(g, o, l, j, i), 1);
                for (uint32_t b = l + 1; b <= p->layers; b++) put(g, *visit_at(g, o, i, l, b), -1);
                end_row(g, GLP_FX, 0, 0);
            }
            if (l == 0) continue;
            for (uint32_t a = 0; a < l; a++) put(g, *visit_at(g, o, i, a, l), 1);
            for (uint32_t j = 0; j < p->peers; j++)
                put(g, l == p->layers ? (j == 0 ? *hop_at(g, o, l, i, 0) : 0) : *hop_at(g, o, l, i, j), -1);
            end_row(g, GLP_FX, 0, 0);
        }
    for (uint32_t i = 0; i < p->peers; i++) put(g, *hop_at(g, o, 0, i, 0), 1);
    end_row(g, GLP_FX, g->from[o], g->from[o]);
}

// Visits over layer l need a span over l; visits over [a, b) need a span that contains it.
static void link_layers(program *g, uint32_t i) {
    const placement_problem *p = g->p;
    for (uint32_t o = 0; o < g->origins; o++)
        for (uint32_t l = 0; l < p->layers; l++) {
            for (uint32_t a = 0; a <= l; a++)
                for (uint32_t b = l + 1; b <= p->layers; b++) {
                    put(g, *visit_at(g, o, i, a, b), 1);
                    put(g, *span_at(g, i, a, b), -(double)g->from[o]);
                }
            end_row(g, GLP_UP, 0, 0);
        }
}

static void limit_peer(program *g, uint32_t i) {
    const placement_problem *p = g->p;
    int time = add_column(g, GLP_CV, 0, 1);
    uint32_t most = 0;
    while (most < p->sessions * p->layers && placement_fits(p, i, 1, most + 1)) most++;
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t a = 0; a < p->layers; a++)
            for (uint32_t b = a + 1; b <= p->layers; b++) {
                put(g, *span_at(g, i, a, b), kind == 0 ? 1 : (b - a) * p->layer_bytes);
                for (uint32_t o = 0; kind == 1 && o < g->origins; o++)
                    put(g, *visit_at(g, o, i, a, b), (b - a) * p->cache_bytes);
            }
        end_row(g, GLP_UP, 0, kind == 0 ? 1 : p->peer[i].memory_bytes);
    }
    for (uint32_t y = 0; y <= most; y++) {
        double low = placement_busy_us(p, i, y), slope = y < most ? placement_busy_us(p, i, y + 1) - low : 0;
        for (uint32_t o = 0; o < g->origins; o++)
            for (uint32_t a = 0; a < p->layers; a++)
                for (uint32_t b = a + 1; b <= p->layers; b++)
                    put(g, *visit_at(g, o, i, a, b), y < most ? slope * (b - a) : b - a);
        if (y < most) put(g, time, -1);
        end_row(g, GLP_UP, 0, y < most ? slope * y - low : most);
    }
}

// Keeps the solver's bound, which counts when the time limit strikes.
static void keep_bound(glp_tree *tree, void *info) {
    int node = glp_ios_best_node(tree);
    if (node != 0) *(double *)info = glp_ios_node_bound(tree, node);
}

static void solve(program *g, uint32_t seconds, serving_optimum *out) {
    const placement_problem *p = g->p;
    glp_iocp integer;
    glp_init_iocp(&integer);
    integer.msg_lev = GLP_MSG_OFF;
    integer.mir_cuts = GLP_ON;
    integer.tm_lim = (int)seconds * 1000;
    double bound = 0;
    integer.cb_func = keep_bound;
    integer.cb_info = &bound;
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    simplex.tm_lim = (int)seconds * 1000;
    simplex.presolve = GLP_ON;
    glp_scale_prob(g->glpk, GLP_SF_AUTO);
    out->ran = true;
    if (glp_simplex(g->glpk, &simplex) != 0 || glp_get_status(g->glpk) != GLP_OPT) return;
    out->bound_us = glp_get_obj_val(g->glpk) / p->sessions;
    int code = glp_intopt(g->glpk, &integer);
    int status = glp_mip_status(g->glpk);
    if (status == GLP_OPT || status == GLP_FEAS) out->mean_us = glp_mip_obj_val(g->glpk) / p->sessions;
    if (bound / p->sessions > out->bound_us) out->bound_us = bound / p->sessions;
    out->proven = code == 0 && status == GLP_OPT;
    if (out->proven) out->bound_us = out->mean_us;
}

static void find_origins(program *g) {
    for (uint32_t i = 0; i < g->p->peers; i++) {
        uint32_t from = 0;
        for (uint32_t s = 0; s < g->p->sessions; s++) from += g->p->origin[s] == i;
        if (from == 0) continue;
        g->origin[g->origins] = i;
        g->from[g->origins++] = from;
    }
}

static void build(program *g) {
    glp_term_out(GLP_OFF);
    g->glpk = glp_create_prob();
    glp_set_obj_dir(g->glpk, GLP_MIN);
    add_columns(g);
    for (uint32_t o = 0; o < g->origins; o++) conserve(g, o);
    for (uint32_t i = 0; i < g->p->peers; i++) {
        link_layers(g, i);
        limit_peer(g, i);
    }
}

braid_err serving_optimum_find(const placement_problem *p, uint32_t seconds, serving_optimum *out, braid_error *error) {
    *out = (serving_optimum){0};
    program g = {.p = p};
    find_origins(&g);
    size_t spans = (size_t)p->peers * p->layers * (p->layers + 1), hops = (size_t)p->peers * p->peers * (p->layers + 1);
    size_t columns = (spans + hops) * (g.origins + 1) + PLACEMENT_MAX_PEERS;
    g.visit = calloc(spans * g.origins + 1, sizeof(int));
    g.span = calloc(spans, sizeof(int));
    g.hop = calloc(hops * g.origins + 1, sizeof(int));
    g.row = calloc(columns, sizeof(int));
    g.value = calloc(columns, sizeof(double));
    braid_err err = BRAID_OK;
    if (g.visit == NULL || g.span == NULL || g.hop == NULL || g.row == NULL || g.value == NULL) {
        err = braid_fail(error, BRAID_MEMORY, "no memory for an integer program of %zu variables", columns);
    } else {
        build(&g);
        solve(&g, seconds, out);
        glp_delete_prob(g.glpk);
    }
    free(g.visit);
    free(g.span);
    free(g.hop);
    free(g.row);
    free(g.value);
    return err;
}
#else
braid_err serving_optimum_find(const placement_problem *p, uint32_t seconds, serving_optimum *out, braid_error *error) {
    (void)p, (void)seconds, (void)error;
    *out = (serving_optimum){0};
    return BRAID_OK;
}
#endif
