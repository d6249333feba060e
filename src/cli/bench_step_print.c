// Output of braid bench step.
#include "cli/bench_step_inside.h"
#include "cli/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 24 };

static const struct {
    job_kind kind;
    const char *name;
} jobs[] = {
    {JOB_FORWARD, "forward"},      {JOB_LOSS, "head and loss"}, {JOB_BACKWARD, "gradients"},
    {JOB_SUM_CLEAR, "clear sums"}, {JOB_REDUCE, "reduce"},      {JOB_NORM, "norm and hash"},
    {JOB_DECIDE, "decide"},        {JOB_APPLY, "AdamW"},
};

enum { JOBS = sizeof jobs / sizeof *jobs };

static double median_of(const double *seconds, uint32_t steps) {
    double values[STEP_MAX_REPS];
    memcpy(values, seconds, steps * sizeof *values);
    return step_median(values, steps);
}

static double median_seconds(const step_bench *b) { return median_of(b->seconds, b->steps); }

static double tokens_of(const step_bench *b) { return (double)b->model->sequences * (double)b->model->tokens; }

static double median_peak(const step_bench *b) { return median_of(b->peaks, b->steps); }

// Median share of the peak of `cores` cores, each step with its own peak.
static double peak_share(const step_bench *b, const double *seconds, uint64_t cores) {
    double shares[STEP_MAX_REPS], operations = step_operations(b);
    for (uint32_t i = 0; i < b->steps; i++) shares[i] = operations / seconds[i] / (b->peaks[i] * (double)cores);
    return step_median(shares, b->steps);
}

static double milliseconds(const step_bench *b, uint64_t nanoseconds) {
    return (double)nanoseconds * 1e-6 / (double)b->steps;
}

static int longest_first(const void *x, const void *y) {
    uint64_t a = ((const step_loop *)x)->nanoseconds, b = ((const step_loop *)y)->nanoseconds;
    return (a < b) - (a > b);
}

static double shape_share(const step_bench *b, const step_shape *s) {
    return 2.0 * (double)s->m * (double)s->n * (double)s->k / s->seconds / (s->peak * (double)b->threads);
}

// --- text

static void print_shapes(const step_bench *b) {
    double sum = 0;
    printf("\n%-10s %6s %6s %6s %5s %5s %9s %9s %6s\n", "product", "m", "n", "k", "form", "a step", "ms each",
           "GFLOP/s", "peak");
    for (uint32_t i = 0; i < b->shapes; i++) {
        const step_shape *s = &b->shape[i];
        sum += s->seconds * s->per_step;
        printf("%-10s %6zu %6zu %6zu   %c%c  %5u %9.3f %9.1f %5.1f%%\n", s->what, s->m, s->n, s->k,
               s->a_transposed ? 'T' : 'N', s->b_transposed ? 'T' : 'N', s->per_step, s->seconds * 1e3,
               2e-9 * (double)s->m * (double)s->n * (double)s->k / s->seconds, 100 * shape_share(b, s));
    }
    printf("all products of a step, timed separately: %.2f ms\n", sum * 1e3);
}

static void print_text(const step_bench *b, const step_loop *loops) {
    double seconds = median_seconds(b);
    printf("%s, %u x %u tokens, %llu thread%s, %s sums, products by %s\n", b->model->name, b->model->sequences,
           b->model->tokens, (unsigned long long)b->threads, b->threads == 1 ? "" : "s",
           b->reproducible ? "exact" : "fp32", tensor_gemm_name(b->fastest));
    printf("%.0f tokens/s, %.2f ms a step (median of %u), %.1f GFLOP/s: %.1f%% of the peak of %.1f; %.0f MiB at most\n",
           tokens_of(b) / seconds, seconds * 1e3, b->steps, step_operations(b) / seconds * 1e-9,
           100 * peak_share(b, b->seconds, b->threads), median_peak(b) * 1e-9 * (double)b->threads,
           (double)b->peak_memory / (1 << 20));
    printf("%.2f ms of processor time a step: %.1f%% of the peak\n", median_of(b->processor, b->steps) * 1e3,
           100 * peak_share(b, b->processor, 1));
    printf("\n%-36s %9s %6s\n", "part of a step", "ms", "share");
    for (uint32_t i = 0; i < JOBS; i++) {
        double ms = milliseconds(b, b->job_ns[jobs[i].kind]);
        printf("%-36s %9.3f %5.1f%%\n", jobs[i].name, ms, ms / seconds / 10);
    }
    printf("\n%-36s %9s %6s %6s\n", "loops of", "ms", "share", "calls");
    for (uint32_t i = 0; i < b->loops && i < MOST_LINES; i++) {
        double ms = milliseconds(b, loops[i].nanoseconds);
        printf("%-36s %9.3f %5.1f%% %6.0f\n", loops[i].function, ms, ms / seconds / 10,
               (double)loops[i].calls / b->steps);
    }
    if (b->shapes > 0) print_shapes(b);
}

// --- JSON

static void put_shapes(json_out *o, const step_bench *b) {
    json_out_open(o, "products", '[');
    for (uint32_t i = 0; i < b->shapes; i++) {
        const step_shape *s = &b->shape[i];
        json_out_open(o, NULL, '{');
        json_out_string(o, "what", s->what);
        json_out_u64(o, "m", s->m);
        json_out_u64(o, "n", s->n);
        json_out_u64(o, "k", s->k);
        json_out_bool(o, "a_transposed", s->a_transposed);
        json_out_bool(o, "b_transposed", s->b_transposed);
        json_out_u64(o, "per_step", s->per_step);
        json_out_double(o, "seconds", s->seconds);
        json_out_double(o, "peak_share", shape_share(b, s));
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static bool print_json(const step_bench *b, const step_loop *loops) {
    json_out o = {0};
    double seconds = median_seconds(b);
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "model", b->model->name);
    json_out_u64(&o, "threads", b->threads);
    json_out_bool(&o, "reproducible", b->reproducible);
    json_out_string(&o, "gemm", tensor_gemm_name(b->fastest));
    json_out_u64(&o, "steps", b->steps);
    json_out_double(&o, "seconds", seconds);
    json_out_double(&o, "processor_seconds", median_of(b->processor, b->steps));
    json_out_double(&o, "tokens_per_second", tokens_of(b) / seconds);
    json_out_double(&o, "loss", b->loss);
    json_out_double(&o, "peak_flops", median_peak(b));
    json_out_double(&o, "peak_share", peak_share(b, b->seconds, b->threads));
    json_out_u64(&o, "peak_memory", b->peak_memory);
    json_out_open(&o, "parts_ms", '{');
    for (uint32_t i = 0; i < JOBS; i++) json_out_double(&o, jobs[i].name, milliseconds(b, b->job_ns[jobs[i].kind]));
    json_out_close(&o, '}');
    json_out_open(&o, "loops_ms", '{');
    for (uint32_t i = 0; i < b->loops; i++)
        json_out_double(&o, loops[i].function, milliseconds(b, loops[i].nanoseconds));
    json_out_close(&o, '}');
    if (b->shapes > 0) put_shapes(&o, b);
    return figures_print_line(&o);
}

bool step_print(const step_bench *b) {
    step_loop loops[STEP_MAX_LOOPS];
    memcpy(loops, b->loop, b->loops * sizeof *loops);
    qsort(loops, b->loops, sizeof *loops, longest_first);
    if (b->json) return print_json(b, loops);
    print_text(b, loops);
    return true;
}
