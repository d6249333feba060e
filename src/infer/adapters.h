// LoRA adapters of an engine's texts. The base weights stay as they are: a product with an adapted
// matrix adds s B (A x) to the rows of the texts that use the adapter. So texts of several adapters
// share one call, and the bits of a text depend on its own adapter alone.
#ifndef BRAID_INFER_ADAPTERS_H
#define BRAID_INFER_ADAPTERS_H

#include "infer/engine.h"
#include "weights/peft.h"

typedef struct engine_adapter engine_adapter;

// Copies the matrices of the engine's layers from `p`, an adapter of the engine's model. Free with
// engine_adapter_free, after the sequences that use it.
braid_err engine_adapter_new(const engine *e, const peft_adapter *p, engine_adapter **out, braid_error *error);
void engine_adapter_free(engine_adapter *a);
size_t engine_adapter_bytes(const engine_adapter *a);

// The adapter of an empty sequence; NULL: none. A fork has the same.
void sequence_set_adapter(sequence *s, const engine_adapter *a);
const engine_adapter *sequence_adapter(const sequence *s);

#endif
