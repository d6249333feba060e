// The files that all processes of the swarm share, made before they start: the weights of the model
// to start from, and the caches of tokens.
#include "cli/up_swarm.h"
#include "node/run_data.h"
#include "node/start_model.h"
#include "node/stop.h"

static void say_note(void *context, const char *text) { swarm_note(context, text); }

static bool is_stopped(void *context) {
    (void)context;
    return stop_requested() != 0;
}

braid_err swarm_prepare_data(swarm *s, braid_error *error) {
    const place_host host = {.context = s, .note = say_note, .stopped = is_stopped};
    train_data *data = NULL;
    braid_err err = start_model_make(s->settings.run, &host, s->settings.model, error);
    if (err || !s->settings.run->tokenizer[0]) return err;
    const run_data_config texts = {
        .run = s->settings.run, .threads = s->machine.processors, .describes = true, .host = host};
    err = run_data_open(&texts, &data, error);
    train_data_free(data);
    return err;
}
