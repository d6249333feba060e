// The model that a run adapts, at a relay. Its weights do not travel: each peer reads them from a
// file of its own, and the hash in the run's description says which they are.
#include "node/internal.h"
#include "node/start_model.h"
#include "node/stop.h"
#include "train/checkpoint.h"
#include "train/checkpoint_manifest.h"
#include "weights/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_note(void *context, const char *text) { node_note(context, "%s", text); }

static bool is_stopped(void *context) {
    const node *n = context;
    return n->config.signals && stop_requested() != 0;
}

// True if `from` is a checkpoint of these weights, which need not be converted.
static bool is_that(const node *n) {
    manifest *m = malloc(sizeof *m);
    bool same = m && !manifest_read(n->config.from, m, NULL) && m->adapter.config.rank == 0 &&
                hash_equal(&m->weights, &n->run.weights);
    free(m);
    return same;
}

static braid_err compare_shape(const node *n, braid_error *error) {
    model_file *f = NULL;
    model_difference d;
    braid_err err = model_file_open(n->config.from, &f, error);
    if (err) return err;
    model_config config = *model_file_config(f);
    config.context = n->run.model.context;  // a run may have another one
    if (model_config_differ(&config, &n->run.model, &d))
        err = braid_fail(error, BRAID_CONFIG,
                         "--from: the model '%.200s' is not the one that the run adapts: its %s is %g, the run's is %g",
                         n->config.from, d.member, d.first, d.second);
    model_file_close(f);
    return err;
}

static braid_err convert(node *n, braid_error *error) {
    const place_host host = {.context = n, .note = say_note, .stopped = is_stopped};
    const braid_hash wanted = n->run.weights;
    if (snprintf(n->run.from, sizeof n->run.from, "%s", n->config.from) >= (int)sizeof n->run.from)
        return braid_fail(error, BRAID_LIMIT, "--from: the path is longer than %d bytes", RUN_MAX_PATH - 1);
    braid_err err = start_model_make(&n->run, &host, n->start.model, error);
    if (!err && !hash_equal(&n->run.weights, &wanted))
        err = braid_fail(error, BRAID_CONFIG,
                         "--from: the model '%.200s' has other weights than the one that the run adapts; give that one",
                         n->config.from);
    n->run.weights = wanted;
    return err;
}

braid_err node_open_base(node *n, braid_error *error) {
    if (n->config.role != NODE_RELAY) return BRAID_OK;
    if (n->run.recipe.adapter.rank == 0 && n->config.from)
        return braid_fail(error, BRAID_ARGUMENT,
                          "--from: this run trains a whole model, and a relay gets its weights from other peers; leave "
                          "--from out");
    if (n->run.recipe.adapter.rank == 0) return BRAID_OK;
    if (!n->config.from)
        return braid_fail(error, BRAID_ARGUMENT,
                          "this run trains an adapter of a model that each peer reads from its own file; name that "
                          "model with --from MODEL");
    if (is_that(n)) {
        snprintf(n->start.model, sizeof n->start.model, "%s", n->config.from);
        return BRAID_OK;
    }
    braid_err err = compare_shape(n, error);
    return err ? err : convert(n, error);
}
