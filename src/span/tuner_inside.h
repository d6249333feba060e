// Shared by the files of a tuning client:
//
//     tuner.c        calls of the caller's thread, start, end
//     tuner_path.c   the peers that compute, on the loop's thread
#ifndef BRAID_SPAN_TUNER_INSIDE_H
#define BRAID_SPAN_TUNER_INSIDE_H

#include "node/address.h"
#include "span/tuner.h"
#include "span/tuning.h"

#include <pthread.h>

enum { TUNER_MAX_AVOIDED = 64 };

typedef enum tuner_kind { TUNER_FORWARD, TUNER_BACKWARD, TUNER_END } tuner_kind;

typedef enum tuner_state {
    TUNER_IDLE,
    TUNER_ASKED,
    TUNER_TAKEN,  // the loop's thread works on it
    TUNER_DONE,
} tuner_state;

typedef struct tuner_request {
    tuner_kind kind;
    tuner_state state;
    bool keep, stops;  // stops: it is to end without a result
    const float *dy;   // of the last layer
    float *out;        // of a forward pass
    braid_error error;
} tuner_request;

// A peer that computes layers [begin, end).
typedef struct tuner_hop {
    braid_id id;
    uint32_t begin, end;
    bool adapted;  // it has the iteration's adapter, under `session`
    uint64_t session;
    float *x;  // [rows, dim] its input; memory of its own
} tuner_hop;

typedef struct tuner_avoided {
    braid_id id;
    uint64_t until_ns;
} tuner_avoided;

struct tuner {
    tuner_config config;
    tune_remote remote;
    span_peer *peer;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    // under `lock`
    tuner_request request;
    bool ended;
    braid_error failed;
    tuner_counts counts;
    // set by the caller's thread while no request is under way
    adapter_config adapter;
    uint32_t sequences, tokens, layers;
    size_t rows, dim, layer_parameters;
    const float *parameters, *x;
    const uint32_t *documents;
    float *scratch;  // [layers * layer_parameters] the gradient of one microbatch
    braid_hash kernels;
    // of the loop's thread
    tuner_hop hop[TUNER_MAX_HOPS];
    uint32_t hops;  // 0: no path is chosen
    uint32_t at;    // the hop that computes
    bool computing, back;
    uint32_t serial;
    uint64_t sessions;
    float *dy;          // [rows, dim] of the hop that computes
    uint64_t waits_ns;  // without a path since; 0: it has one
    char refused[TUNING_TEXT];
    tuner_avoided avoided[TUNER_MAX_AVOIDED];
    uint32_t avoid_next;
};

// --- tuner.c
// Ends the request under way. NULL: it has its result.
void tuner_done(tuner *t, const braid_error *error);

// --- tuner_path.c
void tuner_begin(tuner *t);
void tuner_stop(tuner *t);
void tuner_tick(tuner *t);

#endif
