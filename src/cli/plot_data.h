// The events of a run as series, for a picture.
#ifndef BRAID_CLI_PLOT_DATA_H
#define BRAID_CLI_PLOT_DATA_H

#include "base/err.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum plot_axis {
    PLOT_ITERATIONS,
    PLOT_TIME,  // seconds since the first event
} plot_axis;

typedef struct plot_point {
    double x, y;
    bool breaks;  // no line from the point before: the run went back to a checkpoint
} plot_point;

typedef struct plot_series {
    plot_point *point;
    size_t count, capacity;
} plot_series;

typedef enum plot_mark_kind {
    PLOT_REPAIR,
    PLOT_KILLED,
    PLOT_LOST,
    PLOT_ROLLED_BACK,
    PLOT_CHECKPOINT,
    PLOT_MARKS
} plot_mark_kind;

typedef struct plot_data {
    plot_axis axis;
    char name[64];
    uint64_t parameters, iteration, of;
    uint32_t stages;  // with peers
    plot_series loss, held_out, speed, peers[WIRE_MAX_STAGES], mark[PLOT_MARKS];
    double first_x, last_x;
    uint64_t lines, other_lines;  // read; of these without an event, as a file cut short has
} plot_data;

// Reads JSON lines to the end of the file. Refuses a file without an iteration (BRAID_FORMAT), and
// the time axis where lines have no time (BRAID_STATE). Free with plot_data_free, after an error
// too.
braid_err plot_data_read(FILE *in, const char *path, plot_axis axis, plot_data *out, braid_error *error);
void plot_data_free(plot_data *d);

// Draws all series. An error of the file is left to ferror.
void plot_svg(const plot_data *d, FILE *out);

#endif
