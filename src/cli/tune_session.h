// Tuning with the layers of a serving swarm (`braid tune --session TICKET`), or with those of child
// processes (`--relays N`).
#ifndef BRAID_CLI_TUNE_SESSION_H
#define BRAID_CLI_TUNE_SESSION_H

#include "span/tuner.h"

typedef struct tune_session tune_session;

typedef struct tune_session_config {
    const char *ticket;  // NULL: `relays` child processes on this machine hold the layers
    uint32_t relays;
    uint64_t threads, max_memory;  // of each of them; 0: the default
    const char *path;
    const model_file *file;  // borrowed
    void *context;
    void (*note)(void *context, const char *text);  // from another thread
    bool (*stops)(void *context);
} tune_session_config;

// BRAID_ARGUMENT: the ticket is of something else. Free with tune_session_close, also after an error.
braid_err tune_session_open(const tune_session_config *config, tune_session **out, braid_error *error);
const tune_remote *tune_session_remote(const tune_session *s);  // NULL for NULL
// Notes what travelled.
void tune_session_tell(const tune_session *s);
void tune_session_close(tune_session *s);

#endif
