// The replicated state of the run.
#include "protocol/internal.h"

bool run_is_complete(const peer *p) { return p->end_index != 0 || (p->has_final && p->final.u.final.last); }

bool run_goes_on(const peer *p) { return p->run_started && !run_is_complete(p); }

// Words about what is computed. What log, votes and routes say does not go back.
static bool speaks_of_work(uint8_t kind) {
    switch (kind) {
    case MESSAGE_HEARTBEAT: case MESSAGE_GET_LOG: case MESSAGE_LOG: case MESSAGE_JOIN: case MESSAGE_LEAVE: case MESSAGE_ROUTE: case MESSAGE_VIEW:
        return false;
    default:
        return kind < MESSAGE_VOTE;
    }
}

bool rollback_is_past(const peer *p, const message *msg) { return msg->log_position < p->past.fence && !peer_breaks(p, PEER_MUTANT_HEARS_THE_PAST); }

bool rollback_outdates(const peer *p, const message *msg) { return rollback_is_past(p, msg) && speaks_of_work(msg->kind); }
