// A timeline in Chrome's trace format, which Perfetto opens: a track per peer with its jobs, an
// arrow per microbatch through its forward and backward slices, a span per tensor in transfer, a
// mark per fault.
#include "sim/swarm/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS_PID = 1, TENSORS_PID = 2 };

// An arrow is drawn from point to point. The newest point is held back, because the last one is
// marked.
typedef struct arrow {
    uint64_t iteration, at_ns;
    uint32_t peer;
    bool held, begun;
} arrow;

struct timeline {
    FILE *file;
    char path[512];
    bool any;
    arrow *arrow;  // [microbatches]
};

// Begins one event; microseconds with three decimals are exact nanoseconds.
static FILE *event_open(timeline *t, const char *phase, uint32_t pid, uint32_t tid, uint64_t at_ns) {
    uint64_t ns = at_ns - SWARM_BEGIN_NS;
    fprintf(t->file, "%s\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u", t->any ? "," : "", phase, pid, tid, ns / 1000, (unsigned)(ns % 1000));
    t->any = true;
    return t->file;
}

static void text_put(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', file);
        if ((unsigned char)*text >= ' ') fputc(*text, file);
    }
}

static void name_track(timeline *t, const char *what, uint32_t pid, uint32_t tid, const char *name) {
    FILE *file = event_open(t, "M", pid, tid, SWARM_BEGIN_NS);
    fprintf(file, ",\"name\":\"%s\",\"args\":{\"name\":\"", what);
    text_put(file, name);
    fputs("\"}}", file);
}

braid_err timeline_open(swarm *w, const char *path, timeline **out, braid_error *error) {
    timeline *t = calloc(1, sizeof *t);
    BRAID_ALLOCATED(t, sizeof *t);
    t->file = fopen(path, "w");
    if (!t->file) {
        free(t);
        return braid_fail(error, BRAID_IO, "the timeline %s cannot be written: %s", path, strerror(errno));
    }
    snprintf(t->path, sizeof t->path, "%s", path);
    t->arrow = calloc(w->s->microbatches, sizeof *t->arrow);
    BRAID_ALLOCATED(t->arrow, w->s->microbatches * sizeof *t->arrow);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", t->file);
    name_track(t, "process_name", PEERS_PID, 0, "peers");
    name_track(t, "process_name", TENSORS_PID, 0, "tensors on their way");
    name_track(t, "thread_name", PEERS_PID, 0, "the swarm");
    for (uint32_t i = 0; i < w->peers; i++) {
        name_track(t, "thread_name", PEERS_PID, i + 1, w->peer[i].name);
        fprintf(event_open(t, "M", PEERS_PID, i + 1, SWARM_BEGIN_NS), ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}", i + 1);
    }
    if (fflush(t->file) == 0) {
        *out = t;
        return BRAID_OK;
    }
    // a full disk is noticed before hours are simulated
    braid_fail(error, BRAID_IO, "the timeline %s cannot be written: %s", path, strerror(errno));
    fclose(t->file);
    free(t->arrow);
    free(t);
    return BRAID_IO;
}

// ---- arrows

static void arrow_point(const swarm *w, const arrow *a, uint32_t m, const char *phase) {
    uint64_t id = a->iteration * w->s->microbatches + m + 1;
    fprintf(event_open(w->timeline, phase, PEERS_PID, a->peer + 1, a->at_ns), ",\"name\":\"microbatch\",\"cat\":\"microbatch\",\"id\":%" PRIu64 ",\"bp\":\"e\"}", id);
}

static void arrow_end(const swarm *w, uint32_t m) {
    arrow *a = &w->timeline->arrow[m];
    if (a->begun) arrow_point(w, a, m, "f");
    *a = (arrow){0};
}

static void arrow_on(const swarm *w, uint32_t number, const job *work, uint64_t at_ns) {
    if (work->m >= w->s->microbatches || work->kind == JOB_WEIGHT) return;
    arrow *a = &w->timeline->arrow[work->m];
    if (a->held && a->iteration != work->iteration) arrow_end(w, work->m);
    if (a->held) {
        arrow_point(w, a, work->m, a->begun ? "t" : "s");
        a->begun = true;
    }
    a->held = true;
    a->iteration = work->iteration;
    a->peer = number;
    a->at_ns = at_ns;
}

void timeline_iteration_over(swarm *w) {
    if (!w->timeline) return;
    timeline_instant(w, SWARM_NO_PEER, "iteration done");
    for (uint32_t m = 0; m < w->s->microbatches; m++) arrow_end(w, m);
}

// ---- slices, spans and marks

static const char *letter(job_kind kind) {
    switch (kind) {
    case JOB_FORWARD: return "F";
    case JOB_LOSS: return "L";
    case JOB_BACKWARD: return "B";
    case JOB_WEIGHT: return "W";
    default: return NULL;
    }
}

void timeline_job(swarm *w, uint32_t number, const job *work, uint64_t start_ns, uint64_t end_ns, bool cut_short) {
    if (!w->timeline) return;
    FILE *file = event_open(w->timeline, "X", PEERS_PID, number + 1, start_ns);
    const char *of_microbatch = letter(work->kind);
    fprintf(file, ",\"dur\":%" PRIu64 ".%03u,\"cat\":\"%s\",\"name\":\"", (end_ns - start_ns) / 1000, (unsigned)((end_ns - start_ns) % 1000),
            of_microbatch ? "compute" : "update");
    if (of_microbatch) fprintf(file, "%s%u", of_microbatch, work->m);
    else fputs(sim_job_name(work->kind), file);
    fprintf(file, "\",\"args\":{\"iteration\":%" PRIu64 ",\"stage\":%u%s}}", work->iteration, work->stage, cut_short ? ",\"lost\":true" : "");
    if (of_microbatch && !cut_short) arrow_on(w, number, work, start_ns);
}

void timeline_flow(swarm *w, const swarm_arc *arc, const swarm_item *item, bool begins) {
    if (!w->timeline) return;
    FILE *file = event_open(w->timeline, begins ? "b" : "e", TENSORS_PID, 0, w->core->now);
    fprintf(file, ",\"cat\":\"tensor\",\"id\":\"%u-%u-%" PRIu64 "\",\"name\":\"", arc->from, arc->to, item->sent_ns);
    text_put(file, w->peer[arc->from].name);
    fputs(" to ", file);
    text_put(file, w->peer[arc->to].name);
    fprintf(file, "\",\"args\":{\"bytes\":%" PRIu64 "}}", item->wire_bytes);
}

void timeline_instant(swarm *w, uint32_t number, const char *what) {
    if (!w->timeline) return;
    bool whole = number == SWARM_NO_PEER;
    FILE *file = event_open(w->timeline, "i", PEERS_PID, whole ? 0 : number + 1, w->core->now);
    fprintf(file, ",\"s\":\"%s\",\"name\":\"%s\"}", whole ? "p" : "t", what);
}

braid_err timeline_close(swarm *w, braid_error *error) {
    timeline *t = w->timeline;
    if (!t) return BRAID_OK;
    for (uint32_t m = 0; m < w->s->microbatches; m++) arrow_end(w, m);
    fputs("\n]}\n", t->file);
    bool bad = ferror(t->file) != 0;
    bad = fclose(t->file) != 0 || bad;
    braid_err err = bad ? braid_fail(error, BRAID_IO, "the timeline %s cannot be written: %s", t->path, strerror(errno)) : BRAID_OK;
    free(t->arrow);
    free(t);
    w->timeline = NULL;
    return err;
}
