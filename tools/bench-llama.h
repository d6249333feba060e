// Shared by the sides of llama.cpp in the benchmarks (bench-*-llama.c): errors, its log and clocks.
#ifndef BENCH_LLAMA_H
#define BENCH_LLAMA_H

#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void fail(const char *text) {
    fprintf(stderr, BENCH_NAME ": %s\n", text);
    exit(1);
}

// llama.cpp's log without all but its errors.
static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
