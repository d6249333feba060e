#include "format/peer_state.h"

#include <stdio.h>
#include <string.h>

static bool is_set(const char *text) { return text && *text; }

static void put(json_out *o, const char *key, const char *text) {
    if (is_set(text)) json_out_text(o, key, text, strlen(text));
}

void peer_state_put(json_out *o, const peer_state *s) {
    put(o, "id", s->id);
    put(o, "state", s->state);
    put(o, "blocker", s->blocker);
    put(o, "waiting_for", s->waits_for);
    if (s->since_s >= 0) json_out_double(o, "since_s", s->since_s);
    put(o, "next_step", s->next_step);
}

void peer_state_get(const json *document, const json_value *object, peer_state *out) {
    *out = (peer_state){.since_s = -1};
    out->id = json_string(json_member(document, object, "id"));
    out->state = json_string(json_member(document, object, "state"));
    out->blocker = json_string(json_member(document, object, "blocker"));
    out->waits_for = json_string(json_member(document, object, "waiting_for"));
    out->next_step = json_string(json_member(document, object, "next_step"));
    if (!json_double(json_member(document, object, "since_s"), &out->since_s)) out->since_s = -1;
}

static void append(char line[PEER_STATE_LINE], const char *before, const char *text) {
    size_t used = strlen(line);
    if (is_set(text)) snprintf(line + used, PEER_STATE_LINE - used, "%s%s", before, text);
}

void peer_state_line(const peer_state *s, char line[PEER_STATE_LINE]) {
    char time[32] = "";
    snprintf(line, PEER_STATE_LINE, "%s", is_set(s->state) ? s->state : "unknown");
    if (s->since_s >= 0) snprintf(time, sizeof time, "%.0f s", s->since_s);
    append(line, " for ", time);
    append(line, ": ", s->blocker);
    append(line, "; waiting for ", s->waits_for);
    append(line, "; next: ", s->next_step);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
}
