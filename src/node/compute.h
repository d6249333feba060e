// The compute thread: jobs enter one at a time, answers are delivered on the loop's thread.
#ifndef BRAID_NODE_COMPUTE_H
#define BRAID_NODE_COMPUTE_H

#include "base/err.h"
#include "braid/job.h"

#include <stdbool.h>
#include <uv.h>

typedef struct compute compute;

// Runs on the compute thread; fills every field of `result` except id, kind and cost_ns.
typedef void (*compute_run_fn)(void *context, const job *work, job_result *result);
// Runs on the loop's thread.
typedef void (*compute_done_fn)(void *context, const job *work, const job_result *result);

braid_err compute_new(uv_loop_t *loop, compute_run_fn run, compute_done_fn done, void *context, compute **out, braid_error *error);
// At most one job is under way (rule 3 of braid/peer.h).
void compute_post(compute *c, const job *work);
bool compute_busy(const compute *c);
// Waits for the running job, drops its answer and ends the thread. The loop must run once more for
// the handle to close.
void compute_close(compute *c);

#endif
