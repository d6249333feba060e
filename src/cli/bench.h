// The measurements of braid bench. Each is one file, src/cli/bench_<name>.c, with one function of
// this type.
#ifndef BRAID_CLI_BENCH_H
#define BRAID_CLI_BENCH_H

// argv[0] is the measurement's name.
int bench_step(int argc, char **argv);
int bench_generate(int argc, char **argv);
int bench_serve(int argc, char **argv);

#endif
