// A training run as the page, /metrics and `braid status` show it: its state from the events so far,
// and its history in bounded memory.
//
// The run's thread calls run_board_tell; any thread calls the others.
#ifndef BRAID_CLI_RUN_BOARD_H
#define BRAID_CLI_RUN_BOARD_H

#include "cli/report.h"

typedef struct run_board run_board;

enum {
    BOARD_MAX_POINTS = 4096,  // losses; above, the older ones become sparse
    BOARD_MAX_MARKS = 768,    // of the timeline; the oldest are dropped
    BOARD_MAX_GONE = 32,      // peers that left or were lost; the oldest are dropped
};

run_board *run_board_new(void);  // NULL: out of memory
void run_board_free(run_board *b);
// `seconds` since 1970.
void run_board_tell(run_board *b, const report_event *event, double seconds);

// For http_run (http/server.h).
char *run_board_state(void *board);
char *run_board_history(void *board, uint64_t from, uint64_t *next);
char *run_board_metrics(void *board);
bool run_board_ready(void *board, char blocker[128]);

#endif
