// Helpers shared by the files that read tokenizer.json.
#ifndef BRAID_TEXT_LOAD_H
#define BRAID_TEXT_LOAD_H

#include "text/inside.h"

typedef braid_err (*load_step)(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error);

braid_err load_refuse(const char *kind, const char *name, braid_error *error);
braid_err load_malformed(const char *kind, const char *member, braid_error *error);
bool load_flag(const json *d, const json_value *v, const char *name, bool fallback);
braid_err load_text(const json_value *v, const char *kind, const char *member, char **out, size_t *length,
                    braid_error *error);
bool load_character(const json_value *v, char out[5]);
braid_err load_sequence(tokenizer *t, const json *d, const json_value *list, unsigned depth, load_step load,
                        const char *kind, braid_error *error);

#endif
