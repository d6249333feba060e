// Writes each event into the core and each effect out of it as a line, for debugging.
#ifndef BRAID_NODE_TRACE_H
#define BRAID_NODE_TRACE_H

#include "braid/peer.h"

#include <stdio.h>

// Times are written relative to `start_ns`.
void trace_event(FILE *out, uint64_t start_ns, uint64_t now_ns, const event *e);
// `scratch` is a buffer for decoding a message.
void trace_effect(FILE *out, const effect *e, message *scratch);

#endif
