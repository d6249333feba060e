// The experiments of braid-bench. Each is one file, bench/cli/<name>.c, with one function of this
// kind.
#ifndef BRAID_BENCH_CLI_EXPERIMENTS_H
#define BRAID_BENCH_CLI_EXPERIMENTS_H

#include "bench/routing/routing.h"
#include "cli/cli.h"

// argv[0] is the experiment's name.
int bench_f7(int argc, char **argv);
int bench_f5(int argc, char **argv);
int bench_t2(int argc, char **argv);
int bench_t3(int argc, char **argv);
int bench_t6(int argc, char **argv);
int bench_churn(int argc, char **argv);
int bench_churn_trace(int argc, char **argv);
int bench_scale(int argc, char **argv);
int bench_views(int argc, char **argv);
int bench_repair(int argc, char **argv);
int bench_keep(int argc, char **argv);
int bench_atom(int argc, char **argv);
int bench_serving(int argc, char **argv);

// The compared routing systems, and the number of rounds after which a run of each ends.
enum { BENCH_SYSTEMS = 3 };

typedef struct bench_system {
    const char *name;
    router_algorithm algorithm;
    int64_t limit_rounds;
} bench_system;
extern const bench_system bench_systems[BENCH_SYSTEMS];

// Parses --systems. False: unknown name; a message was printed.
bool bench_read_systems(const char *verb, const char *text, bool system[BENCH_SYSTEMS]);

// Parse --delay and --objective of the experiments with routing. False: unknown name; a message was
// printed.
bool bench_read_delay(const char *verb, const char *text, routing_delay *delay);
bool bench_read_objective(const char *verb, const char *text, router_objective *objective);
// False, with a message: --plan-first is not available for the objective.
bool bench_may_plan(const char *verb, const routing_settings *settings);

#endif
