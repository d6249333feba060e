// The page of a run (--page): an HTTP server over a board of its events.
#ifndef BRAID_CLI_RUN_PAGE_H
#define BRAID_CLI_RUN_PAGE_H

#include "cli/report.h"

#define RUN_PAGE_ADDRESS "127.0.0.1:8080"

typedef struct run_page run_page;

// `address` is "PORT", "HOST:PORT" or "" for RUN_PAGE_ADDRESS; port 0 is any free one. `keys` is a
// file of bearer keys, NULL or "": none, which only loopback addresses allow. BRAID_CONFIG: an
// unsuited address or file. BRAID_IO: the address is in use. Free with run_page_close.
braid_err run_page_open(const char *address, const char *keys, run_page **out, braid_error *error);
// "http://127.0.0.1:8080"
const char *run_page_address(const run_page *p);
void run_page_tell(run_page *p, const report_event *event, double seconds);
void run_page_close(run_page *p);

// Splits "PORT", "HOST:PORT" or "[HOST]:PORT"; an absent host is 127.0.0.1.
braid_err run_page_split(const char *address, char host[256], uint16_t *port, braid_error *error);

#endif
