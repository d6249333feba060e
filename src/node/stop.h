// One policy for the signals that end a process or make it save: SIGINT, SIGTERM, SIGHUP and
// SIGUSR1 (docs/user-guide.md, Stopping).
//
// The first of INT, TERM and HUP asks for an orderly end. Those that follow within STOP_AGAIN_MS
// are copies of the same request: a terminal, a service manager and a parent process may each
// deliver one. A later one ends the process at once. Both ends have a limit that holds even if the
// event loop is stuck: SIGALRM ends the process with code 1. No part of this relies on a signal's
// default action, which process 1 of a container does not have.
//
// Signal dispositions belong to the process, so this state does too; all other state of a node is
// in the node.
#ifndef BRAID_NODE_STOP_H
#define BRAID_NODE_STOP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    STOP_AGAIN_MS = 400,      // signals within this time after the first are copies of one request
    STOP_AT_ONCE_S = 1,       // limit from the second request to the end of the process
    // Beyond the limit of an orderly end, so that a working event loop can report why the limit was
    // not enough.
    STOP_GRACE_S = 5,
    // For the current iteration; after that it is dropped, and the state before it is saved.
    STOP_FINISH_MS = 5000,
};

#define STOP_WITHIN_NS UINT64_C(60000000000)  // limit of an orderly end unless --stop-within sets another

typedef struct stop_config {
    const char *verb;
    uint64_t within_ns;  // limit of an orderly end
    // The parent process decides: SIGINT and SIGHUP do nothing, and requests have no limit here.
    bool supervised;
} stop_config;

// Installs the handlers; call it before any long operation. An ignored SIGHUP (nohup) stays
// ignored.
braid_err stop_watch(const stop_config *config, braid_error *error);
// For a process without an orderly end: lets these signals end it even as process 1.
void stop_watch_as_first(void);
// Starts the limit of stop_config without a signal.
void stop_limit(void);

// The signal of the first request, 0: none yet.
int stop_requested(void);
// "SIGTERM", ...
const char *stop_signal_name(int number);
// Whether a second request came.
bool stop_at_once(void);
// Whether SIGUSR1 came since the last call.
bool stop_take_save(void);
// How long the iteration under way may still take after the first request.
uint64_t stop_finish_ns(uint64_t within_ns);

// Becomes readable with each signal; never closed. stop_clear empties it.
int stop_descriptor(void);
void stop_clear(void);

#endif
