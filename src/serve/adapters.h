// The adapters of a service, by name. Each has a version at a time, which texts take and give back.
// A reload replaces the versions of all names at one moment; a version is freed with its last text.
//
// Any thread may call.
#ifndef BRAID_SERVE_ADAPTERS_H
#define BRAID_SERVE_ADAPTERS_H

#include "infer/adapters.h"
#include "braid/executor.h"
#include "weights/model_file.h"

enum { ADAPTERS_MOST = 64 };

typedef struct adapter_place {
    const char *name, *directory;  // of peft
} adapter_place;

typedef struct adapter_set adapter_set;
typedef struct adapter_version adapter_version;

// Reads all adapters. All pointers are borrowed until adapter_set_free. BRAID_CONFIG: too many, or a
// name that is empty, used twice, or the model's own.
braid_err adapter_set_new(const engine *e, const model_file *model, const char *model_name, const adapter_place *places,
                          uint32_t count, adapter_set **out, braid_error *error);
// Versions that texts still have stay.
void adapter_set_free(adapter_set *s);
// Reads all adapters again. After an error all versions are the former ones.
braid_err adapter_set_reload(adapter_set *s, braid_error *error);
// The names, in the order of `places`; `s` NULL has none.
uint32_t adapter_set_count(const adapter_set *s);
const char *adapter_set_name(const adapter_set *s, uint32_t i);
// Memory of the versions, and of a call that computes with the largest of them.
uint64_t adapter_set_bytes(adapter_set *s);

// The version of a name as it is now, for a text; NULL: there is no such name.
adapter_version *adapter_set_take(adapter_set *s, const char *name);
void adapter_version_give_back(adapter_version *v);  // NULL is allowed
const executor_adapter *adapter_version_of(const adapter_version *v);

#endif
