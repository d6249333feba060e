// The model that a run starts from, as a checkpoint of version 0 that all peers of this machine
// read.
#ifndef BRAID_NODE_START_MODEL_H
#define BRAID_NODE_START_MODEL_H

#include "data/place.h"
#include "train/files.h"
#include "train/run.h"

// Converts run->from (a Hugging Face directory, a checkpoint or a GGUF file) unless an earlier
// process has. Sets run->weights and `path`; "" if the run has no model to start from. The
// checkpoint has no moments: they begin at zero.
braid_err start_model_make(run_config *run, const place_host *host, char path[FILES_MAX_PATH], braid_error *error);

#endif
