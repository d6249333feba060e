// The matrices that an adapter changes, by the names of Hugging Face's modules.
#ifndef BRAID_TUNE_TARGETS_H
#define BRAID_TUNE_TARGETS_H

#include "base/err.h"
#include "model/adapter.h"

enum { TARGETS_TEXT = 512 };

// `text`: "all", "attention", "mlp", modules such as "q_proj,v_proj", or patterns (adapter_role_named). Writes the roles as
// adapter_config has them. BRAID_CONFIG: the model has no such module; the message names those that
// it has.
braid_err targets_read(const model_config *config, const char *text, uint64_t *roles, braid_error *error);
// The module of a role, e.g. q_proj; with its parent where the last part means several roles.
// NULL: the model has no such matrix.
const char *targets_name(const model_config *config, model_role role);

#endif
