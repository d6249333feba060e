// Churn of a scenario: probabilities, session lengths, and a trace file of `seconds peer event`
// lines.
#include "sim/scenario_read.h"

#include "format/quantity.h"
#include "format/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MAX_SESSION_S = 31536000, MIN_SESSION_S = 0.001, MAX_SHAPE = 20, MIN_SHAPE = 0.05;

static const char *const event_names[SCENARIO_EVENT_KINDS] = {"crash", "kill", "leave", "pause", "resume", "join"};

// ---- sessions

static braid_err read_sessions(const scenario_reader *r, const yaml_node *node) {
    static const char *const kinds[] = {"exponential", "weibull"};
    scenario_churn *c = &r->s->churn;
    const yaml_node *kind = NULL;
    size_t choice = 0;
    const scenario_key keys[] = {
        {"distribution", KEY_NODE, &kind, 0, 0},
        {"mean_s", KEY_SECONDS, &c->session_mean_ns, MIN_SESSION_S, MAX_SESSION_S},
        {"shape", KEY_SHARE, &c->session_shape, MIN_SHAPE, MAX_SHAPE},
        {"away_s", KEY_SECONDS, &c->away_mean_ns, MIN_SESSION_S, MAX_SESSION_S},
    };
    c->session_shape = 1;
    braid_err code = scenario_read_keys(r, node, "churn.sessions", keys, sizeof keys / sizeof *keys);
    if (code == BRAID_OK && kind != NULL)
        code = yaml_read_choice(r->file, kind, "churn.sessions.distribution", kinds, 2, &choice, r->error);
    if (code != BRAID_OK) return code;
    const yaml_node *shape = yaml_find(node, "shape");
    if (c->session_mean_ns == 0)
        return yaml_fail(r->file, node, r->error,
                         "churn.sessions.mean_s is missing: how long a relay stays; add for example 'mean_s: 3600'");
    if (choice == 0 && shape != NULL)
        return yaml_fail(r->file, shape, r->error,
                         "churn.sessions.shape belongs to 'distribution: weibull': write that, or leave it out");
    c->sessions = choice == 0 ? SESSIONS_EXPONENTIAL : SESSIONS_WEIBULL;
    return BRAID_OK;
}

// ---- the trace file

typedef struct trace_reader {
    const scenario_reader *r;
    const char *path;
    uint32_t line;
} trace_reader;

static braid_err read_event_peer(const trace_reader *t, const char *name, uint32_t *peer) {
    const scenario *s = t->r->s;
    const char *near = NULL;
    *peer = scenario_find_peer(s, name, &near);
    if (*peer == UINT32_MAX)
        return braid_fail(t->r->error, BRAID_CONFIG, "%.200s:%u: no peer is called '%.40s'%s%s%s", t->path, t->line,
                          name, near != NULL ? "; did you mean '" : ": name a peer of the scenario",
                          near != NULL ? near : "", near != NULL ? "'?" : "");
    if (*peer != scenario_leader(s)) return BRAID_OK;
    return braid_fail(t->r->error, BRAID_CONFIG,
                      "%.200s:%u: '%.40s' leads the run, being the first data peer by name, and cannot come and go: name another peer",
                      t->path, t->line, name);
}

static braid_err read_event_kind(const trace_reader *t, const char *word, scenario_event_kind *kind) {
    for (uint32_t i = 0; i < SCENARIO_EVENT_KINDS; i++) {
        if (strcmp(word, event_names[i]) != 0) continue;
        *kind = (scenario_event_kind)i;
        return BRAID_OK;
    }
    const char *near = suggest_name(word, event_names, SCENARIO_EVENT_KINDS);
    return braid_fail(t->r->error, BRAID_CONFIG, "%.200s:%u: unknown event '%.40s'%s%s%s", t->path, t->line, word,
                      near != NULL ? "; did you mean '" : ": write crash, kill, leave, pause, resume or join",
                      near != NULL ? near : "", near != NULL ? "'?" : "");
}

static braid_err read_event(const trace_reader *t, char *text, scenario_event *out) {
    char *rest = NULL;
    const char *time = strtok_r(text, " \t\r", &rest);
    const char *peer = time != NULL ? strtok_r(NULL, " \t\r", &rest) : NULL;
    const char *event = peer != NULL ? strtok_r(NULL, " \t\r", &rest) : NULL;
    if (event == NULL || strtok_r(NULL, " \t\r", &rest) != NULL)
        return braid_fail(t->r->error, BRAID_CONFIG, "%.200s:%u: write 'SECONDS PEER EVENT', like '12.5 relay-3 crash'",
                          t->path, t->line);
    double seconds = 0;
    if (quantity_read_real(time, &seconds, NULL) != BRAID_OK || seconds < 0 || seconds > MAX_SESSION_S)
        return braid_fail(t->r->error, BRAID_CONFIG, "%.200s:%u: '%.40s' is no time: write seconds from 0 to %.0f",
                          t->path, t->line, time, MAX_SESSION_S);
    out->at_ns = (uint64_t)(seconds * 1e9 + 0.5);
    braid_err code = read_event_peer(t, peer, &out->peer);
    return code == BRAID_OK ? read_event_kind(t, event, &out->kind) : code;
}

// A stable sort: events of one time keep the file's order.
static void sort_events(scenario_churn *c) {
    for (uint32_t i = 1; i < c->event_count; i++) {
        scenario_event moved = c->event[i];
        uint32_t at = i;
        for (; at > 0 && c->event[at - 1].at_ns > moved.at_ns; at--) c->event[at] = c->event[at - 1];
        c->event[at] = moved;
    }
}

static braid_err read_events(trace_reader *t, char *text) {
    scenario_churn *c = &t->r->s->churn;
    c->event = calloc(SCENARIO_MAX_EVENTS, sizeof *c->event);
    if (c->event == NULL) return braid_fail(t->r->error, BRAID_MEMORY, "out of memory");
    for (char *line = text; line != NULL; t->line++) {
        char *end = strchr(line, '\n'), *comment;
        if (end != NULL) *end = 0;
        if ((comment = strchr(line, '#')) != NULL) *comment = 0;
        if (line[strspn(line, " \t\r")] != 0) {
            if (c->event_count == SCENARIO_MAX_EVENTS)
                return braid_fail(t->r->error, BRAID_CONFIG, "%.200s:%u: more than %d events: leave some out", t->path,
                                  t->line, SCENARIO_MAX_EVENTS);
            braid_err code = read_event(t, line, &c->event[c->event_count++]);
            if (code != BRAID_OK) return code;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    sort_events(c);
    return BRAID_OK;
}

static braid_err read_trace(const scenario_reader *r, const yaml_node *node) {
    char path[SCENARIO_MAX_PATH], *bytes = NULL;
    size_t length = 0;
    braid_err code = scenario_read_file(r, node, "churn.trace", path, &bytes, &length);
    char *text = code == BRAID_OK ? malloc(length + 1) : NULL;
    if (code == BRAID_OK && text == NULL) code = braid_fail(r->error, BRAID_MEMORY, "out of memory");
    if (code == BRAID_OK) {
        memcpy(text, bytes, length);
        text[length] = 0;
        code = strlen(text) == length
                   ? read_events(&(trace_reader){.r = r, .path = path, .line = 1}, text)
                   : braid_fail(r->error, BRAID_CONFIG, "%.200s: not text: it holds a zero byte", path);
    }
    free(text);
    free(bytes);
    return code;
}

// ---- the whole section

static braid_err read_only(const scenario_reader *r, const yaml_node *node) {
    scenario *s = r->s;
    braid_err code = scenario_read_who(r, node, "churn.only", &s->churn.subjects);
    uint32_t leader = scenario_leader(s);
    if (code == BRAID_OK && scenario_set_has(&s->churn.subjects, leader))
        return yaml_fail(r->file, node, r->error,
                         "churn.only: '%s' leads the run, being the first data peer by name, and cannot come and go: name others, or a group without it",
                         s->peer[leader].name);
    return code;
}

// A peer that only the trace starts must be in the trace.
static braid_err check_starts(const scenario_reader *r) {
    const scenario *s = r->s;
    for (uint32_t i = 0; i < s->peers; i++) {
        bool comes = s->peer[i].start_ns != UINT64_MAX;
        for (uint32_t e = 0; e < s->churn.event_count && !comes; e++)
            comes = s->churn.event[e].peer == i && s->churn.event[e].kind == SCENARIO_JOIN;
        if (comes) continue;
        return yaml_fail(
            r->file, r->peers_node, r->error,
            "'%s' has 'start_s: trace', but no trace under 'churn:' lets it join: add 'SECONDS %s join' to one",
            s->peer[i].name, s->peer[i].name);
    }
    return BRAID_OK;
}

braid_err scenario_read_churn(scenario_reader *r, const yaml_node *node) {
    scenario *s = r->s;
    static const char *const deaths[] = {"machine", "process"};
    const yaml_node *sessions = NULL, *trace = NULL, *only = NULL, *dies = NULL;
    size_t death = 0;
    const scenario_key keys[] = {
        {"crash", KEY_SHARE, &s->churn.crash, 0, 1},
        {"rejoin", KEY_SHARE, &s->churn.rejoin, 0, 1},
        {"sessions", KEY_NODE, &sessions, 0, 0},
        {"trace", KEY_NODE, &trace, 0, 0},
        {"only", KEY_NODE, &only, 0, 0},
        {"dies", KEY_NODE, &dies, 0, 0},
        {"keeps_last", KEY_SWITCH, &s->churn.keeps_last, 0, 0},
    };
    for (uint32_t i = s->data_peers; i < s->peers; i++) scenario_set_add(&s->churn.subjects, i);
    if (node == NULL) return check_starts(r);
    braid_err code = scenario_read_keys(r, node, "churn", keys, sizeof keys / sizeof *keys);
    if (code == BRAID_OK && dies != NULL)
        code = yaml_read_choice(r->file, dies, "churn.dies", deaths, 2, &death, r->error);
    s->churn.kill = death == 1;
    if (code == BRAID_OK && only != NULL) code = read_only(r, only);
    if (code == BRAID_OK && sessions != NULL) code = read_sessions(r, sessions);
    if (code == BRAID_OK && trace != NULL) code = read_trace(r, trace);
    return code == BRAID_OK ? check_starts(r) : code;
}
