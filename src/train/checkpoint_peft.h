// The text files of an adapter's checkpoint.
#ifndef BRAID_TRAIN_CHECKPOINT_PEFT_H
#define BRAID_TRAIN_CHECKPOINT_PEFT_H

#include "train/checkpoint.h"

// adapter_config.json as peft 0.21 reads it. The caller frees it; NULL when there is no memory.
char *checkpoint_peft_text(const checkpoint_config *c, size_t *length);

#endif
