// Shared by the oracles of T2: the presence of peers, transfer times, and the paths of the search.
#ifndef BRAID_BENCH_TRAINING_T2_INSIDE_H
#define BRAID_BENCH_TRAINING_T2_INSIDE_H

#include "bench/training/pipeline.h"
#include "bench/training/t2.h"

enum {
    T2_LENGTH = T2_STAGES + 1,  // visits of a path, with both of the data peer
    T2_WAYS = T2_DATA * T2_MICROBATCHES,
};

typedef struct t2_search {
    pipeline p;
    pipeline_peer peer[T2_PEERS];
    int64_t latency_ns[T2_PEERS * T2_PEERS], transfer_ns[T2_PEERS * T2_PEERS];
    uint32_t path[T2_WAYS * T2_LENGTH], back[T2_WAYS * T2_LENGTH];
    int64_t passed_ns[T2_WAYS * 2 * T2_LENGTH], until_ns[T2_PEERS];
    bool sum_dies[T2_PEERS];
    // members present from beginning to end come first
    uint32_t member[T2_STAGES][T2_PEERS], members[T2_STAGES];
    uint32_t stay[T2_STAGES];                                  // number of these
    uint32_t who[T2_PEERS];  // by their place in the schedule
    void *schedule;
} t2_search;

braid_err t2_search_open(const scenario *s, const t2_presence *there, t2_search **out, braid_error *error);
void t2_search_close(t2_search *q);
// Sets the present peers; forwarders are chosen again.
void t2_search_set(t2_search *q, const scenario *s, const t2_presence *there);
// A stage without members; T2_STAGES: none.
uint32_t t2_search_empty(const t2_search *q);
// The paths that braid's data peers would plan with knowledge of every line
// (routing/schedule/schedule.h), and their time if it is less than `least`.
braid_err t2_search_schedule(t2_search *q, const scenario *s, int64_t *least, braid_error *error);

#endif
