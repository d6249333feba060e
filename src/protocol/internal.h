// All parts of the protocol, for the files that stand above them (src/protocol/*.c) and for tests.
// No folder below includes it.
#ifndef BRAID_PROTOCOL_INTERNAL_H
#define BRAID_PROTOCOL_INTERNAL_H

#include "protocol/leader/leader.h"

// ---- heartbeat.c --------------------------------------------------------------------------------
void send_heartbeat(peer *p, uint32_t index);
void on_heartbeat(peer *p, uint32_t from, const message *msg);

// ---- work.c -------------------------------------------------------------------------------------
void work_next(peer *p);
void work_done(peer *p, const job_result *r);

// ---- events.c -----------------------------------------------------------------------------------
void events_handle(peer *p, const core_change *c);

#endif
