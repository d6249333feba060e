#include "cli/tune_session.h"

#include <stdio.h>
#include <stdlib.h>

struct tune_session {
    tune_session_config config;
    identity *identity;
    tuner *tuner;
};

static braid_err read_ticket(const char *text, ticket *out, braid_error *error) {
    braid_err err = ticket_parse(text, out, error);
    if (err) return err;
    if (out->serves) return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT,
                      "--session: this ticket is of a training run; give the one that 'braid serve --peers' prints");
}

braid_err tune_session_open(const tune_session_config *config, tune_session **out, braid_error *error) {
    ticket join;
    *out = NULL;
    braid_err err = read_ticket(config->ticket, &join, error);
    if (err) return err;
    tune_session *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for tuning over a swarm");
    *out = s;
    s->config = *config;
    err = identity_new(&s->identity, error);
    if (err) return err;
    const tuner_config client = {.identity = s->identity,
                                 .file = config->file,
                                 .path = config->path,
                                 .join = join,
                                 .context = config->context,
                                 .note = config->note,
                                 .stops = config->stops};
    return tuner_new(&client, &s->tuner, error);
}

const tune_remote *tune_session_remote(const tune_session *s) { return s && s->tuner ? tuner_remote(s->tuner) : NULL; }

// What travelled, for the user's line.
static void note_counts(const tune_session *s) {
    tuner_counts counts;
    char text[200];
    tuner_look(s->tuner, &counts);
    snprintf(text, sizeof text, "%.1f MiB were sent to the swarm and %.1f MiB received; %llu microbatches were redone",
             (double)counts.sent_bytes / (1 << 20), (double)counts.received_bytes / (1 << 20),
             (unsigned long long)counts.redone);
    if (s->config.note) s->config.note(s->config.context, text);
}

void tune_session_close(tune_session *s) {
    if (!s) return;
    if (s->tuner) note_counts(s);
    tuner_free(s->tuner);
    identity_free(s->identity);
    free(s);
}
