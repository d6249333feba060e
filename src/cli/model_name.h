// How a served model is presented: its name, age and sampling defaults, from its path.
#ifndef BRAID_CLI_MODEL_NAME_H
#define BRAID_CLI_MODEL_NAME_H

#include <stdint.h>

enum { MODEL_NAME = 128 };

// The last part of the path in lower case without ".gguf". Characters that a URL or JSON would have
// to escape become '-'; "model" where none is left.
void model_name_of(const char *path, char name[MODEL_NAME]);
// Unix time of the file or directory; 0: unknown.
uint64_t model_time(const char *path);
// The text of the directory's generation_config.json, for free; NULL: there is none.
char *model_generation_config(const char *path);

#endif
