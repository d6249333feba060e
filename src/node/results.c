// Completed jobs and durable log entries, which the compute thread and the log's thread report.
#include "node/clock.h"
#include "node/internal.h"

void node_job_run(void *context, const job *work, job_result *result) {
    node *n = context;
    uint64_t start = clock_thread_ns();
    jobs_run(n->jobs, work, result);
    n->measure.job_ns = clock_thread_ns() - start;
}

static void tell_saved(node *n, bool failed) {
    const braid_error *why = jobs_save_error(n->jobs);
    uint32_t removed = failed ? 0 : jobs_saved_removed(n->jobs);
    if (removed > 0)
        node_note(n, "the disk is full: %u older checkpoint%s removed to save this one", removed,
                  removed == 1 ? " was" : "s were");
    if (n->callbacks.saved)
        n->callbacks.saved(n->callbacks.context, jobs_saved_path(n->jobs), failed && why ? why->text : NULL);
}

void node_job_done(void *context, const job *work, const job_result *result) {
    node *n = context;
    node_job_blobs(n, work, blobs_release);
    measure_job(&n->measure, work);
    const braid_error *broken = jobs_worker_error(n->jobs);
    if (broken && jobs_text_lost(n->jobs)) {
        node_text_lost(n, broken);
    } else if (broken) {
        node_fail(n, broken);
        return;
    }
    if (work->kind == JOB_SAVE_END) tell_saved(n, result->failed);
    if (n->phase == NODE_RUNNING)
        node_feed(n, &(event){.kind = EVENT_JOB_DONE, .result = result});
    else if (result->out)
        blobs_release(n->blobs, result->out);
}

void node_committed(void *context, const log_entry *entry) {
    node *n = context;
    if (n->base.left > 0) {
        if (--n->base.left > 0) return;
        entry = &n->base.entry;
    } else if (entry->kind == LOG_BASE && entry->u.base.entries > 0) {
        n->base.entry = *entry;
        n->base.left = entry->u.base.entries;
        return;
    }
    node_feed(n, &(event){.kind = EVENT_STORED, .entry = entry});
}

// A failed log disk of the only voter, or of one of two, ends all decisions, so the state before
// this iteration is saved. With more voters the others continue without this one.
void node_log_failed(void *context, const braid_error *error) {
    node *n = context;
    peer_view view;
    peer_look(n->core, &view);
    n->error = *error;
    if (view.leads && view.voters <= 2 && n->phase == NODE_RUNNING)
        n->ending.unlogged = true;
    else
        n->ending.end_wanted = true;
    if (n->due.stepping) return;
    if (n->ending.end_wanted)
        node_end(n);
    else
        node_unlogged(n);
}
