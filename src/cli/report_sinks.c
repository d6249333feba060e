#include "cli/report_sinks.h"

#include "cli/run_page.h"
#include "cli/tfevents.h"
#include "wire/limits.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PATH = 1024, TIME_TEXT = 64 };

struct report_sinks {
    FILE *events;  // NULL: none, or no longer
    tfevents *board;
    run_page *page;
    char path[MOST_PATH];
    uint64_t repairs, killed, iteration;
    int64_t peers;
};

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static braid_err open_events(report_sinks *s, const char *path, braid_error *error) {
    if (strlen(path) >= sizeof s->path)
        return braid_fail(error, BRAID_LIMIT, "--events %.100s...: the path is too long", path);
    strcpy(s->path, path);
    s->events = fopen(path, "ae");
    if (s->events) return BRAID_OK;
    return braid_fail(error, BRAID_IO, "--events: cannot open %s: %s; name a file in a directory that you can write to",
                      path, strerror(errno));
}

braid_err report_sinks_open(const report_sink_paths *paths, report_sinks **out, braid_error *error) {
    bool lines = paths->events && *paths->events, board = paths->tensorboard && *paths->tensorboard;
    *out = NULL;
    if (!lines && !board && !paths->page) return BRAID_OK;
    report_sinks *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for the events");
    braid_err err = lines ? open_events(s, paths->events, error) : BRAID_OK;
    if (!err && board) err = tfevents_open(paths->tensorboard, &s->board, error);
    if (!err && paths->page) err = run_page_open(paths->page, paths->page_keys, &s->page, error);
    if (err)
        report_sinks_free(s);
    else
        *out = s;
    return err;
}

void report_sinks_free(report_sinks *s) {
    if (!s) return;
    if (s->events) fclose(s->events);
    tfevents_close(s->board);
    run_page_close(s->page);
    free(s);
}

const char *report_sinks_page(const report_sinks *s) { return s && s->page ? run_page_address(s->page) : NULL; }

// --- JSON lines

// The line of --json, with the time: seconds since 1970.
static braid_err tell_events(report_sinks *s, const report_event *event, double now, braid_error *error) {
    char line[REPORT_MAX_LINE], time[TIME_TEXT];
    size_t length = report_to_json(event, line);
    snprintf(time, sizeof time, ",\"time\":%.3f}\n", now);
    errno = 0;
    fwrite(line, 1, length - 1, s->events);
    fputs(time, s->events);
    if (fflush(s->events) == 0 && !ferror(s->events)) return BRAID_OK;
    int why = errno;
    fclose(s->events);
    s->events = NULL;
    return braid_fail(error, why == ENOSPC ? BRAID_FULL : BRAID_IO,
                      "cannot write the events to %s: %s; the run goes on without that file", s->path, strerror(why));
}

// --- TensorBoard

static void count(report_sinks *s, const report_event *e) {
    bool standby = strcmp(e->role, "shadow") == 0;
    switch (e->kind) {
    case REPORT_REPAIR: s->repairs++; break;
    case REPORT_KILLED: s->killed++; break;
    case REPORT_JOINED: s->peers += !standby; break;
    case REPORT_PROMOTED: s->peers++; break;
    case REPORT_LEFT:
    case REPORT_EXPELLED: s->peers -= !standby && s->peers > 0; break;
    case REPORT_ITERATION: s->iteration = e->iteration; break;
    case REPORT_ROLLED_BACK: s->iteration = e->iteration; break;
    default: break;
    }
}

static void tell_iteration(report_sinks *s, const report_event *e, double now) {
    const struct {
        const char *tag;
        double value;
    } scalars[] = {
        {"loss/train", e->loss},
        {"train/learning_rate", e->learning_rate},
        {"train/gradient_norm", e->norm},
        {"train/tokens_per_second", e->tokens_per_second},
        {"swarm/peers", s->peers > 0 ? (double)s->peers : NAN},
        {"swarm/repairs", (double)s->repairs},
        {"swarm/killed", (double)s->killed},
    };
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        tfevents_scalar(s->board, now, e->iteration, scalars[i].tag, scalars[i].value);
}

static braid_err tell_board(report_sinks *s, const report_event *e, double now, braid_error *error) {
    if (e->kind == REPORT_ITERATION)
        tell_iteration(s, e, now);
    else if (e->kind == REPORT_EVAL)
        tfevents_scalar(s->board, now, e->iteration, "loss/held_out", e->loss);
    else
        return BRAID_OK;
    braid_error why;
    if (!tfevents_flush(s->board, &why)) return BRAID_OK;
    tfevents_close(s->board);
    s->board = NULL;
    return braid_fail(error, why.code, "%.400s; the run goes on without TensorBoard", why.text);
}

braid_err report_sinks_tell(report_sinks *s, const report_event *event, braid_error *error) {
    double now = seconds_now();
    braid_error second;
    count(s, event);
    if (s->page) run_page_tell(s->page, event, now);
    braid_err err = s->events ? tell_events(s, event, now, error) : BRAID_OK;
    braid_err other = s->board ? tell_board(s, event, now, err ? &second : error) : BRAID_OK;
    return err ? err : other;
}
