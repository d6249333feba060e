// Receivers of a run's events beside its output: JSON lines (--events FILE), TensorBoard
// (--tensorboard DIR) and the page (--page).
#ifndef BRAID_CLI_REPORT_SINKS_H
#define BRAID_CLI_REPORT_SINKS_H

#include "cli/report.h"

typedef struct report_sinks report_sinks;

// Flags of a verb; NULL or "": none. `tensorboard` is a directory. `page` is an address, NULL: no
// page, "": the usual address.
typedef struct report_sink_paths {
    const char *events, *tensorboard, *page, *page_keys;
} report_sink_paths;

// Rows of an option table for these flags.
#define REPORT_SINK_OPTIONS(paths)                                                                                  \
    {"events",                                                                                                      \
     OPTION_TEXT,                                                                                                   \
     &(paths).events,                                                                                               \
     .unit = "FILE",                                                                                                \
     .help = "append each event to this file as a JSON line, for braid plot",                                       \
     .fallback = "no file"},                                                                                        \
        {"tensorboard",                                                                                             \
         OPTION_TEXT,                                                                                               \
         &(paths).tensorboard,                                                                                      \
         .unit = "DIR",                                                                                             \
         .help = "write losses, rates and peers to this directory for TensorBoard",                                 \
         .fallback = "no directory"},                                                                               \
        {"page",                                                                                                    \
         OPTION_ADDRESS,                                                                                            \
         &(paths).page,                                                                                             \
         .unit = "[HOST:PORT]",                                                                                     \
         .help = "show the run on a web page at this address (127.0.0.1:8080), with /metrics",                      \
         .fallback = "no page"},                                                                                    \
    {                                                                                                               \
        "page-keys", OPTION_TEXT, &(paths).page_keys, .unit = "FILE",                                               \
                                                      .help = "bearer keys for the page, one a line: LABEL SECRET", \
                                                      .fallback = "none, which only a loopback address allows"      \
    }

// Opens the named files. *out is NULL if there are none.
braid_err report_sinks_open(const report_sink_paths *paths, report_sinks **out, braid_error *error);
// From now on each event of the report goes to the sinks, which the report frees.
void report_also(report *r, report_sinks *sinks);
// Writes one event. A file that cannot be written is closed; then `error` says so, once (BRAID_IO,
// BRAID_FULL).
braid_err report_sinks_tell(report_sinks *s, const report_event *event, braid_error *error);
// "http://127.0.0.1:8080", NULL: there is no page.
const char *report_sinks_page(const report_sinks *s);
void report_sinks_free(report_sinks *s);

#endif
