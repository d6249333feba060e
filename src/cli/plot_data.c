#include "cli/plot_data.h"

#include "cli/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 2 * REPORT_MAX_LINE };

typedef struct reading {
    plot_data *data;
    uint32_t live[WIRE_MAX_STAGES];
    double x, began;  // of the newest event; time of the first one
    uint64_t iteration;
    bool timed, went_back;
} reading;

static braid_err add(plot_series *s, double x, double y, bool breaks, braid_error *error) {
    if (!isfinite(y)) return BRAID_OK;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 64;
        plot_point *point = realloc(s->point, capacity * sizeof *point);
        if (!point) return braid_fail(error, BRAID_MEMORY, "no memory for the picture");
        s->point = point;
        s->capacity = capacity;
    }
    s->point[s->count++] = (plot_point){.x = x, .y = y, .breaks = breaks};
    return BRAID_OK;
}

static double time_of(const char *line, size_t length) {
    json_t *root = json_loadb(line, length, 0, NULL);
    const json_t *time = json_object_get(root, "time");
    double seconds = json_is_number(time) ? json_number_value(time) : NAN;
    json_decref(root);
    return seconds;
}

static void move(reading *r, const report_event *e, double time) {
    if (isfinite(time) && !r->timed) {
        r->began = time;
        r->timed = true;
    }
    if (e->kind == REPORT_ITERATION) r->iteration = e->iteration;
    if (r->data->axis == PLOT_TIME) {
        if (isfinite(time)) r->x = fmax(r->x, time - r->began);
        return;
    }
    r->x = (double)r->iteration;
}

static braid_err add_iteration(reading *r, const report_event *e, braid_error *error) {
    plot_data *d = r->data;
    bool back = d->axis == PLOT_ITERATIONS && r->went_back;
    r->went_back = false;
    d->iteration = e->iteration;
    d->of = e->of;
    braid_err err = add(&d->loss, r->x, e->loss, back, error);
    return err ? err : add(&d->speed, r->x, e->tokens_per_second, back, error);
}

static braid_err count_peer(reading *r, const report_event *e, int change, braid_error *error) {
    if (e->stage >= WIRE_MAX_STAGES || strcmp(e->role, "shadow") == 0) return BRAID_OK;
    uint32_t *live = &r->live[e->stage];
    if (change > 0) (*live)++;
    if (change < 0 && *live > 0) (*live)--;
    if (e->stage >= r->data->stages) r->data->stages = (uint32_t)e->stage + 1;
    return add(&r->data->peers[e->stage], r->x, *live, false, error);
}

static braid_err mark(reading *r, plot_mark_kind kind, braid_error *error) {
    return add(&r->data->mark[kind], r->x, 0, false, error);
}

static braid_err take(reading *r, const report_event *e, braid_error *error) {
    plot_data *d = r->data;
    braid_err err = BRAID_OK;
    switch (e->kind) {
    case REPORT_STARTED:
        snprintf(d->name, sizeof d->name, "%s", e->name);
        d->parameters = e->parameters;
        return BRAID_OK;
    case REPORT_ITERATION: return add_iteration(r, e, error);
    case REPORT_EVAL:
        return add(&d->held_out, d->axis == PLOT_TIME ? r->x : (double)e->iteration, e->loss, false, error);
    case REPORT_REPAIR: return mark(r, PLOT_REPAIR, error);
    case REPORT_KILLED: return mark(r, PLOT_KILLED, error);
    case REPORT_JOINED:
    case REPORT_PROMOTED: return count_peer(r, e, 1, error);
    case REPORT_LEFT: return count_peer(r, e, -1, error);
    case REPORT_EXPELLED: err = mark(r, PLOT_LOST, error); return err ? err : count_peer(r, e, -1, error);
    case REPORT_ROLLED_BACK: r->went_back = true; return mark(r, PLOT_ROLLED_BACK, error);
    case REPORT_CHECKPOINT: return e->failed ? BRAID_OK : mark(r, PLOT_CHECKPOINT, error);
    default: return BRAID_OK;
    }
}

static braid_err take_line(reading *r, const char *line, size_t length, braid_error *error) {
    report_event e;
    braid_error why;
    r->data->lines++;
    if (report_from_json(line, length, &e, &why)) {
        r->data->other_lines++;
        return BRAID_OK;
    }
    move(r, &e, r->data->axis == PLOT_TIME ? time_of(line, length) : NAN);
    return take(r, &e, error);
}

static void stretch(plot_data *d) {
    const plot_series *all[] = {&d->loss, &d->held_out};
    d->first_x = INFINITY;
    d->last_x = -INFINITY;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < all[i]->count; k++) {
            d->first_x = fmin(d->first_x, all[i]->point[k].x);
            d->last_x = fmax(d->last_x, all[i]->point[k].x);
        }
    if (!(d->last_x > d->first_x)) d->last_x = d->first_x + 1;
}

braid_err plot_data_read(FILE *in, const char *path, plot_axis axis, plot_data *out, braid_error *error) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    *out = (plot_data){.axis = axis};
    reading r = {.data = out};
    braid_err err = BRAID_OK;
    while (!err && (length = getline(&line, &capacity, in)) >= 0) {
        if (length > 0 && line[length - 1] == '\n') length--;
        if (length > MOST_LINE)
            out->lines++, out->other_lines++;
        else if (length > 0)
            err = take_line(&r, line, (size_t)length, error);
    }
    free(line);
    if (!err && ferror(in)) err = braid_fail(error, BRAID_IO, "cannot read %s", path);
    if (!err && out->loss.count == 0)
        err = braid_fail(error, BRAID_FORMAT,
                         "%s has no iteration with a loss; give a file of --events, or the output of --json", path);
    if (!err && axis == PLOT_TIME && !r.timed)
        err = braid_fail(error, BRAID_STATE,
                         "the events of %s have no times, as those of --events have; leave out --time", path);
    stretch(out);
    return err;
}

void plot_data_free(plot_data *d) {
    free(d->loss.point);
    free(d->held_out.point);
    free(d->speed.point);
    for (size_t i = 0; i < WIRE_MAX_STAGES; i++) free(d->peers[i].point);
    for (size_t i = 0; i < PLOT_MARKS; i++) free(d->mark[i].point);
}
