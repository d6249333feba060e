#include "bench/training/keep.h"

#include "base/err.h"
#include "base/rng.h"
#include "protocol/core/timing.h"
#include "sim/places.h"
#include "bench/training/t2.h"

#include <math.h>

enum { MEMBERS = 3, MOST_HOLDERS = KEEP_PARTS + KEEP_MOST_SPARE, SHARE = 4, FINAL_WAITS = 10, SETTLED = 100, MOMENTS = 100 };
// parameters moved by one GET, as state or as results
static const double get_parameters = 8 * 65536;

typedef struct line {
    double latency_s, bytes_per_s;
} line;

typedef struct world {
    const keep_case *c;
    double state_bytes, result_bytes;
    uint32_t holders, order[MOST_HOLDERS];  // the surviving holders come first
    // from each holder to the member of the stage with the fastest line
    line to_stage[MOST_HOLDERS];
    line to_new[MOST_HOLDERS];              // to the peer that replaces the stage
    line to_store;                          // from there to the peer with the checkpoints
} world;

const char *keep_way_name(keep_way way) {
    static const char *const names[KEEP_WAYS] = {"shadow", "copy", "code"};
    return way < KEEP_WAYS ? names[way] : "?";
}

// One GET is under way, and a pause three times as long follows it: a quarter of the line.
static double pulled_s(const line *l, double bytes, double get_bytes) { return SHARE * (ceil(bytes / get_bytes) * 2 * l->latency_s + bytes / l->bytes_per_s); }
static double results_s(const line *l, double bytes) { return pulled_s(l, bytes, get_parameters * KEEP_RESULT_BYTES); }
static double state_s(const line *l, double bytes) { return pulled_s(l, bytes, get_parameters * KEEP_STATE_BYTES); }

// When the run waits for the transfer: the whole line, and many GETs at once.
static double moved_s(const line *l, double bytes) { return 2 * l->latency_s + bytes / l->bytes_per_s; }

static line line_between(uint32_t a, uint32_t b) {
    return (line){(double)place_latency_ns(a, b) / 1e9, (double)place_scaled_bps(a, b, T2_SLOW_BPS, T2_FAST_BPS) / 8};
}

static uint32_t anywhere(rng *r) { return (uint32_t)rng_below(r, place_count()); }

static line quickest(uint32_t from, const uint32_t *to, uint32_t count) {
    const double one = get_parameters * KEEP_RESULT_BYTES;
    line best = line_between(from, to[0]);
    for (uint32_t i = 1; i < count; i++) {
        line l = line_between(from, to[i]);
        if (results_s(&l, one) < results_s(&best, one)) best = l;
    }
    return best;
}

static void open_world(world *w, const keep_case *c, keep_way way) {
    BRAID_ASSERT(c->spare <= KEEP_MOST_SPARE);
    *w = (world){.c = c, .holders = (way == KEEP_CODE ? KEEP_PARTS : 1) + c->spare};
    w->state_bytes = (double)c->parameters * KEEP_STATE_BYTES;
    w->result_bytes = (double)c->parameters * KEEP_RESULT_BYTES;
    rng places = {rng_seed(c->seed, 1)}, fates = {rng_seed(c->seed, 2)};
    uint32_t member[MEMBERS], fresh = anywhere(&places);
    w->to_store = line_between(fresh, anywhere(&places));
    for (uint32_t i = 0; i < MEMBERS; i++) member[i] = anywhere(&places);
    for (uint32_t h = 0; h < w->holders; h++) {
        uint32_t at = anywhere(&places);
        w->to_new[h] = line_between(at, fresh);
        w->to_stage[h] = quickest(at, member, MEMBERS);
        w->order[h] = h;
    }
    for (uint32_t h = 0; h < w->holders; h++) {
        uint32_t other = h + (uint32_t)rng_below(&fates, w->holders - h), was = w->order[h];
        w->order[h] = w->order[other];
        w->order[other] = was;
    }
}

// A random time after the beginning, and after `settled_s`.
static double death_s(const world *w, double iteration_s, double settled_s) {
    rng moment = {rng_seed(w->c->seed, 3)};
    return (ceil(fmax(SETTLED, settled_s / iteration_s)) + rng_unit(&moment) * MOMENTS) * iteration_s;
}

static void goes_on(keep_result *out, double died_s, double iteration_s, double version, double moved) {
    double newest = floor(died_s / iteration_s);
    out->back = (uint32_t)(newest - version);
    out->lost_s = moved + died_s - version * iteration_s;
}

// A standby applies the results of an iteration while the next one is computed; FINAL waits a
// little for the first standby. A standby that has the results later lacks them for that long. One
// that takes longer than an iteration never catches up.
static void run_shadow(const world *w, keep_result *out) {
    double iteration_s = w->c->iteration_s, least = INFINITY, most = fmax(iteration_s / FINAL_WAITS, (double)TIMING_STANDBY_NS / 1e9);
    for (uint32_t h = 0; h < w->holders; h++) least = fmin(least, results_s(&w->to_stage[h], w->result_bytes));
    double wait = fmin(least, most);
    out->longer_s = least < iteration_s + wait ? wait : 0;
    iteration_s += out->longer_s;
    for (uint32_t h = 0; h < w->holders; h++) out->bytes += w->result_bytes * fmin(1, iteration_s / results_s(&w->to_stage[h], w->result_bytes));
    double died_s = death_s(w, iteration_s, 0), newest = floor(died_s / iteration_s), takes = results_s(&w->to_stage[w->order[0]], w->result_bytes);
    bool follows = takes < iteration_s && died_s - newest * iteration_s >= takes - out->longer_s;
    double version = follows ? newest : newest - fmod(newest, w->c->checkpoint_every);
    goes_on(out, died_s, iteration_s, version, follows ? 0 : moved_s(&w->to_store, w->state_bytes));
}

// The members keep the version at which a refresh begins until it is done; then the next one
// begins. The newest complete version survives, and all other stages have kept it, too. A holder of
// a copy takes over the work of the stage, like a standby; the parts of a code are collected first.
// All holders together use no more bandwidth than standbys do, unless they may use their whole
// share.
static void run_refreshed(const world *w, keep_way way, keep_result *out) {
    bool code = way == KEEP_CODE;
    uint32_t left = code ? KEEP_PARTS : 1;
    double iteration_s = w->c->iteration_s, part = w->state_bytes / left, moved = 0;
    double least = w->c->whole_share ? 0 : part * w->holders * iteration_s / ((1 + w->c->spare) * w->result_bytes);
    double whole = least, takes[MOST_HOLDERS], all = least;
    for (uint32_t h = 0; h < w->holders; h++) {
        takes[h] = fmax(least, state_s(&w->to_stage[h], part));
        all = fmax(all, takes[h]);
    }
    for (uint32_t i = 0; i < left; i++) {
        whole = fmax(whole, takes[w->order[i]]);
        if (code) moved = fmax(moved, moved_s(&w->to_new[w->order[i]], part));
    }
    for (uint32_t h = 0; h < w->holders; h++) out->bytes += part * iteration_s / (code ? all : takes[h]);
    double period = code ? all : whole;  // each copy is refreshed independently
    double died_s = death_s(w, iteration_s, 2 * (period + whole));
    double begun_s = floor((died_s - whole) / period) * period;
    goes_on(out, died_s, iteration_s, floor(begun_s / iteration_s), moved);
}

void keep_run(const keep_case *c, keep_way way, keep_result *out) {
    world w;
    open_world(&w, c, way);
    *out = (keep_result){0};
    if (way == KEEP_SHADOW) run_shadow(&w, out);
    else run_refreshed(&w, way, out);
}
