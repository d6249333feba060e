// The files that all processes of the swarm share, made before they start: the weights of the model
// to start from, and the caches of tokens.
#include "cli/up_swarm.h"
#include "node/run_data.h"
#include "node/start_model.h"

static void say_note(void *context, const char *text) { swarm_note(context, text); }

braid_err swarm_prepare_data(swarm *s, braid_error *error) {
    train_data *data = NULL;
    braid_err err = start_model_make(s->run, say_note, s, s->model, error);
    if (err || !s->run->tokenizer[0]) return err;
    const run_data_config texts = {
        .run = s->run, .threads = s->machine.processors, .describes = true, .context = s, .note = say_note};
    err = run_data_open(&texts, &data, error);
    train_data_free(data);
    return err;
}
