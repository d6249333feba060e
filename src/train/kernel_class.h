// What a machine's kernels are called by: the hash of what they make of a known microbatch. Machines of one class give the
// same bits and can share a reproducible run.
#ifndef BRAID_TRAIN_KERNEL_CLASS_H
#define BRAID_TRAIN_KERNEL_CLASS_H

#include "base/err.h"
#include "base/id.h"
#include "model/config.h"

// SHA-256 of the results of forward, loss, input gradient and weight gradients of one sequence through one block of this
// model, between its ends (a long vocabulary or context is cut). Computed on the calling thread; needs the memory of that
// block twice. `fastest`: of products by what this processor does best (tensor/gemm.h).
braid_err kernel_class_of(const model_config *model, bool fastest, braid_hash *out, braid_error *error);

#endif
