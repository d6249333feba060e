// Counters for /metrics in Prometheus' text form (version 0.0.4).
#ifndef BRAID_HTTP_METRICS_H
#define BRAID_HTTP_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

enum { METRICS_ROUTES = 32, METRICS_BUCKETS = 12 };

// Counts of observations up to each bound (metrics.c), the last one without a bound.
typedef struct histogram {
    atomic_uint_fast64_t count[METRICS_BUCKETS + 1];
    atomic_uint_fast64_t sum_us;
} histogram;

typedef struct metrics {
    atomic_uint_fast64_t requests[METRICS_ROUTES][6];  // by route and class of the status, 1 to 5
    atomic_uint_fast64_t left;                         // clients that left before the end of their answer
    atomic_uint_fast64_t slow;                         // streams that were cut because of their reader
    histogram first_token, whole;
} metrics;

struct exchange;

void histogram_add(histogram *h, uint64_t ns);
// Counts a request that has ended.
void metrics_request(metrics *m, struct exchange *x);

#endif
