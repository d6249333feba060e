// The identity of a machine's arithmetic: the hash of the results of a fixed microbatch. Machines
// of one kernel class compute the same bits and can share a reproducible run.
#ifndef BRAID_TRAIN_KERNEL_CLASS_H
#define BRAID_TRAIN_KERNEL_CLASS_H

#include "base/err.h"
#include "base/id.h"
#include "model/config.h"

// SHA-256 of the results of forward, loss, input gradient and weight gradients of one sequence
// through one block of this model between its ends (a long vocabulary or context is shortened).
// Computed on the calling thread; needs the memory of that block twice. `fastest`: uses the
// processor's fastest products (tensor/gemm.h).
braid_err kernel_class_of(const model_config *model, bool fastest, braid_hash *out, braid_error *error);

#endif
