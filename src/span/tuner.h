// A client of a serving swarm for tuning (docs/session-tuning.md). It has the
// ends of the model and the adapter; peers compute the layers and keep nothing. A
// microbatch of a lost peer is computed again with a substitute, with the same bits.
#ifndef BRAID_SPAN_TUNER_H
#define BRAID_SPAN_TUNER_H

#include "span/peer.h"
#include "tune/base.h"

enum {
    TUNER_WAIT_MS = 120000,  // for layers that no peer computes, until tuning fails
    TUNER_MAX_HOPS = 64,
};

typedef struct tuner_config {
    const identity *identity;  // borrowed, as all pointers
    const model_file *file;
    const char *path;
    ticket join;
    uint64_t wait_ns;  // 0: TUNER_WAIT_MS
    void *context;
    void (*note)(void *context, const char *text);  // from a thread of its own
    bool (*stops)(void *context);                   // asked while a call waits; true ends it (BRAID_STATE)
} tuner_config;

typedef struct tuner_counts {
    uint64_t redone;  // microbatches
    uint64_t sent_bytes, received_bytes;
} tuner_counts;

// Joins the swarm of the ticket. Free with tuner_free.
braid_err tuner_new(const tuner_config *config, tuner **out, braid_error *error);
void tuner_free(tuner *t);
// For tune_base_config; valid until tuner_free.
const tune_remote *tuner_remote(const tuner *t);
void tuner_look(tuner *t, tuner_counts *out);

#endif
