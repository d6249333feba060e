// A trace of machines: its file, and its replay by the simulator.
#include "bench/training/churn_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20, TEXT = 1 << 16 };

// ---- the file

static uint32_t find_node(churn_trace *t, const char *name) {
    uint32_t i = 0;
    while (i < t->nodes && strcmp(t->name[i], name) != 0) i++;
    if (i == t->nodes && i < CHURN_TRACE_MAX_NODES) snprintf(t->name[t->nodes++], sizeof t->name[0], "%s", name);
    return i;
}

static braid_err read_line(churn_trace *t, const char *line, const char *origin, uint32_t number, braid_error *error) {
    char what[8], name[SCENARIO_MAX_NAME];
    uint64_t at_ms = 0;
    int read = sscanf(line, "%" SCNu64 ",%7[a-z],%31[A-Za-z0-9_-]", &at_ms, what, name);
    bool adds = read == 3 && strcmp(what, "add") == 0;
    if (read != 3 || (!adds && strcmp(what, "remove") != 0) || at_ms > (uint64_t)1 << 40)
        return braid_fail(error, BRAID_CONFIG, "%.200s:%u: write MILLISECONDS,add|remove,NAME, like 480000,add,node1",
                          origin, number);
    if (t->events > 0 && at_ms * 1000000 < t->event[t->events - 1].at_ns)
        return braid_fail(error, BRAID_CONFIG, "%.200s:%u: earlier than the line before: sort the lines by time",
                          origin, number);
    uint32_t node = find_node(t, name);
    if (t->events == CHURN_TRACE_MAX_EVENTS || node == CHURN_TRACE_MAX_NODES)
        return braid_fail(error, BRAID_CONFIG, "%.200s:%u: more than %d events or %d machines: leave some out", origin,
                          number, CHURN_TRACE_MAX_EVENTS, CHURN_TRACE_MAX_NODES);
    t->event[t->events++] = (churn_trace_event){at_ms * 1000000, node, adds};
    return BRAID_OK;
}

// Moves time 0 to the moment at which T2_RELAYS machines are there, with all events of that moment.
static braid_err cut_start(churn_trace *t, const char *origin, braid_error *error) {
    uint32_t live = 0, at = 0;
    while (at < t->events && (live < T2_RELAYS || t->event[at].at_ns == t->event[at - 1].at_ns)) {
        const churn_trace_event *e = &t->event[at++];
        live = e->adds ? live + 1 : live - (t->first[e->node] ? 1 : 0);
        t->first[e->node] = e->adds;
    }
    if (live < T2_RELAYS)
        return braid_fail(error, BRAID_CONFIG, "%.200s: never %d machines at once: take a longer trace", origin,
                          T2_RELAYS);
    uint64_t begin_ns = t->event[at - 1].at_ns;
    t->firsts = live;
    memmove(t->event, &t->event[at], (t->events - at) * sizeof *t->event);
    t->events -= at;
    for (uint32_t i = 0; i < t->events; i++) t->event[i].at_ns -= begin_ns;
    t->end_ns = t->events > 0 ? t->event[t->events - 1].at_ns : 0;
    return BRAID_OK;
}

braid_err churn_trace_parse(char *text, const char *origin, churn_trace *out, braid_error *error) {
    uint32_t number = 1;
    *out = (churn_trace){0};
    for (char *line = text; line != NULL; number++) {
        char *end = strchr(line, '\n'), *comment;
        if (end != NULL) *end = 0;
        if ((comment = strchr(line, '#')) != NULL) *comment = 0;
        braid_err err = line[strspn(line, " \t\r")] == 0 ? BRAID_OK : read_line(out, line, origin, number, error);
        if (err) return err;
        line = end != NULL ? end + 1 : NULL;
    }
    return cut_start(out, origin, error);
}

braid_err churn_trace_read(const char *path, churn_trace *out, braid_error *error) {
    FILE *file = fopen(path, "r");
    if (file == NULL) return braid_fail(error, BRAID_IO, "cannot read %.200s: %s", path, strerror(errno));
    char *text = malloc(MOST_BYTES + 1);
    size_t length = text != NULL ? fread(text, 1, MOST_BYTES + 1, file) : 0;
    braid_err err = text == NULL ? braid_fail(error, BRAID_MEMORY, "no memory for %.200s", path) : BRAID_OK;
    if (!err && ferror(file)) err = braid_fail(error, BRAID_IO, "cannot read all of %.200s", path);
    if (!err && length > MOST_BYTES)
        err = braid_fail(error, BRAID_CONFIG, "%.200s is larger than %d bytes: take a shorter trace", path, MOST_BYTES);
    fclose(file);
    if (!err) text[length] = 0;
    if (!err) err = churn_trace_parse(text, path, out, error);
    free(text);
    return err;
}

// ---- the replay

static braid_err add_events(const churn_trace *t, scenario *s, braid_error *error) {
    scenario_churn *c = &s->churn;
    c->event = calloc(t->events + 1, sizeof *c->event);
    if (c->event == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for %u events", t->events);
    c->keeps_last = true;
    for (uint32_t i = 0; i < t->nodes; i++) {
        BRAID_ASSERT(strcmp(s->peer[T2_DATA + i].name, t->name[i]) == 0);  // data peers are first
        if (!t->first[i]) s->peer[T2_DATA + i].start_ns = UINT64_MAX;
    }
    for (uint32_t i = 0; i < t->events; i++) {
        const churn_trace_event *e = &t->event[i];
        c->event[c->event_count++] =
            (scenario_event){e->at_ns, T2_DATA + e->node, e->adds ? SCENARIO_JOIN : SCENARIO_CRASH};
    }
    return BRAID_OK;
}

braid_err churn_trace_scenario(const churn_trace *t, const t2_case *c, t2_system system, scenario **out,
                               braid_error *error) {
    char *text = malloc(TEXT);
    if (text == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for the scenario");
    t2_describe_relays(c, system, t->name, t->nodes, text, TEXT);
    braid_err err = scenario_parse(text, strlen(text), "trace", NULL, out, error);
    free(text);
    if (!err && (err = add_events(t, *out, error))) scenario_free(*out);
    return err;
}

braid_err churn_trace_run(const churn_trace *t, const t2_case *c, t2_system system, uint64_t until_ns,
                          const sim_swarm_options *options, sim_swarm_report *report, braid_error *error) {
    scenario *s;
    sim_swarm_options how = *options;
    how.until_ns = until_ns;
    braid_err err = churn_trace_scenario(t, c, system, &s, error);
    if (err) return err;
    err = sim_swarm_run(s, &how, report, error);
    scenario_free(s);
    return err;
}
