// Files that get the events of a run beside its output: JSON lines (--events FILE) and TensorBoard
// (--tensorboard DIR).
#ifndef BRAID_CLI_REPORT_SINKS_H
#define BRAID_CLI_REPORT_SINKS_H

#include "cli/report.h"

typedef struct report_sinks report_sinks;

// Flags of a verb; NULL or "": none. `tensorboard` is a directory.
typedef struct report_sink_paths {
    const char *events, *tensorboard;
} report_sink_paths;

// Rows of an option table for the two flags.
#define REPORT_SINK_OPTIONS(paths)                                                                    \
    {"events",                                                                                        \
     OPTION_TEXT,                                                                                     \
     &(paths).events,                                                                                 \
     .unit = "FILE",                                                                                  \
     .help = "append each event to this file as a JSON line, for braid plot",                         \
     .fallback = "no file"},                                                                          \
    {                                                                                                 \
        "tensorboard", OPTION_TEXT, &(paths).tensorboard,                                             \
            .unit = "DIR", .help = "write losses, rates and peers to this directory for TensorBoard", \
            .fallback = "no directory"                                                                \
    }

// Opens the named files. *out is NULL if there are none.
braid_err report_sinks_open(const report_sink_paths *paths, report_sinks **out, braid_error *error);
// From now on each event of the report goes to the sinks, which the report frees.
void report_also(report *r, report_sinks *sinks);
// Writes one event. A file that cannot be written is closed; then `error` says so, once (BRAID_IO,
// BRAID_FULL).
braid_err report_sinks_tell(report_sinks *s, const report_event *event, braid_error *error);
void report_sinks_free(report_sinks *s);

#endif
