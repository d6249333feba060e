// The log that a peer begins with. Who began a run, or voted in it, and comes back with its log goes on with that run.
#include "node/internal.h"

#include "train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { SHOWN_ID = 4 };  // bytes

braid_err node_open_log(node *n, braid_error *error) {
    log_file_found found;
    braid_err err = n->config.log_path ? log_file_open(n->config.log_path, &n->run_hash, n->generation, &n->log_file, &found, error)
                                       : log_file_open_unkept(&n->log_file, &found, error);
    n->log_store = found.store;
    return err;
}

static braid_err name_start(node *n, braid_error *error) {
    uint64_t name;
    if (getrandom(&name, sizeof name, 0) != sizeof name) return braid_fail(error, BRAID_STATE, "the system gives no random numbers");
    n->generation = name % (UINT64_MAX / NODE_START_VERSIONS) * NODE_START_VERSIONS + jobs_start_version(n->jobs) + 1;
    return BRAID_OK;
}

// What a log says of the run so far. Of its last entries others may not have heard, and then they do not hold.
typedef struct past_run {
    braid_id self;
    uint64_t store;
    bool begun, complete, ended;
    bool foreign;      // another peer kept it,
    braid_id keeper;   // this one
    uint64_t version;  // iterations done
    uint32_t skipped;  // the last of them, without a finite gradient
} past_run;

static void look_at_voters(past_run *past, const log_voters *voters) {
    for (uint32_t i = 0; i < voters->count; i++) {
        const log_voter *v = &voters->voter[i];
        if (v->store != past->store || id_equal(&v->id, &past->self)) continue;
        past->foreign = true;
        past->keeper = v->id;
    }
}

static bool look_at_entry(void *context, const log_entry *entry) {
    past_run *past = context;
    switch (entry->kind) {
    case LOG_BASE: look_at_voters(past, &entry->u.base.voters); break;
    case LOG_VOTERS: look_at_voters(past, &entry->u.voters); break;
    case LOG_RUN:
        past->begun = true;
        past->complete = false;
        past->skipped = 0;
        past->version = entry->u.run.start_version;
        break;
    case LOG_FINAL:
        past->version = entry->u.final.iteration + 1;
        past->complete = entry->u.final.last;
        past->skipped = entry->u.final.skip ? entry->u.final.skipped : 0;
        break;
    case LOG_END: past->ended = true; break;
    default: break;
    }
    return true;
}

static bool weights_lie(const node *n, uint64_t version) {
    char path[FILES_MAX_PATH];
    return !n->run.checkpoint[0] || checkpoint_find(n->run.checkpoint, &n->run_hash, version, NULL, path);
}

static braid_err look_back(node *n, braid_error *error) {
    past_run past = {.self = identity_id(n->config.identity), .store = n->log_store};
    char keeper[2 * SHOWN_ID + 1];
    log_file_recall(n->log_file, look_at_entry, &past);
    id_hex(past.keeper.bytes, SHOWN_ID, keeper);
    if (past.foreign)
        return braid_fail(error, BRAID_ARGUMENT, "the log %s was kept by peer %s, and this one has another identity: give the key that it had (--identity), "
                          "name another log, or begin the run again with --anew", n->config.log_path, keeper);
    if (past.complete && n->run.max_skipped > 0 && past.skipped >= n->run.max_skipped)
        return braid_fail(error, BRAID_STATE, "the run of the log %s has diverged: no gradient was finite in %u iterations up to %llu; lower train.learning_rate and begin it again "
                          "from a checkpoint of before (--anew --resume DIR)", n->config.log_path, past.skipped, (unsigned long long)past.version);
    if ((past.complete || past.ended) && weights_lie(n, past.version))
        return braid_fail(error, BRAID_STATE, "the run of the log %s is %s, after iteration %llu%s%.300s; --anew begins it again", n->config.log_path,
                          past.complete ? "complete" : "over", (unsigned long long)past.version, n->run.checkpoint[0] ? ": its weights lie in " : "", n->run.checkpoint);
    if (past.ended)
        return braid_fail(error, BRAID_STATE, "the run of the log %s has ended, after iteration %llu, and its weights are no more in %.300s; put them back, or begin the run again with --anew",
                          n->config.log_path, (unsigned long long)past.version, n->run.checkpoint);
    node_note(n, past.begun ? "the run of the log %s goes on, after iteration %llu" : "the log %s goes on; its run had not begun", n->config.log_path,
              (unsigned long long)past.version);
    return BRAID_OK;
}

// It goes on without asking whom its user named: that one may be gone for good, and those who vote find each other by their logs.
bool node_remembers_run(node *n) {
    braid_error why;
    bool there = false;
    past_run past = {.self = identity_id(n->config.identity)};
    if (n->config.role != NODE_DATA || !n->config.log_path || n->log_told) return false;  // a relay's log does not describe the run
    braid_err err = log_file_look(n->config.log_path, &n->run_hash, &there, &n->generation, &why);
    if (!err && (!there || n->generation % NODE_START_VERSIONS == 0)) return false;
    if (!err) err = node_open_log(n, &why);
    if (err) {
        node_note(n, "without the leader this peer cannot go on: %.400s", why.text);
        n->log_told = true;
        return false;
    }
    past.store = n->log_store;
    log_file_recall(n->log_file, look_at_entry, &past);
    if (past.begun && !past.foreign && !past.ended) return true;
    log_file_close(n->log_file);
    n->log_file = NULL;
    return false;
}

braid_err node_find_first_log(node *n, braid_error *error) {
    return n->config.log_path && !n->config.anew ? log_file_look(n->config.log_path, &n->run_hash, &n->goes_on, &n->generation, error) : BRAID_OK;
}

braid_err node_open_first_log(node *n, braid_error *error) {
    braid_err err = BRAID_OK;
    if (n->goes_on && n->generation % NODE_START_VERSIONS == 0)
        err = braid_fail(error, BRAID_FORMAT, "the log %s does not say where its run begins; restore it or name another file", n->config.log_path);
    if (!err && !n->goes_on) err = name_start(n, error);
    if (!err) err = node_open_log(n, error);
    return err || !n->goes_on ? err : look_back(n, error);
}
