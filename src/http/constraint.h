// Texts of a prescribed form: `response_format`, `grammar` and a forced tool call of a request.
#ifndef BRAID_HTTP_CONSTRAINT_H
#define BRAID_HTTP_CONSTRAINT_H

#include "http/body.h"
#include "http/grammar.h"
#include "http/prompt.h"

// `response_format` (text, json_object, json_schema) and `grammar` (GBNF). *out stays NULL without.
void constraint_read(grammar **out, body *b);
// A format object {"type": "json_schema", ...}; `name`: the field, for messages.
void constraint_read_format(grammar **out, body *b, const json_value *format, const char *name);
// `tools` and `tool_choice`: sets *calls when the model may call tools, chat->tools to NULL when it
// may not, and a grammar when it must.
void constraint_read_tools(grammar **out, const http_server *s, body *b, prompt_chat *chat, bool *calls);
// A constraint for one text. The grammar is borrowed until its release.
braid_err constraint_new(http_server *s, const grammar *g, service_constraint *out, braid_error *error);
void constraint_vocabulary_free(http_server *s);

#endif
