// The state record of a peer: one form for training runs and serving swarms, in /v1/swarm, on the
// page and in `braid status`.
#ifndef BRAID_FORMAT_PEER_STATE_H
#define BRAID_FORMAT_PEER_STATE_H

#include "format/json.h"

enum { PEER_STATE_LINE = 512 };

// Texts are borrowed; NULL and "" mean the same.
typedef struct peer_state {
    const char *id;         // hexadecimal, or any part of it from the start
    const char *state;      // one or two words: "working", "unresponsive", "draining"
    const char *blocker;    // why it does no work; "": nothing hinders it
    const char *waits_for;  // the event or process that removes the blocker
    double since_s;         // seconds in this state, negative: not known
    const char *next_step;  // the next event, or the command that helps
} peer_state;

// Adds the record's members to the open object: id, state, blocker, waiting_for, since_s, next_step.
// Empty ones are left out.
void peer_state_put(json_out *o, const peer_state *s);
// Reads them from an object; absent members are NULL, and since_s is -1.
void peer_state_get(const json *document, const json_value *object, peer_state *out);
// "unresponsive for 3 s: it does not answer; waiting for its link; next: the leader removes it".
// Control characters become '?'. Longer texts are cut.
void peer_state_line(const peer_state *s, char line[PEER_STATE_LINE]);

#endif
