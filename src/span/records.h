// State records of the peers of a serving swarm (format/peer_state.h), with the time of each state.
// A peer that is suspected or forgotten moves to the former ones, with the reason that its link gave.
#ifndef BRAID_SPAN_RECORDS_H
#define BRAID_SPAN_RECORDS_H

#include "format/json.h"
#include "session/session.h"

enum { RECORDS_MAX_GONE = 32, RECORDS_REASON = 128 };

typedef struct span_records span_records;

// Properties of this peer that decide the states of the others.
typedef struct records_own {
    bool origin;  // it has the API
    braid_hash model, kernels;
} records_own;

span_records *span_records_new(void);  // NULL: no memory
void span_records_free(span_records *r);
// Compares the view with the records; call it a few times a second.
void span_records_look(span_records *r, const session_view *view, const records_own *own, uint64_t now_ns);
// The link of a peer fell.
void span_records_fell(span_records *r, const braid_id *id, const char *reason);
// Adds the members `peers` and `gone` to the open object.
void span_records_put(const span_records *r, const session_view *view, json_out *o, uint64_t now_ns);

#endif
