// What goes into the core and what comes out of it, a line each, for those who hunt a fault.
#ifndef BRAID_NODE_TRACE_H
#define BRAID_NODE_TRACE_H

#include "protocol/peer.h"

#include <stdio.h>

// `start_ns`: the zero of the times written.
void trace_event(FILE *out, uint64_t start_ns, uint64_t now_ns, const event *e);
// `scratch`: a message to decode into.
void trace_effect(FILE *out, const effect *e, message *scratch);

#endif
