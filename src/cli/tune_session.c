#include "cli/tune_session.h"

#include "cli/serve_peers.h"
#include "span/executor.h"

#include <stdio.h>
#include <stdlib.h>

struct tune_session {
    tune_session_config config;
    identity *identity;
    tuner *tuner;
    // a swarm of this machine
    identity *own;
    executor *executor;
    serve_peers *peers;
};

static braid_err read_ticket(const char *text, ticket *out, braid_error *error) {
    braid_err err = ticket_parse(text, out, error);
    if (err) return err;
    if (out->serves) return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT,
                      "--session: this ticket is of a training run; give the one that 'braid serve --peers' prints");
}

// A serving swarm without an API: this process is the node that the others join.
static braid_err open_relays(tune_session *s, char ticket_text[TICKET_MAX_TEXT], braid_error *error) {
    const tune_session_config *c = &s->config;
    span_config origin = {.listen = "127.0.0.1:0",
                          .path = c->path,
                          .file = c->file,
                          .origin = true,
                          .threads = 1,
                          .callbacks = {.context = c->context, .note = c->note}};
    braid_err err = identity_new(&s->own, error);
    if (!err) err = span_model_read(c->file, c->path, &origin.model, error);
    origin.identity = s->own;
    if (!err) err = executor_chain_new(&origin, &s->executor, error);
    if (err) return err;
    executor_chain_ticket(s->executor, ticket_text);
    const serve_peers_config peers = {.ticket = ticket_text,
                                      .model = c->path,
                                      .peers = c->relays,
                                      .copies = 1,
                                      .layers = origin.model.layers,
                                      .threads = c->threads,
                                      .max_memory = c->max_memory,
                                      .note = c->note,
                                      .context = c->context};
    return serve_peers_start(&peers, &s->peers, error);
}

braid_err tune_session_open(const tune_session_config *config, tune_session **out, braid_error *error) {
    char ticket_text[TICKET_MAX_TEXT];
    const char *given = config->ticket;
    ticket join;
    tune_session *s = *out = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for tuning over a swarm");
    s->config = *config;
    braid_err err = given ? BRAID_OK : open_relays(s, ticket_text, error);
    if (!err) err = read_ticket(given ? given : ticket_text, &join, error);
    if (!err) err = identity_new(&s->identity, error);
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

void tune_session_tell(const tune_session *s) {
    tuner_counts counts;
    char text[200];
    if (!s || !s->tuner) return;
    tuner_look(s->tuner, &counts);
    snprintf(text, sizeof text, "%.1f MiB were sent to the swarm and %.1f MiB received; %llu microbatches were redone",
             (double)counts.sent_bytes / (1 << 20), (double)counts.received_bytes / (1 << 20),
             (unsigned long long)counts.redone);
    if (s->config.note) s->config.note(s->config.context, text);
}

void tune_session_close(tune_session *s) {
    if (!s) return;
    tuner_free(s->tuner);
    if (s->executor) executor_free(s->executor);
    serve_peers_stop(s->peers);
    identity_free(s->own);
    identity_free(s->identity);
    free(s);
}
