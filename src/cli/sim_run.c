// One simulated swarm of braid sim, with its progress.
#include "cli/sim_inside.h"
#include "format/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { REPLAY_TEXT = 512, ROUTE_LOOKS = 20 };

typedef struct sim_progress {
    const scenario *s;
    sim_routes_mean *routes;  // NULL: routes were not requested
    braid_err failed;         // error while routes were compared
    braid_error error;
    char what[96];
    bool terminal;
    uint64_t told_tenth;
    time_t told_at;
} sim_progress;

static sim_progress progress_begin(const char *what, const scenario *s, sim_routes_mean *routes) {
    sim_progress p = {.s = s, .routes = routes, .terminal = isatty(STDERR_FILENO) != 0, .told_at = time(NULL)};
    snprintf(p.what, sizeof p.what, "%s", what);
    return p;
}

static void progress_tell(void *context, const sim_swarm_progress *now) {
    sim_progress *p = context;
    char simulated[QUANTITY_TEXT];
    quantity_duration_text((double)now->virtual_ns / 1e9, simulated);
    if (p->terminal) {
        fprintf(stderr, "\r\x1b[K%s: iteration %" PRIu64 " of %" PRIu64 ", %s simulated, %" PRIu32 " peers alive",
                p->what, now->iteration, now->iterations, simulated, now->peers);
        fflush(stderr);
        return;
    }
    uint64_t tenth = now->iterations > 0 ? now->iteration * 10 / now->iterations : 0;
    time_t at = time(NULL);
    if (tenth <= p->told_tenth || at == p->told_at) return;
    p->told_tenth = tenth;
    p->told_at = at;
    fprintf(stderr, "%s: iteration %" PRIu64 " of %" PRIu64 ", %s simulated\n", p->what, now->iteration,
            now->iterations, simulated);
}

// Compares routes at most ROUTE_LOOKS times, at even intervals including the last iteration, and
// not while peers are still joining.
static void look_at_routes(void *context, uint32_t done, const sim_swarm_report *now) {
    sim_progress *p = context;
    uint32_t all = p->s->iterations, step = (all + ROUTE_LOOKS - 1) / ROUTE_LOOKS;
    if (done > all || done <= all / 4 || (all - done) % step != 0 || p->failed) return;
    sim_routes routes;
    p->failed = sim_routes_look(p->s, now, &routes, &p->error);
    if (!p->failed) sim_routes_add(p->routes, &routes);
}

static void progress_end(const sim_progress *p) {
    if (p->terminal) fprintf(stderr, "\r\x1b[K");
}

braid_err sim_run_swarm(const sim_flags *f, const scenario *s, const char *what, const char *trace,
                        sim_routes_mean *routes, sim_swarm_report *report, braid_error *error) {
    char replay[REPLAY_TEXT];
    sim_progress progress = progress_begin(what, s, routes);
    snprintf(replay, sizeof replay, "braid sim %s --seed %" PRIu64 " --iterations %u%s", f->path, s->seed,
             s->iterations, f->check ? " --check" : "");
    sim_swarm_options how = {.trace_path = trace,
                             .replay = replay,
                             .check = f->check ? SIM_CHECK_RULES : SIM_CHECK_LIVENESS,
                             .progress = progress_tell,
                             .iteration = routes ? look_at_routes : NULL,
                             .context = &progress};
    braid_err code = sim_swarm_run(s, &how, report, error);
    progress_end(&progress);
    if (code != BRAID_OK || !progress.failed) return code;
    *error = progress.error;
    return progress.failed;
}
