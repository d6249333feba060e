// The log that a peer starts with. A peer that started a run or voted in it, and restarts with its
// log, continues that run.
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
    if (getrandom(&name, sizeof name, 0) != sizeof name) return braid_fail(error, BRAID_STATE, "the system provides no random numbers");
    n->generation = name % (UINT64_MAX / NODE_START_VERSIONS) * NODE_START_VERSIONS + jobs_start_version(n->jobs) + 1;
    return BRAID_OK;
}

// The run as the log describes it. Its last entries may be uncommitted, and are then void.
typedef struct past_run {
    braid_id self;
    uint64_t store;
    bool begun, complete, ended;
    bool foreign;      // another peer wrote the log:
    braid_id keeper;   // the id of that peer
    uint64_t version;  // iterations done
    uint64_t saved;    // newest version to roll back to, by this log
    uint32_t skipped;  // of these, the last ones without a finite gradient
    uint32_t voters;   // as of the last entry
} past_run;

static void look_at_voters(past_run *past, const log_voters *voters) {
    past->voters = voters->count;
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
        past->version = past->saved = entry->u.run.start_version;
        break;
    case LOG_CHECKPOINT:
        if (entry->u.checkpoint.version > past->saved) past->saved = entry->u.checkpoint.version;
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

static void recall_past(const node *n, past_run *past) {
    *past = (past_run){.self = identity_id(n->config.identity), .store = n->log_store};
    log_file_recall(n->log_file, look_at_entry, past);
}

static void close_log(node *n) {
    log_file_close(n->log_file);
    n->log_file = NULL;
}

// Without either of these the run cannot continue, whatever its directory contains.
static braid_err check_past(const node *n, const past_run *past, braid_error *error) {
    char keeper[2 * SHOWN_ID + 1];
    id_hex(past->keeper.bytes, SHOWN_ID, keeper);
    if (past->foreign)
        return braid_fail(error, BRAID_ARGUMENT, "the log %s belongs to peer %s, and this peer has another identity: give that peer's key (--identity), "
                          "name another log, or start the run again with --anew", n->config.log_path, keeper);
    if (past->complete && n->run.max_skipped > 0 && past->skipped >= n->run.max_skipped)
        return braid_fail(error, BRAID_STATE, "the run of the log %s has diverged: no gradient was finite in %u iterations up to %llu; lower train.learning_rate and start it again "
                          "from an earlier checkpoint (--anew --resume DIR)", n->config.log_path, past->skipped, (unsigned long long)past->version);
    return BRAID_OK;
}

static braid_err look_back(node *n, braid_error *error) {
    past_run past;
    recall_past(n, &past);
    braid_err err = check_past(n, &past, error);
    if (err) return err;
    if ((past.complete || past.ended) && weights_lie(n, past.version))
        return braid_fail(error, BRAID_STATE, "the run of the log %s is %s, after iteration %llu%s%.300s; --anew starts it again", n->config.log_path,
                          past.complete ? "complete" : "over", (unsigned long long)past.version, n->run.checkpoint[0] ? ": its weights are in " : "", n->run.checkpoint);
    if (past.ended)
        return braid_fail(error, BRAID_STATE, "the run of the log %s has ended, after iteration %llu, and its weights are not in %.300s any more; restore them, or start the run again with --anew",
                          n->config.log_path, (unsigned long long)past.version, n->run.checkpoint);
    node_note(n, past.begun ? "continuing the run of the log %s after iteration %llu" : "continuing the log %s; its run had not started", n->config.log_path,
              (unsigned long long)past.version);
    return BRAID_OK;
}

// ---- --continue: one command line for the first start and every restart
// --------------------------------------------

// A run that was stopped in order has no peers left. The same holds after the only voter's log disk
// was full: it saved the state and ended the run, and its log lacks that checkpoint. With three or
// more voters the run may continue without this peer, so the log decides.
static bool begins_again(const node *n, const past_run *past, uint64_t newest) {
    if (past->complete) return weights_lie(n, past->version);
    return past->ended || (past->begun && past->voters <= 2 && newest > past->saved);
}

static braid_err review_log(node *n, uint64_t newest, braid_error *error) {
    past_run past;
    braid_err err = node_open_log(n, error);
    if (err) return err;
    recall_past(n, &past);
    close_log(n);
    err = check_past(n, &past, error);
    if (err || !begins_again(n, &past, newest)) return err;
    n->goes_on = false;
    if (past.complete) return BRAID_OK;
    node_note(n, "the run of the log %s %s after iteration %llu; it continues as a new start, from iteration %llu", n->config.log_path,
              past.ended ? "was stopped" : "lacks its newest checkpoint,", (unsigned long long)past.version, (unsigned long long)newest);
    return BRAID_OK;
}

braid_err node_find_newest(node *n, braid_error *error) {
    uint64_t newest = 0, start = n->generation % NODE_START_VERSIONS;
    if (!n->config.continues) return BRAID_OK;
    bool found = checkpoint_find_newest(n->run.checkpoint, &n->run_hash, n->resume, &newest);
    braid_err err = n->goes_on && start > 0 ? review_log(n, newest, error) : BRAID_OK;
    if (err) return err;
    if (n->goes_on) found = start > 0 && checkpoint_find(n->run.checkpoint, &n->run_hash, start - 1, NULL, n->resume);
    if (found) n->config.resume = n->resume;
    return BRAID_OK;
}

static bool open_known_log(node *n, past_run *past, braid_err *err, braid_error *why) {
    bool there = false;
    *err = log_file_look(n->config.log_path, &n->run_hash, &there, &n->generation, why);
    if (*err || !there || n->generation % NODE_START_VERSIONS == 0) return false;
    *err = node_open_log(n, why);
    if (!*err) recall_past(n, past);
    return !*err;
}

bool node_remembers_end(node *n) {
    braid_error why;
    braid_err err;
    past_run past;
    if (n->config.role != NODE_DATA || !n->config.log_path || !open_known_log(n, &past, &err, &why)) return false;
    close_log(n);
    if (!past.complete || !past.ended) return false;
    node_note(n, "nothing to do: by the log %s the run is complete, after iteration %llu", n->config.log_path, (unsigned long long)past.version);
    return true;
}

// Such a peer continues without asking the peer that its user named, which may be gone for good:
// voters find each other by their logs.
bool node_remembers_run(node *n) {
    braid_error why;
    braid_err err;
    past_run past;
    if (n->config.role != NODE_DATA || !n->config.log_path || n->log_told) return false;  // a relay's log does not describe the run
    bool known = open_known_log(n, &past, &err, &why);
    if (err) {
        node_note(n, "this peer cannot continue without the leader: %.400s", why.text);
        n->log_told = true;
        return false;
    }
    if (known && past.begun && !past.foreign && !past.ended) return true;
    close_log(n);
    return false;
}

braid_err node_find_first_log(node *n, braid_error *error) {
    return n->config.log_path && !n->config.anew ? log_file_look(n->config.log_path, &n->run_hash, &n->goes_on, &n->generation, error) : BRAID_OK;
}

braid_err node_open_first_log(node *n, braid_error *error) {
    braid_err err = BRAID_OK;
    if (n->goes_on && n->generation % NODE_START_VERSIONS == 0)
        err = braid_fail(error, BRAID_FORMAT, "the log %s lacks the version that its run starts from; restore it or name another file", n->config.log_path);
    if (!err && !n->goes_on) err = name_start(n, error);
    if (!err) err = node_open_log(n, error);
    return err || !n->goes_on ? err : look_back(n, error);
}
